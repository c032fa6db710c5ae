"""Build the query of a row-changing statement, whose result has the rows to change, the actions and the new values.

The first columns of the query are the data file and the position of a target row (null for a row to insert), and the
number of the action on it (0 for none). The assigned values and then the target's own values follow. The engines run it
like any other query, so conditions and values mean the same as in a SELECT.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from lakescan.common import types as t
from lakescan.common.metadata_columns import FILE, POS
from lakescan.common.references import backquote
from lakescan.common.schema import Schema
from lakescan.errors import InvalidStatement, NoSuchColumn, SchemaMismatch, nearest
from lakescan.statements.rows.store_assignment import Cast, match_names
from lakescan.statements.syntax.dml import Assignment, Clause, Delete, Merge, MergeAction, Update, When
from lakescan.statements.syntax.text import Sql, text_literal

TARGET = "__lakescan_target"  # the name of the target's scan
FILE_AT, POSITION_AT, ACTION_AT = 0, 1, 2  # indices of the first columns of the query

ChangeStatement = Delete | Update | Merge
_REFERENCE = re.compile(r"\(?(`[^`]+`|[^\W\d]\w*)(\.(`[^`]+`|[^\W\d]\w*))*\s*\)?")
_CastIn = Callable[..., str]  # a `Cast` with its first argument, the index of the value, already given
_Text = Callable[[_CastIn | None], str]


@dataclass(frozen=True)
class RowAction:
    """The action on the rows with one action number.

    - `values`: for each column, the index of its new value in the query's columns. Columns that are not listed are
      filled as in rows that lack them.
    - `when`: the rows that the clause of a MERGE applies to.
    """

    action: MergeAction
    values: Mapping[str, int]
    when: When = When.MATCHED


@dataclass(frozen=True)
class ChangeQuery:
    """The text of the query, and the meaning of its columns. Indices count the query's columns from 0.

    - `actions`: the actions, by the number in the action column (from 1).
    - `old`: for each column of the table, the index of the target's current value.
    - `row_id`: the index of the row ids, or None if they are not read.
    - `checks_matches`: whether it is an error if the query returns a target row twice.
    """

    text: str
    actions: Mapping[int, RowAction]
    old: Mapping[str, int]
    row_id: int | None
    checks_matches: bool


@dataclass(frozen=True)
class ChangeQueryBuilder:
    """Builds the query of one statement.

    - `schema`: the target's columns.
    - `generated`: names of columns that are computed unless a statement assigns them.
    - `identities`: names of identity columns, which an update cannot assign.
    - `row_id`: the name of the row id column to read for updated rows, or None.
    - `reads_old`: whether the old values of all changed rows are needed, for change data files.
    - `source_columns`: the names of the columns of a MERGE's source, for `*`.
    - `places`: the names of the target's metadata columns with the data file and the position of a row.
    - `mark`: text that no column name of target and source contains. It is part of the names of the query's columns.
    - `case_sensitive`: whether names of assigned columns and members must match in case.
    - `streams_source`: whether the source is larger than the target, so that the target should be held in memory.
    """

    statement: ChangeStatement
    schema: Schema
    generated: Collection[str] = ()
    row_id: str | None = None
    reads_old: bool = False
    source_columns: Sequence[str] = ()
    streams_source: bool = False
    identities: Collection[str] = ()
    mark: str = ""
    case_sensitive: bool = False
    places: tuple[str, str] = (FILE.name, POS.name)

    def _query_column(self, name: object) -> str:
        """Return the name of a column of the query, in backquotes. `name` is its index, `action` or `matched`."""
        return backquote(f"__lakescan_{self.mark}_{name}")

    def query(self, cast: Cast | None = None) -> ChangeQuery:
        """Build the query. `cast` converts the SQL of a value, or of a struct member in it, to the column's type.

        Without `cast`, values keep their types. Raises `InvalidStatement`, `NoSuchColumn` and `SchemaMismatch` for
        invalid assignments.
        """
        outputs = [f"{self._target}.{backquote(name)} AS {self._query_column(n)}" for n, name in enumerate(self.places)]
        outputs.append(f"{self._action_text} AS {self._query_column('action')}")
        actions: dict[int, RowAction] = {}
        kept: set[str] = set()
        for number, clause in enumerate(self._clauses, 1):
            values: dict[str, int] = {}
            for column, value in self._values(clause):
                if value is not None and clause.action == MergeAction.UPDATE:
                    self._check_stays(column)
                if value is None:  # the column keeps its value
                    kept.add(column.name)
                    continue
                place = len(outputs)
                values[column.name] = place
                text = value(None if cast is None else partial(cast, place))
                if self._has_conditions and not _REFERENCE.fullmatch(text):
                    text = f"CASE WHEN {self._query_column('action')} = {number} THEN {text}\nEND"
                outputs.append(f"{text} AS {self._query_column(place)}")
            actions[number] = RowAction(clause.action, values, clause.when)
        if self.reads_old and any(each.action != MergeAction.INSERT for each in actions.values()):
            kept = set(self.schema.names)
        old = {}
        for name in (each for each in self.schema.names if each in kept):
            old[name] = len(outputs)
            outputs.append(f"{self._target}.{backquote(name)} AS {self._query_column(len(outputs))}")
        for number, each in actions.items():
            if each.action == MergeAction.UPDATE:
                actions[number] = replace(each, values={**self._old_value_places(number, old), **each.values})
        row_id = None
        if self.row_id is not None and any(each.action == MergeAction.UPDATE for each in actions.values()):
            row_id = len(outputs)
            outputs.append(f"{self._target}.{backquote(self.row_id)} AS {self._query_column(row_id)}")
        text = f"{self._with}SELECT {', '.join(outputs)} FROM {self._from}"
        return ChangeQuery(text, actions, old, row_id, self._checks_matches)

    @property
    def _with(self) -> str:
        """The text of the WITH clause; empty without one. In a MERGE, it is already part of the source."""
        clause = None if isinstance(self.statement, Merge) else self.statement.with_clause
        return "" if clause is None else f"{clause}\n"

    @property
    def _target(self) -> str:
        return backquote(self.statement.target.qualifier)

    @property
    def _from(self) -> str:
        target = f"{backquote(TARGET)} AS {self._target}"
        match self.statement:
            case Merge(source=source, on=on):
                marked = f"(SELECT *, TRUE AS {self._query_column('matched')} FROM {source}\n) AS {self._source}"
                left, right, join = target, marked, self._join
                if self.streams_source:
                    left, right, join = right, left, {"LEFT": "RIGHT", "RIGHT": "LEFT"}.get(join, join)
                return f"{left} {join} JOIN {right} ON {parenthesize(on)}"
            case Delete(where=where) | Update(where=where):
                return target if where is None else f"{target} WHERE {parenthesize(where)}"
        raise TypeError(f"not a statement that changes rows: {self.statement!r}")

    @property
    def _source(self) -> str:
        assert isinstance(self.statement, Merge)
        return backquote(self.statement.source_alias or "source")

    @property
    def _join(self) -> str:
        inserts, leaves = self._has(When.NOT_MATCHED), self._has(When.NOT_MATCHED_BY_SOURCE)
        return {(False, False): "INNER", (True, False): "RIGHT", (False, True): "LEFT", (True, True): "FULL"}[
            inserts, leaves
        ]

    def _has(self, when: When) -> bool:
        return any(clause.when == when for clause in self._clauses)

    @property
    def _clauses(self) -> tuple[Clause, ...]:
        match self.statement:
            case Merge(clauses=clauses):
                return clauses
            case Update(assignments=assignments):
                return (Clause(When.MATCHED, MergeAction.UPDATE, None, assignments),)
        return (Clause(When.MATCHED, MergeAction.DELETE),)

    @property
    def _has_conditions(self) -> bool:
        """Whether rows of the query may have different actions or no action, as in a MERGE."""
        return isinstance(self.statement, Merge)

    @property
    def _checks_matches(self) -> bool:
        """Whether several matches of a target row are an error.

        True for a MERGE with a WHEN MATCHED clause, unless the only one is a DELETE without a condition.
        """
        if not isinstance(self.statement, Merge):
            return False
        matched = [each for each in self._clauses if each.when == When.MATCHED]
        return bool(matched) and not (
            len(matched) == 1 and matched[0].action == MergeAction.DELETE and matched[0].condition is None
        )

    @property
    def _action_text(self) -> str:
        if not isinstance(self.statement, Merge):
            return "1"
        branches = []
        is_target = f"{self._target}.{backquote(self.places[1])} IS NOT NULL"
        is_source = f"{self._source}.{self._query_column('matched')} IS NOT NULL"
        for when, test in (
            (When.MATCHED, f"{is_target} AND {is_source}"),
            (When.NOT_MATCHED, is_source),
            (When.NOT_MATCHED_BY_SOURCE, is_target),
        ):
            numbered = [(n, each) for n, each in enumerate(self._clauses, 1) if each.when == when]
            if numbered:
                branches.append(f"WHEN {test} THEN {_first_clause(numbered)}")
            elif when == When.MATCHED:
                branches.append(f"WHEN {test} THEN 0")
        return f"CASE {' '.join(branches)} ELSE 0 END"

    def _values(self, clause: Clause) -> list[tuple[t.Field, _Text | None]]:
        """Return the columns that a clause sets or keeps, each with a function that builds the SQL of its new value.

        The function is None for a column that keeps its value. Columns set to `DEFAULT`, and generated columns without
        a value, are left out. Raises `InvalidStatement`, `NoSuchColumn` and `SchemaMismatch` for invalid assignments.
        """
        if clause.action == MergeAction.DELETE:
            return []
        if clause.assignments is None:
            return self._all_values(clause.action)
        assigned: dict[str, list[tuple[tuple[str, ...], Sql]]] = {}
        for each in clause.assignments:
            column = self._column(each)
            assigned.setdefault(column.name, []).append((each.column[1:], each.value))
        found: list[tuple[t.Field, _Text | None]] = []
        for column in self.schema.fields:
            parts = assigned.get(column.name)
            if parts is None:
                if clause.action == MergeAction.UPDATE and column.name not in self.generated:
                    found.append((column, None))
                continue
            if clause.action == MergeAction.UPDATE:
                self._check_stays(column)  # also for DEFAULT
            text = self._new_value(column, parts)
            if text is not None:
                found.append((column, text))
        return found

    def _check_stays(self, column: t.Field) -> None:
        if column.name in self.identities:
            raise SchemaMismatch(
                f"the identity column {column.name!r} cannot be updated: list the other columns to set"
            )

    def _all_values(self, action: MergeAction) -> list[tuple[t.Field, _Text | None]]:
        given = {each.name: self._source_column(each.name) for each in self.schema.fields}
        missing = [
            name for name, found in given.items() if found is None and name not in (*self.generated, *self.identities)
        ]
        assert isinstance(self.statement, Merge)
        if missing and not self.statement.with_schema_evolution:
            raise InvalidStatement(
                f"{'UPDATE SET' if action == MergeAction.UPDATE else 'INSERT'} *: the source has no column "
                f"{missing[0]!r}."
                f"{nearest(missing[0], self.source_columns)} List the columns to set, or merge WITH SCHEMA EVOLUTION"
            )
        found: list[tuple[t.Field, _Text | None]] = []
        for column in self.schema.fields:
            name = given[column.name]
            if name is not None:
                is_kept = action == MergeAction.UPDATE and self.statement.with_schema_evolution
                own = f"{self._target}.{backquote(column.name)}" if is_kept else None
                found.append((column, partial(_cast_whole, f"{self._source}.{backquote(name)}", column, own=own)))
            elif action == MergeAction.UPDATE and column.name not in self.generated:
                found.append((column, None))
        return found

    def _column(self, each: Assignment) -> t.Field:
        name = each.column[0]
        found = match_names(name, self.schema.names, case_sensitive=self.case_sensitive)
        if not found:
            raise NoSuchColumn(
                f"the table has no column {'.'.join(each.column)!r} to set.{nearest(name, self.schema.names)} Columns: "
                f"{', '.join(self.schema.names)}"
            )
        if len(found) > 1:
            raise InvalidStatement(f"{name!r} may be any of the columns {', '.join(found)}")
        return next(column for column in self.schema.fields if column.name == found[0])

    def _source_column(self, name: str) -> str | None:
        """Return the name of the source column that `*` assigns to a column of the target; None if the source lacks it.

        Raises `InvalidStatement` if several source columns match.
        """
        found = match_names(name, self.source_columns, case_sensitive=self.case_sensitive)
        if len(found) > 1:
            raise InvalidStatement(f"the source has several columns for {name!r}: {', '.join(found)}. List the columns")
        return found[0] if found else None

    def _new_value(self, column: t.Field, parts: Sequence[tuple[tuple[str, ...], Sql]]) -> _Text | None:
        """Return the function that builds a column's SQL from assignments to it or its members; None for `DEFAULT`.

        `parts` are the assignments: the path of the struct member (empty for the whole column) and the value. Raises
        `InvalidStatement` for a column that is set twice and for `DEFAULT` of a member.
        """
        if len({path for path, _ in parts}) < len(parts) or (len(parts) > 1 and any(not path for path, _ in parts)):
            raise InvalidStatement(f"the column {column.name!r} is set twice")
        path, value = parts[0]
        if not path:
            return None if _is_default(value) else partial(_cast_whole, parenthesize(value), column)
        member = partial(_member, case_sensitive=self.case_sensitive)
        if any(_is_default(value) for _, value in parts):
            raise InvalidStatement(f"DEFAULT is only for whole columns: no member of {column.name!r} has one")
        return partial(_struct_text, f"{self._target}.{backquote(column.name)}", column, parts, (), member)

    def _old_value_places(self, number: int, old: Mapping[str, int]) -> dict[str, int]:
        """Return the query's indices of the values that the update clause with this number keeps, by column.

        `old` has the indices of all current values in the query.
        """
        return {
            column.name: old[column.name] for column, value in self._values(self._clauses[number - 1]) if value is None
        }


def _first_clause(numbered: Sequence[tuple[int, Clause]]) -> str:
    """Return the SQL for the number of the first clause whose condition is true; 0 if no condition is true."""
    if len(numbered) == 1 and numbered[0][1].condition is None:
        return str(numbered[0][0])
    branches, rest = [], "0"
    for number, clause in numbered:
        if clause.condition is None:
            rest = str(number)
            break
        branches.append(f"WHEN {parenthesize(clause.condition)} THEN {number}")
    return f"CASE {' '.join(branches)} ELSE {rest} END"


def _is_default(value: Sql) -> bool:
    return value.text.strip().upper() == "DEFAULT"


def _cast_whole(text: str, column: t.Field, cast: _CastIn | None, own: str | None = None) -> str:
    return text if cast is None else cast((), text, column, own)


def _struct_text(
    own: str,
    column: t.Field,
    parts: Sequence[tuple[tuple[str, ...], Sql]],
    within: tuple[str, ...],
    member: Callable[[t.Field, str], str],
    cast: _CastIn | None,
) -> str:
    """Return the SQL of a struct with some members set and the others unchanged.

    - `own`: the SQL of the current struct. `column`: the column or member that holds it.
    - `parts`: the assignments, each with the path of the member below `own` and the value.
    - `within`: the path from the column to `own`.
    - `member`: resolves the name of a member.

    Raises `SchemaMismatch` if `column` is not a struct, and `InvalidStatement` for a member that is set twice.
    """
    if not isinstance(column.type, t.Struct):
        raise SchemaMismatch(f"the column {column.name!r} is not a struct: it has no member {parts[0][0][0]!r} to set")
    by_member: dict[str, list[tuple[tuple[str, ...], Sql]]] = {}
    for path, given in parts:
        by_member.setdefault(member(column, path[0]), []).append((path[1:], given))
    members = []
    for each in column.type.fields:
        mine = by_member.get(each.name, [])
        place = f"{own}.{backquote(each.name)}"
        if not mine:
            value = place
        elif not mine[0][0]:
            if len(mine) > 1:
                raise InvalidStatement(f"the member {each.name!r} of {column.name!r} is set twice")
            value = parenthesize(mine[0][1])
            value = value if cast is None else cast((*within, each.name), value, each)
        else:
            value = _struct_text(place, each, mine, (*within, each.name), member, cast)
        members.append(f"{text_literal(each.name)}, {value}")
    return f"named_struct({', '.join(members)})"


def _member(column: t.Field, name: str, *, case_sensitive: bool) -> str:
    """Return the exact name of the struct member that a statement names.

    Raises `NoSuchColumn` if no member matches, and `InvalidStatement` if several match.
    """
    names = [each.name for each in t.children(column.type)]
    found = match_names(name, names, case_sensitive=case_sensitive)
    if not found:
        raise NoSuchColumn(f"{column.name!r} has no member {name!r}.{nearest(name, names)}")
    if len(found) > 1:
        raise InvalidStatement(f"{name!r} may be any of the members {', '.join(found)} of {column.name!r}")
    return found[0]


def parenthesize(value: Sql) -> str:
    """Return a part of the user's text in parentheses.

    A line break keeps a comment at its end from hiding the closing one.
    """
    return f"({value}\n)"
