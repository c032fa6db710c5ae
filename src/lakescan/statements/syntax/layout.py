"""Parse the parts of statements about a table's layout: transforms, sort orders, properties and time travel."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from lakescan.definition.table_definition import SortTerm, Term
from lakescan.errors import InvalidOption
from lakescan.statements.syntax.token_reader import TokenReader

_UNITS = {"MINUTE": 60_000, "HOUR": 3_600_000, "DAY": 86_400_000}


@dataclass(frozen=True)
class State:
    """An earlier state of a table. Only one field is set.

    - `version`: a version or snapshot id, or the name of a tag or branch.
    - `timestamp`: a timestamp, as text.
    """

    version: int | str | None = None
    timestamp: str | None = None


def read_term(words: TokenReader) -> Term:
    """Read a column or a transform of a column: `country`, `days(ts)`, `bucket(16, id)`.

    Raises `InvalidStatement` for an unknown transform.
    """
    start = words.at
    words.names("a column, or a transform such as days(ts)")
    if words.sees_symbol("("):
        words.at = words.behind(words.at)
    try:
        return Term.parse(words.with_literals(words.between(start, words.at, "a transform")).text)
    except InvalidOption as error:
        raise words.error(str(error), start, words.at - 1) from error


def read_order(words: TokenReader) -> tuple[SortTerm, ...]:
    """Read the terms of a sort order, with or without parentheses.

    Nulls come first with ASC, and last with DESC, by default.
    """
    return words.listed_items(lambda: _read_sort_term(words))


def _read_sort_term(words: TokenReader) -> SortTerm:
    term = read_term(words)
    descending = words.takes("DESC")
    if not descending:
        words.takes("ASC")
    first = not descending
    if words.takes("NULLS"):
        first = words.takes("FIRST")
        if not first:
            words.needs("LAST")
    return SortTerm(term, descending, first)


def read_properties(words: TokenReader) -> dict[str, str]:
    """Read table or namespace properties in parentheses: `('a' = 'b', c.d = 5, e = true)`. Values become text.

    Raises `InvalidStatement` for a property that is set twice.
    """
    found: dict[str, str] = {}

    def read() -> None:
        at = words.at
        name = property_name(words)
        words.takes_symbol("==") or words.takes_symbol("=")
        value = property_value(words, name)
        if name in found:
            raise words.error(f"the property {name!r} is set twice", at)
        found[name] = value

    words.items(read)
    return found


def property_name(words: TokenReader) -> str:
    """Read the name of a property: a string literal, or words joined by dots and hyphens."""
    if not words.is_name(words.at):
        return words.text_literal("the name of a property")
    parts = [words.name("the name of a property")]
    while words.sees_symbol(".") or words.sees_symbol("-"):
        parts += [words.words[words.at].text]
        words.at += 1
        parts += [words.name("the name of a property")]
    return "".join(parts)


def property_value(words: TokenReader, name: str) -> str:
    """Read the value of the property `name` as text: a string, a number, a boolean or a parameter."""
    if words.sees_parameter:
        value = words.parameter(f"the value of {name!r}", str, bool, int, float, Decimal)
        return str(value).lower() if isinstance(value, bool) else str(value)
    if words.takes("TRUE"):
        return "true"
    if words.takes("FALSE"):
        return "false"
    what = f"the value of {name!r}"
    if words.is_at_end:
        raise words.unexpected_word(what)
    if words.words[words.at].token_type.name in ("NUMBER", "DASH"):
        sign = "-" if words.takes_symbol("-") else ""
        if words.is_at_end or words.words[words.at].token_type.name != "NUMBER":
            raise words.unexpected_word(what)
        words.at += 1
        return sign + str(words.words[words.at - 1].text)
    return words.text_literal(what)


def read_state(words: TokenReader) -> State | None:
    """Read `[FOR] VERSION | SYSTEM_VERSION | TIMESTAMP | SYSTEM_TIME AS OF ...`; otherwise None."""
    start = words.at
    words.takes("FOR")
    if words.takes("VERSION", "AS", "OF") or words.takes("SYSTEM_VERSION", "AS", "OF"):
        return State(version=read_version(words))
    if words.takes("TIMESTAMP", "AS", "OF") or words.takes("SYSTEM_TIME", "AS", "OF"):
        if words.sees_parameter:
            moment = words.parameter("a timestamp", str, datetime)
            return State(timestamp=moment if isinstance(moment, str) else moment.isoformat())
        words.takes("TIMESTAMP")
        return State(timestamp=words.text_literal("a timestamp in quotes"))
    words.at = start
    return None


def read_version(words: TokenReader) -> int | str:
    """Read a version or snapshot id, the name of a tag or branch in quotes, or a parameter with one of these."""
    if words.sees_parameter:
        found: int | str = words.parameter("a version", int, str)
        return found
    if not words.is_at_end and words.words[words.at].token_type.name == "NUMBER":
        return words.integer("a version")
    return words.text_literal("a version")


def read_milliseconds(words: TokenReader) -> int:
    """Read a duration in days, hours or minutes, such as `7 DAYS`, and return milliseconds."""
    number, at = words.integer("a number of days, hours or minutes"), words.at
    unit = "" if words.is_at_end else words.words[at].text.upper()
    if unit.removesuffix("S") not in _UNITS:
        raise words.unexpected_word("DAYS", "HOURS", "MINUTES")
    words.at += 1
    return number * _UNITS[unit.removesuffix("S")]
