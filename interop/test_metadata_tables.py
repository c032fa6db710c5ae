"""Metadata tables have the columns and rows that Iceberg's Java implementation gives them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.support.rows import differences

import lakescan
from interop.test_iceberg import CASES, written

TABLES = [
    "entries", "files", "data_files", "delete_files", "history", "metadata_log_entries", "snapshots", "refs",
    "manifests", "partitions", "all_data_files", "all_delete_files", "all_files", "all_manifests", "all_entries",
    "position_deletes",
]  # fmt: skip
ROWS = [
    "partition evolution",
    "position deletes",
    "deletion vectors",
    "version 1",
    "types",
    "types in avro",
    "rewritten",
]


@pytest.mark.parametrize("case", ROWS)
def test_metadata_tables_equal_those_of_java(jvm, warehouse: Path, case: str) -> None:
    identifier, location = written(jvm, warehouse, f"inspected {case}", CASES[case])
    wrong = {}
    for name in TABLES:
        if name == "position_deletes" and case in ("version 1",):
            continue
        expected = jvm.table(f"{identifier}.{name}").toArrow()
        actual = lakescan.table(location).inspect(name)
        if name == "history":
            assert actual.column_names[4:] == ["operation", "summary"]  # these are lakescan's own
            actual = actual.select(expected.column_names)
        assert actual.column_names == expected.column_names, name
        if name in ("manifests", "all_manifests"):
            expected = with_true_nulls(expected)
        if found := differences(actual, expected):
            wrong[name] = found
    assert wrong == {}


def with_true_nulls(manifests: pa.Table) -> pa.Table:
    """Replace the text 'null', which Java writes for a partition without a bound, by a null."""
    place = manifests.schema.get_field_index("partition_summaries")
    rows = [
        None if summaries is None else [s | {k: None for k, v in s.items() if v == "null"} for s in summaries]
        for summaries in manifests["partition_summaries"].to_pylist()
    ]
    return manifests.set_column(
        place, manifests.schema.field(place), pa.array(rows, manifests.schema.field(place).type)
    )


def test_a_metadata_table_follows_the_selected_snapshot(jvm, warehouse: Path) -> None:
    identifier, location = written(jvm, warehouse, "inspected as of", CASES["deletion vectors"])
    for row in jvm.table(f"{identifier}.snapshots").collect():
        expected: Any = jvm.sql(f"SELECT * FROM {identifier}.files VERSION AS OF {row.snapshot_id}").toArrow()
        assert differences(lakescan.table(location).inspect("files", version=row.snapshot_id), expected) == ""


def test_bounds_of_dates_and_times_are_formatted_alike(jvm, warehouse: Path) -> None:
    """Also for years without four digits."""
    jvm.sql(
        "CREATE TABLE ice.db.spelled (d DATE, z TIMESTAMP, w TIMESTAMP_NTZ, y DATE, m TIMESTAMP_NTZ, h TIMESTAMP) "
        "USING iceberg PARTITIONED BY (d, z, w, years(y), months(m), hours(h))"
    )
    for stated in ("0001-01-01 00:00:00", "1969-12-31 23:59:59.99999", "2026-01-31 07:00:01", "9999-12-31 00:00:00.1"):
        for later in ("0", "20000"):
            jvm.sql(
                "INSERT INTO ice.db.spelled SELECT DATE(d), d, d::TIMESTAMP_NTZ, DATE(d), d::TIMESTAMP_NTZ, d "
                f"FROM (SELECT TIMESTAMP '{stated}' + INTERVAL '{later}' YEAR AS d)"
            )
    theirs: Any = with_true_nulls(jvm.table("ice.db.spelled.manifests").toArrow())
    assert differences(lakescan.table(f"{warehouse}/ice/db/spelled").inspect("manifests"), theirs) == ""
