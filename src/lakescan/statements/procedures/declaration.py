"""Classes that declare procedures: parameters, result columns, and the function that runs each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any

import pyarrow as pa

from lakescan.api.catalog import Catalog
from lakescan.api.table import Table
from lakescan.common.executors import PlanningExecutor
from lakescan.common.timestamps import as_moment


@dataclass(frozen=True)
class Parameter:
    """A parameter of a procedure: its name, the type of its values, and whether it is required."""

    name: str
    kind: ArgumentType
    required: bool = False


@dataclass(frozen=True)
class ProcedureCall:
    """A call of a procedure.

    - `procedure`: the procedure's name.
    - `catalog`: the catalog that it is called in.
    - `arguments`: the arguments by name; None for missing ones.
    - `executor`: runs the reading and rewriting of files; threads of this process if it is None.
    - `source_table`: describes a table of the engine's own catalog by name, if the engine has one.
    """

    procedure: str
    catalog: Catalog
    arguments: Mapping[str, Any]
    executor: PlanningExecutor | None = None
    source_table: Callable[[str], SourceTable] | None = None

    def __getitem__(self, name: str) -> Any:
        return self.arguments[name]

    @property
    def table(self) -> Table:
        """The table that the argument `table` names, opened at each access; raises `NoSuchTable`."""
        return self.catalog.load_table(self["table"])


Row = tuple[Any, ...]


@dataclass(frozen=True)
class Procedure:
    """A procedure of Iceberg, called by `CALL catalog.system.name(...)`.

    Attributes:
        name: The name, as in Iceberg's documentation.
        parameters: The parameters, in order.
        output: The columns of the result.
        run: Runs the procedure and returns the rows of the result. None for an unsupported procedure.
        instead: Advice for an unsupported procedure.
    """

    name: str
    parameters: tuple[Parameter, ...]
    output: pa.Schema
    run: Callable[[ProcedureCall], Sequence[Row] | pa.Table] | None = None
    instead: str = ""


def columns(**types: pa.DataType) -> pa.Schema:
    """Return the schema of a result whose columns are never null.

    Args:
        types: The types, by column name.

    Example:
        >>> columns(added_manifests_count=pa.int32())
    """
    return pa.schema([pa.field(name, kind, nullable=False) for name, kind in types.items()])


@dataclass(frozen=True)
class SourceTable:
    """A table of an engine's own catalog, as the engine describes it.

    - `name`: the name, for messages.
    - `format`: the format of its files, such as 'parquet'.
    - `location`: the folder of the table.
    - `columns`: all columns, including partition columns.
    - `partition_by`: the names of the partition columns.
    - `files`: the locations of the files that the engine reads.
    - `properties`: the table properties.
    """

    name: str
    format: str
    location: str
    columns: pa.Schema
    partition_by: Sequence[str]
    files: Sequence[str]
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ArgumentType:
    """The type of a parameter's values.

    `read` converts a value, or raises `ValueError` for one of another type. `expects` describes the type in messages.
    """

    expects: str
    read: Callable[[Any], Any]


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(value)
    return value


def _whole(bits: int) -> Callable[[Any], int]:
    def read(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not -(2 ** (bits - 1)) <= value < 2 ** (bits - 1):
            raise ValueError(value)
        return value

    return read


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(value)
    return value


def _moment(value: Any) -> datetime:
    if not isinstance(value, datetime | date | str):
        raise ValueError(value)
    return as_moment(value)


def _array(item: Callable[[Any], Any]) -> Callable[[Any], tuple[Any, ...]]:
    def read(value: Any) -> tuple[Any, ...]:
        if isinstance(value, str) or not isinstance(value, Sequence):
            raise ValueError(value)
        return tuple(map(item, value))

    return read


def _string_map(value: Any) -> dict[str, str]:
    """Convert a map, or the key-value pairs that Arrow and Spark use for maps, to a dictionary of strings.

    Raises `ValueError` for a key that is not a string and for a null value.
    """
    pairs = value.items() if isinstance(value, Mapping) else value
    if isinstance(pairs, str):
        raise ValueError(value)
    found = {}
    for name, each in pairs:
        if not isinstance(name, str) or each is None:
            raise ValueError(value)
        found[name] = str(each).lower() if isinstance(each, bool) else str(each)
    return found


STRING = ArgumentType("a string", _text)
LONG = ArgumentType("a whole number of 64 bits", _whole(64))
INT = ArgumentType("a whole number of 32 bits", _whole(32))
BOOLEAN = ArgumentType("true or false", _flag)
TIMESTAMP = ArgumentType("a timestamp", _moment)
STRINGS = ArgumentType("an array of strings", _array(_text))
LONGS = ArgumentType("an array of whole numbers", _array(_whole(64)))
OPTIONS = ArgumentType("a map of strings to strings", _string_map)
