"""Store assignment: the values that a statement may store in a column (`statements.rows.store_assignment`)."""

from __future__ import annotations

import pytest

from lakescan.common import types as t
from lakescan.errors import InvalidStatement, SchemaMismatch
from lakescan.statements.rows.store_assignment import cast_to_column, column_of, strip_qualifiers
from lakescan.statements.syntax.dml import Update
from lakescan.statements.syntax.parse_dml import parse
from lakescan.statements.syntax.text import TableName

NUMBERS = [*t.INTEGRAL, *t.FLOATING, t.Decimal(10, 2)]
TIMES = [t.DATE, t.Timestamp(), t.Timestamp(zoned=False)]


def text(found: t.Type, column: t.Type, *, ansi: bool = True) -> str:
    return cast_to_column("v", found, t.Field(1, "c", column), ansi=ansi)


@pytest.mark.parametrize("kind", [*NUMBERS, *TIMES, t.STRING, t.BOOLEAN, t.BINARY])
def test_values_of_the_column_s_type_and_nulls_are_stored_as_they_are(kind: t.Type) -> None:
    assert text(kind, kind) == text(t.UNKNOWN, kind) == text(kind, kind, ansi=False) == "v"


def test_numbers_and_times_are_cast_among_each_other_and_to_text() -> None:
    for kinds in (NUMBERS, TIMES):
        for one in kinds:
            for other in kinds:
                assert text(one, other).startswith("v" if one == other else "CAST(v AS ")
            assert text(one, t.STRING) == "CAST(v AS STRING)"
            assert text(t.STRING, one).startswith("CAST(v AS ")
    assert text(t.LONG, t.Decimal(5, 1)) == "CAST(v AS DECIMAL(5, 1))"
    assert text(t.DATE, t.Timestamp(unit="ns", zoned=False)) == "CAST(v AS TIMESTAMP_NTZ)"
    assert text(t.BINARY, t.STRING) == text(t.BOOLEAN, t.STRING) == "CAST(v AS STRING)"


@pytest.mark.parametrize(
    ("found", "column"),
    [
        *((t.BOOLEAN, kind) for kind in (*NUMBERS, *TIMES)),
        *((kind, t.BOOLEAN) for kind in (*NUMBERS, *TIMES)),
        *((time, number) for time in TIMES for number in NUMBERS),
        *((number, time) for time in TIMES for number in NUMBERS),
        (t.STRING, t.BINARY),
        (t.INT, t.BINARY),
        (t.BINARY, t.INT),
        (t.Struct(), t.STRING),
        (t.STRING, t.ListOf(t.Field(1, "element", t.STRING))),
    ],
)
def test_other_types_are_refused(found: t.Type, column: t.Type) -> None:
    for ansi in (True, False):
        with pytest.raises(SchemaMismatch, match=r"column 'c' is .* do not convert"):
            text(found, column, ansi=ansi)


def test_without_ansi_mode_casts_that_may_fail_are_checked() -> None:
    assert text(t.LONG, t.INT, ansi=False).startswith("coalesce(try_cast(v AS INT), if(v IS NULL, NULL, raise_error(")
    for found, column in ((t.DOUBLE, t.LONG), (t.STRING, t.DATE), (t.INT, t.Decimal(9, 0)), (t.STRING, t.BOOLEAN)):
        assert "raise_error" in text(found, column, ansi=False)
    assert "raise_error" in text(t.Decimal(5, 2), t.Decimal(3, 1), ansi=False)  # 99.99 becomes 100.0
    for found, column in ((t.INT, t.LONG), (t.LONG, t.DOUBLE), (t.INT, t.Decimal(10, 0)), (t.DATE, t.Timestamp())):
        assert text(found, column, ansi=False).startswith("CAST(")
    assert text(t.Decimal(5, 2), t.Decimal(5, 1), ansi=False) == "CAST(v AS DECIMAL(5, 1))"


@pytest.mark.parametrize(
    ("name", "target", "columns", "column"),
    [
        ("price", "t", ["price"], "price"),
        ("t.price", "t", ["price"], "price"),
        ("T.Price", "db.t", ["price"], "Price"),
        ("db.t.price", "db.t", ["price"], "price"),
        ("t.address.city", "t", ["address"], "address.city"),
        ("t.city", "t", ["t"], "t.city"),
        ("t.t.city", "t", ["t"], "t.city"),
        ("t.city", "t", ["t", "city"], "city"),
        ("x.price", "t AS x", ["price"], "price"),
        ("t.price", "t AS x", ["price", "t"], "t.price"),
        ("t.price", "db.t.branch_b", ["price"], "price"),
    ],
)
def test_the_table_name_is_distinguished_from_a_struct_by_the_columns(
    name: str, target: str, columns: list[str], column: str
) -> None:
    parts, _, alias = target.partition(" AS ")
    found = column_of(tuple(name.split(".")), TableName(tuple(parts.split(".")), alias or None), columns)
    assert ".".join(found) == column


def test_a_column_is_assigned_once_under_any_of_its_names() -> None:
    statement = parse("UPDATE db.t SET t.price = 1, db.t.id = 2")
    assert statement is not None
    plain = strip_qualifiers(statement, ["id", "price"])
    assert isinstance(plain, Update)
    assert [each.column for each in plain.assignments] == [("price",), ("id",)]
    twice = parse("UPDATE t SET t.price = 1, price = 2")
    assert twice is not None
    with pytest.raises(InvalidStatement, match="price is set twice"):
        strip_qualifiers(twice, ["price"])
    merge = parse("MERGE INTO t USING s ON t.a = s.a WHEN MATCHED THEN UPDATE SET t.a = 1, A = 2")
    assert merge is not None
    with pytest.raises(InvalidStatement, match="set twice"):
        strip_qualifiers(merge, ["a"])
