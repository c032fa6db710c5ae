"""Reads of the data sources become scans of Spark's Parquet reader before Spark plans a query, with the same rows."""

from __future__ import annotations

import datetime as dt
import math
import random
import threading
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from samples.iceberg_table import write_table

import lakescan
import lakescan.spark
from lakescan.catalogs.registry import configuration
from lakescan.spark.native import planned_frames as frames
from lakescan.spark.native import read_rule as rule
from lakescan.spark.optimizer_rules import elements
from tests.support.manifests import rename_data_files, rewrite_avro
from tests.support.rows import differences

pytestmark = [pytest.mark.spark, pytest.mark.replaced]

_COLUMNS = (
    "id BIGINT, i INT, x DOUBLE, f FLOAT, s STRING, d DATE, ts TIMESTAMP, tn TIMESTAMP_NTZ, n DECIMAL(9,2), b BOOLEAN, "
    "st STRUCT<a: INT, c: STRING>, xs ARRAY<INT>, gone STRING"
)
_TYPES = {
    "iceberg": ("format-version", ("1", "2", "3")),
    "delta": ("delta.columnMapping.mode", ("none", "name")),
}
_PARTITIONS = {
    "iceberg": ([], ["bucket(3, id)"], ["truncate(1, s)"], ["days(ts)"], ["i"], ["d", "b"]),
    "delta": ([], ["s"], ["i"], ["d"], ["b", "n"]),
}


_SETTINGS = {
    "spark.sql.adaptive.enabled": ("true", "false"),
    "spark.sql.ansi.enabled": ("true", "false"),
    "spark.sql.codegen.wholeStage": ("true", "true", "false"),
    "spark.sql.files.maxPartitionBytes": ("128m", "1k"),
    "spark.sql.parquet.enableVectorizedReader": ("true", "true", "false"),
}


def _rows(some: random.Random, first: int, count: int, schema: pa.Schema) -> pa.Table:
    def value(kind: pa.DataType) -> Any:
        if some.random() < 0.15:
            return None
        if pa.types.is_floating(kind):
            return some.choice([0.0, -0.0, math.nan, 1.5, -2.25, float(some.randint(0, 9)), math.inf])
        if pa.types.is_integer(kind):
            return some.randint(0, 9)
        if pa.types.is_string(kind):
            return some.choice(["", "a", "ab", "abc", "b%", "é", "Ä", "it's", "\\"])
        if pa.types.is_boolean(kind):
            return some.random() < 0.5
        if pa.types.is_date(kind):
            return dt.date(2024, 1, 1) + dt.timedelta(some.randint(-40, 40))
        if pa.types.is_timestamp(kind):
            return dt.datetime(2024, 1, 1, 12) + dt.timedelta(hours=some.randint(-400, 400))
        if pa.types.is_decimal(kind):
            return Decimal(some.randint(-300, 300)) / 100
        if pa.types.is_struct(kind):
            return {field.name: value(field.type) for field in kind}
        return [value(kind.value_type) for _ in range(some.randint(0, 2))]

    columns = {
        field.name: list(range(first, first + count))
        if field.name == "id"
        else [value(field.type) for _ in range(count)]
        for field in schema
    }
    return pa.table(columns, schema=schema)


def _make_table(catalog: Any, name: str, kind: str, some: random.Random) -> None:
    """Make a table of several files and change it in several ways."""
    property, values = _TYPES[kind]
    version = some.choice(values)
    properties = {property: version}
    if kind == "iceberg" and version != "1":
        properties |= {f"write.{each}.mode": "merge-on-read" for each in ("delete", "update", "merge")}
    if kind == "delta":
        properties |= {"delta.enableDeletionVectors": some.choice(["true", "false"])}
        properties |= {"delta.enableTypeWidening": "true", "delta.feature.allowColumnDefaults": "supported"}
    partition = some.choice(_PARTITIONS[kind])
    catalog.create_table(name.split(".", 1)[1], _COLUMNS, format=kind, partition_by=partition, properties=properties)
    first = 0

    def append() -> None:
        nonlocal first
        table = lakescan.table(name)
        count = some.choice([1, 7, 40])
        rows = _rows(some, first, count, table.scan().schema)
        if kind == "delta" and "s" in partition:  # Delta's log cannot hold the empty text
            texts = pc.replace_substring_regex(rows["s"], "^$", "z")
            rows = rows.set_column(rows.column_names.index("s"), rows.schema.field("s"), texts)
        table.append(rows)
        first += count

    renames = kind == "iceberg" or version != "none"
    steps = {
        "append": append,
        "delete": lambda: lakescan.table(name).delete(some.choice(["id % 3 = 1", "x > 1", "s = 'a'", "id < 10"])),
        "update": lambda: lakescan.table(name).update({"s": "'new'"}, some.choice(["id % 5 = 2", "b"])),
        "add": lambda: lakescan.sql(
            f"ALTER TABLE {name} ADD COLUMN later INT" + (" DEFAULT 7" if kind == "iceberg" and version == "3" else "")
        ),
        "promote": lambda: lakescan.sql(f"ALTER TABLE {name} ALTER COLUMN {moved.get('i', 'i')} TYPE BIGINT"),
    }
    moved: dict[str, str] = {}

    def rename() -> None:
        lakescan.sql(f"ALTER TABLE {name} RENAME COLUMN gone TO kept")
        if not any("i" in each for each in partition):
            lakescan.sql(f"ALTER TABLE {name} RENAME COLUMN i TO j")
            moved["i"] = "j"

    if renames:
        steps["rename"] = rename
        steps["drop"] = lambda: lakescan.sql(f"ALTER TABLE {name} DROP COLUMN f")
    append()
    once = [each for each in steps if each not in ("append", "delete", "update")]
    for each in some.sample(once, len(once)):
        append()
        if each == "promote" and ("i" in partition or some.random() < 0.5):
            continue
        if some.random() < 0.7:
            steps[each]()
        steps[some.choice(["append", "delete", "update", "delete"])]()
    append()


