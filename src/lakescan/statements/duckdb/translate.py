"""Translate whole queries: WITH, SELECT, set operations and VALUES, and the tables and subqueries of FROM."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from decimal import Decimal
from operator import is_
from typing import Any

from lakescan.common import types as t
from lakescan.common.distinct_names import distinct_names
from lakescan.errors import InvalidFilter, InvalidStatement, UnsupportedFeature
from lakescan.expressions.scalar.functions import FUNCTIONS
from lakescan.expressions.scalar.parse import parse_query
from lakescan.expressions.scalar.time_functions import clock_values
from lakescan.expressions.scalar.typed_sql import (
    TypedSql,
    common_type,
    convert,
    literal,
    quote_name,
    sql_type,
    unsupported_error,
)
from lakescan.statements.duckdb import select
from lakescan.statements.duckdb.aggregates import AGGREGATES, MissingAggregation, normalize_zero
from lakescan.statements.duckdb.expressions import ExpressionTranslator
from lakescan.statements.duckdb.from_clause import FromItem
from lakescan.statements.duckdb.scope import Names, NameScope, ScopeColumn
from lakescan.statements.duckdb.select import OutputColumn
from lakescan.statements.duckdb.types import cell_of, column_of
from lakescan.statements.duckdb.windows import WINDOW_FUNCTIONS, order_key
from lakescan.statements.select.table_changes import is_call
from lakescan.statements.select.table_references import argument, definition_of

_SET_OPERATIONS = {"Union": "UNION", "Intersect": "INTERSECT", "Except": "EXCEPT"}


@dataclass(frozen=True)
class QueryTable:
    """A table that is registered in DuckDB as `name`, with the names and Spark types of its columns.

    - `qualifiers`: names, in lower case, that may precede its columns if it has no alias.
    - `pads`: the length n of each CHAR(n) column, by name.
    - `hidden`: metadata columns, which `*` leaves out.
    """

    name: str
    columns: Sequence[tuple[str, t.Type]]
    qualifiers: frozenset[Names]
    pads: Mapping[str, int] = field(default_factory=dict)
    hidden: frozenset[str] = frozenset()


@dataclass
class QueryTranslator:
    """Translates the queries of one statement.

    - `text`: the statement as it was parsed.
    - `tables`: returns the table of a sqlglot table node.
    - `constants`: the values of functions without arguments, such as `current_date`, by name.
    - `parameters`: the values of the statement's parameters, by name.
    - `computes_times`: set to True if an expression does more than compare a date or timestamp column.
    - `_names`: the number of names from `new_name`.
    - `_with`: the SQL name and columns of each WITH query, by the id of its node.
    - `_known`: the translated subqueries, by text.
    """

    text: str
    tables: Callable[[Any], QueryTable]
    constants: Mapping[str, TypedSql]
    parameters: Mapping[str, TypedSql]
    computes_times: bool = False
    _names: int = 0
    _with: dict[int, tuple[str, list[OutputColumn]]] = field(default_factory=dict)
    _known: dict[str, list[Any]] = field(default_factory=dict)

    def new_name(self) -> str:
        """Return a new table alias (r1, r2, ...), which is not used elsewhere in the translation."""
        self._names += 1
        return f"r{self._names}"

    def inner(self, node: Any, scope: NameScope) -> tuple[str, list[TypedSql]]:
        """Return the SQL of a subquery, and its columns qualified by `q`.

        `scope` has the columns of the outer query.
        """
        sql, outputs = self._inner(node, scope)
        return sql, [cell_of(f"q.c{n}", each.value) for n, each in enumerate(outputs)]

    def _inner(self, node: Any, scope: NameScope) -> tuple[str, list[OutputColumn]]:
        """Translate a subquery, and reuse the translation for the same text in the same scope.

        Equal SQL matters because expressions are matched with the keys of GROUP BY by their SQL.
        """
        if scope.aliases:
            return self.query(node, scope)
        of = (scope.columns, scope.outer, scope.as_grouped is None)
        found = next((each for each in self._known.get(str(node), ()) if all(map(is_, each[:3], of))), None)
        if found is None:
            found = (*of, self.query(node, scope))
            self._known.setdefault(str(node), []).append(found)
        return found[3]

    def query(self, node: Any, outer: NameScope | None, is_final: bool = False) -> tuple[str, list[OutputColumn]]:
        """Return the SQL of a query, and its columns. `outer` has the columns of the outer query.

        In the SQL, the columns are named c0, c1, ..., or by their own names for the outermost query (`is_final`).
        Raises `UnsupportedFeature` and `InvalidStatement`.
        """
        from sqlglot import exp

        with_ = argument(node, "with")
        prefix = "" if with_ is None else self._with_clause(with_, outer)
        match node:
            case exp.Select():
                sql, outputs = select.translate_select(node, self, outer, is_final)
            case exp.SetOperation():
                sql, outputs = self._wrap_query(node, *self._set_operation(node, outer), is_final)
            case exp.Subquery() if not isinstance(node.this, exp.Table):
                known = {"this", "alias", "order", "limit", "offset", "with", "with_"}
                if {key for key, value in node.args.items() if value} - known:
                    raise unsupported_error(f"{node.sql('spark')[:60]!r}")
                if any(node.args.get(key) for key in ("order", "limit", "offset")):
                    sql, outputs = self._wrap_query(node, *self.query(node.this, outer), is_final)
                else:
                    sql, outputs = self.query(node.this, outer, is_final)
            case exp.Values():
                sql, outputs = self._wrap_query(node, *self._values(node, outer), is_final)
            case _:
                raise unsupported_error(f"{node.sql('spark')[:60]!r}")
        return prefix + sql, outputs

    # WITH

    def _with_clause(self, with_: Any, outer: NameScope | None) -> str:
        parts = []
        for each in with_.expressions:
            if with_.args.get("recursive") and _names_itself(each):
                parts.append(self._recursive(each, outer))
                continue
            sql, outputs = self.query(each.this, outer)
            name = self.new_name()
            self._with[id(each)] = (name, _apply_alias(outputs, each.args.get("alias")))
            parts.append(f"{name} AS ({sql})")
        word = "WITH RECURSIVE" if with_.args.get("recursive") else "WITH"
        return f"{word} {', '.join(parts)} "

    def _recursive(self, each: Any, outer: NameScope | None) -> str:
        """Translate a recursive WITH query. Its column types are those of the part before UNION ALL.

        Raises `UnsupportedFeature` without UNION ALL, or if the other part has wider types.
        """
        from sqlglot import exp

        if not isinstance(each.this, exp.Union) or each.this.args.get("distinct"):
            raise unsupported_error("WITH RECURSIVE without UNION ALL")
        first, outputs = self.query(each.this.this, outer)
        name = self.new_name()
        self._with[id(each)] = (name, _apply_alias(outputs, each.args.get("alias")))
        rest, more = self.query(each.this.expression, outer)
        if len(more) != len(outputs):
            raise InvalidStatement(f"UNION ALL of queries with {len(outputs)} and {len(more)} columns")
        cells = []
        for n, (wanted, found) in enumerate(zip(outputs, more, strict=True)):
            cell = TypedSql(f"q.c{n}", found.value.type)
            if common_type(replace(wanted.value, literal=None), cell, "WITH RECURSIVE") != wanted.value.type:
                raise unsupported_error(
                    "WITH RECURSIVE whose parts have different types (cast the columns of the first)"
                )
            cells.append(f"{convert(cell, wanted.value.type).sql} AS c{n}")
        if [one.value.type for one in more] != [one.value.type for one in outputs]:
            rest = f"SELECT {', '.join(cells)} FROM ({rest}) AS q"
        columns = ", ".join(f"c{n}" for n in range(len(outputs)))
        return f"{name}({columns}) AS ({first} UNION ALL {rest})"

    # Unions, VALUES

    def _set_operation(self, node: Any, outer: NameScope | None) -> tuple[str, list[OutputColumn]]:
        known = {"this", "expression", "distinct", "order", "limit", "offset", "with", "with_"}
        if extra := {key for key, value in node.args.items() if value} - known:
            raise unsupported_error(f"{type(node).__name__.upper()} with {min(extra).replace('_', ' ').upper()}")
        word = _SET_OPERATIONS[type(node).__name__]
        is_distinct = bool(node.args.get("distinct"))
        (left, ones), (right, others) = self.query(node.this, outer), self.query(node.expression, outer)
        if len(ones) != len(others):
            raise InvalidStatement(f"{word} of queries with {len(ones)} and {len(others)} columns")
        outputs = []
        sides: tuple[list[str], list[str]] = ([], [])
        for n, (one, other) in enumerate(zip(ones, others, strict=True)):
            cells = TypedSql(f"q.c{n}", one.value.type), TypedSql(f"q.c{n}", other.value.type)
            kind = common_type(*cells, word)
            for cell, side in zip(cells, sides, strict=True):
                value = convert(cell, kind)
                side.append(f"{value.sql if word == 'UNION' and not is_distinct else normalize_zero(value)} AS c{n}")
            outputs.append(OutputColumn(one.name, TypedSql(f"q.c{n}", kind, pad=one.value.pad)))
        first, second = (
            f"SELECT {', '.join(side)} FROM ({sql}) AS q" for side, sql in zip(sides, (left, right), strict=True)
        )
        return f"{first} {word}{'' if is_distinct else ' ALL'} {second}", outputs

    def _wrap_query(
        self, node: Any, sql: str, outputs: list[OutputColumn], is_final: bool
    ) -> tuple[str, list[OutputColumn]]:
        """Return the query `SELECT ... FROM (sql)` with the ORDER BY and LIMIT of `node`, and its columns."""
        cells = [cell_of(f"q.c{n}", each.value) for n, each in enumerate(outputs)]
        found = [OutputColumn(each.name, cell) for each, cell in zip(outputs, cells, strict=True)]
        listed = ", ".join(f"q.c{n} AS {select.label(each.name, n, is_final)}" for n, each in enumerate(outputs))
        order = node.args.get("order")
        keys = ""
        if order is not None:
            columns = [ScopeColumn(each.name, each.value) for each in found]
            values = ExpressionTranslator(NameScope(columns), self)
            keys = " ORDER BY " + ", ".join(self._key(each, found, values) for each in order.expressions)
        return f"SELECT {listed} FROM ({sql}) AS q{keys}{select.limits(node, self)}", found

    def _key(self, node: Any, outputs: list[OutputColumn], values: ExpressionTranslator) -> str:
        from sqlglot import exp

        each = node.this
        if isinstance(each, exp.Literal) and not each.is_string and each.name.isdecimal():
            if not 1 <= int(each.name) <= len(outputs):
                raise InvalidStatement(f"there is no column {each.name} in this query, which has {len(outputs)}")
            return order_key(outputs[int(each.name) - 1].value, node)
        return order_key(values(each), node)

    def _values(self, node: Any, outer: NameScope | None) -> tuple[str, list[OutputColumn]]:
        from sqlglot import exp

        values = ExpressionTranslator(NameScope((), outer), self)
        rows = [
            [values(cell) for cell in (each.expressions if isinstance(each, exp.Tuple) else [each])]
            for each in node.expressions
        ]
        if len({len(each) for each in rows}) != 1:
            raise InvalidStatement("VALUES with rows of different lengths")
        kinds = []
        for column in zip(*rows, strict=True):
            whole = literal(None, t.UNKNOWN)
            for cell in column:
                whole = TypedSql("", common_type(whole, cell, "VALUES"))
            kinds.append(whole.type)
        cells = [[convert(cell, kind) for cell, kind in zip(each, kinds, strict=True)] for each in rows]
        texts = [", ".join(map(_cell, each)) for each in cells]
        columns = ", ".join(f"c{n}" for n in range(len(kinds)))
        sql = f"SELECT * FROM (VALUES {', '.join(f'({text})' for text in texts)}) AS v({columns})"
        return sql, [OutputColumn(f"col{n}", TypedSql(f"q.c{n - 1}", kind)) for n, kind in enumerate(kinds, 1)]

    # FROM

    def relation(self, node: Any, outer: NameScope | None) -> FromItem:
        """Translate a table, subquery or VALUES in FROM, with its alias. `outer` has the columns of the outer query."""
        from sqlglot import exp

        name = self.new_name()
        if isinstance(node, exp.Table) and (isinstance(node.this, exp.Identifier | exp.Dot) or is_call(node)):
            return self._table(node, name)
        if not isinstance(node, exp.Subquery | exp.Values) or (node.args.get("pivots") or node.args.get("sample")):
            raise unsupported_error(f"{node.sql('spark')[:60]!r} in FROM")
        sql, outputs = self.query(node, outer)
        qualifiers: frozenset[Names] = frozenset({(node.alias.lower(),)} if node.alias else ())
        columns = [
            ScopeColumn(each.name, cell_of(f"{name}.c{n}", each.value), qualifiers)
            for n, each in enumerate(_apply_alias(outputs, node.args.get("alias")))
        ]
        return FromItem(f"({sql}) AS {name}", columns)

    def _table(self, node: Any, name: str) -> FromItem:
        extra = {key for key, value in node.args.items() if value}
        extra -= {"this", "db", "catalog", "alias", "version", "joins"}
        if extra:
            raise unsupported_error(f"{min(extra).upper().removesuffix('S')} of a table")
        defined = None if is_call(node) else definition_of(node)
        alias = node.args.get("alias")
        qualifiers: frozenset[Names] = frozenset({(node.alias.lower(),)} if node.alias else ())
        own: frozenset[Names] = frozenset({(node.name.lower(),)})
        hidden: frozenset[str] = frozenset()
        if defined is not None:
            if id(defined) not in self._with:
                raise unsupported_error(f"the recursive query {node.name!r} of WITH")
            query, outputs = self._with[id(defined)]
            cells = [(each.name, cell_of(f"{name}.c{n}", each.value)) for n, each in enumerate(outputs)]
            sql = f"{query} AS {name}"
        else:
            given = self.tables(node)
            quoted = list(map(quote_name, distinct_names([column for column, _ in given.columns])))
            cells = [
                (column, TypedSql(f"{name}.c{n}", kind, pad=given.pads.get(column, 0)))
                for n, (column, kind) in enumerate(given.columns)
            ]
            read = [column_of(each, kind).sql for each, (_, kind) in zip(quoted, given.columns, strict=True)]
            listed = ", ".join(f"{each} AS c{n}" for n, each in enumerate(read)) or "1 AS c"
            sql, own = f'(SELECT {listed} FROM "{given.name}") AS {name}', given.qualifiers
            hidden = given.hidden
        names = [each.name for each in alias.columns] if alias is not None else []
        shown = [column for column, _ in cells if column not in hidden]
        if names and len(names) != len(shown):
            raise InvalidStatement(f"{len(names)} names for the {len(shown)} columns of {node.name!r}")
        new = iter(names or shown)
        columns = []
        for column, value in cells:
            is_metadata = column in hidden
            shown_name = column if is_metadata else next(new)
            columns.append(
                ScopeColumn(shown_name, value, qualifiers or own, is_hidden=is_metadata, is_metadata=is_metadata)
            )
        return FromItem(sql, columns)


def _apply_alias(outputs: list[OutputColumn], alias: Any) -> list[OutputColumn]:
    """Return the columns renamed by the column names of an alias, as in `q(a, b)`; unchanged without column names.

    Raises `InvalidStatement` if the numbers of names and columns differ.
    """
    names = [each.name for each in alias.columns] if alias is not None else []
    if names and len(names) != len(outputs):
        raise InvalidStatement(f"{len(names)} names for the {len(outputs)} columns of {alias.name!r}")
    return [replace(each, name=name) for each, name in zip(outputs, names, strict=True)] if names else outputs


def _names_itself(cte: Any) -> bool:
    from sqlglot import exp

    return any(definition_of(each) is cte for each in cte.this.find_all(exp.Table))


def _cell(of: TypedSql) -> str:
    """Return a value of VALUES as SQL, cast to its type. Nested values are not cast."""
    return of.sql if t.children(of.type) else f"CAST({of.sql} AS {sql_type(of.type)})"


_ADVICE = (
    "DuckDB cannot evaluate it, or might return another result than Spark. Run the statement with lakescan.spark.sql."
)
_DEEP = "Split it into several statements, or run it with lakescan.spark.sql."


@dataclass(frozen=True)
class DuckDBQuery:
    """A query for DuckDB, and the columns of its result with their types in Spark.

    `computes_times`: whether it computes with date or timestamp columns, whose values DuckDB must be able to represent.
    """

    sql: str
    columns: Sequence[tuple[str, t.Type]]
    computes_times: bool


def translate_query(
    text: str, tables: Callable[[Any], QueryTable], values: Mapping[str, Any], now: datetime | None = None
) -> DuckDBQuery:
    """Translate a query in Spark's dialect to DuckDB's.

    `tables` returns the table of a sqlglot table node, and `values` are the query's parameters, by name. `now` is the
    time that `current_timestamp()` and similar functions return, by default the present.

    Raises `InvalidStatement` for an invalid query, and `UnsupportedFeature` with the name of the first part that cannot
    be translated.
    """
    constants = clock_values(now or datetime.now(UTC))
    try:
        parameters = {name: parameter(value) for name, value in values.items()}
        queries = QueryTranslator(text, tables, constants, parameters)
        sql, outputs = queries.query(parse_query(text), None, is_final=True)
    except UnsupportedFeature as error:
        feature = error.feature.removesuffix(" in an SQL expression")
        raise UnsupportedFeature(
            f"{feature} in SQL that runs in this process", _suggest_function(feature) + _ADVICE
        ) from error
    except (InvalidFilter, MissingAggregation) as error:
        raise InvalidStatement(str(error)) from error
    except RecursionError:
        raise UnsupportedFeature("a statement of this depth in SQL that runs in this process", _DEEP) from None
    return DuckDBQuery(sql, [(each.name, each.value.type) for each in outputs], queries.computes_times)


def _suggest_function(feature: str) -> str:
    """Return "Did you mean ...? " for an unknown function whose name is similar to a known one; otherwise ""."""
    called = re.fullmatch(r"the function (\w+)\(\)", feature)
    known = {*FUNCTIONS, *AGGREGATES, *WINDOW_FUNCTIONS}
    alike = difflib.get_close_matches(called[1].lower(), sorted(known), n=1, cutoff=0.85) if called else []
    return f"Did you mean {alike[0]}()? " if alike else ""


def parameter(value: Any) -> TypedSql:
    """Return the literal of a parameter's value: None, or a boolean, number, string, date or timestamp.

    Raises `UnsupportedFeature` for other types, and for integers that BIGINT cannot hold.
    """
    match value:
        case None:
            return literal(None, t.UNKNOWN)
        case bool():
            return literal(value, t.BOOLEAN)
        case int():
            if not -(2**63) <= value < 2**63:
                raise unsupported_error(f"the parameter {value}, which is out of range for BIGINT,")
            return literal(value, t.INT if -(2**31) <= value < 2**31 else t.LONG)
        case float():
            return literal(value, t.DOUBLE)
        case str():
            return literal(value, t.STRING)
        case Decimal() if value.is_finite():
            scale = max(-int(value.as_tuple().exponent), 0)
            digits = max(len(value.as_tuple().digits) + max(int(value.as_tuple().exponent), 0), scale)
            return literal(value, t.Decimal(digits, scale))
        case datetime():
            is_zoned = value.tzinfo is not None
            plain = value.astimezone(UTC).replace(tzinfo=None) if is_zoned else value
            return TypedSql(f"CAST('{plain}' AS TIMESTAMP)", t.Timestamp(zoned=True))
        case date():
            return TypedSql(f"CAST('{value}' AS DATE)", t.DATE)
    raise unsupported_error(f"a parameter of type {type(value).__name__}")
