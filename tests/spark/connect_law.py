"""Script for a separate process: random queries on Connect return the same rows with and without replaced reads.

Each query is made twice by the same random choices: over reads that are replaced, and over reads with the option
`lane=arrow`, which never are. The arguments are a folder, how many queries there are, and the seed of the first.
"""

from __future__ import annotations

import math
import random
import sys
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

import lakescan
import lakescan.spark

Frames = dict[str, DataFrame]


def rows(n: int, seed: int) -> pa.Table:
    """Make rows with nulls, NaN, infinities and signed zeros; values correlate with the file."""
    rng = random.Random(seed)

    def some(make: Callable[[], Any]) -> list[Any]:
        return [None if rng.random() < 0.1 else make() for _ in range(n)]

    base = 10 * seed
    doubles = [math.nan, math.inf, -math.inf, 0.0, -0.0, 1.5, -2.25, float(base)]
    columns = {
        "id": pa.array(some(lambda: base + rng.randrange(12)), pa.int64()),
        "Part": pa.array([rng.choice(["a", "b", None, "c%d"]) for _ in range(n)], pa.string()),
        "x": pa.array(some(lambda: rng.choice(doubles)), pa.float64()),
        "f": pa.array(some(lambda: rng.choice([math.nan, 0.1, -0.0, 3.5])), pa.float32()),
        "name": pa.array(some(lambda: f"n{base + rng.randrange(12)}"), pa.string()),
        "price": pa.array(some(lambda: Decimal(base) + Decimal(rng.randrange(300)) / 100), pa.decimal128(9, 2)),
        "day": pa.array(some(lambda: date(2024, 1 + seed % 12, 1 + rng.randrange(28))), pa.date32()),
        "ts": pa.array(
            some(lambda: datetime(2024, 1 + seed % 12, 1 + rng.randrange(28), rng.randrange(24), tzinfo=UTC)),
            pa.timestamp("us", "UTC"),
        ),
        "s": pa.array(some(lambda: {"m": base + rng.randrange(9), "t": rng.choice("pq")}), _STRUCT),
        "ok": pa.array(some(lambda: rng.random() < 0.5), pa.bool_()),
        "tags": pa.array(some(lambda: [rng.randrange(4) for _ in range(rng.randrange(3))]), pa.list_(pa.int32())),
    }
    return pa.table(columns)


_STRUCT = pa.struct([("m", pa.int32()), ("t", pa.string())])


