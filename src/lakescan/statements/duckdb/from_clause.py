"""Translate a FROM clause: tables, subqueries, joins and lateral views of generators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from lakescan.common import types as t
from lakescan.errors import InvalidStatement
from lakescan.expressions.scalar.char_padding import pad_sides
from lakescan.expressions.scalar.collections import check_inside, list_of, member_at
from lakescan.expressions.scalar.typed_sql import TypedSql, align, convert, unsupported_error
from lakescan.expressions.scalar.udf import call_python
from lakescan.statements.duckdb.expressions import ExpressionTranslator, SubqueryTranslator
from lakescan.statements.duckdb.scope import Names, NameScope, ScopeColumn
from lakescan.statements.select.table_references import argument

GENERATORS = (
    "explode", "explode_outer", "inline", "inline_outer", "json_tuple", "posexplode", "posexplode_outer",
)  # fmt: skip
_SIDES = ("", "LEFT", "RIGHT", "FULL")
_KINDS = ("", "INNER", "OUTER", "CROSS", "SEMI", "ANTI")


@dataclass(frozen=True)
class FromItem:
    """The SQL of one relation or of several joined relations in a FROM clause, and their columns."""

    sql: str
    columns: list[ScopeColumn]


class RelationTranslator(SubqueryTranslator, Protocol):
    """Translates the tables and subqueries of a FROM clause to SQL."""

    def relation(self, node: Any, outer: NameScope | None) -> FromItem:
        """Translate a table or a subquery, with its alias.

        `outer` has the columns of the outer query, which it may use.
        """

    def new_name(self) -> str:
        """Return a new table alias (r1, r2, ...), which is not used elsewhere in the translation."""


def source_of(
    select: Any, queries: RelationTranslator, outer: NameScope | None, generators: Sequence[Any]
) -> FromItem | None:
    """Translate the FROM of a SELECT with its joins, its lateral views and `generators`.

    `generators` are lateral view nodes made from generators in the select list, such as `explode()`. `outer` has the
    columns of the outer query. Returns None without FROM and generators.
    """
    from_ = argument(select, "from")
    found = None
    if from_ is not None:
        found = _join_all(from_.this, select.args.get("joins") or (), queries, outer)
    for view in [*(select.args.get("laterals") or ()), *generators]:
        found = _lateral_view(found, view, queries, outer)
    return found


def _join_all(first: Any, joins: Sequence[Any], queries: RelationTranslator, outer: NameScope | None) -> FromItem:
    left = _group(first, queries, outer)
    has_comma = False
    for join in joins:
        side, kind = (str(join.args.get(name) or "").upper() for name in ("side", "kind"))
        if side in ("RIGHT", "FULL") and has_comma:
            raise unsupported_error(f"{side} JOIN after a comma in FROM (write CROSS JOIN of a query in parentheses)")
        has_comma = has_comma or (kind == "CROSS" and join.args.get("on") is None) or not (side or kind or join.args)
        left = _join(left, join, side, kind, queries, outer)
    return left


def _group(node: Any, queries: RelationTranslator, outer: NameScope | None) -> FromItem:
    from sqlglot import exp

    joins = node.args.get("joins") or ()
    if isinstance(node, exp.Subquery) and isinstance(node.this, exp.Table | exp.Subquery) and not node.alias:
        inner = _group(node.this, queries, outer)
        left = FromItem(f"({inner.sql})" if node.this.args.get("joins") else inner.sql, inner.columns)
    else:
        left = queries.relation(node, outer)
    for join in joins:
        side, kind = (str(join.args.get(name) or "").upper() for name in ("side", "kind"))
        left = _join(left, join, side, kind, queries, outer)
    return left


def _join(
    left: FromItem, join: Any, side: str, kind: str, queries: RelationTranslator, outer: NameScope | None
) -> FromItem:
    from sqlglot import exp

    method = str(join.args.get("method") or "").upper()
    known = {"this", "side", "kind", "on", "using", "method"}
    extra = {name for name, value in join.args.items() if value} - known
    if extra or method not in ("", "NATURAL") or side not in _SIDES or kind not in _KINDS:
        raise unsupported_error(f"the join {join.sql('spark')[:60]!r}")
    if isinstance(join.this, exp.Lateral):
        return _lateral_query(left, join, side, queries, outer)
    right = _group(join.this, queries, outer)
    is_half = kind in ("SEMI", "ANTI")
    word = f"{kind} JOIN" if is_half else f"{side or 'INNER'} JOIN"
    using = [each.name for each in join.args.get("using") or ()]
    if method:
        names = {each.name.lower() for each in right.columns if not each.is_hidden}
        using = [each.name for each in left.columns if not each.is_hidden and each.name.lower() in names]
    if using:
        return _join_using(left, right, word, side, is_half, using)
    columns = [*left.columns, *right.columns]
    condition = "TRUE"
    if join.args.get("on") is not None:
        condition = _on_condition(
            join.args["on"],
            left,
            right,
            kind if is_half else side,
            ExpressionTranslator(NameScope(columns, outer), queries),
        )
    elif word == "INNER JOIN":
        return FromItem(f"{left.sql} CROSS JOIN {_operand(right)}", columns)
    sql = f"{left.sql} {word} {_operand(right)} ON {condition}"
    return FromItem(sql, left.columns if is_half else columns)


def _operand(right: FromItem) -> str:
    return f"({right.sql})" if " JOIN " in right.sql and not right.sql.startswith("(") else right.sql


def _join_using(left: FromItem, right: FromItem, word: str, side: str, is_half: bool, using: Sequence[str]) -> FromItem:
    shared, conditions = [], []
    sides = [{name.lower(): _using_column(name, each) for name in using} for each in (left, right)]
    for name in using:
        one, other = (each[name.lower()].value for each in sides)
        first, second = align(*pad_sides(one, other), f"USING ({name})")
        conditions.append(f"{first.sql} = {second.sql}")
        value = {"RIGHT": other, "FULL": TypedSql(f"coalesce({first.sql}, {second.sql})", first.type)}.get(side, one)
        shared.append(ScopeColumn(name, value))
    hidden = [
        [replace(each, is_hidden=True, only_qualified=True) if each in of.values() else each for each in one.columns]
        for one, of in zip((left, right), sides, strict=True)
    ]
    sql = f"{left.sql} {word} {_operand(right)} ON {' AND '.join(conditions)}"
    return FromItem(sql, [*shared, *hidden[0], *([] if is_half else hidden[1])])


def _using_column(name: str, relation: FromItem) -> ScopeColumn:
    found = NameScope(relation.columns).column((name,))
    if found is None:
        raise InvalidStatement(f"one side of USING ({name}) has no column {name!r}")
    return found[0]


def _lateral_query(
    left: FromItem, join: Any, side: str, queries: RelationTranslator, outer: NameScope | None
) -> FromItem:
    from sqlglot import exp

    lateral = join.this
    if not isinstance(lateral.this, exp.Subquery) or side not in ("", "LEFT") or join.args.get("using"):
        raise unsupported_error("this LATERAL")
    node = exp.Subquery(this=lateral.this.this, alias=lateral.args.get("alias"))
    node.parent = join
    right = queries.relation(node, NameScope(left.columns, outer))
    columns = [*left.columns, *right.columns]
    condition = "TRUE"
    if join.args.get("on") is not None:
        condition = conjunction(join.args["on"], ExpressionTranslator(NameScope(columns, outer), queries))
    return FromItem(f"{left.sql} {side or 'INNER'} JOIN LATERAL {right.sql} ON {condition}", columns)


def _on_condition(node: Any, left: FromItem, right: FromItem, word: str, values: ExpressionTranslator) -> str:
    """Return the SQL of an ON condition. `word` is LEFT, RIGHT, FULL, SEMI or ANTI; empty for an inner join."""
    first, second = NameScope(left.columns), NameScope(right.columns)
    reduced = {"LEFT": (second,), "ANTI": (second,), "RIGHT": (first,), "FULL": ()}.get(word, (first, second))

    def is_filter(part: Any) -> bool:
        """Return whether Spark evaluates the conjunct `part` in a filter on one side before the join."""
        return any(_belongs_to(part, side) for side in reduced)

    return conjunction(node, values, is_filter)


def _belongs_to(node: Any, scope: NameScope) -> bool:
    """Return whether all columns of an expression, not counting subqueries, resolve in a scope."""
    from sqlglot import exp

    from lakescan.statements.select.conditions import own_nodes

    found = [node] if isinstance(node, exp.Column) else list(own_nodes(node, exp.Column))
    try:
        return all(scope.column(tuple(part.name for part in each.parts)) is not None for each in found)
    except InvalidStatement:  # ambiguous
        return False


def conjunction(node: Any, values: ExpressionTranslator, is_filter: Callable[[Any], bool] = lambda _: True) -> str:
    """Return the SQL of a WHERE or ON condition, keeping its conjuncts apart so that DuckDB recognizes join conditions.

    A conjunct that may raise an error is evaluated only where earlier conjuncts over the same columns are true.
    `is_filter` returns whether Spark evaluates a conjunct in a filter instead of in a join. Raises `InvalidStatement`
    for a conjunct that is not boolean.
    """
    from lakescan.statements.select.conditions import columns_of, conjuncts

    sure: list[tuple[set[str], str]] = []
    texts = []
    for part in conjuncts(node):
        values.not_in_is_opposite = not is_filter(part)
        value = values(part)
        values.not_in_is_opposite = False
        if value.type not in (t.BOOLEAN, t.UNKNOWN):
            raise InvalidStatement(f"a condition must be boolean, not {value.type}: {part.sql('spark')}")
        names = {each.sql("spark").lower() for each in columns_of(part)}
        guards = [sql for columns, sql in sure if columns and columns <= names] if value.raises else []
        if guards:
            texts.append(f"(CASE WHEN {' AND '.join(guards)} THEN {value.sql} ELSE FALSE END)")
        else:
            texts.append(f"({value.sql})")
        if not value.raises:
            sure.append((names, f"({value.sql})"))
    return " AND ".join(texts)


# Generators


def _lateral_view(left: FromItem | None, view: Any, queries: RelationTranslator, outer: NameScope | None) -> FromItem:
    """Join `left` with a LATERAL VIEW of a generator such as `explode()`, which returns one row for each element.

    `left` is None if the FROM is empty. Raises `UnsupportedFeature` for other functions, and `InvalidStatement` for a
    wrong number of column names.
    """
    from sqlglot import exp

    called, alias = view.this, view.args.get("alias")
    name = str(called.this).lower() if isinstance(called, exp.Anonymous) else ""
    if name not in GENERATORS or (len(called.expressions) != 1 and name != "json_tuple"):
        raise unsupported_error(f"LATERAL VIEW {called.sql('spark')[:60]}")
    keeps = bool(view.args.get("outer")) or name.endswith("_outer")
    scope = NameScope(left.columns if left is not None else (), outer)
    args = [ExpressionTranslator(scope, queries)(each) for each in called.expressions]
    given = [each.name for each in alias.columns] if alias is not None else []
    qualifier = view.alias.lower() if view.alias else ""
    inner, made = (
        _members_of_json(args) if name == "json_tuple" else _generator_query(name.removesuffix("_outer"), args[0])
    )
    if given and len(given) != len(made):
        raise InvalidStatement(f"{name}() returns {len(made)} columns, but {len(given)} names are given")
    relation = queries.new_name()
    qualifiers: frozenset[Names] = frozenset({(qualifier,)} if qualifier else ())
    columns = [
        ScopeColumn(given[n] if given else each, TypedSql(f"{relation}.c{n}", kind), qualifiers)
        for n, (each, kind) in enumerate(made)
    ]
    if left is None:
        if keeps:
            return FromItem(f"(SELECT 1) AS {relation}_ LEFT JOIN LATERAL ({inner}) AS {relation} ON TRUE", columns)
        return FromItem(f"({inner}) AS {relation}", columns)
    word = "LEFT" if keeps else "INNER"
    return FromItem(f"{left.sql} {word} JOIN LATERAL ({inner}) AS {relation} ON TRUE", [*left.columns, *columns])


def _members_of_json(args: Sequence[TypedSql]) -> tuple[str, list[tuple[str, t.Type]]]:
    """Return the query of `json_tuple(text, name, ...)`, and the names and types of its columns.

    The query returns one row with a string for each name. Raises `InvalidStatement` for arguments that are not strings.
    """
    if len(args) < 2 or any(each.type not in (t.STRING, t.UNKNOWN) for each in args):
        raise InvalidStatement("json_tuple() takes a string with JSON and the names of members")
    args = [convert(each, t.STRING) for each in args]
    found = call_python("json_texts.json_tuple", args, list_of(t.STRING), keeps_nulls=True)
    columns = [(f"c{n}", t.STRING) for n in range(len(args) - 1)]
    listed = ", ".join(f"list_extract(e.v, {n}) AS c{n - 1}" for n in range(1, len(args)))
    return f"SELECT {listed} FROM (SELECT {found.sql} AS v) AS e", list(columns)


def _generator_query(name: str, of: TypedSql) -> tuple[str, list[tuple[str, t.Type]]]:
    """Return the SQL query of `explode`, `posexplode` or `inline`, and the Spark names and types of its columns.

    The SQL names its columns c0, c1, ... `of` is the list or map of the call. Raises `UnsupportedFeature` for other
    types.
    """
    if not isinstance(of.type, t.ListOf | t.MapOf):
        raise unsupported_error(f"the function {name}() of {of.type}")
    check_inside(of.type)
    if isinstance(of.type, t.MapOf):
        key, value = of.type.key.type, of.type.value.type
        parts = [("key", key, f"map_keys({of.sql})"), ("value", value, f"map_values({of.sql})")]
        size = f"cardinality({of.sql})"
    else:
        element = of.type.element.type
        parts, size = [("col", element, of.sql)], f"len({of.sql})"
        if name == "inline":
            if not isinstance(element, t.Struct):
                raise unsupported_error(f"the function inline() of {of.type}")
            members = [member_at(TypedSql("e.v", element), n).sql for n in range(len(element.fields))]
            listed = ", ".join(f"{sql} AS c{n}" for n, sql in enumerate(members))
            inner = f"SELECT {listed} FROM (SELECT unnest({of.sql}) AS v) AS e"
            return inner, [(each.name, each.type) for each in element.fields]
    if name == "posexplode":
        parts = [("pos", t.INT, f"range({size})"), *parts]
    listed = ", ".join(
        f"{f'CAST(unnest({sql}) AS INTEGER)' if each == 'pos' else f'unnest({sql})'} AS c{n}"
        for n, (each, _, sql) in enumerate(parts)
    )
    return f"SELECT {listed}", [(each, kind) for each, kind, _ in parts]
