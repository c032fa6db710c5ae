"""UUIDs inside structs, lists and maps, which pyarrow cannot put into empty tables."""

from __future__ import annotations

import uuid
from pathlib import Path

import pyarrow as pa
import pytest

import lakescan

VALUE = uuid.UUID(int=7)


@pytest.fixture(params=[True, False], ids=["rows", "no rows"])
def scan(request: pytest.FixtureRequest, tmp_path: Path) -> lakescan.Scan:
    lake = lakescan.catalog("nested_uuids", warehouse=tmp_path)
    lake.create_namespace("n")
    kinds = {"s": pa.struct([("u", pa.uuid())]), "l": pa.list_(pa.uuid()), "m": pa.map_(pa.string(), pa.uuid())}
    table = lake.create_table("n.t", pa.schema(kinds))
    if request.param:
        values = pa.array([VALUE.bytes], pa.uuid())
        table.append(
            pa.table(
                {
                    "s": pa.StructArray.from_arrays([values], ["u"]),
                    "l": pa.ListArray.from_arrays(pa.array([0, 1], pa.int32()), values),
                    "m": pa.MapArray.from_arrays(pa.array([0, 1], pa.int32()), pa.array(["k"]), values),
                }
            )
        )
    return table.scan()


def test_polars_has_the_bytes_of_uuids(scan: lakescan.Scan) -> None:
    frame = scan.to_polars(lazy=True).collect()
    assert frame.equals(scan.to_polars())
    assert frame["s"].struct.field("u").to_list() == frame["l"].explode().to_list() == [VALUE.bytes] * scan.count()


def test_dask_has_nested_uuids(scan: lakescan.Scan) -> None:
    pytest.importorskip("dask.dataframe")
    frame = scan.to_dask()
    assert len(frame.compute(scheduler="sync")) == scan.count()
    assert list(frame.columns) == ["s", "l", "m"]


def test_duckdb_has_nested_uuids(scan: lakescan.Scan) -> None:
    assert [row[0] for row in scan.to_duckdb(lazy=True).fetchall()] == [{"u": VALUE}] * scan.count()


@pytest.mark.slow
def test_ray_has_nested_uuids(scan: lakescan.Scan, ray_session: object) -> None:
    data = scan.to_ray()
    assert (data.count(), data.columns()) == (scan.count(), ["s", "l", "m"])
