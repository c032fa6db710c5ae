"""The definition of a table to create, and the rules for its column values, independent of the table format."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

from lakescan.common import types as t
from lakescan.common.references import dotted_path, parse_reference, split_list
from lakescan.common.schema import Schema
from lakescan.errors import InvalidOption
from lakescan.expressions.bind import exact_value
from lakescan.storage.locations import absolute

_CALL = re.compile(r"\s*(\w+)\s*\(\s*(.*?)\s*\)\s*", re.DOTALL)
_ORDER = re.compile(r"\s*(.*?)(?:\s+(asc|desc))?(?:\s+nulls\s+(first|last))?\s*", re.IGNORECASE | re.DOTALL)
_PLURALS = {"years": "year", "months": "month", "days": "day", "hours": "hour", "date": "day", "date_hour": "hour"}
_PLAIN = ("identity", "year", "month", "day", "hour", "void")
_WITH_NUMBER = ("bucket", "truncate")


@dataclass(frozen=True)
class Term:
    """A partition transform of a column.

    `column` is a reference (see `parse_reference`). `name` is Iceberg's name of the transform. `number` is the number
    of buckets, or the width to truncate to.
    """

    column: str
    name: str = "identity"
    number: int | None = None

    @staticmethod
    def parse(text: str) -> Term:
        """Parse text such as `country` (the transform `identity`), `days(ts)` or `bucket(16, id)`.

        Raises `InvalidOption` for any other text.
        """
        match = _CALL.fullmatch(text)
        if match is None:
            return Term(_normalise_reference(text))
        return Term.build(match[1], list(split_list(match[2])))

    @staticmethod
    def build(function: str, arguments: list[str]) -> Term:
        """Build a term from a transform's name, in the singular or plural, and its arguments as text.

        The number may be before or after the column. Raises `InvalidOption` for an unknown transform or wrong
        arguments.
        """
        name = _PLURALS.get(function.lower(), function.lower())
        if name in _PLAIN and len(arguments) == 1:
            return Term(_normalise_reference(arguments[0]), name)
        if name in _WITH_NUMBER and len(arguments) == 2:
            column, number = arguments if arguments[1].isdecimal() else arguments[::-1]
            if number.isdecimal() and int(number) > 0:
                return Term(_normalise_reference(column), name, int(number))
        raise InvalidOption(
            f"{function}({', '.join(arguments)}) is not a partition transform: use a column, "
            "years(ts), months(ts), days(ts), hours(ts), bucket(n, column) or truncate(width, column)"
        )

    def __str__(self) -> str:
        if self.name == "identity":
            return self.column
        number = "" if self.number is None else f"{self.number}, "
        return f"{self.name}({number}{self.column})"


def _normalise_reference(text: str) -> str:
    """Parse a column reference, such as `address.city`, and return it without unnecessary quotes and spaces."""
    return dotted_path(parse_reference(text.strip()))


@dataclass(frozen=True)
class SortTerm:
    """One element of a sort order: a column or transform, its direction, and the position of nulls."""

    term: Term
    descending: bool = False
    nulls_first: bool = True

    @staticmethod
    def parse(text: str) -> SortTerm:
        """Parse text such as `id` or `days(ts) desc nulls last`; raises `InvalidOption` for an unknown transform.

        Ascending is the default. Nulls are first by default if ascending, else last.
        """
        match = _ORDER.fullmatch(text)
        assert match is not None
        descending = (match[2] or "asc").lower() == "desc"
        first = not descending if match[3] is None else match[3].lower() == "first"
        return SortTerm(Term.parse(match[1]), descending, first)


@dataclass(frozen=True)
class TableDefinition:
    """A table's columns (with ids by position), keys, layout and table properties.

    `rules` has the declared rules of columns by column name, `cluster_by` the paths of the clustering columns, and
    `constraints` the CHECK conditions by name; only Delta has these three. A local `location` is made absolute.
    `command` is CREATE TABLE, REPLACE TABLE or CREATE OR REPLACE TABLE, for the history of a Delta table.

    Raises `NoSuchColumn` and `InvalidOption` for keys, partitions or sort orders that do not fit the columns.
    """

    columns: tuple[t.Field, ...]
    primary_key: tuple[str, ...] = ()
    partition_by: tuple[Term, ...] = ()
    sort_by: tuple[SortTerm, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    location: str | None = None
    comment: str | None = None
    rules: Mapping[str, NewColumnRule] = field(default_factory=dict)
    cluster_by: tuple[tuple[str, ...], ...] = ()
    constraints: Mapping[str, str] = field(default_factory=dict)
    command: str = "CREATE TABLE"

    def __post_init__(self) -> None:
        if self.location is not None:
            object.__setattr__(self, "location", absolute(self.location))
        schema = self.schema
        if not self.columns:  # CREATE TABLE AS SELECT: the columns are not known yet
            return
        for name in (*self.primary_key, *(e.column for e in self.partition_by), *(e.term.column for e in self.sort_by)):
            schema.field(name)
        for name in self.primary_key:
            self._check_identity(schema.field(name))
        lower = [name.lower() for name in schema.names]
        if twice := sorted({name for name in lower if lower.count(name) > 1}):
            raise InvalidOption(f"column {twice[0]!r} is defined twice: column names are compared ignoring case")

    @property
    def schema(self) -> Schema:
        """The columns as a `Schema`."""
        return Schema(self.columns)

    @staticmethod
    def _check_identity(column: t.Field) -> None:
        """Raise `InvalidOption` unless a column can be in the primary key by Iceberg's rules ("Identifier Field IDs").

        It must be required, and must not be nested, float or double.
        """
        if column.type in t.FLOATING or isinstance(column.type, (t.Struct, t.ListOf, t.MapOf)):
            raise InvalidOption(
                f"column {column.name!r} is {column.type}: primary keys cannot have float, double or nested types"
            )
        if not column.required:
            raise InvalidOption(f"column {column.name!r} of the primary key is nullable: declare it NOT NULL")


def set_default(column: t.Field, value: Any) -> t.Field:
    """Return a column with a default for existing and new rows; unchanged if `value` is None.

    Raises `InvalidOption` if the value does not fit the column's type.
    """
    if value is None:
        return column
    try:
        exact = exact_value(value, column.type)
    except ValueError as error:
        raise InvalidOption(
            f"the default of column {column.name!r}, {value!r}, is not a valid {column.type}: {error}"
        ) from error
    return replace(column, default=exact, write_default=exact)


def assign_ids(columns: Iterable[t.Field]) -> tuple[t.Field, ...]:
    """Assign field ids by position, as Iceberg does: first to all columns, then to the nested fields of each column."""
    fields = list(columns)
    ids = count(len(fields) + 1)
    return tuple(assign_field_ids(each, number, ids) for number, each in enumerate(fields, start=1))


def assign_field_ids(column: t.Field, number: int, ids: Iterator[int]) -> t.Field:
    """Return a column with the id `number`, and its nested fields with the next of the `ids`.

    Direct children get their ids before grandchildren.
    """
    match column.type:
        case t.Struct():
            pairs = [(member, next(ids)) for member in column.type.fields]
            kind: t.Type = t.Struct(tuple(assign_field_ids(*pair, ids) for pair in pairs))
        case t.ListOf():
            kind = t.ListOf(assign_field_ids(column.type.element, next(ids), ids))
        case t.MapOf():
            key, value = next(ids), next(ids)
            kind = t.MapOf(assign_field_ids(column.type.key, key, ids), assign_field_ids(column.type.value, value, ids))
        case _:
            kind = column.type
    return replace(column, id=number, type=kind)


@dataclass(frozen=True)
class IdentityColumn:
    """An identity column of a Delta table, whose values begin at `start` and increase by `step`.

    With `allows_values`, rows may have values of their own (GENERATED BY DEFAULT); else these are an error.
    """

    start: int = 1
    step: int = 1
    allows_values: bool = False


@dataclass(frozen=True)
class NewColumnRule:
    """The rules that CREATE TABLE declares for one column.

    - `default`: SQL text of the value for rows without one.
    - `generated`: SQL text of the expression that computes the value.
    - `identity`: how values are assigned.
    - `lengths`: the type as text, if it contains CHAR or VARCHAR.
    """

    default: str | None = None
    generated: str | None = None
    identity: IdentityColumn | None = None
    lengths: str | None = None


@dataclass(frozen=True)
class TableDeclarations:
    """The column rules, clustering columns and constraints that a table declares; see `TableDefinition`."""

    rules: Mapping[str, NewColumnRule] = field(default_factory=dict)
    cluster_by: tuple[tuple[str, ...], ...] = ()
    constraints: Mapping[str, str] = field(default_factory=dict)
