"""Files that DuckDB reads itself give the same rows as through Arrow; all other files are read through Arrow."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import deltalake
import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from samples.delta_deletes import commit_vectors, stored_vector

import lakescan
from lakescan.errors import LakescanError, MissingFile
from lakescan.statements.duckdb.parquet_files import native_files

_ROWS = pa.table(
    {
        "id": pa.array([1, 2, None], pa.int64()),
        "small": pa.array([1, -2, None], pa.int32()),
        "name": ["it's", "ü", None],
        "day": [date(2026, 1, 1), date(1960, 2, 29), None],
        "at": pa.array([datetime(2026, 1, 1, 12, tzinfo=UTC), None, None], pa.timestamp("us", "UTC")),
        "price": pa.array([Decimal("1.25"), Decimal("-0.01"), None], pa.decimal128(9, 2)),
        "flag": [True, None, False],
    }
)


def table(folder: Path, rows: pa.Table, kind: str, **arguments: object) -> lakescan.Table:
    """Make a table of one or more files."""
    name = f"native_{kind}"
    catalog = lakescan.catalog(name, warehouse=str(folder / "lake"))
    catalog.create_namespace("db", exist_ok=True)
    lakescan.save(rows, f"{name}.db.t", format=kind, mode="append", **arguments)
    return lakescan.table(f"{name}.db.t")


def through_arrow(found: lakescan.Table) -> list[dict[str, object]]:
    return sorted(found.to_arrow().to_pylist(), key=str)


def by_sql(found: lakescan.Table, where: str = "true") -> list[dict[str, object]]:
    catalog = "native_iceberg" if "iceberg" in repr(found) else "native_delta"
    return sorted(lakescan.sql(f"SELECT * FROM {catalog}.db.t WHERE {where}").to_arrow().to_pylist(), key=str)


def others(found: lakescan.Table) -> list[bool] | None:
    """Return, for each file, whether it is read through Arrow; None if all are."""
    native = native_files(found.scan().spec)
    return None if native is None else native[1].others.to_pylist()


@pytest.mark.parametrize("kind", ["iceberg", "delta"])
def test_plain_files_have_the_rows_that_arrow_reads(tmp_path: Path, kind: str) -> None:
    found = table(tmp_path, _ROWS, kind)
    assert others(found) == [False]
    assert by_sql(found) == through_arrow(found)
    assert by_sql(found, "small < 0") == [row for row in through_arrow(found) if row["small"] == -2]


@pytest.mark.parametrize("kind", ["iceberg", "delta"])
def test_partition_values_that_files_do_not_have_are_constants(tmp_path: Path, kind: str) -> None:
    rows = _ROWS.set_column(2, "name", pa.array(["it's", "50%", None]))
    found = table(tmp_path, rows, kind, partition_by=["name"])
    assert others(found) == [False] * 3
    assert by_sql(found) == through_arrow(found)
    assert [row["id"] for row in by_sql(found, "name = '50%'")] == [2]


@pytest.mark.parametrize("kind", ["iceberg", "delta"])
def test_columns_that_older_files_do_not_have_are_null(tmp_path: Path, kind: str) -> None:
    table(tmp_path, _ROWS.select(["id", "name"]), kind)
    found = table(tmp_path, _ROWS, kind, merge_schema=True)
    assert others(found) == [False, False]
    assert by_sql(found) == through_arrow(found)
    assert len(by_sql(found, "flag IS NULL")) == 4


@pytest.mark.parametrize("kind", ["iceberg", "delta"])
def test_files_with_nan_are_found_by_every_comparison(tmp_path: Path, kind: str) -> None:
    found = table(tmp_path, pa.table({"x": [1.0, 2.0, float("nan"), None]}), kind)
    assert others(found) is None
    for where in ("x > 5", "x >= 5", "isnan(x)", "NOT x <= 2", "x NOT IN (1, 2)"):
        assert len(by_sql(found, where)) == 1
    [row] = lakescan.sql(f"SELECT max(x) AS m FROM native_{kind}.db.t").to_arrow().to_pylist()
    assert row["m"] != row["m"]


def test_files_with_deletes_are_read_through_arrow_next_to_others(tmp_path: Path) -> None:
    found = table(tmp_path, _ROWS, "delta")
    [path] = (tmp_path / "lake").rglob("*.parquet")
    table(tmp_path, pa.table({"id": pa.array([10, 11], pa.int64())}), "delta")
    folder = path.parent
    commit_vectors(folder, {path.name: stored_vector(folder, [0])})
    found.refresh()
    assert sorted(others(found) or []) == [False, True]
    assert by_sql(found) == through_arrow(found)


@pytest.mark.parametrize(
    "write",
    [
        {"use_deprecated_int96_timestamps": True},
        {"coerce_timestamps": "ms"},
    ],
)
def test_files_of_other_types_are_read_through_arrow(tmp_path: Path, write: dict[str, object]) -> None:
    found = table(tmp_path, _ROWS, "delta")
    [path] = (tmp_path / "lake").rglob("*.parquet")
    pq.write_table(pq.read_table(path), path, **write)
    assert others(found) is None
    assert by_sql(found) == through_arrow(found)


def test_texts_that_a_file_declares_as_json_are_texts(tmp_path: Path) -> None:
    found = table(tmp_path, pa.table({"text": ['{"a": 1}', "[]"]}), "delta")
    [path] = (tmp_path / "lake").rglob("*.parquet")
    table(tmp_path, pa.table({"text": ["not JSON"]}), "delta")
    duckdb.sql(f"COPY (SELECT text::JSON AS text FROM '{path}') TO '{path}.json' (FORMAT parquet)")
    path.with_name(f"{path.name}.json").rename(path)
    found.refresh()
    assert sorted(others(found) or []) == [False, True]
    assert by_sql(found) == through_arrow(found)
    assert len(by_sql(found, "text = 'not JSON'")) == 1


def test_decimals_in_split_bytes_are_read_through_arrow(tmp_path: Path) -> None:
    found = table(tmp_path, _ROWS.select(["price"]), "delta")
    [path] = (tmp_path / "lake").rglob("*.parquet")
    pq.write_table(_ROWS.select(["price"]), path, use_dictionary=False, column_encoding="BYTE_STREAM_SPLIT")
    assert others(found) is None
    assert by_sql(found) == through_arrow(found)


def test_files_of_deltalake_have_the_rows_that_arrow_reads(tmp_path: Path) -> None:
    """deltalake's writer shortens the bounds of long texts."""
    long = "x" * 100
    rows = pa.table({"id": [1, 2, 3], "name": [f"{long}a", f"{long}b", None]})
    deltalake.write_deltalake(tmp_path / "t", rows)
    found = lakescan.table(str(tmp_path / "t"))
    assert others(found) == [False]
    query = "SELECT min(name) AS least, max(name) AS most, count(name) AS n FROM delta.`{}` WHERE name > '{}'"
    assert lakescan.sql(query.format(tmp_path / "t", long)).to_arrow().to_pylist() == [
        {"least": f"{long}a", "most": f"{long}b", "n": 2}
    ]


def test_a_missing_or_damaged_file_is_named(tmp_path: Path) -> None:
    found = table(tmp_path, _ROWS, "delta")
    [path] = (tmp_path / "lake").rglob("*.parquet")
    content = path.read_bytes()
    path.write_bytes(content[:-9] + b"x" * 9)
    with pytest.raises(LakescanError, match="parquet"):
        by_sql(found)
    path.unlink()
    with pytest.raises(MissingFile):
        by_sql(found)
