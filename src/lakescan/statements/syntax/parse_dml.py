"""Parse statements that change rows, following Spark's grammar. Expressions are kept as the user's text.

Column names in assignments are kept whole, because `SET t.price = 1` may mean the column `price` of the table `t` or
the member `price` of a struct column `t`. `statements.rows.store_assignment.column_of` decides by the table's columns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from lakescan.errors import UnsupportedFeature
from lakescan.statements.syntax.dml import (
    Assignment,
    Clause,
    Delete,
    DmlStatement,
    Insert,
    Merge,
    MergeAction,
    Update,
    When,
)
from lakescan.statements.syntax.parse import StatementKind, end_of_with, statement_of
from lakescan.statements.syntax.spark_syntax import options_behind, read_options
from lakescan.statements.syntax.text import Sql, TableName
from lakescan.statements.syntax.token_reader import TokenReader

_QUERY = ("SELECT", "WITH", "FROM", "VALUES", "TABLE", "MAP", "REDUCE")
# After these words, `(SELECT ...)` is a part of a condition.
_BEFORE_SUBQUERIES = {"IN", "EXISTS", "ANY", "SOME", "ALL", "NOT", "AND", "OR", "BETWEEN", "LIKE", "WHERE"}


def parse(text: str, values: Mapping[str, Any] | None = None) -> DmlStatement | None:
    """Parse DELETE, UPDATE, MERGE, INSERT or TRUNCATE TABLE.

    Args:
        text: One statement.
        values: Values of its parameters by name. `IDENTIFIER(:name)` needs them.

    Returns:
        The statement, which is a `Delete` for TRUNCATE TABLE. None for any other statement, including `INSERT OVERWRITE
        DIRECTORY`, which does not write a table.

    Raises:
        InvalidStatement: The text is not valid. The message underlines the place.
        UnsupportedFeature: The statement has a clause of Spark that lakescan does not run.

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
    """Read the WITH clause before the statement; None without one."""
    if not words.sees("WITH"):
        return None
    words.at = end_of_with(words.words)
    return words.between(0, words.at, "WITH")


def _target(words: TokenReader, *stops: str) -> TableName:
    """Read the name of the table to change, and its alias. `stops` are keywords that may follow instead of an alias.

    Raises `InvalidStatement` for read options and time travel.
    """
    name = words.table_name("the name of a table")
    if options_behind(words.text, words.words[words.at - 1].end + 1) is not None:
        raise words.error("options are for tables that are read and for INSERT", words.at - 1)
    for travel in (("VERSION", "AS", "OF"), ("TIMESTAMP", "AS", "OF"), ("FOR",), ("@",)):
        if words.sees(*travel):
            raise words.error("an earlier state of a table cannot be changed", words.at)
    return replace(name, alias=words.alias(*stops))


def _where(words: TokenReader) -> Sql | None:
    """Read WHERE and its condition, up to the end of the statement; None if the statement already ends.

    Raises `InvalidStatement` for another word than WHERE.
    """
    if words.is_at_end:
        return None
    if not words.takes("WHERE"):
        words.ends("WHERE")
    return words.until(lambda n: False, "the condition after WHERE")


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
    """Build the SQL condition of the rows of a partition.

    Columns without a value are not compared. Empty without values.
    """
    named = [f"`{name.replace('`', '``')}` <=> {value}" for name, value in partition if value is not None]
    return Sql(" AND ".join(named))


def _partition(words: TokenReader) -> tuple[tuple[str, Sql | None], ...]:
    """Read `PARTITION (a = 1, b)` and return the columns with their values; None for a column without a value.

    Raises `InvalidStatement` for a column that occurs twice.
    """
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
    """Read the value of a partition column: a literal, perhaps with a sign or a type name, or a parameter.

    Raises `InvalidStatement` for another expression.
    """
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
    """Read the write options after the table's name, as `WITH (...)` or as a hint (`/*+ OPTIONS(...) */`)."""
    if words.sees("WITH") and words.words[words.at + 1 :] and words.words[words.at + 1].text == "(":
        opening = words.at + 1
        words.at = words.behind(opening)
        return read_options(words.text, words.words[opening].start, words.words[words.at - 1].end + 1)
    found = options_behind(words.text, words.words[words.at - 1].end + 1)
    return {} if found is None else found[0]


