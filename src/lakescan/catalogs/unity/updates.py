"""Converts the metadata changes of a Delta commit to updates of the Unity Catalog API."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from lakescan.delta.log.catalog_managed import MetadataChange

Node = dict[str, Any]
_DOMAINS = {"delta.clustering": "clusteringColumns", "delta.rowTracking": "rowIdHighWaterMark"}
_MEMBERS = {
    "elementType": "element-type",
    "containsNull": "contains-null",
    "keyType": "key-type",
    "valueType": "value-type",
    "valueContainsNull": "value-contains-null",
}


def updates_of(change: MetadataChange) -> Iterator[Node]:
    """Yield the API's updates, as JSON, for a commit's metadata change: properties, columns, protocol, domains.

    Yields nothing for a commit that changes only rows. Domains that the API does not support are left out.
    """
    if change.after is not None:
        yield from _metadata_updates(change.before, change.after)
    if change.protocol is not None:
        yield {"action": "set-protocol", "protocol": protocol_node(change.protocol)}
    domains = {name: value for name, value in (change.domains or {}).items() if name in _DOMAINS}
    if set_ := {name: domain_node(name, value) for name, value in domains.items() if value is not None}:
        yield {"action": "set-domain-metadata", "updates": set_}
    if gone := [name for name, value in domains.items() if value is None]:
        yield {"action": "remove-domain-metadata", "domains": gone}


def _metadata_updates(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Node]:
    old, new = before.get("configuration") or {}, after.get("configuration") or {}
    if set_ := {name: value for name, value in new.items() if old.get(name) != value}:
        yield {"action": "set-properties", "updates": set_}
    if gone := sorted(old.keys() - new.keys()):
        yield {"action": "remove-properties", "removals": gone}
    if before["schemaString"] != after["schemaString"]:
        yield {"action": "set-columns", "columns": schema_node(str(after["schemaString"]))}
    if list(before["partitionColumns"]) != list(after["partitionColumns"]):
        yield {"action": "set-partition-columns", "partition-columns": list(after["partitionColumns"])}
    if before.get("description") != after.get("description"):
        yield {"action": "set-table-comment", "comment": after.get("description") or ""}


def protocol_node(protocol: Mapping[str, Any]) -> Node:
    """Convert a Delta protocol action to the API's JSON."""
    return {
        "min-reader-version": protocol["minReaderVersion"],
        "min-writer-version": protocol["minWriterVersion"],
        "reader-features": list(protocol.get("readerFeatures") or ()),
        "writer-features": list(protocol.get("writerFeatures") or ()),
    }


def domain_node(name: str, configuration: Mapping[str, Any]) -> Node:
    """Return the only member of a domain's configuration that the API takes, as a JSON object.

    `name` is the domain: `delta.clustering` or `delta.rowTracking`.
    """
    return {_DOMAINS[name]: configuration[_DOMAINS[name]]}


def known_domains(configurations: Mapping[str, Mapping[str, Any]]) -> Node:
    """Convert a table's domains to the API's form: clustering and row tracking. Others are left out."""
    return {name: domain_node(name, value) for name, value in configurations.items() if name in _DOMAINS}


def schema_node(schema_string: str) -> Node:
    """Convert a Delta schema string to the API's JSON, an object."""
    found: Node = _rename_members(json.loads(schema_string))
    return found


def _rename_members(node: Any) -> Any:
    """Rename the members of a Delta type's JSON to the API's names, such as `element-type`, at any depth.

    User-defined field metadata is left unchanged.
    """
    if not isinstance(node, dict):
        return node
    made = {_MEMBERS.get(name, name): value for name, value in node.items()}
    for name in ("element-type", "key-type", "value-type"):
        if name in made:
            made[name] = _rename_members(made[name])
    if "fields" in made:
        made["fields"] = [{**field, "type": _rename_members(field["type"])} for field in made["fields"]]
    return made
