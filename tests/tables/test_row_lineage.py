"""Format version 3: rows keep their ids, and columns have defaults."""

from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime, time
from decimal import Decimal

import pyarrow as pa
import pytest

import lakescan
from tests.tables.support import now, rows

VERSION_3 = {"format-version": "3"}
A, B, C = (1, "a"), (2, "a"), (3, "b")


@pytest.fixture
def three(local: lakescan.Catalog) -> lakescan.Table:
    return local.create_table("db.t", "id BIGINT, part STRING", partition_by=["part"], properties=VERSION_3)


def lineage() -> dict[int, tuple[int, int]]:
    """Return, by column `id`, each row's row id and the sequence number of its last change."""
    found = now().scan().select("id", "_row_id", "_last_updated_sequence_number").to_arrow().to_pylist()
    assert len({row["_row_id"] for row in found}) == len(found)
    return {row["id"]: (row["_row_id"], row["_last_updated_sequence_number"]) for row in found}


def test_rows_are_numbered_in_the_order_of_commits(three: lakescan.Table) -> None:
    three.append(rows(A, B))
    now().append(rows(C))
    assert lineage() == {1: (0, 1), 2: (1, 1), 3: (2, 2)}


def test_remaining_rows_keep_their_ids_when_others_are_replaced(three: lakescan.Table) -> None:
    three.append(rows(A, B, C))
    before = lineage()
    now().overwrite(rows(A), where="id = 1")  # the file has the row 2, too
    after = lineage()
    assert {number: after[number] for number in (2, 3)} == {number: before[number] for number in (2, 3)}
    assert after[1][0] > max(row_id for row_id, _ in before.values())
    assert after[1][1] == 2


def test_rows_keep_their_ids_when_files_are_merged(three: lakescan.Table) -> None:
    three.append(rows(A))
    now().append(rows(B))
    now().append(rows(C))
    before = lineage()
    assert now().compact().removed_files == 2
    assert lineage() == before
    now().append(rows((4, "a")))
    assert lineage()[4][0] >= 3


def test_concurrent_writers_assign_no_row_id_twice(three: lakescan.Table) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: now().append(rows((number, "a"), (number + 100, "b"))), range(8)))
    assert len(lineage()) == 16


def test_branches_continue_the_row_ids_of_the_table(three: lakescan.Table) -> None:
    three.append(rows(A))
    now().append(rows(B), branch="audit")
    now().append(rows(C))
    found = now().scan().as_of(branch="audit").select("id", "_row_id").to_arrow().to_pylist()
    assert {row["id"]: row["_row_id"] for row in found} == {1: 0, 2: 1}
    assert lineage() == {1: (0, 1), 3: (2, 3)}


def test_a_column_named_like_a_lineage_column_is_not_overwritten(local: lakescan.Catalog) -> None:
    table = local.create_table("db.t", "id BIGINT, _row_id BIGINT", properties=VERSION_3)
    table.append(pa.table({"id": [1, 2], "_row_id": [7, 8]}))
    now().overwrite(pa.table({"id": [1], "_row_id": [9]}), where="id = 1")
    found = now().scan().select("id", "_row_id", "_lakescan_row_id as lineage").to_arrow().to_pylist()
    assert {(row["id"], row["_row_id"]) for row in found} == {(1, 9), (2, 8)}
    assert {row["lineage"] for row in found if row["id"] == 2} == {1}


DEFAULTS = {
    "i": ("INT", 3),
    "f": ("DOUBLE", 0.5),
    "d": ("DECIMAL(9, 2)", Decimal("1.50")),
    "day": ("DATE", date(2026, 1, 2)),
    "at": ("TIMESTAMP", datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)),
    "local_at": ("TIMESTAMP_NTZ", datetime(2026, 1, 2, 3, 4, 5)),
    "s": ("STRING", "it's"),
    "b": ("BINARY", b"\x00\xff"),
    "yes": ("BOOLEAN", True),
}


def test_rows_without_a_column_have_its_default(local: lakescan.Catalog) -> None:
    columns = ", ".join(f"{name} {kind} NOT NULL" for name, (kind, _) in DEFAULTS.items())
    defaults = {name: value for name, (_, value) in DEFAULTS.items()}
    table = local.create_table("db.t", f"id BIGINT, {columns}", properties=VERSION_3, defaults=defaults)
    table.append(pa.table({"id": [1]}))
    now().append(pa.table({"id": [2], "i": pa.array([4], pa.int32())}))
    found = now().scan().to_arrow().sort_by("id").to_pylist()
    assert found == [{"id": 1, **defaults}, {"id": 2, **defaults, "i": 4}]


def test_arrow_types_have_defaults_too(local: lakescan.Catalog) -> None:
    value = uuid.uuid4()
    columns = pa.schema([("id", pa.int64()), ("u", pa.uuid()), ("t", pa.time64("us")), ("x", pa.binary(2))])
    defaults = {"u": value, "t": time(1, 2, 3), "x": b"ab"}
    local.create_table("db.t", columns, properties=VERSION_3, defaults=defaults).append(pa.table({"id": [1]}))
    assert now().scan().to_arrow().to_pylist() == [{"id": 1, **defaults}]


def test_a_replaced_table_keeps_its_version_and_takes_new_defaults(three: lakescan.Table) -> None:
    three.append(rows(A, B, C))
    lakescan.sql(None, "CREATE OR REPLACE TABLE local.db.t (id BIGINT, note STRING DEFAULT 'new') USING iceberg")
    assert now().scan().count() == 0
    now().append(pa.table({"id": [5]}))
    assert now().scan().to_arrow().to_pylist() == [{"id": 5, "note": "new"}]
    assert lineage() == {5: (3, 3)}
    with pytest.raises(lakescan.UnsupportedFeature, match="of format version 3, by a table of another"):
        lakescan.sql(None, "CREATE OR REPLACE TABLE local.db.t (id INT) TBLPROPERTIES ('format-version'='2')")
