"""Name mappings: field ids for data files that have none (specification, "Column Projection")."""

from __future__ import annotations

import json
from collections.abc import Iterator

from lakescan.iceberg.json_node import INT_MAX, Node, fault
from lakescan.storage_faults import told

PROPERTY = "schema.name-mapping.default"


def parse_name_mapping(text: str, source: str) -> dict[str, int]:
    """Full dotted names, aliases included, with their field ids; raises `CorruptMetadata` for what is no mapping."""
    try:
        nodes = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise fault(source, f"{PROPERTY} is not a name mapping: {told(error)}") from error
    if not isinstance(nodes, list):
        raise fault(source, f"{PROPERTY} is not a name mapping: it is not a list")
    return dict(_mapped(Node({"fields": nodes}, source, PROPERTY), ""))


def _mapped(parent: Node, path: str) -> Iterator[tuple[str, int]]:
    for node in parent.children("fields", []):
        field_id = node.integer("field-id", None, most=INT_MAX)
        for name in node.items("names", []):
            if not isinstance(name, str):
                raise node.fault("has a name that is not a text")
            own = f"{path}.{name}" if path else name
            if field_id is not None:
                yield own, field_id
            yield from _mapped(node, own)
