"""The columns, conditions and limits that a Spark Connect plan needs from its reads, without a server."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

pytest.importorskip("grpc")

from pyspark.sql.connect import functions as F
from pyspark.sql.connect import plan as p
from pyspark.sql.connect.dataframe import DataFrame
from pyspark.sql.connect.window import Window
from pyspark.sql.types import LongType

from lakescan.common import types as t
from lakescan.common.schema import Schema
from lakescan.expressions.inference import infer_predicate
from lakescan.spark.connect.narrowing import NarrowedRead, ReadColumn, narrow_reads

FIELDS = (
    t.Field(1, "id", t.LONG),
    t.Field(2, "x", t.DOUBLE),
    t.Field(3, "name", t.STRING),
    t.Field(4, "price", t.Decimal(9, 2)),
    t.Field(5, "day", t.DATE),
    t.Field(6, "ts", t.Timestamp("us", True)),
    t.Field(7, "s", t.Struct((t.Field(8, "m", t.INT), t.Field(9, "id", t.INT)))),
    t.Field(10, "tags", t.ListOf(t.Field(11, "element", t.INT))),
    t.Field(12, "data", t.BINARY),
    t.Field(13, "ok", t.BOOLEAN),
)
SCHEMA = Schema(FIELDS)


class Session:
    """The parts of a session that frames use while they are built."""

    client = _client = None
    session_id = "1"


def read() -> Any:
    """Return a frame of a table with the columns of `FIELDS`."""
    return DataFrame(p.DataSource("delta", options={"path": "/t"}), Session())


def other() -> Any:
    """Return a frame that lakescan does not recognize."""
    return DataFrame(p.Read("other"), Session())


def reads_of(frame: Any, *, case_sensitive: bool = False, own: frozenset[str] = frozenset()) -> list[NarrowedRead]:
    """Return the needs of each read in a frame, in the order of the reads."""
    root = frame._plan.plan(None)
    columns = tuple(ReadColumn(f.name, (f.name,), str(f.type)) for f in FIELDS)

    def columns_of(relation: Any) -> Any:
        is_ours = relation.WhichOneof("rel_type") == "read" and relation.read.HasField("data_source")
        return columns if is_ours else None

    return narrow_reads([root], columns_of, lambda _: False, case_sensitive=case_sensitive, own_functions=own)


def needs(frame: Any, *, case_sensitive: bool = False) -> list[tuple[str, list[str] | None, int | None]]:
    """Return the conditions, columns and limit of each read in a frame, in the order of the reads."""
    return [
        (texts_of(each.conditions), None if each.columns is None else sorted(each.columns), each.limit)
        for each in reads_of(frame, case_sensitive=case_sensitive)
    ]


def totals_of(frame: Any, own: frozenset[str] = frozenset()) -> tuple[list[str], str] | None:
    """Return the totals that the frame's only read serves, and its row conditions; None for other reads."""
    (found,) = (each.totals for each in reads_of(frame, own=own))
    return None if found is None else (list(found.wanted), texts_of(found.conditions))


def texts_of(conditions: Any) -> str:
    texts = [str(infer_predicate(each, SCHEMA, time_zone="UTC").predicate) for each in conditions]
    return " and ".join(text for text in texts if text != "true")


