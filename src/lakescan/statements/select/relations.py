"""Relations of a FROM clause: their columns, and how conditions on the columns are pushed to scans."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, Protocol

import pyarrow as pa

from lakescan.common import types as t
from lakescan.common.schema import Schema
from lakescan.errors import LakescanError
from lakescan.expressions.bind import bind
from lakescan.expressions.evaluate import matching_rows
from lakescan.expressions.inference import Inference, infer_predicate
from lakescan.expressions.predicate import TRUE, Predicate, conjunction, leaves
from lakescan.local.aggregates import Aggregate
from lakescan.statements.select.conditions import (
    AmongValues,
    Path,
    ResolvedCondition,
    ValuesOf,
    columns_of,
    conjuncts,
    disjuncts,
)
from lakescan.statements.select.session import QuerySettings
from lakescan.statements.select.table_references import Occurrence


@dataclass
class Pushdown:
    """The parts of a statement to push into the scan of one occurrence.

    - `columns`: the columns to read; None for all.
    - `conditions`: the filters, all of which must be true.
    - `limit`: the largest number of rows; None for all.
    - `among`: columns, each with the table columns whose values it must have, as joins and IN require.
    - `aggregates`: the columns of the result, if the statement computes only aggregates over the filtered rows.
    """

    columns: tuple[str, ...] | None = None
    conditions: list[Predicate] = field(default_factory=list)
    limit: int | None = None
    among: list[tuple[Path, tuple[ValuesOf, ...]]] = field(default_factory=list)
    aggregates: tuple[Aggregate, ...] = ()

    def map_occurrences(self, places: Mapping[Occurrence, Occurrence]) -> Pushdown:
        """Return the pushdown with the occurrences in `among` replaced by their entries in `places`."""
        return replace(
            self,
            among=[
                (path, tuple(ValuesOf(places[each.occurrence], each.path) for each in values))
                for path, values in self.among
            ],
        )

    @property
    def predicate(self) -> Predicate:
        """The conjunction of all conditions; TRUE without conditions."""
        return conjunction(self.conditions) if self.conditions else TRUE


class Relation:
    """A relation of a FROM clause: its columns, and how conditions on them are pushed.

    `columns` are the names in order, or None if they are unknown. This base class is a relation with unknown columns,
    which accepts no conditions.
    """

    columns: tuple[str, ...] | None = None

    def type_of(self, column: int) -> t.Type | None:
        """Return the type of the column at a position; None if it is unknown."""
        return None

    def push(self, condition: ResolvedCondition, paths: Sequence[Path], nullable: bool) -> bool:
        """Push a condition into the scans below, and return whether they evaluate it completely.

        `paths`: for each column of the condition, its name in this relation and the struct members in it. `nullable`:
        whether an outer join may add rows of nulls to this relation later.
        """
        return False

    def values_of(self, path: Path) -> tuple[ValuesOf, ...]:
        """Return table columns that together hold all non-null values of a column; empty if such columns are not known.

        `path` has the column's name and struct members in it.
        """
        return ()


class TableRelation(Relation):
    """A scanned table. The part of a condition that can be converted to a filter is pushed into its scan."""

    def __init__(self, occurrence: Occurrence, schema: Schema, pushed: Pushdown, settings: QuerySettings) -> None:
        self.columns: tuple[str, ...] = tuple(schema.names)
        self._occurrence, self._schema, self._pushed, self._settings = occurrence, schema, pushed, settings

    def type_of(self, column: int) -> t.Type | None:
        """Return the type of the column at a position."""
        return self._schema.fields[column].type

    def push(self, condition: ResolvedCondition, paths: Sequence[Path], nullable: bool) -> bool:
        """Push the part of a condition that can be converted to a filter into the scan. See `Relation.push`.

        With `nullable`, a filter that is true of nulls is not pushed, because rows of nulls are added only after the
        scan.
        """
        if not self._occurrence.is_plain:
            return False
        exact = [self._exact(path) for path in paths]
        if isinstance(condition, AmongValues):
            self._pushed.among.append((exact[0], condition.values))
            return False
        known = imply_predicate(condition.with_paths(exact).node, self._schema, self._settings)
        if known.predicate == TRUE or (nullable and is_true_of_nulls(known.predicate, self._schema)):
            return False
        self._pushed.conditions.append(known.predicate)
        return known.exact

    def values_of(self, path: Path) -> tuple[ValuesOf, ...]:
        """Return the column itself, unless a sample or pivot changes the columns or rows."""
        return (ValuesOf(self._occurrence, self._exact(path)),) if self._occurrence.is_plain else ()

    def _exact(self, path: Path) -> Path:
        """Return the path with the column's name spelled as in the schema."""
        return (next(name for name in self._schema.names if name.lower() == path[0].lower()), *path[1:])


