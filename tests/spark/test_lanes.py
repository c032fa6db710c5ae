"""The native lane returns the rows of the Arrow lane; `explain` reports where it is not used, and why."""

from __future__ import annotations

import json
import math
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake
from samples.delta_deletes import commit_vectors, stored_vector
from samples.iceberg_deletes import (
    commit_deletes,
    local,
    write_deletion_vectors,
    write_equality_deletes,
    write_position_deletes,
)
from samples.iceberg_table import write_table

import lakescan
from lakescan.common.cache import CACHE
from lakescan.spark.native import file_facts as facts
from lakescan.spark.native.file_facts import SizeIndex
from lakescan.spark.native.lanes import choose_lanes
from lakescan.spark.native.planned_frames import frame_of_plan
from tests.support.catalog import local_catalog
from tests.support.rows import differences

pytestmark = [pytest.mark.spark, pytest.mark.replaced]


def native(spark: Any, scan: lakescan.Scan) -> pa.Table:
    """Return the rows of the native lane, after comparing them with the rows read in process."""
    frame = scan.options(lane="native").to_spark(spark)
    found = frame.toArrow()
    assert not len(scan.plan().table) or "FileScan parquet" in frame._jdf.queryExecution().toString()
    assert differences(found, scan.to_arrow()) == ""
    return found


@pytest.mark.parametrize("name", ["orders", "customers"])
@pytest.mark.parametrize("condition", [None, "{0} > 1000 and {0} < 4000"])
def test_a_table_with_deletes_evolution_and_partitions_is_native(spark, shop, name: str, condition: str | None) -> None:
    scan = lakescan.table(getattr(shop, name)).scan()
    scan = scan if condition is None else scan.where(condition.format(scan.schema.names[0]))
    assert native(spark, scan).num_rows > 0


@pytest.mark.parametrize(
    ("format", "properties"),
    [
        ("iceberg", {"format-version": "3"} | {f"write.{each}.mode": "merge-on-read" for each in ("update", "delete")}),
        ("delta", {"delta.enableRowTracking": "true", "delta.enableDeletionVectors": "true"}),
    ],
)
def test_row_ids_are_native(spark, tmp_path: Path, format: str, properties: dict[str, str]) -> None:
    """For rows with stored ids (they were moved), and for rows whose id follows from their position."""
    catalog = lakescan.catalog("ids", warehouse=tmp_path)
    catalog.create_namespace("n")
    catalog.create_table("n.t", "id BIGINT", format=format, properties=properties)
    for start in (0, 10):
        catalog.load_table("n.t").append(pa.table({"id": range(start, start + 10)}))
    before = catalog.load_table("n.t").scan().select("id", "_row_id").to_arrow().sort_by("id")["_row_id"]
    catalog.load_table("n.t").update({"id": "id + 100"}, "id % 3 = 0")
    written = {"iceberg": ["_last_updated_sequence_number", "_spec_id"], "delta": ["_row_commit_version"]}[format]
    scan = catalog.load_table("n.t").scan().select("id", "_row_id", "_file", "_pos", *written)
    found = native(spark, scan).sort_by("_row_id")
    assert found["_row_id"] == before
    assert len(set(found[written[0]].to_pylist())) == 3
    assert native(spark, scan.where("_row_id = 3"))["id"].to_pylist() == [103]


VALUES: dict[str, tuple[pa.DataType, list[Any], list[str]]] = {
    "b": (pa.bool_(), [True, False, None], ["x = true", "x in (true, false)"]),
    "i": (pa.int32(), [1, -5, None], ["x >= 1", "x not in (1, 2)", "x is null", "x in (1, 9) or n = 1"]),
    "l": (pa.int64(), [2**40, 0, None], ["x = 1099511627776"]),
    "f": (pa.float32(), [1.5, math.nan, None], ["x > 1", "x = 1.5", "isnan(x)", "not isnan(x)"]),
    "d": (pa.float64(), [0.1, math.nan, -0.0, None], ["x > 0.1", "x = 0", "x in (0.0, 7)", "x != 5"]),
    "s": (pa.string(), ["a%b", "ab", "é", None], ["x like 'a\\\\%%'", "x not like 'a%'", "x > 'b'", "x = 'é'"]),
    "y": (pa.binary(), [b"\x00\xff", b"", None], ["x = X'00ff'"]),
    "fx": (pa.binary(2), [b"\x00\xff", b"ab", None], ["x = X'00ff'", "x is null"]),
    "dt": (pa.date32(), [date(1, 1, 1), date(2026, 2, 3), None], ["x < '2000-01-01'", "x = '2026-02-03'"]),
    "ts": (
        pa.timestamp("us"),
        [datetime(1500, 1, 1, 0, 0, 0, 1), datetime(2026, 1, 1, 12), None],
        ["x = '1500-01-01 00:00:00.000001'", "x > '2026-01-01'"],
    ),
    "tz": (pa.timestamp("us", "UTC"), [datetime(2026, 1, 1, 12, tzinfo=UTC), None], ["x = '2026-01-01 12:00:00'"]),
    "n": (pa.decimal128(9, 2), [Decimal("1.23"), Decimal("-0.01"), None], ["x = 1.23", "x > -0.011", "x = 1.234"]),
    "a": (pa.list_(pa.int64()), [[1, None], [], None], []),
    "m": (pa.map_(pa.string(), pa.int64()), [[("k", 1)], [], None], []),
}


