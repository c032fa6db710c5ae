"""Changes of a table's columns, layout and properties, independent of the format: what ALTER TABLE says.

Paths are the names from the column down to the member of a struct, `("address", "city")`. Below a list the name is
`element`, below a map `key` or `value`, as in both formats' own statements.
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
    """What a change leaves as it is."""

    KEPT = "kept"


KEPT = KeepCurrent.KEPT


@dataclass(frozen=True)
class ColumnPosition:
    """Where a column is among its siblings: behind the one called `after`, or first."""

    after: str | None = None

    def __str__(self) -> str:
        return "first" if self.after is None else f"after {self.after}"


FIRST = ColumnPosition()


@dataclass(frozen=True)
class Default:
    """The default of a column: SQL text, and its value if the text is a literal (`is_literal`)."""

    text: str
    value: Any = None
    is_literal: bool = True


@dataclass(frozen=True)
class AddColumn:
    """A new column, or a new member of the struct at `parent`. Older rows have its default, else null."""

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
    """A column, or a member of a struct, that goes."""

    path: Path
    if_exists: bool = False

    def __str__(self) -> str:
        return f"dropped column {dotted_path(self.path)}{_existence_note(self.if_exists)}"


@dataclass(frozen=True)
class RenameColumn:
    """A new name of a column, or of a member of a struct."""

    path: Path
    name: str

    def __str__(self) -> str:
        return f"renamed column {dotted_path(self.path)} to {dotted_path((self.name,))}"


@dataclass(frozen=True)
class ChangeColumn:
    """What changes of a column: `None` and `KEPT` leave it as it is; a default of None goes."""

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
    """All columns are replaced by these (REPLACE COLUMNS).

    Iceberg matches none with an earlier one; Delta matches them by their names.
    """

    columns: tuple[t.Field, ...]
    defaults: Mapping[str, Default] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"replaced all columns by {', '.join(each.name for each in self.columns)}"


@dataclass(frozen=True)
class SetKey:
    """The columns that identify a row (Iceberg's identifier fields)."""

    columns: tuple[str, ...]

    def __str__(self) -> str:
        return f"the key is {', '.join(self.columns)}" if self.columns else "the table has no key"


@dataclass(frozen=True)
class DropKey:
    """Columns that do not identify a row any more."""

    columns: tuple[str, ...]

    def __str__(self) -> str:
        return f"{', '.join(self.columns)} dropped from the key"


@dataclass(frozen=True)
class AddPartition:
    """A partition field for new files; `name` is made of the transform and the column by default."""

    term: Term
    name: str | None = None

    def __str__(self) -> str:
        return f"added partition field {self.name or self.term}"


@dataclass(frozen=True)
class DropPartition:
    """A partition field, by its name or its transform, that new files do not have."""

    which: Term | str

    def __str__(self) -> str:
        return f"dropped partition field {self.which}"


@dataclass(frozen=True)
class ReplacePartition:
    """A partition field in the place of another."""

    which: Term | str
    term: Term
    name: str | None = None

    def __str__(self) -> str:
        return f"replaced partition field {self.which} by {self.name or self.term}"


@dataclass(frozen=True)
class SetOrder:
    """How new files are sorted (WRITE ORDERED BY), unsorted if there are no terms.

    `distribution` is how rows go to tasks: 'none', 'hash' or 'range'; None leaves it as it is.
    """

    terms: tuple[SortTerm, ...] | None
    distribution: str | None = None

    def __str__(self) -> str:
        order = "" if self.terms is None else f"ordered by {', '.join(str(e.term) for e in self.terms) or 'nothing'}"
        spread = "" if self.distribution is None else f"distribution {self.distribution}"
        return f"new files are {', '.join(part for part in (order, spread) if part)}"


@dataclass(frozen=True)
class SetClustering:
    """The clustering columns (Delta); none if there are none."""

    columns: tuple[Path, ...]

    def __str__(self) -> str:
        return f"clustered by {', '.join(map(dotted_path, self.columns)) or 'nothing'}"


@dataclass(frozen=True)
class SetProperties:
    """Properties that are set."""

    properties: Mapping[str, str]

    def __str__(self) -> str:
        return f"set {', '.join(f'{name}={value}' for name, value in self.properties.items())}"


@dataclass(frozen=True)
class UnsetProperties:
    """Properties that are removed; without `if_exists`, all must be there."""

    names: tuple[str, ...]
    if_exists: bool = False

    def __str__(self) -> str:
        return f"unset {', '.join(self.names)}"


@dataclass(frozen=True)
class SetComment:
    """What the table is about; None removes the comment."""

    comment: str | None

    def __str__(self) -> str:
        return "removed the comment" if self.comment is None else "set the comment"


@dataclass(frozen=True)
class SetLocation:
    """The folder of new files."""

    location: str

    def __str__(self) -> str:
        return f"new files are in {self.location}"


@dataclass(frozen=True)
class AddConstraint:
    """A CHECK constraint (Delta): an SQL condition that all rows meet."""

    name: str
    condition: str

    def __str__(self) -> str:
        return f"added constraint {self.name}"


@dataclass(frozen=True)
class DropConstraint:
    """A CHECK constraint that goes."""

    name: str
    if_exists: bool = False

    def __str__(self) -> str:
        return f"dropped constraint {self.name}{_existence_note(self.if_exists)}"


@dataclass(frozen=True)
class DropFeature:
    """A table feature (Delta) that readers and writers need not support any more."""

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
    """The default of a column that is a Python value; raises `InvalidOption` for values that SQL has no literal for.

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
