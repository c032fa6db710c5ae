"""Identifiers: the names of tables in catalogs, such as `local.db.events`."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass

from lakescan.errors import InvalidOption

_PART = re.compile(r"`((?:[^`]|``)+)`|([^.`\s/\\:]+)")


@dataclass(frozen=True)
class Identifier:
    """A table's name in a catalog: the catalog's, the namespace's parts, its own."""

    catalog: str
    namespace: tuple[str, ...]
    name: str

    @property
    def within(self) -> tuple[str, ...]:
        """The name as the catalog has it: namespace and name."""
        return (*self.namespace, self.name)

    def __str__(self) -> str:
        parts = (self.catalog, *self.namespace, *([self.name] if self.name else []))  # one without is a namespace's
        return ".".join(part if _PART.fullmatch(part) else f"`{part}`" for part in parts)


def parts_of(text: str) -> tuple[str, ...] | None:
    """The parts of a dotted name, quoted by backticks where they have dots; None for what is no such name."""
    parts, at = [], 0
    while found := _PART.match(text, at):
        parts.append(found[2] if found[1] is None else found[1].replace("``", "`"))
        at = found.end()
        if at == len(text):
            return tuple(parts)
        if text[at] != ".":
            return None
        at += 1
    return None


def within(catalog: str, name: str | Iterable[str]) -> Identifier:
    """A table's identifier from its name in a catalog, `db.events`; the catalog's own name may come first.

    Raises `InvalidOption` for a name without namespace.
    """
    parts = parts_of(name) if isinstance(name, str) else tuple(name)
    if parts and len(parts) > 2 and parts[0] == catalog:
        parts = parts[1:]
    if not parts or len(parts) < 2:
        raise InvalidOption(f"{name!r} is no name of a table in catalog {catalog!r}: it takes namespace.table")
    return Identifier(catalog, parts[:-1], parts[-1])


def location_of(table: str | os.PathLike[str] | Identifier) -> str:
    """A table's path or identifier as text; raises `InvalidOption` for what is neither."""
    if isinstance(table, Identifier):
        return str(table)
    if isinstance(table, str | os.PathLike):
        return os.fsdecode(table)
    raise InvalidOption(f"{table!r} is no table: give a path, a URI or an identifier (catalog.namespace.table) as text")
