"""Metadata files with other paths: all else in their JSON stays, members that are unknown here included."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from typing import Any

from lakescan.errors import UnsupportedFeature
from lakescan.iceberg.maintenance.rewrite_table_path.prefixes import Prefixes

_PROPERTIES = (
    "write.object-storage.path",
    "write.folder-storage.path",
    "write.data.path",
    "write.metadata.path",
)
_STATISTICS = ("statistics", "partition-statistics")


def check_document(document: Mapping[str, Any], source: str) -> None:
    """Raise `UnsupportedFeature` for metadata whose files cannot be rewritten."""
    if document.get("encryption-keys"):
        raise UnsupportedFeature("rewriting the paths of encrypted metadata", f"{source} has encryption keys.")
    if any("manifest-list" not in each for each in document.get("snapshots") or ()):
        raise UnsupportedFeature(
            "rewriting the paths of snapshots without a manifest list",
            f"{source} has one, of version 1. Expire it, or upgrade the table and write to it first.",
        )


def moved_document(document: Mapping[str, Any], prefixes: Prefixes) -> dict[str, Any]:
    """A metadata file's JSON object with other paths."""
    found = {**document, "location": prefixes.moved(document["location"], "the table's location")}
    properties = document.get("properties") or {}
    moved = {
        name: prefixes.moved(properties[name], f"the property {name}") for name in _PROPERTIES if name in properties
    }
    if moved:
        found["properties"] = {**properties, **moved}
    _move(found, "snapshots", "manifest-list", prefixes, "the manifest list")
    _move(found, "metadata-log", "metadata-file", prefixes, "the metadata file")
    for name in _STATISTICS:
        _move(found, name, "statistics-path", prefixes, "the statistics file")
    return found


def _move(document: dict[str, Any], name: str, member: str, prefixes: Prefixes, what: str) -> None:
    if document.get(name):
        document[name] = [{**each, member: prefixes.moved(each[member], what)} for each in document[name]]


def statistics_of(document: Mapping[str, Any]) -> list[str]:
    """The statistics files that a metadata file names."""
    return [each["statistics-path"] for name in _STATISTICS for each in document.get(name) or ()]


def encoded(document: Mapping[str, Any], location: str) -> bytes:
    """The bytes of a metadata file; compressed if its name says so."""
    text = json.dumps(document, ensure_ascii=False).encode()
    return gzip.compress(text, mtime=0) if location.endswith((".gz.metadata.json", ".metadata.json.gz")) else text
