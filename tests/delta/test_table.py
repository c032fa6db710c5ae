"""Delta tables, read in process: the demo's table, time travel, features, deletion vectors."""

from __future__ import annotations

import json
import os
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake
from samples.delta_deletes import commit_vectors, inline_vector, stored_vector

import lakescan
from tests.support.rows import differences

DAYS = [datetime(2026, 1, day, tzinfo=UTC) for day in (1, 2, 3)]


@pytest.fixture
def numbers(tmp_path: Path) -> Path:
    """Make three commits, one a day: {1, 2}, then 3, then 4."""
    for rows, day in zip(([1, 2], [3], [4]), DAYS, strict=True):
        write_deltalake(str(tmp_path), pa.table({"n": rows}), mode="append")
        newest = max((tmp_path / "_delta_log").glob("*.json"))
        os.utime(newest, (day.timestamp(), day.timestamp()))
    return tmp_path


def found(table: Path, **options: Any) -> list[int]:
    return sorted(lakescan.table(table, **options).scan().to_arrow()["n"].to_pylist())


def test_the_demo_table_has_the_rows_after_its_updates_and_deletes(shop) -> None:
    actual = lakescan.table(shop.customers).scan().to_arrow()
    expected = pq.read_table(shop.expected_customers)
    assert differences(actual.select(expected.column_names), expected) == ""


def test_a_version_reads_the_table_as_it_was(numbers: Path) -> None:
    assert [found(numbers, versionAsOf=v) for v in (0, 1, "2")] == [[1, 2], [1, 2, 3], [1, 2, 3, 4]]


@pytest.mark.parametrize(
    ("moment", "rows"),
    [
        ("2026-01-01", [1, 2]),
        ("2026-01-02 00:00:00", [1, 2, 3]),
        ("2026-01-02T23:00:00-05:00", None),
        ("2026-01-02 12:00:00", [1, 2, 3]),
    ],
)
def test_a_time_reads_the_last_version_up_to_it(numbers: Path, moment: str, rows: list[int] | None) -> None:
    if rows is None:
        with pytest.raises(lakescan.NoSuchSnapshot, match="after the newest version, 2"):
            found(numbers, timestampAsOf=moment)
    else:
        assert found(numbers, timestampAsOf=moment) == rows


def test_a_time_before_the_first_version_is_refused_with_that_version(numbers: Path) -> None:
    with pytest.raises(lakescan.NoSuchSnapshot, match="before the oldest version in the log, 0"):
        found(numbers, timestampAsOf="2025-12-31")


def test_commit_times_ascend_even_where_file_times_do_not(numbers: Path) -> None:
    os.utime(numbers / "_delta_log" / f"{1:020d}.json", (DAYS[0].timestamp() - 99, DAYS[0].timestamp() - 99))
    moments = lakescan.table(numbers).history()["timestamp"].to_pylist()
    assert moments == sorted(set(moments))
    assert found(numbers, timestampAsOf=moments[1]) == [1, 2, 3]


def test_in_commit_timestamps_take_precedence_over_file_times(numbers: Path) -> None:
    log = numbers / "_delta_log"
    for version, day in enumerate(DAYS):
        path = log / f"{version:020d}.json"
        actions = [json.loads(line) for line in path.read_text().splitlines()]
        actions = [a for a in actions if "commitInfo" not in a]
        for action in actions:
            if "metaData" in action:
                action["metaData"]["configuration"]["delta.enableInCommitTimestamps"] = "true"
        info = {"commitInfo": {"inCommitTimestamp": int(day.timestamp() * 1000) + 500, "operation": "WRITE"}}
        path.write_text("\n".join(json.dumps(a) for a in [info, *actions]))
    assert found(numbers, timestampAsOf="2026-01-02 00:00:00.500") == [1, 2, 3]
    with pytest.raises(lakescan.NoSuchSnapshot):
        found(numbers, timestampAsOf="2026-01-01 00:00:00.400")


def test_version_and_time_together_are_refused(numbers: Path) -> None:
    with pytest.raises(lakescan.InvalidOption, match="'versionAsOf' and 'timestampAsOf'"):
        found(numbers, versionAsOf=0, timestampAsOf="2026-01-01")


