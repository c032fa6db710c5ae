"""The files that a compaction rewrites: by the thresholds of `rewrite_data_files`, and files with deletes."""

from __future__ import annotations

from typing import Any

import pytest

import lakescan
from tests.tables.support import Make, maker, now, pairs, rows

MERGE_ON_READ = {
    "iceberg": {"write.delete.mode": "merge-on-read"},
    "iceberg version 3": {"write.delete.mode": "merge-on-read"},
    "delta": {"delta.enableDeletionVectors": "true"},
}


@pytest.fixture(params=list(MERGE_ON_READ))
def table(request: pytest.FixtureRequest, local: lakescan.Catalog) -> str:
    """Two files of ten rows, in the partitions `a` (ids 0 to 9) and `b` (10 to 19), with recorded deletes."""
    maker(request.param, local)(properties=MERGE_ON_READ[request.param])
    now().append(rows(*((n, "ab"[n // 10]) for n in range(20))))
    return str(request.param)


def with_deletes() -> int:
    """Return the number of files with deletes."""
    return sum(count > 0 for count in now().scan().plan().table.references.counts.tolist())


def test_files_with_deletes_are_rewritten_by_default(table: str) -> None:
    now().delete("id in (1, 11)")
    assert with_deletes() == 2
    done = now().compact()
    assert (done.removed_files, done.files, done.rows) == (2, 2, 18)
    assert with_deletes() == 0
    assert [n for n, _ in pairs()] == [n for n in range(20) if n not in (1, 11)]


@pytest.mark.parametrize(("ratio", "rewritten"), [(0.3, ["a"]), (0.1, ["a", "b"]), (0.5, [])])
def test_files_are_rewritten_above_a_share_of_deleted_rows(table: str, ratio: float, rewritten: list[str]) -> None:
    now().delete("id in (1, 2, 3, 11)")  # 30% of a, 10% of b
    before = pairs()
    assert now().compact(delete_ratio_threshold=ratio).removed_files == len(rewritten)
    assert with_deletes() == 2 - len(rewritten)
    assert pairs() == before


def test_files_are_rewritten_above_a_number_of_deletes(table: str) -> None:
    now().delete("id = 1")
    assert not now().compact(delete_file_threshold=2).removed_files
    assert with_deletes() == 1
    assert now().compact(delete_file_threshold=1).removed_files == 1


def test_a_share_of_deleted_rows_applies_in_addition_to_a_number_of_deletes(table: str) -> None:
    now().delete("id in (1, 2, 3)")
    assert now().compact(delete_file_threshold=100).removed_files == 1


def test_purge_rewrites_files_with_deletes_and_no_others(table: str) -> None:
    now().append(rows((30, "b")))  # small files of b
    now().delete("id = 1")
    assert now().compact(purge=True, delete_ratio_threshold=0.9).removed_files == 1
    assert with_deletes() == 0
    assert now().scan().plan().files.num_rows == 3


@pytest.mark.parametrize(("options", "removed"), [({}, 3), ({"min_input_files": 4}, 0), ({"min-input-files": "3"}, 3)])
def test_files_are_merged_if_there_are_enough(made: Make, options: Any, removed: int) -> None:
    made()
    for n in range(3):
        now().append(rows((n, "a")))
    assert now().compact(**options).removed_files == removed


def test_sizes_decide_which_files_are_rewritten(made: Make) -> None:
    made()
    for n in range(3):
        now().append(rows((n, "a")))
    now().append(rows(*((n, "a") for n in range(10, 20_000))))
    sizes = sorted(now().scan().plan().files["size"].to_pylist())
    assert now().compact(min_file_size_bytes=sizes[0]).removed_files == 0  # none is smaller
    with pytest.raises(lakescan.InvalidOption, match="not above the target file size"):
        now().compact(max_file_size_bytes=sizes[-1] - 1)
    done = now().compact(min_file_size_bytes=1, target_file_size_bytes=sizes[0], max_file_size_bytes=sizes[-1] - 1)
    assert done.removed_files == 1  # it was too large
    assert len(pairs()) == 3 + 20_000 - 10


def test_all_files_are_rewritten_on_request(table: str) -> None:
    assert now().compact().removed_files == 0
    assert now().compact(rewrite_all=True).removed_files == 2
    assert now().compact(rewrite_all=True, where="part = 'a'").removed_files == 1


def test_a_group_has_at_most_the_requested_bytes(made: Make) -> None:
    made()
    for n in range(4):
        now().append(rows((n, "a")))
    size = max(now().scan().plan().files["size"].to_pylist())
    before = now().history().num_rows
    done = now().compact(max_file_group_size_bytes=2 * size, partial_progress_enabled=True)
    assert (done.removed_files, done.files) == (4, 2)
    assert now().history().num_rows == before + 2  # a commit for each group
    assert [n for n, _ in pairs()] == [0, 1, 2, 3]