class FrameRelation(Relation):
    """A view or frame of the engine, whose columns are known by name."""

    def __init__(self, occurrence: Occurrence, columns: Sequence[str]) -> None:
        self.columns: tuple[str, ...] = tuple(columns)
        self._occurrence = occurrence

    def values_of(self, path: Path) -> tuple[ValuesOf, ...]:
        """Return the column itself."""
        return (ValuesOf(self._occurrence, path),)


class UnionRelation(Relation):
    """A UNION, INTERSECT or EXCEPT. A condition is pushed to both sides if the column types agree.

    `is_transparent`: whether it has no clause, such as LIMIT, that conditions must not cross.
    """

    def __init__(self, left: Relation, right: Relation, is_transparent: bool) -> None:
        self._left, self._right, self._is_transparent = left, right, is_transparent
        same = left.columns is not None and right.columns is not None and len(left.columns) == len(right.columns)
        self.columns: tuple[str, ...] | None = left.columns if same else None

    def type_of(self, column: int) -> t.Type | None:
        """Return the type of a column if both sides agree; otherwise None."""
        left, right = self._left.type_of(column), self._right.type_of(column)
        return left if left == right else None

    def push(self, condition: ResolvedCondition, paths: Sequence[Path], nullable: bool) -> bool:
        """Push a condition to both sides. Always returns False, so the engine evaluates it too."""
        left, right = self._left.columns, self._right.columns
        if self.columns is None or left is None or right is None or not self._is_transparent:
            return False
        places = [[n for n, name in enumerate(self.columns) if name.lower() == path[0].lower()] for path in paths]
        if any(len(at) != 1 or self.type_of(at[0]) is None for at in places):
            return False
        if len({name.lower() for name in right}) < len(right):
            return False
        for side, names in ((self._left, left), (self._right, right)):
            side.push(condition, [(names[at[0]], *path[1:]) for at, path in zip(places, paths, strict=True)], nullable)
        return False

    def values_of(self, path: Path) -> tuple[ValuesOf, ...]:
        """Return the columns of both sides; empty if those of one side are unknown."""
        at = [n for n, name in enumerate(self.columns or ()) if name.lower() == path[0].lower()]
        if len(at) != 1:
            return ()
        sides = []
        for side in (self._left, self._right):
            name = (side.columns or ())[at[0]]
            if [each.lower() for each in side.columns or ()].count(name.lower()) != 1:
                return ()
            sides.append(side.values_of((name, *path[1:])))
        return sides[0] + sides[1] if all(sides) else ()


class OpaqueRelation(Relation):
    """A relation that accepts no conditions. At most its column names are known."""

    def __init__(self, columns: tuple[str, ...] | None) -> None:
        self.columns = columns


class SharedRelation(Relation):
    """A WITH query that is read `readers` times. The disjunction of all readers' conditions is pushed into it."""

    def __init__(self, inner: Relation, readers: int) -> None:
        self.columns: tuple[str, ...] | None = inner.columns
        self._inner, self._readers = inner, readers
        self._asked: list[_SharedReader] = []

    def add_reader(self) -> Relation:
        """Return the relation for one more reader of the query."""
        self._asked.append(_SharedReader(self._inner))
        return self._asked[-1]

    def push_common_conditions(self) -> None:
        """Push the disjunction of the conditions of all readers; does nothing if a reader has no condition."""
        from sqlglot import exp

        if len(self._asked) < self._readers or not all(each.conditions for each in self._asked):
            return
        of_readers = [exp.and_(*(each.node for each in asked.conditions)) for asked in self._asked]
        node = exp.paren(exp.or_(*of_readers))
        columns = columns_of(node)
        if not all(isinstance(each, exp.Column | exp.Dot) for each in columns):
            return
        paths = [tuple(part.name for part in each.parts) for each in columns]
        self._inner.push(ResolvedCondition(node, columns), paths, any(each.nullable for each in self._asked))


