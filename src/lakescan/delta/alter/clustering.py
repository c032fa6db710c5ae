"""Set the clustering columns (protocol, "Clustered Table")."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from lakescan.common.references import dotted_path
from lakescan.definition.table_changes import SetClustering
from lakescan.delta.alter.columns import physical_path
from lakescan.delta.alter.protocol_upgrade import with_dependencies
from lakescan.delta.alter.table_state import Node, Path, TableState, find_field
from lakescan.delta.metadata.protocol import CLUSTERING
from lakescan.errors import InvalidOption, UnsupportedFeature

_MOST = 4  # as Delta on Spark
_WITHOUT_ORDER = ("boolean", "binary", "variant", "void")  # types without statistics to skip files by


def set_clustering(state: TableState, change: SetClustering) -> TableState:
    """Set the clustering columns, or none; existing files are not rewritten.

    Raises `NoSuchColumn`, `InvalidOption` for columns that files cannot be skipped by, and `UnsupportedFeature` for a
    partitioned table.
    """
    if state.clustering is None and not change.columns:
        return state
    if state.metadata.partition_columns:
        raise UnsupportedFeature(
            f"clustering {state.location}, which is partitioned", "Write it to a new table without partitions."
        )
    if len(change.columns) > _MOST:
        raise InvalidOption(f"CLUSTER BY takes at most {_MOST} columns, not {len(change.columns)}")
    schema = state.schema
    found = [find_field(schema, path).path for path in change.columns]
    if len({tuple(each.lower() for each in path) for path in found}) < len(found):
        raise InvalidOption("CLUSTER BY names a column twice")
    for path in found:
        _check_ordered(schema, path)
    paths = tuple(physical_path(schema, path) for path in found)
    text = json.dumps({"clusteringColumns": [list(path) for path in paths], "domainName": CLUSTERING})
    old = ",".join(logical_name(schema, path) for path in state.clustering or ())
    after = with_dependencies(state, "clustering")
    after = replace(after, clustering=paths, domains={**after.domains, CLUSTERING: text})
    new = ",".join(map(dotted_path, found))
    return after.with_step("CLUSTER BY", oldClusteringColumns=old, newClusteringColumns=new)


def _check_ordered(schema: Node, path: Path) -> None:
    found = find_field(schema, path)
    kind: Any = found.type
    in_struct = all(find_field(schema, path[: n + 1]).siblings is not None for n in range(len(path)))
    if isinstance(kind, dict) or kind in _WITHOUT_ORDER or not in_struct:
        raise InvalidOption(
            f"CLUSTER BY {dotted_path(path)}: its type has no statistics to skip files by. Take columns, or members of "
            "structs, of numbers, texts, dates or timestamps"
        )


def logical_name(schema: Node, physical: Path) -> str:
    """Return the dotted logical name of a clustering column, which the table records by its physical path."""
    return dotted_path(logical_path(schema, physical))


def logical_path(schema: Node, physical: Path) -> Path:
    """Return the logical path of a clustering column, or the physical path itself if the schema does not have it."""
    names: list[str] = []
    fields = schema["fields"]
    for own in physical:
        known = {
            str((each.get("metadata") or {}).get("delta.columnMapping.physicalName", each["name"])): each
            for each in fields
        }
        if own not in known:
            return physical
        names.append(known[own]["name"])
        kind = known[own]["type"]
        fields = kind["fields"] if isinstance(kind, dict) and kind.get("type") == "struct" else []
    return tuple(names)
