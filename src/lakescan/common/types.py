"""The column types of both formats and their Arrow types.

A type is a small immutable tree: atomic leaves, and `Struct`, `ListOf` and `MapOf` over `Field`s. Every field has an id
that is unique in its schema (Iceberg's field id, Delta's column mapping id, or one assigned by position), and a
physical name, which it has in data files.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pyarrow as pa


@dataclass(frozen=True)
class Type:
    """Base class of all column types."""

    def arrow(self) -> pa.DataType:
        """Return the Arrow type of a column of this type."""
        raise NotImplementedError


_ATOMIC_ARROW: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "byte": pa.int8(),
    "short": pa.int16(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "time": pa.time64("us"),
    "string": pa.string(),
    "binary": pa.binary(),
    "uuid": pa.uuid(),
    "unknown": pa.null(),
    "variant": pa.struct(
        [pa.field("metadata", pa.binary(), nullable=False), pa.field("value", pa.binary(), nullable=False)]
    ),
}


@dataclass(frozen=True)
class Atomic(Type):
    """A type without parameters; `name` is a key of `_ATOMIC_ARROW`."""

    name: str

    def arrow(self) -> pa.DataType:
        """Return the Arrow type of this name, as listed in `_ATOMIC_ARROW`."""
        return _ATOMIC_ARROW[self.name]

    def __str__(self) -> str:
        return self.name


BOOLEAN, BYTE, SHORT, INT, LONG = (Atomic(n) for n in ("boolean", "byte", "short", "int", "long"))
FLOAT, DOUBLE, DATE, TIME = (Atomic(n) for n in ("float", "double", "date", "time"))
STRING, BINARY, UUID, UNKNOWN, VARIANT = (Atomic(n) for n in ("string", "binary", "uuid", "unknown", "variant"))
INTEGRAL = (BYTE, SHORT, INT, LONG)
FLOATING = (FLOAT, DOUBLE)


def exact_integers(kind: Type) -> int:
    """Return 2^24 for FLOAT and 2^53 for DOUBLE: the type represents every integer up to this magnitude exactly."""
    return 2**24 if kind == FLOAT else 2**53


@dataclass(frozen=True)
class Decimal(Type):
    """A fixed-point number of at most 38 digits."""

    precision: int
    scale: int

    def arrow(self) -> pa.DataType:
        """Return `decimal128(precision, scale)`."""
        return pa.decimal128(self.precision, self.scale)

    def __str__(self) -> str:
        return f"decimal({self.precision}, {self.scale})"


@dataclass(frozen=True)
class Fixed(Type):
    """A binary of exactly `length` bytes."""

    length: int

    def arrow(self) -> pa.DataType:
        """Return `fixed_size_binary(length)`."""
        return pa.binary(self.length)

    def __str__(self) -> str:
        return f"fixed[{self.length}]"


@dataclass(frozen=True)
class Timestamp(Type):
    """A timestamp with the unit 'us' or 'ns': an instant in UTC if `zoned`, else a wall-clock time without a zone."""

    unit: str = "us"
    zoned: bool = True

    def arrow(self) -> pa.DataType:
        """Return `timestamp(unit)`, with the time zone UTC if `zoned`."""
        return pa.timestamp(self.unit, tz="UTC" if self.zoned else None)

    @property
    def per_day(self) -> int:
        """The number of microseconds or nanoseconds, by `unit`, per day."""
        return 86_400 * 10 ** (9 if self.unit == "ns" else 6)

    def __str__(self) -> str:
        return ("timestamptz" if self.zoned else "timestamp") + ("_ns" if self.unit == "ns" else "")


@dataclass(frozen=True)
class Geospatial(Type):
    """A geometry or geography, stored as well-known binary.

    - `kind`: 'geometry' or 'geography'.
    - `crs`: the coordinate reference system.
    - `algorithm`: how the edges of a geography are interpolated.
    """

    kind: str
    crs: str = "OGC:CRS84"
    algorithm: str = "spherical"

    def arrow(self) -> pa.DataType:
        """Return `binary`, for well-known binary."""
        return pa.binary()

    def __str__(self) -> str:
        return f"{self.kind}({self.crs})"


@dataclass(frozen=True)
class Field:
    """A named, typed column, struct member, list element, map key or map value.

    - `physical_name`: the name in data files (Delta column mapping), else `name`.
    - `default`: value of the column in files written before it existed (Iceberg's `initial-default`), in Python.
    - `write_default`: value that writers store for rows without the column.
    - `pad`: the length of a CHAR(n) column in Delta. Readers pad its strings with spaces to this many characters, and
      comparisons ignore the padding. 0 for other columns.
    - `inner_pad`: the length of a CHAR(n) inside a struct, list or map. Spark's comparisons do not ignore its padding.
    """

    id: int
    name: str
    type: Type
    required: bool = False
    doc: str | None = None
    default: Any = None
    physical_name: str = ""
    write_default: Any = None
    pad: int = 0
    inner_pad: int = 0

    def __post_init__(self) -> None:
        if not self.physical_name:
            object.__setattr__(self, "physical_name", self.name)

    @property
    def width(self) -> int:
        """The length in characters to which readers pad strings, for columns and nested fields; 0 for no padding."""
        return self.pad or self.inner_pad

    def arrow(self) -> pa.Field:
        """Return the Arrow field, with the id as `PARQUET:field_id` and the doc as `comment` in its metadata."""
        metadata = {"PARQUET:field_id": str(self.id)}
        if self.doc:
            metadata["comment"] = self.doc
        return pa.field(self.name, self.type.arrow(), nullable=not self.required, metadata=metadata)


@dataclass(frozen=True)
class Struct(Type):
    """A struct of named fields, in order."""

    fields: tuple[Field, ...] = field(default=())

    @cached_property
    def _arrow(self) -> pa.DataType:
        return pa.struct([f.arrow() for f in self.fields])

    def arrow(self) -> pa.DataType:
        """Return the Arrow `struct` of the fields."""
        return self._arrow

    def __str__(self) -> str:
        return "struct<" + ", ".join(f"{f.name}: {f.type}" for f in self.fields) + ">"


@dataclass(frozen=True)
class ListOf(Type):
    """A list; `element` is the field of its elements."""

    element: Field

    def arrow(self) -> pa.DataType:
        """Return the Arrow `list` of the element."""
        return pa.list_(self.element.arrow())

    def __str__(self) -> str:
        return f"list<{self.element.type}>"


@dataclass(frozen=True)
class MapOf(Type):
    """A map; `key` and `value` are the fields of its entries."""

    key: Field
    value: Field

    def arrow(self) -> pa.DataType:
        """Return the Arrow `map` of key and value."""
        return pa.map_(self.key.arrow(), self.value.arrow())

    def __str__(self) -> str:
        return f"map<{self.key.type}, {self.value.type}>"


_WIDER: dict[Type, tuple[Type, ...]] = {
    BYTE: (SHORT, INT, LONG, DOUBLE),
    SHORT: (INT, LONG, DOUBLE),
    INT: (LONG, DOUBLE),
    LONG: (),
    FLOAT: (DOUBLE,),
    DATE: (Timestamp("us", zoned=False),),
}
_DIGITS: dict[Type, int] = {BYTE: 10, SHORT: 10, INT: 10, LONG: 20}


def is_widening(old: Type, new: Type) -> bool:
    """Return whether the Delta protocol ("Type Widening") allows changing `old` to `new`; True for equal decimals."""
    if isinstance(new, Decimal):
        if isinstance(old, Decimal):
            return new.scale >= old.scale and new.precision - new.scale >= old.precision - old.scale
        return old in _DIGITS and new.precision - new.scale >= _DIGITS[old]
    return new in _WIDER.get(old, ())


def children(of: Type) -> tuple[Field, ...]:
    """Return the direct child fields of a struct, list (its element) or map (key, value); an empty tuple for others."""
    if isinstance(of, Struct):
        return of.fields
    if isinstance(of, ListOf):
        return (of.element,)
    if isinstance(of, MapOf):
        return (of.key, of.value)
    return ()


def walk(fields: tuple[Field, ...]) -> Iterator[Field]:
    """Yield every field in `fields` and every field nested in them, parents before children."""
    for each in fields:
        yield each
        yield from walk(children(each.type))


def are_ordered_alike(one: Type, other: Type) -> bool:
    """Return whether values of the two types can be compared by file statistics, with the same result in every engine.

    True for two integers, and for equal types that are decimals, dates or timestamps in microseconds. False for
    strings, because Spark ignores the padding of CHAR, and for floats, because file statistics do not distinguish NaN
    and -0.0 from other values.
    """
    if one in INTEGRAL and other in INTEGRAL:
        return True
    is_time = isinstance(one, Timestamp) and one.unit == "us"
    return one == other and (one == DATE or is_time or isinstance(one, Decimal))