def _is_directory(words: TokenReader) -> bool:
    """Return whether the statement is INSERT OVERWRITE DIRECTORY, which writes files without a table."""
    at = words.at + words.sees("LOCAL", "DIRECTORY")
    behind = words.words[at + 1 : at + 2]
    return words.spells(at, "DIRECTORY") and (
        at > words.at or words.spells(at + 1, "USING") or (bool(behind) and behind[0].token_type.name == "STRING")
    )


def _begins_query(words: TokenReader, n: int) -> bool:
    return any(words.spells(n, each) for each in (*_QUERY, "("))


def _columns(words: TokenReader) -> tuple[str, ...] | None:
    """Read a column list; None without a list, as in `INSERT INTO t (SELECT 1)`.

    Raises `InvalidStatement` for a struct member, or a column that is listed twice.
    """
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
    """Read REPLACE WHERE and its condition, which ends where the query begins.

    Raises `UnsupportedFeature` for REPLACE USING and REPLACE ON.
    """
    words.needs("REPLACE")
    for other in ("USING", "ON"):
        if words.sees(other):
            raise UnsupportedFeature(f"INSERT INTO ... REPLACE {other}", "Use REPLACE WHERE, or MERGE.")
    words.needs("WHERE")
    return words.until(lambda n: _ends_condition(words, n), "the condition after REPLACE WHERE")


def _ends_condition(words: TokenReader, n: int) -> bool:
    before = words.words[n - 1]
    if words.spells(n, "("):
        is_value = words.is_name(n - 1) or before.token_type.name in ("STRING", "NUMBER", "R_PAREN", "R_BRACKET")
        inner = words.spells(n + 1, "(") or any(words.spells(n + 1, each) for each in _QUERY)
        return is_value and inner and before.text.upper() not in _BEFORE_SUBQUERIES
    if words.is_member(n) or words.spells(n - 1, "DISTINCT"):
        return False
    return any(words.spells(n, each) for each in ("SELECT", "WITH", "FROM", "VALUES", "TABLE"))


def read_assignments(words: TokenReader, stop: Callable[[int], bool]) -> tuple[Assignment, ...]:
    """Read `column = value, ...` up to the first token where `stop` returns true.

    Raises `InvalidStatement` for a column that is assigned twice.
    """
    end = words.find(stop)
    found: list[Assignment] = []
    for first, behind in words.split_items(words.at, end):
        words.at = first
        if first >= behind:
            raise words.unexpected_word("a column")
        column = words.names("a column")
        if not (words.takes("=") or words.takes("==")):
            raise words.unexpected_word("=")
        if any(column == each.column for each in found):
            raise words.error(f"the column {'.'.join(column)} is assigned twice", first, words.at - 2)
        found.append(Assignment(column, words.expression(words.at, behind, "the value")))
    words.at = end
    return tuple(found)