class _SharedReader(Relation):
    """One reader of a shared WITH query, and its conditions."""

    def __init__(self, inner: Relation) -> None:
        self.columns, self._inner = inner.columns, inner
        self.conditions: list[ResolvedCondition] = []
        self.nullable = False

    def type_of(self, column: int) -> t.Type | None:
        """Return the type of the column at a position."""
        return self._inner.type_of(column)

    def push(self, condition: ResolvedCondition, paths: Sequence[Path], nullable: bool) -> bool:
        """Record a condition for `SharedRelation.push_common_conditions`. Always returns False."""
        if not isinstance(condition, AmongValues):
            self.conditions.append(condition.with_paths(paths))
            self.nullable |= nullable
        return False

    def values_of(self, path: Path) -> tuple[ValuesOf, ...]:
        """Return the columns of the shared query."""
        return self._inner.values_of(path)


@dataclass
class FromSource:
    """A relation in a FROM clause.

    - `qualifiers`: the qualifiers of its columns, in lower case.
    - `nullable`: whether an outer join may add rows of nulls for it.
    """

    qualifiers: frozenset[Path]
    relation: Relation
    nullable: bool = False

    def has(self, name: str) -> bool:
        """Return whether the source has exactly one column of a name, ignoring case."""
        return len(self._places.get(name.lower(), ())) == 1

    def may_have(self, name: str) -> bool:
        """Return whether the source has a column of a name, or its columns are unknown."""
        return self.relation.columns is None or name.lower() in self._places

    def type_of(self, name: str) -> t.Type | None:
        """Return the type of a column, which must exist."""
        return self.relation.type_of(self._places[name.lower()][0])

    @cached_property
    def _places(self) -> dict[str, list[int]]:
        """Positions of the columns, by name in lower case. A dictionary is fast in tables with thousands of columns."""
        found: dict[str, list[int]] = {}
        for place, name in enumerate(self.relation.columns or ()):
            found.setdefault(name.lower(), []).append(place)
        return found


@dataclass(frozen=True)
class Origin:
    """The column of a source that a name means. `path` has the column's name and struct members in it."""

    source: FromSource
    path: Path


def same_column(one: Origin, other: Origin) -> bool:
    """Return whether two origins are the same column or member."""
    paths = [tuple(name.lower() for name in each.path) for each in (one, other)]
    return one.source is other.source and paths[0] == paths[1]


def imply_predicate(condition: Any, schema: Schema, settings: QuerySettings) -> Inference:
    """Return the predicate on single columns that a condition implies, and whether it is exact.

    TRUE if nothing is implied. `condition` is a sqlglot tree whose columns are paths of the schema. The statement may
    run later than it is planned, so the current time is only a lower bound.
    """
    found = infer_predicate(
        condition,
        schema,
        time_zone=settings.zone_name,
        now=datetime.now(UTC),
        now_is_exact=False,
        ansi=settings.is_ansi,
    )
    try:
        bind(found.predicate, schema)
    except LakescanError:
        return Inference(TRUE)
    return found


def is_true_of_nulls(predicate: Predicate, schema: Schema) -> bool:
    """Return whether a predicate is true for a row of nulls, as an outer join adds."""
    bound = bind(predicate, schema)
    nulls = {each.bound_id: schema.by_id[each.bound_id].type.arrow() for each in leaves(bound)}
    return bool(matching_rows(bound, lambda each: pa.nulls(1, nulls[each]), 1)[0].as_py())


class ColumnResolver(Protocol):
    """Resolves the columns of a SELECT to their sources."""

    def resolve(self, column: Any, sources: Sequence[FromSource] | None = None) -> Origin | None:
        """Return the source of a column node and its path there; None if the source is not certain.

        `sources` are the sources to search, by default all of the SELECT.
        """

    def relation_of_query(self, node: Any) -> Relation:
        """Return the relation of a subquery of the SELECT."""


