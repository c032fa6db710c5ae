"""INSERT: convert the rows of a query to the table's columns, and append them or replace rows with them.

Columns are matched by position as in Spark, by the statement's column list, or BY NAME. This module builds the query
for an engine to run, and writes its rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

from lakescan.common import types as t
from lakescan.common.references import backquote, parse_reference, split_list
from lakescan.errors import InvalidStatement, NoSuchColumn, SchemaMismatch, UnsupportedFeature, nearest
from lakescan.expressions.predicate import Comparison, IsNull, Predicate, conjunction
from lakescan.options.session_defaults import evolution_of_session
from lakescan.options.write import WriteOptions
from lakescan.statements.rows.store_assignment import MemberRules, cast_to_column, match_names
from lakescan.statements.rows.target import ChangedTable, changed_table
from lakescan.statements.select.query import Query, columns_of, query, reads_table
from lakescan.statements.select.session import may_have_rounded
from lakescan.statements.syntax.dml import Insert
from lakescan.statements.syntax.text import apply_edits, literal, tokens
from lakescan.statements.syntax.token_reader import TokenReader
from lakescan.tables.base import Target
from lakescan.tables.capabilities import RowLevelChanges, find_capability
from lakescan.tables.results import WriteResult
from lakescan.tables.rows import ArrowRows, Rows
from lakescan.tables.scan_spec import as_predicate
from lakescan.tables.write_rows import append_rows, overwrite_rows
from lakescan.writing.column_rules import ColumnRules
from lakescan.writing.conform import places_of

Columns = Sequence[tuple[str, t.Type]]


@dataclass(frozen=True)
class InsertColumn:
    """A column to write: its name, and the SQL of its value over the query's columns `c0`, `c1`, ..."""

    name: str
    text: str


