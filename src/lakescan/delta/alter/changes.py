"""Apply changes to a Delta table's state, in order; what the format does not have is refused by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from lakescan.common import types as t
from lakescan.common.references import dotted_path
from lakescan.common.schema import Schema
from lakescan.definition.table_changes import (
    AddColumn,
    AddConstraint,
    AddPartition,
    ChangeColumn,
    Default,
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
from lakescan.delta.alter.columns import (
    DEFAULT,
    add_column,
    as_logged,
    change_column,
    check_droppable,
    check_mapped,
    check_names,
    drop_column,
    rename_column,
    with_mapping,
    with_types,
)
from lakescan.delta.alter.constraints import add_constraint, drop_constraint
from lakescan.delta.alter.dropped_features import drop_writer_feature
from lakescan.delta.alter.properties import set_comment, set_properties, unset_properties
from lakescan.delta.alter.schema_tree import Node, find_field
from lakescan.delta.alter.state import RowCheck, TableState
from lakescan.delta.alter.statistics_columns import drop_stats_column
from lakescan.delta.alter.type_changes import widen
from lakescan.delta.metadata.new_schema import IDENTITY_STEP, field_node, type_node
from lakescan.errors import InvalidOption, UnsupportedFeature


def apply_changes(
    state: TableState, changes: Sequence[TableChange], base: Schema, domains: frozenset[str]
) -> TableState:
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
        state = _apply_change(state, change, base, domains)
    return state


def _apply_change(state: TableState, change: TableChange, base: Schema, domains: frozenset[str]) -> TableState:
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
            return drop_writer_feature(state, change, domains)
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


def replace_columns(state: TableState, change: ReplaceColumns) -> TableState:
    """Replace the columns: one with the name of an earlier one keeps its values.

    As in Delta, columns are not both added and dropped at once, since one of them may be meant as renamed.
    """
    schema = state.schema
    columns = tuple(replace(each, default=None, write_default=None) for each in change.columns)
    wanted = {each.name.lower(): each for each in columns}
    if any(IDENTITY_STEP in (each.get("metadata") or {}) for each in schema["fields"]):
        raise UnsupportedFeature(f"REPLACE COLUMNS of {state.location}, which has identity columns")
    if len(wanted) < len(columns):
        raise InvalidOption("REPLACE COLUMNS has two columns with one name")
    before = {each["name"].lower(): each for each in schema["fields"]}
    dropped = [each for name, each in before.items() if name not in wanted]
    added = [each for name, each in wanted.items() if name not in before]
    if dropped and added:
        raise UnsupportedFeature(
            f"REPLACE COLUMNS of {state.location} that adds {added[0].name!r} and drops {dropped[0]['name']!r}",
            "One may be meant as the other renamed: use RENAME COLUMN, or ADD COLUMNS and DROP COLUMNS.",
        )
    check_names(state, added)
    after = state
    for each in dropped:
        check_mapped(state, f"dropping column {dotted_path((each['name'],))}")
        check_droppable(state, schema, find_field(schema, (each["name"],)))
        after = drop_stats_column(after, (each["name"],))
    fields = []
    for each in columns:
        if (node := before.get(each.name.lower())) is None:
            fields.append(_new_column(state, each, change))
            if each.required:
                after = after.with_check(RowCheck(f"adding column {each.name!r} NOT NULL to {state.location}"))
            continue
        after = _update_column(after, state, schema, node, each)
        _set_default(state, node, change.defaults.get(each.name))
        fields.append(node)
    if {each["name"] for each in fields} <= {*state.metadata.partition_columns}:
        raise UnsupportedFeature(
            f"REPLACE COLUMNS of {state.location} that leaves no column but those of its partitions"
        )
    schema["fields"] = fields
    after = with_types(with_mapping(after.with_schema(schema)), columns)
    logged: list[Any] = [as_logged((), field_node(each)) for each in columns]
    return after.with_step("REPLACE COLUMNS", columns=logged)


def _update_column(after: TableState, state: TableState, schema: Node, node: Node, wanted: t.Field) -> TableState:
    """A column that was there with its new type, comment and nullability."""
    found = find_field(schema, (node["name"],))
    if isinstance(node["type"], dict) or isinstance(type_node(wanted.type), dict):
        own = next(each for each in state.metadata.schema().fields if each.name == node["name"])
        if not _same_type(own.type, wanted.type):
            raise UnsupportedFeature(
                f"changing the type of column {wanted.name!r} of {state.location} by REPLACE COLUMNS",
                "Add, drop and change its members one by one.",
            )
    else:
        widen(state, found, wanted.type)
    if wanted.doc is not None:
        found.metadata["comment"] = wanted.doc
    nullable = bool(node.get("nullable", True))
    node["nullable"] = not wanted.required
    if wanted.required and nullable:
        why = f"column {wanted.name!r} of {state.location} as NOT NULL, which has nulls"
        return after.with_check(RowCheck(why, not_null=found.path))
    return after


def _new_column(state: TableState, wanted: t.Field, change: ReplaceColumns) -> Node:
    node = field_node(wanted)
    _set_default(state, node, change.defaults.get(wanted.name))
    return node


def _set_default(state: TableState, node: Node, default: Default | None) -> None:
    if default is None:
        (node.get("metadata") or {}).pop(DEFAULT, None)
        return
    if "allowColumnDefaults" not in state.protocol.features:
        raise UnsupportedFeature(
            f"a default of column {node['name']!r} of {state.location}",
            "Set 'delta.feature.allowColumnDefaults'='supported' first: ALTER TABLE ... SET TBLPROPERTIES.",
        )
    node["metadata"][DEFAULT] = default.text


def _same_type(one: t.Type, other: t.Type) -> bool:
    return str(one) == str(other)