def test_a_version_that_is_not_a_number_is_refused(numbers: Path) -> None:
    with pytest.raises(lakescan.NoSuchSnapshot, match="'main' is not a Delta version"):
        found(numbers, versionAsOf="main")


def test_delta_has_no_branches(numbers: Path) -> None:
    with pytest.raises(lakescan.UnsupportedFeature, match="branches"):
        lakescan.table(numbers).scan().as_of(branch="main").to_arrow()


@pytest.mark.parametrize("make", [stored_vector, lambda table, rows: inline_vector(rows)], ids=["stored", "inline"])
def test_rows_of_a_deletion_vector_are_not_read(tmp_path: Path, make: Any) -> None:
    write_deltalake(str(tmp_path), pa.table({"n": [10, 11, 12, 13]}))
    (data,) = tmp_path.glob("*.parquet")
    commit_vectors(tmp_path, {data.name: make(tmp_path, [0, 2])})
    assert found(tmp_path) == [11, 13]
    assert found(tmp_path, versionAsOf=0) == [10, 11, 12, 13]
    commit_vectors(tmp_path, {data.name: make(tmp_path, [0, 2, 3])})
    assert found(tmp_path) == [11]


@pytest.mark.parametrize(
    ("protocol", "message"),
    [
        ({"minReaderVersion": 4, "minWriterVersion": 7}, "Delta reader version 4"),
        ({"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["fromTheFuture"]}, "'fromTheFuture'"),
        ({"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["catalogManaged"]}, "catalog"),
    ],
)
def test_an_unsupported_feature_is_refused_by_name(numbers: Path, protocol: dict, message: str) -> None:
    (numbers / "_delta_log" / f"{3:020d}.json").write_text(json.dumps({"protocol": protocol}))
    with pytest.raises(lakescan.UnsupportedFeature, match=message):
        found(numbers)


def test_writer_features_do_not_matter_to_a_reader(numbers: Path) -> None:
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": [], "writerFeatures": ["fromTheFuture"]}
    (numbers / "_delta_log" / f"{3:020d}.json").write_text(json.dumps({"protocol": protocol}))
    assert found(numbers) == [1, 2, 3, 4]


def test_geometries_are_read_as_their_well_known_binary(tmp_path: Path) -> None:
    point = bytes.fromhex("0101000000000000000000f03f0000000000000040")
    write_deltalake(str(tmp_path), pa.table({"n": [1, 2], "g": [point, None]}))
    first = tmp_path / "_delta_log" / f"{0:020d}.json"
    (metadata,) = [a["metaData"] for a in map(json.loads, first.read_text().splitlines()) if "metaData" in a]
    metadata["schemaString"] = metadata["schemaString"].replace('"binary"', '"geometry(OGC:CRS84)"')
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["geospatial"], "writerFeatures": []}
    actions = [{"protocol": protocol}, {"metaData": metadata}]
    (tmp_path / "_delta_log" / f"{1:020d}.json").write_text("\n".join(map(json.dumps, actions)))
    assert "geometry(OGC:CRS84)" in metadata["schemaString"]
    assert lakescan.table(tmp_path).scan().to_arrow()["g"].to_pylist() == [point, None]


def test_a_broken_last_checkpoint_file_does_not_matter(numbers: Path) -> None:
    from deltalake import DeltaTable

    DeltaTable(str(numbers)).create_checkpoint()
    (numbers / "_delta_log" / "_last_checkpoint").write_text("{broken")
    assert found(numbers) == [1, 2, 3, 4]


def test_a_checkpoint_and_the_commits_after_it_give_the_same_rows(numbers: Path) -> None:
    from deltalake import DeltaTable, write_deltalake

    DeltaTable(str(numbers)).create_checkpoint()
    for version in range(2):
        (numbers / "_delta_log" / f"{version:020d}.json").unlink()
    write_deltalake(str(numbers), pa.table({"n": [5]}), mode="append")
    DeltaTable(str(numbers)).delete("n = 2")
    assert found(numbers) == [1, 3, 4, 5]


def test_statistics_prune_files(numbers: Path) -> None:
    plan = lakescan.table(numbers).scan().where("n > 3").plan()
    assert (plan.report.metrics.result_data_files, plan.report.skipped_by_stats) == (1, 2)


def test_partition_values_prune_files_and_drop_the_filter(shop) -> None:
    plan = lakescan.table(shop.customers).scan().where("country = 'FR'").plan()
    assert plan.report.skipped_by_partition > 0
    assert [str(r) for r in plan.residuals] == ["true"]


def test_column_names_with_odd_characters_and_null_partitions_are_read(tmp_path: Path) -> None:
    rows = pa.table({"a b/c": ["x=%20", None, "é"], "n": [1, 2, 3]})
    write_deltalake(str(tmp_path), rows, partition_by=["a b/c"])
    assert differences(lakescan.table(tmp_path).scan().to_arrow(), rows) == ""
    assert lakescan.table(tmp_path).scan().where("`a b/c` is null").to_arrow()["n"].to_pylist() == [2]


def test_history_shows_the_operation_of_each_commit(numbers: Path) -> None:
    history = lakescan.table(numbers).history()
    assert history["version"].to_pylist() == [0, 1, 2]
    assert history["timestamp"].to_pylist() == DAYS
    assert set(history["operation"].to_pylist()) == {"WRITE"}


WIDENED = [
    ("byte", "short", pa.int8(), 7),
    ("byte", "integer", pa.int8(), 7),
    ("byte", "decimal(10,0)", pa.int8(), 7),
    ("short", "long", pa.int16(), -7),
    ("short", "double", pa.int16(), -7),
    ("integer", "long", pa.int32(), 7),
    ("integer", "double", pa.int32(), 7),
    ("integer", "decimal(12,2)", pa.int32(), 7),
    ("long", "decimal(20,0)", pa.int64(), 2**40),
    ("float", "double", pa.float32(), 1.5),
    ("decimal(5,2)", "decimal(9,3)", pa.decimal128(5, 2), Decimal("1.25")),
    ("date", "timestamp_ntz", pa.date32(), date(1969, 12, 31)),
]


@pytest.mark.parametrize(("old", "new", "stored", "value"), WIDENED, ids=lambda v: str(v))
def test_a_widened_type_is_read_everywhere(tmp_path: Path, old: str, new: str, stored: pa.DataType, value: Any) -> None:
    """As a column, in a struct, in a list, as a map's value and as a partition value; also filtered by statistics."""
    nested = {"type": "struct", "fields": [field("x", new)]}
    listed = {"type": "array", "elementType": new, "containsNull": True}
    mapped = {"type": "map", "keyType": "string", "valueType": new, "valueContainsNull": True}
    fields = [field("c", new), field("s", nested), field("l", listed), field("m", mapped), field("p", new)]
    columns = {
        "c": pa.array([value], stored),
        "s": pa.array([{"x": value}], pa.struct([("x", stored)])),
        "l": pa.array([[value]], pa.list_(stored)),
        "m": pa.array([[("k", value)]], pa.map_(pa.string(), stored)),
    }
    as_json = str(value) if isinstance(value, date) else float(value) if isinstance(value, Decimal) else value
    bounds = {"numRecords": 1, "minValues": {"c": as_json}, "maxValues": {"c": as_json}, "nullCount": {"c": 0}}
    location = handmade(tmp_path / "t", fields, pa.table(columns), {"p": str(value)}, bounds)
    scan = lakescan.table(location).scan()
    (row,) = scan.to_arrow().to_pylist()
    wide = datetime(1969, 12, 31) if isinstance(value, date) else value
    assert row == {"c": wide, "s": {"x": wide}, "l": [wide], "m": [("k", wide)], "p": wide}
    shown = f"timestamp_ntz '{wide}'" if isinstance(value, date) else wide
    for name in ("c", "p"):
        assert scan.where(f"{name} = {shown}").to_arrow().num_rows == 1
        assert scan.where(f"{name} > {shown}").to_arrow().num_rows == 0
    assert len(scan.where(f"p > {shown}").plan().table) == 0


def field(name: str, kind: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, "nullable": True, "metadata": {}}


def handmade(
    folder: Path, fields: list[dict[str, Any]], rows: pa.Table, partition: dict[str, str], stats: dict[str, Any]
) -> str:
    """Make a table of one file with any schema."""
    (folder / "_delta_log").mkdir(parents=True)
    pq.write_table(rows, folder / "f.parquet")
    features = ["typeWidening", "timestampNtz"]
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": features, "writerFeatures": features}
    schema = json.dumps({"type": "struct", "fields": fields})
    metadata = {"id": "t", "format": {"provider": "parquet", "options": {}}, "schemaString": schema}
    metadata |= {"partitionColumns": list(partition), "configuration": {}}
    add = {"path": "f.parquet", "partitionValues": partition, "size": 1, "modificationTime": 1, "dataChange": True}
    actions = [{"protocol": protocol}, {"metaData": metadata}, {"add": add | {"stats": json.dumps(stats)}}]
    (folder / "_delta_log" / f"{0:020d}.json").write_text("\n".join(json.dumps(a) for a in actions))
    return str(folder)


@pytest.mark.parametrize(
    ("condition", "found"),
    [
        ("{} = 'ab'", True),
        ("{} = 'ab   '", True),
        ("{} = 'ab       '", True),
        ("{} in ('ab ')", True),
        ("{} <> 'ab'", False),
        ("{} >= 'ab'", True),
        ("{} > 'ab'", False),
        ("{} = 'abcdef'", False),
        ("{} < 'ab   z'", True),
        ("{} < 'ab    \t'", False),  # a tab sorts before the padding spaces
        ("{} > 'ab    \t'", True),
        ("{} like 'ab'", False),
        ("{} like 'ab   '", True),
        ("{} is not null", True),
    ],
)
def test_texts_of_char_are_padded_as_spark_reads_them(tmp_path: Path, condition: str, found: bool) -> None:
    """Whatever their writer stored: bounds and partition values may lack the trailing spaces."""
    char = {"metadata": {"__CHAR_VARCHAR_TYPE_STRING": "char(5)"}}
    inner = {"type": "struct", "fields": [field("x", "string") | char]}
    fields = [field("c", "string") | char, field("s", inner), field("p", "string") | char]
    bounds = {"c": "ab", "s": {"x": "ab"}}
    stats = {"numRecords": 1, "minValues": bounds, "maxValues": bounds, "nullCount": {"c": 0, "s": {"x": 0}}}
    location = handmade(tmp_path / "t", fields, pa.table({"c": ["ab"], "s": [{"x": "ab"}]}), {"p": "ab"}, stats)
    scan = lakescan.table(location).scan()
    assert scan.to_arrow().to_pylist() == [{"c": "ab   ", "s": {"x": "ab   "}, "p": "ab   "}]
    for name in ("c", "s.x", "p"):
        filtered = scan.where(condition.format(name))
        assert filtered.to_arrow().num_rows == filtered.count() == int(found), name
    assert (scan.min("c"), scan.max("p")) == ("ab   ", "ab   ")


def test_void_columns_are_null(tmp_path: Path) -> None:
    fields = [field("id", "integer"), field("nothing", "void")]
    location = handmade(tmp_path / "t", fields, pa.table({"id": pa.array([1], pa.int32())}), {}, {})
    assert lakescan.table(location).scan().to_arrow().to_pydict() == {"id": [1], "nothing": [None]}


@pytest.mark.slow
def test_vectors_find_their_rows_in_files_of_many_row_groups_whatever_the_splits(tmp_path: Path) -> None:
    folder = tmp_path / "t"
    write_deltalake(folder, pa.table({"id": list(range(1000))}))
    (file,) = folder.glob("*.parquet")
    pq.write_table(pq.read_table(file), file, row_group_size=7)
    commit_vectors(folder, {file.name: stored_vector(folder, list(range(0, 1000, 3)))})
    for split_size in (1, 500, 1 << 20):
        scan = lakescan.table(str(folder)).scan().options(split_size=split_size, file_open_cost=1)
        assert sorted(scan.to_arrow()["id"].to_pylist()) == [i for i in range(1000) if i % 3]
