"""The changes that ALTER TABLE makes to a table's columns, layout and properties, independent of the table format.

A path is the sequence of names from a column down to a struct member, such as `("address", "city")`. The name of a list
element is `element`; a map has `key` and `value`, as in the ALTER TABLE statements of both formats.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from typing import Any

from lakescan.common import types as t
from lakescan.common.references import dotted_path
from lakescan.definition.table_definition import SortTerm, Term
from lakescan.errors import InvalidOption

Path = tuple[str, ...]


class KeepCurrent(Enum):
    """The type of the constant `KEPT`, which marks an attribute that a change leaves as it is."""

    KEPT = "kept"


KEPT = KeepCurrent.KEPT


@dataclass(frozen=True)
class ColumnPosition:
    """The position of a column among its siblings: directly after the column `after`, or first if that is None."""

    after: str | None = None

    def __str__(self) -> str:
        return "first" if self.after is None else f"after {self.after}"


FIRST = ColumnPosition()


@dataclass(frozen=True)
class Default:
    """A column's default.

    - `text`: its SQL text.
    - `value`: the Python value, if the text is a literal (`is_literal`); else None.
    """

    text: str
    value: Any = None
    is_literal: bool = True


@dataclass(frozen=True)
class AddColumn:
    """Add a column, or a member to the struct at `parent`. Existing rows have its default, or null without one.

    `parent` is empty for a column of the table. `place` is the position; None for the end. With `if_not_exists`, an
    existing column is left as it is.
    """

    parent: Path
    column: t.Field
    default: Default | None = None
    place: ColumnPosition | None = None
    if_not_exists: bool = False

    def __str__(self) -> str:
        added = f"added column {dotted_path((*self.parent, self.column.name))} {self.column.type}"
        return f"{added}, unless it was there" if self.if_not_exists else added


@dataclass(frozen=True)
class DropColumn:
    """Drop a column or a struct member; without `if_exists`, a missing one is an error."""

    path: Path
    if_exists: bool = False

    def __str__(self) -> str:
        return f"dropped column {dotted_path(self.path)}{_existence_note(self.if_exists)}"


@dataclass(frozen=True)
class RenameColumn:
    """Rename the column or struct member at `path` to `name`."""

    path: Path
    name: str

    def __str__(self) -> str:
        return f"renamed column {dotted_path(self.path)} to {dotted_path((self.name,))}"


@dataclass(frozen=True)
class ChangeColumn:
    """Change attributes of the column at `path`: type, comment (`doc`), nullability, default or position.

    `None` and `KEPT` leave an attribute as it is, but `default=None` drops the default, and `doc=None` the comment.
    """

    path: Path
    type: t.Type | None = None
    doc: str | KeepCurrent | None = KEPT
    required: bool | None = None
    default: Default | KeepCurrent | None = KEPT
    place: ColumnPosition | None = None

    def __str__(self) -> str:
        parts = [
            f"its type is {self.type}" if self.type is not None else "",
            "its comment is changed" if self.doc is not KEPT else "",
            "" if self.required is None else "it is required" if self.required else "it may be null",
            "" if self.default is KEPT else "it has no default" if self.default is None else "its default is changed",
            f"it is {self.place}" if self.place is not None else "",
        ]
        return f"changed column {dotted_path(self.path)}: {', '.join(part for part in parts if part) or 'nothing'}"


@dataclass(frozen=True)
class ReplaceColumns:
    """Replace all columns (REPLACE COLUMNS); `defaults` has the defaults of the new columns by name.

    In Iceberg all columns are new fields. Delta keeps the fields of columns with an existing name.
    """

    columns: tuple[t.Field, ...]
    defaults: Mapping[str, Default] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"replaced all columns by {', '.join(each.name for each in self.columns)}"


@dataclass(frozen=True)
class SetKey:
    """Set the table's key: the columns that identify a row (Iceberg's identifier fields)."""

    columns: tuple[str, ...]

    def __str__(self) -> str:
        return f"the key is {', '.join(self.columns)}" if self.columns else "the table has no key"


@dataclass(frozen=True)
class DropKey:
    """Remove columns from the key, that is from Iceberg's identifier fields."""

    columns: tuple[str, ...]

    def __str__(self) -> str:
        return f"{', '.join(self.columns)} dropped from the key"


@dataclass(frozen=True)
class AddPartition:
    """Add a partition field for new files, computed by the transform `term`.

    By default (None), its `name` is derived from the transform and the column.
    """

    term: Term
    name: str | None = None

    def __str__(self) -> str:
        return f"added partition field {self.name or self.term}"


@dataclass(frozen=True)
class DropPartition:
    """Drop a partition field for new files; `which` is its name, or its transform."""

    which: Term | str

    def __str__(self) -> str:
        return f"dropped partition field {self.which}"


