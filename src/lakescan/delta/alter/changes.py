"""Apply changes to a Delta table's state, in order; what the format does not have is refused by name."""

from __future__ import annotations

from collections.abc import Sequence

from lakescan.common.schema import Schema
from lakescan.definition.table_changes import (
    AddColumn,
    AddConstraint,
    AddPartition,
    ChangeColumn,
    DropColumn,
    DropConstraint,
    DropFeature,
    DropKey,
    DropPartition,
    RenameColumn,
    ReplaceColumns,
    ReplacePartition,
    SetClustering,
    SetComment,
    SetKey,
    SetLocation,
    SetOrder,
    SetProperties,
    TableChange,
    UnsetProperties,
)
from lakescan.delta.alter.clustering import set_clustering
from lakescan.delta.alter.columns import add_column, change_column, drop_column, rename_column
from lakescan.delta.alter.constraints import add_constraint, drop_constraint
from lakescan.delta.alter.dropped_features import drop_feature
from lakescan.delta.alter.properties import set_comment, set_properties, unset_properties
from lakescan.delta.alter.replace_columns import replace_columns
from lakescan.delta.alter.state import TableState
from lakescan.errors import UnsupportedFeature


def altered(state: TableState, changes: Sequence[TableChange], base: Schema, domains: frozenset[str]) -> TableState:
    """Return the table after the changes.

    Args:
        state: The table before them.
        changes: The changes, in order.
        base: The columns of the table as it is: those that its rows have.
        domains: The domains that have metadata.

    Raises:
        NoSuchColumn: A column is not there.
        InvalidOption: A change is not possible.
        UnsupportedFeature: The format, or writers here, do not have it.
    """
    for change in changes:
        state = _after(state, change, base, domains)
    return state


def _after(state: TableState, change: TableChange, base: Schema, domains: frozenset[str]) -> TableState:
    match change:
        case AddColumn():
            return add_column(state, change)
        case DropColumn():
            return drop_column(state, change)
        case RenameColumn():
            return rename_column(state, change)
        case ChangeColumn():
            return change_column(state, change)
        case ReplaceColumns():
            return replace_columns(state, change)
        case SetProperties():
            return set_properties(state, change)
        case UnsetProperties():
            return unset_properties(state, change)
        case SetComment():
            return set_comment(state, change)
        case SetClustering():
            return set_clustering(state, change)
        case AddConstraint():
            return add_constraint(state, change, base)
        case DropConstraint():
            return drop_constraint(state, change)
        case DropFeature():
            return drop_feature(state, change, domains)
        case SetKey() | DropKey():
            raise UnsupportedFeature(f"a key of the Delta table {state.location}", "The format has no primary keys.")
        case AddPartition() | DropPartition() | ReplacePartition():
            raise UnsupportedFeature(
                f"changing the partitions of the Delta table {state.location}",
                "Write it to a new table, or overwrite it by CREATE OR REPLACE TABLE ... PARTITIONED BY.",
            )
        case SetOrder():
            raise UnsupportedFeature(
                f"a sort order of the Delta table {state.location}",
                "Cluster it, ALTER TABLE ... CLUSTER BY, or sort its files: compact(strategy='sort', sort_order=...).",
            )
        case SetLocation():
            raise UnsupportedFeature(
                f"another location of the Delta table {state.location}",
                "A Delta table is its folder: give the other folder a name by register_table.",
            )
