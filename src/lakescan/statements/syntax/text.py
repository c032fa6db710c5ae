"""Work on the text of a statement: tokens, literals, table names, edits, and underlined places in messages."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from lakescan.errors import InvalidStatement, UnsupportedFeature, missing_dependency

_COMMANDS = ("COMMAND", "SHOW", "EXECUTE", "FETCH", "RENAME")  # sqlglot does not tokenize the text after these
OPTIONS_AS_COMMENT = re.compile(r"/\*\+(WITH \(.*?\))\*/", re.DOTALL)
_SHOWN = 100  # characters of a line before and after the place that a message underlines


def tokens(text: str) -> list[Any]:
    """Split a text into sqlglot tokens.

    sqlglot does not tokenize the text after some first words (CALL, SHOW, VACUUM). This function does.

    Raises `InvalidStatement` for text that cannot be tokenized, `MissingDependency` without sqlglot.
    """
    try:
        import sqlglot
    except ImportError as error:
        raise missing_dependency("sqlglot", "sql", "SQL statements") from error
    try:
        found = list(sqlglot.tokenize(text, read="spark"))
        if found and found[0].token_type.name in _COMMANDS:
            first = found[0]
            length = len(first.text)
            masked = text[: first.start] + "x" * length + text[first.start + length :]
            found = list(sqlglot.tokenize(masked, read="spark"))
            found[0].text = first.text
        return found
    except sqlglot.errors.SqlglotError as error:
        raise InvalidStatement(f"not valid SQL: {error}\n{text}") from error


def tokens_of_parts(text: str, start: int, end: int) -> Iterator[Any]:
    """Yield a token for each word of `text[start:end]`, with positions in the whole text."""
    from sqlglot.tokens import Token, TokenType

    for word in re.finditer(r"\w+", text[start:end]):
        first = start + word.start()
        yield Token(TokenType.VAR, word[0], start=first, end=first + len(word[0]) - 1)


def literal_text(text: str) -> str:
    """Return the value of a string literal, which is passed with its quotes.

    Escapes are resolved unless it is raw (`r'...'`).
    """
    import sqlglot

    return str(sqlglot.parse_one(text, dialect="spark").name)


def underline(shown: str, line: int, start: int, end: int) -> str:
    """Return the end of a message: the place, then a line of the text with a part underlined.

    `shown` is the line and `line` its number from 1. The part is from column `start` to `end`, counted from 0.
    """
    shown, start, end = _as_written(shown, start, end)
    first = max(0, start - _SHOWN)
    part = shown[first : end + _SHOWN]
    return f" (line {line}, column {start + 1})\n{part}\n{' ' * (start - first)}{'^' * max(1, end - start)}"


def _as_written(shown: str, start: int, end: int) -> tuple[str, int, int]:
    """Return a line, and the start and end of a part of it, as before `spark_syntax.hide_with_clauses`."""
    while (found := OPTIONS_AS_COMMENT.search(shown)) is not None:
        shown = shown[: found.start()] + found[1] + shown[found.end() :]
        start, end = (at - 3 * (at > found.start()) - 2 * (at >= found.end()) for at in (start, end))
    return shown, start, end


def underline_place(text: str, start: int, end: int) -> str:
    """Return the end of a message that underlines `text[start:end]`. See `underline`."""
    line = text.count("\n", 0, start)
    before = text.rfind("\n", 0, start) + 1
    return underline(text.splitlines()[line], line + 1, start - before, end - before)


def apply_edits(text: str, edits: Iterable[tuple[int, int, str]]) -> str:
    """Replace ranges of a text. Each edit is the start, the end and the replacement. Edits must not overlap."""
    parts, last = [], 0
    for start, end, new in sorted(edits):
        parts += [text[last:start], new]
        last = end
    return "".join([*parts, text[last:]])


def text_of(node: Any, values: Mapping[str, Any]) -> str | None:
    """Return the value of a constant string expression: a literal, parameter or concatenation; otherwise None.

    `node` is a sqlglot node, and `values` are the statement's parameters.
    """
    from sqlglot import exp

    if isinstance(node, exp.Literal):
        return node.name if node.is_string else None
    if isinstance(node, exp.Placeholder):
        value = values.get(node.name)
        return value if isinstance(value, str) else None
    if isinstance(node, exp.Paren):
        return text_of(node.this, values)
    if isinstance(node, exp.DPipe | exp.Concat):
        inner = [node.left, node.right] if isinstance(node, exp.DPipe) else node.expressions
        parts = [text_of(each, values) for each in inner]
        return None if None in parts else "".join(part for part in parts if part is not None)
    return None


@dataclass(frozen=True)
class Sql:
    """A part of a statement's text. `start` is its position in the whole text, for messages."""

    text: str
    start: int = 0

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class TableName:
    """The name of a table in a statement: its parts without quotes, and its alias.

    The parts are as in a FROM clause: `("cat", "db", "t")`, `("delta", "/path")`, `("t", "branch_x")`. `start` and
    `end` are the positions of the name in the text; 0 for a name that is not from a text.
    """

    parts: tuple[str, ...]
    alias: str | None = None
    start: int = 0
    end: int = 0

    @property
    def qualifier(self) -> str:
        """The name that expressions use for the table: its alias, or else the last part of its name."""
        return self.alias or self.parts[-1]


def literal(value: Any) -> str:
    """Return a value as a Spark SQL literal; raises `UnsupportedFeature` for a struct, list, map or other type."""
    match value:
        case None:
            return "NULL"
        case bool():
            return "TRUE" if value else "FALSE"
        case int():
            return str(value)
        case float():
            return f"CAST('{value!r}' AS DOUBLE)"
        case Decimal():
            return f"CAST('{value}' AS DECIMAL({max(_digits(value), 1)}, {_scale(value)}))"
        case str():
            return text_literal(value)
        case bytes():
            return f"X'{value.hex()}'"
        case datetime():
            return f"{'TIMESTAMP_NTZ' if value.tzinfo is None else 'TIMESTAMP'}'{value}'"
        case date():
            return f"DATE'{value}'"
    raise UnsupportedFeature(f"a value of type {type(value).__name__} in the text of a statement")


def _scale(value: Decimal) -> int:
    return max(-int(value.as_tuple().exponent), 0)


def _digits(value: Decimal) -> int:
    found = value.as_tuple()
    return max(len(found.digits) + max(int(found.exponent), 0), _scale(value))


def text_literal(text: str) -> str:
    """Return a string as a Spark SQL literal."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
