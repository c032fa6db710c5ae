"""One SELECT of a statement: resolve its columns to sources, and push its conditions to them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from lakescan.common import types as t
from lakescan.local.aggregates import Aggregate
from lakescan.statements.select.conditions import (
    Path,
    ResolvedCondition,
    ValuesOf,
    columns_of,
    conjuncts,
    is_path,
    own_nodes,
)
from lakescan.statements.select.relations import (
    Conditions,
    FromSource,
    OpaqueRelation,
    Origin,
    Relation,
    equal_columns,
    push,
    same_column,
)
from lakescan.statements.select.table_references import Occurrence, argument

# The clauses through which a condition on the output of a SELECT may be pushed to its tables. Any other clause (LIMIT,
# QUALIFY, one that a newer sqlglot adds) prevents it.
_PLAIN = {"with", "expressions", "from", "where", "hint"}
_TRANSPARENT = _PLAIN | {"joins", "laterals", "group", "having", "order", "distinct"}
_GROUPING = {"expressions"}  # not rollup, cube, grouping sets
_KINDS = ("", "INNER", "OUTER", "CROSS", "SEMI", "ANTI")


class NameResolver(Protocol):
    """Resolves the names of a statement to tables and queries."""

    def occurrence_of(self, node: Any) -> Occurrence | None:
        """Return the occurrence of a table node; None for other names, such as that of a WITH query."""

    def relation_of_table(self, node: Any, names: Sequence[str]) -> Relation:
        """Return the relation of a table node. `names` are the columns' new names; empty without new names."""

    def relation_of_query(self, node: Any, names: Sequence[str]) -> Relation:
        """Return the relation of a query node. `names` are its columns' new names; empty without new names."""


