"""Flink writes every type in every file format; lakescan reads the same values and filters by them."""

from __future__ import annotations

from typing import Any

import pytest

import lakescan

from .session import FlinkSession, in_order, rows_of

# Column, type, and the values of three rows; the second is null everywhere.
COLUMNS = (
    ("b", "BOOLEAN", "TRUE", "FALSE"),
    ("i", "INT", "7", "-2147483648"),
    ("l", "BIGINT", "7", "-9223372036854775808"),
    ("f", "FLOAT", "1.5", "-0.0"),
    ("d", "DOUBLE", "2.5", "1e308"),
    ("n", "DECIMAL(9, 2)", "123.45", "-9999999.99"),
    ("n38", "DECIMAL(38, 10)", "'1234567890123456789.0123456789'", "'-0.0000000001'"),
    ("s", "STRING", "'hé😀'", "''"),
    ("x", "BYTES", "x'00ff10'", "x''"),
    ("x4", "BINARY(4)", "x'01020304'", "x'ffffffff'"),
    ("dt", "DATE", "DATE '2024-02-29'", "DATE '0001-01-01'"),
    ("tm", "TIME", "TIME '12:34:56'", "TIME '00:00:00'"),
    ("t3", "TIMESTAMP(3)", "TIMESTAMP '2024-01-01 00:00:00.123'", "TIMESTAMP '1969-12-31 23:59:59.999'"),
    ("t6", "TIMESTAMP(6)", "TIMESTAMP '2024-01-01 00:00:00.123456'", "TIMESTAMP '1969-12-31 23:59:59.999999'"),
    ("z6", "TIMESTAMP_LTZ(6)", "TIMESTAMP '2024-03-31 01:02:03.654321'", "TIMESTAMP '1900-01-01 00:00:00.000001'"),
    ("a", "ARRAY<INT>", "ARRAY[1, CAST(NULL AS INT), 3]", "NULL"),
    ("am", "ARRAY<ROW<x INT, y STRING>>", "ARRAY[ROW(1, 'a'), ROW(CAST(NULL AS INT), 'b')]", "NULL"),
    ("m", "MAP<STRING, BIGINT>", "MAP['k', CAST(1 AS BIGINT), 'j', CAST(NULL AS BIGINT)]", "NULL"),
    (
        "r",
        "ROW<x INT, y ROW<z DECIMAL(5, 1)>>",
        "ROW(1, ROW(CAST(1.5 AS DECIMAL(5, 1))))",
        "ROW(2, CAST(NULL AS ROW<z DECIMAL(5, 1)>))",
    ),
)
OF_VERSION_3 = (
    ("t9", "TIMESTAMP(9)", "TIMESTAMP '2024-01-01 00:00:00.123456789'", "TIMESTAMP '1969-12-31 23:59:59.999999999'"),
    (
        "z9",
        "TIMESTAMP_LTZ(9)",
        "TIMESTAMP '2024-01-01 00:00:00.987654321'",
        "TIMESTAMP '1700-01-01 00:00:00.000000001'",
    ),
)
NOT_COMPARED = ("a", "am", "m", "r")


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("file_format", ["parquet", "avro", "orc"])
def test_values_and_filters_equal_those_of_flink(
    lake: lakescan.Catalog, flink: FlinkSession, file_format: str, version: int
) -> None:
    name = f"types_{file_format}_{version}"
    columns = COLUMNS + (OF_VERSION_3 if version == 3 else ())
    declared = ", ".join(f"{column} {kind}" for column, kind, *_ in columns)
    rows = [[one for _, _, one, _ in columns], ["NULL"] * len(columns), [other for *_, other in columns]]
    selects = [
        f"SELECT CAST({n} AS BIGINT), " + ", ".join(f"CAST({v} AS {c[1]})" for v, c in zip(row, columns, strict=True))
        for n, row in enumerate(rows)
    ]
    flink.sql(
        f"CREATE TABLE lake.db.{name} (id BIGINT NOT NULL, {declared}) "
        f"WITH ('format-version'='{version}', 'write.format.default'='{file_format}')",
        *(f"INSERT INTO lake.db.{name} {select}" for select in selects),  # one file per row: filters may prune them
    )
    table = lakescan.table(f"lake.db.{name}")
    found = table.scan().to_arrow()
    assert in_order(rows_of(found)) == in_order(flink.sql(f"SELECT * FROM lake.db.{name}"))
    for column in (each[0] for each in columns if each[0] not in NOT_COMPARED):
        for value in found[column]:
            assert ids(table, column, value) == expected(found, column, value), (column, value)


def ids(table: lakescan.Table, column: str, value: Any) -> list[int]:
    """Return the ids of the rows that filters return, for the value itself and for values from it on."""
    at = lakescan.col(column)
    if not value.is_valid:
        return sorted(table.scan().where(at.is_null()).to_arrow()["id"].to_pylist())
    plain = value if "timestamp" in str(value.type) else value.as_py()
    both = [table.scan().where(condition).to_arrow()["id"].to_pylist() for condition in (at == plain, at >= plain)]
    return sorted(both[0]) + sorted(both[1])


def expected(rows: Any, column: str, value: Any) -> list[int]:
    def key(scalar: Any) -> Any:
        return scalar.value if hasattr(scalar, "value") else scalar.as_py()

    pairs = list(zip(rows["id"].to_pylist(), rows[column], strict=True))
    if not value.is_valid:
        return sorted(n for n, each in pairs if not each.is_valid)
    equal = sorted(n for n, each in pairs if each.is_valid and key(each) == key(value))
    return equal + sorted(n for n, each in pairs if each.is_valid and key(each) >= key(value))
