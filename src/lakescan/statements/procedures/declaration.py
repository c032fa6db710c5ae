"""How procedures are declared: their parameters, what they return, and what runs them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lakescan.api.catalog import Catalog
from lakescan.api.table import Table
from lakescan.common.executors import PlanningExecutor
from lakescan.statements.procedures.sources import SourceTable
from lakescan.statements.procedures.values import ArgumentType


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
