"""Every column type of the specification is read, in process and on Spark, whichever writer wrote the files."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from samples.iceberg_deletes import local
from samples.iceberg_table import write_table

import lakescan
from tests.support.rows import differences

POINT = bytes.fromhex("0101000000000000000000f03f0000000000000040")  # the point (1, 2) as well-known binary


def column(name: str, kind: Any, field_id: int, **more: Any) -> dict[str, Any]:
    return {"id": field_id, "name": name, "type": kind, "required": False, **more}


def with_ids(**columns: tuple[int, pa.Array]) -> pa.Table:
    fields = [pa.field(n, a.type, metadata={"PARQUET:field_id": str(i)}) for n, (i, a) in columns.items()]
    return pa.table([a for _, a in columns.values()], schema=pa.schema(fields))


def test_geometry_and_geography_are_well_known_binary(tmp_path: Path) -> None:
    fields = [column("shape", "geometry(srid:4326)", 1), column("place", "geography(OGC:CRS84, karney)", 2)]
    file = with_ids(shape=(1, pa.array([POINT, None])), place=(2, pa.array([None, POINT])))
    found = lakescan.table(write_table(tmp_path / "t", fields, [file])).scan()
    assert found.to_arrow().to_pydict() == {"shape": [POINT, None], "place": [None, POINT]}
    assert found.where("shape is not null").to_arrow().num_rows == 1


def test_unknown_columns_are_null_whether_files_have_them_or_not(tmp_path: Path) -> None:
    fields = [column("id", "int", 1), column("later", "unknown", 2)]
    file = with_ids(id=(1, pa.array([1, 2], pa.int32())))
    found = lakescan.table(write_table(tmp_path / "t", fields, [file])).scan().to_arrow()
    assert found.to_pydict() == {"id": [1, 2], "later": [None, None]}


def test_int96_timestamps_are_instants(tmp_path: Path) -> None:
    moment = datetime(2026, 1, 31, 12, 30, 15, 123456, tzinfo=UTC)
    fields = [column("at", "timestamptz", 1), column("wall", "timestamp", 2)]
    instants, walls = pa.array([moment], pa.timestamp("us", "UTC")), pa.array([moment.replace(tzinfo=None)])
    location = write_table(tmp_path / "t", fields, [with_ids(at=(1, instants), wall=(2, walls))])
    path = local(location).parent.parent / "data" / "0.parquet"
    pq.write_table(pq.read_table(path), path, use_deprecated_int96_timestamps=True)
    assert pq.ParquetFile(path).schema.column(0).physical_type == "INT96"
    rows = lakescan.table(location).scan().where(f"at = timestamp '{moment.isoformat()}'").to_arrow().to_pylist()
    assert rows == [{"at": moment, "wall": moment.replace(tzinfo=None)}]


def test_defaults_fill_columns_that_old_files_lack_at_every_depth(tmp_path: Path) -> None:
    inner = {"type": "struct", "fields": [column("x", "int", 3), column("y", "string", 4, **{"initial-default": "y"})]}
    listed = {"type": "list", "element-id": 6, "element-required": False, "element": inner_of(7, "e")}
    mapped: dict[str, Any] = {"type": "map", "key-id": 10, "key": "string", "value-id": 11, "value-required": False}
    mapped["value"] = inner_of(12, "v")
    fields = [
        column("s", inner, 2),
        column("l", listed, 5),
        column("m", mapped, 9),
        column("day", "date", 20, **{"initial-default": "2026-01-31"}),
        column("n", "decimal(9, 2)", 21, **{"initial-default": "14.20"}),
        column("u", "uuid", 22, **{"initial-default": "f79c3e09-677c-4bbd-a479-3f349cb785e7"}),
    ]

    def struct(field_id: int) -> pa.DataType:
        return pa.struct([pa.field("x", pa.int32(), metadata={"PARQUET:field_id": str(field_id)})])

    def named(name: str, field_id: int, kind: pa.DataType) -> pa.Field:
        return pa.field(name, kind, metadata={"PARQUET:field_id": str(field_id)})

    key = named("key", 10, pa.string()).with_nullable(False)
    file = with_ids(
        s=(2, pa.array([{"x": 1}], struct(3))),
        l=(5, pa.array([[{"x": 2}]], pa.list_(named("element", 6, struct(7))))),
        m=(9, pa.array([[("k", {"x": 3})]], pa.map_(key, named("value", 11, struct(12))))),
    )
    (row,) = lakescan.table(write_table(tmp_path / "t", fields, [file])).scan().to_arrow().to_pylist()
    assert row["s"] == {"x": 1, "y": "y"}
    assert row["l"] == [{"x": 2, "e": "e"}]
    assert row["m"] == [("k", {"x": 3, "v": "v"})]
    assert (str(row["day"]), str(row["n"])) == ("2026-01-31", "14.20")
    assert str(row["u"]) == "f79c3e09-677c-4bbd-a479-3f349cb785e7"


def inner_of(first_id: int, default: str) -> dict[str, Any]:
    added = column(default, "string", first_id + 1, **{"initial-default": default})
    return {"type": "struct", "fields": [column("x", "int", first_id), added]}


def test_a_filter_on_a_defaulted_column_finds_rows_of_old_files(tmp_path: Path) -> None:
    fields = [column("id", "int", 1), column("name", "string", 2, **{"initial-default": "old"})]
    old = with_ids(id=(1, pa.array([1], pa.int32())))
    new = with_ids(id=(1, pa.array([2], pa.int32())), name=(2, pa.array(["new"])))
    scan = lakescan.table(write_table(tmp_path / "t", fields, [old, new])).scan()
    assert scan.where("name = 'old'").to_arrow()["id"].to_pylist() == [1]
    assert scan.where("name is null").to_arrow().num_rows == 0


def test_names_match_without_case_unless_case_matters(tmp_path: Path) -> None:
    fields = [column("Id", "int", 1), column("S", {"type": "struct", "fields": [column("Inner", "int", 3)]}, 2)]
    struct = pa.struct([pa.field("Inner", pa.int32(), metadata={"PARQUET:field_id": "3"})])
    file = with_ids(Id=(1, pa.array([1, 2], pa.int32())), S=(2, pa.array([{"Inner": 5}, {"Inner": 6}], struct)))
    table = lakescan.table(write_table(tmp_path / "t", fields, [file]))
    assert table.scan().where("ID = 2 and s.inner = 6").select("id").to_arrow().to_pydict() == {"id": [2]}
    with pytest.raises(lakescan.NoSuchColumn, match="Did you mean 'Id'"):
        table.scan().options(case_sensitive=True).where("ID = 2").plan()


def test_version_1_may_list_manifests_of_any_spec_in_the_metadata(tmp_path: Path) -> None:
    fields = [column("id", "int", 1), column("part", "string", 2)]
    spec = [{"name": "part", "transform": "identity", "source-id": 2, "field-id": 1000}]
    files = [with_ids(id=(1, pa.array([n], pa.int32()))) for n in (1, 2)]
    partitions = [{"part": "a"}, {"part": "b"}]
    location = write_table(
        tmp_path / "t", fields, files, version=1, inline_manifests=True, spec=spec, partitions=partitions
    )
    scan = lakescan.table(location).scan()
    assert sorted(scan.to_arrow().to_pydict()["part"]) == ["a", "b"]
    assert scan.where("part = 'b'").plan().report.skipped_by_partition == 1
    assert scan.where("part = 'b'").to_arrow().to_pydict() == {"id": [2], "part": ["b"]}


def test_unknown_transforms_are_kept_and_never_pruned_on(tmp_path: Path) -> None:
    fields = [column("id", "int", 1)]
    spec = [{"name": "p", "transform": "zorder[3]", "source-id": 1, "field-id": 1000}]
    files = [with_ids(id=(1, pa.array([n], pa.int32()))) for n in (1, 2)]
    location = write_table(tmp_path / "t", fields, files, spec=spec, partitions=[{"p": 5}, {"p": 6}])
    scan = lakescan.table(location).scan().where("id = 2")
    assert scan.plan().report.skipped_by_partition == 0
    assert scan.to_arrow().to_pydict() == {"id": [2]}


NANOS = datetime(2026, 1, 31, 12, tzinfo=UTC)


def nanoseconds(folder: Path, *offsets: int) -> str:
    """Make a table of moments a few nanoseconds after noon, with and without a zone."""
    fields = [column("at", "timestamptz_ns", 1), column("wall", "timestamp_ns", 2)]
    ticks = [int(NANOS.timestamp()) * 10**9 + n for n in offsets]
    at, wall = (pa.array(ticks, pa.int64()).cast(pa.timestamp("ns", zone)) for zone in ("UTC", None))
    return write_table(folder, fields, [with_ids(at=(1, at), wall=(2, wall))])


@pytest.mark.spark
def test_whole_microseconds_are_sparks_timestamps(tmp_path: Path, spark: Any) -> None:
    location = nanoseconds(tmp_path / "t", 1_000, 2_000)
    found = spark.read.format("iceberg").load(location)
    assert [f.dataType.simpleString() for f in found.schema] == ["timestamp", "timestamp_ntz"]
    expected = lakescan.table(location).scan().to_arrow().cast(found.toArrow().schema)
    assert differences(found.toArrow(), expected) == ""
    assert found.where("at > timestamp '2026-01-31 12:00:00.000001+00:00'").count() == 1


@pytest.mark.spark
def test_finer_digits_are_refused_on_spark_or_read_as_long(tmp_path: Path, spark: Any) -> None:
    location = nanoseconds(tmp_path / "t", 1, 1_001)
    with pytest.raises(Exception, match="nanosAsLong"):
        spark.read.format("iceberg").load(location).collect()
    found = spark.read.format("iceberg").option("nanosAsLong", "true").load(location)
    noon = int(NANOS.timestamp()) * 10**9
    assert sorted(r.at - noon for r in found.collect()) == [1, 1_001]
    assert found.where(f"at = {noon + 1}").count() == 1
    scan = lakescan.table(location).scan().options(nanosAsLong=True)
    assert sorted(r.wall - noon for r in scan.to_spark(spark).collect()) == [1, 1_001]


@pytest.mark.spark
def test_spark_reads_all_other_types(tmp_path: Path, spark: Any) -> None:
    fields = [
        column("shape", "geometry", 1),
        column("later", "unknown", 2),
        column("name", "string", 3, **{"initial-default": "old"}),
    ]
    location = write_table(tmp_path / "t", fields, [with_ids(shape=(1, pa.array([POINT, None])))])
    rows = spark.read.format("iceberg").load(location).collect()
    assert [(r.shape and bytes(r.shape), r.later, r.name) for r in rows] == [(POINT, None, "old"), (None, None, "old")]
