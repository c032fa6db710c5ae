"""In-process SQL has microseconds, as on Spark: nanoseconds are converted exactly, or refused by name."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import lakescan
from lakescan.errors import SchemaMismatch, UnsupportedFeature

NS = pa.timestamp("ns")
WHOLE, FINE = 1_234_567_000, 1_234_567_891


@pytest.fixture
def table(tmp_path: Path) -> lakescan.Table:
    local = lakescan.catalog("nanos", warehouse=str(tmp_path))
    local.create_namespace("db")
    zoned, nested = pa.timestamp("ns", "UTC"), pa.list_(pa.struct([("at", NS)]))
    rows = pa.table(
        {
            "id": [1, 2],
            "at": pa.array([WHOLE, None], NS),
            "zoned": pa.array([-WHOLE, WHOLE], zoned),
            "nested": pa.array([[{"at": WHOLE}], None], nested),
            "fine": pa.array([FINE, -FINE], NS),
            "fine_zoned": pa.array([FINE, None], zoned),
            "fine_nested": pa.array([[{"at": FINE}], None], nested),
        }
    )
    found = local.create_table("db.t", rows.schema, properties={"format-version": "3"})
    found.append(rows)
    return found


def test_whole_microseconds_are_read_exactly(table: lakescan.Table) -> None:
    found = lakescan.sql("SELECT at, zoned, nested FROM nanos.db.t WHERE id = 1").to_arrow()
    assert found.schema.types[:2] == [pa.timestamp("us"), pa.timestamp("us", "UTC")]
    assert [found[n].cast(pa.int64())[0].as_py() for n in ("at", "zoned")] == [WHOLE // 1000, -WHOLE // 1000]
    assert found["nested"].combine_chunks().flatten().field("at").cast(pa.int64()).to_pylist() == [WHOLE // 1000]
    assert lakescan.sql("SELECT max(id) AS m FROM nanos.db.t WHERE zoned < TIMESTAMP '1970-01-01'").to_arrow()[
        "m"
    ].to_pylist() == [1]


@pytest.mark.parametrize("name", ["fine", "fine_zoned", "fine_nested"])
def test_finer_values_are_refused_by_name(table: lakescan.Table, name: str) -> None:
    with pytest.raises(UnsupportedFeature, match=rf"{name!r} of nanos\.db\.t, which has nanoseconds"):
        lakescan.sql(f"SELECT id, {name} FROM nanos.db.t").to_arrow()
    assert lakescan.sql("SELECT id FROM nanos.db.t").to_arrow()["id"].to_pylist() == [1, 2]


@pytest.mark.parametrize("function", ["min", "max"])
def test_least_and_greatest_finer_values_are_refused(table: lakescan.Table, function: str) -> None:
    with pytest.raises(UnsupportedFeature, match="nanoseconds"):
        lakescan.sql(f"SELECT {function}(fine) FROM nanos.db.t").to_arrow()
    [whole] = lakescan.sql(f"SELECT {function}(at) AS v FROM nanos.db.t").to_arrow()["v"].cast(pa.int64()).to_pylist()
    assert whole == WHOLE // 1000


def test_frames_with_finer_values_are_refused() -> None:
    fine = pa.table({"at": pa.array([FINE], NS), "deep": pa.array([{"at": WHOLE}], pa.struct([("at", NS)]))})
    with pytest.raises(SchemaMismatch, match="'at' of s has nanoseconds"):
        lakescan.sql("SELECT at FROM s", s=fine).to_arrow()
    assert lakescan.sql("SELECT deep.at AS v FROM s", s=fine.select(["deep"])).to_arrow()["v"].cast(
        pa.int64()
    ).to_pylist() == [WHOLE // 1000]