@dataclass(frozen=True)
class Insertion:
    """An INSERT into an open table.

    - `options`: the write options.
    - `values`: the values of the statement's parameters, by name.
    - `case_sensitive`: whether listed columns must match in case.
    - `checks_floats`: whether DOUBLE values of 2^53 and more (FLOAT: 2^24) are rejected by integer columns. They may be
      integers that pandas rounded.
    """

    statement: Insert
    target: Target
    options: WriteOptions
    values: Mapping[str, Any]
    case_sensitive: bool = False
    checks_floats: bool = False

    @property
    def _fields(self) -> Sequence[t.Field]:
        return self.target.writes.schema.fields

    def _column(self, name: str) -> t.Field:
        """Return the table's column of a name; raises `NoSuchColumn` if no column or several columns match."""
        names = [each.name for each in self._fields]
        found = match_names(name, names, case_sensitive=self.case_sensitive)
        if len(found) != 1:
            what = f"the table {self.target.name} has no column {name!r}" if not found else f"{name!r} is ambiguous"
            raise NoSuchColumn(f"{what}.{nearest(name, names)} Columns: {', '.join(names)}")
        return next(each for each in self._fields if each.name == found[0])

    @cached_property
    def partition(self) -> dict[str, str]:
        """The values of PARTITION as SQL text, by column.

        Columns without a value (dynamic partition columns) are left out. Raises `InvalidStatement` for a column that is
        not a partition column.
        """
        partitioning = self.target.scan.table.partitioning
        names = set(self.target.writes.partition_sources).intersection(
            names[0] for names in map(parse_reference, _fields_of(partitioning)) if len(names) == 1
        )
        found = {}
        for name, value in self.statement.partition:
            column = self._column(name)
            if column.name not in names:
                raise InvalidStatement(
                    f"PARTITION takes partition columns, and {column.name!r} is not one: the partitioning of "
                    f"{self.target.name} is {partitioning}"
                )
            if value is not None:
                found[column.name] = with_values(value.text, self.values)
        return found

    @cached_property
    def target_columns(self) -> list[t.Field] | None:
        """The table's columns for the query's columns, in order; None if they are matched by name.

        Raises `InvalidStatement` for a column that is listed twice or also has a value in PARTITION.
        """
        if self.statement.by_name:
            return None
        if self.statement.columns is None:
            return [each for each in self._fields if each.name not in self.partition]
        found = [self._column(name) for name in self.statement.columns]
        names = [each.name for each in found]
        if twice := [name for n, name in enumerate(names) if name in names[:n]]:
            raise InvalidStatement(f"the column {twice[0]!r} is listed twice")
        if both := [each.name for each in found if each.name in self.partition]:
            raise InvalidStatement(f"the column {both[0]!r} is listed, and has a value in PARTITION")
        return found

    @cached_property
    def _with_defaults(self) -> tuple[str, frozenset[int]]:
        text = self.statement.query.text
        rules, has_others = self.target.writes.rules, bool(self.partition)
        text, places = with_defaults(text, self.target_columns, rules, has_others=has_others)
        clause = self.statement.with_clause
        if clause is None:
            return text, places
        is_nested = tokens(text)[0].text.upper() == "WITH"
        return f"{clause}\n" + (f"SELECT * FROM ({text}\n)" if is_nested else text), places

    @property
    def query(self) -> str:
        """The SQL query of the rows, with `DEFAULT` replaced and the WITH clause before INSERT added."""
        return self._with_defaults[0]

    def outputs(self, found: Columns, kinds: Sequence[t.Type], *, ansi: bool) -> list[InsertColumn]:
        """Return the columns to write, each with the SQL that casts the query's value to the column's type.

        Args:
            found: The names and types of the query's columns.
            kinds: The types of the values of PARTITION.
            ansi: Whether the session's casts fail for values that do not fit.

        Raises:
            SchemaMismatch: The number or the types of the columns do not fit the table.
            NoSuchColumn: Columns are matched BY NAME, and the table lacks a column of the query.
        """
        _, left_out = self._with_defaults
        outputs = []
        for n, (column, (name, kind)) in enumerate(zip(self._match_columns(found), found, strict=True)):
            if n in left_out:
                continue
            if column is not None and self.target_columns is not None:
                _check_members(column.name, kind, column.type)
            text = backquote(f"c{n}")
            if column is None:
                outputs.append(InsertColumn(name, text))
                continue
            evolves = self.statement.with_schema_evolution
            fills, takes_texts = evolves and self.target.writes.fills_members, not _follows_jar(self.target)
            members = MemberRules(evolves, fills, takes_texts)
            value = cast_to_column(text, kind, column, ansi=ansi, checks_floats=self.checks_floats, members=members)
            outputs.append(InsertColumn(column.name, value))
        for (name, text), kind in zip(self.partition.items(), kinds, strict=True):
            outputs.append(InsertColumn(name, cast_to_column(text, kind, self._column(name), ansi=ansi)))
        return outputs

    def _match_columns(self, found: Columns) -> list[t.Field | None]:
        """Return the table's column for each column of the query; None for a column to add (schema evolution).

        `found` has the names and types of the query's columns. Raises `SchemaMismatch` for a wrong number of columns,
        and `NoSuchColumn` or `InvalidStatement` for a name that cannot be matched.
        """
        evolves = self.statement.with_schema_evolution
        names = [name for name, _ in found]
        if self.target_columns is None:
            known = [each.name for each in self._fields]
            if both := [name for name in names if name.lower() in {each.lower() for each in self.partition}]:
                raise InvalidStatement(f"the query has the column {both[0]!r}, which has a value in PARTITION")
            return [
                self._column(each)
                if not evolves or match_names(each, known, case_sensitive=self.case_sensitive)
                else None
                for each in names
            ]
        expected, adds_columns = len(self.target_columns), evolves and self.statement.columns is None
        if len(found) < expected or (len(found) > expected and not adds_columns):
            wanted = ", ".join(each.name for each in self.target_columns)
            raise SchemaMismatch(
                f"INSERT INTO {self.target.name}: the query has {len(found)} columns ({', '.join(names)}) for "
                f"{expected} columns of the table ({wanted}). Columns are matched by position: list the columns, "
                "INSERT INTO table (a, b) ..., or match them BY NAME"
            )
        return [*self.target_columns, *[None] * (len(found) - expected)]

    def projection_query(self, outputs: Sequence[InsertColumn], count: int) -> str:
        """Return the SQL query of the columns to write. `count` is the number of columns in `self.query`."""
        columns = ", ".join(f"{each.text} AS {backquote(each.name)}" for each in outputs)
        names = ", ".join(backquote(f"c{n}") for n in range(count))
        return f"SELECT {columns} FROM ({self.query}\n) AS `lakescan_rows` ({names})"

    def write(
        self, rows: Rows, outputs: Sequence[InsertColumn], value_of: Callable[[str], Any], *, reads_target: bool
    ) -> WriteResult:
        """Write the rows and commit them.

        Args:
            rows: The rows.
            outputs: The columns of the rows.
            value_of: Evaluates the SQL of a constant expression.
            reads_target: Whether the query reads the table. An overwrite then conflicts with all concurrent commits.
        """
        if not self.statement.overwrite:
            return append_rows(self.target, rows, self.options)
        where = self._overwrite_filter({each.name: each.text for each in outputs}, value_of)
        return overwrite_rows(self.target, rows, self.options, where, reads_target=reads_target)

    def _overwrite_filter(self, texts: Mapping[str, str], value_of: Callable[[str], Any]) -> Predicate | None:
        """Return the filter of the rows to replace; None for all rows, or for dynamic partition overwrite.

        `texts` has the SQL of PARTITION's values by column, and `value_of` evaluates it.
        """
        if self.statement.replace_where is not None:
            return as_predicate(with_values(self.statement.replace_where.text, self.values))
        if not self.partition or self.options.is_dynamic:
            return None
        tests: list[Predicate] = []
        for name in self.partition:
            value = value_of(texts[name])
            tests.append(IsNull(backquote(name)) if value is None else Comparison(backquote(name), op="=", value=value))
        return conjunction(tests)