@pytest.mark.parametrize("name", ["iceberg", "delta"])
@pytest.mark.parametrize("kind", VALUES)
def test_every_plain_type_and_its_conditions_are_native(spark, tmp_path: Path, name: str, kind: str) -> None:
    arrow, values, conditions = VALUES[kind]
    if name == "delta" and kind == "fx":
        arrow = pa.binary()
    rows = pa.table({"x": pa.array(values, arrow), "n": pa.array(range(len(values)), pa.int64())})
    if name == "iceberg":
        table = local_catalog(tmp_path).create_table("n.t", rows.schema)
        table.append(rows)
        location = table.metadata_location
    else:
        location = str(tmp_path / "t")
        write_deltalake(location, rows)
    scan = lakescan.table(location).scan()
    native(spark, scan)
    for condition in conditions:
        native(spark, scan.where(condition))


def test_changed_columns_are_native(spark, tmp_path: Path) -> None:
    from pyiceberg.types import DecimalType, DoubleType, LongType, StringType

    kinds = {"i": pa.int32(), "f": pa.float32(), "n": pa.decimal128(5, 2), "gone": pa.string()}
    table = local_catalog(tmp_path).create_table("n.t", pa.schema(kinds))
    old = {"i": [1], "f": [1.5], "n": [Decimal("1.25")], "gone": ["a"]}
    table.append(pa.table({c: pa.array(v, kinds[c]) for c, v in old.items()}))
    with table.update_schema() as update:
        update.update_column("i", LongType())
        update.update_column("f", DoubleType())
        update.update_column("n", DecimalType(12, 2))
        update.delete_column("gone")
        update.rename_column("i", "number")
    with table.update_schema() as update:
        update.add_column("gone", StringType())  # another column of the same name
        update.move_first("gone")
    table.append(
        pa.table({"gone": ["b"], "number": [2**40], "f": [2.5], "n": [Decimal("9.75")]}, table.schema().as_arrow())
    )
    assert native(spark, lakescan.table(table.metadata_location).scan()).num_rows == 2


@pytest.mark.parametrize("vectorized", ["true", "false"])
def test_a_column_added_with_a_default_is_native(spark, tmp_path: Path, vectorized: str) -> None:
    others = {
        "date": "1960-02-29",
        "timestamp": "2024-03-31T02:30:00.000001",
        "timestamptz": "2024-03-31T02:30:00.000001+00:00",
        "decimal(9, 2)": "-1.50",
        "decimal(18, 10)": "12345678.0123456789",
        "float": 1.1,
        "double": -1e300,
        "long": 2**60,
    }
    fields = [
        {"id": 1, "name": "n", "required": False, "type": "long"},
        {"id": 2, "name": "s", "required": False, "type": "string", "initial-default": 'it\'s \\ "so"'},
        {"id": 3, "name": "i", "required": False, "type": "int", "initial-default": 7},
        {"id": 4, "name": "b", "required": False, "type": "boolean", "initial-default": True},
    ]
    for n, (kind, value) in enumerate(others.items(), 5):
        fields.append({"id": n, "name": f"c{n}", "required": False, "type": kind, "initial-default": value})
    field = pa.field("n", pa.int64(), metadata={"PARQUET:field_id": "1"})
    location = write_table(tmp_path / "t", fields, [pa.table([[1, 2]], schema=pa.schema([field]))])
    spark.conf.set("spark.sql.parquet.enableVectorizedReader", vectorized)
    try:
        scan = lakescan.table(location).scan()
        found = native(spark, scan)
        assert found["s"].to_pylist() == ['it\'s \\ "so"'] * 2
        assert differences(scan.to_spark(spark).toArrow(), scan.to_arrow()) == ""
        assert native(spark, scan.where("c5 < DATE '1970-01-01' AND c8 = -1.5 AND c10 > 1")).num_rows == 2
    finally:
        spark.conf.unset("spark.sql.parquet.enableVectorizedReader")


@pytest.mark.parametrize("kind", ["binary", "fixed[3]", "decimal(20, 2)", "struct"])
def test_defaults_that_spark_cannot_return_are_read_by_the_arrow_lane(spark, tmp_path: Path, kind: str) -> None:
    """Spark's vectorized reader fails for bytes and decimals of more than 64 bits, and finds no defaults in structs."""
    added: dict[str, Any] = {"id": 2, "name": "added", "required": False, "type": kind}
    added["initial-default"] = "12345678901234567.25" if kind.startswith("decimal") else "00ff27"
    file = pa.table({"n": [1, 2]}, schema=pa.schema([pa.field("n", pa.int64(), metadata={"PARQUET:field_id": "1"})]))
    fields = [{"id": 1, "name": "n", "required": False, "type": "long"}, added]
    if kind == "struct":
        member = {"id": 4, "name": "m", "required": False, "type": "long", "initial-default": 7}
        inner = [{"id": 3, "name": "k", "required": False, "type": "long"}, member]
        fields[1] = {"id": 2, "name": "added", "required": False, "type": {"type": "struct", "fields": inner}}
        k = pa.field("k", pa.int64(), metadata={"PARQUET:field_id": "3"})
        struct = pa.field("added", pa.struct([k]), metadata={"PARQUET:field_id": "2"})
        file = pa.table([file["n"], [{"k": 5}, None]], schema=pa.schema([file.schema.field("n"), struct]))
    scan = lakescan.table(write_table(tmp_path / "t", fields, [file])).scan()
    assert differences(scan.to_spark(spark).toArrow(), scan.to_arrow()) == ""
    with pytest.raises(lakescan.UnsupportedFeature, match="added"):
        scan.options(lane="native").to_spark(spark)


