"""Runtime filters on Spark: values of the other join side prune files, with the same rows."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakescan
import lakescan.spark
from tests.spark.test_replaced_reads import (
    _condition,
    _difference,
    _found,
    _make_table,
    _rows,
    plan_of,
)

pytestmark = [pytest.mark.spark, pytest.mark.replaced]

_JOINS = {
    "spark.sql.adaptive.enabled": ("true", "false"),
    "spark.sql.ansi.enabled": ("true", "false"),
    "spark.sql.autoBroadcastJoinThreshold": ("10m", "-1"),
    "spark.sql.exchange.reuse": ("true", "true", "false"),
    "spark.sql.optimizer.dynamicPartitionPruning.fallbackFilterRatio": ("0.5", "100"),
    "spark.sql.optimizer.dynamicPartitionPruning.reuseBroadcastOnly": ("true", "false"),
    "spark.sql.optimizer.runtime.bloomFilter.applicationSideScanSizeThreshold": ("10GB", "0"),
}
_PARTITIONS = ("i", "s", "d", "b", "n", "ts", "tn", "x", "bucket(3, i)", "days(ts)", "truncate(1, s)")


def _make_partitioned(catalog: Any, name: str, kind: str, some: random.Random) -> None:
    """Make a table with identity partitions, which in Iceberg change over time."""
    version = some.choice(["1", "2", "3"])
    properties = {"format-version": version} if kind == "iceberg" else {"delta.enableDeletionVectors": "true"}
    if kind == "iceberg" and version != "1":
        properties |= {"write.delete.mode": "merge-on-read"}
    if kind == "delta":
        properties |= {"delta.columnMapping.mode": some.choice(["none", "name"]), "delta.enableTypeWidening": "true"}
    keys = some.sample([each for each in _PARTITIONS if kind == "iceberg" or each.isalpha()], some.randint(1, 2))
    if len({each[-3:].strip("() ") for each in keys}) < len(keys):
        keys = keys[:1]
    if kind == "delta":
        keys = [each for each in keys if each not in ("x", "s")] or ["i"]
    columns = (
        "id BIGINT, i INT, x DOUBLE, f FLOAT, s STRING, d DATE, ts TIMESTAMP, tn TIMESTAMP_NTZ, n DECIMAL(9,2), "
        "b BOOLEAN, st STRUCT<a: INT, c: STRING>, xs ARRAY<INT>, gone STRING"
    )
    catalog.create_table(name.split(".", 1)[1], columns, format=kind, partition_by=keys, properties=properties)
    first, column = 0, "i"
    for _ in range(some.randint(2, 5)):
        table = lakescan.table(name)
        count = some.choice([1, 9, 30])
        table.append(_rows(some, first, count, table.scan().schema))
        first += count
        step = some.random()
        if step < 0.3:
            lakescan.table(name).delete(some.choice(["id % 3 = 1", "b", f"{column} = 2", "id < 5"]))
        elif step < 0.6 and kind == "iceberg":
            change = some.choice(["ADD", "DROP"])
            if change == "DROP" and keys:
                gone = keys.pop()
                gone = gone.replace("i)", f"{column})") if gone != "i" else column
                lakescan.sql(f"ALTER TABLE {name} DROP PARTITION FIELD {gone}")
            else:
                free = [each for each in ("b", "d", "s") if not any(each in other for other in keys)]
                if free:
                    keys.append(free[0])
                    lakescan.sql(f"ALTER TABLE {name} ADD PARTITION FIELD {free[0]}")
        elif step < 0.75 and column == "i" and (kind == "iceberg" or properties["delta.columnMapping.mode"] == "name"):
            lakescan.sql(f"ALTER TABLE {name} RENAME COLUMN i TO j")
            column = "j"
        elif step < 0.85 and kind == "iceberg":
            lakescan.sql(f"ALTER TABLE {name} ALTER COLUMN {column} TYPE BIGINT")


def _query(some: random.Random, columns: list[str]) -> str:
    i = "j" if "j" in columns else "i"
    keys = [
        *(f"f.{i} = d.{i}", "f.s = d.s", "f.d = d.d", "f.b = d.b", "f.n = d.n", "f.ts = d.ts", "f.tn = d.tn"),
        *(
            "f.x = d.x",
            f"f.{i} <=> d.{i}",
            "f.s <=> d.s",
            f"f.{i} = d.id",
            f"f.{i} + 1 = d.id",
            "year(f.d) = year(d.d)",
        ),
        *("upper(f.s) = d.s", f"f.n = d.{i}", f"f.x = d.{i}", f"cast(f.{i} AS STRING) = cast(d.id AS STRING)"),
        *(
            "f.b = d.b AND f.s = d.s",
            f"f.{i} = d.{i} AND f.d = d.d",
            "cast(f.ts AS DATE) = d.d",
            f"coalesce(f.{i}, 0) = d.id",
        ),
        *(
            "f.id = d.id",
            "f.id + 3 = d.id",
            "f.d = date_add(d.d, 1)",
            "f.f = d.f",
            "f.st.a = d.id",
            f"f.{i} = d.id AND f.id > d.id",
        ),
    ]
    on, dim = some.choice(keys), some.choice(["t", "u", "u", "p"])
    where = some.choice(["id = 3", "id < 4", "id IN (1, 2)", "s = 'a'", "b", "id < 0", "s LIKE 'a%' AND id > 1"])
    where = (
        where if some.random() < 0.8 else _condition(some, [c for c in columns if dim != "p" or c not in ("later",)])
    )
    small = f"(SELECT * FROM {dim} d WHERE {where}) d"
    own = _condition(some, columns) if some.random() < 0.3 else "true"
    big = f"(SELECT * FROM t WHERE {own}) f"
    kind = some.choice(["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN"])
    outer = kind if "SEMI" not in kind and "ANTI" not in kind else "JOIN"
    hint = some.choice(["", "", "/*+ BROADCAST(d) */", "/*+ MERGE(d) */", "/*+ SHUFFLE_HASH(d) */"])
    names = f"id, {i}, s, d, b, n, ts, tn, x, f, st"
    union = f"(SELECT {names} FROM {big} UNION ALL SELECT {names} FROM t) g"
    third = small.replace(") d", ") e")
    same = re.sub(r"\bf\.", "g.", on)
    both = "" if "SEMI" in kind or "ANTI" in kind else ", d.id, d.s"
    left, right = on.split(" = ")[0], on.split(" = ")[-1]
    found = some.choice(
        [
            f"SELECT {hint} f.id, f.s, f.x, f.{i}{both} FROM {big} {kind} {small} ON {on}",
            f"SELECT {hint} f.id, f.s, f.x{both} FROM {big} {kind} {small} ON {on}",
            f"SELECT {hint} f.*, d.id FROM {small} {outer} {big} ON {on}",
            f"SELECT count(*), sum(f.id), max(f.s) FROM {big} {kind} {small} ON {on}",
            f"SELECT f.id, count(*) FROM {big} {kind} {small} ON {on} GROUP BY f.id",
            f"SELECT f.id FROM {big} JOIN {small} ON {on} JOIN {third} ON {on.replace('d.', 'e.')}",
            f"SELECT f.id, f.n FROM {big} WHERE f.{i} IN (SELECT id FROM {dim} WHERE {where})",
            f"SELECT f.id, f.n FROM {big} WHERE f.s IN (SELECT s FROM {dim} WHERE {where})",
            f"SELECT f.id, f.n FROM {big} WHERE f.{i} NOT IN (SELECT id FROM {dim} WHERE {where})",
            f"SELECT f.id, f.s FROM {big} WHERE EXISTS (SELECT 1 FROM {dim} d WHERE {on} AND d.id < 4)",
            f"SELECT f.id, f.s FROM {big} WHERE NOT EXISTS (SELECT 1 FROM {dim} d WHERE {on} AND d.id < 4)",
            f"SELECT f.id, f.s FROM {big} WHERE f.{i} = (SELECT max(id) FROM {dim} WHERE id < 6 AND {where})",
            f"SELECT f.id, f.s FROM {big} WHERE f.d >= (SELECT max(d) FROM {dim} WHERE id < 6 AND {where})",
            f"SELECT g.id, g.{i} FROM {union} {kind} {small} ON {same}",
            f"WITH q AS (SELECT f.id FROM {big} JOIN {small} ON {on}) SELECT * FROM q UNION ALL SELECT * FROM q",
            f"SELECT * FROM (SELECT f.{i} AS k, count(*) AS c FROM {big} GROUP BY f.{i}) f JOIN {small} ON f.k = d.id",
            f"SELECT f.id FROM {big} JOIN {small} ON {on} WHERE {left} IS NOT NULL OR {right} IS NULL",
            f"SELECT f.id, (SELECT count(*) FROM {small} WHERE d.id = f.{i}) FROM {big}",
            f"SELECT f.id FROM (SELECT * FROM t WHERE id < 30 ORDER BY id LIMIT 7) f {kind} {small} ON {on}",
        ]
    )
    return re.sub(r"\) f\b", ") fact", re.sub(r"\bf\.", "fact.", found))


def _in(text: str, views: dict[str, str]) -> str:
    for name, view in views.items():
        text = text.replace(f"FROM {name} ", f"FROM {view} ").replace(f"FROM {name})", f"FROM {view})")
    return text


def check_random_joins(spark: Any, folder: Path, seed: int, count: int) -> None:
    """Compare joins of random tables, and of a Parquet table, with those of the Arrow lane's rows."""
    some = random.Random(seed)
    catalog = lakescan.catalog(f"joined{seed}", warehouse=str(folder))
    catalog.create_namespace("n")
    lakescan.spark.register(spark)
    for table in ("t", "u"):
        kind, name = some.choice(["iceberg", "delta"]), f"joined{seed}.n.{table}"
        (_make_partitioned if table == "t" or some.random() < 0.4 else _make_table)(catalog, name, kind, some)
        arrow = spark.read.format(kind).option("lane", "arrow").load(name)
        spark.createDataFrame(arrow.toArrow(), arrow.schema).createOrReplaceTempView(f"plain_{table}")
        spark.read.format(kind).load(name).createOrReplaceTempView(f"replaced_{table}")
    for table in ("t", "u"):  # under the names in the queries
        for view in ("plain", "replaced"):
            frame = spark.table(f"{view}_{table}")
            if table == "u":
                names = set(spark.table(f"{view}_t").columns)
                if "j" in names and "j" not in frame.columns:
                    frame = frame.withColumnRenamed("i", "j")
                if "j" not in names and "i" not in frame.columns:
                    frame = frame.withColumnRenamed("j", "i")
                if "f" not in frame.columns:
                    frame = frame.selectExpr("*", "cast(id AS FLOAT) AS f")
                frame.createOrReplaceTempView(f"{view}_{table}")
    spark.table("plain_t").where("id % 2 = 0").write.parquet(f"{folder}/p")
    spark.read.parquet(f"{folder}/p").createOrReplaceTempView("other")
    columns = [each for each in spark.table("plain_t").columns if each in spark.table("plain_u").columns]
    for _ in range(count):
        for setting, values in _JOINS.items():
            spark.conf.set(setting, some.choice(values))
        text = _query(some, columns)
        mine = _found(spark, _in(text, {"t": "replaced_t", "u": "replaced_u", "p": "other"}))
        plain = _found(spark, _in(text, {"t": "plain_t", "u": "plain_u", "p": "other"}))
        now = {setting: spark.conf.get(setting) for setting in _JOINS}
        assert mine == plain, f"seed {seed}: {text}\n{now}\n{_difference(mine, plain)}"


