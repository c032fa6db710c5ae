"""What a FROM has: relations with columns, and where conditions on them go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from lakescan.common import types as t
from lakescan.common.schema import Schema
from lakescan.expressions.predicate import TRUE, Predicate, conjunction
from lakescan.query.conditions import Condition, Path
from lakescan.query.settings import Settings
from lakescan.query.understood import is_true_of_nulls, understood


@dataclass
class Pushed:
    """What goes into the scan of one occurrence. `columns` is None for all of them."""

    columns: tuple[str, ...] | None = None
    conditions: list[Predicate] = field(default_factory=list)
    limit: int | None = None

    @property
    def predicate(self) -> Predicate:
        """All conditions, combined."""
        return conjunction(self.conditions) if self.conditions else TRUE


class Relation:
    """What a FROM has: columns by name, and where conditions on them go. This one is of unknown columns."""

    columns: tuple[str, ...] | None = None

    def type_of(self, column: int) -> t.Type | None:
        """The type of a column, by its position; None if it is not known."""
        return None

    def push(self, condition: Condition, paths: Sequence[Path], nullable: bool) -> bool:
        """Take a condition over these paths; whether it is evaluated in full.

        `nullable`: rows of nulls may be added to the relation's later, as an outer join does.
        """
        return False


class TableRelation(Relation):
    """A table: a condition becomes one of its scan, as far as it is understood."""

    def __init__(self, schema: Schema, pushed: Pushed, settings: Settings, is_plain: bool) -> None:
        self.columns = tuple(schema.names)
        self._schema, self._pushed, self._settings, self._is_plain = schema, pushed, settings, is_plain

    def type_of(self, column: int) -> t.Type | None:
        """The type of a column."""
        return self._schema.fields[column].type

    def push(self, condition: Condition, paths: Sequence[Path], nullable: bool) -> bool:
        """Take what is understood of a condition."""
        if not self._is_plain:
            return False
        exact = [self._exact(path) for path in paths]
        known = understood(condition.with_paths(exact).node, self._schema, self._settings)
        if known.predicate == TRUE or (nullable and is_true_of_nulls(known.predicate, self._schema)):
            return False
        self._pushed.conditions.append(known.predicate)
        return known.exact

    def _exact(self, path: Path) -> Path:
        """The path with the column's name as the schema has it."""
        return (next(name for name in self._schema.names if name.lower() == path[0].lower()), *path[1:])


class UnionRelation(Relation):
    """A UNION, INTERSECT or EXCEPT: a condition on it is one on both sides, where their types agree."""

    def __init__(self, left: Relation, right: Relation, is_transparent: bool) -> None:
        self._left, self._right, self._is_transparent = left, right, is_transparent
        same = left.columns is not None and right.columns is not None and len(left.columns) == len(right.columns)
        self.columns = left.columns if same else None

    def type_of(self, column: int) -> t.Type | None:
        """The type of a column if both sides have the same."""
        left, right = self._left.type_of(column), self._right.type_of(column)
        return left if left == right else None

    def push(self, condition: Condition, paths: Sequence[Path], nullable: bool) -> bool:
        """Hand a condition to both sides."""
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


class Opaque(Relation):
    """A relation of which only the columns' names are known, if that; it takes no conditions."""

    def __init__(self, columns: tuple[str, ...] | None) -> None:
        self.columns = columns


@dataclass
class Source:
    """A relation in a FROM, with the names that columns may be qualified by."""

    qualifiers: frozenset[Path]
    relation: Relation
    nullable: bool = False

    def has(self, name: str) -> bool:
        """Whether it has exactly one column of a name."""
        columns = self.relation.columns
        return columns is not None and [each.lower() for each in columns].count(name.lower()) == 1

    def may_have(self, name: str) -> bool:
        """Whether it has a column of a name, or its columns are not known."""
        columns = self.relation.columns
        return columns is None or name.lower() in (each.lower() for each in columns)

    def type_of(self, name: str) -> t.Type | None:
        """The type of a column that it has."""
        assert self.relation.columns is not None
        return self.relation.type_of([each.lower() for each in self.relation.columns].index(name.lower()))


@dataclass(frozen=True)
class Origin:
    """A column, or a member of it, of a source."""

    source: Source
    path: Path


def same_column(one: Origin, other: Origin) -> bool:
    """Whether two columns are the same."""
    paths = [tuple(name.lower() for name in each.path) for each in (one, other)]
    return one.source is other.source and paths[0] == paths[1]
