"""A table's schema: lookup of fields by id or dotted name, projection, conversion to Arrow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from lakescan.common.metadata_columns import metadata_member
from lakescan.common.references import dotted_path, parse_reference
from lakescan.common.types import Field, Struct, children, walk
from lakescan.errors import NoSuchColumn, nearest


@dataclass(frozen=True)
class Schema:
    """Columns in order.

    - `id`: the schema id (Iceberg), else 0.
    - `identifier_ids`: the ids of the fields that identify a row (Iceberg's identifier fields), if any.

    Fields are looked up by full dotted path, as in Spark: `address.city` is the member `city` of `address`. A name that
    contains dots is quoted with backquotes. Without quotes, it matches only if no nested field has that path. A name in
    another case matches if no field has exactly this name, unless `case_sensitive` is true.
    """

    fields: tuple[Field, ...]
    id: int = 0
    identifier_ids: tuple[int, ...] = ()

    @cached_property
    def by_id(self) -> dict[int, Field]:
        """All fields, including nested ones, by id."""
        return {f.id: f for f in walk(self.fields)}

    @cached_property
    def _names(self) -> tuple[_FieldIndex, _FieldIndex]:
        """Two indexes of all fields, including nested ones: by path (a tuple of names), and by the path joined by dots.

        Fields whose names have dots can share a joined path.
        """
        paths = list(_paths(self.fields, ()))
        return _FieldIndex(paths), _FieldIndex((".".join(path), field) for path, field in paths)

    @cached_property
    def _columns(self) -> _FieldIndex:
        return _FieldIndex((field.name, field) for field in self.fields)

    @cached_property
    def path_of(self) -> dict[int, str]:
        """The path of every field, including nested ones, joined by dots without quotes, by id."""
        return {field.id: ".".join(path) for path, field in _paths(self.fields, ())}

    @cached_property
    def reference_of(self) -> dict[int, str]:
        """The reference to each field, by id: its path, with backquotes around names that need them."""
        return {field.id: dotted_path(path) for path, field in _paths(self.fields, ())}

    @property
    def identifier_names(self) -> tuple[str, ...]:
        """The references to the fields in `identifier_ids`, which identify a row."""
        return tuple(self.reference_of[each] for each in self.identifier_ids)

    def physical_path(self, field: Field) -> tuple[str, ...]:
        """Return the path of a field in data files: the physical names from its top-level column down to the field."""
        path, among = [], self.fields
        while True:
            within = next(f for f in among if field in walk((f,)))
            path.append(within.physical_name)
            if within is field:
                return tuple(path)
            among = children(within.type)

    def struct_path(self, field_id: int) -> tuple[Field, ...]:
        """Return the fields from the top-level column down to the field with this id.

        If the field is inside a list or map, the path ends with the outermost list or map. Raises `KeyError` for an
        unknown id.
        """
        path = [self.top_level_of[field_id]]
        while path[-1].id != field_id and isinstance(kind := path[-1].type, Struct):
            path.append(next(f for f in kind.fields if any(within.id == field_id for within in walk((f,)))))
        return tuple(path)

    @cached_property
    def top_level_of(self) -> dict[int, Field]:
        """The top-level column that contains each field or is that field, by field id."""
        return {inner.id: top for top in self.fields for inner in walk((top,))}

    @property
    def names(self) -> list[str]:
        """The names of the columns, in order."""
        return [f.name for f in self.fields]

    def field(self, name: str, *, case_sensitive: bool = False) -> Field:
        """Return the column or nested field with this dotted name, or a metadata column such as `_metadata.row_id`.

        Raises `NoSuchColumn` for an unknown name, with the nearest name in the message, and for an ambiguous one.
        """
        by_path, by_text = self._names
        lookups: tuple[tuple[_FieldIndex, tuple[str, ...] | str], ...] = (
            (by_path, parse_reference(name)),
            (by_text, name),
        )
        for names, key, exact in [(*each, exact) for exact in (True, case_sensitive) for each in lookups]:
            if len(matches := names.matches(key, exact)) == 1:
                return matches[0]
            if matches:
                shown = ", ".join(self.reference_of[m.id] for m in matches)
                why = "" if exact else " when case is ignored"
                raise NoSuchColumn(f"column {name!r} is ambiguous{why}: {shown}; put names with dots in backquotes")
        if (member := metadata_member(parse_reference(name))) is not None:
            for field in self.fields:
                if field.id == member:
                    return field
        raise NoSuchColumn(f"no column {name!r} in the table.{nearest(name, self.reference_of.values())}")

    def column(self, name: str, *, case_sensitive: bool = False) -> Field:
        """Return the top-level column with this name, which may contain dots without quotes.

        Raises `NoSuchColumn` for an unknown name, an ambiguous name and a nested field.
        """
        matches = self._columns.matches(name, case_sensitive)
        if len(matches) == 1:
            return matches[0]
        field = self.field(name, case_sensitive=case_sensitive)
        if self.top_level_of[field.id] is not field:
            raise NoSuchColumn(f"{name!r} is a nested field: select its column {self.top_level_of[field.id].name!r}")
        return field

    def select(self, names: Iterable[str], *, case_sensitive: bool = False) -> Schema:
        """Return the schema of the named top-level columns, in the given order; raises `NoSuchColumn`."""
        columns = tuple(self.column(n, case_sensitive=case_sensitive) for n in names)
        return Schema(columns, self.id, self.identifier_ids)

    def append_fields(self, more: Iterable[Field]) -> Schema:
        """Return the schema with those fields of `more` appended whose name and id no column has."""
        names, ids = set(self.names), {f.id for f in self.fields}
        added = tuple(f for f in more if f.name not in names and f.id not in ids)
        return Schema(self.fields + added, self.id, self.identifier_ids)

    def struct(self) -> Struct:
        """Return the columns as one struct type."""
        return Struct(self.fields)

    def arrow(self) -> pa.Schema:
        """Return the Arrow schema: one field per column, with its id in the field's metadata."""
        return pa.schema([f.arrow() for f in self.fields])


@dataclass(frozen=True)
class FieldMatching:
    """How a reader matches the fields of a table with the columns of a data file.

    - `by_id`: match by field id (Iceberg, Delta's id mode) in files that have ids; else by physical name.
    - `name_mapping`: the ids of fields in files without ids, by full path (Iceberg's `schema.name-mapping.default`).
    - `fault`: why `name_mapping` cannot be used, for the error about a file that needs it; None if it can be used.
    - `by_position`: without a mapping, number the columns of files without ids from 1, as Iceberg's reader does.
    - `ids_required`: reject files without ids (Delta's id mode).
    - `settled`: ids of top-level fields that, according to the table's metadata, have the same name in all files with
      ids, and whose name no other field ever had.
    - `legacy_calendar`: honour a file's marker that its dates are in the hybrid calendar of Spark 2 (Delta).
    """

    by_id: bool = False
    name_mapping: dict[tuple[str, ...], int] | None = None
    fault: str | None = None
    by_position: bool = False
    ids_required: bool = False
    settled: frozenset[int] = frozenset()
    legacy_calendar: bool = False


class _FieldIndex:
    """An index of fields by key (a tuple of names or text), with a second index by the key in lower case."""

    def __init__(self, named: Iterable[tuple[tuple[str, ...] | str, Field]]) -> None:
        self._exact: dict[tuple[str, ...] | str, list[Field]] = {}
        self._lower: dict[tuple[str, ...] | str, list[Field]] = {}
        for key, field in named:
            self._exact.setdefault(key, []).append(field)
            self._lower.setdefault(_lower_key(key), []).append(field)

    def matches(self, key: tuple[str, ...] | str, case_sensitive: bool) -> list[Field]:
        exact = self._exact.get(key, [])
        return exact if exact or case_sensitive else self._lower.get(_lower_key(key), [])


def _lower_key(key: tuple[str, ...] | str) -> tuple[str, ...] | str:
    return key.lower() if isinstance(key, str) else tuple(name.lower() for name in key)


def _paths(fields: tuple[Field, ...], prefix: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Field]]:
    for each in fields:
        path = (*prefix, each.name)
        yield path, each
        yield from _paths(children(each.type), path)
