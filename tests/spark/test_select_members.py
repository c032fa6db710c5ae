"""Struct members on Spark: both lanes return the rows that are read in process, and read only the needed members."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

import lakescan
from tests.spark.test_lanes import NESTED, STRUCT, nested_rows
from tests.support.catalog import local_catalog
from tests.support.rows import differences

pytestmark = pytest.mark.spark


def evolved_iceberg(folder: Path) -> str:
    """Make a table of two files; members were renamed, dropped, and added under the name of a dropped one."""
    from pyiceberg.types import LongType, StringType

    table = local_catalog(folder).create_table("n.t", NESTED)
    table.append(nested_rows().cast(table.schema().as_arrow()))
    with table.update_schema() as update:
        update.delete_column(("s", "a"))
        update.rename_column(("s", "in", "y"), "why")
    with table.update_schema() as update:
        update.add_column(("s", "a"), StringType())
        update.add_column(("s", "in", "more"), LongType())
    late = [{"s": {"a": "late", "x": 1.0, "in": {"why": 2.0, "more": 5}}, "n": 9}, {"s": None, "n": 10}]
    table.append(pa.Table.from_pylist(late, schema=table.schema().as_arrow()))
    return str(table.metadata_location)


def evolved_delta(folder: Path) -> str:
    """Make a table of two files; the second one has more members."""
    location = str(folder / "t")
    write_deltalake(location, nested_rows())
    inner = pa.struct([*STRUCT.field("in").type, pa.field("more", pa.int64())])
    struct = pa.struct([f.with_type(inner) if f.name == "in" else f for f in STRUCT])
    late = pa.Table.from_pylist([{"s": {"a": 7, "in": {"more": 5}}, "n": 9}], pa.schema({"s": struct, "n": pa.int64()}))
    write_deltalake(location, late, mode="append", schema_mode="merge")
    return location


@pytest.mark.parametrize("name", ["iceberg", "delta"])
def test_both_lanes_have_the_members_that_are_read_in_process(spark, tmp_path: Path, name: str) -> None:
    location = evolved_iceberg(tmp_path) if name == "iceberg" else evolved_delta(tmp_path)
    scan = lakescan.table(location).scan()
    inner = "s.in.why" if name == "iceberg" else "s.in.y"
    for refined in (
        scan.select("n", "s.a", inner=inner),
        scan.select("s.in.more"),
        scan.select("s", "s.x").where(f"{inner} is null"),
        scan.select("s.x").where("s.a is not null and n > 1"),
    ):
        expected = refined.to_arrow()
        assert expected.num_rows > 0
        for lane in ("native", "arrow"):
            frame = refined.options(lane=lane).to_spark(spark)
            assert frame.columns == expected.column_names
            assert differences(frame.toArrow(), expected) == "", (refined, lane)


def test_sparks_reader_is_asked_for_the_needed_members_only(spark, tmp_path: Path) -> None:
    write_deltalake(tmp_path / "t", nested_rows())
    scan = lakescan.table(tmp_path / "t").scan().options(lane="native")

    def read(scan: lakescan.Scan) -> Any:
        plan = scan.to_spark(spark)._jdf.queryExecution().optimizedPlan().collectLeaves().head()
        return plan.relation().dataSchema().simpleString()

    assert read(scan.select("s.in.y")) == "struct<s:struct<in:struct<y:float>>>"
    assert read(scan.select("s.a").where("s.x > 1")) == "struct<s:struct<a:int,x:double>>"


def test_a_member_that_spark_does_not_read_exactly_leaves_the_others_to_it(spark, tmp_path: Path) -> None:
    from pyiceberg.schema import Schema
    from pyiceberg.types import LongType, NestedField, StructType, TimeType

    kind = StructType(NestedField(2, "at", TimeType()), NestedField(3, "n", LongType()))
    table = local_catalog(tmp_path).create_table("n.t", Schema(NestedField(1, "s", kind)))
    table.append(pa.Table.from_pylist([{"s": {"at": None, "n": 4}}], schema=table.schema().as_arrow()))
    scan = lakescan.table(table.metadata_location).scan().options(lane="native")
    assert scan.select("s.n").to_spark(spark).collect()[0]["n"] == 4
    with pytest.raises(lakescan.UnsupportedFeature, match="type"):
        scan.select("s.at").to_spark(spark)


def test_members_whose_names_differ_only_in_case_are_read_through_arrow(spark, tmp_path: Path) -> None:
    table = local_catalog(tmp_path).create_table("n.t", pa.schema({"s": pa.struct({"a": pa.int64(), "A": pa.int64()})}))
    table.append(pa.Table.from_pylist([{"s": {"a": 1, "A": 2}}], schema=table.schema().as_arrow()))
    scan = lakescan.table(table.metadata_location).scan().select("s.A")
    with pytest.raises(lakescan.UnsupportedFeature, match="differ only in case"):
        scan.options(lane="native").to_spark(spark)
    assert scan.to_spark(spark).collect()[0]["A"] == 2


def test_the_option_columns_takes_members_in_sources_and_streams(spark, tmp_path: Path) -> None:
    lakescan.spark.register(spark)
    location = evolved_delta(tmp_path)
    options = {"columns": "n, s.a, s.in.more as extra", "path": location}
    frame = spark.read.format("lakescan").options(**options).load()
    expected = lakescan.table(location).scan().select("n", "s.a", extra="s.in.more").to_arrow()
    assert frame.columns == ["n", "a", "extra"]
    assert differences(frame.toArrow(), expected) == ""
    assert [row["extra"] for row in frame.where("extra = 5").select("extra").collect()] == [5]
    narrower = spark.read.format("lakescan").options(**options).schema("extra bigint").load()
    assert sorted(row["extra"] or 0 for row in narrower.collect()) == [0, 0, 0, 0, 5]
    stream = spark.readStream.format("lakescan").options(**options).load()
    query = stream.writeStream.format("memory").queryName("members").trigger(availableNow=True).start()
    query.awaitTermination()
    assert differences(spark.table("members").toArrow(), expected) == ""
