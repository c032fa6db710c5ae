"""LIKE matches as in SQL, whatever characters the texts and the pattern contain."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakescan.common import types as t
from lakescan.common.schema import Schema
from lakescan.errors import InvalidFilter
from lakescan.expressions.bind import bind
from lakescan.expressions.column import col
from lakescan.expressions.evaluate import column_getter, matching_rows
from lakescan.expressions.json_codec import from_json, to_json
from lakescan.expressions.predicate import Like, Predicate, starts_with
from lakescan.expressions.sql import parse_filter
from lakescan.planning.column_stats import ColumnStats
from lakescan.planning.prune import might_match, must_match

SCHEMA = Schema((t.Field(1, "s", t.STRING),))
ALPHABET = "ab\\%_.*(^$[ \n\u00e9\U0001f600"
TEXTS = st.text(ALPHABET, max_size=5)
PATTERNS = st.lists(st.sampled_from([*"ab%_.*(^$[ \n\u00e9\U0001f600", r"\%", r"\_", r"\\", r"\a"]), max_size=6).map(
    "".join
)


def matching(predicate: Predicate, texts: list[str | None]) -> list[str]:
    rows = pa.RecordBatch.from_arrays([pa.array(texts, pa.string())], names=["s"])
    kept = matching_rows(bind(predicate, SCHEMA), column_getter(rows, SCHEMA), len(texts))
    return rows.column(0).filter(kept).to_pylist()


def of_duckdb(pattern: str, texts: list[str | None], word: str) -> list[str]:
    rows = pa.table({"n": range(len(texts)), "s": pa.array(texts, pa.string())})
    with duckdb.connect() as connection:
        connection.register("rows", rows)
        query = f"select s from rows where s {word} $1 escape '\\' order by n"
        return [row[0] for row in connection.execute(query, [pattern]).fetchall()]


@pytest.mark.slow
@settings(max_examples=300)
@given(texts=st.lists(st.none() | TEXTS, max_size=6), pattern=PATTERNS, negate=st.booleans())
def test_like_matches_the_rows_of_duckdb(texts: list[str | None], pattern: str, negate: bool) -> None:
    expected = of_duckdb(pattern, texts, "not like" if negate else "like")
    assert matching(Like("s", pattern=pattern, negate=negate), texts) == expected
    assert matching(from_json(to_json(Like("s", pattern=pattern, negate=negate))), texts) == expected


@pytest.mark.slow
@given(
    texts=st.lists(st.none() | st.text("aAbB%\u00e9\u00c9", max_size=4), max_size=5),
    pattern=st.text("aAB%_\u00e9", max_size=4),
)
def test_ilike_ignores_case(texts: list[str | None], pattern: str) -> None:
    expected = of_duckdb(pattern, texts, "ilike")
    assert matching(col("s").ilike(pattern), texts) == expected
    assert matching(parse_filter(f"s ilike '{pattern}'"), texts) == expected
    assert matching(parse_filter(f"s not ilike '{pattern}'"), texts) == of_duckdb(pattern, texts, "not ilike")


@settings(max_examples=300)
@given(texts=st.lists(TEXTS, min_size=1, max_size=3), pattern=PATTERNS, negate=st.booleans(), ignore_case=st.booleans())
def test_bounds_never_contradict_the_rows(texts: list[str], pattern: str, negate: bool, ignore_case: bool) -> None:
    predicate = Like("s", pattern=pattern, negate=negate, ignore_case=ignore_case)
    ends = (pa.array([min(texts)]), pa.array([max(texts)]))
    stats = {1: ColumnStats(*ends, pa.array([0]), None, pa.array([len(texts)]))}
    found, bound = matching(predicate, list(texts)), bind(predicate, SCHEMA)
    assert might_match(bound, stats, 1).to_pylist() == [True] or not found
    assert must_match(bound, stats, 1).to_pylist() == [False] or len(found) == len(texts)


@given(prefix=TEXTS, text=TEXTS)
def test_a_prefix_is_taken_literally(prefix: str, text: str) -> None:
    for predicate in (starts_with("s", prefix), from_json(to_json(starts_with("s", prefix)))):
        assert matching(predicate, [text, prefix + text]) == [x for x in (text, prefix + text) if x.startswith(prefix)]


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (r"s like 'C:\\\\Users%'", ["C:\\Users\\me"]),
        ("s like '50!%%' escape '!'", ["50%off"]),
        ("s not like '50!%%' escape '!'", ["C:\\Users\\me", "50 off"]),
        ("not s like '%off' escape '\\\\'", ["C:\\Users\\me"]),
        ("s ilike '50!%O%' escape '!'", ["50%off"]),
        ("startswith(s, '50%')", ["50%off"]),
    ],
)
def test_patterns_are_written_as_in_sparks_sql(condition: str, expected: list[str]) -> None:
    assert matching(parse_filter(condition), ["C:\\Users\\me", "50%off", None, "50 off"]) == expected


def test_a_pattern_that_ends_with_the_escape_is_refused() -> None:
    with pytest.raises(InvalidFilter, match="ends with the escape character"):
        col("s").like("50\\")
    with pytest.raises(InvalidFilter, match="'!'"):
        parse_filter("s like '50!' escape '!'")
    with pytest.raises(InvalidFilter, match="not a single character"):
        parse_filter("s like '50' escape '!!'")


def test_a_pattern_is_bound_in_the_form_that_every_engine_takes() -> None:
    """Spark refuses a backslash before a letter."""
    bound = bind(Like("s", pattern=r"\a\%%%"), SCHEMA)
    assert isinstance(bound, Like)
    assert bound.pattern == r"a\%%"
