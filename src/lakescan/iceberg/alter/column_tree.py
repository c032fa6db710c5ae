"""Trees of columns: a field by its path, ignoring case as Spark does, and the tree with one of its fields changed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from lakescan.common import types as t
from lakescan.common.references import dotted_path, parse_reference
from lakescan.common.schema import Schema
from lakescan.definition.table_definition import Term
from lakescan.errors import InvalidOption, NoSuchColumn, nearest
from lakescan.iceberg.metadata.partition_spec import Transform

Fields = tuple[t.Field, ...]


@dataclass(frozen=True)
class ColumnPath:
    """A field, and the fields around it, from the column down to its parent."""

    field: t.Field
    around: Fields

    @property
    def path(self) -> str:
        """The reference to the field."""
        return dotted_path(each.name for each in (*self.around, self.field))

    @property
    def struct(self) -> t.Field | None:
        """The struct whose member it is; None for a column. Raises `InvalidOption` in a list or map itself."""
        if not self.around:
            return None
        if not isinstance(self.around[-1].type, t.Struct):
            raise InvalidOption(
                f"{self.path} is a part of a {_collection_name(self.around[-1].type)}: only its type can change"
            )
        return self.around[-1]

    @property
    def is_in_collection(self) -> bool:
        """Whether it is in a list or a map."""
        return any(isinstance(each.type, t.ListOf | t.MapOf) for each in self.around)


def find_field(schema: Schema, path: Iterable[str]) -> ColumnPath:
    """Find a field by its path; names of list elements and map values may be left out above members of structs.

    Raises `NoSuchColumn`, and `InvalidOption` for a part of the key of a map, which cannot change.
    """
    names = tuple(path)
    around: Fields = ()
    for name in names:
        members = t.children(around[-1].type) if around else schema.fields
        found = find_by_name(members, name)
        if not found and around and isinstance(around[-1].type, t.ListOf | t.MapOf):
            around = (*around, members[-1])  # its items
            found = find_by_name(t.children(members[-1].type), name)
        if len(found) > 1:
            shown = ", ".join(each.name for each in found)
            raise NoSuchColumn(f"column {dotted_path(names)!r} is ambiguous when case is ignored: {shown}")
        if not found:
            known = [dotted_path(each) for each in _paths(schema.fields, ())]
            raise NoSuchColumn(f"no column {dotted_path(names)!r} in the table.{nearest(dotted_path(names), known)}")
        if around and isinstance(kind := around[-1].type, t.MapOf) and found[0] is kind.key:
            raise InvalidOption(f"{dotted_path(names)} is the key of a map, or a part of it: keys cannot change")
        around = (*around, found[0])
    return ColumnPath(around[-1], around[:-1])


def find_by_name(fields: Iterable[t.Field], name: str) -> Fields:
    """The fields of that name; those that have it if case is ignored, if there is none."""
    found = tuple(fields)
    exact = tuple(each for each in found if each.name == name)
    return exact or tuple(each for each in found if each.name.lower() == name.lower())


def _paths(fields: Fields, above: tuple[str, ...]) -> Iterable[tuple[str, ...]]:
    for each in fields:
        yield (*above, each.name)
        yield from _paths(t.children(each.type), (*above, each.name))


def _collection_name(kind: t.Type) -> str:
    return "list" if isinstance(kind, t.ListOf) else "map"


def with_members(fields: Fields, struct: t.Field | None, change: Callable[[Fields], Fields]) -> Fields:
    """Return the fields with the members of a struct, at any depth, changed; those fields themselves without one."""
    if struct is None:
        return change(fields)

    def change_struct(of: t.Field) -> t.Field:
        assert isinstance(of.type, t.Struct)
        return replace(of, type=t.Struct(change(of.type.fields)))

    return with_field(fields, struct.id, change_struct)


def with_field(fields: Fields, field_id: int, change: Callable[[t.Field], t.Field]) -> Fields:
    """Return the fields with one of them, at any depth, changed."""
    return tuple(_change_field(each, field_id, change) for each in fields)


def _change_field(of: t.Field, field_id: int, change: Callable[[t.Field], t.Field]) -> t.Field:
    if of.id == field_id:
        return change(of)
    match of.type:
        case t.Struct(fields):
            kind: t.Type = t.Struct(with_field(fields, field_id, change))
        case t.ListOf(element):
            kind = t.ListOf(_change_field(element, field_id, change))
        case t.MapOf(key, value):
            kind = t.MapOf(key, _change_field(value, field_id, change))
        case _:
            return of
    return replace(of, type=kind)


def parent_ids(fields: Fields) -> dict[int, int | None]:
    """The id of the field around each field, by its own id; None for columns."""
    found: dict[int, int | None] = {each.id: None for each in fields}
    for each in t.walk(fields):
        found |= {inner.id: each.id for inner in t.children(each.type)}
    return found


def check_names(fields: Fields, where: str) -> None:
    """Raise `InvalidOption` for two fields of one name, ignoring case, in any struct among the fields."""
    lower = [each.name.lower() for each in fields]
    if twice := next((each.name for each in fields if lower.count(each.name.lower()) > 1), None):
        raise InvalidOption(f"{where} has two members named {twice!r}: names are compared ignoring case")
    for each in fields:
        if isinstance(each.type, t.Struct | t.ListOf | t.MapOf):
            check_names(t.children(each.type), f"{where}.{each.name}")


def resolve_term(term: Term, schema: Schema, what: str) -> tuple[t.Field, Transform]:
    """The source column of a term, and its transform.

    Raises `NoSuchColumn`, and `InvalidOption` for a column that has no such transform; `what` is what it is for.
    """
    found = find_field(schema, parse_reference(term.column))
    transform = Transform(term.name, term.number)
    if found.is_in_collection:
        raise InvalidOption(f"{what} by {term}: {found.path} is in a list or a map, and has no single value in a row")
    if not transform.takes(found.field.type):
        raise InvalidOption(f"{what} by {term}: column {found.path} is {found.field.type}, which has no such transform")
    return found.field, transform
