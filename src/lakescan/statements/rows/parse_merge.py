"""Parsing MERGE."""

from __future__ import annotations

from dataclasses import replace

from lakescan.errors import UnsupportedFeature
from lakescan.statements.rows.assignments import read_assignments
from lakescan.statements.rows.statements import Assignment, Clause, Merge, MergeAction, When
from lakescan.statements.syntax.names import Sql
from lakescan.statements.syntax.parse import end_of_with
from lakescan.statements.syntax.words import TokenReader

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
    """Read a MERGE; `with_clause` is what stands before it, which becomes a part of the source."""
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
    on = words.until(lambda n: _is_when(words, n), "the condition behind ON")
    clauses: list[Clause] = []
    while not words.is_at_end:
        clauses.append(_clause(words, clauses))
    if not clauses:
        raise words.unexpected_word("WHEN MATCHED", "WHEN NOT MATCHED")
    return Merge(target, source, alias, on, tuple(clauses), evolves)


def _is_when(words: TokenReader, n: int) -> bool:
    """Whether a clause begins at a word: WHEN that is no column."""
    return words.spells(n, "WHEN") and not words.is_member(n) and (words.is_name(n - 1) or _ends(words, n - 1))


def _ends(words: TokenReader, n: int) -> bool:
    return words.words[n].token_type.name in ("R_PAREN", "R_BRACKET", "STRING", "NUMBER", "PLACEHOLDER", "STAR")


def _source(words: TokenReader) -> tuple[Sql, str | None]:
    """Read the source, and its alias."""
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
    """The last part of the name that begins at a word: the qualifier of its columns, if it has no alias."""
    at = words.at
    words.at = first
    name = words.table_name("the source").parts[-1]
    words.at = at
    return name


def _is_alias(words: TokenReader, n: int, start: int) -> bool:
    """Whether the last word before ON is an alias, and no part of the expression of a time or version."""
    if n <= start or not words.is_name(n) or words.is_member(n):
        return False
    is_unit = words.words[n].text.upper() in _UNITS and words.words[n - 1].token_type.name in ("NUMBER", "STRING")
    return not is_unit and (_ends(words, n - 1) or words.is_name(n - 1))


def _with_queries(
    words: TokenReader, clause: Sql, first: int, source: Sql, alias: str | None
) -> tuple[Sql, str | None]:
    """The source with the queries of WITH in it: there only they can be read."""
    names = _names_of_with(words)
    for n, each in enumerate(words.words[words.at :], words.at):
        before = words.words[n - 1].text.upper()
        if each.text.lower() in names and before in ("FROM", "JOIN", "TABLE", ",") and words.is_name(n):
            raise UnsupportedFeature(
                f"the query {each.text!r} of WITH in another place of a MERGE than its source",
                "Write the query itself in that place.",
            )
    if source.text.startswith("("):
        inner = source.text[1:-1].strip()
        if words.spells(first + 1, "WITH"):
            inner = f"SELECT * FROM ({inner})"
        return Sql(f"({clause} {inner})", source.start), alias
    whole = Sql(f"({clause} SELECT * FROM {source})", source.start)
    return whole, alias


def _names_of_with(words: TokenReader) -> set[str]:
    """The names of the queries of the WITH that begins the statement, in lower case."""
    end = end_of_with(words.words)
    found, at = set(), 1
    while at < end:
        found.add(words.words[at].text.lower())
        at = words.find(lambda n: words.words[n].text == ",", at, end) + 1
    return found


def _clause(words: TokenReader, earlier: list[Clause]) -> Clause:
    """Read `WHEN ... THEN ...`."""
    first = words.at
    words.needs("WHEN")
    when = _when(words)
    condition = None
    if words.takes("AND"):
        condition = words.until(
            lambda n: words.spells(n, "THEN") and not words.is_member(n), "the condition behind AND"
        )
    before = next((each for each in reversed(earlier) if each.when is when), None)
    if before is not None and before.condition is None:
        said = f"WHEN {when.upper()} without a condition must be the last of its kind: no row reaches this clause"
        raise words.error(said, first, words.at - 1)
    if not words.takes("THEN"):
        raise words.unexpected_word("THEN") if condition is not None else words.unexpected_word("AND", "THEN")
    return _action(words, when, condition)


def _is_then(words: TokenReader, n: int) -> bool:
    return words.spells(n, "THEN") and not words.is_member(n)


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
