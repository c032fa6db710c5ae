"""Translate the expressions of a query: aggregates, windows, intervals, subqueries, and all of `expressions.scalar`."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any, Protocol

from lakescan.common import types as t
from lakescan.errors import InvalidStatement
from lakescan.expressions.scalar import time_functions
from lakescan.expressions.scalar.conditions import chain, inverse
from lakescan.expressions.scalar.functions import FUNCTIONS
from lakescan.expressions.scalar.lambdas import HIGHER_ORDER
from lakescan.expressions.scalar.translate import BY_UNIT, MOVED_BY_UNIT, Translator
from lakescan.expressions.scalar.typed_sql import TypedSql, align, literal, unsupported_error
from lakescan.statements.duckdb import in_queries
from lakescan.statements.duckdb.aggregates import (
    AGGREGATES,
    AggregateCall,
    Groups,
    MissingAggregation,
    aggregate,
    listagg,
    percentile,
    percentile_disc,
)
from lakescan.statements.duckdb.scope import Names, NameScope
from lakescan.statements.duckdb.windows import WINDOW_FUNCTIONS, order_key, window_call, window_sql
from lakescan.statements.syntax.text import underline_place

_WRAPPERS = ("Filter", "WithinGroup", "IgnoreNulls", "RespectNulls", "Window")
_COMPARED = ("EQ", "NEQ", "LT", "LTE", "GT", "GTE", "NullSafeEQ", "NullSafeNEQ")


def _comparison_nodes() -> tuple[type, ...]:
    """Return the sqlglot classes whose nodes only select, compare, sort or group their date and timestamp operands."""
    from sqlglot import exp

    return (exp.Select, exp.Alias, exp.Ordered, exp.Group, exp.Predicate, exp.Distinct, exp.Window)


class SubqueryTranslator(Protocol):
    """Translates subqueries of an expression, and holds the state of the statement's translation.

    - `text`: the statement.
    - `constants`: the values of functions without arguments, such as `current_date`, by name.
    - `parameters`: the values of the statement's parameters, by name.
    - `computes_times`: set to True if an expression does more than compare a date or timestamp column.
    """

    text: str
    constants: Mapping[str, TypedSql]
    parameters: Mapping[str, TypedSql]
    computes_times: bool

    def inner(self, node: Any, scope: NameScope) -> tuple[str, list[TypedSql]]:
        """Return the SQL of a subquery, and its columns qualified by `q`.

        `scope` has the columns of the outer query.
        """


class ExpressionTranslator(Translator):
    """Translates the expressions of one SELECT from sqlglot nodes to DuckDB's SQL.

    - `scope`: the columns that expressions may name. `windows`: the nodes of the WINDOW clause, by name in lower case.
    - `groups`: the keys and aggregates that expressions after an aggregation may use; None without an aggregation.
    - `rows`: with `groups`, the translator of expressions over the rows before the aggregation.
    - `not_in_is_opposite`: whether NOT IN of a subquery is true wherever IN is not true (see `in_queries`).
    """

    def __init__(
        self,
        scope: NameScope,
        queries: SubqueryTranslator,
        windows: Mapping[str, Any] | None = None,
        groups: Groups | None = None,
        rows: ExpressionTranslator | None = None,
    ) -> None:
        super().__init__(self._resolve_column, queries.constants)
        self.scope = scope
        self._queries = queries
        self._windows = windows or {}
        self._groups, self._rows = groups, rows
        self._translated: dict[int, tuple[Any, TypedSql]] = {}  # operands translated early for their type, by node id
        self.not_in_is_opposite = False

    def _resolve_column(self, path: Names) -> TypedSql:
        try:
            return self.scope.resolve(path)
        except InvalidStatement:
            if len(path) == 1 and path[0].lower() in self._queries.constants:
                return self._queries.constants[path[0].lower()]
            raise

    def __call__(self, node: Any) -> TypedSql:
        """Translate an expression. With groups, an expression that equals a key of GROUP BY becomes the key's column.

        Raises `UnsupportedFeature` for an expression that cannot be translated, and `InvalidStatement` for an invalid
        one, such as an unknown column.
        """
        if id(node) in self._translated:
            return self._translated.pop(id(node))[1]
        if self._groups is not None and self._rows is not None and not is_aggregated(node):
            key = self._groups.key(node, self._rows)
            if key is not None:
                return key
        return super().__call__(node)

    def _check(self, node: Any) -> None:
        if type(node).__name__ not in (*_WRAPPERS, "Subquery", "Exists", "In", "Interval", "Placeholder"):
            super()._check(node)

    def _node(self, node: Any) -> TypedSql:
        from sqlglot import exp

        match node:
            case exp.Column() if not isinstance(node.this, exp.Star):
                return self._translate_column(node)
            case exp.Placeholder():
                return self._parameter(node)
            case exp.Subquery():
                return self._scalar_subquery(node)
            case exp.Exists():
                sql, _ = self._queries.inner(node.this, self.scope)
                return TypedSql(f"EXISTS ({sql})", t.BOOLEAN, True)
            case exp.In() if node.args.get("query") is not None:
                return self._translate_in(node, False)
            case exp.Not() | exp.And() | exp.Or() | exp.EQ() | exp.NEQ() | exp.In() if in_queries.has_in_query_operand(
                node
            ):
                return self._truth_value(node)
            case exp.Case() if node.this is not None and in_queries.has_in_query(node.this):
                return self(_as_searched_case(node))
            case exp.Window():
                return self._window(node)
            case exp.Add() | exp.Sub() if (moved := self._shift_date(node)) is not None:
                return moved
        if (called := _aggregate_of(node)) is not None:
            return self._aggregate(node, called)
        try:
            return super()._node(node)
        except MissingAggregation:
            name = str(node.this).lower()
            known = {*FUNCTIONS, *HIGHER_ORDER, *BY_UNIT, *MOVED_BY_UNIT, "struct"}
            if isinstance(node, exp.Anonymous) and name not in known:
                raise unsupported_error(f"the function {name}()") from None  # it may be an aggregate function
            raise

    def _translate_column(self, node: Any) -> TypedSql:
        try:
            value = super()._node(node)
            if (value.type == t.DATE or isinstance(value.type, t.Timestamp)) and not isinstance(
                node.parent, _comparison_nodes()
            ):
                self._queries.computes_times = True
            return value
        except InvalidStatement as error:
            meta = [part.meta for part in node.parts]
            if any("start" not in each for each in meta) or "\n" in str(error):
                raise
            place = underline_place(self._queries.text, meta[0]["start"], meta[-1]["end"] + 1)
            raise type(error)(f"{error}{place}") from error

    def _parameter(self, node: Any) -> TypedSql:
        known = self._queries.parameters.get(node.name)
        if known is None:
            mark = f":{node.name}" if node.name.strip("?") else "?"
            raise InvalidStatement(f"the parameter {mark} has no value in args")
        return known

    # Queries

    def _scalar_subquery(self, node: Any) -> TypedSql:
        sql, columns = self._queries.inner(node, self.scope)
        if len(columns) != 1:
            raise InvalidStatement(f"a scalar subquery must have one column, and this one has {len(columns)}")
        return TypedSql(f"({sql})", columns[0].type, True)

    def _truth_value(self, node: Any) -> TypedSql:
        """Translate a boolean expression with an IN of a subquery, simplified as in Spark (see `in_queries`)."""
        return self._translate_condition(in_queries.simplify(self._condition(node, False)))

    def _condition(self, node: Any, is_negated: bool) -> in_queries.Condition:
        """Return a boolean expression, or its negation if `is_negated`, as AND and OR of atomic conditions.

        NOT is pushed down to the atomic conditions.
        """
        from sqlglot import exp

        node = in_queries.fold_constant_case(node)
        if isinstance(node, exp.Not):
            return self._condition(node.this, not is_negated)
        if isinstance(node, exp.And | exp.Or):
            word = "AND" if isinstance(node, exp.And) != is_negated else "OR"
            return in_queries.BinaryCondition(
                word, *(self._condition(each, is_negated) for each in (node.left, node.right))
            )
        if isinstance(node, exp.Boolean):
            return bool(node.this) != is_negated
        compared = in_queries.compared_with_constant(node) if in_queries.has_in_query(node) else None
        if compared is not None:
            return self._condition(compared[0], is_negated == compared[1])
        key, is_opposite = self._key_of(node)
        return in_queries.AtomicCondition(node, is_negated, key, is_negated == is_opposite)

    def _key_of(self, node: Any) -> tuple[Hashable, bool]:
        """Return a key that equal and opposite conditions share, and whether this condition is the opposite form.

        The opposite forms are `<>` of `=` and `>=` of `<`.
        """
        from sqlglot import exp

        def key(each: Any) -> str:
            return in_queries.key_of_sql(self(each).sql)

        match node:
            case exp.In() if node.args.get("query") is not None:
                sql, columns = self._queries.inner(node.args["query"], self.scope)
                return (
                    "IN",
                    tuple(map(key, in_queries.subjects_of(node, len(columns)))),
                    in_queries.key_of_sql(sql),
                ), False
            case exp.EQ() | exp.NEQ() if not isinstance(node.this, exp.Tuple):
                return ("=", frozenset((key(node.this), key(node.expression)))), isinstance(node, exp.NEQ)
            case exp.LT() | exp.GTE() if not isinstance(node.this, exp.Tuple):
                return ("<", key(node.this), key(node.expression)), isinstance(node, exp.GTE)
            case exp.GT() | exp.LTE() if not isinstance(node.this, exp.Tuple):
                return ("<", key(node.expression), key(node.this)), isinstance(node, exp.LTE)
            case exp.In() if not isinstance(node.this, exp.Tuple):
                return ("IN", key(node.this), frozenset(map(key, node.expressions))), False
        return key(node), False

    def _translate_condition(self, condition: in_queries.Condition) -> TypedSql:
        if isinstance(condition, bool):
            return literal(condition, t.BOOLEAN)
        if isinstance(condition, in_queries.BinaryCondition):
            return chain(
                condition.word, [self._translate_condition(each) for each in (condition.left, condition.right)]
            )
        node = condition.node
        if type(node).__name__ == "In" and node.args.get("query") is not None:
            return self._translate_in(node, condition.is_negated)
        return inverse(self(node)) if condition.is_negated else self(node)

    def _translate_in(self, node: Any, is_negated: bool) -> TypedSql:
        sql, columns = self._queries.inner(node.args["query"], self.scope)
        subjects = in_queries.subjects_of(node, len(columns))
        pairs = [
            align(self(subject), replace(column, literal=None), "IN (SELECT ...)")
            for subject, column in zip(subjects, columns, strict=True)
        ]
        return in_queries.translate_in_query(
            [one for one, _ in pairs],
            [other for _, other in pairs],
            sql,
            is_negated=is_negated,
            is_opposite=self.not_in_is_opposite,
            may_be_null=in_queries.is_condition(node) or in_queries.is_null_constant(node.this),
        )

    # Aggregates and windows

    def _aggregate(self, node: Any, called: Any) -> TypedSql:
        if self._groups is None or self._rows is None:
            raise InvalidStatement(f"the aggregate function {called.name}() cannot be used here")
        name = str(called.this).lower()
        if name in ("grouping", "grouping_id"):
            return self._groups.grouping(name, [self._rows(each) for each in called.expressions])
        return self._groups.aggregate(self._rows.translate_aggregate(node, ""))

    def translate_aggregate(self, node: Any, window: str) -> TypedSql:
        """Translate an aggregate call over rows, with its FILTER and WITHIN GROUP.

        `window` is its ` OVER (...)`; empty without a window. Raises `UnsupportedFeature`.
        """
        from sqlglot import exp

        filters: list[str] = []
        order = None
        while not isinstance(node, exp.Anonymous):
            match node:
                case exp.Filter():
                    filters.append(self(node.expression.this).sql)
                case exp.WithinGroup():
                    order = node.expression
                case _:
                    raise unsupported_error(f"{node.sql('spark')!r}")
            node = node.this
        name, args = str(node.this).lower(), list(node.expressions)
        distinct = len(args) == 1 and isinstance(args[0], exp.Distinct)
        if distinct:
            args = list(args[0].expressions)
        if len(args) == 1 and isinstance(args[0], exp.Star):
            args = []
        call = AggregateCall(distinct, tuple(filters), window)
        values = [self(each) for each in args]
        if filters and not distinct and not window:  # with DISTINCT or OVER, Spark fails even for excluded rows
            kept = " AND ".join(f"({each})" for each in filters)
            values = [replace(v, sql=f"CASE WHEN {kept} THEN {v.sql} END") if v.raises else v for v in values]
        if order is not None:
            return self._within_group(node, name, call, values, order.expressions)
        if name not in AGGREGATES:
            raise unsupported_error(f"the function {name}()")
        return aggregate(name, values, call)

    def _within_group(
        self, node: Any, name: str, call: AggregateCall, values: list[TypedSql], order: list[Any]
    ) -> TypedSql:
        if name in ("listagg", "string_agg"):
            keys = ", ".join(order_key(self(each.this), each) for each in order)
            return listagg(call, values[0], values[1] if len(values) > 1 else None, f" ORDER BY {keys}")
        [key, *more] = order
        if name not in ("percentile_cont", "percentile_disc") or more or len(values) != 1:
            raise unsupported_error(f"{node.sql('spark')!r} WITHIN GROUP")
        fraction = values[0]
        if key.args.get("desc"):
            if name == "percentile_disc" or not isinstance(fraction.literal, int | float | Decimal):
                raise unsupported_error(f"{node.sql('spark')!r} WITHIN GROUP (ORDER BY ... DESC)")
            fraction = literal(1 - float(fraction.literal), t.DOUBLE)
        return (percentile if name == "percentile_cont" else percentile_disc)(call, self(key.this), fraction)

    def _window(self, node: Any) -> TypedSql:
        from sqlglot import exp

        called, ignores = node.this, False
        if isinstance(called, exp.IgnoreNulls | exp.RespectNulls):
            ignores, called = isinstance(called, exp.IgnoreNulls), called.this
        window = window_sql(node, self, self._windows)
        name = str(called.this).lower() if isinstance(called, exp.Anonymous) else ""
        if name in WINDOW_FUNCTIONS:
            return window_call(name, [self(each) for each in called.expressions], ignores, window)
        if ignores:
            raise unsupported_error(f"IGNORE NULLS of {name}()")
        return self.translate_aggregate(called, window)

    # Times

    def _shift_date(self, node: Any) -> TypedSql | None:
        """Translate a DATE plus or minus an integer number of days; None for other operands."""
        from sqlglot import exp

        first, second = self(node.this), self(node.expression)
        if first.type == t.DATE and second.type in (t.BYTE, t.SHORT, t.INT):
            return time_functions.shift_days("+" if isinstance(node, exp.Add) else "-")(first, second)
        # Keep the translated operands. Translating them again would double the time with each sum in a chain.
        for operand, value in ((node.this, first), (node.expression, second)):
            self._translated[id(operand)] = (operand, value)
        return None


def _as_searched_case(case: Any) -> Any:
    """Return `CASE WHEN x = a THEN ...` for `CASE x WHEN a THEN ...`."""
    from sqlglot import exp

    ifs = [
        exp.If(
            this=exp.EQ(this=exp.Paren(this=case.this.copy()), expression=each.this.copy()),
            true=each.args["true"].copy(),
        )
        for each in case.args["ifs"]
    ]
    default = case.args.get("default")
    node = exp.Case(ifs=ifs, default=None if default is None else default.copy())
    node.parent = case.parent
    return node


def _aggregate_of(node: Any) -> Any:
    """Return the node of an aggregate call, looking inside FILTER and WITHIN GROUP; None for other nodes."""
    while type(node).__name__ in ("Filter", "WithinGroup"):
        node = node.this
    if type(node).__name__ != "Anonymous":
        return None
    name = str(node.this).lower()
    known = name in AGGREGATES or name in ("grouping", "grouping_id", "percentile_cont", "percentile_disc")
    return node if known else None


def is_aggregated(node: Any) -> bool:
    """Return whether an expression calls an aggregate function that needs groups.

    Subqueries and calls with OVER do not count, but the operands of calls with OVER do.
    """
    return any(_aggregate_of(each) is not None for each in _own_nodes(node, windows=False))


def has_windows(node: Any) -> bool:
    """Return whether an expression has window functions, not counting subqueries."""
    return any(type(each).__name__ == "Window" for each in _own_nodes(node, windows=True))


def _own_nodes(node: Any, windows: bool) -> Any:
    """Yield the sqlglot nodes of an expression without its subqueries.

    Without `windows`, the calls that have an OVER are skipped, because they are not aggregates of the query. Their
    operands are not skipped.
    """
    pending = [node]
    while pending:
        each = pending.pop()
        name = type(each).__name__
        if name in ("Subquery", "Exists"):
            continue
        if name == "Window" and not windows:
            called = each.this
            while type(called).__name__ in _WRAPPERS:
                pending += [called.expression] if called.args.get("expression") is not None else []
                called = called.this
            pending += called.iter_expressions()
            pending += [one for key, arg in each.args.items() if key != "this" for one in _nodes(arg)]
            continue
        yield each
        if name == "In" and each.args.get("query") is not None:
            pending.append(each.this)
        else:
            pending += each.iter_expressions()


def _nodes(arg: Any) -> list[Any]:
    return [each for each in (arg if isinstance(arg, list) else [arg]) if hasattr(each, "iter_expressions")]
