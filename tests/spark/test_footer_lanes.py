"""Files that Spark's own reader cannot read use the Arrow lane, file by file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import lakescan
import lakescan.spark
from lakescan.spark.native import lanes as native_lanes
from lakescan.spark.native.lanes import choose_lanes


@pytest.fixture(params=["iceberg", "delta"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> lakescan.Table:
    return created(tmp_path, request.param)


def created(tmp_path: Path, format: str) -> lakescan.Table:
    lake = lakescan.catalog(f"lanes_{tmp_path.name}", warehouse=str(tmp_path / "w"))
    lake.create_namespace("n")
    return lake.create_table("n.t", "id BIGINT, s STRING", format=format)


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "s": [str(each) for each in ids]})


def reasons(table: lakescan.Table) -> tuple[int, list[str]]:
    """Return the number of native files, and the reasons for the others."""
    spec = table.refresh().scan().spec if hasattr(table, "refresh") else table.scan().spec
    found = choose_lanes(spec, spec.plan(), None)
    return int(found.native.sum()), sorted(found.reasons)


@pytest.mark.parametrize("codec", ["snappy", "gzip", "zstd", "none"])
def test_files_with_compressions_that_spark_supports_are_native(table: lakescan.Table, codec: str) -> None:
    table.append(rows(1, 2), compression_codec={"none": "uncompressed"}.get(codec, codec))
    assert reasons(table) == (1, [])


def test_only_files_with_other_compressions_use_the_arrow_lane(table: lakescan.Table) -> None:
    table.append(rows(1))
    table.append(rows(2), compression_codec="brotli")
    table.append(rows(3))
    native, why = reasons(table)
    assert native == 2
    assert why == ["it is compressed by Brotli, which Spark's reader lacks"]


def test_a_footer_of_each_commit_is_enough_where_there_are_many_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = created(tmp_path, "iceberg")
    table.alter().add_partition_field("id").commit()
    table.append(rows(*range(10)))
    table.append(rows(*range(10, 16)), compression_codec="brotli")
    monkeypatch.setattr(native_lanes, "_MOST_FOOTERS", 4)
    read: list[int] = []
    from lakescan.spark.native import footers

    monkeypatch.setattr(footers, "_read", lambda *given, do=footers._read: read.append(1) or do(*given))
    native, why = reasons(table)
    assert native == 10
    assert len(why) == 1
    assert len(read) == 2 + footers._MOST + 1  # one file of each commit, and an even sample


@pytest.mark.parametrize(
    ("suffix", "lane"),
    [(".br", "Brotli"), (".lzo", "LZO"), (".lz4hadoop", "LZ4"), (".zstd", None), (".c000.snappy", None)],
)
def test_file_name_suffixes_give_the_compression(tmp_path: Path, suffix: str, lane: str | None) -> None:
    from lakescan.spark.native.footers import lacking_codecs

    paths = pa.array([f"/nothing/part-00000{suffix}.parquet"])
    files = pa.table({"size": [1], "sequence_number": pa.nulls(1, pa.int64())})
    found = lacking_codecs(None, paths, files, pa.array([True]).to_numpy(zero_copy_only=False), 64)  # type: ignore[arg-type]
    assert [name for name, mask in found.items() if mask.any()] == ([] if lane is None else [lane])


def test_files_with_field_ids_stay_native_next_to_files_without_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = created(tmp_path, "iceberg")
    for n in range(3):
        table.append(rows(n))
    added(tmp_path, table)
    table.append(rows(9))
    assert reasons(table) == (5, [])
    monkeypatch.setattr(native_lanes, "_MOST_MAPPED", 2)
    native, why = reasons(table)
    assert native <= 2
    assert any("only 2 files" in each for each in why)


def added(tmp_path: Path, table: lakescan.Table) -> None:
    folder = tmp_path / "foreign"
    folder.mkdir()
    pq.write_table(rows(7), folder / "a.parquet")
    name = f"lanes_{tmp_path.name}"
    lakescan.sql(f"CALL {name}.system.add_files(table => 'n.t', source_table => '`parquet`.`{folder}`')")


@pytest.mark.parametrize("what", ["brotli", "added"])
def test_each_file_is_read_by_a_lane_that_supports_it(spark: SparkSession, tmp_path: Path, what: str) -> None:
    table = created(tmp_path, "iceberg")
    table.append(rows(1))
    more: dict[str, Any] = {"compression_codec": "brotli"} if what == "brotli" else {}
    table.append(rows(2), **more)
    if what == "added":
        added(tmp_path, table)
    expected = [1, 2] + [7] * (what == "added")
    name = f"lanes_{tmp_path.name}.n.t"
    frame = lakescan.table(name).scan().to_spark(spark)
    assert sorted((row["id"], row["s"]) for row in frame.collect()) == [(n, str(n)) for n in expected]
    assert lakescan.spark.sql(spark, f"SELECT id FROM {name} WHERE s = '2'").collect()[0]["id"] == 2
