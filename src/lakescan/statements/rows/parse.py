"""Parsing statements that change rows, as Spark's grammar has them. Expressions stay the user's own text.

Names of columns in assignments stay whole: `SET t.price = 1` is the column `price` of the table `t`, or the member
`price` of its struct `t`; `statements.rows.assignment.column_of` tells them apart by the table's columns.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from lakescan.errors import UnsupportedFeature
from lakescan.statements.rows.assignments import read_assignments
from lakescan.statements.rows.parse_merge import read_merge
from lakescan.statements.rows.statements import Delete, DmlStatement, Insert, Merge, Update
from lakescan.statements.syntax.names import Sql, TableName
from lakescan.statements.syntax.parse import StatementKind, end_of_with, statement_of
from lakescan.statements.syntax.table_options import options_behind, read_options
from lakescan.statements.syntax.words import TokenReader

_QUERY = ("SELECT", "WITH", "FROM", "VALUES", "TABLE", "MAP", "REDUCE")
# Behind these, `(SELECT ...)` is a part of a condition.
_BEFORE_SUBQUERIES = {"IN", "EXISTS", "ANY", "SOME", "ALL", "NOT", "AND", "OR", "BETWEEN", "LIKE", "WHERE"}


def parse(text: str, values: Mapping[str, Any] | None = None) -> DmlStatement | None:
    """Parse DELETE, UPDATE, MERGE, INSERT or TRUNCATE TABLE.

    Args:
        text: One statement.
        values: Values of its parameters by name; `IDENTIFIER(:name)` needs them.

    Returns:
        The statement; `Delete` for TRUNCATE TABLE. None for a statement of another kind, also for `INSERT OVERWRITE
        DIRECTORY`, which writes no table.

    Raises:
        InvalidStatement: The text is not valid; the message underlines the place.
        UnsupportedFeature: Spark knows the clause, and lakescan does not run it.

    Example:
        >>> parse("DELETE FROM local.shop.orders WHERE day < '2026-01-01'").where.text
        "day < '2026-01-01'"
    """
    kind = statement_of(text).kind
    if not kind.changes_rows:
        return None
    words = TokenReader(text, values)
    clause = _with_clause(words)
    match kind:
        case StatementKind.DELETE:
            found: DmlStatement | None = _delete(words)
        case StatementKind.UPDATE:
            found = _update(words)
        case StatementKind.MERGE:
            found = read_merge(words, clause)
        case StatementKind.TRUNCATE:
            found = _truncate(words)
        case _:
            found = _insert(words)
    if clause is None or kind is StatementKind.MERGE or found is None:
        return found
    assert not isinstance(found, Merge)
    return replace(found, with_clause=clause)


def _with_clause(words: TokenReader) -> Sql | None:
    """Read a WITH that begins the statement."""
    if not words.sees("WITH"):
        return None
    words.at = end_of_with(words.words)
    return words.between(0, words.at, "WITH")


def _target(words: TokenReader, *stops: str) -> TableName:
    """Read the name of the table to change, and its alias."""
    name = words.table_name("the name of a table")
    if options_behind(words.text, words.words[words.at - 1].end + 1) is not None:
        raise words.error("options are for tables that are read, and for INSERT", words.at - 1)
    for travel in (("VERSION", "AS", "OF"), ("TIMESTAMP", "AS", "OF"), ("FOR",), ("@",)):
        if words.sees(*travel):
            raise words.error("an earlier state of a table cannot be changed", words.at)
    return replace(name, alias=words.alias(*stops))


def _where(words: TokenReader) -> Sql | None:
    """Read WHERE and its condition, which end a statement."""
    if words.is_at_end:
        return None
    if not words.takes("WHERE"):
        words.ends("WHERE")
    return words.until(lambda n: False, "the condition behind WHERE")


def _delete(words: TokenReader) -> Delete:
    words.needs("DELETE", "FROM")
    return Delete(_target(words, "WHERE"), _where(words))


def _update(words: TokenReader) -> Update:
    words.needs("UPDATE")
    target = _target(words, "SET")
    words.needs("SET")
    assignments = read_assignments(words, lambda n: words.spells(n, "WHERE") and not words.is_member(n))
    return Update(target, assignments, _where(words))


def _truncate(words: TokenReader) -> Delete:
    words.needs("TRUNCATE", "TABLE")
    target = words.table_name("the name of a table")
    if not words.sees("PARTITION"):
        words.ends("PARTITION")
        return Delete(target)
    at = words.at
    partition = _partition(words)
    words.ends()
    if any(value is None for _, value in partition):
        raise words.error("TRUNCATE TABLE takes a value for each column of PARTITION", at, words.at - 1)
    return Delete(target, partition_condition(partition))


def partition_condition(partition: tuple[tuple[str, Sql | None], ...]) -> Sql:
    """The condition of the rows of a partition: each column that has a value is equal to it, or both are null."""
    named = [f"`{name.replace('`', '``')}` <=> {value}" for name, value in partition if value is not None]
    return Sql(" AND ".join(named))


def _partition(words: TokenReader) -> tuple[tuple[str, Sql | None], ...]:
    """Read `PARTITION (a = 1, b)`."""
    words.needs("PARTITION")
    if not words.sees("("):
        raise words.unexpected_word("(")
    found: list[tuple[str, Sql | None]] = []
    opening = words.at
    for first, behind in words.split_items(opening + 1, words.closing(opening)):
        words.at = first
        name = words.name("a column")
        if any(name.lower() == each.lower() for each, _ in found):
            raise words.error(f"the column {name} occurs twice in PARTITION", first)
        value = None
        if words.takes("=") or words.takes("=="):
            value = _constant(words, words.at, behind)
        elif words.at < behind:
            raise words.unexpected_word("=", ",", ")")
        found.append((name, value))
    words.at = words.behind(opening)
    return tuple(found)


def _constant(words: TokenReader, start: int, end: int) -> Sql:
    """A literal, with a sign or the name of its type, or a parameter; raises `InvalidStatement` for another value."""
    found = words.between(start, end, "the value")
    last = words.words[end - 1]
    texts = ("STRING", "RAW_STRING", "HEX_STRING", "NUMBER", "PLACEHOLDER")
    is_literal = last.token_type.name in texts or last.token_type.name in ("BIGINT", "DOUBLE", "FLOAT", "DECIMAL")
    is_word = any(words.spells(end - 1, each) for each in ("NULL", "TRUE", "FALSE"))
    first = words.words[start]
    is_alone = last.start == first.start or (end - start == 2 and (first.text in "-+:" or words.is_name(start)))
    is_parameter = first.text == ":" and end - start == 2
    if not is_alone or not (is_literal or is_word or is_parameter):
        raise words.error(f"PARTITION takes a literal, not {found.text}", start, end - 1)
    return found


def _insert(words: TokenReader) -> Insert | None:
    if words.sees("FROM"):
        raise UnsupportedFeature("FROM ... INSERT, Hive's order of the clauses", "Write INSERT INTO table SELECT ... .")
    words.needs("INSERT")
    evolves = words.takes("WITH", "SCHEMA", "EVOLUTION")
    overwrite = words.takes("OVERWRITE")
    if overwrite and _is_directory(words):
        return None
    if not overwrite and not words.takes("INTO"):
        raise words.unexpected_word("INTO", "OVERWRITE")
    if words.sees("TABLE") and words.is_name(words.at + 1):
        words.at += 1
    target = words.table_name("the name of a table")
    options = _options(words)
    evolves = words.takes("WITH", "SCHEMA", "EVOLUTION") or evolves
    partition = _partition(words) if words.sees("PARTITION") else ()
    if words.sees("IF", "NOT", "EXISTS"):
        if not overwrite:
            raise words.error("IF NOT EXISTS is for INSERT OVERWRITE", words.at, words.at + 2)
        raise UnsupportedFeature("INSERT OVERWRITE ... IF NOT EXISTS")
    by_name = words.takes("BY", "NAME")
    columns = None if by_name else _columns(words)
    where = None
    if words.sees("REPLACE"):
        if overwrite or partition:
            raise words.error("REPLACE WHERE is for INSERT INTO without PARTITION", words.at)
        where, overwrite = _replace_condition(words), True
    start = words.at
    if not _begins_query(words, start):
        raise words.unexpected_word(*_QUERY[:1], "VALUES", "TABLE", "BY NAME", "PARTITION", "REPLACE WHERE")
    query = words.between(start, len(words.words), "the query")
    return Insert(target, query, columns, by_name, overwrite, partition, where, None, evolves, options)


def _options(words: TokenReader) -> dict[str, str]:
    """Read the options of the write, behind the table's name."""
    if words.sees("WITH") and words.words[words.at + 1 :] and words.words[words.at + 1].text == "(":
        opening = words.at + 1
        words.at = words.behind(opening)
        return read_options(words.text, words.words[opening].start, words.words[words.at - 1].end + 1)
    found = options_behind(words.text, words.words[words.at - 1].end + 1)
    return {} if found is None else found[0]