def pruning(frame: Any) -> str:
    """Return the conditions of the only read in a frame."""
    ((found, _, _),) = needs(frame)
    return found


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (F.col("id") > 5, "id > 5"),
        (F.col("ID") == 5, "id = 5"),
        (~(F.col("id") > 5), "id <= 5"),
        ((F.col("id") > 5) & (F.col("x") < 2.5), "id > 5 and x < 2.5"),
        ((F.col("id") > 5) | (F.col("x") < 2.5), "(id > 5 or x < 2.5)"),
        (F.col("id").isin(1, 2), "id in (1, 2)"),
        (F.col("id").between(1, 9), "id >= 1 and id <= 9"),
        (F.col("name").startswith("a%'"), r"name like 'a\%''%'"),
        (F.col("name").like("a_b"), "name like 'a_b'"),
        (F.col("name").isNull(), "name is null"),
        (F.col("x") == float("nan"), "x = nan"),
        (F.col("x") > float("-inf"), "x > -inf"),
        (F.col("price") >= Decimal("1.50"), "price >= 1.50"),
        (F.col("day") < date(2024, 3, 1), "day < '2024-03-01'"),
        (F.col("ts") < datetime(2024, 3, 1, tzinfo=UTC), "ts < '2024-03-01 00:00:00+00:00'"),
        (F.year("day") == 2024, "(day >= '2024-01-01' and day < '2025-01-01')"),
        (F.col("s.m") > 3, "s.m > 3"),
        (F.col("s").getField("m") > 3, "s.m > 3"),
        (F.col("data") == F.lit(b"\x01"), "data = X'01'"),
        (F.col("id").cast("int") == 5, "id = 5"),
        (F.col("id").eqNullSafe(5), "id = 5"),
        (F.when(F.col("id") > 5, "a").otherwise("b") == "a", "id > 5"),
        (F.expr("id > 5 and exists(tags, t -> t > id)"), "id > 5"),
        (F.expr("name = 'it''s'"), "name = 'it''s'"),
        (F.expr("id > 5 and id in (select 1)"), "id > 5"),
        (F.col("ok"), "ok = true"),
    ],
)
def test_conditions_become_texts_of_columns(condition: Any, expected: str) -> None:
    assert pruning(read().where(condition)).replace("(id > 5 and x < 2.5)", "id > 5 and x < 2.5") == expected


@pytest.mark.parametrize(
    "condition",
    [
        F.udf(lambda v: v, LongType())("id") > 5,
        F.call_function("mine", F.col("id")) > 5,
        F.rand() > 0.5,
        F.exists("tags", lambda v: v > F.col("id")),
        F.col("nothing") > 5,
        F.expr("dateadd(day, 1, day) > '2024-01-01'"),
        F.expr("id > 5 or mine(id)"),
        F.col("tags")[0] > 5,
    ],
)
def test_an_unsupported_condition_prunes_nothing(condition: Any) -> None:
    assert "id >" not in pruning(read().where(condition))


def test_columns_are_followed_through_projections() -> None:
    frame = read().select(F.col("id").alias("x"), (F.col("x") + 1).alias("id"), "name")
    assert pruning(frame.where("x > 5")) == "id > 5"
    assert "id" not in pruning(frame.where("id > 5"))
    assert pruning(read().withColumn("id", F.col("s.m")).where("id > 5")) == "s.m > 5"
    assert pruning(read().withColumnRenamed("id", "key").where("key > 5")) == "id > 5"
    assert pruning(read().toDF(*"abcdefghij").where("a > 5")) == "id > 5"
    assert pruning(read().alias("s").where("s.m > 5")) == "s.m > 5"  # no column of s, so the member of a struct
    assert pruning(read().alias("s").where("s.id > 5")) == "id > 5"  # the relation's name comes first


def test_a_column_belongs_to_its_own_frame() -> None:
    frame = read()
    assert pruning(frame.where(frame["id"] > 5)) == "id > 5"
    assert pruning(frame.select("id", "name").where(frame["id"] > 5)) == "id > 5"
    assert pruning(frame.withColumn("id", F.lit(7)).where(frame["id"] > 5)) == ""


def test_no_condition_is_pushed_through_windows_generators_aggregates_and_samples() -> None:
    window = F.row_number().over(Window.partitionBy("day").orderBy("id"))
    for frame in (
        read().withColumn("n", window),
        read().select("id", F.explode("tags").alias("tag")),
        read().select(F.sum("id").alias("id")),
        read().selectExpr("any(ok) as ok", "max(id) as id"),
        read().limit(10),
        read().sample(0.5),
        read().dropDuplicates(["name"]),
        read().agg(F.max("id").alias("id")),
        read().rollup("id").count(),
        read().groupBy("id").pivot("name", ["a"]).count(),
        read().select(F.call_function("mine", "id").alias("y"), "id"),
    ):
        assert pruning(frame.where("id > 5")) == ""
        assert all(limit is None for _, _, limit in needs(frame.limit(3))) or frame._plan._child is not None


def test_no_condition_is_pushed_through_a_nondeterministic_filter() -> None:
    for condition in (F.rand() < 0.5, F.expr("id > 3 and rand() < 0.5"), (F.col("id") > 3) & (F.rand(7) < 0.5)):
        assert pruning(read().where(condition).where("id > 5")) == ""
    mine = F.udf(lambda v: v, LongType())("id") > 3
    assert pruning(read().where(mine).where("id > 5")) == "id > 5"
    assert pruning(read().where(F.expr("mine(id) and x < 2")).where("id > 5")) == "x < 2.0"
    assert pruning(read().where("id > 5").where(F.rand() < 0.5)) == "id > 5"


