"""Translate one SELECT: its columns, groups, conditions and order."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from lakescan.common import types as t
from lakescan.errors import InvalidStatement, LakescanError
from lakescan.expressions.scalar.typed_sql import TypedSql, quote_name, unsupported_error
from lakescan.statements.duckdb.aggregates import NAME, Groups, normalize_zero
from lakescan.statements.duckdb.column_names import Naming
from lakescan.statements.duckdb.expressions import ExpressionTranslator, has_windows, is_aggregated
from lakescan.statements.duckdb.from_clause import GENERATORS, RelationTranslator, conjunction, source_of
from lakescan.statements.duckdb.scope import Names, NameScope
from lakescan.statements.duckdb.windows import order_key

_KNOWN = {"with", "with_", "expressions", "from", "from_", "joins", "laterals", "where", "group", "having", "qualify"}
_KNOWN |= {"order", "sort", "limit", "offset", "distinct", "windows", "hint"}


@dataclass(frozen=True)
class OutputColumn:
    """A column of a query's result: its name, and its SQL with its type."""

    name: str
    value: TypedSql


def translate_select(
    node: Any, queries: RelationTranslator, outer: NameScope | None, is_final: bool
) -> tuple[str, list[OutputColumn]]:
    """Return the SQL of a SELECT, and its columns. `outer` has the columns of the outer query.

    In the SQL, the columns are named c0, c1, ..., or by their own names for the outermost query (`is_final`).
    """
    return _Select(node, queries, outer).sql(is_final)


def limits(node: Any, queries: RelationTranslator) -> str:
    """Return the SQL ` LIMIT n OFFSET m`, or "" without both.

    Raises `UnsupportedFeature` if a number is not constant.
    """
    parts = []
    for key in ("limit", "offset"):
        each = node.args.get(key)
        if each is None or (type(each.expression).__name__ == "Var" and each.expression.name.upper() == "ALL"):
            continue
        if each.args.get("expressions") or {k for k, v in each.args.items() if v} - {"expression", "this"}:
            raise unsupported_error(f"{each.sql('spark').strip()!r}")
        value = ExpressionTranslator(NameScope(()), queries)(each.expression)
        if not isinstance(value.literal, int) or value.literal < 0:
            raise unsupported_error(f"{key.upper()} with an expression")
        parts.append(f"{key.upper()} {value.literal}")
    return f" {' '.join(parts)}" if parts else ""


def label(name: str, place: int, is_final: bool) -> str:
    """Return the SQL name of column number `place`: c0, c1, ..., or `name` in the outermost query (`is_final`)."""
    return quote_name(name) if is_final and name else f"c{place}"