def _is_directory(words: TokenReader) -> bool:
    """Whether it is INSERT OVERWRITE DIRECTORY, which writes files without a table."""
    at = words.at + words.sees("LOCAL", "DIRECTORY")
    behind = words.words[at + 1 : at + 2]
    return words.spells(at, "DIRECTORY") and (
        at > words.at or words.spells(at + 1, "USING") or (bool(behind) and behind[0].token_type.name == "STRING")
    )


def _begins_query(words: TokenReader, n: int) -> bool:
    return any(words.spells(n, each) for each in (*_QUERY, "("))


def _columns(words: TokenReader) -> tuple[str, ...] | None:
    """Read a list of columns; None if there is none, as in `INSERT INTO t (SELECT 1)`."""
    opening = words.at
    if not words.sees("("):
        return None
    items = words.split_items(opening + 1, words.closing(opening))
    behind = words.behind(opening)
    if not (_begins_query(words, behind) or words.spells(behind, "REPLACE")):
        return None
    found: list[str] = []
    for first, end in items:
        words.at = first
        name = words.name("a column")
        if words.at < end:
            if words.words[words.at].token_type.name == "DOT":
                raise words.error("INSERT takes whole columns, not members of structs", first, end - 1)
            raise words.unexpected_word(",", ")")
        if name in found:
            raise words.error(f"the column {name} is listed twice", first)
        found.append(name)
    words.at = behind
    return tuple(found)


def _replace_condition(words: TokenReader) -> Sql:
    """Read REPLACE WHERE and its condition, which ends where a query begins."""
    words.needs("REPLACE")
    for other in ("USING", "ON"):
        if words.sees(other):
            raise UnsupportedFeature(f"INSERT INTO ... REPLACE {other}", "Use REPLACE WHERE, or MERGE.")
    words.needs("WHERE")
    return words.until(lambda n: _ends_condition(words, n), "the condition behind REPLACE WHERE")


def _ends_condition(words: TokenReader, n: int) -> bool:
    before = words.words[n - 1]
    if words.spells(n, "("):
        is_value = words.is_name(n - 1) or before.token_type.name in ("STRING", "NUMBER", "R_PAREN", "R_BRACKET")
        inner = words.spells(n + 1, "(") or any(words.spells(n + 1, each) for each in _QUERY)
        return is_value and inner and before.text.upper() not in _BEFORE_SUBQUERIES
    if words.is_member(n) or words.spells(n - 1, "DISTINCT"):
        return False
    return any(words.spells(n, each) for each in ("SELECT", "WITH", "FROM", "VALUES", "TABLE"))
