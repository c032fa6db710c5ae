"""The clustering columns of a table, from its domain metadata (protocol, "Clustered Table")."""

from __future__ import annotations

from typing import Any

from lakescan.delta.log.text import ADVICE, Action, parse_object, short_json
from lakescan.errors import CorruptMetadata

CLUSTERING = "delta.clustering"


def clustering_paths(domain: Action | None) -> list[tuple[str, ...]]:
    """Return the clustering columns by their physical names; none without the domain. Raises `CorruptMetadata`."""
    if domain is None:
        return []
    where = f"{domain.where}: the clustering configuration"
    paths = parse_object(domain.text("configuration") or "", where).get("clusteringColumns")
    if not isinstance(paths, list) or not all(_are_names(path) for path in paths):
        raise CorruptMetadata(f"{where} has clusteringColumns {short_json(paths)}; expected lists of names. {ADVICE}")
    return [tuple(path) for path in paths]


def _are_names(node: Any) -> bool:
    return isinstance(node, list) and all(isinstance(name, str) for name in node)