class SelectScope:
    """One SELECT: its sources and output columns. Its conditions are pushed to the sources on creation.

    - `sources`: the relations of its FROM.
    - `outputs`: the name of each output column and the source column it copies; None if the names are unknown.
    """

    def __init__(self, node: Any, analysis: NameResolver) -> None:
        self.node = node
        self._analysis = analysis
        self._conditions = Conditions(self)
        self.sources: list[FromSource] = []
        self._hidden: set[str] = set()  # columns of lateral views
        self._merged: dict[str, Origin] = {}  # columns of USING
        self._is_clear = True  # whether the names of all columns are known
        self._is_exact = True  # whether every condition of WHERE is evaluated by scans
        self._read_from()
        self.outputs: list[tuple[str, Origin | None]] | None = self._outputs()
        self._push_where()

    # Sources

    def _read_from(self) -> None:
        from_ = argument(self.node, "from")
        if from_ is not None:
            self.sources += self._group(from_.this)
        for join in self.node.args.get("joins") or ():
            self._join(self.sources, join)
        for lateral in self.node.args.get("laterals") or ():
            alias = lateral.args.get("alias")
            if lateral.alias:  # the columns of a lateral view may be struct members, too
                columns = None if alias is None or not alias.columns else tuple(each.name for each in alias.columns)
                self.sources.append(FromSource(frozenset({(lateral.alias.lower(),)}), OpaqueRelation(columns)))
            if alias is None or not alias.columns:
                self._is_clear = False
            else:
                self._hidden |= {each.name.lower() for each in alias.columns}

    def _group(self, node: Any) -> list[FromSource]:
        """Return the sources of a table, of a subquery, or of joins in parentheses."""
        from sqlglot import exp

        joins = node.args.get("joins") or ()
        if isinstance(node, exp.Subquery) and isinstance(node.this, exp.Table) and not node.alias:
            sources = self._group(node.this)
        else:
            sources = [self._source(node)]
        for join in joins:
            self._join(sources, join)
        return sources

    def _source(self, node: Any) -> FromSource:
        from sqlglot import exp

        alias = node.args.get("alias")
        names = [each.name for each in alias.columns] if alias is not None else []
        relation: Relation = Relation()
        qualifiers: frozenset[Path] = frozenset({(node.alias.lower(),)} if node.alias else ())
        occurrence = self._analysis.occurrence_of(node)
        if occurrence is not None or (isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier | exp.Dot)):
            relation = self._analysis.relation_of_table(node, names)
            if occurrence is not None:
                qualifiers = occurrence.qualifiers
            elif not node.alias:
                qualifiers = frozenset({(node.name.lower(),)})
        elif isinstance(node, exp.Subquery):
            extra = {name for name, value in node.args.items() if value} - {"this", "alias", "joins"}
            relation = Relation() if extra else self._analysis.relation_of_query(node.this, names)
        return FromSource(qualifiers, relation)

    def _join(self, left: list[FromSource], join: Any) -> None:
        side, kind = (str(join.args.get(name) or "").upper() for name in ("side", "kind"))
        method = str(join.args.get("method") or "").upper()
        right = self._group(join.this)
        is_half = kind in ("SEMI", "ANTI")
        if method or kind not in _KINDS or side not in (("", "LEFT") if is_half else ("", "LEFT", "RIGHT", "FULL")):
            self._is_clear = False
            for each in (*left, *right):
                each.nullable, each.relation = True, OpaqueRelation(each.relation.columns)
            left += right
            return
        if kind == "ANTI":
            reached = right
        elif kind == "SEMI" or not side:
            reached = [*left, *right]
        else:
            reached = {"LEFT": right, "RIGHT": left, "FULL": []}[side]
        for each in join.args.get("using") or ():
            self._join_using(each, left, right, reached, "" if is_half else side)
        if join.args.get("on") is not None:
            for part in conjuncts(join.args["on"]):
                self._conditions.push_part(part, [*left, *right], reached)
        if is_half:
            return
        for each in right if side in ("LEFT", "FULL") else ():
            each.nullable = True
        for each in left if side in ("RIGHT", "FULL") else ():
            each.nullable = True
        left += right

    def _join_using(
        self, name: Any, left: list[FromSource], right: list[FromSource], reached: list[FromSource], side: str
    ) -> None:
        """Resolve a column of USING: its values are equal on both sides, and the result has it once.

        The values of each side restrict the other if it is in `reached`. `side` is LEFT, RIGHT, FULL, or empty.
        """
        from sqlglot import exp

        key = name.name.lower()
        column = exp.Column(this=name.copy())
        ends = [self._merged.get(key) or self.resolve(column, left), self.resolve(column, right)]
        self._hidden.add(key)
        self._merged.pop(key, None)
        if ends[0] is None or ends[1] is None:
            return
        self._conditions.push_equality(column, ends[0], ends[1], reached)
        if side != "FULL":
            self._merged[key] = ends[1] if side == "RIGHT" else ends[0]

    def relation_of_query(self, node: Any) -> Relation:
        """Return the relation of a subquery of the SELECT."""
        return self._analysis.relation_of_query(node, ())

    # Columns

    def resolve(self, column: Any, sources: Sequence[FromSource] | None = None) -> Origin | None:
        """Return the source of a column node and its path there; None if the source is not certain.

        `sources` are the sources to search, by default all of the SELECT.
        """
        names = tuple(part.name for part in column.parts)
        among = self.sources if sources is None else sources
        found = [
            Origin(source, names[len(prefix) :])
            for source in among
            for prefix in source.qualifiers
            if len(names) > len(prefix)
            and tuple(name.lower() for name in names[: len(prefix)]) == prefix
            and source.may_have(names[len(prefix)])
        ]
        if not found:  # a qualifier takes precedence over a column of the same name
            if names[0].lower() in self._merged and self._is_clear:
                merged = self._merged[names[0].lower()]
                return Origin(merged.source, (*merged.path, *names[1:]))
            if not self._is_clear or names[0].lower() in self._hidden:
                return None
            found = [Origin(source, names) for source in among if source.may_have(names[0])]
        return found[0] if len(found) == 1 and found[0].source.has(found[0].path[0]) else None

    def is_foreign(self, column: Any) -> bool:
        """Return whether a column certainly belongs to an outer SELECT instead of this one."""
        names = [part.name.lower() for part in column.parts]
        return (
            self._is_clear
            and names[0] not in self._hidden
            and all(each.relation.columns is not None and not each.may_have(names[0]) for each in self.sources)
            and not any(tuple(names[: len(prefix)]) == prefix for each in self.sources for prefix in each.qualifiers)
        )

    def _outputs(self) -> list[tuple[str, Origin | None]] | None:
        """Return the name of each output column, and the source column it copies or None for an expression.

        The name is empty if the engine chooses it. Returns None if the number of columns or a name in a star is
        unknown.
        """
        from sqlglot import exp

        found: list[tuple[str, Origin | None]] = []
        for each in self.node.expressions:
            inner = each.this if isinstance(each, exp.Alias) else each
            if isinstance(each, exp.Star) or (isinstance(each, exp.Column) and isinstance(each.this, exp.Star)):
                columns = self._star_columns(each)
                if columns is None:
                    return None
                found += columns
            elif isinstance(inner, exp.Column) or (isinstance(inner, exp.Dot) and is_path(inner)):
                found.append((each.alias_or_name or inner.parts[-1].name, self.resolve(inner)))
            elif isinstance(each, exp.Alias):
                found.append((each.alias, None))
            elif isinstance(each, exp.AggFunc | exp.Binary | exp.Unary | exp.Cast | exp.Case | exp.Literal) and not (
                each.find(exp.UDTF, exp.Anonymous) or each.find(exp.Explode)
            ):
                found.append(("", None))  # the engine chooses the name
            else:  # a generator may return several columns
                return None
        return found

    def _star_columns(self, star: Any) -> list[tuple[str, Origin | None]] | None:
        from sqlglot import exp

        inner = star.this if isinstance(star, exp.Column) else star
        is_plain = not any(value for value in inner.args.values())
        if not is_plain or self._hidden or not self._is_clear or self.node.args.get("laterals"):
            return None
        sources = self.sources
        if isinstance(star, exp.Column):
            prefix = tuple(part.name.lower() for part in star.parts[:-1])
            sources = [each for each in sources if prefix in each.qualifiers]
            if len(sources) != 1:
                return None
        if not sources or any(each.relation.columns is None for each in sources):
            return None
        return [
            (name, Origin(each, (name,)) if each.has(name) else None)
            for each in sources
            for name in each.relation.columns or ()
        ]

    # Conditions

    @property
    def is_transparent(self) -> bool:
        """Whether a condition on the output can be evaluated on the rows of the sources.

        This is false with LIMIT, windows, unknown functions, and aggregates without GROUP BY.
        """
        from sqlglot import exp

        if {name.rstrip("_") for name, value in self.node.args.items() if value} - _TRANSPARENT:
            return False
        distinct = self.node.args.get("distinct")
        if distinct is not None and distinct.args.get("on"):
            return False
        if any(True for _ in own_nodes(self.node, exp.Window)):
            return False
        has_aggregates = any(True for _ in own_nodes(self.node, exp.AggFunc)) or self.node.args.get("having")
        return bool(self.node.args.get("group")) or not (has_aggregates or _has_unknown_function(self.node))

    def keeps_groups_of(self, origin: Origin) -> bool:
        """Return whether a column is a key of GROUP BY, so that a condition on it keeps or drops whole groups.

        True without GROUP BY.
        """
        group = self.node.args.get("group")
        if group is None:
            return True
        if {name for name, value in group.args.items() if value} - _GROUPING:
            return False
        keys = [self.resolve(each) for each in group.expressions if columns_of(each) == [each]]
        return any(key is not None and same_column(key, origin) for key in keys)

    def _push_where(self) -> None:
        where = self.node.args.get("where")
        if where is not None:
            for part in conjuncts(where.this):
                self._is_exact &= self._conditions.push_part(part, self.sources, self.sources)

    def push_correlated(self, outer: SelectScope) -> None:
        """Restrict a column of this subquery to the values of the outer column that it must equal.

        For EXISTS in WHERE, the outer column is restricted to the values of the subquery's column too.
        """
        from sqlglot import exp

        where = self.node.args.get("where")
        for part in conjuncts(where.this) if where is not None else ():
            for own, foreign in _ways(equal_columns(part)):
                if not self.is_foreign(foreign):
                    continue
                inner, around = self.resolve(own), outer.resolve(foreign)
                if inner is None or around is None:
                    continue
                self._conditions.push_equality(own, inner, around, [inner.source])
                exists = self.node.parent if isinstance(self.node.parent, exp.Exists) else None
                if exists is not None and outer.requires(exists) and self._has_row_of_match():
                    self._conditions.push_equality(foreign, around, inner, [around.source])

    def requires(self, condition: Any) -> bool:
        """Return whether a condition is a conjunct of WHERE."""
        where = self.node.args.get("where")
        return where is not None and any(each is condition for each in conjuncts(where.this))

    def _has_row_of_match(self) -> bool:
        """Return whether the SELECT returns rows only if its sources have a matching row.

        Aggregates without GROUP BY return a row even for no rows.
        """
        from sqlglot import exp

        plain = not {name.rstrip("_") for name, value in self.node.args.items() if value} - (_PLAIN | {"joins"})
        return (
            plain and not any(True for _ in own_nodes(self.node, exp.AggFunc)) and not _has_unknown_function(self.node)
        )

    def aggregates(self) -> tuple[Aggregate, ...]:
        """Return the aggregates of a SELECT with only counts, minimums and maximums of one table; otherwise ().

        Scans must evaluate its WHERE completely.
        """
        from sqlglot import exp

        others = {name.rstrip("_") for name, value in self.node.args.items() if value} - _PLAIN
        if others or self.node.args.get("with") or len(self.sources) != 1 or not self._is_exact:
            return ()
        found = []
        for each in self.node.expressions:
            node = each.unalias()
            operand = node.this
            if isinstance(node, exp.Count) and not node.expressions and _stands_for_rows(operand):
                found.append(Aggregate("count"))
                continue
            is_end = isinstance(node, exp.Min | exp.Max) and not node.expressions and isinstance(operand, exp.Column)
            origin = self.resolve(operand) if is_end else None
            if origin is None or len(origin.path) != 1:
                return ()
            found.append(Aggregate(node.key, origin.path[0]))
        return tuple(found)

    def limit(self) -> int | None:
        """Return the number of rows (LIMIT plus OFFSET) to read from the only table of a SELECT that may take any rows.

        Returns None without LIMIT, and if another clause or expression needs more rows.
        """
        from sqlglot import exp

        only = _PLAIN | {"limit", "offset"}
        if {name.rstrip("_") for name, value in self.node.args.items() if value} - only or len(self.sources) != 1:
            return None
        plain = exp.Column | exp.Star | exp.Literal
        if not all(isinstance(each.unalias(), plain) for each in self.node.expressions) or not self._is_exact:
            return None
        clauses = [self.node.args.get(name) for name in ("limit", "offset")]
        numbers = [each.expression for each in clauses if each is not None]
        whole = all(isinstance(each, exp.Literal) and each.name.isdecimal() for each in numbers)
        return sum(int(each.name) for each in numbers) if clauses[0] is not None and whole else None


