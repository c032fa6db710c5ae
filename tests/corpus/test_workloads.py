"""Acceptance workloads pass, or are in the ratchet. Hand-made workloads check that the runner detects differences."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from tests.corpus.workloads import RATCHET, Workload, workloads_below, workloads_folder

CASES = workloads_below(workloads_folder())


@pytest.mark.skipif(not CASES, reason="no acceptance workloads: set LAKESCAN_WORKLOADS to their folder")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_an_acceptance_case_gives_its_expected_result(case: Workload) -> None:
    problem, reason = case.problem(), RATCHET.get(case.name)
    if reason is None:
        assert not problem, problem
    elif problem:
        pytest.xfail(f"in the ratchet: {reason}")
    else:
        pytest.fail(f"{case.name} passes: take it out of workloads_ratchet.json")


@pytest.mark.skipif(not CASES, reason="no acceptance workloads")
def test_the_ratchet_names_only_existing_cases() -> None:
    assert set(RATCHET) <= {case.name for case in CASES}


ROWS = pa.table({"id": [1, 2, 3], "part": ["a", "b", "b"]})


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The folder of a case without specifications."""
    table = tmp_path / "one" / "delta"
    write_deltalake(str(table), ROWS.slice(0, 2))
    write_deltalake(str(table), ROWS.slice(2), mode="append")
    return tmp_path


def specified(root: Path, rows: pa.Table | None = None, **spec: Any) -> str:
    """Return the problem of one workload."""
    (root / "one" / "specs").mkdir(exist_ok=True)
    (root / "one" / "specs" / "w.json").write_text(json.dumps(spec))
    if rows is not None:
        folder = root / "one" / "expected" / "w" / "expected_data"
        folder.mkdir(parents=True, exist_ok=True)
        pq.write_table(rows, folder / "part-00000.parquet")
    (case,) = workloads_below(root)
    assert case.name == "one/w"
    return case.problem()


def test_a_read_is_compared_with_its_rows(root: Path) -> None:
    assert specified(root, ROWS, type="read", expected={"rowCount": 3}) == ""
    assert specified(root, ROWS.slice(0, 2), type="read", version=0, expected={"rowCount": 2}) == ""
    assert specified(root, ROWS.slice(1).select(["id"]), type="read", predicate="part = 'b'", columns=["id"]) == ""
    assert "instead of 4" in specified(root, ROWS, type="read", expected={"rowCount": 4})
    other = ROWS.set_column(0, "id", pa.array([1, 2, 4]))
    assert "unexpected" in specified(root, other, type="read", expected={"rowCount": 3})


def test_an_expected_error_must_be_raised(root: Path) -> None:
    assert specified(root, type="read", version=9, error={"errorCode": "X"}) == ""
    assert "no error" in specified(root, type="read", error={"errorCode": "X"})
    assert "NoSuchSnapshot" in specified(root, type="read", version=9, expected={"rowCount": 3})


def test_a_snapshot_is_compared_with_its_protocol_and_metadata(root: Path) -> None:
    table = DeltaTable(str(root / "one" / "delta"))
    protocol = {"minReaderVersion": 1, "minWriterVersion": 2}
    metadata = {"id": str(table.metadata().id), "partitionColumns": [], "configuration": {}}
    told = {"protocol": protocol, "metadata": metadata}
    assert specified(root, type="snapshotConstruction", expected=told) == ""
    wrong = {"protocol": protocol | {"minReaderVersion": 3}, "metadata": metadata | {"id": "x"}}
    found = specified(root, type="snapshotConstruction", expected=wrong)
    assert "protocol (1, 2) instead of (3, 2)" in found
    assert "id " in found


def test_versions_of_reader_tests_are_cases(root: Path) -> None:
    for name, rows in (("v0", ROWS.slice(0, 2)), ("latest", ROWS)):
        folder = root / "one" / "expected" / name / "table_content"
        folder.mkdir(parents=True)
        pq.write_table(rows, folder / "part-00000.parquet")
    cases = workloads_below(root)
    assert [case.name for case in cases] == ["one/latest", "one/v0"]
    assert [case.problem() for case in cases] == ["", ""]
