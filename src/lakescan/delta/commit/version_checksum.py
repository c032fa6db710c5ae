"""Write version checksums, which record the file counts and state of a version next to its commit.

Protocol, "Version Checksum File". A checksum is computed from the previous version's checksum and the commit, so no
state is read. It is optional, but Delta on Spark trusts it and rejects a table whose checksum is wrong. So in doubt,
none is written. `delta.log.reader` compares it with the live files.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakescan.delta.log.log_text import Action, as_long, parse_object
from lakescan.delta.log.segment import LOG_FOLDER
from lakescan.delta.metadata.protocol import Metadata, Protocol
from lakescan.errors import LakescanError
from lakescan.storage import Storage, join
from lakescan.storage.put_if_absent import put_if_absent

Node = Mapping[str, Any]
_MEMBERS = {"metaData": "metadata", "protocol": "protocol"}  # action names, and the checksum's names for them
_COUNTS = ("tableSizeBytes", "numFiles")
_VECTORS, _DELETED = "numDeletionVectorsOpt", "numDeletedRecordsOpt"
# Lists of actions that a checksum has completely or not at all: the action's name, its key, and the largest number, as
# in Delta on Spark.
_LISTS = {"setTransactions": ("txn", "appId", 100), "domainMetadata": ("domainMetadata", "domain", 10)}


def next_checksum(
    version: int, previous: Node | None, actions: Iterable[Node], added: pa.Table, removed: pa.Table
) -> Node | None:
    """Return the checksum of a version, or None if it cannot be computed from the arguments.

    Args:
        version: The version that the commit made.
        previous: The checksum of the previous version (see `read_checksum`); not needed for version 0.
        actions: All actions of the commit except file actions, as in the log: `{"commitInfo": {...}}`.
        added: The files that it adds, which must not have been live, with the columns `size` and `deletionVector`.
        removed: The files that it removes, which must have been live, with the same columns.

    >>> first = [{"protocol": {"minReaderVersion": 1}}, {"metaData": {"id": "x"}}]
    >>> nothing = pa.table({"size": pa.array([], pa.int64()), "deletionVector": pa.nulls(0)})
    >>> next_checksum(0, None, first, nothing, nothing)["numFiles"]
    0
    """
    if previous is None and version > 0:
        return None
    by_name: dict[str, list[Node]] = {}
    for action in actions:
        for name, members in action.items():
            by_name.setdefault(name, []).append(members)
    node = _count_files(previous, added, removed)
    of_table = {n: _last(by_name, n) or (previous or {}).get(_MEMBERS[n]) for n in _MEMBERS}
    if node is None or None in of_table.values():
        return None
    for name, members in of_table.items():
        node[_MEMBERS[name]] = _drop_nulls(members or {})
    info = _last(by_name, "commitInfo") or {}
    if not _add_time(node, info):
        return None
    if isinstance(info.get("txnId"), str):
        node["txnId"] = info["txnId"]
    for name in _LISTS:
        listed = _list_actions(name, previous, by_name, node["metadata"])
        if listed is not None:
            node[name] = listed
    return node


def state_checksum(files: int, size: int, actions: Iterable[Node]) -> Node | None:
    """Return the checksum of a version whose whole state was read, or None if an action that it needs is missing.

    `files` is the number of live files and `size` their total bytes; `actions` are the version's commitInfo, if known,
    and all live protocol, metaData, txn and domainMetadata actions.
    """
    nothing = pa.table({"size": pa.array([], pa.int64()), "deletionVector": pa.nulls(0)})
    node = next_checksum(0, None, actions, nothing, nothing)
    return None if node is None else {**node, "numFiles": files, "tableSizeBytes": size}


def _count_files(previous: Node | None, added: pa.Table, removed: pa.Table) -> dict[str, Any] | None:
    """Return the counts of a checksum, or None if a file size is unknown or a count would be negative."""
    if added["size"].null_count or removed["size"].null_count:
        return None
    base = dict.fromkeys(_COUNTS, 0) if previous is None else previous
    node: dict[str, Any] = {
        "tableSizeBytes": base["tableSizeBytes"] + _sum(added["size"]) - _sum(removed["size"]),
        "numFiles": base["numFiles"] + added.num_rows - removed.num_rows,
        "numMetadata": 1,
        "numProtocol": 1,
    }
    if previous is not None and {_VECTORS, _DELETED} <= previous.keys():
        (more, more_rows), (less, less_rows) = _vectors(added), _vectors(removed)
        node[_VECTORS], node[_DELETED] = previous[_VECTORS] + more - less, previous[_DELETED] + more_rows - less_rows
    return node if all(count >= 0 for count in node.values()) else None


def _sum(values: pa.ChunkedArray) -> int:
    total: int = pc.sum(values).as_py() or 0
    return total


def _vectors(files: pa.Table) -> tuple[int, int]:
    """Return the number of deletion vectors that files have, and the number of rows that these delete."""
    column = files["deletionVector"]
    if not pa.types.is_struct(column.type):
        return 0, 0
    return len(column) - column.null_count, _sum(pc.struct_field(column, "cardinality"))


def _last(by_name: Mapping[str, list[Node]], name: str) -> Node | None:
    return by_name[name][-1] if name in by_name else None


def _add_time(node: dict[str, Any], info: Node) -> bool:
    """Add the in-commit timestamp of `info` (commitInfo) to a checksum if the table has enabled them.

    Returns False if it is required but missing.
    """
    if str(_configuration(node).get("delta.enableInCommitTimestamps")).lower() != "true":
        return True
    time = as_long(info.get("inCommitTimestamp"))
    if time is not None:
        node["inCommitTimestampOpt"] = time
    return time is not None


def _configuration(node: Node) -> Node:
    return node["metadata"].get("configuration") or {}


def _list_actions(
    name: str, previous: Node | None, by_name: Mapping[str, list[Node]], metadata: Node
) -> list[Node] | None:
    """Return the live actions of one kind, or None if the previous ones are unknown or there are too many.

    `name` is the kind's name in checksums (a key of `_LISTS`), `by_name` are the commit's actions, and `metadata` is
    the table's metadata in the checksum.
    """
    action, key, most = _LISTS[name]
    expires = "delta.setTransactionRetentionDuration" in (metadata.get("configuration") or {})
    before = [] if previous is None else previous.get(name)
    if not isinstance(before, list) or (action == "txn" and expires):
        return None
    live = {each[key]: _drop_nulls(each) for each in (*before, *by_name.get(action, ()))}
    listed = [each for each in live.values() if not each.get("removed")]
    return listed if len(listed) <= most else None


def _drop_nulls(members: Node) -> Node:
    return {name: value for name, value in members.items() if value is not None}


def read_checksum(location: str, version: int, storage: Storage, protocol: Protocol, metadata: Metadata) -> Node | None:
    """Return the checksum of a version if it is complete and has this protocol and metadata.

    Returns None otherwise, also if the file does not exist or cannot be read.
    """
    path = _path(location, version)
    try:
        node = parse_object(storage.read(path), path)
        read = Protocol.parse(_action(node, "protocol", path)), Metadata.parse(_action(node, "metadata", path))
    except LakescanError:
        return None
    counts = [as_long(node.get(name)) for name in _COUNTS]
    is_whole = all(count is not None and count >= 0 for count in counts)
    optional = [node[name] for name in (_VECTORS, _DELETED) if name in node]
    is_whole &= all(as_long(count) is not None for count in optional)
    is_whole &= node.get("numMetadata") == node.get("numProtocol") == 1
    is_whole &= all(_are_actions(node.get(name), key) for name, (_, key, _) in _LISTS.items())
    return node if is_whole and read == (protocol, metadata) else None


def _action(node: Node, member: str, path: str) -> Action:
    members = node.get(member)
    return Action(member, members if isinstance(members, dict) else {}, path)


def _are_actions(listed: Any, key: str) -> bool:
    """Return whether a value is None, or a list of objects that have a string as `key`."""
    return listed is None or (
        isinstance(listed, list) and all(isinstance(each, dict) and isinstance(each.get(key), str) for each in listed)
    )


def write_checksum(location: str, version: int, checksum: Node, storage: Storage) -> bool:
    """Write a version's checksum unless it has one; return whether it was written.

    The version must be committed. Raises `StorageError`, and `UnsupportedFeature` for a store without put-if-absent.
    """
    text = json.dumps(checksum, ensure_ascii=False, separators=(",", ":"))
    return put_if_absent(storage, _path(location, version), text.encode() + b"\n")


def _path(location: str, version: int) -> str:
    return join(location, LOG_FOLDER, f"{version:020d}.crc")
