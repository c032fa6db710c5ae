"""The JVM reads lakescan's compactions and rewritten deletes; its own rewrites follow."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.support.row_changes import MERGE_ON_READ
from tests.tables.support import now, pairs

import lakescan

ROWS = 40
PARTITION = {**MERGE_ON_READ, "write.delete.granularity": "partition"}


@pytest.fixture(params=["2", "3"])
def table(request: pytest.FixtureRequest, rest: lakescan.Catalog, rest_uri: str) -> Iterator[lakescan.Table]:
    """Make four files of the table `db.t` of the REST catalog, each with ids from the whole range."""
    local = lakescan.catalog("local", type="rest", uri=rest_uri)
    made = local.create_table(
        "db.t",
        "id BIGINT, part STRING",
        partition_by=["part"],
        sort_by=["id DESC"],
        properties={"format-version": request.param, **PARTITION},
    )
    for start in range(4):
        ids = list(range(start, ROWS, 4))
        now().append(pa.table({"id": ids, "part": ["ab"[n // 20] for n in ids]}))
    yield made
    rest.drop_table("db.t")


def check(jvm: Any) -> None:
    """Check that the JVM reads the same rows."""
    jvm.sql("REFRESH TABLE rest.db.t")
    assert sorted(tuple(row) for row in jvm.table("rest.db.t").collect()) == pairs()


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"strategy": "sort"},
        {"strategy": "zorder", "zorder_by": ["id", "part"]},
        {"partial_progress_enabled": True, "use_starting_sequence_number": True},
        {"remove_dangling_deletes": True},
    ],
    ids=lambda options: " ".join(options) or "binpack",
)
def test_the_jvm_reads_compacted_files(jvm: Any, table: lakescan.Table, options: dict[str, Any]) -> None:
    now().delete("id % 7 = 3")
    jvm.sql("DELETE FROM rest.db.t WHERE id IN (1, 22)")
    expected = [(n, "ab"[n // 20]) for n in range(ROWS) if n % 7 != 3 and n not in (1, 22)]
    now().compact(**options)
    assert pairs() == expected
    check(jvm)
    assert jvm.sql("SELECT count(*) FROM rest.db.t.delete_files").first()[0] == 0
    if options.get("strategy") == "sort":
        orders = [row[0] for row in jvm.sql("SELECT sort_order_id FROM rest.db.t.files").collect()]
        assert orders == [1, 1]
    jvm.sql("DELETE FROM rest.db.t WHERE id = 2")
    jvm.sql("CALL rest.system.rewrite_data_files(table => 'db.t', options => map('rewrite-all', 'true'))")
    check(jvm)


def test_the_jvm_reads_rewritten_position_deletes(jvm: Any, table: lakescan.Table) -> None:
    for n in (0, 1, 2, 3, 4, 24):
        now().delete(f"id = {n}")
    done = now().rewrite_position_deletes(rewrite_all=True)
    check(jvm)
    if done.rewritten_delete_files:  # not in version 3, where deletes are vectors
        assert (done.rewritten_delete_files, done.added_delete_files) == (6, 2)
        assert jvm.sql("SELECT count(*) FROM rest.db.t.delete_files").first()[0] == 2
    jvm.sql("DELETE FROM rest.db.t WHERE id = 30")
    jvm.sql("CALL rest.system.rewrite_position_delete_files(table => 'db.t', options => map('rewrite-all', 'true'))")
    check(jvm)


def test_delta_on_spark_reads_and_continues_compacted_tables(jvm: Any, tmp_path: Path) -> None:
    name = f"delta.`{tmp_path}/t`"
    jvm.sql(
        f"CREATE TABLE {name} (id BIGINT, part STRING) USING delta TBLPROPERTIES ("
        "delta.enableDeletionVectors = true, delta.enableRowTracking = true, delta.columnMapping.mode = 'name')"
    )
    for start in range(4):
        jvm.sql(f"INSERT INTO {name} SELECT id * 4 + {start}, 'a' FROM range(10)")
    jvm.sql(f"DELETE FROM {name} WHERE id % 7 = 3")
    expected = [n for n in range(ROWS) if n % 7 != 3]
    ids = {row["id"]: row["row_id"] for row in jvm.sql(f"SELECT id, _metadata.row_id FROM {name}").collect()}
    for options in ({"purge": True}, {"strategy": "zorder", "zorder_by": ["id"], "max_records_per_file": 10}):
        done = lakescan.table(tmp_path / "t").compact(**options)
        assert done.removed_files
        found = jvm.sql(f"SELECT id, _metadata.row_id FROM {name}").collect()
        assert {row["id"]: row["row_id"] for row in found} == ids
    last = jvm.sql(f"DESCRIBE HISTORY {name} LIMIT 1").first()
    assert (last["operation"], last["operationParameters"]["zOrderBy"]) == ("OPTIMIZE", '["id"]')
    jvm.sql(f"DELETE FROM {name} WHERE id = 0")
    jvm.sql(f"OPTIMIZE {name}")
    assert sorted(lakescan.table(tmp_path / "t").scan().to_arrow()["id"].to_pylist()) == expected[1:]