def test_a_condition_on_group_keys_is_pushed_down() -> None:
    frame = read().groupBy("id", F.year("day").alias("y")).agg(F.count("x").alias("c"))
    assert pruning(frame.where("id > 5 and c > 3")) == "id > 5"
    assert pruning(frame.where("y = 2024")) == "(day >= '2024-01-01' and day < '2025-01-01')"


@pytest.mark.parametrize(
    ("kind", "left", "right"),
    [
        ("inner", "id > 5", "x < 2.0 and name = 'a'"),
        ("left", "id > 5", "name = 'a'"),
        ("right", "", "x < 2.0"),
        ("full", "", ""),
    ],
)
def test_conditions_reach_the_join_sides_whose_rows_they_exclude(kind: str, left: str, right: str) -> None:
    one, two = read(), read().select(F.col("id").alias("k"), F.col("x").alias("y"), F.col("name").alias("w"))
    frame = one.join(two, (F.col("id") == F.col("k")) & (F.col("w") == "a"), kind).where("id > 5 and y < 2")
    found = [each[0] for each in needs(frame)]
    assert [" and ".join(sorted(each.split(" and "), reverse=True)) for each in found] == [left, right]


def test_the_right_side_of_a_semi_or_anti_join_can_be_narrowed() -> None:
    two = read().select(F.col("id").alias("k"))
    for kind, left in (("left_semi", "id > 5"), ("left_anti", "id > 5")):
        frame = read().join(two, (F.col("id") == F.col("k")) & (F.col("k") < 9), kind).where("id > 5")
        assert [each[0] for each in needs(frame)] == [left, "id < 9"]


def test_keys_of_a_using_join_belong_to_the_preserved_side() -> None:
    two = read().select("id", F.col("x").alias("y"))
    sides = {"inner": ["id > 5", ""], "left": ["id > 5", ""], "right": ["", "id > 5"], "full": ["", ""]}
    for kind, expected in sides.items():
        assert [each[0] for each in needs(read().join(two, "id", kind).where("id > 5"))] == expected


def test_an_ambiguous_name_belongs_to_neither_side() -> None:
    frame = read()
    assert [each[0] for each in needs(frame.join(frame, frame["id"] == 5))] == ["", ""]
    joined = read().alias("a").join(read().alias("b"), F.expr("a.id = b.x"))
    assert [each[0] for each in needs(joined.where("a.id > 5 and x > 1"))] == ["id > 5", ""]


def test_an_unknown_join_side_does_not_block_conditions_on_the_other() -> None:
    frame = read().alias("a").join(other(), F.lit(True)).where("a.id > 5")
    assert pruning(frame) == ""  # the other side may have a column a, too


def test_set_operations_push_conditions_to_columns_of_equal_type() -> None:
    frame = read().select("id", "name").union(read().select("s.m", "name"))
    assert [each[0] for each in needs(frame.where("id > 5"))] == ["", ""]  # BIGINT and INT
    frame = read().select("id", "name").union(read().select(F.col("id").alias("k"), "name"))
    assert [each[0] for each in needs(frame.where("id > 5"))] == ["id > 5", "id > 5"]
    frame = read().select("id").exceptAll(read().select("id").where("id < 3"))
    assert [each[0] for each in needs(frame.where("id > 5"))] == ["id > 5", "id > 5 and id < 3"]


def columns(frame: Any) -> list[list[str] | None]:
    """Return the columns needed from each read."""
    return [each[1] for each in needs(frame)]


def test_only_referenced_columns_are_read() -> None:
    assert columns(read()) == [None]
    assert columns(read().where("id > 5")) == [None]
    assert columns(read().where("id > 5").select("name")) == [["id", "name"]]
    assert columns(read().groupBy("name").agg(F.sum("x"))) == [["name", "x"]]
    assert columns(read().orderBy("day").select("NAME")) == [["day", "name"]]
    assert columns(read().withColumn("y", F.col("x") + 1).select("y", "id")) == [["id", "x"]]
    assert columns(read().selectExpr("upper(name) as n")) == [["name"]]
    assert columns(read().alias("a").join(read().alias("b"), F.col("a.id") == F.col("b.x")).select("a.name")) == [
        ["id", "name"],
        ["x"],
    ]
    assert columns(read().join(read().select("id"), "id").select("name")) == [["id", "name"], ["id"]]
    window = F.sum("x").over(Window.partitionBy("day").orderBy("id"))
    assert columns(read().select(window.alias("w"))) == [["day", "id", "x"]]


