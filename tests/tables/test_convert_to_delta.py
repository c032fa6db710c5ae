"""Folders of Parquet files become Delta tables: the files stay, and the table has their rows."""

from __future__ import annotations

import json
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

import lakescan
from tests.support.delta_state import newest_version, state

NESTED = pa.struct([("a", pa.int64()), ("b", pa.list_(pa.string()))])
ROWS = pa.table(
    {
        "id": [1, 2, 3],
        "text": ["x", None, "z" * 50],
        "d": pa.array([date(2026, 1, 1), None, date(1500, 1, 1)]),
        "at": pa.array([datetime(2026, 1, 1, 12, 0, 0, 123456), None, None], pa.timestamp("us", "UTC")),
        "f": [0.5, float("nan"), None],
        "s": pa.array([{"a": 1, "b": ["x"]}, None, {"a": None, "b": None}], NESTED),
    }
)


def test_a_folder_becomes_a_table_and_its_files_stay(tmp_path: Path) -> None:
    pq.write_table(ROWS, tmp_path / "one file, 100%.parquet")
    pq.write_table(ROWS.slice(0, 1), tmp_path / "two.parquet")
    before = {file.name: file.read_bytes() for file in tmp_path.glob("*.parquet")}
    table = lakescan.convert_to_delta(tmp_path)
    assert {file.name: file.read_bytes() for file in tmp_path.glob("*.parquet")} == before
    assert (table.version, table.count()) == (0, 4)
    assert str(table.to_arrow().sort_by("id").to_pylist()) == str(
        pa.concat_tables([ROWS, ROWS.slice(0, 1)]).sort_by("id").to_pylist()
    )
    assert DeltaTable(tmp_path).to_pyarrow_table().num_rows == 4
    table.append(ROWS)
    table.delete("id = 1")
    assert sorted(table.to_arrow()["id"].to_pylist()) == [2, 2, 3, 3]


def test_statistics_are_read_from_the_footers(tmp_path: Path) -> None:
    pq.write_table(ROWS, tmp_path / "one.parquet")
    lakescan.convert_to_delta(tmp_path)
    (file,) = state(tmp_path)[2]
    stats = file["stats"]
    assert stats["numRecords"] == 3
    assert stats["nullCount"] == {"id": 0, "text": 1, "d": 1, "at": 2, "f": 1, "s": {"a": 2}}
    assert (stats["minValues"]["id"], stats["maxValues"]["id"]) == (1, 3)
    assert stats["maxValues"]["text"].startswith("z" * 32)
    assert stats["minValues"]["at"] == "2026-01-01T12:00:00.123Z"
    assert "f" not in stats["maxValues"]
    assert lakescan.table(tmp_path).scan().where("f > 0.1").count() == 2  # NaN is greater than all


def test_timestamps_of_96_bits_are_instants(tmp_path: Path) -> None:
    at = pa.array([datetime(2026, 1, 1, 12), None], pa.timestamp("us"))
    given = pa.table({"n": [1, 2], "at": at, "l": pa.array([[at[0]], None], pa.list_(pa.timestamp("us")))})
    pq.write_table(given, tmp_path / "1.parquet", use_deprecated_int96_timestamps=True)
    table = lakescan.convert_to_delta(tmp_path)
    zoned = pa.timestamp("us", "UTC")
    assert (table.schema.field("at").type, table.schema.field("l").type.value_type) == (zoned, zoned)
    assert table.to_arrow()["at"].to_pylist() == at.cast(zoned).to_pylist()
    assert table.scan().where("at > '2026-01-01 11:00:00'").count() == 1


def test_a_table_without_statistics_reads_the_same(tmp_path: Path) -> None:
    pq.write_table(ROWS, tmp_path / "one.parquet")
    table = lakescan.convert_to_delta(tmp_path, statistics=False)
    assert state(tmp_path)[2][0]["stats"] is None
    assert table.scan().where("id > 2").count() == 1