def _fields_of(partitioning: str) -> tuple[str, ...]:
    return split_list(partitioning, keep_calls=True)


def _follows_jar(target: Target) -> bool:
    rules = find_capability(target, RowLevelChanges)
    return rules is not None and rules.follows_jar


def run_insert(
    statement: Insert,
    found: ChangedTable,
    values: Mapping[str, Any],
    run: Callable[[Insertion], WriteResult],
    *,
    dynamic: bool = False,
    case_sensitive: bool = False,
    checks_floats: bool = False,
) -> WriteResult:
    """Run an INSERT with an engine.

    Args:
        statement: The statement.
        found: The table to insert into.
        values: The values of its parameters, by name.
        run: Runs the query and writes its rows.
        dynamic: Whether an overwrite replaces the partitions of its rows if PARTITION does not fix all of them.
        case_sensitive: Whether listed columns must match in case.
        checks_floats: See `Insertion`.
    """
    count = len(_fields_of(found.table.partitioning))
    given = [value for _, value in statement.partition if value is not None]
    is_dynamic = dynamic and statement.overwrite and statement.replace_where is None and len(given) < count
    if evolution_of_session(found.session, found.table.format):
        statement = replace(statement, with_schema_evolution=True)
    more: dict[str, Any] = {"mergeSchema": True} if statement.with_schema_evolution else {}
    options = {**more, **({"overwrite-mode": "dynamic"} if is_dynamic else {}), **statement.options}
    return found.run(
        options,
        lambda target, checked: run(Insertion(statement, target, checked, values, case_sensitive, checks_floats)),
    )


def insert(
    statement: Insert, args: Mapping[str, Any], frames: Mapping[str, Any], within: tuple[str, ...], text: str
) -> WriteResult:
    """Run an SQL INSERT in this process.

    `args` are the values of its parameters by name, `within` is the catalog and namespace of short names, and `text` is
    the statement for messages.
    """

    def run(text: str) -> Query:
        return query(text, args or None, frames, within)

    def value_of(text: str) -> Any:
        return run(f"SELECT {text} AS v").to_arrow()["v"][0].as_py()

    def run_insertion(one: Insertion) -> WriteResult:
        asked = run(one.query)
        columns = columns_of(asked)
        kinds = [columns_of(run(f"SELECT {text} AS v"))[0][1] for text in one.partition.values()]
        outputs = one.outputs(columns, kinds, ansi=True)
        rows = run(one.projection_query(outputs, len(columns)))
        reader = rows.to_reader()
        reads_target = reads_table(rows, one.target.scan.table.location)
        return one.write(ArrowRows(reader.schema, reader), outputs, value_of, reads_target=reads_target)

    found = changed_table(statement.target, within, frames, text)
    return run_insert(statement, found, args, run_insertion, checks_floats=may_have_rounded(frames))


def _check_members(path: str, found: t.Type, kind: t.Type) -> None:
    """Raise `SchemaMismatch` for a struct whose members are in another order than the column's, at any depth.

    `path` is the column's name for messages, `found` the type of the value, and `kind` the type of the column. Spark
    matches members by position, and Delta sometimes by name. The writer matches them by name, so the result is the same
    for all only if the order is the same.
    """
    match found, kind:
        case t.Struct(), t.Struct():
            places = places_of(found.fields, kind.fields)
            order = [place for place in places if place is not None]
            if order != sorted(order):
                theirs, ours = (", ".join(each.name for each in of.fields) for of in (found, kind))
                raise SchemaMismatch(
                    f"column {path!r} has the members {ours}, and its value {theirs}. INSERT matches by position: list "
                    "the members in the column's order, or match them by name, INSERT INTO table BY NAME"
                )
            for each, place in zip(found.fields, places, strict=True):
                if place is not None:
                    _check_members(f"{path}.{each.name}", each.type, kind.fields[place].type)
        case t.ListOf(), t.ListOf():
            _check_members(f"{path}.element", found.element.type, kind.element.type)
        case t.MapOf(), t.MapOf():
            _check_members(f"{path}.key", found.key.type, kind.key.type)
            _check_members(f"{path}.value", found.value.type, kind.value.type)


_SETS = ("UNION", "EXCEPT", "INTERSECT", "MINUS")