@pytest.fixture
def numbers(tmp_path: Path) -> Any:
    """A pyiceberg table of two files, 0 to 99 and 100 to 249."""
    table = local_catalog(tmp_path).create_table("n.t", pa.schema({"n": pa.int64(), "s": pa.string()}))
    for low, high in ((0, 100), (100, 250)):
        table.append(pa.table({"n": range(low, high), "s": [f"s{i % 7}" for i in range(low, high)]}))
    return table


def files_of(location: str) -> list[str]:
    """Return the data files, by their first number."""
    plan = lakescan.table(location).scan().where("n >= 0").plan()
    lowest = [row["n"]["lower"] for row in plan.column_stats.to_pylist()]
    return [path for _, path in sorted(zip(lowest, plan.files["path"].to_pylist(), strict=True))]


def test_position_deletes_and_vectors_of_one_file_are_native(spark, numbers: Any) -> None:
    first, second = files_of(numbers.metadata_location)
    folder = f"{numbers.location()}/data"
    positions = [write_position_deletes(f"{folder}/p.parquet", [(first, 0), (first, 64), (first, 99), (second, 3)])]
    location = commit_deletes(numbers.metadata_location, positions)
    vectors = write_deletion_vectors(f"{folder}/v.puffin", {second: [0, 63, 64, 149]})
    location = commit_deletes(location, vectors, format_version=3)
    found = native(spark, lakescan.table(location).scan().select("n", "_pos", "_file"))
    gone = {0, 64, 99, 100, 163, 164, 249}
    assert sorted(found["n"].to_pylist()) == [n for n in range(250) if n not in gone]
    places = {n: (n, first) if n < 100 else (n - 100, second) for n in range(250)}
    for row in found.to_pylist():
        assert (row["_pos"], row["_file"]) == places[row["n"]]
    [file] = native(spark, lakescan.table(location).scan().where("n = 7").select("_file"))["_file"].to_pylist()
    assert file == first


def test_equality_deletes_delete_older_rows_of_their_partition(spark, tmp_path: Path) -> None:
    """By one key and by two; in partitions and globally; a key that is added again after its deletion stays."""
    from pyiceberg.transforms import IdentityTransform

    schema = pa.schema({"p": pa.string(), "k": pa.int64(), "f": pa.int64()})
    table = local_catalog(tmp_path).create_table("n.t", schema)
    folder = f"{table.location()}/data"

    def append(rows: list[tuple[Any, ...]]) -> None:
        table.append(pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema))

    append([("a", 1, 5), ("a", None, 10), ("b", 1, 70), ("b", 2, 0)])
    everywhere = write_equality_deletes(f"{folder}/e1.parquet", pa.table({"k": pa.array([None, 2])}), {"k": 2})
    location = commit_deletes(table.metadata_location, [everywhere])
    table = reopened(table, location)
    append([("a", 2, 0), ("c", 5, None), ("c", None, 0)])
    both = write_equality_deletes(
        f"{folder}/e2.parquet", pa.table({"k": [5, 2], "f": pa.array([None, 0], pa.int64())}), {"k": 2, "f": 3}
    )
    location = commit_deletes(table.metadata_location, [both])
    table = reopened(table, location)
    append([("c", 5, None)])
    with table.update_spec() as spec:
        spec.add_field("p", IdentityTransform(), "p")
    append([("a", 9, 10), ("b", 9, 10)])
    within = write_equality_deletes(
        f"{folder}/e3.parquet", pa.table({"k": [9]}), {"k": 2}, partition={"p": "a"}, spec_id=table.spec().spec_id
    )
    scan = lakescan.table(commit_deletes(table.metadata_location, [within])).scan()
    found = native(spark, scan)
    keys = sorted((r["p"], r["k"] if r["k"] is not None else -1) for r in found.to_pylist())
    assert keys == [("a", 1), ("b", 1), ("b", 9), ("c", -1), ("c", 5)]
    assert native(spark, scan.select("p")).num_rows == 5
    assert native(spark, scan.where("f > 7")).num_rows == 2


def reopened(table: Any, location: str) -> Any:
    """Reopen the pyiceberg table at another metadata file, in its catalog."""
    import sqlite3

    database = table.catalog.engine.url.database
    with sqlite3.connect(database) as connection:
        connection.execute("update iceberg_tables set metadata_location = ?", (location,))
    return table.catalog.load_table(table.name())


def test_files_of_the_same_size_are_distinguished_by_path(spark, tmp_path: Path) -> None:
    """Also if their paths must be written as URIs."""
    folder = tmp_path / "a b é"
    for start in (10, 20, 30):
        write_deltalake(folder, pa.table({"n": range(start, start + 5)}), mode="append")
    data = sorted(folder.glob("*.parquet"), key=lambda f: pq.read_table(f)["n"][0].as_py())
    assert len({file.stat().st_size for file in data}) == 1
    commit_vectors(folder, {file.name: stored_vector(folder, [place]) for place, file in enumerate(data)})
    found = native(spark, lakescan.table(folder).scan())
    assert sorted(found["n"].to_pylist()) == [11, 12, 13, 14, 20, 22, 23, 24, 30, 31, 33, 34]


def test_positions_are_kept_by_file_size() -> None:
    generator = np.random.default_rng(0)
    for count in (1, 2, 10, 300):
        sizes = np.unique(generator.integers(1_000_000, 9_000_000, count))
        places = SizeIndex.find(sizes)
        assert places is not None
        assert len(np.unique(places.indices(sizes))) == len(sizes)
    assert SizeIndex.find(np.array([5, 5])) is None


