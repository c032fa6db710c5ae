"""A table's schema: its columns, found by id or by (dotted) name, projected, and shown as Arrow."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from lakescan.common.types import Field, Struct, children, walk
from lakescan.errors import NoSuchColumn, nearest


@dataclass(frozen=True)
class Schema:
    """Columns in order. `id` is the format's own schema id (Iceberg), else 0.

    Lookups by name take the full dotted path of a nested field, as Spark's do: `address.city` is the member `city` of
    `address`, and a name that has dots itself stands in backquotes. Without them, such a name is found where no member
    has that path.
    """

    fields: tuple[Field, ...]
    id: int = 0
    identifier_ids: tuple[int, ...] = ()

    @cached_property
    def by_id(self) -> dict[int, Field]:
        """Every field, nested ones too, by its id."""
        return {f.id: f for f in walk(self.fields)}

    @cached_property
    def _names(self) -> tuple[_Names, _Names]:
        """Fields by the names on the way to them, and by those names with dots between, which may be ambiguous."""
        paths = list(_paths(self.fields, ()))
        return _Names(paths), _Names((".".join(path), field) for path, field in paths)

    @cached_property
    def path_of(self) -> dict[int, str]:
        """The full dotted name of every field, by id."""
        return {field.id: ".".join(path) for path, field in _paths(self.fields, ())}

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
        by_path, by_text = self._names
        lookups: tuple[tuple[_Names, tuple[str, ...] | str], ...] = ((by_path, path_parts(name)), (by_text, name))
        for names, key in lookups:
            if len(matches := names.matches(key, case_sensitive)) == 1:
                return matches[0]
            if matches:
                shown = ", ".join(self.path_of[m.id] for m in matches)
                why = "" if case_sensitive else " when case is ignored"
                raise NoSuchColumn(f"column {name!r} is ambiguous{why}: {shown}; names with dots stand in backquotes")
        raise NoSuchColumn(f"no column {name!r} in the table.{nearest(name, self.path_of.values())}")

    def column(self, name: str, *, case_sensitive: bool = True) -> Field:
        """The top-level column of that name, dots and all; raises `NoSuchColumn`."""
        matches = [f for f in self.fields if f.name == name]
        if not matches and not case_sensitive:
            matches = [f for f in self.fields if f.name.lower() == name.lower()]
        if len(matches) == 1:
            return matches[0]
        found = self.field(name, case_sensitive=case_sensitive)
        if self.top_level_of[found.id] is not found:
            raise NoSuchColumn(f"{name!r} is a nested field: select its column {self.top_level_of[found.id].name!r}")
        return found

    def select(self, names: Iterable[str], *, case_sensitive: bool = True) -> Schema:
        """The named top-level columns, in the order asked for."""
        columns = tuple(self.column(n, case_sensitive=case_sensitive) for n in names)
        return Schema(columns, self.id, self.identifier_ids)

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
    ids to the fields of files without any, by all names from the top (Iceberg's `schema.name-mapping.default`), or
    `fault` says why it cannot; without a mapping, `by_position` numbers the columns of such files from 1, as Iceberg's
    reader does. With `ids_required` (Delta's id mode), a file without any is refused. `settled` are the top-level
    fields that have their names in all files, and no other field has, as far as the table's metadata shows. With
    `legacy_calendar` (Delta), a file's word is taken that its writer counted days by the calendar of Spark 2.
    """

    by_id: bool = False
    name_mapping: dict[tuple[str, ...], int] | None = None
    fault: str | None = None
    by_position: bool = False
    ids_required: bool = False
    settled: frozenset[int] = frozenset()
    legacy_calendar: bool = False


class _Names:
    """Fields by what they are looked up by, a path or a text, and by the same in lower case."""

    def __init__(self, named: Iterable[tuple[tuple[str, ...] | str, Field]]) -> None:
        self._exact: dict[tuple[str, ...] | str, list[Field]] = {}
        self._lower: dict[tuple[str, ...] | str, list[Field]] = {}
        for key, field in named:
            self._exact.setdefault(key, []).append(field)
            self._lower.setdefault(_lowered(key), []).append(field)

    def matches(self, key: tuple[str, ...] | str, case_sensitive: bool) -> list[Field]:
        found = self._exact.get(key, [])
        return found if found or case_sensitive else self._lower.get(_lowered(key), [])


def _lowered(key: tuple[str, ...] | str) -> tuple[str, ...] | str:
    return key.lower() if isinstance(key, str) else tuple(name.lower() for name in key)


_PLAIN = re.compile(r"[^`.]+", re.DOTALL)
_PART = re.compile(rf"`((?:[^`]|``)*)`|({_PLAIN.pattern})", re.DOTALL)


def path_parts(path: str) -> tuple[str, ...]:
    """The names in a dotted path: `` a.`b.c` `` is `a`, `b.c`. What is no such path is one name."""
    found, position = [], 0
    while part := _PART.match(path, position):
        quoted, plain = part.groups()
        found.append(plain if quoted is None else quoted.replace("``", "`"))
        if part.end() == len(path):
            return tuple(found)
        if path[part.end()] != ".":
            break
        position = part.end() + 1
    return (path,)


def dotted_path(parts: Iterable[str]) -> str:
    """Names as a dotted path, those in backquotes that would be taken for more than one name without."""
    return ".".join(name if _PLAIN.fullmatch(name) else "`" + name.replace("`", "``") + "`" for name in parts)


def _paths(fields: tuple[Field, ...], prefix: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Field]]:
    for each in fields:
        path = (*prefix, each.name)
        yield path, each
        yield from _paths(children(each.type), path)