class _Select:
    def __init__(self, node: Any, queries: RelationTranslator, outer: NameScope | None) -> None:
        extra = {key for key, value in node.args.items() if value} - _KNOWN
        if extra:
            word = min(extra).replace("_", " ").upper()
            raise unsupported_error(f"{'DISTRIBUTE BY' if word in ('DISTRIBUTE', 'CLUSTER') else word}")
        distinct = node.args.get("distinct")
        if distinct is not None and distinct.args.get("on") is not None:
            raise unsupported_error("DISTINCT ON")
        self._node, self._queries, self._outer = node, queries, outer
        self._outer_read: dict[str, list[str]] = {}
        self._distinct = distinct is not None
        items, views = self._generators()
        source = source_of(node, queries, outer, views)
        self._from = "" if source is None else f" FROM {source.sql}"
        self._windows = {each.this.name.lower(): each for each in node.args.get("windows") or ()}
        self._scope = NameScope(source.columns if source is not None else (), outer)
        self._rows = ExpressionTranslator(self._scope, queries, self._windows)
        self._naming = Naming(
            queries.text, self._own_path, self._type_of, self._outer_names, self._parameter_text, self._windows
        )
        self._given: set[int] = set()  # indices of columns with an alias
        self._items = self._expand_stars(items)
        order = node.args.get("order") or node.args.get("sort")
        self._order: list[Any] = list(order.expressions) if order is not None else []
        self._groups = self._find_groups()
        self._values = self._rows
        if self._groups is not None:
            scope = NameScope(self._scope.columns, outer, as_grouped=self._groups.column_key)
            self._values = ExpressionTranslator(scope, queries, self._windows, self._groups, self._rows)

    # Columns

    def _generators(self) -> tuple[list[Any], list[Any]]:
        """Return the select list with its generators, such as `explode(x)`, moved to lateral views, and these views.

        A star over the view replaces each generator. Raises `InvalidStatement` for more than one.
        """
        from sqlglot import exp

        items: list[Any] = []
        views: list[Any] = []
        for each in self._node.expressions:
            names: list[Any] = []
            inner = each
            if isinstance(each, exp.Aliases):
                inner, names = each.this, [one.copy() for one in each.expressions]
            elif isinstance(each, exp.Alias):
                inner, names = each.this, [each.args["alias"].copy()]
            if not (isinstance(inner, exp.Anonymous) and str(inner.this).lower() in GENERATORS):
                items.append(each)
                continue
            if views:
                raise InvalidStatement("a SELECT can have one generator, such as explode()")
            alias = exp.TableAlias(this=exp.to_identifier("__generated"), columns=names)
            view = exp.Lateral(this=inner.copy(), alias=alias)
            view.parent = self._node  # names in the view are resolved in this SELECT
            views.append(view)
            items.append(exp.Column(this=exp.Star(), table=exp.to_identifier("__generated")))
        return items, views

    def _expand_stars(self, items: Sequence[Any]) -> list[tuple[str, Any]]:
        """Return names and expressions of the select list, with each star replaced by the columns that it selects.

        Expressions are sqlglot nodes. The columns of `*` and `table.*` are already translated (`TypedSql`).
        """
        from sqlglot import exp

        found: list[tuple[str, Any]] = []
        for each in items:
            star = each if isinstance(each, exp.Star) else each.this if isinstance(each, exp.Column) else None
            if not isinstance(star, exp.Star):
                if isinstance(each, exp.Alias):
                    self._given.add(len(found))
                found.append((self._naming.name_of(each), each.this if isinstance(each, exp.Alias) else each))
                continue
            given = {key: value for key, value in star.args.items() if value}
            left_out = given.pop("except_", given.pop("except", None)) or ()
            if given:
                raise unsupported_error(f"{each.sql('spark')!r}")
            qualifier = tuple(part.name for part in each.parts[:-1]) if isinstance(each, exp.Column) else ()
            if (members := self._scope.star_members(qualifier)) is not None:
                left = {one.name.lower() for one in left_out}
                found += [(name, _path(*qualifier, name)) for name in members if name.lower() not in left]
                continue
            columns = self._scope.star_columns(qualifier)
            if qualifier != ("__generated",):
                columns = [one for one in columns if ("__generated",) not in one.qualifiers]
            without = [self._scope.column(tuple(p.name for p in getattr(c, "parts", (c,)))) for c in left_out]
            if any(one is None or one[1] for one in without):
                raise InvalidStatement(f"EXCEPT names a column that does not exist: {each.sql('spark')}")
            gone = [one[0] for one in without if one is not None]
            found += [(one.name, one.value) for one in columns if one not in gone]
        return found

    # Names

    def _own_path(self, path: Names) -> Names:
        """Return the parts of a column's name without the table's name: the column, then struct members.

        An unknown name is returned unchanged, and the last part of an ambiguous one.
        """
        try:
            found = self._scope.column(path)
        except InvalidStatement:
            return path[-1:]
        return path if found is None else (path[len(path) - len(found[1]) - 1], *found[1])

    def _type_of(self, node: Any) -> t.Type | None:
        """Return the type of an expression over the rows before aggregation.

        Returns None for aggregates, windows and errors.
        """
        if is_aggregated(node) or has_windows(node):
            return None
        try:
            return self._rows(node).type
        except LakescanError:
            return None

    def _outer_names(self, query: Any) -> list[str]:
        """Return the names of the columns of this SELECT that a subquery in it reads, each once."""
        if str(query) not in self._outer_read:
            self._scope.read_within = []
            with suppress(LakescanError):  # the translation of the subquery raises the error
                self._queries.inner(query, self._scope)
            self._outer_read[str(query)] = list(dict.fromkeys(self._scope.read_within))
        return self._outer_read[str(query)]

    def _parameter_text(self, name: str) -> str | None:
        """Return the text of a parameter's value; None if it has no value or the value is not a literal."""
        known = self._queries.parameters.get(name)
        if known is None or known.literal is None:
            return None
        return str(known.literal).lower() if isinstance(known.literal, bool) else str(known.literal)

    # Groups

    def _find_groups(self) -> Groups | None:
        group = self._node.args.get("group")
        having = self._node.args.get("having")
        expressions = [each for _, each in self._items if not isinstance(each, TypedSql)]
        is_needed = group is not None or having is not None
        if not is_needed and not any(is_aggregated(each) for each in (*expressions, *self._order)):
            return None
        groups = Groups(is_grouped=group is not None)
        if group is None:
            return groups
        if group.args.get("all"):
            for _, each in self._items:
                if isinstance(each, TypedSql) or not is_aggregated(each):
                    groups.add_key(self._key(each))
            return groups
        plain, parts = [], []
        for each in group.expressions:
            if type(each).__name__ in ("Rollup", "Cube", "GroupingSets"):
                parts.append(self._grouping_set(each, groups))
            else:
                plain.append(groups.add_key(self._key(each)))
        for name in ("rollup", "cube", "grouping_sets"):
            for each in group.args.get(name) or ():
                if getattr(each, "expressions", None):
                    parts.append(self._grouping_set(each, groups))
                elif name != "grouping_sets" and plain:  # WITH ROLLUP applies to all keys
                    parts, plain = [f"{name.upper()}({', '.join(plain)})"], []
                else:
                    raise unsupported_error("this GROUP BY")
        if parts:
            if plain and group.args.get("grouping_sets"):
                raise unsupported_error("GROUP BY keys before GROUPING SETS")
            groups.sets = ", ".join([*plain, *parts])
        return groups

    def _grouping_set(self, node: Any, groups: Groups) -> str:
        word = {"Rollup": "ROLLUP", "Cube": "CUBE", "GroupingSets": "GROUPING SETS"}[type(node).__name__]
        return f"{word} ({', '.join(self._grouping_element(each, groups) for each in node.expressions)})"

    def _grouping_element(self, node: Any, groups: Groups) -> str:
        kind = type(node).__name__
        if kind in ("Rollup", "Cube", "GroupingSets"):
            return self._grouping_set(node, groups)
        if kind == "Tuple":
            return f"({', '.join(groups.add_key(self._key(each)) for each in node.expressions)})"
        return groups.add_key(self._key(node))

    def _key(self, node: Any) -> TypedSql:
        """Translate a key of GROUP BY: an expression, a position in the select list, or an alias.

        Raises `InvalidStatement` for an aggregate function or an unknown position, and `UnsupportedFeature` for a map.
        """
        from sqlglot import exp

        if isinstance(node, TypedSql):
            return node
        if isinstance(node, exp.Literal) and not node.is_string and node.name.isdecimal():
            node = self._place(int(node.name))
        elif isinstance(node, exp.Column) and len(node.parts) == 1 and self._scope.column((node.name,)) is None:
            named = [each for name, each in self._items if name.lower() == node.name.lower()]
            if len(named) == 1:
                node = named[0]
        if isinstance(node, TypedSql):
            return node
        if is_aggregated(node):
            raise InvalidStatement(f"GROUP BY cannot have an aggregate function: {node.sql('spark')}")
        scope = NameScope(self._scope.columns, self._outer, aliases=self._row_aliases(node))
        value = ExpressionTranslator(scope, self._queries, self._windows)(node)
        if isinstance(value.type, t.MapOf):
            raise unsupported_error(f"GROUP BY a {value.type}")
        return value

    def _row_aliases(self, key: Any) -> dict[str, TypedSql]:
        """Return the values of the select list's aliases that a key of GROUP BY uses, by name in lower case.

        A name that is also a column of the FROM means the column.
        """
        from sqlglot import exp

        known: dict[str, TypedSql] = {}
        alone = [c.name for c in key.find_all(exp.Column) if len(c.parts) == 1]
        wanted = {name.lower() for name in alone if self._scope.column((name,)) is None}
        for name, each in self._items:
            if (
                name.lower() in wanted
                and each is not key
                and not isinstance(each, TypedSql)
                and not is_aggregated(each)
            ):
                known[name.lower()] = self._rows(each)
        return known

    def _place(self, number: int) -> Any:
        if not 1 <= number <= len(self._items):
            raise InvalidStatement(f"there is no column {number} in this SELECT, which has {len(self._items)}")
        return self._items[number - 1][1]

    # The whole

    def sql(self, is_final: bool) -> tuple[str, list[OutputColumn]]:
        outputs = self._outputs()
        where = self._node.args.get("where")
        condition = "" if where is None else f" WHERE {conjunction(where.this, self._rows)}"
        having, qualify = self._node.args.get("having"), self._node.args.get("qualify")
        behind = self._result_values(outputs)
        tests = "" if having is None else f" WHERE {conjunction(having.this, behind)}"
        if qualify is not None:
            tests += f" QUALIFY {conjunction(qualify.this, behind)}"
        keys = [self._order_key(each, outputs, behind) for each in self._order]
        if self._groups is not None:
            rest = f"{self._from}{condition}"
            source = f" FROM ({self._groups.sql(rest)}) AS {NAME}{tests}"
        else:
            source = f"{self._from}{condition}{tests}"
        word = "DISTINCT " if self._distinct else ""
        listed = ", ".join(
            f"{normalize_zero(each.value) if self._distinct else each.value.sql} AS {label(each.name, n, is_final)}"
            for n, each in enumerate(outputs)
        )
        order = f" ORDER BY {', '.join(keys)}" if keys else ""
        text = f"SELECT {word}{listed}{source}{order}{limits(self._node, self._queries)}"
        return text, outputs

    def _outputs(self) -> list[OutputColumn]:
        """Translate the select list.

        An expression may use the aliases before it. Raises `InvalidStatement` for an empty list.
        """
        if not self._items:
            raise InvalidStatement("the SELECT has no columns, because its tables have none. Add one with ADD COLUMN")
        aliases: dict[str, TypedSql] = {}
        self._values.scope.aliases = aliases
        outputs = []
        for place, (name, each) in enumerate(self._items):
            if isinstance(each, TypedSql):
                value = each if self._groups is None else self._groups.column_key(each, name)
            else:
                value = self._values(each)
                if place in self._given:
                    aliases[name.lower()] = replace(value, literal=None)
            outputs.append(OutputColumn(name, value))
        self._values.scope.aliases = None
        return outputs

    def _result_values(self, outputs: Sequence[OutputColumn]) -> ExpressionTranslator:
        """Return the translator for HAVING, QUALIFY and ORDER BY, which may use all names of the select list."""
        scope = _OutputScope(
            self._scope.columns,
            self._outer,
            aliases=self._result_names(outputs),
            as_grouped=None if self._groups is None else self._groups.column_key,
        )
        return ExpressionTranslator(
            scope, self._queries, self._windows, self._groups, self._rows if self._groups else None
        )

    def _result_names(self, outputs: Sequence[OutputColumn]) -> dict[str, TypedSql]:
        """Return the values of the result's columns, by name in lower case, for use in HAVING, QUALIFY and ORDER BY.

        Aliases take precedence over names of unnamed expressions, which are left out if they are also columns of the
        FROM.
        """
        named = {each.name.lower(): each.value for n, each in enumerate(outputs) if n not in self._given}
        named = {name: value for name, value in named.items() if not self._scope.has_one((name,))}
        named |= {each.name.lower(): each.value for n, each in enumerate(outputs) if n in self._given}
        return {name: replace(value, literal=None) for name, value in named.items()}

    def _order_key(self, node: Any, outputs: Sequence[OutputColumn], behind: ExpressionTranslator) -> str:
        """Return the SQL of a key of ORDER BY. `behind` translates expressions over the result.

        A result column, by name or position, takes precedence over other columns. Raises `InvalidStatement` for an
        ambiguous name, and `UnsupportedFeature` for a key that SELECT DISTINCT does not return.
        """
        from sqlglot import exp

        each = node.this
        place = None
        if isinstance(each, exp.Literal) and not each.is_string and each.name.isdecimal():
            self._place(int(each.name))
            place = int(each.name)
        elif isinstance(each, exp.Column) and len(each.parts) == 1:
            found = [n for n, one in enumerate(outputs, 1) if one.name.lower() == each.name.lower()]
            if len({outputs[n - 1].value.sql for n in found}) > 1:
                raise InvalidStatement(f"ORDER BY {each.name} is ambiguous")
            place = found[0] if found else None
        if place is None:
            value = behind(each)
            same = [n for n, one in enumerate(outputs, 1) if one.value.sql == value.sql]
            place = same[0] if same else None
            if place is None:
                if self._distinct:
                    raise unsupported_error(f"ORDER BY {each.sql('spark')}, which SELECT DISTINCT does not return,")
                return order_key(value, node)
        return order_key(replace(outputs[place - 1].value, sql=str(place)), node)


def _path(*names: str) -> Any:
    """Return the sqlglot node of a column and the struct members after it."""
    from sqlglot import exp

    first, *rest = (exp.to_identifier(name, quoted=True) for name in names)
    return exp.Dot.build([exp.Column(this=first), *rest]) if rest else exp.Column(this=first)


class _OutputScope(NameScope):
    """The scope of HAVING, QUALIFY and ORDER BY, where the select list's aliases take precedence over columns.

    Raises `UnsupportedFeature` for a name that is both a column and the alias of another value.
    """

    def resolve_locally(self, path: Names) -> TypedSql | None:
        alias = (self.aliases or {}).get(path[0].lower()) if len(path) == 1 else None
        if alias is None or not self.has_one(path):
            return super().resolve_locally(path) if alias is None else alias
        try:
            column = super().resolve_locally(path)
        except InvalidStatement:  # the column is not a key of the groups
            return alias
        if column is not None and column.sql != alias.sql:
            raise unsupported_error(f"the name {path[0]!r}, which is both a column and the alias of another value,")
        return alias