class Conditions:
    """Pushes the conditions of one SELECT, from WHERE and ON, to its sources."""

    def __init__(self, scope: ColumnResolver) -> None:
        self._scope = scope

    def push_part(self, part: Any, visible: list[FromSource], reached: list[FromSource]) -> bool:
        """Push one conjunct to the only source it refers to, and return whether the scan evaluates it completely.

        `visible` are the sources that its columns may belong to. Only sources in `reached` may be filtered by it.
        """
        from sqlglot import exp

        if isinstance(part, exp.In) and part.args.get("query") is not None:
            self._push_membership(part, visible, reached)
        if part.find(exp.Query, exp.Window, exp.AggFunc) is not None:
            return False
        if (sides := equal_columns(part)) is not None:
            left, right = (self._scope.resolve(each, visible) for each in sides)
            if left is not None and right is not None:
                self.push_equality(sides[0], left, right, reached)
        origins = [self._scope.resolve(column, visible) for column in columns_of(part)]
        known = [each for each in origins if each is not None]
        if not known or len(known) < len(origins):
            return False
        if any(each.source is not known[0].source for each in known):
            self._push_shares(part, visible, reached)
            return False
        if all(each is not known[0].source for each in reached):
            return False
        return push(ResolvedCondition(part, columns_of(part)), known, nullable=False)

    def _push_shares(self, part: Any, visible: list[FromSource], reached: list[FromSource]) -> None:
        """Push to each source the conditions on it in a disjunction, if every branch has one.

        For `(a.x = 1 AND b.y = 1) OR (a.x = 2 AND b.y = 2)`, `a.x = 1 OR a.x = 2` is pushed to `a`.
        """
        from sqlglot import exp

        branches = [conjuncts(each) for each in disjuncts(part)]
        for source in reached if len(branches) > 1 else ():
            shares = [[each for each in branch if self._is_about(each, source, visible)] for branch in branches]
            if all(shares):
                node = exp.paren(exp.or_(*(exp.and_(*share) for share in shares)))
                origins = [self._scope.resolve(column, visible) for column in columns_of(node)]
                known = [each for each in origins if each is not None]
                push(ResolvedCondition(node, columns_of(node)), known, nullable=False)

    def _is_about(self, part: Any, source: FromSource, visible: list[FromSource]) -> bool:
        origins = [self._scope.resolve(column, visible) for column in columns_of(part)]
        return bool(origins) and all(each is not None and each.source is source for each in origins)

    def push_equality(self, column: Any, left: Origin, right: Origin, reached: Sequence[FromSource]) -> None:
        """Restrict each side of a join equality to the values of the other side.

        Only sources in `reached`, whose unmatched rows the join drops, are restricted. `column` is a node of the
        equality.
        """
        for target, other in ((left, right), (right, left)):
            values = other.source.relation.values_of(other.path)
            if values and target.source is not other.source and any(each is target.source for each in reached):
                push(AmongValues(column, values), [target], nullable=False)

    def _push_membership(self, part: Any, visible: list[FromSource], reached: list[FromSource]) -> None:
        """Restrict the column of `column IN (SELECT ...)` to the values of the subquery."""
        if columns_of(part.this) != [part.this]:
            return
        origin = self._scope.resolve(part.this, visible)
        relation = self._scope.relation_of_query(part.args["query"])
        if origin is None or relation.columns is None or len(relation.columns) != 1:
            return
        values = relation.values_of((relation.columns[0],)) if relation.columns[0] else ()
        if values and any(each is origin.source for each in reached):
            push(AmongValues(part.this, values), [origin], nullable=False)


def push(condition: ResolvedCondition, origins: Sequence[Origin], nullable: bool) -> bool:
    """Push a condition to the source that all its columns share. Return whether the scan evaluates it completely.

    `origins` are the sources of its columns. Nothing is pushed if they differ.
    """
    source = origins[0].source
    if any(each.source is not source for each in origins):
        return False
    return source.relation.push(condition, [each.path for each in origins], nullable or source.nullable)


def equal_columns(part: Any) -> tuple[Any, Any] | None:
    """Return the two column nodes of a condition `column = column`; None for another condition."""
    from sqlglot import exp

    if not isinstance(part, exp.EQ):
        return None
    left, right = part.left.unnest(), part.right.unnest()
    return (left, right) if columns_of(left) == [left] and columns_of(right) == [right] else None
