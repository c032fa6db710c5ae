"""New rows obey a Delta table's declarations: constraints, generated columns, defaults, ids, text lengths."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lakescan
from lakescan.api.rows import as_rows
from lakescan.common import types as t
from lakescan.definition.table_definition import TableDefinition
from lakescan.delta.commit.creation import replace_table
from lakescan.delta.target import DeltaTarget
from lakescan.options.write import WriteOptions
from lakescan.storage import Storage
from lakescan.tables.write_rows import append_rows
from lakescan.writing.identity_values import Identity, IdentityValues
from tests.support.delta_rules import NOT_NULL, identity, mark_of, table_with_rules
from tests.support.delta_state import commit, first_actions, newest_version, state


def read(folder: Path, *columns: str) -> list[Any]:
    rows = lakescan.table(folder).scan().to_arrow().select(list(columns)).to_pylist()
    return sorted((tuple(row.values()) for row in rows), key=repr)


@pytest.mark.parametrize(
    ("check", "good", "bad", "example"),
    [
        ("a % 2 = 0", 4, 5, "a = 5"),
        ("a * 2 > b", 4, 1, "a = 1, b = 3"),
        ("a > 3 or a is null", None, 3, "a = 3"),
        ("length(s) = 3 and substring(s, 0, 1) = 'a' and a <> 0 and 12 / a > 1", 1, 0, "s = 'abc', a = 0"),
        ("a > 3", 4, None, "a = None"),  # null is a violation
        ("coalesce(a, 0) > 3", 4, None, "a = None"),
        ("cast(3.7 as int) = a", 3, 4, "a = 4"),
        ("s not like null or a > 3", 4, 3, "a = 3"),
    ],
)
def test_rows_satisfy_a_constraint_of_any_expression(
    tmp_path: Path, check: str, good: int | None, bad: int | None, example: str
) -> None:
    columns = {"a": "integer", "b": "integer", "s": "string"}
    table = table_with_rules(tmp_path, columns, properties={"delta.constraints.c": check})

    def rows(*values: int | None) -> pa.Table:
        return pa.table({"a": pa.array(values, pa.int32()), "b": [3] * len(values), "s": ["abc"] * len(values)})

    table.append(rows(good))
    with pytest.raises(lakescan.SchemaMismatch) as refused:
        table.append(rows(good, bad, bad))
    assert str(refused.value) == f"2 rows violate the constraint 'c' of the table: {check}. For example: {example}"
    assert read(tmp_path, "a") == [(good,)]
    assert len(list(tmp_path.glob("*.parquet"))) == 1


@pytest.mark.parametrize(
    ("check", "named"),
    [
        ("xpath_string(a, 'b') = 'A1'", r"function xpath_string\(\)"),
        ("exists(select 1)", "EXISTS|exists"),
        ("length(a)", "condition of type int"),
        ("a >", "cannot parse"),
    ],
)
def test_a_rule_that_cannot_be_evaluated_as_spark_does_is_refused_by_name(
    tmp_path: Path, check: str, named: str
) -> None:
    table = table_with_rules(tmp_path, {"a": "string", "b": "integer"}, properties={"delta.constraints.c": check})
    with pytest.raises(lakescan.UnsupportedFeature, match=f"the constraint 'c' of (?s:.*){named}"):
        table.append(pa.table({"a": ["x"], "b": [1]}))
    assert list(tmp_path.glob("*.parquet")) == []


@pytest.mark.parametrize(
    "check", ["a = 9007199254740992D", "a in (9007199254740992, 0.5D)", "not a > 9007199254740992D"]
)
def test_whole_numbers_are_compared_with_doubles_as_doubles(tmp_path: Path, check: str) -> None:
    table = table_with_rules(tmp_path, {"a": "long"}, properties={"delta.constraints.c": check})
    table.append(pa.table({"a": [2**53 + 1]}))
    with pytest.raises(lakescan.SchemaMismatch, match="constraint 'c'"):
        table.append(pa.table({"a": [2**53 + 3]}))


def test_a_row_on_which_a_constraint_fails_is_refused_with_the_reason(tmp_path: Path) -> None:
    table = table_with_rules(tmp_path, {"a": "integer"}, properties={"delta.constraints.c": "12 / a > 1"})
    with pytest.raises(lakescan.SchemaMismatch, match=r"'12 / a > 1' cannot be evaluated: .*division by zero"):
        table.append(pa.table({"a": [1, 0]}))


def test_rows_satisfy_invariants_of_columns_and_of_members_of_structs(tmp_path: Path) -> None:
    def invariant(text: str) -> dict[str, str]:
        return {"delta.invariants": json.dumps({"expression": {"expression": text}})}

    member = {"name": "n", "type": "integer", "nullable": True, "metadata": invariant("s.n % 2 = 1")}
    columns = {"x": "integer", "s": {"type": "struct", "fields": [member]}}
    table = table_with_rules(tmp_path, columns, {"x": invariant("x > 3")})
    table.append(pa.table({"x": [4], "s": [{"n": 1}]}))
    with pytest.raises(lakescan.SchemaMismatch, match=r"delta.invariants of x.*x > 3. For example: x = 3"):
        table.append(pa.table({"x": [3], "s": [{"n": 1}]}))
    with pytest.raises(lakescan.SchemaMismatch, match=r"delta.invariants of s.n.*For example: s.n = 2"):
        table.append(pa.table({"x": [4], "s": [{"n": 2}]}))


@pytest.mark.parametrize("partition", [(), ("day", "year")])
def test_generated_columns_are_computed_if_absent_and_verified_if_given(tmp_path: Path, partition: Any) -> None:
    table = table_with_rules(
        tmp_path,
        {"at": "timestamp", "day": "date", "year": "integer", "n": "long"},
        {
            "day": {"delta.generationExpression": "CAST(at AS DATE)"},
            "year": {"delta.generationExpression": "year(at)"},
            "n": {"delta.generationExpression": "CAST(hour(at) AS BIGINT) + 1L"},
        },
        partition=partition,
    )
    at = [datetime(2024, 2, 29, 23, 59, tzinfo=UTC), None]
    table.append(pa.table({"at": pa.array(at, pa.timestamp("us", "UTC"))}))
    computed = [(date(2024, 2, 29), 2024, 24), (None, None, None)]
    assert read(tmp_path, "day", "year", "n") == sorted(computed, key=repr)
    given = {"at": pa.array(at[:1], pa.timestamp("us", "UTC")), "day": [date(2024, 2, 29)]}
    table.append(pa.table(given))
    with pytest.raises(lakescan.SchemaMismatch, match=r"generated column 'day'.*CAST\(at AS DATE\).*2024, 3, 1"):
        table.append(pa.table({**given, "day": [date(2024, 3, 1)]}))
    with pytest.raises(lakescan.SchemaMismatch, match="generated column 'year'"):
        table.append(pa.table({**given, "year": pa.array([None], pa.int32())}))
    assert len(read(tmp_path, "day")) == 3


def test_metadata_of_generation_without_the_feature_generates_nothing(tmp_path: Path) -> None:
    actions = first_actions({"a": "integer"})
    schema = actions[1]["metaData"]["schemaString"]
    actions[1]["metaData"]["schemaString"] = schema.replace("{}", '{"delta.generationExpression":"1"}')
    commit(tmp_path, *actions)
    lakescan.table(tmp_path).append(pa.table({"a": [7]}))
    assert read(tmp_path, "a") == [(7,)]


def test_an_expression_of_another_type_than_its_column_is_refused(tmp_path: Path) -> None:
    table = table_with_rules(tmp_path, {"a": "integer", "b": "long"}, {"b": {"delta.generationExpression": "a + 1"}})
    with pytest.raises(lakescan.UnsupportedFeature, match=r"generated column 'b' .*The column is long.* int"):
        table.append(pa.table({"a": [1]}))


def test_a_column_generated_from_another_is_refused(tmp_path: Path) -> None:
    rules = {"b": {"delta.generationExpression": "a + 1"}, "c": {"delta.generationExpression": "b + 1"}}
    table = table_with_rules(tmp_path, dict.fromkeys("abc", "integer"), rules)
    with pytest.raises(lakescan.UnsupportedFeature, match=r"generated column 'c' .*source 'b' is generated"):
        table.append(pa.table({"a": pa.array([1], pa.int32())}))


def test_rows_without_a_column_get_its_default_and_nulls_stay(tmp_path: Path) -> None:
    defaults = {
        "n": "42",
        "s": "'it'",
        "d": "date'2024-02-29'",
        "m": "1.5",
        "whole": "5",
        "today": "current_date()",
        "at": "current_timestamp()",
        "doubled": "CAST(NULL AS INT)",
    }
    types = ["long", "string", "date", "decimal(10,2)", "decimal(3,1)", "date", "timestamp", "integer"]
    columns = {"id": "integer", **dict(zip(defaults, types, strict=True))}
    rules = {name: {"CURRENT_DEFAULT": text} for name, text in defaults.items()}
    rules["n"]["nullable"] = False  # type: ignore[assignment]
    table = table_with_rules(tmp_path, columns, rules)
    before = datetime.now(UTC)
    table.append(pa.table({"id": [1, 2]}))
    first = lakescan.table(tmp_path).scan().to_arrow().to_pylist()[0]
    assert (first["n"], first["s"], first["d"]) == (42, "it", date(2024, 2, 29))
    assert (str(first["m"]), str(first["whole"])) == ("1.50", "5.0")
    assert before <= first["at"] <= datetime.now(UTC)
    assert first["today"] in (before.date(), before.date() + timedelta(days=1))
    assert first["doubled"] is None
    table.append(pa.table({"id": [3], "n": [7], "s": pa.array([None], pa.string())}))
    assert lakescan.table(tmp_path).scan().where("id = 3").select("n", "s").to_arrow().to_pylist() == [
        {"n": 7, "s": None}
    ]


LONG = "column '{}' is {}, and 1 texts of a batch are longer, for example '{}'"


def test_texts_fit_their_char_and_varchar_types_at_any_depth(tmp_path: Path) -> None:
    nested = {"type": "array", "elementType": {"type": "struct", "fields": [
        {"name": "a b", "type": "string", "nullable": True, "metadata": {}},
        {"name": "n", "type": "decimal(5,2)", "nullable": True, "metadata": {}},
    ]}, "containsNull": True}  # fmt: skip
    lookup = {"type": "map", "keyType": "string", "valueType": "string", "valueContainsNull": True}
    declared = {
        "c": "char(3)",
        "v": "varchar(3)",
        "l": "array<struct<`a b`:char(2),n:decimal(5,2)>>",
        "m": "map<varchar(1),char(2)>",
    }
    rules = {name: {"__CHAR_VARCHAR_TYPE_STRING": text} for name, text in declared.items()}
    table = table_with_rules(tmp_path, {"c": "string", "v": "string", "l": nested, "m": lookup}, rules)

    def rows(c: str | None = "a", v: str | None = "a", a: str | None = "a", key: str = "k", value: str = "v") -> Any:
        m = pa.array([[(key, value)]], pa.map_(pa.string(), pa.string()))
        return pa.table({"c": pa.array([c], pa.string()), "v": pa.array([v], pa.string()), "l": [[{"a b": a}]], "m": m})

    table.append(rows())
    table.append(rows("ab   ", "ab   ", "🦊", "k   ", "v"))
    table.append(rows(None, None, None))
    assert read(tmp_path, "c", "v", "l", "m") == sorted(
        [
            ("a  ", "a", [{"a b": "a ", "n": None}], [("k", "v ")]),
            ("ab ", "ab ", [{"a b": "🦊 ", "n": None}], [("k", "v ")]),
            (None, None, [{"a b": None, "n": None}], [("k", "v ")]),
        ],
        key=repr,
    )
    for longer, message in (
        (rows(c="abcd"), ("c", r"CHAR\(3\)", "abcd")),
        (rows(v="žluť"), ("v", r"VARCHAR\(3\)", "žluť")),
        (rows(a="abc"), ("l.element.a b", r"CHAR\(2\)", "abc")),
        (rows(key="kk"), ("m.key", r"VARCHAR\(1\)", "kk")),
        (rows(value="vvv"), ("m.value", r"CHAR\(2\)", "vvv")),
    ):
        with pytest.raises(lakescan.SchemaMismatch, match=LONG.format(*message)):
            table.append(longer)


@pytest.mark.parametrize("check", ["code = 'a'", "code in ('a', 'b')", "length(code) = 1", "code || '.' = 'a.'"])
def test_rules_see_char_values_without_their_padding(tmp_path: Path, check: str) -> None:
    rules = {"code": {"__CHAR_VARCHAR_TYPE_STRING": "char(3)"}, "n": {"delta.generationExpression": "length(code)"}}
    columns = {"code": "string", "n": "integer"}
    table = table_with_rules(tmp_path, columns, rules, properties={"delta.constraints.c": check})
    table.append(pa.table({"code": ["a"]}))
    assert read(tmp_path, "code", "n") == [("a  ", 1)]
    with pytest.raises(lakescan.SchemaMismatch, match="constraint 'c'"):
        table.append(pa.table({"code": ["cc"]}))


@pytest.mark.parametrize(
    "own", [{}, {"highWaterMark": 10}, {"start": -5, "step": -3}, {"highWaterMark": 0, "start": 7}]
)
def test_ids_follow_the_high_water_mark_and_move_it(tmp_path: Path, own: dict[str, Any]) -> None:
    start, step = own.get("start", 1), own.get("step", 1)
    table = table_with_rules(tmp_path, {"id": "long", "v": "string"}, {"id": {**identity(**own), **NOT_NULL}})
    table.append(pa.table({"v": ["a", "b"]}))
    first = max(own.get("highWaterMark", 0) + 1, start) if step > 0 else start
    assert sorted(read(tmp_path, "id", "v")) == sorted([(first, "a"), (first + step, "b")])
    assert mark_of(tmp_path, "id") == first + step
    table.append(pa.table({"v": ["c"]}))
    assert mark_of(tmp_path, "id") == first + 2 * step
    lakescan.table(tmp_path).compact()
    lakescan.table(tmp_path).overwrite(pa.table({"v": ["d"]}), where="v = 'd'")
    assert sorted(each[0] for each in read(tmp_path, "id")) == sorted(first + n * step for n in range(4))
    assert mark_of(tmp_path, "id") == first + 3 * step


def test_rows_may_contain_ids_only_if_the_column_allows_it(tmp_path: Path) -> None:
    columns = {"always": "long", "default": "long"}
    rules = {"always": identity(), "default": identity(allowExplicitInsert=True)}
    table = table_with_rules(tmp_path, {**columns, "v": "string"}, rules)
    with pytest.raises(lakescan.SchemaMismatch, match="'always' is GENERATED ALWAYS AS IDENTITY"):
        table.append(pa.table({"always": [1], "v": ["a"]}))
    table.append(pa.table({"default": [70], "v": ["a"]}))
    assert (mark_of(tmp_path, "always"), mark_of(tmp_path, "default")) == (1, None)


def test_concurrent_writers_never_assign_an_id_twice(tmp_path: Path) -> None:
    table_with_rules(tmp_path, {"id": "long", "v": "string"}, {"id": identity()})
    options = WriteOptions.parse({}, "delta")
    both = [DeltaTarget.open(str(tmp_path), options, Storage()) for _ in range(2)]
    append_rows(both[0], as_rows(pa.table({"v": ["a"]})), options)
    with pytest.raises(lakescan.CommitConflict, match="columns or properties"):
        append_rows(both[1], as_rows(pa.table({"v": ["b"]})), options)
    append_rows(both[1].reopen(), as_rows(pa.table({"v": ["b"]})), options)
    assert read(tmp_path, "id", "v") == [(1, "a"), (2, "b")]
    assert newest_version(tmp_path) == 2


def test_an_identity_column_without_ids_left_is_full(tmp_path: Path) -> None:
    table = table_with_rules(tmp_path, {"id": "long", "v": "string"}, {"id": identity(highWaterMark=2**63 - 2)})
    table.append(pa.table({"v": ["a"]}))
    with pytest.raises(lakescan.SchemaMismatch, match="no more ids"):
        table.append(pa.table({"v": ["b"]}))
    assert read(tmp_path, "id") == [(2**63 - 1,)]


@given(
    st.lists(st.integers(0, 5000), unique=True, min_size=1, max_size=8), st.integers(1, 40), st.sampled_from([3, -7])
)
def test_tasks_assign_distinct_ids_without_coordination(tasks: list[int], rows: int, step: int) -> None:
    column, given_ids, marks = Identity(step, 100, False), [], []
    for task in tasks:
        values = IdentityValues(column, task)
        given_ids += values.take(rows).to_pylist() + values.take(1).to_pylist()
        marks.append(values.mark)
    assert len(set(given_ids)) == len(given_ids)
    assert all((each - 100) % step == 0 and (each - 100) // step > 0 for each in given_ids)
    assert (max if step > 0 else min)(marks) == (max if step > 0 else min)(given_ids)


@pytest.mark.parametrize("broken", [{"step": 0}, {"start": "1"}, {"allowExplicitInsert": None}])
def test_a_broken_identity_is_refused(tmp_path: Path, broken: dict[str, Any]) -> None:
    table = table_with_rules(tmp_path, {"id": "long", "v": "string"}, {"id": identity(**broken)})
    with pytest.raises(lakescan.CorruptMetadata, match=r"'id' has an invalid delta\.identity"):
        table.append(pa.table({"v": ["a"]}))


def test_rules_of_nested_fields_are_refused(tmp_path: Path) -> None:
    member = {"name": "n", "type": "long", "nullable": True, "metadata": {"delta.generationExpression": "1"}}
    table = table_with_rules(tmp_path, {"s": {"type": "struct", "fields": [member]}})
    with pytest.raises(
        lakescan.UnsupportedFeature, match=r"delta\.generationExpression of a field within a column.*s\.n"
    ):
        table.append(pa.table({"s": [{"n": 1}]}))


def test_clustering_is_kept_and_its_columns_have_statistics(tmp_path: Path) -> None:
    actions = first_actions(
        {"a": "long", "k": "long"},
        properties={"delta.dataSkippingNumIndexedCols": "0"},
        features=("clustering", "domainMetadata"),
    )
    domain = {"domain": "delta.clustering", "configuration": '{"clusteringColumns":[["k"]]}', "removed": False}
    commit(tmp_path, *actions, {"domainMetadata": domain})
    table = lakescan.table(tmp_path)
    table.append(pa.table({"a": [1], "k": [2]}))
    table.append(pa.table({"a": [3], "k": [4], "b": [5]}), merge_schema=True)
    lakescan.table(tmp_path).compact()
    _, _, (file,) = state(tmp_path)
    assert (file["stats"]["minValues"], file["stats"]["maxValues"]) == ({"k": 2}, {"k": 4})
    assert lakescan.table(tmp_path).inspect("detail")["clusteringColumns"].to_pylist() == [["k"]]
    with pytest.raises(lakescan.UnsupportedFeature, match="which has clustering columns"):
        lakescan.table(tmp_path).overwrite(pa.table({"a": [1]}), overwrite_schema=True)
    replace_table(str(tmp_path), TableDefinition((t.Field(1, "n", t.LONG),)), Storage())
    replaced = lakescan.table(tmp_path)
    assert (replaced.count(), replaced.inspect("detail")["clusteringColumns"].to_pylist()) == (0, [[]])


def test_a_default_that_names_a_column_is_refused_with_its_name(tmp_path: Path) -> None:
    table = table_with_rules(tmp_path, {"a": "integer", "b": "integer"}, {"b": {"CURRENT_DEFAULT": "missing"}})
    with pytest.raises(lakescan.UnsupportedFeature, match=r"default of column 'b'.*Drop or change the rule: .*missing"):
        table.append(pa.table({"a": pa.array([1], pa.int32())}))


def test_type_changes_are_kept_when_ids_are_assigned(tmp_path: Path) -> None:
    changes = [{"fromType": "integer", "toType": "long"}]
    table = table_with_rules(
        tmp_path, {"id": "long", "v": "long"}, {"id": identity(), "v": {"delta.typeChanges": changes}}
    )
    table.append(pa.table({"v": [1]}))
    _, metadata, _ = state(tmp_path)
    assert json.loads(metadata.schema_string)["fields"][1]["metadata"] == {"delta.typeChanges": changes}
    assert mark_of(tmp_path, "id") == 1
