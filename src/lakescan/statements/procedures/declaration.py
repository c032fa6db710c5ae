"""How procedures are declared: their parameters, what they return, and what runs them."""

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
    """A parameter of a procedure: its name, what values it takes, and whether one has to be given."""

    name: str
    kind: ArgumentType
    required: bool = False


@dataclass(frozen=True)
class ProcedureCall:
    """A call of a procedure: the catalog that it is called in, its arguments by name, and where it runs.

    Arguments that are not given are None. `executor` is where files are read and rewritten; threads by default.
    `source_table` describes a table of the engine's own catalog by its name, where the engine has one.
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
        """The table that the argument `table` names."""
        return self.catalog.load_table(self["table"])


Row = tuple[Any, ...]


@dataclass(frozen=True)
class Procedure:
    """A procedure of Iceberg: what `CALL catalog.system.name(...)` does.

    Attributes:
        name: Its name, as in Iceberg's documents.
        parameters: Its parameters, in order.
        output: The columns of its result.
        run: What it does; the rows of the result. None for a procedure that is refused.
        instead: What to do instead of a procedure that is refused.
    """

    name: str
    parameters: tuple[Parameter, ...]
    output: pa.Schema
    run: Callable[[ProcedureCall], Sequence[Row] | pa.Table] | None = None
    instead: str = ""


def columns(**types: pa.DataType) -> pa.Schema:
    """The columns of a result, none of which is ever null.

    Args:
        types: Their types by name.

    Example:
        >>> columns(added_manifests_count=pa.int32())
    """
    return pa.schema([pa.field(name, kind, nullable=False) for name, kind in types.items()])


@dataclass(frozen=True)
class SourceTable:
    """A table of an engine's own catalog, as the engine describes it.

    - `name`: for messages.
    - `format`: of its files, such as 'parquet'.
    - `location`: its folder.
    - `columns`: all columns, partition columns included.
    - `partition_by`: the names of its partition columns.
    - `files`: the locations of the files that the engine reads.
    - `properties`: its table properties.
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
    """What values a parameter takes: `read` returns the value, or raises `ValueError`; `expects` is for messages."""

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
    """A map; pairs, which is how Arrow and Spark hand over maps, are taken, too."""
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
