"""REPLACE COLUMNS as Delta has it: columns are matched by their names; the others are added or dropped."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from lakescan.common import types as t
from lakescan.common.references import dotted_path
from lakescan.definition.table_changes import Default, ReplaceColumns
from lakescan.delta.alter.columns import (
    DEFAULT,
    as_logged,
    check_droppable,
    check_mapped,
    check_names,
    with_mapping,
    with_types,
)
from lakescan.delta.alter.schema_tree import Node, find
from lakescan.delta.alter.state import RowCheck, TableState
from lakescan.delta.alter.statistics_columns import without_column
from lakescan.delta.alter.type_changes import widen
from lakescan.delta.metadata.new_schema import IDENTITY_STEP, field_node, type_node
from lakescan.errors import InvalidOption, UnsupportedFeature


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
        check_droppable(state, schema, find(schema, (each["name"],)))
        after = without_column(after, (each["name"],))
    fields = []
    for each in columns:
        if (node := before.get(each.name.lower())) is None:
            fields.append(_new(state, each, change))
            if each.required:
                after = after.with_check(RowCheck(f"adding column {each.name!r} NOT NULL to {state.location}"))
            continue
        after = _kept(after, state, schema, node, each)
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


def _kept(after: TableState, state: TableState, schema: Node, node: Node, wanted: t.Field) -> TableState:
    """A column that was there with its new type, comment and nullability."""
    found = find(schema, (node["name"],))
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


def _new(state: TableState, wanted: t.Field, change: ReplaceColumns) -> Node:
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