def test_all_columns_are_read_if_a_name_is_ambiguous() -> None:
    two = read()
    for frame in (
        read().select("nothing"),
        read().select("id").where("name = 'a'"),  # found in the relation below
        read().select("id").orderBy("name"),
        read().selectExpr("exists(tags, v -> v > 1)"),
        read().select(F.expr("struct(*)")),
        read().select(read().colRegex("`i.*`")),
        read().orderBy(F.lit(1)).select("id"),
        read().join(read(), F.expr("id = 5")).select(F.lit(1)),
        read().select("id").union(two),
        read().unpivot("id", ["x"], "a", "b"),
    ):
        assert None in columns(frame), frame


def test_a_limit_reaches_reads_that_may_return_any_rows() -> None:
    def limits(frame: Any) -> list[int | None]:
        return [each[2] for each in needs(frame)]

    assert limits(read().limit(3)) == [3]
    assert limits(read().select("id").withColumn("y", F.lit(1)).limit(5).limit(3)) == [3]
    assert limits(read().offset(4).limit(3)) == [7]
    assert limits(read().where("id > 5").limit(3)) == [None]
    assert limits(read().orderBy("id").limit(3)) == [None]
    assert limits(read().groupBy("id").count().limit(3)) == [None]
    assert limits(read().select(F.explode("tags")).limit(3)) == [None]
    assert limits(read().select(F.max("id")).limit(3)) == [None]
    assert limits(read().limit(3).join(read(), "id").limit(2)) == [3, None]
    assert limits(read().union(read()).limit(3)) == [None, None]


def test_an_aggregate_of_all_rows_gives_totals_under_all_conditions() -> None:
    assert totals_of(read().groupBy().count()) == (["count(*)"], "")
    assert totals_of(read().agg(F.max("ID"), F.min(F.col("x")), F.count("*"))) == (
        ["max(id)", "min(x)", "count(*)"],
        "",
    )
    texts = read().where("id > 5").selectExpr("max(x) as m", "count(1)")
    assert totals_of(texts) == (["max(x)", "count(*)"], "id > 5")
    renamed = read().select(F.col("id").alias("k")).where("k > 5")
    assert totals_of(renamed.agg(F.min("k") + 1)) == (["min(k)"], "id > 5")
    assert totals_of(read().drop("x").toDF(*"abcdefghi").agg(F.max("a").alias("z"))) == (["max(a)"], "")
    assert totals_of(read().agg(F.max("id").alias("m")).limit(1).select("m")) == (["max(id)"], "")


def test_an_aggregate_with_other_rows_or_columns_gives_no_totals() -> None:
    for frame in (
        read(),
        read().groupBy("id").count(),
        read().cube().count(),
        read().agg(F.count("*"), F.sum("id")),
        read().agg(F.count("id")),
        read().agg(F.count(F.lit(None))),
        read().agg(F.max(F.col("id") + 1)),
        read().agg(F.max("s.m")),
        read().agg(F.max("nothing")),
        read().agg(F.countDistinct("id"), F.count("*")),
        read().agg(F.call_function("max", "id")),
        read().agg(F.udf(lambda v: v, LongType())(F.max("id"))),
        read().selectExpr("max(id) over ()"),
        read().selectExpr("count(distinct *)"),
        read().limit(3).agg(F.count("*")),
        read().sample(0.5).agg(F.count("*")),
        read().distinct().agg(F.count("*")),
        read().select(F.explode("tags")).agg(F.count("*")),
        read().agg(F.max("id").alias("m")).where("max(id) > 3"),
        read().agg(F.max("id").alias("m")).orderBy(F.min("id")),
    ):
        assert totals_of(frame) is None, frame
    assert totals_of(read().groupBy().count(), frozenset(["count"])) is None
    assert totals_of(read().groupBy().count(), frozenset(["mine"])) is not None
