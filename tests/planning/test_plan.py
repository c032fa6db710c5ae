"""A plan has the files that the filter leaves, the residual filter, and no more files than a limit needs."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lakescan.common import types as t
from lakescan.common.schema import Schema
from lakescan.expressions.bind import bind
from lakescan.expressions.predicate import TRUE, Predicate
from lakescan.expressions.sql import parse_filter
from lakescan.planning.candidates import Candidates
from lakescan.planning.column_stats import ColumnStats
from lakescan.planning.file_table import DELETES, FILES, FileTable
from lakescan.planning.plan import PackingOptions, ScanPlan, make_plan
from lakescan.planning.scan_report import ScanMetrics
from lakescan.planning.split import NO_END
from lakescan.planning.task_groups import TaskGroups

SCHEMA = Schema((t.Field(1, "i", t.LONG),))


def table(
    bounds: list[tuple[int, int]],
    deletes: list[list[int]] | None = None,
    size: int = 100,
    kind: str = "deletion-vector",
    delete_size: int = 7,
) -> FileTable:
    rows = [
        {
            "path": f"f{n}",
            "file_format": "parquet",
            "size": size,
            "record_count": 10,
            "spec_id": 0,
            "deletes": deletes[n] if deletes and kind != "equality-deletes" else [],
            "equality_deletes": ranges(deletes[n]) if deletes and kind == "equality-deletes" else [],
        }
        for n in range(len(bounds))
    ]
    nothing = pa.array([{}] * len(rows), pa.struct([]))
    files = pa.Table.from_pylist(rows, schema=FILES)
    files = files.append_column("partition", nothing).append_column("constants", nothing)
    vectors = pa.Table.from_pylist(
        [{"kind": kind, "path": f"d{n}", "size": delete_size, "scope": "", "equality_ids": [1]} for n in range(3)],
        schema=DELETES,
    )
    zeros = pa.array([0] * len(rows), pa.int64())
    stats = ColumnStats(pa.array([b[0] for b in bounds]), pa.array([b[1] for b in bounds]), zeros, None, None)
    return FileTable(files, vectors, {1: stats}, {0: ()})


def ranges(rows: list[int]) -> list[dict[str, int]]:
    return [{"first": rows[0], "stop": rows[-1] + 1}] if rows else []


def plan(files: FileTable, condition: str | None = None, limit: int | None = None, **packing: int) -> ScanPlan:
    predicate: Predicate = TRUE if condition is None else bind(parse_filter(condition), SCHEMA)
    describe = {"table": "t", "format": "iceberg", "snapshot_id": 1, "snapshot_timestamp": None, "schema_id": 0}
    options = PackingOptions(**packing)
    return make_plan(
        Candidates.prune_table(files, predicate, {}),
        schema=SCHEMA,
        table_schema=SCHEMA,
        predicate=predicate,
        packing=options,
        limit=limit,
        metrics=ScanMetrics(),
        describe=describe,
    )


def test_files_that_cannot_match_are_left_out_and_counted() -> None:
    found = plan(table([(1, 5), (6, 9), (3, 8)]), "i >= 6")
    assert found.files["path"].to_pylist() == ["f1", "f2"]
    assert found.report.skipped_by_stats == 1
    assert found.report.metrics.skipped_data_files == 1


def test_a_conjunct_that_every_row_satisfies_is_not_in_the_residual() -> None:
    found = plan(table([(1, 5), (6, 9)]), "i >= 1 and i < 8")
    residuals = {
        path: str(found.residuals[n])
        for path, n in zip(["f0", "f1"], found.splits["residual"].to_pylist(), strict=True)
    }
    assert residuals == {"f0": "true", "f1": "i < 8"}


def test_files_with_the_same_residual_share_it() -> None:
    found = plan(table([(0, 9)] * 5), "i > 3")
    assert len(found.residuals) == 1


def test_a_limit_plans_no_more_files_than_needed() -> None:
    found = plan(table([(0, 9)] * 5), limit=15)
    assert found.files["path"].to_pylist() == ["f0", "f1"]
    assert found.report.skipped_by_limit == 3


def test_a_limit_keeps_all_files_if_deletes_or_a_filter_may_remove_rows() -> None:
    assert len(plan(table([(0, 9)] * 3, deletes=[[0], [], []]), limit=1).files) == 3
    assert len(plan(table([(0, 9)] * 3), "i > 3", limit=1).files) == 3


def test_unreferenced_deletes_are_left_out() -> None:
    found = plan(table([(0, 9), (0, 9)], deletes=[[2], [2, 0]]))
    assert found.deletes["path"].to_pylist() == ["d0", "d2"]
    assert found.files["deletes"].to_pylist() == [[1], [1, 0]]


def test_a_delete_file_counts_in_the_report_for_each_file_it_applies_to() -> None:
    metrics = plan(table([(0, 9), (0, 9)], deletes=[[2], [2, 0]])).report.metrics
    assert metrics.result_delete_files == 3
    assert metrics.total_delete_file_size_in_bytes == 21


def test_groups_hold_every_split_once_with_just_its_deletes() -> None:
    found = plan(table([(0, 9)] * 4, deletes=[[0], [], [2], [0]]), split_size=250, open_cost=1)
    groups = list(found.groups)
    assert sorted(t.path for g in groups for t in g.tasks()) == ["f0", "f1", "f2", "f3"]
    for group in groups:
        wanted = {t.path: [d.path for d in t.deletes] for t in group.tasks()}
        assert all(wanted[p] == {"f0": ["d0"], "f1": [], "f2": ["d2"], "f3": ["d0"]}[p] for p in wanted)
    assert found.groups.sizes["bytes"].to_pylist() == [sum(np.array(g.splits["length"])) for g in groups]


def test_a_delete_file_that_splits_of_a_group_share_is_counted_there_once() -> None:
    files = table([(0, 9)] * 4, deletes=[[0], [0, 1], [], [0]])
    assert plan(files).groups.sizes["delete_bytes"].to_pylist() == [14]
    apart = plan(files, split_size=100, open_cost=1).groups.sizes
    assert sorted(apart["delete_bytes"].to_pylist()) == [0, 7, 7, 14]


def test_groups_that_share_equality_deletes_are_read_together() -> None:
    deletes = [[0, 1, 2], [1, 2], [2], [], []]
    found = plan(table([(0, 9)] * 5, deletes, kind="equality-deletes"), split_size=100, open_cost=1)
    assert len(found.groups) == 5
    together = [[t.path for t in group.tasks()] for group in found.groups.merge_groups(1)]
    assert together == [["f0", "f1", "f2"], ["f3"], ["f4"]]
    assert list(found.groups.merge_groups(1).sizes["delete_bytes"].to_numpy()) == [21, 0, 0]
    by_position = plan(table([(0, 9)] * 5, deletes), split_size=100, open_cost=1)
    assert len(by_position.groups.merge_groups(1)) == 5


def test_groups_that_share_equality_deletes_stay_as_large_as_a_split() -> None:
    size = 50 * 2**20
    found = plan(table([(0, 9)] * 4, [[0, 1]] * 4, size=size, kind="equality-deletes"))
    assert len(found.groups.merge_groups(1)) == 2


def test_groups_share_equality_deletes_that_are_larger_than_a_split() -> None:
    deletes = [[0, 1, 2], [1, 2], [2]]
    files = table([(0, 9)] * 3, deletes, size=2**20, kind="equality-deletes", delete_size=2**28)
    assert len(plan(files).groups) == 3
    assert len(plan(files).groups.merge_groups(2)) == 1


def test_neighbouring_splits_of_a_file_in_a_group_are_joined_for_a_reader() -> None:
    groups = plan(table([(0, 9)] * 2, size=2**20), split_size=2**19, open_cost=1).groups
    whole = plan(table([(0, 9)] * 2, size=2**20), split_size=2**18, open_cost=1)
    packed = PackingOptions(split_size=2**21, open_cost=1).groups_of(whole.splits["length"].to_numpy(), 2**21)
    joined = TaskGroups(whole.table, whole.splits, packed).join_splits()
    assert len(whole.splits) == 8
    assert [(t.path, t.start, t.stop) for t in joined.tasks()] == [("f0", 0, NO_END), ("f1", 0, NO_END)]
    assert joined.sizes["bytes"].to_pylist() == [2**21]
    assert [(t.path, t.start) for t in groups.join_splits().tasks()] == [(t.path, t.start) for t in groups.tasks()]


def test_a_plan_of_no_files_has_no_groups() -> None:
    found = plan(table([(1, 5)]), "i > 100")
    assert len(found.groups) == 0
    assert found.report.records == 0


def test_the_report_names_its_counters_as_iceberg_does() -> None:
    counters = plan(table([(1, 5)])).report.to_dict()["metrics"]
    assert counters["result-data-files"] == 1
    assert {"total-planning-duration", "skipped-delete-manifests", "indexed-delete-files", "dvs"} <= counters.keys()
