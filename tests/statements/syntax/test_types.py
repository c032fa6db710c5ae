"""Types and columns in SQL, in Spark's, Flink's and Iceberg's syntax."""

from __future__ import annotations

from datetime import date

import hypothesis.strategies as st
import pytest
from hypothesis import given

import lakescan
from lakescan.common import types as t
from lakescan.statements.syntax.columns import parse_columns
from lakescan.statements.syntax.types import parse_type, type_text


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("integer", t.INT),
        ("LONG", t.LONG),
        ("double precision", t.DOUBLE),
        ("VARCHAR(20)", t.STRING),
        ("BYTES", t.BINARY),
        ("DECIMAL", t.Decimal(10, 0)),
        ("dec(5)", t.Decimal(5, 0)),
        ("NUMERIC(38, 18)", t.Decimal(38, 18)),
        ("TIMESTAMP", t.Timestamp()),
        ("TIMESTAMP_LTZ", t.Timestamp()),
        ("TIMESTAMP_NTZ", t.Timestamp(zoned=False)),
        ("TIMESTAMP(3)", t.Timestamp(zoned=False)),
        ("TIMESTAMP(6) WITH LOCAL TIME ZONE", t.Timestamp()),
        ("TIMESTAMP WITHOUT TIME ZONE", t.Timestamp(zoned=False)),
        ("TIMESTAMP(9) WITH TIME ZONE", t.Timestamp("ns")),
        ("TIME(3)", t.TIME),
        ("FIXED(16)", t.Fixed(16)),
        ("TIMESTAMP_LTZ(3)", t.Timestamp()),
        ("TIMESTAMP_LTZ(9)", t.Timestamp("ns")),
        ("TIMESTAMP_NTZ(6)", t.Timestamp(zoned=False)),
        ("BINARY", t.BINARY),
        ("BINARY(16)", t.Fixed(16)),
        ("VARBINARY(16)", t.BINARY),
    ],
)
def test_a_type_is_parsed_by_its_name(text: str, kind: t.Type) -> None:
    assert parse_type(text) == kind


def test_nested_types_keep_names_comments_and_required_members() -> None:
    kind = parse_type("STRUCT<a: INT NOT NULL COMMENT 'it''s', `b c`: ARRAY<MAP<STRING, ROW<x TIME(3)>>>>")
    assert isinstance(kind, t.Struct)
    first, second = kind.fields
    assert (first.name, first.required, first.doc) == ("a", True, "it's")
    assert (second.name, str(second.type)) == ("b c", "list<map<string, struct<x: time>>>")


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("MULTISET<STRING>", "MAP<STRING, INT NOT NULL>"),
        ("STRING MULTISET", "MAP<STRING, INT NOT NULL>"),
        ("MULTISET<STRING NOT NULL>", "MAP<STRING, INT NOT NULL>"),
        ("MULTISET<ROW<x BINARY(4)>>", "MAP<STRUCT<x: FIXED(4)>, INT NOT NULL>"),
        ("INT ARRAY", "ARRAY<INT>"),
        ("INT NOT NULL ARRAY", "ARRAY<INT NOT NULL>"),
        ("ROW(x INT, y STRING)", "STRUCT<x: INT, y: STRING>"),
        ("ROW<x INT 'the x', y STRING NOT NULL>", "STRUCT<x: INT COMMENT 'the x', y: STRING NOT NULL>"),
        ("MAP<STRING NOT NULL, INT NOT NULL>", "MAP<STRING, INT NOT NULL>"),
    ],
)
def test_flink_types_are_mapped_as_by_icebergs_connector(text: str, same: str) -> None:
    assert parse_type(text) == parse_type(same)