def _condition(some: random.Random, columns: list[str], depth: int = 0) -> str:
    if depth < 2 and some.random() < 0.5:
        one, other = (_condition(some, columns, depth + 1) for _ in range(2))
        return some.choice([f"({one} AND {other})", f"({one} OR {other})", f"NOT ({one})", f"({one}) IS NOT FALSE"])
    number, operator = some.randint(-1, 11), some.choice(["=", "<", "<=", ">", ">=", "<>", "<=>"])
    day = f"2024-01-{some.randint(1, 28):02d}"
    found = {
        "id": [f"id {operator} {number * 10}", f"id IN ({number}, {number * 7}, NULL)", f"id + 1 {operator} {number}"],
        "i": [f"i {operator} {number}", "i IS NULL", f"coalesce(i, 0) = {number}", f"i * 2 {operator} {number}"],
        "x": [f"x {operator} {number}", "x = double('NaN')", "isnan(x)", f"x {operator} 1.5", "x IN (0, 1.5)"],
        "f": [f"f {operator} {number}", "f <> float('NaN')", f"f {operator} 1.5D"],
        "s": [
            *("s LIKE 'a%'", "startswith(s, 'ab')", "s = 'it\\'s'", "s >= 'b'", "substring(s, 1, 1) = 'a'"),
            *("upper(s) = 'AB'", "s IN ('a', 'é', 'zz')", "length(s) > 1", "s IS NOT NULL", "concat(s, 'b') = 'ab'"),
        ],
        "d": [f"d {operator} DATE '{day}'", f"d {operator} '{day}'", "year(d) = 2023", "d BETWEEN '2023-12-20' AND d"],
        "ts": [f"ts {operator} TIMESTAMP '{day} 03:00:00'", f"ts {operator} '{day}'", f"cast(ts AS DATE) = '{day}'"],
        "tn": [
            f"tn {operator} TIMESTAMP_NTZ '{day} 12:00:00'",
            "year(tn) = 2024",
            f"date_trunc('month', tn) < '{day}'",
        ],
        "n": [f"n {operator} {number / 4}", f"n {operator} {number}", "n = 1.234", "cast(n AS INT) = 1"],
        "b": ["b", "NOT b", "b IS NULL", "b = true"],
        "st": [f"st.a {operator} {number}", "st IS NULL", "st.c = 'a'"],
        "xs": ["size(xs) = 1", f"array_contains(xs, {number})"],
        "later": [f"later {operator} 7", "later IS NULL", "later + 1 = 8"],
        "kept": ["kept = 'a'", "kept IS NULL"],
        "j": [f"j {operator} {number}", f"j = {number}L"],
    }
    return some.choice(found[some.choice([each for each in columns if each in found])])


def _query(some: random.Random, columns: list[str]) -> str:
    def where() -> str:
        return _condition(some, columns)

    name, other = some.choice([each for each in columns if each != "xs"]), some.choice(columns)
    return some.choice(
        [
            f"SELECT * FROM t WHERE {where()}",
            f"SELECT {name}, {other} AS o, id + 1 AS more FROM t WHERE {where()}",
            f"SELECT count(*), count({name}), min(id), max(s), sum(n) FROM t WHERE {where()}",
            f"SELECT {name}, count(*), max(x) FROM t WHERE {where()} GROUP BY {name}",
            f"SELECT a.id, b.{name} FROM t a JOIN t b ON a.id = b.id AND a.s <=> b.s WHERE a.id < 60",
            f"SELECT a.id, b.id FROM (SELECT * FROM t WHERE {where()}) a LEFT JOIN (SELECT * FROM t WHERE {where()}) b "
            "ON a.id = b.id + 1",
            f"SELECT id, {name} FROM t WHERE {where()} UNION ALL SELECT id, {name} FROM t WHERE {where()}",
            f"SELECT id FROM t EXCEPT ALL SELECT id FROM t WHERE {where()}",
            f"SELECT id FROM t WHERE {where()} INTERSECT SELECT id FROM t WHERE {where()}",
            f"SELECT * FROM t WHERE id IN (SELECT id + 1 FROM t WHERE {where()}) AND {where()}",
            f"SELECT * FROM t a WHERE EXISTS (SELECT 1 FROM t b WHERE b.id = a.id + 2 AND b.id > 5) AND {where()}",
            f"SELECT * FROM t WHERE NOT EXISTS (SELECT 1 FROM t b WHERE b.id = t.id AND {where().replace('t.', 'b.')})",
            f"SELECT id, (SELECT max(id) FROM t WHERE {where()}) AS m FROM t WHERE {where()}",
            f"SELECT * FROM t WHERE id > (SELECT min(id) FROM t WHERE {where()}) AND {where()}",
            f"SELECT id FROM t WHERE {where()} ORDER BY id DESC LIMIT {some.randint(0, 9)}",
            f"SELECT count(*) FROM (SELECT * FROM t LIMIT {some.randint(0, 30)})",
            f"SELECT DISTINCT {name}, s FROM t",
            f"SELECT id, row_number() OVER (PARTITION BY s ORDER BY id) FROM t WHERE {where()}",
            f"SELECT (SELECT count(*) FROM t WHERE {where()}), (SELECT sum(id) FROM t WHERE {where()})",
            f"WITH q AS (SELECT * FROM t WHERE {where()}) SELECT count(*) FROM q a JOIN q b USING (id) WHERE id > 3",
            f"SELECT st.a, st.c, size(xs) FROM t WHERE {where()}",
        ]
    )


def _found(spark: Any, text: str) -> Counter[str] | str:
    try:
        return Counter(repr(tuple(row)).replace("-0.0", "0.0") for row in spark.sql(text).collect())
    except Exception as error:  # both have to fail
        return f"{type(error).__name__} {str(error)[:300]}" if "lakescan" in str(error) else type(error).__name__


def _settings_of(spark: Any) -> dict[str, str]:
    return {setting: spark.conf.get(setting) for setting in _SETTINGS}


def _difference(mine: Counter[str] | str, plain: Counter[str] | str) -> str:
    if isinstance(mine, str) or isinstance(plain, str):
        return f"{mine}\n{plain}"
    return f"too many: {list((mine - plain).items())[:3]}\nmissing: {list((plain - mine).items())[:3]}"


def check_random_queries(spark: Any, folder: Path, seed: int, count: int) -> None:
    """Compare queries over a random table with those over the Arrow lane's rows."""
    some = random.Random(seed)
    kind = some.choice(["iceberg", "delta"])
    catalog = lakescan.catalog(f"replaced{seed}", warehouse=str(folder))
    catalog.create_namespace("n")
    name = f"replaced{seed}.n.t"
    _make_table(catalog, name, kind, some)
    lakescan.spark.register(spark)
    arrow = spark.read.format(kind).option("lane", "arrow").load(name)
    columns = arrow.columns
    spark.createDataFrame(arrow.toArrow(), arrow.schema).createOrReplaceTempView("plain")
    read = spark.read.format(kind).load(name)
    read.createOrReplaceTempView("replaced")
    for _ in range(count):
        for setting, values in _SETTINGS.items():
            spark.conf.set(setting, some.choice(values))
        text = _query(some, columns)
        mine = _found(spark, text.replace(" t ", " replaced t ").replace("FROM t", "FROM replaced t"))
        plain = _found(spark, text.replace(" t ", " plain t ").replace("FROM t", "FROM plain t"))
        assert mine == plain, f"seed {seed}, {kind}: {text}\n{_settings_of(spark)}\n{_difference(mine, plain)}"
    assert "FileScan parquet lakescan" in read._jdf.queryExecution().toString(), f"seed {seed}, {kind}"


