"""Classify statements and parse queries into sqlglot trees. Errors underline the place in the text."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from lakescan.errors import InvalidOption, InvalidStatement, UnsupportedFeature, missing_dependency
from lakescan.expressions.scalar.parse import escape_doubled_quotes
from lakescan.statements.syntax.text import apply_edits, tokens, underline

_EXPLAIN = re.compile(r"\s*explain\b(\s+(?:extended|codegen|cost|formatted)\b)?", re.IGNORECASE)
_DESCRIBE = re.compile(
    r"desc(?:ribe)?\b(?:\s|--[^\n]*\n|/\*.*?\*/)*(?:query\b\s*(?=(?:select|with|from|values|table)\b|\()"
    r"|(?=(?:select|with|from|values)\b\s*\S|\())",
    re.IGNORECASE | re.DOTALL,
)
_COMMENTS = re.compile(r"(?:\s|--[^\n]*(?:\n|\Z)|/\*(?!\+).*?\*/)*", re.DOTALL)
_QUERY_WORDS = re.compile(r"[(\s]*(?:select|with|from|values|table|map|reduce)\b", re.IGNORECASE)
_CHANGE_WORDS = re.compile(r"(?:delete|update|merge|insert|truncate)\b", re.IGNORECASE)
_CHANGES_BEHIND = re.compile(r"\b(?:delete|update|merge|insert)\b", re.IGNORECASE)
_UNSIGNED_SHIFT = re.compile(r"[\w)\]]\s*>>>\s*[\w(]")
_BEHIND_WITH = ("delete", "update", "merge", "insert")

Arguments = Mapping[str, Any] | Sequence[Any] | None


class StatementKind(Enum):
    """The kind of a statement, by its keywords."""

    QUERY = "query"
    EXPLAIN = "explain"
    USE = "use"
    DESCRIBE = "describe"
    DELETE = "delete"
    UPDATE = "update"
    MERGE = "merge"
    INSERT = "insert"
    TRUNCATE = "truncate"
    OTHER = "other"

    @property
    def changes_rows(self) -> bool:
        """Whether statements of this kind change the rows of a table."""
        return self in _CHANGES


_CHANGES = (
    StatementKind.DELETE,
    StatementKind.UPDATE,
    StatementKind.MERGE,
    StatementKind.INSERT,
    StatementKind.TRUNCATE,
)


@dataclass(frozen=True)
class SqlStatement:
    """A statement and its kind.

    `text` lacks the closing semicolon, EXPLAIN, and the DESCRIBE before a query. `mode` is the word after EXPLAIN in
    upper case, such as EXTENDED, or empty.
    """

    kind: StatementKind
    text: str
    mode: str = ""


def statement_of(text: str) -> SqlStatement:
    """Classify a statement by its first keywords. The kind is OTHER for statements about tables and for invalid text.

    Raises `InvalidOption` if `text` is not a string.
    """
    if not isinstance(text, str):
        raise InvalidOption(f"sql takes one statement as text, not {text!r}")
    rest = _strip_semicolon(text)
    at = len(_match(_COMMENTS, rest))
    if explain := _EXPLAIN.match(rest, at):
        return SqlStatement(StatementKind.EXPLAIN, rest[explain.end() :].lstrip(), (explain[1] or "").strip().upper())
    if _QUERY_WORDS.match(rest, at):
        return SqlStatement(_dml_kind(rest, at) or StatementKind.QUERY, rest)
    if change := _CHANGE_WORDS.match(rest, at):
        return SqlStatement(StatementKind(change[0].split()[0].lower()), rest)
    if re.compile(r"use\b", re.IGNORECASE).match(rest, at):
        return SqlStatement(StatementKind.USE, rest)
    if describe := _DESCRIBE.match(rest, at):
        return SqlStatement(StatementKind.DESCRIBE, rest[describe.end() :])
    return SqlStatement(StatementKind.OTHER, rest)


def _dml_kind(text: str, at: int) -> StatementKind | None:
    """Return the kind of a statement that begins with WITH or FROM and changes rows; None for a query.

    `at` is the position of the first word in the text.
    """
    first = text[at : at + 4].lower()
    if first not in ("with", "from") or not _CHANGES_BEHIND.search(text, at):
        return None
    try:
        words = tokens(text)
    except InvalidStatement:
        return None
    names = [each.text.lower() if each.token_type.name not in ("IDENTIFIER", "STRING") else "" for each in words]
    if first == "with":
        found = end_of_with(words)
        return StatementKind(names[found]) if found < len(words) and names[found] in _BEHIND_WITH else None
    depth = 0
    for n, name in enumerate(names[:-1]):
        depth += (words[n].text == "(") - (words[n].text == ")")
        if depth == 0 and name == "insert" and names[n + 1] in ("into", "overwrite") and names[n - 1] != ".":
            return StatementKind.INSERT
    return None


def end_of_with(words: Sequence[Any]) -> int:
    """Return the index of the token after the queries of a WITH clause, which begins at the first token.

    `words` are sqlglot tokens.
    """
    at = 1
    if words[at : at + 2] and words[at].text.upper() == "RECURSIVE" and words[at + 1].text not in ("(", "AS"):
        at += 1
    while True:
        at = _end_of_group(words, at + 1)  # the name, and its columns
        if at < len(words) and words[at].text.upper() == "AS":
            at += 1
        at = _end_of_group(words, at)
        if at >= len(words) or words[at].text != ",":
            return at
        at += 1


def _end_of_group(words: Sequence[Any], at: int) -> int:
    """Return the index after the parentheses that open at the token `at`; `at` if it is not an opening parenthesis."""
    depth = 0
    for n in range(at, len(words)):
        depth += (words[n].text == "(") - (words[n].text == ")")
        if depth <= 0:
            return n + 1 if n > at or words[n].text == ")" else at
    return len(words)


def _match(pattern: re.Pattern[str], text: str) -> str:
    found = pattern.match(text)
    return found[0] if found else ""


def _strip_semicolon(text: str) -> str:
    """Remove the semicolons that end a text, and the comments after them."""
    stripped = text.rstrip().rstrip(";").rstrip()
    if ";" not in stripped:
        return stripped if len(stripped) < len(text.rstrip()) else text
    try:
        words = tokens(text)
    except InvalidStatement:
        return stripped
    end = len(words)
    while end and words[end - 1].token_type.name == "SEMICOLON":
        end -= 1
    return text if end == len(words) else text[: words[end].start]


def parse_tree(text: str) -> Any:
    """Parse one query into a sqlglot tree.

    Raises `InvalidStatement` if the text is not one valid query, `UnsupportedFeature` for the operator `>>>`, and
    `MissingDependency` without sqlglot.
    """
    try:
        import sqlglot
    except ImportError as error:
        raise missing_dependency("sqlglot", "sql", "SQL statements") from error
    try:
        trees = sqlglot.parse(escape_doubled_quotes(text), dialect="spark")
    except sqlglot.ParseError as error:
        if _UNSIGNED_SHIFT.search(text):
            advice = "Write shiftrightunsigned(a, b)."
            raise UnsupportedFeature("the operator >>> in SQL that runs in this process", advice) from error
        found = error.errors[0] if error.errors else {}
        what = str(found.get("description") or "it cannot be parsed")
        raise _invalid(text, what.split(" for <class")[0], found) from error
    except sqlglot.errors.SqlglotError as error:
        raise InvalidStatement(f"not valid SQL: {error}\n{text}") from error
    except RecursionError:
        raise InvalidStatement(f"not valid SQL: {text[:80]!r}... is nested too deep") from None
    statements = [tree for tree in trees if tree is not None and tree.key != "semicolon"]
    if len(statements) != 1:
        raise InvalidStatement(f"one statement at a time: the text has {len(statements)}. Call sql for each")
    return statements[0]


def has_pipes(text: str) -> bool:
    """Return whether a text uses Spark's pipe syntax (`|>`), whose order of clauses sqlglot does not keep."""
    return "|>" in text and any(token.text == "|>" for token in tokens(text))