@dataclass(frozen=True)
class ReplacePartition:
    """Replace the partition field `which` (a name or a transform) by the transform `term`, for new files.

    By default (None), the `name` of the new field is derived from the transform and the column.
    """

    which: Term | str
    term: Term
    name: str | None = None

    def __str__(self) -> str:
        return f"replaced partition field {self.which} by {self.name or self.term}"


@dataclass(frozen=True)
class SetOrder:
    """Set the sort order of new files (WRITE ORDERED BY).

    `terms` is empty for unsorted files. `distribution` is how Spark distributes rows to tasks: 'none', 'hash' or
    'range'. None leaves either as it is.
    """

    terms: tuple[SortTerm, ...] | None
    distribution: str | None = None

    def __str__(self) -> str:
        order = "" if self.terms is None else f"ordered by {', '.join(str(e.term) for e in self.terms) or 'nothing'}"
        spread = "" if self.distribution is None else f"distribution {self.distribution}"
        return f"new files are {', '.join(part for part in (order, spread) if part)}"


@dataclass(frozen=True)
class SetClustering:
    """Set the clustering columns of a Delta table, as paths; an empty tuple turns clustering off."""

    columns: tuple[Path, ...]

    def __str__(self) -> str:
        return f"clustered by {', '.join(map(dotted_path, self.columns)) or 'nothing'}"


@dataclass(frozen=True)
class SetProperties:
    """Set table properties."""

    properties: Mapping[str, str]

    def __str__(self) -> str:
        return f"set {', '.join(f'{name}={value}' for name, value in self.properties.items())}"


@dataclass(frozen=True)
class UnsetProperties:
    """Remove table properties; without `if_exists`, a missing property is an error."""

    names: tuple[str, ...]
    if_exists: bool = False

    def __str__(self) -> str:
        return f"unset {', '.join(self.names)}"


@dataclass(frozen=True)
class SetComment:
    """Set the table's comment, or remove it if None."""

    comment: str | None

    def __str__(self) -> str:
        return "removed the comment" if self.comment is None else "set the comment"


@dataclass(frozen=True)
class SetLocation:
    """Set the location at which new files are written."""

    location: str

    def __str__(self) -> str:
        return f"new files are in {self.location}"


@dataclass(frozen=True)
class AddConstraint:
    """Add a CHECK constraint to a Delta table: an SQL condition that all rows meet."""

    name: str
    condition: str

    def __str__(self) -> str:
        return f"added constraint {self.name}"


@dataclass(frozen=True)
class DropConstraint:
    """Drop a CHECK constraint of a Delta table; without `if_exists`, a missing one is an error."""

    name: str
    if_exists: bool = False

    def __str__(self) -> str:
        return f"dropped constraint {self.name}{_existence_note(self.if_exists)}"


@dataclass(frozen=True)
class DropFeature:
    """Drop a table feature of a Delta table, so that readers and writers no longer need to support it.

    `truncate_history` also removes the history that uses the feature (TRUNCATE HISTORY).
    """

    name: str
    truncate_history: bool = False

    def __str__(self) -> str:
        return f"dropped feature {self.name}"


TableChange = (
    AddColumn
    | DropColumn
    | RenameColumn
    | ChangeColumn
    | ReplaceColumns
    | SetKey
    | DropKey
    | AddPartition
    | DropPartition
    | ReplacePartition
    | SetOrder
    | SetClustering
    | SetProperties
    | UnsetProperties
    | SetComment
    | SetLocation
    | AddConstraint
    | DropConstraint
    | DropFeature
)


def _existence_note(if_exists: bool) -> str:
    return ", if it was there" if if_exists else ""


def default_of(value: Any) -> Default:
    """Make a column default from a Python value; raises `InvalidOption` for a value that has no SQL literal.

    Example:
        >>> default_of("open").text
        "'open'"
    """
    return Default(_literal(value), value)


def _literal(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case int() | Decimal():
            return str(value)
        case float():
            return f"double('{value}')" if value != value or abs(value) == float("inf") else f"{value!r}D"
        case str():
            escaped = value.replace("\\", "\\\\").replace("'", "\\'")
            return f"'{escaped}'"
        case bytes():
            return f"X'{value.hex()}'"
        case datetime():
            kind = "TIMESTAMP_NTZ" if value.tzinfo is None else "TIMESTAMP"
            return f"{kind} '{value.isoformat(sep=' ')}'"
        case date():
            return f"DATE '{value.isoformat()}'"
        case time():
            return f"TIME '{value.isoformat()}'"
    raise InvalidOption(f"{value!r} is not the default of a column: give a number, a text, a date, a time or a boolean")
