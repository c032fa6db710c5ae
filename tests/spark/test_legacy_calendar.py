"""Files of Spark 2 and of LEGACY mode: every lane returns Spark's dates and times, also with filters."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F
from samples.iceberg_table import write_table

import lakescan
from lakescan.reading.parquet.legacy_calendar import rebase_days, rebase_micros

pytestmark = pytest.mark.spark

SPARK_2 = {"org.apache.spark.version": "2.4.8"}
LEGACY = {"org.apache.spark.version": "3.5.0", "org.apache.spark.legacyDateTime": ""}
LEGACY_INT96 = {"org.apache.spark.version": "3.5.0", "org.apache.spark.legacyINT96": ""}
IN_BERLIN = LEGACY | {"org.apache.spark.legacyINT96": "", "org.apache.spark.timeZone": "Europe/Berlin"}
TODAYS = {"org.apache.spark.version": "3.5.0"}
DAY = 86_400_000_000
# 0001-01-01, 1500-02-29, 1582-10-04 and 1582-10-15, by the Julian calendar where it applies; 1969 to 1970.
DAYS = [-719_164, -171_544 + 9, -141_428, -141_427, -1, 0, None]
TIMES = [None if d is None else d * DAY + 7 for d in DAYS]


def table_of(folder: Path, footer: dict[str, str], *, int96: bool = False) -> str:
    """Make a Delta table of one file with this footer, and statistics of the intended values, as Spark records them."""
    days, times = pa.array(DAYS, pa.int32()).cast(pa.date32()), pa.array(TIMES, pa.int64())
    columns: dict[str, pa.Array] = {"k": pa.array(range(len(DAYS)), pa.int64()), "d": days}
    columns["t"] = times.cast(pa.timestamp("us", "UTC"))
    columns["s"] = pa.StructArray.from_arrays([days, columns["t"]], ["d", "t"])
    columns["l"] = pa.ListArray.from_arrays(pa.array(range(len(DAYS) + 1), pa.int32()), days)
    folder.joinpath("_delta_log").mkdir(parents=True)
    rows = pa.table(columns).replace_schema_metadata(footer)
    pq.write_table(rows, folder / "f.parquet", use_deprecated_int96_timestamps=int96, row_group_size=2)
    day, time = _field("d", "date"), _field("t", "timestamp")
    struct = {"type": "struct", "fields": [day, time]}
    array = {"type": "array", "elementType": "date", "containsNull": True}
    fields = [_field("k", "long"), day, time, _field("s", struct), _field("l", array)]
    schema = json.dumps({"type": "struct", "fields": fields})
    made = {"id": "x", "format": {"provider": "parquet", "options": {}}, "partitionColumns": [], "configuration": {}}
    size = (folder / "f.parquet").stat().st_size
    add = {"path": "f.parquet", "partitionValues": {}, "size": size, "modificationTime": 0, "dataChange": True}
    least = "0001-01-01" if footer in (SPARK_2, LEGACY, IN_BERLIN) else "0000-12-30"
    add["stats"] = json.dumps({"numRecords": len(DAYS), "minValues": {"d": least}, "nullCount": {"d": 1}})
    actions = [
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {"metaData": made | {"schemaString": schema}},
        {"add": add},
    ]
    (folder / "_delta_log" / f"{0:020}.json").write_text("\n".join(map(json.dumps, actions)))
    return str(folder)


def _field(name: str, type: Any) -> dict[str, Any]:
    return {"name": name, "type": type, "nullable": True, "metadata": {}}


def numbers(frame: Any) -> list[tuple[Any, ...]]:
    """Return the rows as days and microseconds, which show the calendar used."""
    columns = ["k", F.unix_date("d"), F.unix_micros("t"), F.unix_date("s.d"), F.unix_micros("s.t")]
    rows = frame.select(*columns, F.unix_date(F.get("l", F.lit(0)))).collect()
    return sorted(tuple(row) for row in rows)


def in_process(scan: lakescan.Scan) -> list[tuple[Any, ...]]:
    found = scan.to_arrow().combine_chunks()
    members = [found["s"].combine_chunks().field(i) for i in range(2)]
    lists = [each[0] if each else None for each in found["l"].cast(pa.list_(pa.int32())).to_pylist()]  # not as dates
    columns = [found["k"], found["d"].cast(pa.int32()), found["t"].cast(pa.int64())]
    columns += [members[0].cast(pa.int32()), members[1].cast(pa.int64())]
    return sorted(zip(*(column.to_pylist() for column in columns), lists, strict=True))


@pytest.mark.parametrize("footer", [SPARK_2, LEGACY, LEGACY_INT96, IN_BERLIN, TODAYS, {}], ids=str)
@pytest.mark.parametrize("int96", [False, True])
def test_all_lanes_return_the_dates_and_times_of_spark(
    spark, tmp_path: Path, footer: dict[str, str], int96: bool
) -> None:
    scan = lakescan.table(table_of(tmp_path / "t", footer, int96=int96)).scan()
    reader = spark.read.option("datetimeRebaseMode", "CORRECTED").option("int96RebaseMode", "CORRECTED")
    expected = numbers(reader.parquet(str(tmp_path / "t" / "f.parquet")))
    assert in_process(scan) == expected
    assert numbers(scan.options(lane="native").to_spark(spark)) == expected
    assert numbers(scan.options(lane="arrow").to_spark(spark)) == expected
    for text in ("d < '0002-01-01'", "d = '1500-03-01'", "t < '1000-01-01'", "d >= '1582-10-15'", "s.d is null"):
        keys = {row[0] for row in numbers(reader.parquet(str(tmp_path / "t" / "f.parquet")).where(text))}
        assert set(scan.where(text).to_arrow()["k"].to_pylist()) == keys, text
        frame = scan.options(lane="native").to_spark(spark)
        assert {row["k"] for row in frame.where(text).select("k").collect()} == keys, text
    assert np.datetime64(scan.min("d"), "D").astype(int) == min(row[1] for row in expected if row[1] is not None)


@pytest.mark.parametrize("zone", ["UTC", "America/Los_Angeles", "Asia/Kolkata", "Europe/Dublin", "+01:00"])
def test_the_calendar_equals_that_of_spark(spark, zone: str) -> None:
    rebase = spark._jvm.org.apache.spark.sql.catalyst.util.RebaseDateTime
    random = np.random.default_rng(0)
    days = np.concatenate([random.integers(-1_500_000, -141_427, 150), np.arange(-171_550, -171_530)])
    assert rebase_days(days).tolist() == [rebase.rebaseJulianToGregorianDays(int(d)) for d in days]
    micros = random.integers(-719_162 * DAY, -25_567 * DAY, 150)
    expected = [rebase.rebaseJulianToGregorianMicros(zone, int(m)) for m in micros]
    assert rebase_micros(micros, zone).tolist() == expected


def test_icebergs_files_are_read_as_icebergs_reader_does(spark, tmp_path: Path) -> None:
    """Iceberg's reader ignores the writer, Spark's does not; therefore such files use the Arrow lane."""
    field = pa.field("d", pa.date32(), metadata={"PARQUET:field_id": "1"})
    rows = pa.table([pa.array([-719_162, 0], pa.int32()).cast(pa.date32())], schema=pa.schema([field], SPARK_2))
    columns = [{"id": 1, "name": "d", "required": False, "type": "date"}]
    scan = lakescan.table(write_table(tmp_path / "t", columns, [rows])).scan()
    assert scan.to_arrow()["d"].cast(pa.int32()).to_pylist() == [-719_162, 0]
    frame = scan.to_spark(spark)
    assert sorted(row[0] for row in frame.select(F.unix_date("d")).collect()) == [-719_162, 0]
