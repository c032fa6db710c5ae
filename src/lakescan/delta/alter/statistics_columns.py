"""Keep the property that names the columns with statistics true to columns that are dropped or renamed."""

from __future__ import annotations

from collections.abc import Callable

from lakescan.common.references import dotted_path, parse_reference, split_list
from lakescan.delta.alter.schema_tree import Path
from lakescan.delta.alter.state import TableState
from lakescan.delta.metadata.table_properties import DeltaProperties

_NAME = DeltaProperties.stats_columns.name


def drop_stats_column(state: TableState, path: Path) -> TableState:
    """The table without the column, and without its members, in `delta.dataSkippingStatsColumns`."""
    return _map_columns(state, lambda each: None if _begins(each, path) else each)


def rename_stats_column(state: TableState, path: Path, name: str) -> TableState:
    """The table with the column's new name in `delta.dataSkippingStatsColumns`."""
    new = (*path[:-1], name)
    return _map_columns(state, lambda each: (*new, *each[len(path) :]) if _begins(each, path) else each)


def _begins(each: Path, path: Path) -> bool:
    return tuple(name.lower() for name in each[: len(path)]) == tuple(name.lower() for name in path)


def _map_columns(state: TableState, change: Callable[[Path], Path | None]) -> TableState:
    text = state.metadata.configuration.get(_NAME)
    if not text:
        return state
    before = [parse_reference(each) for each in split_list(text)]
    after = [new for each in before if (new := change(each)) is not None]
    if after == before:
        return state
    configuration = {**state.metadata.configuration, _NAME: ",".join(map(dotted_path, after))}
    return state.with_configuration(configuration)
