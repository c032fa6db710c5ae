"""Columns of fixed width are the same whether Polars or pyarrow decodes and filters them."""

from __future__ import annotations

import math
import multiprocessing
import sys
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake
from hypothesis import given, settings
from hypothesis import strategies as st

import lakescan
from lakescan.common import polars_columns
from lakescan.errors import CorruptData, UnsupportedFeature
from lakescan.reading.parquet import polars_decoder as fixed_width

polars = pytest.importorskip("polars")

TYPES = {
    "byte": (pa.int8(), st.integers(-128, 127)),
    "short": (pa.int16(), st.integers(-(2**15), 2**15 - 1)),
    "int": (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    "long": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "float": (pa.float32(), st.floats(width=32)),
    "double": (pa.float64(), st.floats()),
    "bool": (pa.bool_(), st.booleans()),
    "day": (pa.date32(), st.dates(date(1, 1, 1), date(9999, 12, 31))),
    "at": (pa.timestamp("us", "UTC"), st.integers(-62_135_596_800_000_000, 253_402_300_799_999_999)),
    "local": (pa.timestamp("us"), st.integers(-62_135_596_800_000_000, 253_402_300_799_999_999)),
    "^long$": (pa.int64(), st.integers(0, 9)),
    "*": (pa.int64(), st.integers(0, 9)),
    "a.b": (pa.int64(), st.integers(0, 9)),
    "text": (pa.string(), st.text("xyz", max_size=3)),
    "list": (pa.list_(pa.int32()), st.lists(st.integers(0, 9), max_size=3)),
    "struct": (pa.struct([("long", pa.int64())]), st.fixed_dictionaries({"long": st.integers(0, 9)})),
}


@pytest.fixture(autouse=True)
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use Polars even for the smallest files."""
    monkeypatch.setattr("lakescan.reading.parquet.file.LEAST_ROWS", 1)


def as_written(path: Path, table: pa.Table, **options: Any) -> None:
    """Write a Delta table of one file with pyarrow and these options."""
    write_deltalake(str(path), table)
    (file,) = path.glob("*.parquet")
    size = file.stat().st_size
    pq.write_table(pq.read_table(file), file, **options)
    log = path / "_delta_log" / f"{0:020d}.json"
    log.write_text(log.read_text().replace(f'"size":{size}', f'"size":{file.stat().st_size}'))


def by_pyarrow(scan: lakescan.Scan) -> pa.Table:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(polars_columns, "_is_usable", False)
        return scan.to_arrow()


def same(left: pa.Table, right: pa.Table) -> bool:
    """Return whether tables are equal; NaN equals NaN, and the sign of zeros counts."""
    return left.schema == right.schema and str(left.to_pydict()) == str(right.to_pydict())


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_polars_and_pyarrow_agree(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    rows = data.draw(st.integers(1, 60), label="rows")
    names = data.draw(st.lists(st.sampled_from(sorted(TYPES)), min_size=1, unique=True), label="columns")
    columns = {
        name: pa.array(data.draw(st.lists(st.none() | TYPES[name][1], min_size=rows, max_size=rows)), TYPES[name][0])
        for name in names
    }
    options = {
        "row_group_size": data.draw(st.integers(1, rows)),
        "compression": data.draw(st.sampled_from(["none", "snappy", "zstd", "gzip", "lz4", "brotli"])),
        "use_dictionary": data.draw(st.booleans()),
        "data_page_version": data.draw(st.sampled_from(["1.0", "2.0"])),
    }
    if "list" not in names:  # pyarrow reads no rows from lists in very small pages
        options["data_page_size"] = data.draw(st.sampled_from([1, 100, 1 << 20]))
    path = tmp_path_factory.mktemp("table") / "t"
    as_written(path, pa.table(columns), **options)
    table = lakescan.table(str(path))
    scan = table.scan().options(batch_size=data.draw(st.integers(1, 70), label="batch size"))
    assert same(scan.to_arrow(), by_pyarrow(scan))
    assert same(scan.to_polars().to_arrow().cast(scan.schema), by_pyarrow(scan))


@pytest.mark.parametrize("encoding", ["DELTA_BINARY_PACKED", "BYTE_STREAM_SPLIT", "PLAIN"])
def test_all_encodings_are_read_alike(tmp_path: Path, encoding: str) -> None:
    rows = pa.table(
        {"long": pa.array([3, None, -(2**63), 2**63 - 1] * 50), "int": pa.array([1, 2, None, 4] * 50, pa.int32())}
    )
    as_written(tmp_path / "t", rows, use_dictionary=False, column_encoding=encoding, version="2.6")
    scan = lakescan.table(str(tmp_path / "t")).scan()
    assert same(scan.to_arrow(), rows)
    assert same(by_pyarrow(scan), rows)


def test_deleted_rows_are_left_out(tmp_path: Path) -> None:
    rows = pa.table(
        {"id": range(1000), "text": [f"t{n % 7}" for n in range(1000)], "at": [datetime(2026, 1, 1)] * 1000}
    )
    catalog = lakescan.catalog("deleted", warehouse=tmp_path)
    catalog.create_namespace("n")
    for form in ("iceberg", "delta"):
        table = catalog.create_table(f"n.{form}", rows.schema, format=form)
        table.append(rows)
        table.delete("id % 3 = 1")
        scan = catalog.load_table(f"n.{form}").scan()
        assert same(scan.to_arrow(), by_pyarrow(scan))
        assert scan.to_arrow()["id"].to_pylist() == [n for n in range(1000) if n % 3 != 1]


def test_polars_decodes_the_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_deltalake(str(tmp_path), pa.table({"id": range(100), "text": ["x"] * 100}))
    asked = []
    decoded = fixed_width.decode_with_polars
    monkeypatch.setattr(
        "lakescan.reading.parquet.file.decoded_by_polars", lambda *a: asked.append((a[1], decoded(*a))) or asked[-1][1]
    )
    assert lakescan.table(str(tmp_path)).scan().to_arrow().num_rows == 100
    assert [(names, table.num_rows) for names, table in asked] == [(["id"], 100)]


def test_damage_is_reported_as_by_pyarrow(tmp_path: Path) -> None:
    as_written(tmp_path / "t", pa.table({"id": range(5000)}), use_dictionary=False, compression="snappy")
    (file,) = (tmp_path / "t").glob("*.parquet")
    data = bytearray(file.read_bytes())
    data[300:2000] = b"\xff" * 1700
    file.write_bytes(data)
    scan = lakescan.table(str(tmp_path / "t")).scan()
    with pytest.raises(CorruptData, match="column 'id' of row group 0"):
        scan.to_arrow()


def test_a_forked_process_does_not_wait_for_threads_of_its_parent(tmp_path: Path) -> None:
    write_deltalake(str(tmp_path), pa.table({"id": range(100)}))
    assert lakescan.table(str(tmp_path)).scan().to_arrow().num_rows == 100
    assert "polars" in sys.modules
    forked = multiprocessing.get_context("fork").Process(target=_read, args=(str(tmp_path),))
    forked.start()
    forked.join(60)
    assert forked.exitcode == 0


def _read(path: str) -> None:
    assert polars_columns.polars_for(1 << 40) is None
    assert lakescan.table(path).scan().to_arrow().num_rows == 100
    with pytest.raises(UnsupportedFeature, match="in a forked process whose parent has used Polars"):
        lakescan.table(path).scan().to_polars()
    with pytest.raises(UnsupportedFeature, match="in a forked process"):
        lakescan.sql(f"SELECT * FROM delta.`{path}`").to_polars()


def test_partitions_of_both_zeros_keep_their_signs(tmp_path: Path) -> None:
    catalog = lakescan.catalog("zeros", warehouse=tmp_path)
    catalog.create_namespace("n")
    values = pa.array([0.0, -0.0, math.nan, None])
    table = catalog.create_table(
        "n.t", pa.schema({"n": pa.int64(), "p": pa.float64()}), format="delta", partition_by=["p"]
    )
    for n, value in enumerate(values.to_pylist()):
        table.append(pa.table({"n": [n], "p": pa.array([value], pa.float64())}))
        table = catalog.load_table("n.t")
    rows = sorted(table.scan().to_polars().rows())
    assert str([value for _, value in rows]) == "[0.0, -0.0, nan, None]"


def test_frames_without_columns_have_rows(tmp_path: Path) -> None:
    write_deltalake(str(tmp_path), pa.table({"id": range(100)}))
    scan = lakescan.table(str(tmp_path)).scan().select()
    assert scan.to_polars().shape == (100, 0)
    assert scan.to_polars(lazy=True).select(polars.len()).collect().item() == 100


FILTERS = {
    "long": polars.col("long") > 0,
    "double": polars.col("double") >= 0.0,
    "text": polars.col("text").str.starts_with("x"),
    "bool": ~polars.col("bool"),
    "day": polars.col("day").is_null(),
}


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_lazy_frames_are_the_same_however_files_are_read(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Depending on columns, partitions and deletes, Polars reads each of the files itself or through Arrow."""
    names = sorted(FILTERS)
    partition = data.draw(st.sampled_from([None, "text", "day"]), label="partition")
    catalog = lakescan.catalog("lazy", warehouse=tmp_path_factory.mktemp("lake"))
    catalog.create_namespace("n")
    schema = pa.schema([(name, TYPES[name][0]) for name in names])
    form = data.draw(st.sampled_from(["iceberg", "delta"]))
    properties = (
        {"delta.enableDeletionVectors": "true", "delta.columnMapping.mode": "name"}
        if form == "delta"
        else {"format-version": "3"}
    )
    by = [] if partition is None else [partition]
    table = catalog.create_table("n.t", schema, format=form, partition_by=by, properties=properties)
    for _ in range(data.draw(st.integers(1, 3), label="files")):
        rows = data.draw(st.integers(1, 9))
        drawn = {
            n: data.draw(
                st.lists(st.none() | TYPES[n][1].filter(lambda value: value != ""), min_size=rows, max_size=rows)
            )
            for n in names
        }
        table.append(pa.table(drawn, schema=schema))
        table = catalog.load_table("n.t")
    if data.draw(st.booleans(), label="deletes"):
        table.delete("bool")
        table = catalog.load_table("n.t")
    if data.draw(st.booleans(), label="renames"):
        table.alter().rename_column("long", "number").add_column("more", "long").commit()
        table = catalog.load_table("n.t")
    name = data.draw(st.sampled_from([n for n in names if n in table.schema.names]), label="filter")
    lazy = table.scan().to_polars(lazy=True).filter(FILTERS[name])
    whole = polars.DataFrame(by_pyarrow(table.scan()))
    assert rows_of(lazy.collect()) == rows_of(whole.filter(FILTERS[name]))
    assert rows_of(table.scan().to_polars()) == rows_of(whole)
    assert lazy.collect().schema == whole.schema


def rows_of(frame: Any) -> list[str]:
    return sorted(map(str, frame.rows()))
