"""Widen column types (protocol, "Type Widening"): files keep their types, and readers widen the values."""

from __future__ import annotations

from lakescan.common import types as t
from lakescan.common.references import dotted_path
from lakescan.delta.alter.constraints import check_independent, check_no_lengths
from lakescan.delta.alter.table_state import FoundField, TableState, schema_text, type_text
from lakescan.delta.metadata.new_schema import IDENTITY_STEP, type_node
from lakescan.delta.metadata.schema_json import parse_schema
from lakescan.delta.metadata.table_properties import DeltaProperties
from lakescan.errors import InvalidOption, UnsupportedFeature

CHANGES = "delta.typeChanges"
FEATURES = ("typeWidening", "typeWidening-preview")


def widen(state: TableState, found: FoundField, new: t.Type) -> None:
    """Change a schema field to a wider type, in place, and record the type change in its metadata.

    Raises `InvalidOption` for a type that does not hold all values of the old one, and `UnsupportedFeature` for nested
    types, for a table without type widening, or if an expression reads the column.
    """
    node, old = type_node(new), _type_of(found)
    if old == new:
        return
    name = dotted_path(found.path)
    if isinstance(found.type, dict) or isinstance(node, dict):
        raise UnsupportedFeature(
            f"changing the type of column {name} of {state.location} from {old} to {new}",
            "Change its members one by one: a struct's by their names, a list's `element`, a map's `key` and `value`.",
        )
    if found.type == "void":
        found.holder[found.member] = node
        return
    if IDENTITY_STEP in found.metadata:
        raise UnsupportedFeature(f"changing the type of the identity column {name} of {state.location}")
    if not t.is_widening(old, new):
        raise InvalidOption(
            f"column {name} of {state.location} is {old}, and {new} does not hold all its values: a type changes to a "
            "wider one, such as INT to BIGINT, FLOAT to DOUBLE, DATE to TIMESTAMP_NTZ, or a longer DECIMAL"
        )
    check_independent(state, found.path, "changing the type of")
    check_no_lengths(state, found.path, "changing the type of")
    if not (state.metadata.properties.type_widening and state.protocol.features.intersection(FEATURES)):
        raise UnsupportedFeature(
            f"changing the type of column {name} of {state.location} from {old} to {new} without type widening",
            f"Set '{DeltaProperties.type_widening.name}'='true' first: ALTER TABLE ... SET TBLPROPERTIES.",
        )
    if "typeWidening-preview" in state.protocol.features:
        raise UnsupportedFeature(
            f"changing types of {state.location}, which has the preview of type widening", "Use Delta on Spark."
        )
    change = {"fromType": type_text(found.type), "toType": type_text(node)}
    if found.within:
        change["fieldPath"] = ".".join(found.within)
    found.metadata[CHANGES] = [*found.metadata.get(CHANGES, []), change]
    found.holder[found.member] = node


def _type_of(found: FoundField) -> t.Type:
    field = {"name": "value", "type": found.type, "nullable": True, "metadata": {}}
    text = {"type": "struct", "fields": [field]}
    return parse_schema(schema_text(text), "none", "the table's schema").fields[0].type
