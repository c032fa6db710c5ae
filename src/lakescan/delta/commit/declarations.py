"""What CREATE TABLE declares beside columns and properties, as Delta's metadata has it.

Protocol, "Default Columns", "Generated Columns", "Identity Columns", "CHECK Constraints", "Clustered Table".
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from lakescan.common import types as t
from lakescan.common.references import parse_reference
from lakescan.definition.column_rules import IdentityColumn, NewColumnRule, TableDeclarations
from lakescan.definition.literals import default_of
from lakescan.definition.table_changes import AddConstraint, SetClustering
from lakescan.definition.table_definition import TableDefinition
from lakescan.delta.alter.clustering import logical_name, set_clustering
from lakescan.delta.alter.constraints import add_constraint
from lakescan.delta.alter.schema_tree import parse_schema_tree
from lakescan.delta.alter.state import TableState
from lakescan.delta.data_files.column_rules import DeclaredRules
from lakescan.delta.log.reader import DeltaVersion, LogReader
from lakescan.delta.metadata.clustering import CLUSTERING, clustering_paths
from lakescan.delta.metadata.new_schema import IDENTITY_STEP, field_node
from lakescan.errors import InvalidOption, UnsupportedFeature
from lakescan.storage import Storage

_NONE = NewColumnRule()
DEFAULT, GENERATED = "CURRENT_DEFAULT", "delta.generationExpression"
START, EXPLICIT = "delta.identity.start", "delta.identity.allowExplicitInsert"
LENGTHS = "__CHAR_VARCHAR_TYPE_STRING"


def declared_features(definition: TableDefinition) -> set[str]:
    """The features that declarations bring to a new table."""
    rules = [_rule(each, definition) for each in definition.columns]
    features = {
        "allowColumnDefaults": any(each.default is not None for each in rules),
        "generatedColumns": any(each.generated is not None for each in rules),
        "identityColumns": any(each.identity is not None for each in rules),
        "checkConstraints": bool(definition.constraints),
        "clustering": bool(definition.cluster_by),
        "domainMetadata": bool(definition.cluster_by),
    }
    return {name for name, is_there in features.items() if is_there}


def declared_schema(definition: TableDefinition) -> str:
    """The columns as schema JSON, with what is declared of them; raises `UnsupportedFeature` and `InvalidOption`."""
    nodes = []
    for each in definition.columns:
        rule = _rule(each, definition)
        _check(each, rule)
        node = field_node(replace(each, default=None, write_default=None))
        node["metadata"] |= _metadata(rule)
        nodes.append(node)
    return json.dumps({"type": "struct", "fields": nodes}, separators=(",", ":"))


def add_declarations(state: TableState, definition: TableDefinition) -> TableState:
    """The new table with its constraints and clustering columns.

    Raises `UnsupportedFeature` for rules that writers here would not obey.
    """
    for name, condition in definition.constraints.items():
        state = add_constraint(state, AddConstraint(name, condition), state.metadata.schema())
    if definition.cluster_by:
        state = set_clustering(state, SetClustering(definition.cluster_by))
    if definition.rules or definition.constraints:
        schema = state.metadata.schema()
        DeclaredRules(state.protocol, state.metadata, schema, "the new table", datetime.now(UTC)).rules()
    return state


def declarations_of(version: DeltaVersion, storage: Storage) -> TableDeclarations:
    """What a table declares, by its metadata: the definition that would declare it again."""
    metadata, protocol = version.metadata, version.protocol
    schema = parse_schema_tree(metadata.schema_string)
    rules = {node["name"]: _declared_rule(node.get("metadata") or {}, protocol.features) for node in schema["fields"]}
    paths: Sequence[tuple[str, ...]] = ()
    if "clustering" in protocol.features:
        paths = clustering_paths(LogReader(version.segment.location, storage).domain(version.segment, CLUSTERING))
    return TableDeclarations(
        {name: rule for name, rule in rules.items() if rule != _NONE},
        tuple(parse_reference(logical_name(schema, path)) for path in paths),
        metadata.properties.constraints,
    )


def _declared_rule(metadata: Mapping[str, Any], features: Collection[str]) -> NewColumnRule:
    identity = None
    if IDENTITY_STEP in metadata and "identityColumns" in features:
        identity = IdentityColumn(metadata[START], metadata[IDENTITY_STEP], bool(metadata.get(EXPLICIT)))
    return NewColumnRule(
        metadata.get(DEFAULT) if "allowColumnDefaults" in features else None,
        metadata.get(GENERATED) if "generatedColumns" in features else None,
        identity,
        metadata.get(LENGTHS),
    )


def _rule(column: t.Field, definition: TableDefinition) -> NewColumnRule:
    rule = definition.rules.get(column.name, _NONE)
    if rule.default is None and column.write_default is not None:
        return replace(rule, default=default_of(column.write_default).text)
    return rule


def _check(column: t.Field, rule: NewColumnRule) -> None:
    if sum(each is not None for each in (rule.default, rule.generated, rule.identity)) > 1:
        raise InvalidOption(f"column {column.name!r} has one of DEFAULT, GENERATED ALWAYS AS and IDENTITY, not two")
    if rule.identity is not None and column.type != t.LONG:
        raise UnsupportedFeature(f"the identity column {column.name!r} of type {column.type}", "It is BIGINT in Delta.")
    if rule.identity is not None and rule.identity.step == 0:
        raise InvalidOption(f"INCREMENT BY 0 of column {column.name!r}: all rows would have the same value")


def _metadata(rule: NewColumnRule) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if rule.default is not None:
        found[DEFAULT] = rule.default
    if rule.generated is not None:
        found[GENERATED] = rule.generated
    if rule.identity is not None:
        found |= {START: rule.identity.start, IDENTITY_STEP: rule.identity.step, EXPLICIT: rule.identity.allows_values}
    if rule.lengths is not None:
        found[LENGTHS] = rule.lengths
    return found