def make_tables(folder: str) -> dict[str, str]:
    """Make tables of both formats: several files, partitions, deleted rows; columns renamed, added and dropped."""
    lakescan.catalog("law", warehouse=f"{folder}/lake").create_namespace("db")
    names = {"iceberg": "law.db.t", "delta": f"{folder}/t", "plain": "law.db.p"}
    for kind, name in names.items():
        options = {"partition_by": "Part"} if kind != "plain" else {}
        table_format = "delta" if kind == "delta" else "iceberg"
        for n in range(6):
            lakescan.save(rows(25, n), name, format=table_format, mode="append", **(options if n == 0 else {}))
        table = lakescan.table(name)
        if kind == "iceberg":
            table.delete("id % 5 = 3", row_change_mode="merge-on-read")
            for text in (
                "RENAME COLUMN name TO label",
                "ADD COLUMN name STRING",
                "DROP COLUMN f",
                "ADD COLUMN f FLOAT",
            ):
                lakescan.sql(f"ALTER TABLE {name} {text}")
            some = "(7, 'a', 'n7', 'l7'), (61, 'z', NULL, 'n61'), (NULL, 'b', 'n23', NULL)"
            lakescan.sql(f"INSERT INTO {name} (id, Part, name, label) VALUES {some}")
        elif kind == "plain":
            new = rows(12, 2)
            new = new.set_column(0, "id", pa.array(range(20, 44, 2), pa.int64()))
            table.upsert(new, "id", upsert_mode="equality")
        else:
            lakescan.sql(f"ALTER TABLE delta.`{name}` SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
            lakescan.table(name).delete("id % 5 = 3", row_change_mode="merge-on-read")
    return names


LITERALS: dict[str, list[Any]] = {
    "id": [0, 7, 23, 58, -1, 2**40],
    "Part": ["a", "b", "c%d", "", "A"],
    "x": [0.0, -0.0, 1.5, math.nan, math.inf, 20.0],
    "f": [0.1, 3.5, math.nan],
    "name": ["n7", "n23", "n", "", "zz"],
    "price": [Decimal("20.50"), Decimal("0.00"), Decimal("51.99")],
    "day": [date(2024, 3, 5), date(2024, 1, 1), date(2025, 1, 1)],
    "ts": [datetime(2024, 2, 9, 3, tzinfo=UTC), datetime(2024, 5, 1, tzinfo=UTC)],
    "ok": [True, False],
}
TEXTS = [
    "id > 23",
    "id + 2 between 20 and 30",
    "ID in (7, 23, null)",
    "not (id in (7, 23) or x > 1.5)",
    "x = double('NaN') or name like 'n2%'",
    "x < 0.5 and x > -1",
    "price >= 20.5",
    "price < 30 and cast(price as int) > 10",
    "day >= '2024-03-01'",
    "year(day) = 2024 and month(day) = 2",
    "ts >= timestamp '2024-03-01 00:00:00'",
    "cast(ts as date) = date'2024-02-09'",
    "s.m > 30",
    "s.m is null or s.t = 'p'",
    "`Part` = 'a'",
    "part <=> null",
    "case when id > 40 then 'big' else 'small' end = 'big'",
    "coalesce(name, 'none') = 'none'",
    "if(ok, id, 0) > 20",
    "exists(tags, t -> t > 2)",
    "size(tags) = 2 and id < 40",
    "id = 7 or (part = 'b' and not ok)",
    "name = concat('n', cast(id as string))",
    "length(name) > 2",
    "substr(name, 1, 2) = 'n2'",
    "id % 3 = 1",
    "hash(id) > 0",
    "isnull(x) and id > 11",
    "false",
    "null",
]


def condition(rng: random.Random, names: list[str]) -> Any:
    """Return a random condition over columns, in SQL or in Python."""
    if rng.random() < 0.35:
        return F.expr(rng.choice(TEXTS)) if rng.random() < 0.5 else rng.choice(TEXTS)
    return of_columns(rng, names, rng.choice([0, 0, 1, 2]))


def of_columns(rng: random.Random, names: list[str], depth: int) -> Any:
    if depth:
        one, other = (of_columns(rng, names, depth - 1) for _ in range(2))
        return rng.choice([one & other, one | other, ~one, one & F.expr(rng.choice(TEXTS[:12]))])
    name = rng.choice([each for each in names if each in LITERALS] or ["id"])
    value, column = rng.choice(LITERALS[name]), F.col(rng.choice([name, name.upper()]))
    which = rng.randrange(9)
    if which == 0:
        return column.isNull() if rng.random() < 0.5 else column.isNotNull()
    if which == 1:
        return column.isin(value, rng.choice(LITERALS[name]))
    if which == 2:
        return column.eqNullSafe(value)
    if which == 3 and isinstance(value, str):
        return rng.choice([column.startswith, column.contains, column.endswith])(value)
    if which == 4 and name == "id":
        return (column + rng.choice([1, -3])) > value
    if which == 5 and name in ("x", "f"):
        return F.isnan(column)
    literal = F.lit(value)
    op = rng.choice(["__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__"])
    return getattr(column, op)(literal) if rng.random() < 0.8 else getattr(literal, op)(column)


def twice(name: str) -> Any:
    """Double a column by a function that Spark cannot inspect."""
    return F.udf(lambda value: None if value is None else 2 * value, "long")(name)


def step(rng: random.Random, frame: DataFrame, frames: Frames, names: list[str]) -> tuple[DataFrame, list[str]]:
    """Add a random operator to a frame. `names` are the columns that conditions may use."""
    which = rng.randrange(24)
    if which < 7:
        return frame.where(condition(rng, names)), names
    if which == 7:
        kept = sorted({"id", *rng.sample(names, min(4, len(names)))})
        return frame.select(*kept), kept
    if which == 8:
        return frame.withColumn("id", F.col("id") + 1), names
    if which == 9:
        return frame.withColumn("z", rng.choice([F.col("id") * 2, F.upper("part"), F.lit(1), F.col("s.m")])), names
    if which == 10:
        return frame.withColumnRenamed("part", "kind"), [each for each in names if each != "Part"]
    if which == 11:
        return frame.alias("q").where(F.expr("q.id > 11 and q.s.m > 5")), names
    if which == 12:
        return frame.orderBy("id", "name"), names
    if which == 13:
        return frame.withColumn(
            "n", F.row_number().over(Window.partitionBy("part").orderBy("id", "name", "x", "ts"))
        ).where("id > 20"), names
    if which == 14:
        return frame.withColumn("u", twice("id")).where(rng.choice(["u > 40", "id < 30"])), names
    if which == 15:
        return frame.select("id").dropDuplicates(["id"]), ["id"]
    if which == 16:
        return frame.groupBy("id", F.col("part").alias("Part")).agg(F.count("x").alias("c")), ["id", "Part"]
    if which == 17:
        return frame.groupBy("day").agg(F.max("id").alias("id"), F.min("name").alias("name")), ["id", "day", "name"]
    if which == 18:
        return frame.drop("tags", "x"), [each for each in names if each != "x"]
    if which == 19:
        return frame.select("*", F.col("id").alias("k")).where(rng.choice(["k > 20", "k = id", "k < 7"])), names
    if which == 20:
        return frame.where(F.col("id") > frames["b"].where("id > 50").select(F.min("id")).scalar()), names
    if which == 21:
        return frame.select(F.explode_outer("tags").alias("tag"), *[e for e in names if e != "tags"]), names
    return combined(rng, frame, frames, names)


def combined(rng: random.Random, frame: DataFrame, frames: Frames, names: list[str]) -> tuple[DataFrame, list[str]]:
    """Combine frames by a join or a set operation."""
    other = frames[rng.choice(["a", "b", "c"])]
    if rng.random() < 0.5:
        other = other.where(condition(rng, ["id", "day", "Part"]))
    kind = rng.choice(["inner", "left", "right", "full", "left_semi", "left_anti"])
    which = rng.randrange(6)
    if which == 0:
        result = frame.join(other.select("id", F.col("x").alias("y")), "id", kind)
        return (result.where("id > 20") if rng.random() < 0.5 else result), ["id"] if kind == "full" else names
    if which == 1:
        small = other.select(F.col("id").alias("oid"), F.col("day").alias("oday"), "s")
        result = frame.drop("s").join(small, (F.col("id") == F.col("oid")) & (F.col("oday") > date(2024, 2, 1)), kind)
        after = (
            "id < 40"
            if "semi" in kind or "anti" in kind
            else rng.choice(["oid > 20", "id < 40 or oid is null", "s.m > 9"])
        )
        return result.where(after), names
    if which == 2:
        result = frame.alias("l").join(
            other.select("id", "price").alias("r"), F.expr("l.id = r.id + 1 and r.price > 11"), kind
        )
        rest = [F.col(f"l.{each}").alias(each) for each in names]
        return result.where(F.col("l.id") < 45).select(*rest), names
    ids, others = frame.select("id", "part"), other.select("id", "part")
    if which == 3:
        return ids.union(others).where(condition(rng, ["id"])), ["id", "Part"]
    if which == 4:
        return ids.exceptAll(others).where("id > 3"), ["id", "Part"]
    return ids.intersect(others).where("id > 3 and part = 'a'"), ["id", "Part"]


def query(seed: int, frames: Frames) -> tuple[str, list[Any]]:
    """Run a random query; return its outcome and its rows."""
    rng = random.Random(seed)
    frame, names = frames[rng.choice("abc")], list(LITERALS)
    for _ in range(rng.choice([1, 2, 2, 3, 3, 4])):
        frame, names = step(rng, frame, frames, names)
    end = rng.randrange(8)
    if end == 0:
        return "count", [frame.count()]
    if end == 1:
        return "sum", frame.agg(F.sum("id"), F.count("*")).collect()
    if end == 2:
        kept = frame.where("id is not null").cache()
        try:
            return "cache", [kept.count(), *kept.where("id > 20").select("id").collect()]
        finally:
            kept.unpersist()
    if end == 3:
        frame.createOrReplaceTempView("law")
        return "view", frame.sparkSession.sql("SELECT id, count(*) FROM law WHERE id > 10 GROUP BY id").collect()
    if end == 4:
        return "limit", [frame.select("id").limit(4).count()]
    if end == 5:
        return "select", frame.select("id").collect()
    if end == 6:
        return "sql", frame.sparkSession.sql("SELECT id FROM {f} WHERE id < 50", f=frame).collect()
    return "collect", frame.collect()


def outcome(seed: int, frames: Frames) -> tuple[str, list[str] | None]:
    """Run a query; return its outcome and its rows as sorted texts, None if it failed."""
    try:
        how, found = query(seed, frames)
    except PySparkException as error:
        return f"{error.getCondition()}: {str(error)[:300]}", None
    return how, sorted(str(each).replace("-0.0", "0.0") for each in found)


def main(folder: str, count: int, first: int) -> None:
    spark = SparkSession.builder.remote("local[2]").getOrCreate()
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    names = make_tables(folder)
    lakescan.spark.register(spark)

    def frames(**options: str) -> Frames:
        def load(kind: str, name: str) -> DataFrame:
            return spark.read.format(kind).options(**options).load(name)

        found = {"a": load("iceberg", names["iceberg"]), "b": load("delta", names["delta"])}
        return {**found, "c": load("lakescan", names["plain"])}

    (hook,) = spark.client._session_hooks
    answers, failed = 0, []
    for seed in range(first, first + count):
        spark.conf.set("spark.sql.ansi.enabled", str(seed % 2 == 0).lower())
        how, expected = outcome(seed, frames(lane="arrow"))
        if expected is None:  # a name that an earlier operator dropped, or an incompatible value
            continue
        found = outcome(seed, frames())
        if found[0].startswith("HYBRID_ANALYZER"):  # in tests, Spark compares its two analyzers
            continue
        answers += 1
        if found != (how, expected):
            failed.append(seed)
            print(f"query {seed} ({how}): expected {expected[:5]}, found {found[0]} {(found[1] or [])[:5]}")
    print(f"{answers} of {count} queries have answers, {hook.replaced} reads were replaced; other answers: {failed}")
    assert not failed
    assert answers > count // 2
    assert hook.replaced >= answers
    spark.stop()
    print("fine")


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:] or (30, 0)))