@pytest.fixture
def with_deletes(numbers: Any) -> str:
    """The table of numbers with a deleted row in each file."""
    first, second = files_of(numbers.metadata_location)
    path = f"{numbers.location()}/data/p.parquet"
    deletes = [write_position_deletes(path, [(first, 5), (second, 6)])]
    return commit_deletes(numbers.metadata_location, deletes)


@pytest.mark.parametrize("wrong", ["size", "path", "path of equal sizes"])
def test_a_file_without_looked_up_deletes_fails_the_query(
    spark, with_deletes: str, wrong: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a wrong file size or path: no row is returned without its deletes."""
    made = facts.FileFacts.__init__

    def corrupted(self: Any, spark: Any, paths: Any, sizes: Any, deleted: Any, values: Any) -> None:
        if wrong == "size":
            sizes = sizes + np.array([0, 64])
        elif wrong == "path":
            sizes, paths = sizes[::-1] + 1, paths[::-1]
        else:
            sizes, paths = np.full(2, 7), [paths[0], paths[1] + "x"]
        made(self, spark, paths, sizes, deleted, values)

    scan = lakescan.table(with_deletes).scan().spec
    monkeypatch.setattr(facts.FileFacts, "__init__", corrupted)
    with pytest.raises(Exception, match="whose size or path is not in the plan"):
        frame_of_plan(spark, scan, scan.plan()).toArrow()


def test_sizes_in_metadata_may_be_stale(spark, with_deletes: str) -> None:
    """Positions are computed from the files' actual sizes."""
    scan = lakescan.table(with_deletes).scan()
    path = local(files_of(with_deletes)[0])
    pq.write_table(pq.read_table(path), path, compression="none", write_statistics=False)
    found = scan.options(lane="native").to_spark(spark)
    assert found.count() == 248


def test_a_file_that_spark_would_skip_is_read_through_arrow(spark, tmp_path: Path) -> None:
    """Spark silently skips hidden files, and reads brackets as a pattern."""
    fields = [{"id": 1, "name": "n", "required": False, "type": "long"}]
    schema = pa.schema([pa.field("n", pa.int64(), metadata={"PARQUET:field_id": "1"})])
    location = write_table(tmp_path / "t", fields, [pa.table([[n]], schema=schema) for n in range(3)])
    renamed = {"0.parquet": "_0.parquet", "1.parquet": "[1].parquet"}
    from tests.support import manifests

    manifests.rename_data_files(tmp_path / "t", renamed)
    scan = lakescan.table(location).scan()
    assert sorted(scan.to_spark(spark).toArrow()["n"].to_pylist()) == [0, 1, 2]
    lanes = choose_lanes(scan.spec, scan.spec.plan(), spark)
    assert lanes.native.sum() == 1
    assert any("hidden file" in reason for reason in lanes.reasons)
    assert any("as a glob pattern" in reason for reason in lanes.reasons)


def test_bitmaps_too_large_for_every_task_are_left_to_the_tasks_of_their_files(
    spark, with_deletes: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakescan.spark.native.lanes._MOST_ROWS", 249)
    scan = lakescan.table(with_deletes).scan()
    assert "2 files in the Arrow lane: files with deletes have 250 rows" in lakescan.spark.explain(scan)
    assert scan.to_spark(spark).count() == 248


def test_large_position_delete_files_are_decoded_by_spark_in_pieces(
    spark, numbers: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    location = numbers.metadata_location
    first, second = files_of(location)[:2]
    deletes = [write_position_deletes(f"{numbers.location()}/data/p.parquet", [(first, 1), (first, 99), (second, 0)])]
    scan = lakescan.table(commit_deletes(location, deletes)).scan()
    text = lakescan.spark.explain(scan)
    assert "3 rows deleted by position, as bitmaps" in text
    assert "decoded by the driver" in text
    expected = native(spark, scan).num_rows
    monkeypatch.setattr("lakescan.spark.native.native_frame.MIN_BYTES", 1)
    monkeypatch.setattr("lakescan.spark.native.native_frame.MIN_BYTES", 1)
    CACHE.clear()
    monkeypatch.setattr("lakescan.reading.deletes.position_deletes._PIECE", 700)
    assert native(spark, scan.options(verify=True)).num_rows == expected
    assert "decoded by Spark's workers" in lakescan.spark.explain(scan)


def test_both_lanes_of_a_scan_form_one_frame(spark, shop) -> None:
    """`explain` reports which lane is used."""
    scan = lakescan.table(shop.orders).scan()
    text = lakescan.spark.explain(scan)
    assert "files in the native lane" in text
    assert "Arrow lane" not in text
    assert "the option lane is arrow" in lakescan.spark.explain(scan.options(lane="arrow"))


def test_unsupported_scans_are_refused_if_the_native_lane_is_requested(spark, tmp_path: Path) -> None:
    table = local_catalog(tmp_path).create_table("n.t", pa.schema({"f": pa.uuid()}))
    table.append(pa.table({"f": pa.array([bytes(16)], pa.uuid())}))
    scan = lakescan.table(table.metadata_location).scan()
    assert scan.to_spark(spark).count() == 1
    with pytest.raises(lakescan.UnsupportedFeature, match="column 'f' is of type uuid"):
        scan.options(lane="native").to_spark(spark)
    with pytest.raises(lakescan.InvalidOption, match="auto, native or arrow"):
        scan.options(lane="fast")


def test_missing_files_are_an_error_whatever_the_session_ignores(spark, numbers: Any) -> None:
    scan = lakescan.table(numbers.metadata_location).scan()
    local(files_of(numbers.metadata_location)[0]).unlink()
    spark.conf.set("spark.sql.files.ignoreMissingFiles", "true")
    try:
        with pytest.raises(lakescan.MissingFile):
            scan.to_spark(spark).collect()
    finally:
        spark.conf.unset("spark.sql.files.ignoreMissingFiles")


def test_residuals_are_omitted_if_the_engine_filters(spark, numbers: Any) -> None:
    """Then a limit counts all rows of the files that the filter leaves."""
    scan = lakescan.table(numbers.metadata_location).scan().where("n = 150").ignore_residuals()
    assert scan.to_spark(spark).count() == 150
    assert scan.limit(5).to_spark(spark).count() == 5


def test_file_names_that_hadoop_misreads_use_the_arrow_lane(spark, tmp_path: Path) -> None:
    names = [
        "f:1",
        "10.x:2",
        "a\tb",
        "f[3]",
        "f{4}",
        "f*5",
        "f?6",
        "_u",
        ".h",
        "f\\7",
        "f 8",
        "f%419",
        "f#x",
        "f=ä",
        "f;,&~@+'\"|^",
    ]
    location = str(tmp_path / "t")
    write_deltalake(location, pa.table({"n": [0]}))
    adds = []
    for n, name in enumerate(names, 1):
        path = tmp_path / "t" / f"{name}.parquet"
        pq.write_table(pa.table({"n": pa.array([n], pa.int64())}), path)
        adds.append({"path": quote(path.name), "size": path.stat().st_size, "partitionValues": {}})
    lines = [json.dumps({"add": add | {"modificationTime": 0, "dataChange": True}}) for add in adds]
    (tmp_path / "t" / "_delta_log" / f"{1:020}.json").write_text("\n".join(lines))
    scan = lakescan.table(location).scan()
    expected = list(range(len(names) + 1))
    assert sorted(scan.to_arrow()["n"].to_pylist()) == expected
    assert sorted(row["n"] for row in scan.to_spark(spark).collect()) == expected
    assert "3 files in the Arrow lane: its path has a colon or a control character" in lakescan.spark.explain(scan)


@pytest.mark.parametrize(("size", "count", "lane"), [(2**20, 10_001, "native"), (2**20 - 1, 10_001, "small files")])
def test_more_than_ten_thousand_files_are_read_by_spark_unless_they_are_small(
    tmp_path: Path, size: int, count: int, lane: str
) -> None:
    location = logged(tmp_path, [(f"{n}.parquet", size) for n in range(count)])
    scan = lakescan.table(location).scan().spec
    lanes = choose_lanes(scan, scan.plan(), None)
    if lane == "native":
        assert lanes.native.all()
    else:
        assert not lanes.native.any()
        assert lane in next(iter(lanes.reasons))


def logged(folder: Path, files: list[tuple[str, int]]) -> str:
    """Make a Delta table whose log names files with given sizes; the files do not exist."""
    field = {"name": "id", "type": "long", "nullable": True, "metadata": {}}
    schema = json.dumps({"type": "struct", "fields": [field]})
    actions: list[dict[str, Any]] = [
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {
            "metaData": {
                "id": "t",
                "format": {"provider": "parquet", "options": {}},
                "schemaString": schema,
                "partitionColumns": [],
                "configuration": {},
            }
        },
    ]
    for name, size in files:
        add = {"path": name, "partitionValues": {}, "size": size, "modificationTime": 0, "dataChange": True}
        actions.append({"add": add})
    log = folder / "_delta_log" / f"{0:020}.json"
    log.parent.mkdir()
    log.write_text("\n".join(map(json.dumps, actions)))
    return str(folder)


def test_a_limit_and_an_empty_plan_are_native(spark, numbers: Any) -> None:
    scan = lakescan.table(numbers.metadata_location).scan()
    assert scan.limit(7).to_spark(spark).count() == 7
    assert scan.where("n < 0").to_spark(spark).count() == 0
    assert lakescan.spark.read(spark, numbers.metadata_location).count() == 250


STRUCT = pa.struct({"a": pa.int32(), "x": pa.float64(), "in": pa.struct({"y": pa.float32(), "z": pa.string()})})
STRUCTS = [
    {"a": 1, "x": 1.0, "in": {"y": 1.5, "z": "p"}},
    {"a": None, "x": math.nan, "in": {"y": math.nan, "z": None}},
    {"a": 3, "x": None, "in": None},
    None,
]
NESTED = pa.schema({"s": STRUCT, "l": pa.list_(STRUCT), "m": pa.map_(pa.string(), STRUCT), "n": pa.int64()})


def nested_rows() -> pa.Table:
    lists, maps = [[s] for s in STRUCTS], [[("k", s)] for s in STRUCTS]
    return pa.table([STRUCTS, lists, maps, [1, 2, 3, 4]], schema=NESTED)


@pytest.mark.parametrize("name", ["iceberg", "delta"])
def test_structs_at_any_depth_and_conditions_on_their_members_are_native(spark, tmp_path: Path, name: str) -> None:
    location = str(tmp_path / "t")
    if name == "delta":
        write_deltalake(location, nested_rows())
    else:
        table = local_catalog(tmp_path).create_table("n.t", NESTED)
        table.append(nested_rows().cast(table.schema().as_arrow()))
        location = table.metadata_location
    scan = lakescan.table(location).scan()
    assert native(spark, scan).num_rows == 4
    for condition in ("s.a = 3", "s.x > 5", "s.in.y > 5", "s.in.z is null", "s.a is null", "s is null"):
        found = native(spark, scan.where(condition)).num_rows
        assert found == scan.where(condition).to_arrow().num_rows > 0, condition


def test_structs_with_added_and_dropped_members_are_native(spark, tmp_path: Path) -> None:
    """A struct with only new members is a struct of nulls in old files, not null."""
    from pyiceberg.types import DoubleType, IntegerType

    table = local_catalog(tmp_path).create_table("n.t", NESTED)
    table.append(nested_rows().cast(table.schema().as_arrow()))
    with table.update_schema() as update:
        for path in ("s", "l.element", "m.value"):
            for gone in ("a", "x", "in"):
                update.delete_column((*path.split("."), gone))
            update.add_column((*path.split("."), "a"), IntegerType())  # another member of the same name
        update.add_column("d", DoubleType())
    found = native(spark, lakescan.table(table.metadata_location).scan())
    assert found["s"].to_pylist() == [{"a": None}, {"a": None}, {"a": None}, None]
    assert found["l"].to_pylist()[0] == [{"a": None}]
    frame = lakescan.table(table.metadata_location).scan().to_spark(spark).select("s.a")
    assert "ReadSchema: struct<s:struct<__lakescan_" in frame._jdf.queryExecution().toString()
    assert frame.toArrow()["a"].to_pylist() == [None] * 4


@pytest.mark.parametrize("new", [{"a": "new_a"}, {"x": "new_x", "in": "inner"}, {"a": "x", "x": "a"}], ids=str)
def test_structs_renamed_by_column_mapping_are_native(spark, tmp_path: Path, new: dict[str, str]) -> None:
    location = tmp_path / "t"
    write_deltalake(location, nested_rows().select(["s", "n", "l"]))
    log = location / "_delta_log" / "00000000000000000000.json"
    log.write_text(mapped_by_name(log.read_text(), new | {"s": "renamed"}))
    scan = lakescan.table(location).scan()
    found = native(spark, scan)
    assert found["renamed"].to_pylist()[0][new.get("a", "a")] == 1
    assert native(spark, scan.where(f"renamed.{new.get('x', 'x')} > 5")).num_rows == 1


def mapped_by_name(log: str, new: dict[str, str]) -> str:
    """Return a commit whose columns have other names in its files."""

    def renamed(field: dict[str, Any], number: int) -> dict[str, Any]:
        mapping = {"delta.columnMapping.physicalName": field["name"], "delta.columnMapping.id": number}
        kind = field["type"]
        if isinstance(kind, dict) and kind["type"] == "struct":
            kind = kind | {"fields": [renamed(f, number * 10 + i) for i, f in enumerate(kind["fields"])]}
        elif isinstance(kind, dict):
            fields = [renamed(f, number * 100 + i) for i, f in enumerate(kind["elementType"]["fields"])]
            kind = kind | {"elementType": kind["elementType"] | {"fields": fields}}
        return field | {"name": new.get(field["name"], field["name"]), "type": kind, "metadata": mapping}

    actions = [json.loads(line) for line in log.splitlines()]
    for action in actions:
        if "protocol" in action:
            action["protocol"] = {"minReaderVersion": 2, "minWriterVersion": 5}
        if "metaData" in action:
            schema = json.loads(action["metaData"]["schemaString"])
            schema["fields"] = [renamed(f, i) for i, f in enumerate(schema["fields"], 1)]
            action["metaData"] |= {
                "schemaString": json.dumps(schema),
                "configuration": {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "999"},
            }
    return "\n".join(map(json.dumps, actions)) + "\n"


def test_a_session_that_reads_new_members_as_null_structs_goes_through_arrow(spark, numbers: Any) -> None:
    name = "spark.sql.legacy.parquet.returnNullStructIfAllFieldsMissing"
    spark.conf.set(name, "true")
    try:
        with pytest.raises(lakescan.UnsupportedFeature, match=name):
            lakescan.table(numbers.metadata_location).scan().options(lane="native").to_spark(spark)
    finally:
        spark.conf.unset(name)


@pytest.mark.parametrize("condition", ["x > 5", "s.x > 5", "s.in.y > 5"])
def test_rows_with_nan_are_found_by_filters_of_the_frame(spark, tmp_path: Path, condition: str) -> None:
    """Spark's own reader skips their row groups, by statistics without NaN."""
    write_deltalake(
        tmp_path / "t", nested_rows().select(["s"]).append_column("x", pa.array([1.0, math.nan, None, 2.0]))
    )
    frame = lakescan.table(tmp_path / "t").scan().options(lane="native").to_spark(spark)
    assert frame.where(condition).count() == 1
    spark_own = spark.read.parquet(*frame.inputFiles())
    assert spark_own.where(condition).count() == 0


@pytest.mark.parametrize("condition", ["x > 5", "s.x > 5", "s.in.y > 5"])
def test_rows_with_nan_written_by_lakescan_are_found_by_sparks_own_reader(
    spark, tmp_path: Path, condition: str
) -> None:
    rows = nested_rows().select(["s"]).append_column("x", pa.array([1.0, math.nan, None, 2.0]))
    lakescan.save(rows, tmp_path / "t", format="delta")
    assert spark.read.parquet(str(tmp_path / "t" / "*.parquet")).where(condition).count() == 1


def test_deletes_with_other_spellings_and_files_listed_twice_are_native(spark, tmp_path: Path) -> None:
    table = local_catalog(tmp_path).create_table("n.t", pa.schema({"id": pa.int64()}))
    table.append(pa.table({"id": range(10)}))
    file = next(iter(table.scan().plan_files())).file
    plain = file.file_path.removeprefix("file://")
    folder = table.location().removeprefix("file://")
    made = write_position_deletes(f"{folder}/data/d.parquet", [(plain.replace("/data/", "//data/./"), 3)])
    once = lakescan.table(commit_deletes(table.metadata_location, [made])).scan()
    assert native(spark, once).num_rows == 9
    assert once.options(lane="arrow").to_spark(spark).count() == 9
    with table.transaction() as changes, changes.update_snapshot().fast_append() as files:
        files.append_data_file(file)
    twice = lakescan.table(commit_deletes(table.metadata_location, [made])).scan()
    assert any("read more than once" in each for each in choose_lanes(twice.spec, twice.spec.plan(), spark).reasons)
    assert sorted(row.id for row in twice.to_spark(spark).collect()) == sorted([n for n in range(10) if n != 3] * 2)


def by_spark(spark: Any, scan: lakescan.Scan, *, without: str | None = None) -> pa.Table:
    """Return the rows of Spark's own reader in a classic session, after comparing them with the Arrow lane's."""
    frame = scan.to_spark(spark)
    plan = frame._jdf.queryExecution().toString()
    assert ("BatchScan" in plan) == (without is not None)
    if without is not None:
        assert without in lakescan.spark.explain(scan)
    found = frame.toArrow()
    assert differences(found, scan.to_arrow()) == ""
    return found


def test_the_partition_of_a_row_is_a_constant_of_its_file(spark, tmp_path: Path) -> None:
    """A struct of the fields of all partition specs; fields that the file's spec lacks are null."""
    lakescan.spark.register(spark)
    lake = lakescan.catalog("partitionlanes", warehouse=str(tmp_path))
    lake.create_namespace("n")
    columns = "id BIGINT, s STRING, d DATE, n DECIMAL(9,2), t TIMESTAMP"
    partitions = ["s", "bucket(3, id)", "n", "hours(t)"]
    properties = {"write.delete.mode": "merge-on-read", "format-version": "2"}
    table = lake.create_table("n.t", columns, partition_by=partitions, properties=properties)
    kinds = pa.schema(table.scan().schema.arrow() if hasattr(table.scan().schema, "arrow") else table.scan().schema)
    rows = {
        "id": [1, 2, 3, None],
        "s": ["a", "b", None, "a"],
        "d": [date(2024, 1, 1), date(1960, 2, 3), None, date(2024, 1, 2)],
        "n": [Decimal("1.50"), None, Decimal("-0.01"), Decimal("1.50")],
        "t": [datetime(2024, 1, 1, 5, tzinfo=UTC), datetime(1960, 1, 1, tzinfo=UTC), None, None],
    }
    table.append(pa.table(rows, schema=kinds))
    lakescan.sql("ALTER TABLE partitionlanes.n.t ADD PARTITION FIELD days(d)")
    lakescan.sql("ALTER TABLE partitionlanes.n.t DROP PARTITION FIELD s")
    lakescan.table("partitionlanes.n.t").append(pa.table(rows, schema=kinds))
    lakescan.table("partitionlanes.n.t").delete("id = 2")
    scan = lakescan.table("partitionlanes.n.t").scan()
    assert by_spark(spark, scan.select("id", "_partition", "_spec_id")).num_rows == 6
    assert by_spark(spark, scan.select("_partition")).num_rows == 6
    assert native(spark, scan.select("_partition", "id", "_file", "_pos")).num_rows == 6
    name = next(f for f in lakescan.table("partitionlanes.n.t").scan().select("_partition").schema.names)
    assert name == "_partition"
    for condition in ("_partition.s = 'a'", "_partition.n = 1.5", "_partition.s IS NULL"):
        assert by_spark(spark, scan.select("id", "s").where(condition)).num_rows > 0
    frame = scan.select("id", "_partition").to_spark(spark)
    assert frame.where("_partition.s = 'a' AND id IS NOT NULL").count() == 1


def test_a_table_without_partitions_has_an_empty_struct_as_partition(spark, numbers: Any) -> None:
    lakescan.spark.register(spark)
    scan = lakescan.table(numbers.metadata_location).scan().select("n", "_partition")
    by_spark(spark, scan, without="the metadata column _partition of a table without partitions")


ORC_TYPES: dict[str, pa.DataType] = {
    "long": pa.int64(),
    "int": pa.int32(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "boolean": pa.bool_(),
    "binary": pa.binary(),
    "decimal(9, 2)": pa.decimal128(9, 2),
    "decimal(20, 3)": pa.decimal128(20, 3),
}


def orc_values(kind: pa.DataType) -> list[Any]:
    if pa.types.is_decimal(kind):
        return [Decimal("1.50"), None, Decimal("-0.01")]
    if pa.types.is_boolean(kind):
        return [True, None, False]
    if pa.types.is_floating(kind):
        return [1.5, None, math.nan]
    if pa.types.is_integer(kind):
        return [1, None, -7]
    return ["a", None, "é"] if pa.types.is_string(kind) else [b"\x00\xff", None, b""]


def orc_table(folder: Path, types: dict[str, pa.DataType], names: dict[str, str], *more: pa.Table) -> str:
    """Make an Iceberg table of ORC files: one with all columns under given names, and more."""
    fields = [{"id": n, "name": f"c{n}", "required": False, "type": kind} for n, kind in enumerate(types, 1)]
    arrow = [
        pa.field(names.get(f"c{n}", f"c{n}"), kind, metadata={"PARQUET:field_id": str(n)})
        for n, kind in enumerate(types.values(), 1)
    ]
    first = pa.table([pa.array(orc_values(f.type), f.type) for f in arrow], schema=pa.schema(arrow))
    return write_table(folder / "t", fields, [first, *more], file_format="orc")


def test_orc_files_are_read_by_sparks_orc_reader(spark, tmp_path: Path) -> None:
    """Columns are found by id, whatever their names in a file, and filters find NaN."""
    lakescan.spark.register(spark)
    renamed = {"c1": "c2", "c2": "c1", "c5": "C6", "c6": "text"}
    one = pa.table([[5, 6]], schema=pa.schema([pa.field("c3", pa.int64(), metadata={"PARQUET:field_id": "1"})]))
    scan = lakescan.table(orc_table(tmp_path, ORC_TYPES, renamed, one)).scan()
    assert by_spark(spark, scan).num_rows == 5
    frame = scan.to_spark(spark)
    assert "FileScan orc lakescan iceberg" in frame._jdf.queryExecution().toString()
    conditions = ["c1 = 5", "c1 > 0", "c2 < 0", "c3 > 5", "c4 = double('NaN')", "c5 = 'a'", "c5 >= 'b'", "c6"]
    for condition in [*conditions, "c8 = 1.5", "c9 < 1", "c7 = X'00ff'", "c4 IS NULL", "c4 <> 7"]:
        rows = frame.where(condition).toArrow()
        assert differences(rows, scan.where(condition).to_arrow()) == "", condition
        assert rows.num_rows > 0, condition
    assert frame.count() == 5
    assert frame.where("c1 > 0").selectExpr("sum(c1)", "max(c5)").first()[0] == 12
    assert by_spark(spark, scan.select("c1", "_file", "_spec_id")).num_rows == 5
    assert "2 files in the native lane, 2 of them by the names of their columns" in lakescan.spark.explain(scan)


@pytest.mark.parametrize("vectorized", ["true", "false"])
@pytest.mark.parametrize("sensitive", ["true", "false"])
def test_orc_files_are_read_in_sessions_with_other_settings(
    spark, tmp_path: Path, vectorized: str, sensitive: str
) -> None:
    lakescan.spark.register(spark)
    settings = {"spark.sql.orc.enableVectorizedReader": vectorized, "spark.sql.caseSensitive": sensitive}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        scan = lakescan.table(orc_table(tmp_path, ORC_TYPES, {"c1": "C2", "c2": "C1"})).scan()
        assert by_spark(spark, scan).num_rows == 3
    finally:
        for name in settings:
            spark.conf.unset(name)


@pytest.mark.parametrize(
    ("types", "names", "why"),
    [
        ({"date": pa.date32()}, {}, "it is an ORC file, and column 'c1' is of type date"),
        ({"timestamp": pa.timestamp("us")}, {}, "it is an ORC file, and column 'c1' is of type timestamp"),
        ({"long": pa.int32()}, {}, "it is an ORC file, and column 'c1' is long in the table and int32 in the file"),
        ({"long": pa.int64(), "int": pa.int32()}, {"c1": "a", "c2": "A"}, "names of its columns differ only in case"),
        ({"long": pa.int64()}, {"c1": "_col0"}, "it is an ORC file whose columns Spark would find by their places"),
    ],
    ids=["date", "timestamp", "promoted", "case", "places"],
)
def test_orc_files_that_spark_would_misread_use_the_arrow_lane(
    spark, tmp_path: Path, types: dict[str, pa.DataType], names: dict[str, str], why: str
) -> None:
    lakescan.spark.register(spark)
    fields = {kind: pa.int32() if "promoted" in str(kind) else arrow for kind, arrow in types.items()}
    if "date" in types or "timestamp" in types:
        kind = next(iter(types.values()))
        file = pa.table(
            [pa.array([1, None], pa.int32() if pa.types.is_date(kind) else pa.int64()).cast(kind)],
            schema=pa.schema([pa.field("c1", kind, metadata={"PARQUET:field_id": "1"})]),
        )
        entry = [{"id": 1, "name": "c1", "required": False, "type": next(iter(types))}]
        location = write_table(tmp_path / "t", entry, [file], file_format="orc")
    else:
        location = orc_table(tmp_path, fields, names)
    by_spark(spark, lakescan.table(location).scan(), without=why)


def test_positions_and_deletes_of_orc_files_need_the_arrow_lane(spark, tmp_path: Path) -> None:
    lakescan.spark.register(spark)
    location = orc_table(tmp_path, {"long": pa.int64()}, {})
    scan = lakescan.table(location).scan()
    by_spark(spark, scan.select("c1", "_pos"), without="Spark's reader has no positions of its rows")
    [path] = scan.plan().files["path"].to_pylist()
    deletes = [write_position_deletes(f"file://{tmp_path}/t/data/p.parquet", [(path, 1)])]
    numbered = local(location).with_name("00001-a.metadata.json")
    local(location).rename(numbered)
    deleted = lakescan.table(commit_deletes(f"file://{numbered}", deletes)).scan()
    assert by_spark(spark, deleted, without="it is an ORC file with deletes").num_rows == 2
