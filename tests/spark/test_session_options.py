"""Options come from the read or write, then from the session's settings, then from the table's properties."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakescan
import lakescan.spark
from lakescan.spark.frames import explain_scan
from lakescan.spark.wap import settings_of_session

SETTINGS = (
    "spark.datasource.iceberg.split-size",
    "spark.sql.iceberg.vectorization.enabled",
    "spark.sql.iceberg.compression-codec",
)


@pytest.fixture
def settings(spark: Any) -> Iterator[Any]:
    yield spark.conf
    for name in SETTINGS:
        spark.conf.unset(name)
    lakescan.spark.register(spark)


@pytest.fixture
def table(tmp_path: Path) -> lakescan.Table:
    catalog = lakescan.catalog("sessioned", warehouse=tmp_path)
    catalog.create_namespace("db")
    properties = {"read.split.target-size": "1000", "write.parquet.compression-codec": "gzip"}
    table = catalog.create_table("db.t", "id BIGINT", properties=properties)
    table.append(pa.table({"id": range(10)}))
    return table


def codecs(folder: Path) -> set[str]:
    """Return the codecs of data files written since the last call."""
    files = set(folder.glob("db/t/data/*.parquet"))
    found = {pq.ParquetFile(each).metadata.row_group(0).column(0).compression for each in files}
    for each in files:
        each.unlink()
    return found


def test_a_setting_of_the_session_wins_over_the_table_and_an_option_over_it(
    spark: Any, settings: Any, table: lakescan.Table
) -> None:
    settings.set("spark.sql.iceberg.vectorization.enabled", "false")
    switched_off = "vectorized reads are switched off"
    assert switched_off in explain_scan(table.scan().spec)
    assert switched_off not in explain_scan(table.scan().options(vectorization_enabled=True).spec)
    settings.unset("spark.sql.iceberg.vectorization.enabled")
    assert switched_off not in explain_scan(table.scan().spec)
    table.alter().set_properties({"read.parquet.vectorization.enabled": "false"}).commit()
    assert switched_off in explain_scan(lakescan.table("sessioned.db.t").scan().spec)
    settings.set("spark.sql.iceberg.vectorization.enabled", "true")
    assert switched_off not in explain_scan(lakescan.table("sessioned.db.t").scan().spec)


def test_an_option_that_is_invalid_in_the_session_is_refused_by_name(
    spark: Any, settings: Any, table: lakescan.Table
) -> None:
    settings.set("spark.datasource.iceberg.split-size", "big")
    with pytest.raises(lakescan.InvalidOption, match="'split-size' has the invalid value 'big'"):
        table.scan().to_spark(spark)


def test_settings_of_iceberg_do_not_apply_to_delta_tables(spark: Any, settings: Any, tmp_path: Path) -> None:
    settings.set("spark.datasource.iceberg.split-size", "big")
    lakescan.save(pa.table({"id": [1]}), tmp_path / "d", format="delta")
    assert lakescan.table(tmp_path / "d").scan().to_spark(spark).count() == 1


@pytest.mark.parametrize("way", ["append", "format", "save"])
def test_writes_use_the_codec_of_the_session(
    way: str, spark: Any, settings: Any, table: lakescan.Table, tmp_path: Path
) -> None:
    frame = spark.range(3)

    def write(**options: str) -> set[str]:
        codecs(tmp_path)
        if way == "append":
            lakescan.table("sessioned.db.t").append(frame, **options)
        elif way == "save":
            lakescan.save(frame, "sessioned.db.t", mode="append", **options)
        else:
            lakescan.spark.register(spark)  # a data source uses the session's settings of this moment
            options = {name.replace("_", "-"): value for name, value in options.items()}
            frame.write.format("iceberg").mode("append").options(**options).save("sessioned.db.t")
        return codecs(tmp_path)

    assert write() == {"GZIP"}
    settings.set("spark.sql.iceberg.compression-codec", "snappy")
    assert write() == {"SNAPPY"}
    assert write(compression_codec="zstd") == {"ZSTD"}


def test_a_session_without_settings_sets_no_options(spark: Any) -> None:
    assert settings_of_session(spark).options == ()
