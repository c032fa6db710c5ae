"""Snapshots that this process has parsed: a new metadata file repeats all of them, and adds few.

A parsed snapshot is taken again only if its JSON is the same, value by value and type by type. So it does not matter
which table, or which branch of its history, it was parsed for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from lakescan.common.cache import Kind
from lakescan.iceberg.metadata.json_node import Node
from lakescan.iceberg.metadata.table_metadata import IcebergSnapshot

_MEMBER = "snapshots"
_FEW = 16  # so many are parsed at once
_BYTES = 2048  # of a snapshot, approximately: its JSON, and what was parsed of it

_Known = Mapping[int | None, tuple[dict[str, Any], IcebergSnapshot]]
_SNAPSHOTS: Kind[_Known] = Kind("snapshots of Iceberg metadata", lambda known: _BYTES * len(known))


def snapshots_of(document: Node, version: int, parse: Callable[[Node], IcebergSnapshot]) -> list[IcebergSnapshot]:
    """The snapshots of a metadata document of this format version, in order; raises what `parse` does."""
    values, uuid = document.items(_MEMBER, []), document.value.get("table-uuid")
    if len(values) <= _FEW or not isinstance(uuid, str):
        return [parse(node) for node in document.children(_MEMBER, [])]
    known = _SNAPSHOTS.find((uuid, version)) or {}
    found: list[IcebergSnapshot] = []
    kept: dict[int | None, tuple[dict[str, Any], IcebergSnapshot]] = {}
    for number, value in enumerate(values):
        before = known.get(_id_of(value))
        if before is not None and _are_same(value, before[0]):
            snapshot = before[1]
            kept[snapshot.id] = before
        else:
            snapshot = parse(document.element(_MEMBER, number))
            if _is_plain(value):
                kept[snapshot.id] = (value, snapshot)
        found.append(snapshot)
    _SNAPSHOTS.put((uuid, version), kept)
    return found


def _id_of(value: Any) -> int | None:
    found = value.get("snapshot-id") if isinstance(value, dict) else None
    return found if isinstance(found, int) else None


def _are_same(one: dict[str, Any], plain: dict[str, Any]) -> bool:
    """Whether two snapshots, one of them plain, are the same JSON; for Python, 1, 1.0 and true are equal."""
    return one == plain and list(map(type, one.values())) == list(map(type, plain.values()))


def _is_plain(value: dict[str, Any]) -> bool:
    """Whether there are only texts in the summary and the list of manifests of a snapshot, and no encryption key.

    The key of an encrypted manifest list is elsewhere in the metadata.
    """
    if "key-id" in value:
        return False
    texts = [*(value.get("summary") or {}).values(), *(value.get("manifests") or ())]
    return all(isinstance(each, str) for each in texts)