def _invalid(text: str, what: str, found: Mapping[str, Any]) -> InvalidStatement:
    """Build the error that underlines the place of a sqlglot error.

    `what` describes the problem, and `found` is sqlglot's description of the place, which ends at `line` and `col`
    (from 1).
    """
    lines, line, column = text.splitlines(), found.get("line") or 0, found.get("col") or 0
    if not 1 <= line <= len(lines):
        return InvalidStatement(f"not valid SQL: {what}\n{text}")
    start = max(0, column - max(1, len(str(found.get("highlight") or ""))))
    return InvalidStatement(f"not valid SQL: {what}{underline(lines[line - 1], line, start, column)}")


def name_parameters(text: str, arguments: Arguments) -> tuple[str, dict[str, Any]]:
    """Give names to the positional parameters (`?`) of a text.

    Returns the text with named parameters, and the values of all parameters by name.

    Raises `InvalidStatement` if the numbers of parameters and values differ, and `InvalidOption` for values that are
    neither a dictionary nor a list.
    """
    if arguments is None:
        return text, {}
    if isinstance(arguments, Mapping):
        return text, dict(arguments)
    if isinstance(arguments, str) or not isinstance(arguments, Sequence):
        raise InvalidOption(
            f"args is {arguments!r:.80}: pass a dictionary with values for :name, or a list with values for ?"
        )
    marks = [each.start for each in tokens(text) if each.token_type.name == "PLACEHOLDER"]
    if len(marks) != len(arguments):
        raise InvalidStatement(f"the statement has {len(marks)} parameters (?), but args has {len(arguments)} values")
    values = {f"_{n}": value for n, value in enumerate(arguments)}
    return apply_edits(text, [(at, at + 1, f":{name}") for at, name in zip(marks, values, strict=True)]), values


def substitute_literals(tree: Any, values: Mapping[str, Any]) -> Any:
    """Replace the parameters of a sqlglot tree by literals, if their values are None, booleans, integers or strings.

    Other parameters stay in the tree, which is changed in place. Raises `InvalidStatement` for a parameter without a
    value.
    """
    from sqlglot import exp

    for node in list(tree.find_all(exp.Placeholder)):
        if node.name not in values:
            raise InvalidStatement(
                f"the parameter {f':{node.name}' if node.name.strip('?') else '?'} has no value in args"
            )
        value = values[node.name]
        if value is None or isinstance(value, bool | int | str):
            node.replace(exp.convert(value))
    return tree