def with_defaults(
    query: str, columns: Sequence[t.Field] | None, rules: ColumnRules, *, has_others: bool = False
) -> tuple[str, frozenset[int]]:
    """Replace `DEFAULT` by values in VALUES, and in the select list of a single SELECT without FROM.

    Args:
        query: The text.
        columns: The columns of its values, in order; None if they are matched by name.
        rules: The table's rules for filling columns.
        has_others: Whether the statement sets other columns, in PARTITION.

    Returns:
        The text, and the indices of columns with DEFAULT in all rows, which the writer fills. Rows need at least one
        column, so if all columns have DEFAULT, one of them gets its value in the text.

    Raises:
        InvalidStatement: Values are matched by name.
        UnsupportedFeature: A default in some rows that is not a literal, or rows whose values are all computed.
    """
    if "default" not in query.lower():
        return query, frozenset()
    words = TokenReader(query)
    rows = _rows(words)
    marked = [
        {n for n, (start, end) in enumerate(row) if end == start + 1 and words.spells(start, "DEFAULT")} for row in rows
    ]
    if not any(marked):
        return query, frozenset()
    if columns is None:
        at = next(row[min(found)][0] for row, found in zip(rows, marked, strict=True) if found)
        raise words.error("DEFAULT is for values that are matched by position, not BY NAME", at)
    is_alone = words.find(lambda n: any(words.spells(n, each) for each in _SETS)) == len(words.words)
    everywhere = frozenset.intersection(*(frozenset(each) for each in marked)) if is_alone else frozenset()
    if rows and everywhere and not has_others and all(len(row) == len(everywhere) for row in rows):
        everywhere -= {_first_literal(columns, everywhere, rules)}
    edits = []
    for row, places in zip(rows, marked, strict=True):
        for n in places:
            token = words.words[row[n][0]]
            is_known = n in everywhere or n >= len(columns)
            value = "NULL" if is_known else _default_of(columns[n], rules)
            edits.append((token.start, token.end + 1, value))
    return apply_edits(query, edits), everywhere


def _rows(words: TokenReader) -> list[list[tuple[int, int]]]:
    """Return the token ranges of the values in each row of VALUES or of a single SELECT without FROM.

    Returns an empty list for other queries.
    """
    end = len(words.words)
    start = words.find(lambda n: words.spells(n, "VALUES") or words.spells(n, "SELECT"))
    if start >= end:
        return []
    if words.spells(start, "VALUES"):
        rows = []
        for first, behind in words.split_items(start + 1, end):
            is_row = words.words[first].text == "("
            rows.append(words.split_items(first + 1, words.closing(first)) if is_row else [(first, behind)])
        return rows
    if words.find(lambda n: n > start and words.spells(n, "SELECT")) < end:
        return []  # several queries may have different values
    if words.find(lambda n: words.spells(n, "FROM")) < end:
        return []  # the tables may have a column named `default`
    first = start + 1 + (words.spells(start + 1, "ALL") or words.spells(start + 1, "DISTINCT"))
    ends = ("WHERE", "LIMIT", *_SETS)
    return [words.split_items(first, words.find(lambda n: any(words.spells(n, each) for each in ends), first))]


def _first_literal(columns: Sequence[t.Field], places: frozenset[int], rules: ColumnRules) -> int:
    """Return the first index in `places` whose column is not computed, so that its default is a literal or null.

    Raises `UnsupportedFeature` if all of them are generated or identity columns.
    """
    for n in sorted(places):
        if n < len(columns) and columns[n].name not in {*rules.generated, *rules.identities}:
            return n
    raise UnsupportedFeature(
        f"rows whose values are all computed: {', '.join(each.name for each in columns)}",
        "Add a value for another column.",
    )


def _default_of(column: t.Field, rules: ColumnRules) -> str:
    """Return the default of a column as an SQL literal, NULL without a default.

    Raises `UnsupportedFeature` for a generated or identity column.
    """
    if column.name in rules.generated or column.name in rules.identities:
        raise UnsupportedFeature(
            f"DEFAULT for the computed column {column.name!r} in only some rows",
            "Insert these rows with a separate statement.",
        )
    if (found := rules.defaults.get(column.name)) is not None:
        return literal(found.as_py())
    return literal(column.write_default)


def with_values(text: str, values: Mapping[str, Any], of: Callable[[Any], str] = literal) -> str:
    """Return the text with its named parameters replaced by SQL literals. `of` converts a value to SQL.

    Parameters without a value are left unchanged.
    """
    if not values or ":" not in text:
        return text
    words = TokenReader(text).words
    edits = []
    for mark, name in pairwise(words):
        is_parameter = mark.text == ":" and name.text in values and mark.end + 1 == name.start
        if is_parameter and not (mark.start and (text[mark.start - 1].isalnum() or text[mark.start - 1] in "_`)]")):
            edits.append((mark.start, name.end + 1, of(values[name.text])))
    return apply_edits(text, edits)
