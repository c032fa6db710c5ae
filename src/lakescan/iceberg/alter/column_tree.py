"""Column trees: find a field by its path, ignoring case as Spark does, and return the tree with a field changed."""

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
    """A field and the fields that contain it (`around`), from the top-level column down to its parent."""

    field: t.Field
    around: Fields

    @property
    def path(self) -> str:
        """The dotted reference to the field, quoted where needed."""
        return dotted_path(each.name for each in (*self.around, self.field))

    @property
    def struct(self) -> t.Field | None:
        """The struct that the field is a member of; None for a top-level column.

        Raises `InvalidOption` for a list element, a map key or a map value.
        """
        if not self.around:
            return None
        if not isinstance(self.around[-1].type, t.Struct):
            raise InvalidOption(
                f"{self.path} is part of a {_collection_name(self.around[-1].type)}: only its type can change"
            )
        return self.around[-1]

    @property
    def is_in_collection(self) -> bool:
        """Whether the field is inside a list or a map."""
        return any(isinstance(each.type, t.ListOf | t.MapOf) for each in self.around)


def find_field(schema: Schema, path: Iterable[str]) -> ColumnPath:
    """Find a field by its path; names of list elements and map values may be left out above members of structs.

    Raises `NoSuchColumn`, or `InvalidOption` for a map key or a field inside one, because keys cannot change.
    """
    names = tuple(path)
    around: Fields = ()
    for name in names:
        members = t.children(around[-1].type) if around else schema.fields
        found = find_by_name(members, name)
        if not found and around and isinstance(around[-1].type, t.ListOf | t.MapOf):
            around = (*around, members[-1])  # the list element or map value
            found = find_by_name(t.children(members[-1].type), name)
        if len(found) > 1:
            shown = ", ".join(each.name for each in found)
            raise NoSuchColumn(f"column {dotted_path(names)!r} is ambiguous when case is ignored: {shown}")
        if not found:
            known = [dotted_path(each) for each in _paths(schema.fields, ())]
            raise NoSuchColumn(f"no column {dotted_path(names)!r} in the table.{nearest(dotted_path(names), known)}")
        if around and isinstance(kind := around[-1].type, t.MapOf) and found[0] is kind.key:
            raise InvalidOption(f"{dotted_path(names)} is the key of a map, or part of one: keys cannot change")
        around = (*around, found[0])
    return ColumnPath(around[-1], around[:-1])


def find_by_name(fields: Iterable[t.Field], name: str) -> Fields:
    """Return the fields with exactly that name, else those with that name ignoring case; empty if there are none."""
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
    """Return the fields with the members of `struct`, at any depth, replaced by the result of `change`.

    If `struct` is None, `change` is applied to `fields` themselves.
    """
    if struct is None:
        return change(fields)

    def change_struct(of: t.Field) -> t.Field:
        assert isinstance(of.type, t.Struct)
        return replace(of, type=t.Struct(change(of.type.fields)))

    return with_field(fields, struct.id, change_struct)


def with_field(fields: Fields, field_id: int, change: Callable[[t.Field], t.Field]) -> Fields:
    """Return the fields with the field `field_id`, at any depth except in map keys, replaced by the result of `change`.

    Without such a field, nothing changes.
    """
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
    """Return the id of each field's parent by the field's id; None for top-level columns."""
    found: dict[int, int | None] = {each.id: None for each in fields}
    for each in t.walk(fields):
        found |= {inner.id: each.id for inner in t.children(each.type)}
    return found


def check_names(fields: Fields, where: str) -> None:
    """Raise `InvalidOption` if two fields of the same parent, at any level, have the same name ignoring case.

    `where` is the parent of `fields` in the message.
    """
    lower = [each.name.lower() for each in fields]
    if twice := next((each.name for each in fields if lower.count(each.name.lower()) > 1), None):
        raise InvalidOption(f"{where} has two members named {twice!r}: names are compared ignoring case")
    for each in fields:
        if isinstance(each.type, t.Struct | t.ListOf | t.MapOf):
            check_names(t.children(each.type), f"{where}.{each.name}")


def resolve_term(term: Term, schema: Schema, what: str) -> tuple[t.Field, Transform]:
    """Return the source column of a term, and its transform.

    Raises `NoSuchColumn`, or `InvalidOption` for a column that does not allow the transform. `what` describes the use
    of the term in the message.
    """
    found = find_field(schema, parse_reference(term.column))
    transform = Transform(term.name, term.number)
    if found.is_in_collection:
        raise InvalidOption(f"{what} by {term}: {found.path} is in a list or a map, and has no single value in a row")
    if not transform.takes(found.field.type):
        raise InvalidOption(f"{what} by {term}: column {found.path} is {found.field.type}, which has no such transform")
    return found.field, transform
