"""A table to be made, as both formats understand it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

from lakescan.common import types as t
from lakescan.common.schema import Schema
from lakescan.errors import InvalidOption
from lakescan.expressions.bind import value_of

_CALL = re.compile(r"\s*(\w+)\s*\(\s*(.*?)\s*\)\s*", re.DOTALL)
_ORDER = re.compile(r"\s*(.*?)(?:\s+(asc|desc))?(?:\s+nulls\s+(first|last))?\s*", re.IGNORECASE | re.DOTALL)
_PLURALS = {"years": "year", "months": "month", "days": "day", "hours": "hour", "date": "day", "date_hour": "hour"}
_PLAIN = ("identity", "year", "month", "day", "hour", "void")
_WITH_NUMBER = ("bucket", "truncate")


@dataclass(frozen=True)
class Term:
    """A transform of a column: `name` is one of Iceberg's, `number` the buckets or the width of those that have one."""

    column: str
    name: str = "identity"
    number: int | None = None

    @staticmethod
    def parse(text: str) -> Term:
        """From text such as `country`, `days(ts)`, `bucket(16, id)`; raises `InvalidOption`."""
        found = _CALL.fullmatch(text)
        if found is None:
            return Term(text.strip().strip("`"))
        arguments = [each.strip().strip("`") for each in found[2].split(",")]
        return Term.of(found[1], arguments)

    @staticmethod
    def of(function: str, arguments: list[str]) -> Term:
        """From a function and its arguments: a number may be before or after the column."""
        name = _PLURALS.get(function.lower(), function.lower())
        if name in _PLAIN and len(arguments) == 1:
            return Term(arguments[0], name)
        if name in _WITH_NUMBER and len(arguments) == 2:
            column, number = arguments if arguments[1].isdigit() else arguments[::-1]
            if number.isdigit() and int(number) > 0:
                return Term(column, name, int(number))
        raise InvalidOption(
            f"{function}({', '.join(arguments)}) is no partition transform: these are column, "
            "years(ts), months(ts), days(ts), hours(ts), bucket(n, column), truncate(width, column)"
        )

    def __str__(self) -> str:
        if self.name == "identity":
            return self.column
        number = "" if self.number is None else f"{self.number}, "
        return f"{self.name}({number}{self.column})"


@dataclass(frozen=True)
class SortTerm:
    """A term that rows are sorted by."""

    term: Term
    descending: bool = False
    nulls_first: bool = True

    @staticmethod
    def parse(text: str) -> SortTerm:
        """From text such as `id`, `days(ts) desc nulls last`; nulls come first, in descending order last."""
        found = _ORDER.fullmatch(text)
        assert found is not None
        descending = (found[2] or "asc").lower() == "desc"
        first = not descending if found[3] is None else found[3].lower() == "first"
        return SortTerm(Term.parse(found[1]), descending, first)


@dataclass(frozen=True)
class TableDefinition:
    """A table's columns (their ids are given by position), and how it is kept.

    `properties` are the table's own.
    """

    columns: tuple[t.Field, ...]
    primary_key: tuple[str, ...] = ()
    partition_by: tuple[Term, ...] = ()
    sort_by: tuple[SortTerm, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    location: str | None = None
    comment: str | None = None

    def __post_init__(self) -> None:
        schema = self.schema
        if not self.columns:  # those of a query are not known yet
            return
        for name in (*self.primary_key, *(e.column for e in self.partition_by), *(e.term.column for e in self.sort_by)):
            schema.field(name)
        for name in self.primary_key:
            self._check_identity(schema.field(name))
        lower = [name.lower() for name in schema.names]
        if twice := sorted({name for name in lower if lower.count(name) > 1}):
            raise InvalidOption(f"column {twice[0]!r} is there twice: names are told apart without case")

    @property
    def schema(self) -> Schema:
        """The columns as a schema."""
        return Schema(self.columns)

    @staticmethod
    def _check_identity(column: t.Field) -> None:
        """Specification, "Identifier Field IDs": required, of a primitive type, neither float nor double."""
        if column.type in t.FLOATING or isinstance(column.type, (t.Struct, t.ListOf, t.MapOf)):
            raise InvalidOption(f"column {column.name!r} is {column.type}: primary keys take neither floats nor nested")
        if not column.required:
            raise InvalidOption(f"column {column.name!r} of the primary key may be null: make it NOT NULL")


def with_default(column: t.Field, value: Any) -> t.Field:
    """A column that rows without it have a value of; raises `InvalidOption` where it is none of its type."""
    if value is None:
        return column
    try:
        exact = value_of(value, column.type)
    except ValueError as error:
        raise InvalidOption(
            f"the default of column {column.name!r}, {value!r}, is no {column.type}: {error}"
        ) from error
    return replace(column, default=exact, write_default=exact)


def numbered(columns: Iterable[t.Field]) -> tuple[t.Field, ...]:
    """The columns with ids by position: columns first, then what they hold, as Iceberg gives them."""
    fields = list(columns)
    ids = count(len(fields) + 1)
    return tuple(_renumbered(each, number, ids) for number, each in enumerate(fields, start=1))


def _renumbered(column: t.Field, number: int, ids: Iterator[int]) -> t.Field:
    """A column with an id, and what it holds with the next ones: all members first, then what they hold."""
    match column.type:
        case t.Struct():
            pairs = [(member, next(ids)) for member in column.type.fields]
            kind: t.Type = t.Struct(tuple(_renumbered(*pair, ids) for pair in pairs))
        case t.ListOf():
            kind = t.ListOf(_renumbered(column.type.element, next(ids), ids))
        case t.MapOf():
            key, value = next(ids), next(ids)
            kind = t.MapOf(_renumbered(column.type.key, key, ids), _renumbered(column.type.value, value, ids))
        case _:
            kind = column.type
    return replace(column, id=number, type=kind)
