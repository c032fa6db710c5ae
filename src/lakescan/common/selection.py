"""The output columns of `select`: columns of a table or members of its structs, possibly renamed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from lakescan.common import types as t
from lakescan.common.metadata_columns import metadata_member
from lakescan.common.references import dotted_path, parse_reference
from lakescan.common.schema import Schema
from lakescan.errors import InvalidOption, NoSuchColumn, UnsupportedFeature

_WITH_ALIAS = re.compile(r"(.+?)\s+as\s+(`(?:[^`]|``)+`|[^`.\s]+)\s*", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True)
class SelectedColumn:
    """One output column: `path` leads from a column of the table down to the selected field."""

    path: tuple[t.Field, ...]
    name: str

    @cached_property
    def field(self) -> t.Field:
        """The output column as a field. It is required only if all fields on the path are required."""
        field, required = self.path[-1], all(each.required for each in self.path)
        if (field.name, field.required) == (self.name, required):
            return field
        return replace(field, name=self.name, required=required)

    @property
    def reference(self) -> str:
        """The reference to the selected field in the table."""
        return dotted_path(each.name for each in self.path)

    @property
    def text(self) -> str:
        """The argument for `select` that selects this column under its output name."""
        return self.reference if self.name == self.path[-1].name else with_alias(self.reference, self.name)


@dataclass(frozen=True)
class Selection:
    """The output columns of a scan, in order. Their names are unique unless the table itself has duplicate names."""

    columns: tuple[SelectedColumn, ...]
    schema_id: int = 0
    identifier_ids: tuple[int, ...] = ()

    @staticmethod
    def whole(schema: Schema) -> Selection:
        """Select all columns of a schema."""
        columns = tuple(SelectedColumn((field,), field.name) for field in schema.fields)
        return Selection(columns, schema.id, schema.identifier_ids)

    @cached_property
    def output(self) -> Schema:
        """The schema of the output rows."""
        return Schema(tuple(each.field for each in self.columns), self.schema_id, self.identifier_ids)

    @cached_property
    def is_plain(self) -> bool:
        """Whether all output columns are whole columns of the table under their own names."""
        return all(each.field is each.path[0] for each in self.columns)

    @cached_property
    def columns_by_name(self) -> dict[str, SelectedColumn]:
        """The columns by output name."""
        return {each.name: each for each in self.columns}

    def texts(self, names: Iterable[str]) -> list[str]:
        """Return arguments of `select` for the output columns `names`; unknown names are taken as table columns."""
        return [
            self.columns_by_name[name].text if name in self.columns_by_name else dotted_path([name]) for name in names
        ]


def with_alias(reference: str, name: str) -> str:
    """Return the argument for `select` that selects a column or member under another name."""
    if reference != reference.strip():  # the spaces belong to the name
        reference = dotted_path(parse_reference(reference))
    return f"{reference} as `{name.replace('`', '``')}`"


def resolve_selection(schema: Schema, texts: Sequence[str], *, case_sensitive: bool = False) -> Selection:
    """Resolve the arguments of `select`: references to columns or struct members, optionally followed by ` as name`.

    Raises `NoSuchColumn` for an unknown column, `UnsupportedFeature` for members of list elements, map values and
    variants, and `InvalidOption` if two output columns would have the same name.
    """
    columns = tuple(_column(schema, text, case_sensitive) for text in texts)
    known: dict[str, SelectedColumn] = {}
    for each in columns:
        if (other := known.setdefault(each.name, each)) is not each:
            raise InvalidOption(
                f"select returns two columns named {each.name!r} ({other.reference} and {each.reference}): give one of "
                f'them another name, select(other_name="{each.reference}") or "{each.reference} as other_name"'
            )
    return Selection(columns, schema.id, schema.identifier_ids)


def _column(schema: Schema, text: str, case_sensitive: bool) -> SelectedColumn:
    try:
        path = _path(schema, text, case_sensitive)
    except NoSuchColumn as error:
        if (match := _WITH_ALIAS.fullmatch(text)) is None:
            raise
        path = _path(schema, match[1].strip(), case_sensitive)
        names = parse_reference(match[2])
        if len(names) != 1:
            raise InvalidOption(f"{text!r}: {match[2]!r} is not a name for a column") from error
        return SelectedColumn(path, names[0])
    return SelectedColumn(path, _output_name(text, path[-1].name))


def _output_name(text: str, name: str) -> str:
    """Return the output name for the field `name`, in the case in which the user wrote it, as Spark does."""
    path = parse_reference(text)
    if metadata_member(path) is not None and name.startswith("_"):
        return path[-1]
    return next((each for each in (path[-1], text) if each.lower() == name.lower()), name)


def _path(schema: Schema, text: str, case_sensitive: bool) -> tuple[t.Field, ...]:
    """Return the fields from the top-level column down to the referenced field."""
    try:
        field = schema.field(text, case_sensitive=case_sensitive)
    except NoSuchColumn:
        _refuse_elements(schema, text, case_sensitive)
        raise
    if schema.top_level_of[field.id] is field:
        return (field,)
    path = _find_path(schema.fields, field)
    if any(not isinstance(each.type, t.Struct) for each in path[:-1]):
        _refuse(text, path)
    return path


def _find_path(fields: tuple[t.Field, ...], field: t.Field) -> tuple[t.Field, ...]:
    for each in fields:
        if each is field:
            return (field,)
        if below := _find_path(t.children(each.type), field):
            return (each, *below)
    return ()


def _refuse_elements(schema: Schema, text: str, case_sensitive: bool) -> None:
    """Raise `UnsupportedFeature` if the reference goes inside a list, map or variant."""
    names = parse_reference(text)
    for count in range(len(names) - 1, 0, -1):
        try:
            field = schema.field(dotted_path(names[:count]), case_sensitive=case_sensitive)
        except NoSuchColumn:
            continue
        path = _find_path(schema.fields, field)
        if any(isinstance(each.type, t.ListOf | t.MapOf) or each.type == t.VARIANT for each in path):
            _refuse(text, path)
        return


def _refuse(text: str, path: tuple[t.Field, ...]) -> None:
    at = next(i for i, each in enumerate(path) if not isinstance(each.type, t.Struct))
    kind = path[at].type
    what = "a list" if isinstance(kind, t.ListOf) else "a map" if isinstance(kind, t.MapOf) else "a variant"
    column = dotted_path(each.name for each in path[: at + 1])
    raise UnsupportedFeature(
        f"selecting inside {what} ({text})", f"{column} is {what}: select all of it, and take the parts from the result"
    )


def prune_columns(paths: Iterable[tuple[t.Field, ...]]) -> tuple[t.Field, ...]:
    """Return the columns of `paths` in order of first mention, with structs reduced to the members on the paths.

    A path leads from a top-level column down to a field, which is read completely. A path does not enter lists or maps.
    """
    by_column: dict[int, list[tuple[t.Field, ...]]] = {}
    for path in paths:
        by_column.setdefault(path[0].id, []).append(path)
    return tuple(_prune_field(each[0][0], [path[1:] for path in each]) for each in by_column.values())


def _prune_field(field: t.Field, below: list[tuple[t.Field, ...]]) -> t.Field:
    """Return the field with only those members that start one of the paths below it."""
    if not isinstance(field.type, t.Struct) or not all(below):
        return field
    of_member: dict[int, list[tuple[t.Field, ...]]] = {}
    for path in below:
        of_member.setdefault(path[0].id, []).append(path[1:])
    members = tuple(_prune_field(each, of_member[each.id]) for each in field.type.fields if each.id in of_member)
    return field if members == field.type.fields else replace(field, type=t.Struct(members))