@pytest.mark.parametrize("seed", range(4))
def test_random_queries_over_random_tables_have_the_rows_of_the_arrow_lane(
    spark: Any, tmp_path: Path, settings: Any, seed: int
) -> None:
    for setting in _SETTINGS:
        settings(setting, spark.conf.get(setting))
    check_random_queries(spark, tmp_path, seed, 12)


@pytest.fixture(scope="module", params=["iceberg", "delta"])
def numbers(request: Any, spark: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """A format, and a table of four files of 100 rows; in two files, every tenth row is deleted."""
    kind = request.param
    catalog = lakescan.catalog(f"numbers{kind}", warehouse=str(tmp_path_factory.mktemp("numbers")))
    catalog.create_namespace("n")
    deletes = {"format-version": "2", "write.delete.mode": "merge-on-read"}
    properties = deletes if kind == "iceberg" else {"delta.enableDeletionVectors": "true"}
    table = catalog.create_table("n.t", "id BIGINT, x DOUBLE, s STRING", format=kind, properties=properties)
    for first in range(0, 400, 100):
        ids = range(first, first + 100)
        table.append(pa.table({"id": ids, "x": [float(n) for n in ids], "s": [f"n{n}" for n in ids]}))
    table.delete("id % 10 = 0 AND id >= 200")
    lakescan.spark.register(spark)
    return kind, f"numbers{kind}.n.t"


def plan_of(frame: Any) -> str:
    return str(frame._jdf.queryExecution().toString())


def is_replaced(frame: Any) -> bool:
    return "FileScan parquet lakescan" in plan_of(frame) and "BatchScan" not in plan_of(frame)


WAYS = ("format", "view", "table", "read", "scan", "sql")
SECRETS = {"s3.secret-access-key": "PLANTED-key", "adls.account-key": "PLANTED-account"}


def read_by(spark: Any, way: str, kind: str, name: str) -> Any:
    """Return all rows of a table, by one of the ways to read it."""
    if way == "format":
        return spark.read.format(kind).load(name)
    if way == "view":
        spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW by_view USING {kind} OPTIONS (path '{name}')")
        return spark.table("by_view")
    if way == "sql":
        return lakescan.spark.sql(spark, f"SELECT * FROM {name}")
    if way == "scan":
        return lakescan.table(name).scan().to_spark(spark)
    return getattr(lakescan.spark, way)(spark, name)


@pytest.mark.parametrize("way", WAYS)
def test_every_way_to_read_makes_a_read_that_is_replaced(spark: Any, numbers: tuple[str, str], way: str) -> None:
    """Later filters, columns and limits select the files and columns of each query."""
    from pyspark.sql import functions as F

    kind, name = numbers
    frame = read_by(spark, way, kind, name)
    word = {"iceberg": "snapshot", "delta": "version"}[kind]
    assert f"lakescan {kind} {name} {word} {lakescan.table(name).scan().snapshot.id}" in plan_of(frame)
    point = frame.where("id = 7")
    assert is_replaced(point)
    assert len(point.inputFiles()) == 1
    assert [row["s"] for row in point.collect()] == ["n7"]
    assert "ReadSchema: struct<s:string>" in plan_of(frame.select("s"))
    assert point.select(F.input_file_name()).first()[0] == point.inputFiles()[0]
    assert (frame.count(), frame.where("id >= 200").count(), frame.join(point, "id").count()) == (380, 180, 1)
    assert frame.where("x IN (SELECT max(x) FROM VALUES (7D), (8D) AS t(x))").count() == 1
    frame.createOrReplaceTempView("of_frame")
    assert is_replaced(spark.sql("SELECT * FROM of_frame WHERE id = 7"))
    spark.catalog.dropTempView("of_frame")


@pytest.fixture
def secret_numbers(numbers: tuple[str, str]) -> tuple[str, str]:
    """The table `numbers`, in a catalog whose properties contain secrets."""
    kind, name = numbers
    lakescan.catalog(f"numbers{kind}", **{**configuration(f"numbers{kind}"), **SECRETS})
    assert lakescan.table(name).scan().spec.storage.has_secrets
    return kind, name


OWN_WAYS = ("table", "read", "scan", "sql")


@pytest.mark.parametrize("way", OWN_WAYS)
def test_later_filters_select_the_files_in_a_storage_with_secrets(
    spark: Any, secret_numbers: tuple[str, str], way: str
) -> None:
    """The options of such a read are only a number, and Spark's texts contain no secrets."""
    kind, name = secret_numbers
    frame = read_by(spark, way, kind, name)
    point = frame.where("id = 7").select("s")
    assert is_replaced(point)
    assert len(point.inputFiles()) == 1
    assert [row["s"] for row in point.collect()] == ["n7"]
    assert (frame.count(), frame.where("id >= 200").count(), frame.join(point, "s").count()) == (380, 180, 1)
    frame.createOrReplaceTempView("of_secrets")
    assert is_replaced(spark.sql("SELECT * FROM of_secrets WHERE id = 7"))
    explained = "\n".join(row[0] for row in spark.sql("EXPLAIN EXTENDED SELECT * FROM of_secrets").collect())
    spark.catalog.dropTempView("of_secrets")
    (read,) = elements(frame._jdf.queryExecution().analyzed().collectLeaves())
    for text in (explained, plan_of(frame), plan_of(point), read.toJSON(), read.treeString(), str(read.options())):
        assert "PLANTED" not in text
    assert list(read.options().keySet()) == ["scan"]
    with pytest.raises(Exception, match="needs a path"):  # no source with the scan is left
        spark.read.format("lakescan").load()


@pytest.mark.parametrize("way", OWN_WAYS)
def test_the_arrow_lane_has_the_secrets_of_a_frame(
    spark: Any, secret_numbers: tuple[str, str], way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A read that is not replaced uses its data source, with the scan of the frame."""
    kind, name = secret_numbers
    frame = read_by(spark, way, kind, name)
    expected = lakescan.table(name).scan().to_arrow()
    monkeypatch.setenv("LAKESCAN_SPARK_LANE", "arrow")
    as_source = frame.select("*")
    assert "BatchScan" in plan_of(as_source)
    assert "PLANTED" not in plan_of(as_source)
    assert differences(as_source.toArrow(), expected) == ""
    assert differences(read_by(spark, way, kind, name).toArrow(), expected) == ""
    assert [row["s"] for row in frame.where("id = 7").collect()] == ["n7"]
    monkeypatch.delenv("LAKESCAN_SPARK_LANE")
    assert differences(lakescan.table(name).scan().options(lane="arrow").to_spark(spark).toArrow(), expected) == ""


@pytest.mark.parametrize("format", ["iceberg", "delta"])
@pytest.mark.parametrize("lane", ["auto", "arrow"])
def test_frames_with_secrets_are_separate_and_keep_their_snapshots(
    spark: Any, tmp_path: Path, format: str, lane: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also after lakescan has evicted the frames, in both lanes and in another session."""
    made = []
    for folder in ("a", "b"):
        catalog = lakescan.catalog(f"secretsof{folder}", warehouse=str(tmp_path / folder), **SECRETS)
        catalog.create_namespace("n")
        table = catalog.create_table("n.t", "id BIGINT", format=format)
        table.append(pa.table({"id": range(10) if folder == "a" else range(100, 105)}))
        made.append(lakescan.spark.table(spark, f"secretsof{folder}.n.t"))
        table.append(pa.table({"id": range(200, 215)}))
        catalog.load_table("n.t").delete("id < 3")
    monkeypatch.setattr(frames, "FRAMES", frames.ScanCache())
    monkeypatch.setattr(rule, "FRAMES", frames.FRAMES)
    monkeypatch.setenv("LAKESCAN_SPARK_LANE", lane)
    assert [frame.count() for frame in made] == [10, 5]
    assert [sorted(row[0] for row in frame.where("id % 4 = 1").collect()) for frame in made] == [[1, 5, 9], [101]]
    assert is_replaced(made[0].select("id")) == (lane == "auto")
    cached = made[0].cache()
    assert (cached.count(), made[0].where("id = 2").count(), made[1].where("id = 2").count()) == (10, 1, 0)
    cached.unpersist()
    made[1].createOrReplaceGlobalTempView("of_secrets")
    assert spark.newSession().sql("SELECT id FROM global_temp.of_secrets WHERE id < 102").count() == 2
    spark.catalog.dropGlobalTempView("of_secrets")


def test_a_scan_that_cannot_be_pickled_is_planned_when_its_frame_is_made(
    spark: Any, secret_numbers: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> Any:
        raise TypeError("cannot pickle")

    monkeypatch.setattr(frames.ScanSource, "__getstate__", refuse)
    frame = lakescan.spark.table(spark, secret_numbers[1])
    assert "4 of 4 files" not in plan_of(frame)
    assert frame.where("id >= 200").count() == 180


@pytest.mark.parametrize("way", WAYS)
def test_every_way_to_read_stays_at_its_snapshot(spark: Any, tmp_path: Path, way: str) -> None:
    catalog = lakescan.catalog("pinnedways", warehouse=str(tmp_path))
    catalog.create_namespace("n")
    lakescan.spark.register(spark)
    for kind in ("iceberg", "delta"):
        table = catalog.create_table(f"n.{kind}", "id BIGINT", format=kind)
        table.append(pa.table({"id": range(10)}))
        frame = read_by(spark, way, kind, f"pinnedways.n.{kind}")
        table.append(pa.table({"id": range(10, 15)}))
        lakescan.table(f"pinnedways.n.{kind}").delete("id < 5")
        assert frame.count() == 10
        assert sorted(row[0] for row in frame.where("id > 7").collect()) == [8, 9]
        cached = frame.cache()
        assert (cached.count(), frame.where("id = 3").count()) == (10, 1)
        cached.unpersist()
        other = spark.newSession()
        frame.createOrReplaceGlobalTempView("of_all")
        assert other.sql("SELECT id FROM global_temp.of_all WHERE id < 2").count() == 2
        spark.catalog.dropGlobalTempView("of_all")
        assert read_by(spark, way, kind, f"pinnedways.n.{kind}").count() == 10


@pytest.mark.parametrize("way", WAYS)
def test_a_missing_file_is_lakescans_own_error_of_the_query(spark: Any, tmp_path: Path, way: str) -> None:
    """Planning errors of a query have lakescan's class, and PySpark's class for data source errors."""
    from pyspark.errors import AnalysisException

    catalog = lakescan.catalog("missingfiles", warehouse=str(tmp_path))
    catalog.create_namespace("n")
    lakescan.spark.register(spark)
    table = catalog.create_table("n.t", "id BIGINT", format="iceberg")
    table.append(pa.table({"id": range(10)}))
    frame = read_by(spark, way, "iceberg", "missingfiles.n.t")
    [path] = tmp_path.rglob("*.parquet")
    path.unlink()
    with pytest.raises(
        lakescan.MissingFile, match=rf"(?s)lakescan.errors.MissingFile: .*{path.name}.* is not in storage"
    ) as raised:
        frame.collect()
    assert isinstance(raised.value, AnalysisException)


@pytest.mark.parametrize("ignored", ["true", "false"])
def test_a_missing_file_that_spark_finds_first_is_lakescans_own_error(
    spark: Any, tmp_path: Path, settings: Any, ignored: str
) -> None:
    """Data files are not looked up before Spark's reader opens them. Errors for foreign files stay Spark's own."""
    from pyspark.errors import PySparkException

    catalog = lakescan.catalog("goneparts", warehouse=str(tmp_path / "lake"))
    catalog.create_namespace("n")
    lakescan.spark.register(spark)
    table = catalog.create_table("n.t", "id BIGINT, s STRING", format="delta", partition_by="s")
    table.append(pa.table({"id": range(10), "s": ["a b%"] * 10}))
    spark.range(5).write.parquet(str(tmp_path / "plain"))
    other = spark.read.parquet(str(tmp_path / "plain"))
    frame = lakescan.spark.table(spark, "goneparts.n.t")
    for path in tmp_path.rglob("*.parquet"):
        path.unlink()
    settings("spark.sql.files.ignoreMissingFiles", ignored)
    for action in (frame.collect, frame.toArrow, frame.where("id > 3").collect):
        with pytest.raises(lakescan.MissingFile, match=r"s=a b%25/part-.* is listed in the table's metadata") as raised:
            action()
        assert isinstance(raised.value, PySparkException)
    settings("spark.sql.files.ignoreMissingFiles", "false")
    with pytest.raises(Exception, match="FILE_NOT_EXIST") as theirs:
        other.collect()
    assert not isinstance(theirs.value, lakescan.MissingFile)


def test_explain_has_the_table_the_snapshot_and_the_number_of_files(spark: Any, numbers: tuple[str, str]) -> None:
    kind, name = numbers
    frame = spark.read.format(kind).load(name)
    snapshot = lakescan.table(name).scan().snapshot.id
    word = {"iceberg": "snapshot", "delta": "version"}[kind]
    assert f"lakescan {kind} {name} {word} {snapshot}: 4 of 4 files" in plan_of(frame)
    assert f"lakescan {kind} {name} {word} {snapshot}: 1 " in plan_of(frame.where("id = 7"))
    assert len(frame.where("id < 150").inputFiles()) == 2


def test_only_files_with_deletes_have_a_filter_for_them(spark: Any, numbers: tuple[str, str]) -> None:
    kind, name = numbers
    frame = spark.read.format(kind).load(name)
    assert "deleted" not in plan_of(frame.where("id < 150"))
    assert "with deletes" in plan_of(frame.where("id > 250"))
    assert (frame.where("id < 150").count(), frame.where("id > 250").count(), frame.count()) == (150, 135, 380)


def test_spark_estimates_the_size_of_a_read_as_that_of_its_parquet_files(spark: Any, numbers: tuple[str, str]) -> None:
    kind, name = numbers
    files = lakescan.table(name).scan().plan().files["path"].to_pylist()
    for columns in (["id"], ["x", "s"], ["id", "x", "s"]):
        read = spark.read.format(kind).load(name).select(*columns)
        assert is_replaced(read)
        plain = spark.read.parquet(*(unquote(each) for each in files)).select(*columns)
        assert abs(_estimated_bytes(read) - _estimated_bytes(plain)) <= 1


def _estimated_bytes(frame: Any) -> int:
    return int(frame._jdf.queryExecution().optimizedPlan().stats().sizeInBytes())


def test_columns_that_a_query_does_not_need_are_not_read(spark: Any, numbers: tuple[str, str]) -> None:
    kind, name = numbers
    frame = spark.read.format(kind).load(name).where("id < 100")
    assert "ReadSchema: struct<id:bigint>" in plan_of(frame.selectExpr("id + 1"))
    assert "ReadSchema: struct<id:bigint>" in plan_of(frame.groupBy().sum("id"))


@pytest.mark.parametrize("kind", ["iceberg", "delta"])
def test_a_filter_on_a_promoted_decimal_takes_numbers_that_its_files_could_not_hold(
    spark: Any, tmp_path: Path, kind: str
) -> None:
    catalog = lakescan.catalog(f"promoted{kind}", warehouse=str(tmp_path))
    catalog.create_namespace("n")
    properties = {"delta.enableTypeWidening": "true"} if kind == "delta" else {}
    table = catalog.create_table("n.t", "id BIGINT, x DECIMAL(5,2)", format=kind, properties=properties)
    table.append(pa.table({"id": [1], "x": pa.array([Decimal("5.00")], pa.decimal128(5, 2))}))
    lakescan.sql(f"ALTER TABLE promoted{kind}.n.t ALTER COLUMN x TYPE DECIMAL(18,2)")
    frame = spark.read.format(kind).load(f"promoted{kind}.n.t")
    assert is_replaced(frame)
    # 2**32 hundredths and a little: its low bits are those of 0.01.
    assert frame.where("x < 42949672.97").collect()
    assert frame.where("NOT x > 42949672.97").collect()


@pytest.mark.parametrize("kind", ["iceberg", "delta"])
def test_an_instant_in_a_repeated_hour_is_unambiguous(spark: Any, tmp_path: Path, settings: Any, kind: str) -> None:
    settings("spark.sql.session.timeZone", "Europe/Berlin")
    catalog = lakescan.catalog(f"clocks{kind}", warehouse=str(tmp_path))
    catalog.create_namespace("n")
    second = dt.datetime(2024, 10, 27, 1, 30, tzinfo=dt.UTC)  # the second 02:30 of that day
    catalog.create_table("n.t", "ts TIMESTAMP", format=kind).append(
        pa.table({"ts": pa.array([second], pa.timestamp("us", "UTC"))})
    )
    frame = spark.read.format(kind).load(f"clocks{kind}.n.t")
    assert frame.where("ts = TIMESTAMP'2024-10-27 01:30:00Z'").count() == 1
    assert frame.where("ts < TIMESTAMP'2024-10-27 01:31:00Z'").count() == 1
    assert frame.where("ts > TIMESTAMP'2024-10-27 01:45:00Z'").count() == 0
    many = ", ".join(f"TIMESTAMP'2024-10-27 01:{minute}:00Z'" for minute in range(20, 40))
    assert frame.where(f"ts IN ({many})").count() == 1


def test_files_with_milliseconds_are_compared_with_microseconds(spark: Any, tmp_path: Path) -> None:
    lakescan.save(
        pa.table({"x": pa.array([1_000_000], pa.timestamp("us", "UTC"))}), str(tmp_path / "t"), format="delta"
    )
    table = lakescan.table(str(tmp_path / "t"))
    (file,) = table.scan().plan().files["path"].to_pylist()
    pq.write_table(pa.table({"x": pa.array([1000], pa.timestamp("ms", "UTC"))}), unquote(file).removeprefix("file://"))
    frame = spark.read.format("delta").load(str(tmp_path / "t"))
    assert is_replaced(frame)
    moment = "TIMESTAMP'1970-01-01 00:00:01.000001Z'"
    for condition in (f"x < {moment}", f"x <> {moment}", f"x < (SELECT max(t) FROM VALUES ({moment}) AS v(t))"):
        assert len(frame.where(condition).collect()) == 1, condition
    filtered = spark.read.format("delta").option("filter", f"x < {moment}").load(str(tmp_path / "t"))
    assert is_replaced(filtered)
    assert len(filtered.collect()) == 1


def test_files_without_ids_are_read_whatever_the_session_ignores(spark: Any, tmp_path: Path, settings: Any) -> None:
    settings("spark.sql.parquet.fieldId.read.ignoreMissing", "true")
    catalog = lakescan.catalog("idless", warehouse=str(tmp_path))
    catalog.create_namespace("n")
    table = catalog.create_table("n.t", "id BIGINT", format="iceberg")
    for number in range(20):
        table.append(pa.table({"id": [number]}))
    file = sorted(table.scan().plan().files["path"].to_pylist())[9].removeprefix("file://")
    rows = pq.read_table(file)
    pq.write_table(rows.cast(pa.schema([("id", pa.int64())])), file)
    frame = spark.read.format("iceberg").load("idless.n.t")
    assert sorted(row.id for row in frame.collect()) == list(range(20))


def test_the_option_arrow_keeps_the_read(spark: Any, numbers: tuple[str, str]) -> None:
    kind, name = numbers
    frame = spark.read.format(kind).option("lane", "arrow").load(name)
    assert "FileScan" not in plan_of(frame)
    assert frame.where("id = 201").count() == 1


def test_sql_views_use_the_filters_of_later_queries(spark: Any, numbers: tuple[str, str]) -> None:
    kind, name = numbers
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW later USING {kind} OPTIONS (path '{name}')")
    query = spark.sql("SELECT count(*) FROM later WHERE id > 150 AND s LIKE 'n1%'")
    assert is_replaced(query)
    assert len(query.inputFiles()) == 1
    assert query.first()[0] == 49
    spark.catalog.dropTempView("later")


def test_filters_of_one_query_do_not_reach_the_next(spark: Any, numbers: tuple[str, str]) -> None:
    kind, name = numbers
    frame = spark.read.format(kind).load(name)
    assert [frame.where(f"id < {n}").count() for n in (10, 150)] == [10, 150]
    assert frame.count() == 380
    assert frame.alias("a").join(frame.where("id = 201").alias("b"), "id").count() == 1


def test_a_limit_without_a_filter_reads_only_as_many_files_as_it_needs(spark: Any, numbers: tuple[str, str]) -> None:
    kind, name = numbers
    frame = spark.read.format(kind).load(name)
    version = lakescan.table(name).history()[{"iceberg": "snapshot_id", "delta": "version"}[kind]][3].as_py()
    without_deletes = spark.read.format(kind).option("versionAsOf", version).load(name)
    assert (len(without_deletes.limit(5).inputFiles()), without_deletes.limit(5).count()) == (1, 5)
    assert (frame.limit(5).count(), frame.limit(395).count(), frame.limit(150).where("id >= 0").count()) == (
        5,
        380,
        150,
    )
    assert frame.where("id % 100 = 1").limit(3).count() == 3


def test_a_user_function_is_not_treated_as_a_built_in(spark: Any, numbers: tuple[str, str]) -> None:
    from pyspark.sql import functions as F

    kind, name = numbers
    frame = spark.read.format(kind).load(name)

    def lower(text: str) -> str:
        return "n1"

    assert frame.where(F.udf(lower, "string")(F.col("s")) == "n1").count() == 380


def test_a_temporary_function_with_a_built_in_name_resolves_as_in_spark(spark: Any, numbers: tuple[str, str]) -> None:
    """Spark 4.3 uses the built-in function, older versions use the session's."""
    kind, name = numbers
    other = spark.newSession()
    other.udf.register("startswith", lambda text, prefix: True, "boolean")
    other.sql("CREATE TEMPORARY FUNCTION lower(text STRING) RETURNS STRING RETURN 'z'")
    lakescan.spark.register(other)
    mine, plain = (other.read.format(kind).option("lane", lane).load(name) for lane in ("auto", "arrow"))
    for condition in ("startswith(s, 'z')", "lower(s) = 'z'", "startswith(s, 'n1') AND lower(s) = s"):
        assert len(mine.where(condition).collect()) == len(plain.where(condition).collect())


def test_a_frame_stays_at_its_snapshot_when_the_table_changes(spark: Any, tmp_path: Path) -> None:
    catalog = lakescan.catalog("pinnedreads", warehouse=str(tmp_path))
    catalog.create_namespace("n")
    for kind in ("iceberg", "delta"):
        table = catalog.create_table(f"n.{kind}", "id BIGINT", format=kind)
        table.append(pa.table({"id": range(10)}))
        lakescan.spark.register(spark)
        frame = spark.read.format(kind).load(f"pinnedreads.n.{kind}")
        table.append(pa.table({"id": range(10, 15)}))
        lakescan.table(f"pinnedreads.n.{kind}").delete("id < 5")
        assert is_replaced(frame)
        assert frame.count() == 10
        assert sorted(row[0] for row in frame.where("id > 7").collect()) == [8, 9]
        assert spark.read.format(kind).load(f"pinnedreads.n.{kind}").count() == 10
        given = spark.read.format(kind).schema("id BIGINT").load(f"pinnedreads.n.{kind}")
        assert given.where("id >= 5").count() == 10
        lakescan.table(f"pinnedreads.n.{kind}").delete("id >= 5")
        assert given.count() == 10


def test_equal_scans_share_an_exchange(spark: Any, numbers: tuple[str, str], settings: Any) -> None:
    settings("spark.sql.adaptive.enabled", "false")
    settings("spark.sql.autoBroadcastJoinThreshold", "-1")
    kind, name = numbers
    one, other = (spark.read.format(kind).load(name).where("id < 150").groupBy("s").count() for _ in range(2))
    both = one.union(other)
    assert both.count() == 300
    assert "ReusedExchange" in plan_of(both)


def test_caches_and_threads_do_not_change_rows(spark: Any, numbers: tuple[str, str]) -> None:
    kind, name = numbers
    frame = spark.read.format(kind).load(name)
    cached = frame.where("id < 250").cache()
    assert (cached.count(), cached.where("id = 201").count()) == (245, 1)
    assert "InMemoryRelation" in plan_of(cached.where("id = 201"))
    cached.unpersist()
    counts: list[int] = []
    threads = [
        threading.Thread(target=lambda n=n: counts.append(frame.where(f"id < {n}").count())) for n in range(10, 60, 10)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(counts) == [10, 20, 30, 40, 50]


def test_the_optimizer_rule_is_installed_once_next_to_others(spark: Any) -> None:
    experimental = spark._jsparkSession.experimental()

    def names() -> list[str]:
        iterator, found = experimental.extraOptimizations().iterator(), []
        while iterator.hasNext():
            found.append(iterator.next().getClass().getName())
        return found

    for _ in range(2):
        lakescan.spark.register(spark)
    assert names().count("lakescan.Lakescan$Rule") == 1
    assert all(count == 1 for count in Counter(names()).values())


def test_a_read_for_a_write_to_another_table_is_replaced(spark: Any, numbers: tuple[str, str]) -> None:
    kind, name = numbers
    frame = spark.read.format(kind).load(name).where("id > 150")
    catalog, target = lakescan.catalog(name.split(".")[0]), name.replace(".t", ".copy")
    catalog.create_table("n.copy", "id BIGINT, x DOUBLE, s STRING", format=kind)
    frame.write.format(kind).mode("append").save(target)
    assert lakescan.table(target).scan().count() == 229
    assert spark.read.format(kind).load(target).exceptAll(frame).count() == 0
    catalog.drop_table("n.copy")


def test_reads_in_stream_batches_are_replaced(spark: Any, numbers: tuple[str, str], tmp_path: Path) -> None:
    kind, name = numbers
    found: list[tuple[bool, int]] = []

    def work(batch: Any, number: int) -> None:
        frame = batch.sparkSession.read.format(kind).load(name).where("id > 250")
        found.append((is_replaced(frame), frame.count(), batch.join(frame, "id").count()))  # type: ignore[arg-type]

    stream = spark.readStream.format(kind).option("skip-operations", "delete,overwrite,replace").load(name)
    query = stream.writeStream.foreachBatch(work).option("checkpointLocation", str(tmp_path / "c"))
    query.trigger(availableNow=True).start().awaitTermination()
    assert found
    assert all(each[:2] == (True, 135) for each in found)


def test_a_read_that_the_option_native_refuses_fails_with_the_reason(spark: Any, tmp_path: Path) -> None:
    catalog = lakescan.catalog("refusedreads", warehouse=str(tmp_path))
    catalog.create_namespace("n")
    catalog.create_table("n.t", "id BIGINT, u UUID", format="iceberg")
    lakescan.spark.register(spark)
    read = spark.read.format("iceberg").option("lane", "native").load("refusedreads.n.t")
    assert read.select("id").collect() == []
    with pytest.raises(Exception, match=r"(?s)lakescan.errors.UnsupportedFeature: .*column 'u' is of type uuid"):
        read.collect()


@pytest.mark.parametrize("way", WAYS)
def test_the_arrow_lane_reads_the_files_and_columns_that_a_query_needs(spark: Any, tmp_path: Path, way: str) -> None:
    catalog = lakescan.catalog("arrowreads", warehouse=str(tmp_path))
    catalog.create_namespace("n")
    table = catalog.create_table("n.t", "id BIGINT, u UUID", format="iceberg")
    for first in (0, 10):
        ids = range(first, first + 10)
        table.append(pa.table({"id": ids, "u": pa.array([n.to_bytes(16) for n in ids], pa.binary(16))}))
    lakescan.spark.register(spark)
    frame = read_by(spark, way, "iceberg", "arrowreads.n.t")
    assert "BatchScan" in plan_of(frame)
    point = frame.where("id = 12")
    assert "BatchScan" not in plan_of(point)
    assert [row["u"] for row in point.collect()] == [f"{'0' * 8}-0000-0000-0000-{12:012x}"]
    assert (frame.count(), frame.where("id > 5").count(), frame.limit(3).count()) == (20, 14, 3)
    assert is_replaced(frame.select("id"))


def test_rows_are_counted_in_both_lanes(spark: Any, tmp_path: Path) -> None:
    """A query without columns also counts the rows of files that only the Arrow lane reads."""
    from tests.support import manifests

    schema = pa.schema([pa.field("n", pa.int64(), metadata={"PARQUET:field_id": "1"})])
    fields = [{"id": 1, "name": "n", "required": False, "type": "long"}]
    lakescan.spark.register(spark)
    for hidden in (["0"], ["0", "1"]):
        folder = tmp_path / "".join(hidden)
        location = write_table(folder, fields, [pa.table([range(n)], schema=schema) for n in (3, 4)])
        manifests.rename_data_files(folder, {f"{each}.parquet": f"_{each}.parquet" for each in hidden})
        for frame in (spark.read.format("iceberg").load(location), lakescan.spark.read(spark, location)):
            assert (frame.count(), len(frame.select().collect()), frame.where("n >= 2").count()) == (7, 7, 3)


@pytest.mark.parametrize("vectorized", ["true", "false"])
def test_columns_and_members_are_found_by_field_id(spark: Any, tmp_path: Path, settings: Any, vectorized: str) -> None:
    """With both of Spark's readers, whatever the session's setting for field ids."""
    settings("spark.sql.parquet.fieldId.read.enabled", "false")
    settings("spark.sql.parquet.enableVectorizedReader", vectorized)
    catalog = lakescan.catalog(f"renamedreads{vectorized}", warehouse=str(tmp_path))
    catalog.create_namespace("n")
    table = catalog.create_table("n.t", "id BIGINT, s STRING, m STRUCT<a: INT>", format="iceberg")
    table.append(pa.table({"id": [1, 2], "s": ["a", "b"], "m": [{"a": 1}, None]}, schema=table.scan().schema))
    name = f"renamedreads{vectorized}.n.t"
    lakescan.sql(f"ALTER TABLE {name} RENAME COLUMN s TO t")
    lakescan.spark.register(spark)
    frame = spark.read.format("iceberg").load(name)
    assert is_replaced(frame)
    assert sorted(map(tuple, frame.where("t > ''").select("id", "t", "m.a").collect())) == [(1, "a", 1), (2, "b", None)]


def test_names_of_files_are_literal(spark: Any, tmp_path: Path) -> None:
    """If Spark looked paths up, it would skip hidden files and treat other names as patterns."""
    ids = pa.schema([pa.field("n", pa.int64(), metadata={"PARQUET:field_id": "1"})])
    fields = [{"id": 1, "name": "n", "required": False, "type": "long"}]
    names = ["_0", ".1", "[2]", "f{3,4}", "f*4", "f?5", "f 6", "f%207", "f+8", "f#9", "é"]
    location = write_table(tmp_path / "t", fields, [pa.table([[n]], schema=ids) for n in range(len(names))])
    rename_data_files(tmp_path / "t", {f"{n}.parquet": f"{name}.parquet" for n, name in enumerate(names)})
    lakescan.spark.register(spark)
    frame = spark.read.format("iceberg").load(location)
    assert is_replaced(frame)
    assert sorted(row[0] for row in frame.collect()) == list(range(len(names)))


def test_data_files_may_be_where_only_the_hadoop_client_has_a_filesystem(
    spark: Any, tmp_path: Path, settings: Any
) -> None:
    ids = pa.schema([pa.field("n", pa.int64(), metadata={"PARQUET:field_id": "1"})])
    fields = [{"id": 1, "name": "n", "required": False, "type": "long"}]
    location = write_table(tmp_path / "t", fields, [pa.table([[n, n + 10]], schema=ids) for n in range(3)])

    def move(entries: list[Any]) -> None:
        for entry in entries:
            name = entry["data_file"]["file_path"].rsplit("/", 1)[1]
            entry["data_file"]["file_path"] = f"viewfs://cluster/moved/{name}"

    rewrite_avro(tmp_path / "t" / "metadata" / "m0.avro", move)
    settings("fs.viewfs.mounttable.cluster.link./moved", f"file://{tmp_path}/t/data")
    lakescan.spark.register(spark)
    frame = spark.read.format("iceberg").load(location)
    assert is_replaced(frame)
    assert sorted(row[0] for row in frame.where("n > 0").collect()) == [1, 2, 10, 11, 12]


def test_data_files_where_no_filesystem_is_known_are_an_error_that_names_them(spark: Any, tmp_path: Path) -> None:
    ids = pa.schema([pa.field("n", pa.int64(), metadata={"PARQUET:field_id": "1"})])
    fields = [{"id": 1, "name": "n", "required": False, "type": "long"}]
    location = write_table(tmp_path / "t", fields, [pa.table([[1]], schema=ids)])

    def move(entries: list[Any]) -> None:
        for entry in entries:
            entry["data_file"]["file_path"] = "nowhere://cluster/f.parquet"

    rewrite_avro(tmp_path / "t" / "metadata" / "m0.avro", move)
    lakescan.spark.register(spark)
    with pytest.raises(Exception, match="nowhere"):
        spark.read.format("iceberg").load(location).collect()


@pytest.mark.parametrize("vectorized", ["true", "false"])
@pytest.mark.parametrize("recorded", ["too small", "too large", "looked up", "blocks"])
def test_all_rows_are_read_whatever_size_the_metadata_records(
    spark: Any, tmp_path: Path, settings: Any, recorded: str, vectorized: str
) -> None:
    """Spark splits files by their recorded sizes, and assigns row groups to splits by their midpoints.

    The last split has no end. Sizes are looked up if Spark makes its own scan, or if a query shows a split's length.
    """
    settings("spark.sql.parquet.enableVectorizedReader", vectorized)
    settings("spark.sql.files.maxPartitionBytes", "1k")
    catalog = lakescan.catalog("sizes", warehouse=str(tmp_path))
    catalog.create_namespace("n")
    for kind, (property, value) in {
        "iceberg": ("write.delete.mode", "merge-on-read"),
        "delta": ("delta.enableDeletionVectors", "true"),
    }.items():
        properties = {property: value, **({"format-version": "2"} if kind == "iceberg" else {})}
        table = catalog.create_table(f"n.{kind}", "id BIGINT, s STRING", format=kind, properties=properties)
        table.append(pa.table({"id": range(5000), "s": ["same"] * 5000}))
        table.delete("id % 100 = 7")
        (path,) = lakescan.table(f"sizes.n.{kind}").scan().plan().files["path"].to_pylist()
        path = unquote(path.removeprefix("file://"))
        rows, before = pq.read_table(path), Path(path).stat().st_size
        if recorded != "too large":
            pq.write_table(rows, path, compression="none", use_dictionary=False, row_group_size=500)
            assert Path(path).stat().st_size > 2 * before
        else:
            smaller = {"column_encoding": {"id": "DELTA_BINARY_PACKED"}, "use_dictionary": ["s"]}
            pq.write_table(rows, path, compression="zstd", **smaller)
            assert Path(path).stat().st_size < before
        lakescan.spark.register(spark)
        frame = spark.read.format(kind).load(f"sizes.n.{kind}")
        assert is_replaced(frame)
        if recorded == "blocks":
            lengths = frame.selectExpr("id", "input_file_block_start() s", "input_file_block_length() n").collect()
            assert len(lengths) == 4950
            assert max(row.s + row.n for row in lengths) <= Path(path).stat().st_size
            continue
        if recorded == "looked up":
            assert rows_of_plain_scans(frame.select("id")) == [n for n in range(5000) if n % 100 != 7]
            continue
        assert frame.where("id >= 0").count() == 4950
        assert frame.where("id BETWEEN 4990 AND 4999 AND s = 'same'").count() == 10
        assert sorted(row[0] for row in frame.select("id").collect()) == [n for n in range(5000) if n % 100 != 7]


def rows_of_plain_scans(frame: Any) -> list[Any]:
    """Return the first values of the rows, in order, from scans that Spark makes without lakescan's strategy."""
    execution = frame._jdf.queryExecution()
    execution.optimizedPlan()
    experimental = execution.sparkSession().experimental()
    strategies = experimental.extraStrategies()
    getattr(experimental, "extraStrategies_$eq")(strategies.take(0))
    try:
        rows = sorted(row[0] for row in frame.collect())
    finally:
        getattr(experimental, "extraStrategies_$eq")(strategies)
    assert strategies.size() > 0
    assert scans_of(frame) == ["org.apache.spark.sql.execution.FileSourceScanExec"]
    return rows


def scans_of(frame: Any) -> list[str]:
    """Return the class names of the scans that Spark made for a frame without joins."""
    plan = frame._jdf.queryExecution().executedPlan()
    if plan.getClass().getSimpleName() == "AdaptiveSparkPlanExec":
        plan = plan.executedPlan()
    return [each.getClass().getName() for each in elements(plan.collectLeaves())]


@pytest.mark.parametrize("vectorized", ["true", "false"])
@pytest.mark.parametrize("adaptive", ["true", "false"])
def test_no_data_file_is_looked_up_before_it_is_read(
    spark: Any, numbers: tuple[str, str], settings: Any, monkeypatch: pytest.MonkeyPatch, adaptive: str, vectorized: str
) -> None:
    from lakescan.storage import Storage

    settings("spark.sql.adaptive.enabled", adaptive)
    settings("spark.sql.parquet.enableVectorizedReader", vectorized)
    kind, name = numbers
    frame = spark.read.format(kind).load(name)
    assert frame.where("s >= ''").count() == 380
    monkeypatch.setattr(Storage, "look_up", lambda *_: pytest.fail("looked up"))
    frame = frame.where("id > 250")
    assert len(frame.collect()) == 135
    assert scans_of(frame) == ["lakescan.FileSourceScanExec"]


def test_executors_need_no_class_that_the_driver_compiled(spark: Any, numbers: tuple[str, str], settings: Any) -> None:
    """Operators above a scan are sent to executors together with the scan."""
    settings("spark.sql.adaptive.enabled", "false")
    kind, name = numbers
    frame = spark.read.format(kind).load(name).where("id < 150")
    assert scans_of(frame) == ["lakescan.FileSourceScanExec"]
    leaf = frame._jdf.queryExecution().executedPlan().collectLeaves().head()
    sent = bytes(spark.sparkContext._jvm.org.apache.commons.lang3.SerializationUtils.serialize(leaf))
    assert b"FileSourceScanExec" in sent
    assert b"lakescan.FileSourceScanExec" not in sent
    assert b"lakescan.Lakescan" not in sent


def test_python_and_the_jvm_exchange_few_messages_for_a_plan(
    spark: Any, numbers: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from py4j.clientserver import ClientServerConnection

    kind, name = numbers
    queries = [spark.read.format(kind).load(name).where(f"id > {n}")._jdf.queryExecution() for n in (250, 251)]
    queries[0].executedPlan()
    sent: list[str] = []
    send = ClientServerConnection.send_command

    def counted(self: Any, command: str) -> Any:
        if command.startswith("c"):  # a call; other messages free objects when Python collects them
            sent.append(command)
        return send(self, command)

    monkeypatch.setattr(ClientServerConnection, "send_command", counted)
    queries[1].executedPlan()
    assert len(sent) < 20


if __name__ == "__main__":
    import os
    import sys
    import tempfile

    os.environ["PYSPARK_PYTHON"] = sys.executable
    from tests.support.session import local_session

    session = local_session("replaced", {})
    start, count, queries = map(int, sys.argv[1:4])
    for number in range(start, start + count):
        try:
            check_random_queries(session, Path(tempfile.mkdtemp()), number, queries)
            print(number, "ok", flush=True)
        except Exception as error:
            print(number, type(error).__name__, str(error)[:1500], flush=True)
