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
    """One output column.

    - `path`: the fields from a top-level column of the table down to the selected field.
    - `name`: the output name.
    """

    path: tuple[t.Field, ...]
    name: str

    @cached_property
    def field(self) -> t.Field:
        """The selected field under its output name. It is required only if all fields on the path are required."""
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
        """The text for `select` that returns this column: `reference`, with ` as name` for another output name."""
        return self.reference if self.name == self.path[-1].name else with_alias(self.reference, self.name)


@dataclass(frozen=True)
class Selection:
    """The output columns of a scan, in order. Their names are unique unless the table itself has duplicate names.

    `schema_id` and `identifier_ids` are those of the table schema.
    """

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
        """Return the texts that select the output columns `names` from the table with `select`.

        Any other name becomes a reference to the table column with this name.
        """
        return [
            self.columns_by_name[name].text if name in self.columns_by_name else dotted_path([name]) for name in names
        ]


def with_alias(reference: str, name: str) -> str:
    """Return the text that selects a column or member under another name with `select`: ``reference as `name` ``."""
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
    """Return the output name for the field `name`: as the reference `text` has it, if they differ only in case.

    Spark does so, too. A member of Spark's `_metadata` column has the name in the reference.
    """
    path = parse_reference(text)
    if metadata_member(path) is not None and name.startswith("_"):
        return path[-1]
    return next((each for each in (path[-1], text) if each.lower() == name.lower()), name)


def _path(schema: Schema, text: str, case_sensitive: bool) -> tuple[t.Field, ...]:
    """Return the fields from the top-level column down to the field that `text` refers to.

    Raises `NoSuchColumn`, and `UnsupportedFeature` for a field inside a list, map or variant.
    """
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
    """Raise `UnsupportedFeature` if the reference `text` begins with a list, map or variant, or a field inside one."""
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
    """Return the top-level columns of `paths` in order of first mention, their structs with only members on paths.

    A path leads from a top-level column down to a field, which is read completely. A path does not enter lists or maps.
    """
    by_column: dict[int, list[tuple[t.Field, ...]]] = {}
    for path in paths:
        by_column.setdefault(path[0].id, []).append(path)
    return tuple(_prune_field(each[0][0], [path[1:] for path in each]) for each in by_column.values())


def _prune_field(field: t.Field, below: list[tuple[t.Field, ...]]) -> t.Field:
    """Return a struct field with only the members that begin one of the paths in `below`, which start inside it.

    The field is returned unchanged if its type is not a struct, or if a path is empty: then it is read
    completely.
    """
    if not isinstance(field.type, t.Struct) or not all(below):
        return field
    of_member: dict[int, list[tuple[t.Field, ...]]] = {}
    for path in below:
        of_member.setdefault(path[0].id, []).append(path[1:])
    members = tuple(_prune_field(each, of_member[each.id]) for each in field.type.fields if each.id in of_member)
    return field if members == field.type.fields else replace(field, type=t.Struct(members))
