"""Identifiers: names of tables in catalogs, such as `local.db.events`."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass

from lakescan.common.references import backquote
from lakescan.errors import InvalidOption

_PART = re.compile(r"`((?:[^`]|``)+)`|([^.`\s/\\:]+)")


@dataclass(frozen=True)
class Identifier:
    """A table's full name: catalog, namespace parts and table name. An empty `name` identifies the namespace itself.

    A table that is opened by path has an empty catalog and namespace, and its location is its name; see `of_path`.
    """

    catalog: str
    namespace: tuple[str, ...]
    name: str

    @property
    def within(self) -> tuple[str, ...]:
        """The name within the catalog: namespace and table."""
        return (*self.namespace, self.name)

    @staticmethod
    def of_path(location: str) -> Identifier:
        """Return the identifier of a table that is opened by its location; trailing slashes are removed."""
        return Identifier("", (), location.rstrip("/") or "/")

    @property
    def is_path(self) -> bool:
        """Whether the table is identified by its location and belongs to no catalog."""
        return not self.catalog

    def __str__(self) -> str:
        if self.is_path:
            return self.name
        return dotted_name((self.catalog, *self.namespace, *([self.name] if self.name else [])))  # no name: a namespace


def dotted_name(parts: Iterable[str]) -> str:
    """Join name parts by dots into text that `split_name` splits into the same parts.

    Parts with dots, spaces, slashes or other special characters are put in backquotes.
    """
    return ".".join(part if _is_plain(part) else backquote(part) for part in parts)


def _is_plain(part: str) -> bool:
    return not part.startswith("`") and _PART.fullmatch(part) is not None


def split_name(text: str) -> tuple[str, ...] | None:
    """Split a dotted name, whose parts may be quoted with backquotes; None if the text is not a name (a path)."""
    parts, at = [], 0
    while part := _PART.match(text, at):
        parts.append(part[2] if part[1] is None else part[1].replace("``", "`"))
        at = part.end()
        if at == len(text):
            return tuple(parts)
        if text[at] != ".":
            return None
        at += 1
    return None


def parse_identifier(catalog: str, name: str | Iterable[str]) -> Identifier:
    """Parse a table name within a catalog, given as text (`db.events`) or as its parts.

    If it has at least three parts and begins with the catalog's name, that part is dropped. Raises `InvalidOption` for
    a name without a namespace, or for text that is not a name.
    """
    if not isinstance(name, str | Iterable):
        raise InvalidOption(f"{name!r} does not name a table in catalog {catalog!r}: write namespace.table")
    parts = split_name(name) if isinstance(name, str) else tuple(name)
    if parts and len(parts) > 2 and parts[0] == catalog:
        parts = parts[1:]
    if not parts or len(parts) < 2:
        raise InvalidOption(f"{name!r} does not name a table in catalog {catalog!r}: write namespace.table")
    return Identifier(catalog, parts[:-1], parts[-1])


def folder_of(root: str, *names: str) -> str:
    """Return the location `root/name/...` of a table or namespace; `root` is the location of a warehouse or database.

    Raises `InvalidOption` for a name that cannot be a folder name, such as one with a slash.

    Example:
        >>> folder_of("s3://lake/warehouse", "shop", "orders")
        's3://lake/warehouse/shop/orders'
    """
    for name in names:
        check_name(name)
        if "/" in name or "\\" in name:
            raise InvalidOption(f"{name!r} cannot be the name of a folder: give the table a location, or another name")
    return "/".join([root.rstrip("/"), *names])


def check_name(name: str) -> None:
    """Raise `InvalidOption` for a name that is blank, is `.` or `..`, or has control characters.

    Tables, views and namespaces cannot have such names, because catalogs build paths and URLs from them.
    """
    if not name.strip() or name in (".", "..") or any(ord(letter) < 32 or ord(letter) == 127 for letter in name):
        raise InvalidOption(
            f"{name!r} cannot be the name of a table, view or namespace: names are not empty, . or .., and have no "
            "line breaks or other control characters"
        )


def location_of(table: str | os.PathLike[str] | Identifier) -> str:
    """Return the path, URI or identifier of a table as text; raises `InvalidOption` for empty text and other values."""
    if isinstance(table, Identifier):
        return str(table)
    if isinstance(table, str | os.PathLike) and (text := os.fsdecode(table)):
        return text
    raise InvalidOption(
        f"{table!r} does not name a table: give a path, a URI or an identifier (catalog.namespace.table) as text"
    )
