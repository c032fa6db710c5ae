"""Resolve names in a SELECT like Spark: columns of its FROM, struct members, and columns of outer queries."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from lakescan.common import types as t
from lakescan.errors import InvalidStatement, nearest
from lakescan.expressions.scalar.collections import element, member, members_of
from lakescan.expressions.scalar.typed_sql import TypedSql, literal

Names = tuple[str, ...]


@dataclass(frozen=True)
class ScopeColumn:
    """A column of a FROM clause.

    - `value`: its SQL and type.
    - `qualifiers`: the qualifiers, in lower case, that may precede its name.
    - `is_hidden`: whether `*` leaves it out, because it is a metadata column or one side of a USING column.
    - `only_qualified`: whether it needs a qualifier, because its unqualified name means the merged column of USING.
    - `is_metadata`: whether it is a metadata column of a table, which `table.*` leaves out too.
    """

    name: str
    value: TypedSql
    qualifiers: frozenset[Names] = frozenset()
    is_hidden: bool = False
    only_qualified: bool = False
    is_metadata: bool = False

    def renamed(self, name: str, qualifiers: frozenset[Names]) -> ScopeColumn:
        """Return the column with another name and qualifiers."""
        return replace(self, name=name, qualifiers=qualifiers)


@dataclass
class NameScope:
    """The columns that an expression may name.

    - `outer`: the scope of the outer query; None for the outermost query.
    - `aliases`: the values of earlier names in the select list, which later expressions may use, by name in lower case.
    - `as_grouped`: in a query with groups, returns the value of a column after the aggregation. Its second argument is
      the column's name for messages.
    - `read_within`: the columns of this scope that subqueries of the expression read, in order.
    """

    columns: Sequence[ScopeColumn]
    outer: NameScope | None = None
    aliases: dict[str, TypedSql] | None = None
    as_grouped: Callable[[TypedSql, str], TypedSql] | None = None
    read_within: list[str] = field(default_factory=list)

    def resolve(self, path: Names) -> TypedSql:
        """Return the value of a column or struct member, also from outer scopes, by the parts of its name.

        Raises `InvalidStatement` if the name is unknown or ambiguous.
        """
        for scope in self._chain():
            found = scope.resolve_locally(path)
            if found is not None:
                if scope is not self:
                    scope.read_within.append(path[-1])
                return found
        candidates = [each.name for scope in self._chain() for each in scope.columns]
        hint = nearest(path[-1], candidates) or (f" There are: {', '.join(candidates[:20])}." if candidates else "")
        raise InvalidStatement(f"there is no column {'.'.join(path)!r}.{hint}")

    def _chain(self) -> Iterator[NameScope]:
        scope: NameScope | None = self
        while scope is not None:
            yield scope
            scope = scope.outer

    def resolve_locally(self, path: Names) -> TypedSql | None:
        """Return the value of a name in this scope only; None if it is unknown here.

        Raises `InvalidStatement` for an ambiguous name, an unknown struct member, and a column that is not a key of the
        groups.
        """
        found = self.column(path)
        if found is None:
            if self.aliases is not None and (known := self.aliases.get(path[0].lower())) is not None:
                return _members(known, path[1:])
            return None
        column, rest = found
        if self.as_grouped is None:
            return _members(column.value, rest)
        for size in range(len(rest), 0, -1):  # a member may be a key, or the struct that contains it
            try:
                return _members(self.as_grouped(_members(column.value, rest[:size]), ".".join(path)), rest[size:])
            except InvalidStatement:
                continue
        return _members(self.as_grouped(column.value, ".".join(path)), rest)

    def has_one(self, path: Names) -> bool:
        """Return whether a name means exactly one column of this scope; False if it is unknown or ambiguous."""
        try:
            return self.column(path) is not None
        except InvalidStatement:
            return False

    def column(self, path: Names) -> tuple[ScopeColumn, Names] | None:
        """Return the column that a name begins with, and the names of the struct members that follow.

        Returns None if this scope has no such column. Raises `InvalidStatement` for an ambiguous name.
        """
        lowered = tuple(name.lower() for name in path)
        for size in range(len(path) - 1, 0, -1):
            found = [each for each in self._name_index.get(lowered[size], ()) if lowered[:size] in each.qualifiers]
            if found:
                return _single_column(found, path), path[size + 1 :]
        found = [each for each in self._name_index.get(lowered[0], ()) if not each.only_qualified]
        return (_single_column(found, path), path[1:]) if found else None

    @cached_property
    def _name_index(self) -> dict[str, list[ScopeColumn]]:
        """The columns by name in lower case, so that looking up a name is fast in tables with thousands of columns."""
        found: dict[str, list[ScopeColumn]] = {}
        for each in self.columns:
            found.setdefault(each.name.lower(), []).append(each)
        return found

    def star_members(self, qualifier: Names) -> list[str] | None:
        """Return the names of the members that `column.*` selects.

        Returns None if the qualifier is a table's name, unknown, or not a struct.
        """
        lowered = tuple(name.lower() for name in qualifier)
        if not qualifier or any(lowered in each.qualifiers for each in self.columns):
            return None
        found = self.column(qualifier)
        kind = None if found is None else _members(found[0].value, found[1]).type
        return [each.name for each in kind.fields] if isinstance(kind, t.Struct) else None

    def star_columns(self, qualifier: Names) -> list[ScopeColumn]:
        """Return the columns of `*` or `qualifier.*`; raises `InvalidStatement` for an unknown qualifier."""
        if not qualifier:
            return [each for each in self.columns if not each.is_hidden]
        lowered = tuple(name.lower() for name in qualifier)
        found = [each for each in self.columns if lowered in each.qualifiers and not each.is_metadata]
        if not found:
            raise InvalidStatement(f"there is no table {'.'.join(qualifier)!r} in this FROM")
        return found


def _single_column(found: list[ScopeColumn], path: Names) -> ScopeColumn:
    if len(found) > 1:
        raise InvalidStatement(f"the column {'.'.join(path)!r} is ambiguous: put the name of its table before it")
    return found[0]


def _members(value: TypedSql, rest: Names) -> TypedSql:
    for name in rest:
        match value.type:
            case t.Struct():
                value = member(value, name)
            case t.MapOf():
                value = element(value, literal(name, t.STRING))
            case t.ListOf() if isinstance(value.type.element.type, t.Struct):
                value = members_of(value, name)
            case _:
                raise InvalidStatement(f"there is no column {name!r} in a value of type {value.type}")
    return value
