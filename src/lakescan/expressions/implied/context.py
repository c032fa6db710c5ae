"""What conditions are read with: the table's columns, the session's time zone and time."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from lakescan.common import types as t
from lakescan.common.references import dotted_path
from lakescan.common.schema import Schema
from lakescan.errors import LakescanError, NoSuchColumn
from lakescan.expressions.implied.zones import Zone
from lakescan.expressions.scalar.parse import names_of
from lakescan.expressions.scalar.translate import type_of


@dataclass(frozen=True)
class InferenceContext:
    """The meaning of names and times.

    - `zone`: None if it is not known.
    - `now`: in UTC, without a zone; None if it is not known. It is the engine's own time if `now_is_exact`, else it may
      be earlier.
    - `ansi`: whether overflows are errors.
    """

    schema: Schema
    zone: Zone | None
    case_sensitive: bool
    now: datetime | None
    now_is_exact: bool
    ansi: bool

    @property
    def is_utc(self) -> bool:
        """Whether wall-clock times are instants."""
        return self.zone is not None and self.zone.is_utc

    def path_of(self, path: tuple[str, ...]) -> str | None:
        """Return the reference of a column or a member of a struct; None if there is none that has a value a row."""
        found = self._find_field(path)
        return None if found is None else dotted_path(path)

    def _find_field(self, path: tuple[str, ...]) -> t.Field | None:
        try:
            field = self.schema.field(dotted_path(path), case_sensitive=self.case_sensitive)
        except NoSuchColumn:
            return None
        return field if self.schema.struct_path(field.id)[-1] is field else None

    def field_of(self, node: Any) -> t.Field | None:
        """Return the field that a column's node names; None for other nodes, and as for `path_of`."""
        path = names_of(node)
        return None if path is None else self._find_field(path)


def call_of(node: Any) -> tuple[str, list[Any]] | None:
    """Return the name, in lower case, and the arguments of a call; None for other nodes."""
    from sqlglot import exp

    match node:
        case exp.Anonymous():
            return str(node.this).lower(), list(node.expressions)
        case exp.Substring():
            size = node.args.get("length")
            return "substring", [node.this, node.args["start"], *([] if size is None else [size])]
        case exp.Extract():
            return node.this.name.lower(), [node.expression]
    return None


def type_of_cast(node: Any) -> t.Type | None:
    """Return the type to which a cast converts; None for types of which nothing is known here."""
    try:
        return type_of(node.args["to"])
    except LakescanError:
        return None
