"""Parse table metadata: JSON bytes -> `TableMetadata` (specification, "Table Metadata Fields").

Like the reference implementation, the parser refuses metadata that leaves the state of the table ambiguous. It
tolerates damaged logs and statistics lists, because reading the current state does not need them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any

from lakescan.common.cache import CacheKind
from lakescan.common.schema import Schema
from lakescan.errors import CorruptMetadata, NotATable
from lakescan.iceberg.metadata.encryption_keys import parse_encryption_keys
from lakescan.iceberg.metadata.format_versions import FormatVersion, known_version
from lakescan.iceberg.metadata.json_document import INT_MAX, LONG_MAX, Node, read_document
from lakescan.iceberg.metadata.partition_spec import PartitionSpecs, parse_spec
from lakescan.iceberg.metadata.schema_json import parse_schema_node
from lakescan.iceberg.metadata.sort_order import UNSORTED, SortOrder, parse_sort_order
from lakescan.iceberg.metadata.table_metadata import MAIN, IcebergSnapshot, SnapshotReference, TableMetadata
from lakescan.storage.encryption.table_keys import EncryptedKey, ListKey
from lakescan.storage.errors import redact

STATISTICS = ("statistics", "partition-statistics")
_NONE = -1
_TIMES = 4  # the memory of parsed metadata as a multiple of its JSON (measured, approximate)
# By location and content, so that a file that was replaced under the same name is parsed again.
_PARSED: CacheKind[tuple[TableMetadata, int]] = CacheKind("Iceberg metadata", lambda value: _TIMES * value[1])


def load_metadata(data: bytes, source: str) -> TableMetadata:
    """Parse the bytes of a metadata file, or return the cached result for the same bytes; see `parse_metadata`."""
    key = source, hashlib.sha256(data).digest()
    return _PARSED.get(key, lambda: (parse_metadata(data, source), len(data)))[0]


_FIRST_MS, _LAST_MS = -62_135_596_800_000, 253_402_300_799_999  # the years 1 to 9999
_LEAST = -(2**63)


def parse_metadata(data: bytes, source: str) -> TableMetadata:
    """Parse the bytes of a metadata file, plain or compressed with gzip or zstd. `source` names the file in errors.

    Raises `CorruptMetadata` for metadata that violates the specification, `UnsupportedFeature` for a newer format
    version, and `NotATable` for the metadata of a view.
    """
    document = read_document(data, source)
    if document.has("view-uuid"):
        raise NotATable(f"{redact(source)} is the metadata of a view: query it by its name in a catalog")
    version = known_version(document.integer("format-version", least=_LEAST), redact(source))
    where = f"{source} (Iceberg v{version.number} table metadata)"
    return _Parser(Node(document.value, where), source, version).parse()


class _Parser:
    """Parses one metadata document."""

    def __init__(self, node: Node, source: str, version: FormatVersion) -> None:
        self.node, self.source, self.version = node, source, version
        self.keys: Mapping[str, EncryptedKey] = {}

    def parse(self) -> TableMetadata:
        """Parse the whole document."""
        node = self.node
        schemas, current_schema = self._schemas()
        specs, default_spec = self._specs(schemas, current_schema)
        self.keys = parse_encryption_keys(node)
        snapshots = self._index_ids(parse_snapshots(node, self.version.number, self._snapshot), "snapshots")
        current = self._current(snapshots)
        faults: dict[str, CorruptMetadata] = {}
        return TableMetadata(
            format_version=self.version.number,
            location=node.text("location").rstrip("/"),
            uuid=node.text("table-uuid") if self.version.lists_all else node.text("table-uuid", None),
            schemas=schemas,
            current_schema_id=current_schema,
            specs=specs,
            default_spec_id=default_spec,
            properties=node.texts("properties"),
            snapshots=snapshots,
            current_snapshot_id=current,
            snapshot_log=self._snapshot_log(faults),
            refs=self._refs(current, snapshots),
            last_updated_ms=node.integer("last-updated-ms", 0, least=_FIRST_MS, most=_LAST_MS),
            metadata_log=self._log("metadata-log", _metadata_logged, faults),
            sort_order=self._sort_order(),
            statistics_files=tuple(path for name in STATISTICS for path in self._log(name, _statistics_file, faults)),
            last_column_id=node.integer("last-column-id", None) if node.has("schemas") else None,
            encryption_keys=self.keys,
            faults=faults,
            source=self.source,
        )

    def _index_ids(self, items: Iterable[Any], what: str) -> dict[int, Any]:
        """Return items by id; raises `CorruptMetadata` for a duplicate id. `what` names the items in the message."""
        by_id: dict[int, Any] = {}
        for each in items:
            if each.id in by_id:
                raise self.node.fault(f"two of its {what} have the id {each.id}")
            by_id[each.id] = each
        return by_id

    def _schemas(self) -> tuple[dict[int, Schema], int]:
        if self.version.lists_all or self.node.has("schemas"):
            schemas = self._index_ids(map(parse_schema_node, self.node.children("schemas")), "schemas")
            current = self.node.integer("current-schema-id", most=INT_MAX)
        else:
            only = parse_schema_node(self.node.child("schema"))
            schemas, current = {only.id: only}, only.id
        if current not in schemas:
            raise self.node.fault(f"current-schema-id {current} is not among its schemas {sorted(schemas)}")
        return schemas, current

    def _specs(self, schemas: Mapping[int, Schema], current: int) -> tuple[PartitionSpecs, int]:
        sources = {i: f for s in [*schemas.values(), schemas[current]] for i, f in s.by_id.items()}
        if self.version.lists_all or self.node.has("partition-specs"):
            nodes = self.node.children("partition-specs")
            parsed = [parse_spec(n.integer("spec-id", most=INT_MAX), n.children("fields"), sources) for n in nodes]
            default = self.node.integer("default-spec-id", most=INT_MAX)
        else:
            parsed, default = [parse_spec(0, self.node.children("partition-spec"), sources)], 0
        if self.version.lists_all:
            self.node.integer("last-partition-id", least=_LEAST)
        specs = self._index_ids(parsed, "partition specs")
        if default not in specs:
            raise self.node.fault(f"default-spec-id {default} is not among its partition specs {sorted(specs)}")
        return PartitionSpecs(specs), default

    def _sort_order(self) -> SortOrder:
        """Return the default sort order; unsorted if version 1 omits it. Raises `CorruptMetadata` for an unknown id."""
        if not self.version.lists_all and not self.node.has("sort-orders"):
            return UNSORTED
        orders = self._index_ids(map(parse_sort_order, self.node.children("sort-orders")), "sort orders")
        default = self.node.integer("default-sort-order-id", most=INT_MAX)
        if default and default not in orders:
            raise self.node.fault(f"default-sort-order-id {default} is not among its sort orders {sorted(orders)}")
        return orders.get(default, UNSORTED)

    def _snapshot(self, node: Node) -> IcebergSnapshot:
        manifests = tuple(node.items("manifests", []))
        if wrong := [each for each in manifests if not isinstance(each, str)]:
            raise node.fault(f"has {wrong[0]!r} among its manifests, which is not a string")
        if not node.has("manifest-list") and not (manifests if self.version.lists_all else node.has("manifests")):
            raise node.fault("lacks 'manifest-list', so its files are unknown")
        key_id = node.text("key-id", None)
        return IcebergSnapshot(
            id=node.integer("snapshot-id", least=_LEAST),
            parent_id=node.integer("parent-snapshot-id", None, least=_LEAST),
            sequence_number=node.integer("sequence-number", 0),
            timestamp_ms=node.integer("timestamp-ms", least=_FIRST_MS, most=_LAST_MS),
            summary=node.texts("summary"),
            manifest_list=node.text("manifest-list", None),
            manifests=manifests,
            schema_id=node.integer("schema-id", None, most=INT_MAX),
            key_id=key_id,
            list_key=None if key_id is None else ListKey.find(key_id, self.keys),
        )

    def _current(self, snapshots: Mapping[int, IcebergSnapshot]) -> int | None:
        """Return the current snapshot id, or None for a table without one.

        Raises `CorruptMetadata` for an unknown snapshot, and for None if a branch main exists, or the last snapshot in
        the snapshot log does.
        """
        listed = self.node.integer("current-snapshot-id", None, least=_LEAST)
        current = None if listed == _NONE else listed
        main = self.node.members("refs").get(MAIN)
        if current is not None and current not in snapshots:
            raise self.node.fault(f"current-snapshot-id {current} is not among its snapshots")
        if current is None and main is not None:
            raise self.node.fault("it has no current-snapshot-id, but a branch main, and either may be wrong")
        if current is None and (last := self._last_logged()) in snapshots:
            raise self.node.fault(f"it has no current-snapshot-id, but by its snapshot-log {last} is current")
        return current

    def _last_logged(self) -> int | None:
        """Return the last snapshot id in the snapshot log, or None.

        Writers clear the log when a table loses its current snapshot.
        """
        log = self._snapshot_log({})
        return log[-1][1] if log else None

    def _refs(self, current: int | None, snapshots: Mapping[int, IcebergSnapshot]) -> dict[str, SnapshotReference]:
        names = self.node.members("refs")
        refs = {name: self._reference(name, node) for name, node in names.items()}
        if current is not None:
            main = refs.setdefault(MAIN, SnapshotReference(current, "branch"))
            if main.snapshot_id != current:
                raise self.node.fault(f"current-snapshot-id is {current}, but the branch main is at {main.snapshot_id}")
        for name, reference in refs.items():
            if reference.snapshot_id not in snapshots:
                raise self.node.fault(
                    f"{reference.kind} {name!r} points to snapshot {reference.snapshot_id}, which does not exist"
                )
        return refs

    def _reference(self, name: str, value: Any) -> SnapshotReference:
        node = Node.wrap(value, self.node.source, f"refs.{name}")
        kind = node.text("type").lower()
        if kind not in ("branch", "tag"):
            raise node.fault(f"has type {kind!r}, which is neither branch nor tag")
        names = ("max-ref-age-ms", "min-snapshots-to-keep", "max-snapshot-age-ms")
        retention = {each: node.integer(each) for each in names if node.has(each)}
        return SnapshotReference(node.integer("snapshot-id", least=_LEAST), kind, retention)

    def _snapshot_log(self, faults: dict[str, CorruptMetadata]) -> tuple[tuple[int, int], ...]:
        """Return the snapshot log, converting well-formed entries in bulk because the log can be long."""
        entries = self.node.value.get("snapshot-log")
        with suppress(KeyError, TypeError):
            if isinstance(entries, list):
                pairs = tuple((each["timestamp-ms"], each["snapshot-id"]) for each in entries)
                if all(type(at) is type(i) is int and _is_time(at) and _LEAST <= i <= LONG_MAX for at, i in pairs):
                    return pairs
        return self._log("snapshot-log", _snapshot_logged, faults)

    def _log(self, name: str, parse: Any, faults: dict[str, CorruptMetadata]) -> tuple[Any, ...]:
        """Parse each element of a log or of a list of statistics files with `parse`.

        If it is damaged, return () and add the error to `faults` under its `name`.
        """
        try:
            return tuple(map(parse, self.node.children(name, [])))
        except CorruptMetadata as error:
            faults[name] = error
            return ()


def _is_time(timestamp_ms: int) -> bool:
    return _FIRST_MS <= timestamp_ms <= _LAST_MS


def _snapshot_logged(node: Node) -> tuple[int, int]:
    timestamp_ms = node.integer("timestamp-ms", least=_FIRST_MS, most=_LAST_MS)
    return timestamp_ms, node.integer("snapshot-id", least=_LEAST)


def _statistics_file(node: Node) -> str:
    return node.text("statistics-path")


def _metadata_logged(node: Node) -> tuple[int, str]:
    return node.integer("timestamp-ms", least=_FIRST_MS, most=_LAST_MS), node.text("metadata-file")


# A parsed snapshot is reused only if its JSON is the same, value by value and type by type. So it does not matter which
# table, or which branch of its history, it was parsed for.

_MEMBER = "snapshots"
_FEW = 16  # up to this number, snapshots are parsed without the cache
_BYTES = 2048  # the approximate memory of a snapshot: its JSON and the parsed object

_Known = Mapping[int | None, tuple[dict[str, Any], IcebergSnapshot]]
_SNAPSHOTS: CacheKind[_Known] = CacheKind("snapshots of Iceberg metadata", lambda known: _BYTES * len(known))


def parse_snapshots(document: Node, version: int, parse: Callable[[Node], IcebergSnapshot]) -> list[IcebergSnapshot]:
    """Return the snapshots of a metadata document in order, reusing parsed ones with the same JSON.

    `version` is the format version; raises the errors of `parse`.
    """
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
    """Return whether two snapshots, one of them plain, are the same JSON (in Python, 1, 1.0 and true are equal)."""
    return one == plain and list(map(type, one.values())) == list(map(type, plain.values()))


def _is_plain(value: dict[str, Any]) -> bool:
    """Return whether a snapshot has only strings in its summary and manifest list, and no encryption key.

    The key of an encrypted manifest list is stored elsewhere in the metadata, so equal JSON could mean different
    snapshots.
    """
    if "key-id" in value:
        return False
    texts = [*(value.get("summary") or {}).values(), *(value.get("manifests") or ())]
    return all(isinstance(each, str) for each in texts)