@pytest.mark.parametrize("text", ["RAW('a', 'b')", "NULL", "DESCRIPTOR", "STRUCTURED<'c', x INT>", "INTERVAL DAY"])
def test_unsupported_flink_types_are_refused_by_name(text: str) -> None:
    with pytest.raises(lakescan.UnsupportedFeature, match=rf"a column of (an )?(type )?(?i:{text.split('(')[0][:4]})"):
        parse_type(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("strng", "'strng' is not a column type. Did you mean 'STRING'"),
        ("INT(5)", "INT takes no number"),
        ("BINARY(0)", "the number of bytes is at least 1"),
        ("TIMESTAMP(12)", "TIMESTAMP keeps at most 9 digits of a second, not 12"),
        ("DECIMAL(39, 2)", "a decimal has 1 to 38 digits"),
        ("DECIMAL(5, 6)", "a scale within these"),
        ("ARRAY<INT", "expected '>', and the text ends"),
        ("INT INT", "expected the end of the statement, not 'INT'"),
    ],
)
def test_an_invalid_type_is_refused_with_the_reason(text: str, message: str) -> None:
    with pytest.raises(lakescan.InvalidStatement, match=message):
        parse_type(text)


_LEAVES = [t.BOOLEAN, t.INT, t.LONG, t.STRING, t.DATE, t.Timestamp(), t.Timestamp("ns", zoned=False), t.Fixed(3)]
_LEAVES += [t.Decimal(12, 3), t.UUID, t.TIME, t.BINARY, t.BYTE, t.Timestamp(zoned=False)]
_NAMES = st.text(min_size=1, max_size=6).filter(lambda name: name.isprintable() and name.strip() == name)


def _nested(inner: st.SearchStrategy[t.Type]) -> st.SearchStrategy[t.Type]:
    def field(name: str, kind: t.Type, required: bool, doc: str | None = None) -> t.Field:
        return t.Field(0, name, kind, required, doc)

    docs = st.none() | st.text(max_size=6).filter(lambda text: text.isprintable())
    members = st.lists(st.builds(field, _NAMES, inner, st.booleans(), docs), min_size=1, max_size=3)
    return st.one_of(
        members.map(lambda fields: t.Struct(tuple(fields))),
        st.builds(lambda kind, required: t.ListOf(field("element", kind, required)), inner, st.booleans()),
        st.builds(
            lambda key, value, required: t.MapOf(field("key", key, True), field("value", value, required)),
            inner,
            inner,
            st.booleans(),
        ),
    )


@given(st.recursive(st.sampled_from(_LEAVES), _nested, max_leaves=5))
def test_the_text_of_a_type_parses_to_the_type(kind: t.Type) -> None:
    assert parse_type(type_text(kind)) == kind


def test_columns_are_parsed_with_all_clauses() -> None:
    found = parse_columns(
        "id BIGINT COMMENT 'unique', day DATE NOT NULL DEFAULT DATE '2026-01-31', n INT DEFAULT -1 COMMENT 'n', "
        "note STRING NULL, PRIMARY KEY (id, day) NOT ENFORCED"
    )
    assert found.key == ("id", "day")
    assert [(each.name, each.required) for each in found.columns] == [
        ("id", True),
        ("day", True),
        ("n", False),
        ("note", False),
    ]
    assert [each.write_default for each in found.columns] == [None, date(2026, 1, 31), -1, None]
    assert [each.id for each in found.columns] == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("id INT, PRIMARY KEY (id), PRIMARY KEY (id)", lakescan.InvalidStatement, "two primary keys"),
        ("id INT PRIMARY KEY ENFORCED", lakescan.UnsupportedFeature, "an enforced primary key"),
        ("id INT UNIQUE", lakescan.UnsupportedFeature, "UNIQUE of the column 'id'"),
        ("id INT,", lakescan.InvalidStatement, "expected the name of a column, and the text ends"),
        ("id INT DEFAULT current_date()", lakescan.InvalidOption, "is not a literal"),
    ],
)
def test_invalid_columns_are_refused_with_the_reason(text: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        parse_columns(text)
