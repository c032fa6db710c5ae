"""Following a table yields its current rows, then the rows of new commits, each once, wherever a reader restarts."""

from __future__ import annotations

import json
import tempfile
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lakescan
from tests.api.streams.support import Growing, rows_of


def offsets_of(follower: lakescan.BatchStream) -> list[dict[str, Any]]:
    """Return the offsets between the plans of a follower."""
    found = [follower.offset]
    for _ in follower:
        if follower.offset != found[-1]:
            found.append(follower.offset)
    return [*found, follower.offset]


@pytest.fixture(params=["iceberg", "delta"])
def growing(request: pytest.FixtureRequest, tmp_path: Path) -> Growing:
    return Growing(request.param, tmp_path)


def test_the_whole_table_is_read_first_and_then_the_rows_of_commits(growing: Growing) -> None:
    growing.append(1, 2)
    growing.append(3)
    follower = growing.follow()
    assert sorted(rows_of(follower)) == [1, 2, 3]
    assert growing.rows(follower.offset) == []
    growing.append(4)
    growing.append(5, 6)
    assert growing.rows(follower.offset)[0] == 4
    assert sorted(growing.rows(follower.offset)) == [4, 5, 6]


def test_an_empty_table_is_followed_from_its_first_rows(growing: Growing) -> None:
    follower = growing.follow()
    assert rows_of(follower) == []
    growing.append(1)
    assert growing.rows(follower.offset) == [1]


@pytest.mark.slow
@pytest.mark.parametrize("limit", ["maxFilesPerTrigger", "maxRowsPerTrigger"])
def test_commits_are_split_and_can_be_resumed_in_the_middle(growing: Growing, limit: str) -> None:
    """Offsets are small, and a reader that starts at any offset reads the remaining rows."""
    growing.append(1, 2, 3)
    growing.append(4, 5, 6, 7)
    offsets = offsets_of(growing.follow(**{limit: 2}))
    assert len(offsets) >= 4
    assert all(len(json.dumps(offset)) < 150 for offset in offsets)
    lefts = [growing.rows(offset, **{limit: 2}) for offset in offsets]
    assert [len(left) for left in lefts] == sorted((len(left) for left in lefts), reverse=True)
    assert sorted(lefts[0]) == [1, 2, 3, 4, 5, 6, 7]
    growing.append(8, 9, 10)
    for offset, left in zip(offsets, lefts, strict=True):
        assert sorted(growing.rows(offset, **{limit: 2})) == sorted([*left, 8, 9, 10])


def test_at_least_one_file_is_read_however_small_the_limit(growing: Growing) -> None:
    growing.append(1, 2)
    assert sorted(growing.rows(maxBytesPerTrigger=1)) == [1, 2]


def test_commits_that_remove_rows_end_a_stream_and_the_error_lists_the_options(growing: Growing) -> None:
    growing.append(1, 2)
    start = growing.follow()
    assert sorted(rows_of(start)) == [1, 2]
    growing.append(3)
    growing.delete(1)
    growing.append(4)
    follower = growing.follow(start.offset)
    assert next(follower)["id"].to_pylist() == [3]
    with pytest.raises(lakescan.RowsChanged, match=r"delete.*on-change=skip.*on-change=added-rows.*skip-operations"):
        next(follower)
    for options in ({"on-change": "skip"}, {"on-change": "added-rows"}, {"skip-operations": "delete"}):
        assert growing.rows(start.offset, **options) == [3, 4]
    theirs = "streaming-skip-delete-snapshots" if growing.name == "iceberg" else "ignoreDeletes"
    assert growing.rows(start.offset, **{theirs: True}) == [3, 4]


def test_offsets_do_not_depend_on_the_filter_and_columns(growing: Growing) -> None:
    growing.append(1, 2, 3, 4)
    offsets = offsets_of(growing.follow(maxFilesPerTrigger=1))
    found = [growing.rows(offset, filter="id > 2", maxFilesPerTrigger=1) for offset in offsets]
    assert sorted(found[0]) == [3, 4]
    whole = [growing.rows(offset, maxFilesPerTrigger=1) for offset in offsets]
    assert found == [[n for n in rows if n > 2] for rows in whole]


def test_the_backlog_counts_the_unread_rows(growing: Growing) -> None:
    growing.append(1)
    follower = growing.follow()
    rows_of(follower)
    growing.append(2)
    growing.append(3, 4)
    backlog = growing.follow(follower.offset).backlog
    assert (backlog.commits, backlog.files, backlog.rows) == (2, 3, 3)
    assert backlog.bytes > 0


def test_an_offset_of_another_table_is_refused(growing: Growing) -> None:
    growing.append(1)
    offset = growing.follow().offset
    with pytest.raises(lakescan.InvalidOption, match="another table"):
        growing.follow(offset | {"table": "x"})
    with pytest.raises(lakescan.InvalidOption, match=r"is not a valid \w+ stream offset"):
        growing.follow({"x": 1})


def test_options_of_streams_are_refused_by_batches(growing: Growing) -> None:
    with pytest.raises(lakescan.InvalidOption, match="is for streams"):
        lakescan.table(growing.path).scan().options(maxRowsPerTrigger=1).to_arrow()


def test_a_follower_waits_until_it_is_closed(growing: Growing) -> None:
    growing.append(1)
    follower = lakescan.table(growing.path).stream(monitor_interval="50ms")
    assert next(follower)["id"].to_pylist() == [1]
    growing.append(2)
    assert next(follower)["id"].to_pylist() == [2]
    threading.Timer(0.2, follower.close).start()
    assert list(follower) == []


STEPS = st.lists(st.lists(st.integers(0, 99), min_size=1, max_size=4, unique=True), min_size=1, max_size=4)


@pytest.mark.slow
@settings(max_examples=8)
@given(steps=STEPS, limit=st.integers(1, 5), name=st.sampled_from(["iceberg", "delta"]))
def test_every_row_is_read_once_however_a_stream_is_divided(steps: list[list[int]], limit: int, name: str) -> None:
    """A new reader takes over after each plan, while the writer goes on."""
    with tempfile.TemporaryDirectory() as folder:
        growing = Growing(name, Path(folder))
        found: list[int] = []
        offset: dict[str, Any] | None = None
        for step in [*steps, None, None]:
            if step is not None:
                growing.append(*step)
            follower = growing.follow(offset, maxFilesPerTrigger=limit)
            at = follower.offset
            for batch in follower:
                if follower.offset != at and step is not None:
                    break
                found += batch["id"].to_pylist()
            offset = follower.offset
        assert sorted(found) == sorted(n for step in steps for n in step)