def test_folders_are_partitions(tmp_path: Path) -> None:
    given = pa.table({"n": [1, 2, 3], "p": ["a b/ü", None, "c=d"], "day": [date(2026, 1, n) for n in (1, 2, 3)]})
    parts = ds.partitioning(pa.schema([("p", pa.string()), ("day", pa.date32())]), flavor="hive")
    ds.write_dataset(given, tmp_path, format="parquet", partitioning=parts)
    with pytest.raises(lakescan.InvalidOption, match="named after p, day"):
        lakescan.convert_to_delta(tmp_path)
    with pytest.raises(lakescan.InvalidOption, match="Did you mean 'day'"):
        lakescan.convert_to_delta(tmp_path, partition_by="p STRING, days DATE")
    with pytest.raises(lakescan.InvalidOption, match="is not int"):
        lakescan.convert_to_delta(tmp_path, partition_by="p STRING, day INT")
    assert not (tmp_path / "_delta_log").exists()
    table = lakescan.convert_to_delta(tmp_path, partition_by="p STRING, day DATE")
    assert table.partitioning == "p, day"
    assert table.to_arrow().sort_by("n").to_pylist() == given.to_pylist()
    assert table.scan().where("p = 'a b/ü'").count() == 1
    table.append(given)
    assert table.scan().where("p is null").count() == 2


def test_the_table_has_the_columns_of_all_files(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1], "s": pa.array([{"x": 1}])}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"b": ["new"], "s": pa.array([{"y": "z"}])}), tmp_path / "2.parquet")
    table = lakescan.convert_to_delta(tmp_path)
    assert table.schema.names == ["a", "s", "b"]
    assert sorted(table.to_arrow().to_pylist(), key=str) == sorted(
        [{"a": 1, "s": {"x": 1, "y": None}, "b": None}, {"a": None, "s": {"x": None, "y": "z"}, "b": "new"}], key=str
    )


@pytest.mark.parametrize(
    ("columns", "error", "part"),
    [
        ({"a": pa.array(["x"])}, lakescan.SchemaMismatch, "column 'a' is long in"),
        ({"A": pa.array([1])}, lakescan.SchemaMismatch, "'A' in"),
        ({"b c": pa.array([1])}, lakescan.UnsupportedFeature, "'b c'"),
        ({"b": pa.array([1], pa.timestamp("ns"))}, lakescan.UnsupportedFeature, "nanoseconds"),
        ({"b": pa.array([1], pa.time64("us"))}, lakescan.UnsupportedFeature, "time"),
    ],
)
def test_types_that_delta_lacks_are_refused(
    tmp_path: Path, columns: dict[str, Any], error: type[Exception], part: str
) -> None:
    pq.write_table(pa.table({"a": [1]}), tmp_path / "1.parquet")
    pq.write_table(pa.table(columns), tmp_path / "2.parquet")
    with pytest.raises(error, match=part):
        lakescan.convert_to_delta(tmp_path)
    assert not (tmp_path / "_delta_log").exists()


def test_an_existing_table_is_opened_unchanged(tmp_path: Path) -> None:
    pq.write_table(ROWS, tmp_path / "1.parquet")
    lakescan.convert_to_delta(tmp_path, properties={"owner": "me"}, comment="rows").append(ROWS)
    assert lakescan.convert_to_delta(tmp_path).version == 1
    assert newest_version(tmp_path) == 1
    assert state(tmp_path)[1].description == "rows"
    info = json.loads((tmp_path / "_delta_log" / f"{0:020d}.json").read_text().splitlines()[0])["commitInfo"]
    assert (info["operation"], info["operationMetrics"]) == ("CONVERT", {"numConvertedFiles": "1"})


def test_hidden_files_are_left_out(tmp_path: Path) -> None:
    pq.write_table(ROWS, tmp_path / "1.parquet")
    (tmp_path / "_SUCCESS").write_text("")
    (tmp_path / ".1.parquet.crc").write_text("x")
    assert lakescan.convert_to_delta(tmp_path).count() == 3


def test_a_folder_without_files_is_refused(tmp_path: Path) -> None:
    with pytest.raises(lakescan.InvalidOption, match="has no files"):
        lakescan.convert_to_delta(tmp_path)


def test_files_that_are_not_parquet_are_refused(tmp_path: Path) -> None:
    pq.write_table(ROWS, tmp_path / "1.parquet")
    (tmp_path / "2.csv").write_text("a,b\n1,2\n")
    with pytest.raises(lakescan.CorruptData, match=r"2\.csv"):
        lakescan.convert_to_delta(tmp_path)
    assert not (tmp_path / "_delta_log").exists()


def test_converted_rows_get_row_ids(tmp_path: Path) -> None:
    pq.write_table(ROWS, tmp_path / "1.parquet")
    table = lakescan.convert_to_delta(tmp_path, properties={"delta.enableRowTracking": True})
    assert sorted(table.scan().select("_row_id").to_arrow()["_row_id"].to_pylist()) == [0, 1, 2]
