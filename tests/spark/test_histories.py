"""Whatever names a table's columns had over time, all lanes return the rows, filtered early or late."""

from __future__ import annotations

import tempfile
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st
from pyspark.sql import functions as F

import lakescan
from lakescan.common.schema import Schema
from lakescan.common.types import INT, Field
from lakescan.iceberg.metadata.name_mapping import stable_name_ids
from tests.spark.histories import STEPS, History, Step, delta_history, iceberg_history
from tests.support.rows import differences

pytestmark = pytest.mark.spark


def found_by(frame: Any, conditions: list[str]) -> list[list[int]]:
    """Return, for each condition, the keys of a frame's rows that satisfy it, by one query."""
    parts = [frame.where(text).select(F.lit(n).alias("n"), "k") for n, text in enumerate(conditions)]
    rows = reduce(lambda a, b: a.unionAll(b), parts).collect()
    return [sorted(row["k"] for row in rows if row["n"] == n) for n in range(len(conditions))]


@pytest.mark.parametrize("kind", ["iceberg", "delta by name", "delta by id"])
@settings(max_examples=4, phases=[Phase.explicit, Phase.generate])  # shrinking takes many queries per attempt
@example(steps=[("write", 0), ("drop", "", "a"), ("add", "", "a", "int"), ("swap", "s", "a", "b")], choice=0)
@example(steps=[("write", 0), ("swap", "", "a", "b"), ("write", 1), ("call", "t"), ("drop", "s", "a")], choice=1)
@given(steps=STEPS, choice=st.integers(1, 5))
def test_all_lanes_have_the_rows_of_every_filter(spark, kind: str, steps: list[Step], choice: int) -> None:
    history = History()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if kind == "iceberg":
            location = iceberg_history(history, steps, folder)
        else:
            location = delta_history(history, steps, folder / "t", kind.split()[-1])
        scan = lakescan.table(location).scan()
        expected = history.as_arrow(history.rows)
        assert differences(scan.select(*expected.column_names).to_arrow(), expected) == ""
        conditions = history.conditions(choice)
        keys = dict(zip(conditions, found_by(spark.createDataFrame(expected), conditions), strict=True))
        assert {text: in_process(scan, text) for text in conditions} == keys
        assert dict(zip(conditions, found_by(scan.to_spark(spark), conditions), strict=True)) == keys
        flat = [text for text in conditions if "." not in text.split()[0]]
        native = scan.select("k", *(c.name for c in history.places[""])).options(lane="native")
        assert found_by(native.to_spark(spark), flat) == [keys[text] for text in flat]
        early = native.where(flat[choice % len(flat)]).to_spark(spark)
        assert sorted(row["k"] for row in early.select("k").collect()) == keys[flat[choice % len(flat)]]


def in_process(scan: lakescan.Scan, text: str) -> list[int]:
    return sorted(scan.where(text).select("k").to_arrow()["k"].to_pylist())


def test_filters_are_pushed_to_columns_with_unambiguous_names(spark, tmp_path: Path) -> None:
    """Spark may skip row groups by a name that no other column ever had. It does not use other names."""
    location = iceberg_history(History(), [("write", 0), ("drop", "", "b"), ("add", "", "b", "int")], tmp_path)
    frame = lakescan.table(location).scan().options(lane="native").to_spark(spark)

    def pushed(condition: str) -> str:
        plan = frame.where(condition)._jdf.queryExecution().toString()
        return str(next(part for part in plan.split("PushedFilters: ")[1:]).split("]")[0])

    assert "EqualTo(a,5)" in pushed("a = 5")
    assert "GreaterThan(k,3)" in pushed("k > 3")
    assert "EqualTo(b,5)" not in pushed("b = 5")


def test_members_of_a_struct_that_was_renamed_are_found(spark, tmp_path: Path) -> None:
    """If a query needs only some members, Spark drops the struct's id and looks for its name in the file."""
    location = iceberg_history(History(), [("write", 0), ("call", "t")], tmp_path)
    for lane in ("auto", "native"):
        frame = lakescan.table(location, lane=lane).scan().to_spark(spark)
        assert frame.where("t.a is not null").select("t.a").count() == 8
    assert "by the names of their columns" in lakescan.spark.explain(lakescan.table(location).scan())


def schemas(*columns: dict[str, int]) -> dict[int, Schema]:
    """Number schemas from 0, given columns by name and id."""
    return {n: Schema(tuple(Field(i, name, INT) for name, i in each.items()), n) for n, each in enumerate(columns)}


@pytest.mark.parametrize(
    ("history", "last", "settled"),
    [
        (schemas({"a": 1, "b": 2}), 2, {1, 2}),
        (schemas({"a": 1}, {"a": 1, "b": 2}), 2, {1, 2}),
        (schemas({"a": 1, "b": 2}, {"c": 1, "b": 2}), 2, {2}),  # renamed: files have both names
        (schemas({"a": 1, "b": 2}, {"a": 1}, {"a": 1, "b": 3}), 3, {1}),  # dropped and added back
        (schemas({"a": 1, "b": 2}, {"a": 1, "B": 3}), 3, {1}),  # the same, in another case
        (schemas({"a": 1, "b": 2}, {"a": 2, "b": 1}), 2, set()),  # swapped
        ({1: schemas({"a": 1})[0]}, 1, set()),  # an earlier schema was removed
        (schemas({"a": 1, "b": 3}), 3, set()),  # a field was
        (schemas({"a": 1, "b": 2}), 3, set()),  # the newest field was removed
        (schemas({"a": 1}), None, set()),  # earlier schemas are not listed
        (schemas({"a.b": 1, "a_x2Eb": 2, "c": 3}), 3, {3}),  # in files, the first has the name of the second
        (schemas({"1a": 1, "_1a": 2, "c": 3}), 3, {3}),
        (schemas({"a_x2Eb": 1, "_1a": 2}), 2, {1, 2}),  # no name differs in files
    ],
)
def test_unambiguous_names_are_found(history: dict[int, Schema], last: int | None, settled: set[int]) -> None:
    assert stable_name_ids(history, last) == settled
