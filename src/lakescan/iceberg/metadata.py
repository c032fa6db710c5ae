"""Table metadata: the JSON file that names everything else (specification, "Table Metadata")."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pyarrow as pa

from lakescan.errors import CorruptMetadata, UnsupportedFeature
from lakescan.iceberg.partition_spec import PartitionSpec, parse_spec, partition_type
from lakescan.iceberg.schema_json import parse_schema
from lakescan.iceberg.sort_order import UNSORTED, SortOrder, parse_sort_order
from lakescan.schema import Schema
from lakescan.types import Field, Struct

LATEST_VERSION = 3
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"


@dataclass(frozen=True)
class IcebergSnapshot:
    """One snapshot: the manifest list, or (v1) the manifests, that hold its files."""

    id: int
    parent_id: int | None
    sequence_number: int
    timestamp_ms: int
    summary: Mapping[str, str]
    manifest_list: str | None
    manifests: tuple[str, ...]
    schema_id: int | None
    key_id: str | None = None

    @property
    def operation(self) -> str:
        """append, replace, overwrite or delete; empty where v1 metadata does not say."""
        return self.summary.get("operation", "")


@dataclass(frozen=True)
class Reference:
    """A branch or tag: a name for a snapshot. `retention` has what the table says of how long to keep it."""

    snapshot_id: int
    kind: str
    retention: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class TableMetadata:
    """Parsed table metadata; unknown members of the JSON are left alone."""

    format_version: int
    location: str
    uuid: str | None
    schemas: Mapping[int, Schema]
    current_schema_id: int
    specs: Mapping[int, PartitionSpec]
    default_spec_id: int
    properties: Mapping[str, str]
    snapshots: Mapping[int, IcebergSnapshot]
    current_snapshot_id: int | None
    snapshot_log: tuple[tuple[int, int], ...]
    refs: Mapping[str, Reference]
    last_updated_ms: int
    metadata_log: tuple[tuple[int, str], ...] = ()
    sort_order: SortOrder = UNSORTED
    source: str = field(default="", compare=False)

    @property
    def schema(self) -> Schema:
        """The current schema."""
        return self.schemas[self.current_schema_id]

    @cached_property
    def all_fields(self) -> dict[int, Field]:
        """Every field that a schema of the table has, by id: as the current schema has it, else the newest."""
        schemas = sorted(self.schemas.values(), key=lambda s: s.id)
        return {i: f for schema in [*schemas, self.schema] for i, f in schema.by_id.items()}

    @cached_property
    def current_ancestors(self) -> frozenset[int]:
        """The current snapshot and those that it came from, as far as they are still known."""
        found, at = set(), self.current_snapshot_id
        while at is not None and at in self.snapshots and at not in found:
            found.add(at)
            at = self.snapshots[at].parent_id
        return frozenset(found)

    @cached_property
    def partition_type(self) -> Struct:
        """The partition values of all specs as one struct."""
        return partition_type(self.specs.values(), self.schema)


def parse_metadata(data: bytes, source: str) -> TableMetadata:
    """Table metadata from the bytes of its file, gzip or plain. `source` names the file in errors.

    Raises `CorruptMetadata` for what breaks the specification, `UnsupportedFeature` for a newer format version.
    """
    try:
        node = json.loads(_decompressed(data))
    except (json.JSONDecodeError, UnicodeDecodeError, OSError) as error:
        raise CorruptMetadata(f"{source} is not JSON: {error}") from error
    if not isinstance(node, dict) or "format-version" not in node:
        raise CorruptMetadata(f"{source} is not Iceberg table metadata: it has no format-version")
    return _Parser(node, source).parse()


def _decompressed(data: bytes) -> bytes:
    """The document itself: compression shows in the first bytes, whatever the file is called."""
    if data.startswith(_GZIP):
        return gzip.decompress(data)
    if data.startswith(_ZSTD):
        return pa.CompressedInputStream(pa.BufferReader(data), "zstd").read()
    return data


class _Parser:
    """One metadata document, with the name of its file for errors."""

    def __init__(self, node: Mapping[str, Any], source: str) -> None:
        self.node, self.source = node, source
        self.version = int(node["format-version"])
        if self.version > LATEST_VERSION or self.version < 1:
            raise UnsupportedFeature(f"Iceberg format version {self.version}", f"{source} needs it.")

    def parse(self) -> TableMetadata:
        """The whole document."""
        schemas, current_schema = self._schemas()
        specs, default_spec = self._specs(schemas, current_schema)
        snapshots = {s.id: s for s in map(self._snapshot, self.node.get("snapshots") or [])}
        current = self.node.get("current-snapshot-id")
        if current == -1:
            current = None
        if current is not None and current not in snapshots:
            raise self._corrupt(f"current-snapshot-id {current} is not among its snapshots")
        return TableMetadata(
            format_version=self.version,
            location=str(self._required("location")).rstrip("/"),
            uuid=self._required("table-uuid") if self.version > 1 else self.node.get("table-uuid"),
            schemas=schemas,
            current_schema_id=current_schema,
            specs=specs,
            default_spec_id=default_spec,
            properties={k: str(v) for k, v in (self.node.get("properties") or {}).items()},
            snapshots=snapshots,
            current_snapshot_id=current,
            snapshot_log=tuple(
                (int(e["timestamp-ms"]), int(e["snapshot-id"])) for e in self.node.get("snapshot-log") or []
            ),
            refs=self._refs(current, snapshots),
            last_updated_ms=int(self.node.get("last-updated-ms") or 0),
            metadata_log=tuple(
                (int(e["timestamp-ms"]), str(e["metadata-file"])) for e in self.node.get("metadata-log") or []
            ),
            sort_order=self._sort_order(),
            source=self.source,
        )

    def _corrupt(self, problem: str) -> CorruptMetadata:
        return CorruptMetadata(f"{self.source} (Iceberg v{self.version} table metadata): {problem}")

    def _required(self, name: str) -> Any:
        if self.node.get(name) is None:
            raise self._corrupt(f"the required field {name!r} is missing")
        return self.node[name]

    def _schemas(self) -> tuple[dict[int, Schema], int]:
        if self.version > 1 or self.node.get("schemas"):
            nodes, current = self._required("schemas"), self._required("current-schema-id")
        else:
            only = self._required("schema")
            nodes, current = [only], int(only.get("schema-id", 0))
        schemas = {s.id: s for s in (parse_schema(n, self.source) for n in nodes)}
        if current not in schemas:
            raise self._corrupt(f"current-schema-id {current} is not among its schemas {sorted(schemas)}")
        return schemas, int(current)

    def _specs(self, schemas: Mapping[int, Schema], current: int) -> tuple[dict[int, PartitionSpec], int]:
        if self.version > 1 or self.node.get("partition-specs"):
            nodes = [(int(n["spec-id"]), n["fields"]) for n in self._required("partition-specs")]
            default = int(self._required("default-spec-id"))
        else:
            nodes, default = [(0, self._required("partition-spec"))], 0
        if self.version > 1:
            self._required("last-partition-id")
        sources = {i: f for s in [*schemas.values(), schemas[current]] for i, f in s.by_id.items()}
        specs = {spec_id: parse_spec(spec_id, fields, sources) for spec_id, fields in nodes}
        if default not in specs:
            raise self._corrupt(f"default-spec-id {default} is not among its partition specs {sorted(specs)}")
        return specs, default

    def _sort_order(self) -> SortOrder:
        """The default sort order; version 1 may leave it out."""
        if self.version == 1 and not self.node.get("sort-orders"):
            return UNSORTED
        orders = {o.id: o for o in (parse_sort_order(n, self.source) for n in self._required("sort-orders"))}
        default = int(self._required("default-sort-order-id"))
        if default and default not in orders:
            raise self._corrupt(f"default-sort-order-id {default} is not among its sort orders {sorted(orders)}")
        return orders.get(default, UNSORTED)

    def _snapshot(self, node: Mapping[str, Any]) -> IcebergSnapshot:
        try:
            if "manifest-list" not in node and "manifests" not in node:
                raise KeyError("manifest-list")
            return IcebergSnapshot(
                id=int(node["snapshot-id"]),
                parent_id=node.get("parent-snapshot-id"),
                sequence_number=int(node.get("sequence-number") or 0),
                timestamp_ms=int(node["timestamp-ms"]),
                summary={k: str(v) for k, v in (node.get("summary") or {}).items()},
                manifest_list=node.get("manifest-list"),
                manifests=tuple(node.get("manifests") or ()),
                schema_id=node.get("schema-id"),
                key_id=node.get("key-id"),
            )
        except KeyError as error:
            raise self._corrupt(f"a snapshot lacks {error}") from error

    def _refs(self, current: int | None, snapshots: Mapping[int, IcebergSnapshot]) -> dict[str, Reference]:
        refs = {
            name: Reference(int(node["snapshot-id"]), str(node["type"]).lower(), _retention(node))
            for name, node in (self.node.get("refs") or {}).items()
        }
        if current is not None:
            refs.setdefault("main", Reference(current, "branch"))
        for name, reference in refs.items():
            if reference.snapshot_id not in snapshots:
                raise self._corrupt(
                    f"{reference.kind} {name!r} points to snapshot {reference.snapshot_id}: there is none"
                )
        return refs


def _retention(node: Mapping[str, Any]) -> dict[str, int]:
    names = ("max-ref-age-ms", "min-snapshots-to-keep", "max-snapshot-age-ms")
    return {name: int(node[name]) for name in names if node.get(name) is not None}
