"""Upserts without reading the table: the JVM applies lakescan's equality deletes and their conversions equally."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

import lakescan

Row = tuple[int, str]


@pytest.fixture(params=[(version, by) for version in "23" for by in ((), ("bucket(2, id)",))], ids=str)
def table(request: pytest.FixtureRequest, rest: lakescan.Catalog, rest_uri: str) -> Iterator[lakescan.Table]:
    """The table `db.u` of the REST catalog."""
    version, by = request.param
    local = lakescan.catalog("local", type="rest", uri=rest_uri)
    yield local.create_table("db.u", "id BIGINT, value STRING", partition_by=by, properties={"format-version": version})
    rest.drop_table("db.u")


def upsert(table: lakescan.Table, value: str, *ids: int) -> None:
    table.upsert(pa.table({"id": ids, "value": [value] * len(ids)}), "id", upsert_mode="equality")


def check(jvm: Any, table: lakescan.Table, expected: dict[int, str]) -> None:
    """Check that both sides read these rows."""
    jvm.sql("REFRESH TABLE rest.db.u")
    assert sorted(tuple(row) for row in jvm.table("rest.db.u").collect()) == sorted(expected.items())
    assert sorted(tuple(row.values()) for row in table.refresh().to_arrow().to_pylist()) == sorted(expected.items())


def test_the_jvm_applies_deletes_by_key_and_their_conversions(jvm: Any, table: lakescan.Table) -> None:
    upsert(table, "a", *range(10))
    upsert(table, "b", 1, 3, 5)
    rows = dict.fromkeys(range(10), "a") | dict.fromkeys((1, 3, 5), "b")
    check(jvm, table, rows)
    jvm.sql("INSERT INTO rest.db.u VALUES (20, 'jvm')")
    upsert(table.refresh(), "c", 20, 1)
    rows |= {20: "c", 1: "c"}
    check(jvm, table, rows)
    assert table.convert_equality_deletes().rows == 5
    check(jvm, table, rows)
    kinds = jvm.sql("SELECT DISTINCT content FROM rest.db.u.delete_files").collect()
    assert [row[0] for row in kinds] == [1]
    upsert(table.refresh(), "d", 2)
    jvm.sql("CALL rest.system.rewrite_data_files(table => 'db.u', options => map('rewrite-all', 'true'))")
    check(jvm, table, rows | {2: "d"})
