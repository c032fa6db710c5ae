"""What a statement is run with: the names that it has in mind, and the engine that its queries run on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from lakescan.api.changes import Changes
from lakescan.common.executors import PlanningExecutor
from lakescan.statements.procedures import SourceTable


@dataclass(frozen=True)
class StatementContext:
    """The text of a statement, and what its words mean.

    - `within`: the catalog and namespace of short names.
    - `frames`: tables and rows that the user gave by name.
    - `rows`: runs a query, and returns its rows as writers take them.
    - `executor`: where files are read and written; threads of this process if it is None.
    - `make_view`: makes a temporary view of changes, where the engine has some.
    - `source_table`: describes a table of the engine's own catalog.
    - `temporary`: whether a short name is that of something that the session alone has, such as a temporary view.
    """

    text: str
    within: tuple[str, ...]
    rows: Callable[[str], Any]
    frames: Mapping[str, Any] = field(default_factory=dict)
    executor: PlanningExecutor | None = None
    make_view: Callable[[str, Changes], None] | None = None
    source_table: Callable[[str], SourceTable] | None = None
    temporary: Callable[[str], bool] = lambda name: False
