"""A text compared with a typed column means what Spark casts it to; `text_literals.json` has Spark's answers."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, tzinfo
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest

import lakescan
from lakescan.common import types as t
from lakescan.common.schema import Schema
from lakescan.errors import InvalidFilter
from lakescan.expressions.bind import bind
from lakescan.expressions.column import col
from lakescan.expressions.evaluate import matching_rows
from lakescan.expressions.json_codec import from_json, to_json
from lakescan.expressions.predicate import Predicate
from lakescan.expressions.sql import parse_filter
from lakescan.expressions.text_casts import is_special, value_of_text

ANSWERS = json.loads(Path(__file__).with_name("text_literals.json").read_text())
KINDS: dict[str, t.Type] = {
    "BOOLEAN": t.BOOLEAN,
    "TINYINT": t.BYTE,
    "SMALLINT": t.SHORT,
    "INT": t.INT,
    "BIGINT": t.LONG,
    "FLOAT": t.FLOAT,
    "DOUBLE": t.DOUBLE,
    "DECIMAL(5,2)": t.Decimal(5, 2),
    "DECIMAL(38,10)": t.Decimal(38, 10),
    "DATE": t.DATE,
    "TIMESTAMP": t.Timestamp(),
    "TIMESTAMP_NTZ": t.Timestamp(zoned=False),
    "TIME": t.TIME,
    "BINARY": t.BINARY,
    "STRING": t.STRING,
    "UUID": t.UUID,
}
CASES = [(name, zone) for name in ANSWERS for zone in ANSWERS[name]["zones"]]
SIGNS = {"<": "<", "<=": "<=", ">": ">", ">=": ">=", "=": "=", "!=": "<>"}


def zone_of(name: str) -> tzinfo:
    return UTC if name == "UTC" else ZoneInfo(name)


def far(text: str, unit: str) -> int:
    """Return a date or time of any year, counted since 1970."""
    return int(np.datetime64(text.lstrip("+"), unit).astype(np.int64))


@cache
def column(name: str) -> pa.Array:
    """Return the values that Spark was asked about."""
    kind, values = KINDS[name], []
    for sql in ANSWERS[name]["values"]:
        text = (re.findall(r"'(.*)'", sql) or [sql])[0]
        match kind:
            case t.BOOLEAN:
                values.append(text == "true")
            case t.DATE:
                values.append(far(text, "D"))
            case t.Timestamp():
                values.append(far(text.removesuffix(" UTC"), "us"))
            case t.TIME:
                values.append(far(f"1970-01-01 {text}", "us"))
            case t.BINARY:
                values.append(bytes.fromhex(text))
            case t.UUID:
                values.append(bytes.fromhex(text.replace("-", "")))
            case t.Decimal():
                values.append(Decimal(text))
            case _ if kind in t.FLOATING:
                values.append(np.float32(text) if kind == t.FLOAT else float(text))
            case _ if kind in t.INTEGRAL:
                values.append(int(text))
            case _:
                values.append(text)
    if kind == t.DATE:
        return pa.array(values, pa.int32()).cast(pa.date32())
    if isinstance(kind, t.Timestamp) or kind == t.TIME:
        return pa.array(values, pa.int64()).cast(kind.arrow())
    if kind == t.UUID:
        return pa.ExtensionArray.from_storage(pa.uuid(), pa.array(values, pa.binary(16)))
    return pa.array(values, kind.arrow())


def kept(name: str, predicate: Predicate, zone: tzinfo = UTC) -> list[bool]:
    values, schema = column(name), Schema((t.Field(1, "c", KINDS[name]),))
    result: list[bool] = matching_rows(bind(predicate, schema, zone=zone), lambda _: values, len(values)).to_pylist()
    return result


def quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def expected(signs: str, op: str) -> list[bool]:
    return [(each != "=") if op == "!=" else each in op for each in signs]


@pytest.mark.parametrize(("name", "zone"), CASES)
def test_comparisons_with_a_text_keep_the_rows_that_spark_keeps(name: str, zone: str) -> None:
    wrong = []
    for text, signs in ANSWERS[name]["zones"][zone].items():
        for op, written in SIGNS.items():
            for predicate in (col("c")._compare(op, text), parse_filter(f"c {written} {quoted(text)}")):
                try:
                    found: Any = kept(name, predicate, zone_of(zone))
                except InvalidFilter:
                    found = None
                if found != (None if signs is None else expected(signs, op)):
                    wrong.append((text, op, found, signs))
    assert not wrong


@pytest.mark.parametrize(("name", "zone"), CASES)
def test_lists_ranges_and_null_safe_tests_follow_the_same_meaning(name: str, zone: str) -> None:
    answers = {text: signs for text, signs in ANSWERS[name]["zones"][zone].items() if signs is not None}
    wrong = []
    for text, signs in answers.items():
        literal = quoted(text)
        tests = {
            f"c in ({literal})": expected(signs, "="),
            f"c not in ({literal}, {literal})": expected(signs, "!="),
            f"c <=> {literal}": expected(signs, "="),
            f"not (c <=> {literal})": expected(signs, "!="),
            f"c between {literal} and {literal}": expected(signs, "="),
            f"{literal} > c": expected(signs, "<"),
        }
        for condition, answer in tests.items():
            predicate = parse_filter(condition)
            for each in (predicate, from_json(to_json(predicate))):
                if kept(name, each, zone_of(zone)) != answer:
                    wrong.append(condition)
    assert not wrong
    several = list(answers)
    anywhere = [any(answers[text][n] == "=" for text in several) for n in range(len(column(name)))]
    assert kept(name, col("c").is_in(several), zone_of(zone)) == anywhere


@pytest.mark.parametrize("name", [name for name in KINDS if None in ANSWERS[name]["zones"]["UTC"].values()])
def test_a_text_that_spark_does_not_cast_is_refused_with_the_column_and_the_text(name: str) -> None:
    with pytest.raises(InvalidFilter, match=r"column 'c' is .* cannot be compared with 'abc'"):
        kept(name, parse_filter("c > 'abc'"))


NOW = datetime(2024, 3, 10, 3, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "kind", "zone", "same"),
    [
        ("now", t.DATE, "UTC", "2024-03-10"),
        ("today", t.DATE, "America/New_York", "2024-03-09"),
        ("tomorrow", t.DATE, "UTC", "2024-03-11"),
        ("Yesterday UTC", t.DATE, "UTC", "2024-03-09"),
        ("now", t.Timestamp(), "America/New_York", "2024-03-10 03:30:00Z"),
        ("now", t.Timestamp(zoned=False), "America/New_York", "2024-03-09 22:30:00"),
        ("today", t.Timestamp(), "America/New_York", "2024-03-09 05:00:00Z"),
        ("today", t.Timestamp(zoned=False), "America/New_York", "2024-03-09"),
        ("12:00", t.Timestamp(), "UTC", "2024-03-10 12:00:00"),
        ("T12", t.Timestamp(), "America/New_York", "2024-03-09 12:00:00"),
    ],
)
def test_words_for_days_and_times_of_today_are_in_the_zone_of_the_filter(
    text: str, kind: t.Type, zone: str, same: str
) -> None:
    assert value_of_text(text, kind, zone_of(zone), NOW) == value_of_text(same, kind, zone_of(zone), NOW)


@pytest.mark.parametrize(
    ("text", "kind"), [("12:00", t.Timestamp(zoned=False)), ("T12", t.Timestamp(zoned=False)), (" T12", t.Timestamp())]
)
def test_a_time_without_a_date_is_read_only_as_a_timestamp_with_a_zone(text: str, kind: t.Type) -> None:
    with pytest.raises(ValueError, match="not a timestamp"):
        value_of_text(text, kind, UTC, NOW)


def test_texts_for_columns_of_nanoseconds_keep_nine_digits() -> None:
    kind = t.Timestamp("ns", zoned=False)
    assert int(value_of_text("1970-01-01 00:00:00.1234567899", kind)) == 123_456_789


def test_a_typed_literal_is_compared_as_its_own_type_and_a_text_as_the_columns() -> None:
    to_midnight, before = ([n < end for n in range(13)] for end in (9, 8))
    assert kept("DATE", parse_filter("c < timestamp '2020-02-29 12:00:00'")) == to_midnight
    assert kept("DATE", parse_filter("c < '2020-02-29 12:00:00'")) == before


def test_a_list_of_texts_and_times_is_compared_as_times() -> None:
    listed = parse_filter("c in ('2020-02-29 12:00:00', timestamp '2020-02-28 00:00:00')")
    assert kept("DATE", listed) == [n == 7 for n in range(13)]


def test_exact_numbers_and_doubles_are_compared_as_doubles() -> None:
    assert kept("DECIMAL(38,10)", parse_filter("c = 123456789012345678e0")) == [n in (5, 6, 7, 8) for n in range(11)]
    assert kept("DECIMAL(38,10)", parse_filter("c in (123456789012345678e0, 1.5)")) == [4 <= n < 9 for n in range(11)]
    assert kept("BIGINT", parse_filter("c = 9223372036854775807e0"))[-1]
    with pytest.raises(InvalidFilter, match="numbers and texts"):
        kept("INT", parse_filter("c in ('5', 2.5)"))


@pytest.mark.parametrize("name", ["BOOLEAN", "BIGINT", "DOUBLE", "DATE", "TIMESTAMP", "TIMESTAMP_NTZ"])
def test_a_cast_of_a_text_column_reads_texts_as_literals_are_read(name: str) -> None:
    kind, texts = KINDS[name], list(ANSWERS[name]["zones"]["UTC"])
    sql = f"SELECT try_cast(s AS {name}) AS v FROM t"
    found = lakescan.sql(sql, t=pa.table({"s": texts})).to_arrow()["v"]
    if kind == t.DATE or isinstance(kind, t.Timestamp):
        found = found.cast(pa.int32() if kind == t.DATE else pa.int64())
    wrong = []
    for text, value in zip(texts, found.to_pylist(), strict=True):
        is_read = ANSWERS[name]["zones"]["UTC"][text] is not None and not is_special(text)
        expected = value_of_text(text, kind) if is_read else None
        if repr(value) != repr(expected):
            wrong.append((text, value, expected))
    assert not wrong
