"""A table's schema: its columns, found by id or by (dotted) name, projected, and shown as Arrow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from lakescan.errors import NoSuchColumn, nearest
from lakescan.types import Field, Struct, children, walk


@dataclass(frozen=True)
class Schema:
    """Columns in order. `id` is the format's own schema id (Iceberg), else 0.

    Lookups by name take the full dotted path of a nested field (`address.city`); a name that itself has dots
    is found first when it matches whole.
    """

    fields: tuple[Field, ...]
    id: int = 0
    identifier_ids: tuple[int, ...] = ()

    @cached_property
    def by_id(self) -> dict[int, Field]:
        """Every field, nested ones too, by its id."""
        return {f.id: f for f in walk(self.fields)}

    @cached_property
    def _by_path(self) -> dict[str, Field]:
        return dict(_paths(self.fields, ""))

    @cached_property
    def _by_lower_path(self) -> dict[str, list[Field]]:
        found: dict[str, list[Field]] = {}
        for path, field in self._by_path.items():
            found.setdefault(path.lower(), []).append(field)
        return found

    @cached_property
    def path_of(self) -> dict[int, str]:
        """The full dotted name of every field, by id."""
        return {field.id: path for path, field in self._by_path.items()}

    def physical_path(self, field: Field) -> tuple[str, ...]:
        """The names by which data files know a field, nested or not, and those that it is under."""
        path, among = [], self.fields
        while True:
            within = next(f for f in among if field in walk((f,)))
            path.append(within.physical_name)
            if within is field:
                return tuple(path)
            among = children(within.type)

    @cached_property
    def top_level_of(self) -> dict[int, Field]:
        """The column that a field, nested or not, is under, by the field's id."""
        return {inner.id: top for top in self.fields for inner in walk((top,))}

    @property
    def names(self) -> list[str]:
        """The names of the columns, in order."""
        return [f.name for f in self.fields]

    def field(self, name: str, *, case_sensitive: bool = True) -> Field:
        """The field with that dotted name; raises `NoSuchColumn`, with the nearest name, where there is none."""
        if (found := self._by_path.get(name)) is not None:
            return found
        if not case_sensitive:
            matches = self._by_lower_path.get(name.lower(), [])
            if len(matches) == 1:
                return matches[0]
            if matches:
                names = ", ".join(self.path_of[m.id] for m in matches)
                raise NoSuchColumn(f"column {name!r} is ambiguous when case is ignored: {names}")
        raise NoSuchColumn(f"no column {name!r} in the table.{nearest(name, self._by_path)}")

    def select(self, names: Iterable[str], *, case_sensitive: bool = True) -> Schema:
        """The named top-level columns, in the order asked for."""
        return Schema(tuple(self._column(n, case_sensitive) for n in names), self.id, self.identifier_ids)

    def _column(self, name: str, case_sensitive: bool) -> Field:
        found = self.field(name, case_sensitive=case_sensitive)
        if self.top_level_of[found.id] is not found:
            raise NoSuchColumn(f"{name!r} is a nested field: select its column {name.split('.')[0]!r}")
        return found

    def extended(self, more: Iterable[Field]) -> Schema:
        """The columns, then those of `more` whose names and ids are not taken."""
        names, ids = set(self.names), {f.id for f in self.fields}
        added = tuple(f for f in more if f.name not in names and f.id not in ids)
        return Schema(self.fields + added, self.id, self.identifier_ids)

    def struct(self) -> Struct:
        """The columns as one struct type."""
        return Struct(self.fields)

    def arrow(self) -> pa.Schema:
        """The Arrow schema: one field a column, its id in the field's metadata."""
        return pa.schema([f.arrow() for f in self.fields])


@dataclass(frozen=True)
class FieldMatching:
    """How a table's fields are found in a data file.

    `by_id`: by field id (Iceberg, Delta's id mode), in files that have ids; else by physical name. `name_mapping` gives
    ids to the fields of files without any, by full dotted path (Iceberg's `schema.name-mapping.default`); without a
    mapping, `by_position` numbers the columns of such files from 1, as Iceberg's reader does. With `ids_required`
    (Delta's id mode), a file without any is refused.
    """

    by_id: bool = False
    name_mapping: dict[str, int] | None = None
    by_position: bool = False
    ids_required: bool = False


def _paths(fields: tuple[Field, ...], prefix: str) -> Iterator[tuple[str, Field]]:
    for each in fields:
        path = f"{prefix}.{each.name}" if prefix else each.name
        yield path, each
        yield from _paths(children(each.type), path)
