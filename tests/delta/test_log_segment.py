"""A version's log segment is a checkpoint and the commits after it, without gaps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from lakescan.delta.log.segment import LogListing, end_of_log, list_log, next_commits
from lakescan.errors import CorruptMetadata, NoSuchSnapshot, NotATable
from lakescan.storage import FileEntry, Storage

UUID = "3a0d65cd-4056-49b8-937b-95f9e3ee90e5"


def listing(table: Path, *names: str) -> LogListing:
    (table / "_delta_log").mkdir()
    for name in names:
        (table / "_delta_log" / name).write_text("{}")
    return list_log(str(table), Storage())


def commit(version: int) -> str:
    return f"{version:020d}.json"


def checkpoint(version: int, rest: str = "parquet") -> str:
    return f"{version:020d}.checkpoint.{rest}"


def test_without_a_checkpoint_all_commits_are_read(tmp_path: Path) -> None:
    segment = listing(tmp_path, commit(0), commit(1), commit(2)).segment()
    assert (segment.version, segment.checkpoint, [c.version for c in segment.commits]) == (2, None, [0, 1, 2])


def test_the_newest_checkpoint_up_to_the_version_is_the_base(tmp_path: Path) -> None:
    found = listing(tmp_path, *map(commit, range(8)), checkpoint(2), checkpoint(5))
    for version, base, after in [(7, 5, [6, 7]), (5, 5, []), (4, 2, [3, 4])]:
        segment = found.segment(version)
        assert segment.checkpoint is not None
        assert (segment.checkpoint.version, [c.version for c in segment.commits]) == (base, after)


def test_a_multi_part_checkpoint_counts_only_if_complete(tmp_path: Path) -> None:
    parts = [checkpoint(3, f"{i:010d}.{3:010d}.parquet") for i in (1, 2, 3)]
    incomplete = [checkpoint(4, f"{i:010d}.{2:010d}.parquet") for i in (1,)]
    segment = listing(tmp_path, *map(commit, range(6)), *parts, *incomplete).segment()
    assert segment.checkpoint is not None
    assert (segment.checkpoint.version, len(segment.checkpoint.parts)) == (3, 3)


def test_checkpoints_named_by_uuid_count(tmp_path: Path) -> None:
    segment = listing(tmp_path, commit(1), commit(2), checkpoint(1, f"{UUID}.json")).segment()
    assert segment.checkpoint is not None
    assert segment.checkpoint.version == 1


def test_a_gap_is_refused_with_the_version_that_is_missing(tmp_path: Path) -> None:
    found = listing(tmp_path, commit(0), commit(1), commit(3))
    with pytest.raises(CorruptMetadata, match="commit 2 "):
        found.segment()
    assert found.segment(1).version == 1


def test_a_version_whose_commits_were_cleaned_up_cannot_be_read(tmp_path: Path) -> None:
    found = listing(tmp_path, commit(4), commit(5), commit(6), checkpoint(5))
    assert found.segment(5).version == 5
    with pytest.raises(NoSuchSnapshot, match="were removed"):
        found.segment(4)


def test_a_version_past_the_newest_is_refused_with_the_newest(tmp_path: Path) -> None:
    with pytest.raises(NoSuchSnapshot, match="its newest is 0"):
        listing(tmp_path, commit(0)).segment(3)


def test_other_files_in_the_log_do_not_matter(tmp_path: Path) -> None:
    names = ("_last_checkpoint", f"{0:020d}.crc", f".{commit(9)}.tmp", "0.json", f"{0:020d}.{1:020d}.compacted.json")
    assert listing(tmp_path, commit(0), *names).segment().version == 0


def test_an_empty_log_is_not_a_table(tmp_path: Path) -> None:
    with pytest.raises(NotATable, match="_delta_log is empty"):
        listing(tmp_path)


def pointed(table: Path, pointer: str, *names: str) -> LogListing | None:
    listing(table, *names)
    (table / "_delta_log" / "_last_checkpoint").write_text(pointer)
    return end_of_log(str(table), Storage())


@pytest.mark.parametrize(
    ("pointer", "files"),
    [
        ('{"version": 5, "size": 3}', ["parquet"]),
        ('{"version": 5, "size": 3, "parts": 2}', [f"{i:010d}.{2:010d}.parquet" for i in (1, 2)]),
        (f'{{"version": 5, "v2Checkpoint": {{"path": "{5:020d}.checkpoint.{UUID}.json"}}}}', [f"{UUID}.json"]),
    ],
)
def test_the_end_of_the_log_is_the_pointer_and_the_commits_after_it(
    tmp_path: Path, pointer: str, files: list[str]
) -> None:
    end = pointed(tmp_path, pointer, *map(commit, range(40)), *(checkpoint(5, f) for f in files))
    assert end is not None
    segment = end.segment()
    assert (segment.version, [c.version for c in segment.commits]) == (39, list(range(6, 40)))
    assert segment == list_log(str(tmp_path), Storage()).segment()


def test_commits_before_the_checkpoint_may_be_gone(tmp_path: Path) -> None:
    end = pointed(tmp_path, '{"version": 5}', checkpoint(5), commit(6))
    assert end is not None
    assert (end.first, end.latest) == (5, 6)


def test_many_commits_are_found_although_the_commit_of_the_checkpoint_is_gone(
    tmp_path: Path,
) -> None:
    end = pointed(tmp_path, '{"version": 5}', checkpoint(5), *map(commit, range(6, 40)))
    assert end is not None
    assert (end.first, end.latest) == (5, 39)


class ListsWhole(Storage):
    """A store that treats the start-after name as a hint: it lists the whole folder, or lists it in another order."""

    in_order = True

    def names_after(self, folder: str, after: str) -> Iterator[Sequence[FileEntry]] | None:
        found = sorted(self.list(folder), key=lambda entry: entry.name, reverse=not self.in_order)
        return iter([[entry for entry in found if self.in_order or entry.name > after]])


@pytest.mark.parametrize("in_order", [True, False])
def test_a_store_without_ordered_start_after_listing_is_asked_for_each_commit(tmp_path: Path, in_order: bool) -> None:
    listing(tmp_path, *map(commit, range(8)))
    storage = ListsWhole()
    storage.in_order = in_order
    assert [each.version for each in next_commits(str(tmp_path), 5, storage)] == [5, 6, 7]


@pytest.mark.parametrize(
    "pointer", ["", "{", "[]", '{"version": "x"}', '{"version": 7}', '{"version": 5, "parts": 2}', "{}"]
)
def test_a_pointer_to_a_missing_checkpoint_is_ignored(tmp_path: Path, pointer: str) -> None:
    assert pointed(tmp_path, pointer, *map(commit, range(8)), checkpoint(5)) is None


def test_a_gap_after_the_checkpoint_falls_back_to_a_full_listing(tmp_path: Path) -> None:
    assert pointed(tmp_path, '{"version": 5}', checkpoint(5), commit(6), commit(8)) is None
    with pytest.raises(CorruptMetadata, match="commit 7 "):
        list_log(str(tmp_path), Storage()).segment()
