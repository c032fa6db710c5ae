"""Columns added by a write are part of the commit of its rows: a failed write leaves the table unchanged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakescan
from lakescan.errors import AmbiguousMerge, CommitConflict, LakescanError
from lakescan.tables.base import Target

FORMATS = ("iceberg", "delta", "mapped")
WIDE = pa.table({"id": [2, 3], "s": ["b", "c"], "more": [{"x": 1}, None]})


@pytest.fixture(params=FORMATS)
def table(request: pytest.FixtureRequest, tmp_path: Path) -> lakescan.Table:
    kind = request.param
    local = lakescan.catalog("adds", warehouse=str(tmp_path))
    local.create_namespace("db")
    properties = " TBLPROPERTIES ('delta.columnMapping.mode'='name')" if kind == "mapped" else ""
    lakescan.sql(
        f"CREATE TABLE adds.db.t (id BIGINT, s STRING) USING {'iceberg' if kind == 'iceberg' else 'delta'}{properties}"
    )
    found = now()
    found.append(pa.table({"id": [1, 2], "s": ["a", "x"]}))
    return now()


def now() -> lakescan.Table:
    return lakescan.table("adds.db.t")


def states() -> int:
    """Return how many metadata files, or versions, the table has had."""
    found: Any = now().scan().spec.table
    return len(found.metadata.metadata_log) + 1 if found.name == "iceberg" else now().scan().spec.snapshot.id + 1


def rows() -> list[dict[str, Any]]:
    return now().to_arrow().sort_by("id").to_pylist()


WRITES = {
    "append": lambda: now().append(WIDE, merge_schema=True),
    "insert": lambda: lakescan.sql("INSERT WITH SCHEMA EVOLUTION INTO adds.db.t SELECT * FROM s", s=WIDE),
    "overwrite": lambda: now().overwrite(WIDE, merge_schema=True),
    "overwrite where": lambda: now().overwrite(WIDE, where="id = 2 OR id = 3", merge_schema=True),
    "merge": lambda: lakescan.sql(
        "MERGE WITH SCHEMA EVOLUTION INTO adds.db.t t USING s ON t.id = s.id WHEN MATCHED THEN UPDATE SET * "
        "WHEN NOT MATCHED THEN INSERT *",
        s=WIDE,
    ),
    "merge of itself": lambda: lakescan.sql(
        "MERGE WITH SCHEMA EVOLUTION INTO adds.db.t t USING (SELECT *, named_struct('x', id) AS more FROM adds.db.t) s "
        "ON t.id = s.id WHEN MATCHED AND s.id = 2 THEN UPDATE SET *"
    ),
    "upsert": lambda: now().upsert(WIDE, keys=["id"], merge_schema=True),
}


@pytest.mark.parametrize("write", WRITES)
def test_columns_and_rows_are_one_commit(table: lakescan.Table, write: str) -> None:
    before = states()
    WRITES[write]()
    assert states() == before + 1
    assert {"x": 2 if write == "merge of itself" else 1} in [row["more"] for row in rows() if row["id"] == 2]
    assert all(row["more"] is None for row in rows() if row["id"] == 1)


def failing(*_: Any) -> None:
    raise OSError("no more space")


@pytest.mark.parametrize("write", WRITES)
def test_a_write_that_fails_adds_no_column(table: lakescan.Table, write: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before, had = states(), rows()
    monkeypatch.setattr("lakescan.writing.parquet_writer.PartitionedWriter.write", failing)
    with pytest.raises(OSError, match="no more space"):
        WRITES[write]()
    assert (states(), rows()) == (before, had)


def test_an_ambiguous_merge_and_rows_that_do_not_fit_add_no_column(table: lakescan.Table) -> None:
    before = states()
    with pytest.raises(AmbiguousMerge):
        lakescan.sql(
            "MERGE WITH SCHEMA EVOLUTION INTO adds.db.t t USING s ON t.id = s.id WHEN MATCHED THEN UPDATE SET *",
            s=pa.concat_tables([WIDE, WIDE]),
        )
    with pytest.raises(LakescanError):
        now().append(pa.table({"id": ["no number"], "more": [{"x": 1}]}), merge_schema=True)
    assert states() == before


def test_a_write_without_rows_adds_its_columns(table: lakescan.Table) -> None:
    now().append(WIDE.slice(0, 0), merge_schema=True)
    assert now().schema.names == ["id", "s", "more"]
    lakescan.sql(
        "MERGE WITH SCHEMA EVOLUTION INTO adds.db.t t USING s ON t.id = s.id WHEN MATCHED THEN UPDATE SET *",
        s=pa.table({"id": [99], "s": ["z"], "other": [1]}),
    )
    assert now().schema.names == ["id", "s", "more", "other"]


def meanwhile(monkeypatch: pytest.MonkeyPatch, does: Any) -> None:
    """Let another writer act after the data files are written and before their commit."""
    left = [does]
    for name in ("iceberg.target.IcebergTarget", "delta.target.DeltaTarget"):
        own = f"lakescan.{name}.append"
        module, _, method = own.rpartition(".")
        original = getattr(_resolved(module), method)

        def append(target: Target, files: Any, original: Any = original) -> None:
            if left:
                left.pop()()
            original(target, files)

        monkeypatch.setattr(own, append)


def _resolved(path: str) -> Any:
    import importlib

    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)


def test_concurrent_rows_are_kept_and_other_concurrent_columns_conflict(
    table: lakescan.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    meanwhile(monkeypatch, lambda: now().append(pa.table({"id": [7], "s": ["other"]})))
    now().append(WIDE, merge_schema=True)
    assert [row["id"] for row in rows()] == [1, 2, 2, 3, 7]
    meanwhile(monkeypatch, lambda: now().alter().add_column("theirs", "INT").commit())
    with pytest.raises(CommitConflict, match="columns"):
        now().append(pa.table({"id": [8], "mine": [1]}), merge_schema=True)
    assert now().schema.names == ["id", "s", "more", "theirs"]
    assert now().count() == 5


def test_iceberg_accepts_an_identical_concurrently_added_column(
    table: lakescan.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    if now().scan().spec.table.name != "iceberg":
        pytest.skip("any change of a Delta table's metadata is a conflict")
    meanwhile(monkeypatch, lambda: now().append(WIDE.slice(0, 1), merge_schema=True))
    now().append(WIDE.slice(1), merge_schema=True)
    assert [row["id"] for row in rows()] == [1, 2, 2, 3]
    assert [row["more"] for row in rows() if row["more"] is not None] == [{"x": 1}]