@pytest.mark.parametrize("seed", range(3))
def test_random_joins_have_the_rows_of_the_arrow_lane(spark: Any, tmp_path: Path, settings: Any, seed: int) -> None:
    for setting in _JOINS:
        settings(setting, spark.conf.get(setting))
    check_random_joins(spark, tmp_path, seed, 12)


@pytest.fixture(scope="module", params=["iceberg", "delta"])
def sales(request: Any, spark: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """A format, and the catalog of a table of 20 partitions (one null) and a table of their names."""
    kind = request.param
    catalog = lakescan.catalog(f"sales{kind}", warehouse=str(tmp_path_factory.mktemp("sales")))
    catalog.create_namespace("n")
    deletes = {"format-version": "2", "write.delete.mode": "merge-on-read"}
    properties = deletes if kind == "iceberg" else {"delta.enableDeletionVectors": "true"}
    columns = "id BIGINT, day INT"
    table = catalog.create_table("n.sales", columns, format=kind, partition_by=["day"], properties=properties)
    days = pa.array([None if n % 20 == 7 else n % 20 for n in range(1000)], pa.int32())
    table.append(pa.table({"id": range(1000), "day": days}))
    table.delete("id < 40")
    names = catalog.create_table("n.days", "number INT, name STRING", format=kind)
    names.append(pa.table({"number": pa.array([*range(20), None], pa.int32()), "name": [f"d{n}" for n in range(21)]}))
    lakescan.spark.register(spark)
    return kind, f"sales{kind}"


def _files_read(frame: Any, table: str) -> int:
    """Return the number of a table's files that a query read."""
    found, nodes = 0, [frame._jdf.queryExecution().executedPlan()]
    while nodes:
        node = nodes.pop()
        kind = node.getClass().getSimpleName()
        if kind == "FileSourceScanExec" and node.relation().location().toString().split()[2:3] == [table]:
            found += node.metrics().apply("numFiles").value()
        if kind == "AdaptiveSparkPlanExec":
            nodes.append(node.executedPlan())
        elif kind.endswith("QueryStageExec"):
            nodes.append(node.plan())
        children = node.children().iterator()
        while children.hasNext():
            nodes.append(children.next())
    return found


def _sales_and_days(spark: Any, sales: tuple[str, str]) -> tuple[Any, Any]:
    kind, name = sales
    sold, days = (spark.read.format(kind).load(f"{name}.n.{each}") for each in ("sales", "days"))
    return sold, days


@pytest.mark.parametrize("adaptive", ["true", "false"])
@pytest.mark.parametrize("kind", ["inner", "left_semi", "right_outer"])
def test_values_of_the_other_side_of_a_join_prune_partitions(
    spark: Any, sales: tuple[str, str], settings: Any, adaptive: str, kind: str
) -> None:
    settings("spark.sql.adaptive.enabled", adaptive)
    if kind == "right_outer":  # no broadcast to share
        settings("spark.sql.optimizer.dynamicPartitionPruning.reuseBroadcastOnly", "false")
        settings("spark.sql.optimizer.dynamicPartitionPruning.fallbackFilterRatio", "1000")
    rows, days = _sales_and_days(spark, sales)
    joined = rows.join(days.where("name IN ('d4', 'd5', 'd20')"), rows["day"] == days["number"], kind)
    count = len(joined.collect())
    assert count == 96 + (kind == "right_outer")
    assert "dynamicpruning" in plan_of(joined)
    assert _files_read(joined, f"{sales[1]}.n.sales") == 2


@pytest.mark.parametrize("kind", ["left_outer", "left_anti", "full_outer"])
def test_outer_joins_prune_no_partitions_of_the_preserved_side(spark: Any, sales: tuple[str, str], kind: str) -> None:
    rows, days = _sales_and_days(spark, sales)
    joined = rows.join(days.where("name = 'd4'"), rows["day"] == days["number"], kind)
    assert len(joined.collect()) == {"left_outer": 960, "left_anti": 912, "full_outer": 960}[kind]
    assert "dynamicpruning" not in plan_of(joined)


def test_partition_pruning_shares_the_broadcast_of_its_join(spark: Any, sales: tuple[str, str], settings: Any) -> None:
    settings("spark.sql.adaptive.enabled", "false")
    rows, days = _sales_and_days(spark, sales)
    joined = rows.join(days.where("name = 'd4'"), rows["day"] == days["number"])
    assert "ReusedExchange" in joined._jdf.queryExecution().executedPlan().toString()


def test_replaced_reads_prune_partitions_of_other_tables(
    spark: Any, sales: tuple[str, str], settings: Any, tmp_path: Path
) -> None:
    settings("spark.sql.adaptive.enabled", "false")
    rows, days = _sales_and_days(spark, sales)
    rows.write.partitionBy("day").parquet(f"{tmp_path}/day")
    other = spark.read.parquet(f"{tmp_path}/day")
    joined = other.join(days.where("name = 'd4'"), other["day"] == days["number"])
    assert joined.count() == 48
    plan = joined._jdf.queryExecution().executedPlan().toString()
    assert plan.count("SubqueryBroadcast dynamicpruning") == 1
    assert "BatchScan" not in plan


def test_a_subquery_of_one_value_prunes_partitions(spark: Any, sales: tuple[str, str]) -> None:
    rows, days = _sales_and_days(spark, sales)
    rows.createOrReplaceTempView("sales")
    days.createOrReplaceTempView("days")
    query = spark.sql("SELECT * FROM sales WHERE day = (SELECT max(number) FROM days WHERE name < 'd2')")
    assert len(query.collect()) == 48
    assert _files_read(query, f"{sales[1]}.n.sales") == 1


def test_partitions_are_pruned_only_in_files_whose_spec_has_them(spark: Any, tmp_path: Path) -> None:
    catalog = lakescan.catalog("evolved", warehouse=str(tmp_path))
    catalog.create_namespace("n")
    table = catalog.create_table("n.day", "id BIGINT, day INT", format="iceberg")

    def rows(first: int) -> pa.Table:
        return pa.table({"id": range(first, first + 100), "day": pa.array([n % 10 for n in range(100)], pa.int32())})

    table.append(rows(0))
    lakescan.sql("ALTER TABLE evolved.n.day ADD PARTITION FIELD day")
    lakescan.table("evolved.n.day").append(rows(100))
    lakescan.sql("ALTER TABLE evolved.n.day RENAME COLUMN day TO today")
    lakescan.table("evolved.n.day").append(rows(200).rename_columns(["id", "today"]))
    lakescan.spark.register(spark)
    frame = spark.read.format("iceberg").load("evolved.n.day")
    few = spark.range(100).where("id % 50 = 4").selectExpr("cast(id AS INT) AS today").where("today < 9")
    joined = frame.join(few, "today")
    assert sorted(row["id"] for row in joined.collect()) == list(range(4, 300, 10))
    assert _files_read(joined, "evolved.n.day") == 1 + 2


if __name__ == "__main__":
    import os
    import sys
    import tempfile
    import traceback

    os.environ["PYSPARK_PYTHON"] = sys.executable
    from tests.support.session import local_session

    session = local_session("joined", {})
    start, count, queries = map(int, sys.argv[1:4])
    for number in range(start, start + count):
        try:
            check_random_joins(session, Path(tempfile.mkdtemp(dir="/tmp/runtime")), number, queries)
            print(number, "ok", flush=True)
        except Exception as error:
            print(number, type(error).__name__, str(error)[:1500], flush=True)
            if not isinstance(error, AssertionError):
                traceback.print_exc(limit=-4)