def _stands_for_rows(operand: Any) -> bool:
    """Return whether `count` of an operand counts every row: the operand is `*` or a literal."""
    from sqlglot import exp

    return isinstance(operand, exp.Literal) or (isinstance(operand, exp.Star) and not any(operand.args.values()))


def _ways(pair: tuple[Any, Any] | None) -> list[tuple[Any, Any]]:
    return [] if pair is None else [pair, (pair[1], pair[0])]


class SelectRelation(Relation):
    """A derived table. Conditions on its columns are pushed to the sources of its SELECT.

    `names` are its columns' new names, as in `(SELECT ...) AS q(a, b)`; None without new names.
    """

    def __init__(self, scope: SelectScope, names: Sequence[str] | None = None) -> None:
        self._scope = scope
        own = scope.outputs
        self.columns = None if own is None else tuple(names or [name for name, _ in own])
        if own is not None and names is not None and len(names) != len(own):
            self.columns = None

    def type_of(self, column: int) -> t.Type | None:
        """Return the type of a column that is copied from a source; otherwise None."""
        assert self._scope.outputs is not None
        origin = self._scope.outputs[column][1]
        if origin is None or len(origin.path) != 1:
            return None
        return origin.source.type_of(origin.path[0])

    def values_of(self, path: Path) -> tuple[ValuesOf, ...]:
        """Return the table columns with the values of a column that is copied from a source; otherwise ()."""
        at = [n for n, name in enumerate(self.columns or ()) if name.lower() == path[0].lower()]
        origin = self._scope.outputs[at[0]][1] if len(at) == 1 and self._scope.outputs is not None else None
        return () if origin is None else origin.source.relation.values_of((*origin.path, *path[1:]))

    def push(self, condition: ResolvedCondition, paths: Sequence[Path], nullable: bool) -> bool:
        """Push a condition to the source columns that its columns are copied from. See `Relation.push`."""
        if self.columns is None or self._scope.outputs is None or not self._scope.is_transparent:
            return False
        origins = []
        for path in paths:
            at = [n for n, name in enumerate(self.columns) if name.lower() == path[0].lower()]
            origin = self._scope.outputs[at[0]][1] if len(at) == 1 else None
            if origin is None or not self._scope.keeps_groups_of(origin):
                return False
            origins.append(Origin(origin.source, (*origin.path, *path[1:])))
        return push(condition, origins, nullable)


def _has_unknown_function(select: Any) -> bool:
    """Return whether a SELECT calls an unknown function, which may be an aggregate."""
    from sqlglot import exp

    return any(True for each in select.expressions for _ in each.find_all(exp.Anonymous, exp.AnonymousAggFunc))