_UNITS = {"YEAR", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND", "MILLISECOND", "MICROSECOND"}
_UNITS |= {f"{unit}S" for unit in _UNITS}
_TRAVEL = (
    ("VERSION", "AS", "OF"),
    ("SYSTEM_VERSION", "AS", "OF"),
    ("TIMESTAMP", "AS", "OF"),
    ("SYSTEM_TIME", "AS", "OF"),
)
_ACTIONS = {
    When.MATCHED: ("UPDATE SET", "DELETE"),
    When.NOT_MATCHED: ("INSERT",),
    When.NOT_MATCHED_BY_SOURCE: ("UPDATE SET", "DELETE"),
}


def read_merge(words: TokenReader, with_clause: Sql | None = None) -> Merge:
    """Read a MERGE. `with_clause` is the WITH before it, which is moved into the source.

    Raises `InvalidStatement`, and `UnsupportedFeature` for a WITH query that is used outside of the source and for `*
    EXCEPT`.
    """
    words.needs("MERGE")
    evolves = words.takes("WITH", "SCHEMA", "EVOLUTION")
    words.needs("INTO")
    target = words.table_name("the name of a table")
    target = replace(target, alias=words.alias("USING"))
    words.needs("USING")
    first = words.at
    source, alias = _source(words)
    if alias is None and not words.spells(first, "("):
        alias = _last_name(words, first)
    if with_clause is not None:
        source, alias = _with_queries(words, with_clause, first, source, alias)
    words.needs("ON")
    on = words.until(lambda n: _is_when(words, n), "the condition after ON")
    clauses: list[Clause] = []
    while not words.is_at_end:
        clauses.append(_clause(words, clauses))
    if not clauses:
        raise words.unexpected_word("WHEN MATCHED", "WHEN NOT MATCHED")
    return Merge(target, source, alias, on, tuple(clauses), evolves)


def _is_when(words: TokenReader, n: int) -> bool:
    """Return whether a WHEN clause begins at token `n`, rather than a column named `when`."""
    return words.spells(n, "WHEN") and not words.is_member(n) and (words.is_name(n - 1) or _ends(words, n - 1))


def _ends(words: TokenReader, n: int) -> bool:
    return words.words[n].token_type.name in ("R_PAREN", "R_BRACKET", "STRING", "NUMBER", "PLACEHOLDER", "STAR")


def _source(words: TokenReader) -> tuple[Sql, str | None]:
    """Read the source of a MERGE (a table or a query in parentheses), and its alias or None."""
    first = words.at
    if words.sees("("):
        words.at = words.behind(first)
        return words.between(first, words.at, "the source"), words.alias("ON")
    words.table_name("the source: the name of a table, or a query in parentheses")
    if words.sees("("):  # a function, such as table_changes
        words.at = words.behind(words.at)
    if words.sees("@") and words.is_name(words.at + 1):
        words.at += 2
    words.takes("FOR")
    if not any(words.takes(*each) for each in _TRAVEL):
        return words.between(first, words.at, "the source"), words.alias("ON")
    behind = words.find(lambda n: words.spells(n, "ON") and not words.is_member(n))
    if behind - words.at > 2 and words.spells(behind - 2, "AS"):
        end = behind - 2
    else:
        end = behind - 1 if _is_alias(words, behind - 1, words.at) else behind
    source, words.at = words.between(first, end, "the source"), end
    return source, words.alias("ON")


def _last_name(words: TokenReader, first: int) -> str:
    """Return the last part of the table name at token `first`, which qualifies the columns of an unaliased table."""
    at = words.at
    words.at = first
    name = words.table_name("the source").parts[-1]
    words.at = at
    return name


def _is_alias(words: TokenReader, n: int, start: int) -> bool:
    """Return whether token `n`, the last word before ON, is an alias, rather than the end of a time travel expression.

    The expression begins at token `start`.
    """
    if n <= start or not words.is_name(n) or words.is_member(n):
        return False
    is_unit = words.words[n].text.upper() in _UNITS and words.words[n - 1].token_type.name in ("NUMBER", "STRING")
    return not is_unit and (_ends(words, n - 1) or words.is_name(n - 1))


def _with_queries(
    words: TokenReader, clause: Sql, first: int, source: Sql, alias: str | None
) -> tuple[Sql, str | None]:
    """Move the WITH clause into the source of a MERGE, and return the new source and its alias.

    `first` is the index of the source's first token. Raises `UnsupportedFeature` if another part of the MERGE uses a
    query of the WITH clause.
    """
    names = _names_of_with(words)
    for n, each in enumerate(words.words[words.at :], words.at):
        before = words.words[n - 1].text.upper()
        if each.text.lower() in names and before in ("FROM", "JOIN", "TABLE", ",") and words.is_name(n):
            raise UnsupportedFeature(
                f"the query {each.text!r} of WITH outside the source of a MERGE",
                "Write the query itself as a subquery.",
            )
    if source.text.startswith("("):
        inner = source.text[1:-1].strip()
        if words.spells(first + 1, "WITH"):
            inner = f"SELECT * FROM ({inner})"
        return Sql(f"({clause} {inner})", source.start), alias
    whole = Sql(f"({clause} SELECT * FROM {source})", source.start)
    return whole, alias


def _names_of_with(words: TokenReader) -> set[str]:
    """Return the names of the queries of the WITH that begins the statement, in lower case."""
    end = end_of_with(words.words)
    found, at = set(), 1
    while at < end:
        found.add(words.words[at].text.lower())
        at = words.find(lambda n: words.words[n].text == ",", at, end) + 1
    return found


def _clause(words: TokenReader, earlier: list[Clause]) -> Clause:
    """Read `WHEN ... THEN ...`. `earlier` are the clauses before it.

    Raises `InvalidStatement` if an earlier clause for the same rows has no condition, so that this one would never
    apply.
    """
    first = words.at
    words.needs("WHEN")
    when = _when(words)
    condition = None
    if words.takes("AND"):
        condition = words.until(lambda n: words.spells(n, "THEN") and not words.is_member(n), "the condition after AND")
    before = next((each for each in reversed(earlier) if each.when is when), None)
    if before is not None and before.condition is None:
        said = f"WHEN {when.upper()} without a condition must be the last of its kind: no row reaches this clause"
        raise words.error(said, first, words.at - 1)
    if not words.takes("THEN"):
        raise words.unexpected_word("THEN") if condition is not None else words.unexpected_word("AND", "THEN")
    return _action(words, when, condition)


def _when(words: TokenReader) -> When:
    if words.takes("MATCHED"):
        return When.MATCHED
    if not (words.takes("NOT") or words.takes("!")):
        raise words.unexpected_word("MATCHED", "NOT MATCHED")
    words.needs("MATCHED")
    if not words.takes("BY"):
        return When.NOT_MATCHED
    if words.takes("SOURCE"):
        return When.NOT_MATCHED_BY_SOURCE
    if words.takes("TARGET"):
        return When.NOT_MATCHED
    raise words.unexpected_word("SOURCE", "TARGET")


def _action(words: TokenReader, when: When, condition: Sql | None) -> Clause:
    allowed = _ACTIONS[when]
    for action, name in (
        (MergeAction.DELETE, "DELETE"),
        (MergeAction.UPDATE, "UPDATE"),
        (MergeAction.INSERT, "INSERT"),
    ):
        if words.sees(name) and not any(each.startswith(name) for each in allowed):
            raise words.error(f"WHEN {when.upper()} takes {' or '.join(allowed)}, not {name}", words.at)
        if not words.takes(name):
            continue
        match action:
            case MergeAction.DELETE:
                found = Clause(when, action, condition)
            case MergeAction.UPDATE:
                found = Clause(when, action, condition, _update_assignments(words, when))
            case _:
                found = Clause(when, action, condition, _insert_assignments(words))
        if not words.is_at_end and not _is_when(words, words.at):
            words.ends("WHEN")
        return found
    raise words.unexpected_word(*allowed)


def _update_assignments(words: TokenReader, when: When) -> tuple[Assignment, ...] | None:
    words.needs("SET")
    if not words.sees("*"):
        return read_assignments(words, lambda n: _is_when(words, n))
    if when is When.NOT_MATCHED_BY_SOURCE:
        raise words.error("WHEN NOT MATCHED BY SOURCE has no source row for UPDATE SET *: name the columns", words.at)
    words.at += 1
    _refuse_except(words)
    return None


def _insert_assignments(words: TokenReader) -> tuple[Assignment, ...] | None:
    if words.takes("*"):
        _refuse_except(words)
        return None
    if not words.sees("("):
        raise words.unexpected_word("*", "(")
    columns_at, columns = words.at, []
    for first, behind in words.split_items(columns_at + 1, words.closing(columns_at)):
        words.at = first
        columns.append(words.names("a column"))
        if words.at < behind:
            raise words.unexpected_word(",", ")")
        if columns[-1] in columns[:-1]:
            raise words.error(f"the column {'.'.join(columns[-1])} is listed twice", first, behind - 1)
    words.at = words.behind(columns_at)
    words.needs("VALUES")
    if not words.sees("("):
        raise words.unexpected_word("(")
    values_at = words.at
    places = words.split_items(values_at + 1, words.closing(values_at))
    words.at = words.behind(values_at)
    if len(places) != len(columns):
        said = f"INSERT has {len(columns)} columns and {len(places)} values"
        raise words.error(said, columns_at, words.at - 1)
    values = [words.expression(first, behind, "the value") for first, behind in places]
    return tuple(Assignment(column, value) for column, value in zip(columns, values, strict=True))


def _refuse_except(words: TokenReader) -> None:
    if words.sees("EXCEPT"):
        raise UnsupportedFeature("* EXCEPT in a MERGE", "Name the columns.")
