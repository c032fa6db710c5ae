"""Table metadata: the root of all other metadata, stored as a JSON file (specification, "Table Metadata")."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from lakescan.common.schema import Schema
from lakescan.common.types import Field, Struct
from lakescan.errors import CorruptMetadata
from lakescan.iceberg.metadata.partition_spec import PartitionSpec, partition_type
from lakescan.iceberg.metadata.sort_order import UNSORTED, SortOrder
from lakescan.iceberg.metadata.table_properties import IcebergProperties
from lakescan.storage.encryption.table_keys import EncryptedKey, ListKey

MAIN = "main"  # the branch whose newest snapshot is the current one


@dataclass(frozen=True)
class IcebergSnapshot:
    """A snapshot, with its manifest list or, in version 1, possibly a list of manifests.

    `key_id` is the id of the key that encrypts the manifest list, and `list_key` is that key; None if it is missing.
    """

    id: int
    parent_id: int | None
    sequence_number: int
    timestamp_ms: int
    summary: Mapping[str, str]
    manifest_list: str | None
    manifests: tuple[str, ...]
    schema_id: int | None
    key_id: str | None = None
    list_key: ListKey | None = None  # None if the manifest list is not encrypted, or its key is missing

    def count(self, name: str, missing: int | None = None) -> int | None:
        """Return a count from the summary: `missing` if it is absent, None if it is not a 64-bit whole number."""
        text = self.summary.get(name)
        if text is None:
            return missing
        return int(text) if text.isascii() and text.isdecimal() and len(text) < 19 else None

    @property
    def operation(self) -> str:
        """The operation: append, replace, overwrite or delete; empty if v1 metadata omits it."""
        return self.summary.get("operation", "")


def ancestors(snapshots: Mapping[int, IcebergSnapshot], head: int | None) -> Iterator[IcebergSnapshot]:
    """Yield the snapshot `head` and its ancestors that have not expired, newest first; stop if parents form a cycle."""
    at, seen = head, set()
    while at is not None and at in snapshots and at not in seen:
        seen.add(at)
        yield snapshots[at]
        at = snapshots[at].parent_id


@dataclass(frozen=True)
class SnapshotReference:
    """A branch or tag: a named snapshot. `retention` has its retention settings by their JSON names."""

    snapshot_id: int
    kind: str
    retention: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class TableMetadata:
    """Parsed table metadata; unknown JSON members are ignored.

    `faults` has the errors of damaged logs (`snapshot-log`, `metadata-log`) and damaged statistics lists. The damaged
    ones are empty here, because scans do not need them. `last_column_id` is the highest field id ever assigned, or None
    for metadata that does not list earlier schemas.
    """

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
    refs: Mapping[str, SnapshotReference]
    last_updated_ms: int
    metadata_log: tuple[tuple[int, str], ...] = ()
    sort_order: SortOrder = UNSORTED
    statistics_files: tuple[str, ...] = ()  # locations of table and partition statistics
    last_column_id: int | None = None
    encryption_keys: Mapping[str, EncryptedKey] = field(default_factory=dict)
    faults: Mapping[str, CorruptMetadata] = field(default_factory=dict, compare=False)
    source: str = field(default="", compare=False)

    @cached_property
    def table_properties(self) -> IcebergProperties:
        """The table properties with typed values."""
        return IcebergProperties(self.properties, self.source or self.location)

    @property
    def schema(self) -> Schema:
        """The current schema."""
        return self.schemas[self.current_schema_id]

    @cached_property
    def all_fields(self) -> dict[int, Field]:
        """The fields of all schemas by id, each as in the current schema, else as in the newest schema that has it."""
        schemas = sorted(self.schemas.values(), key=lambda s: s.id)
        return {i: f for schema in [*schemas, self.schema] for i, f in schema.by_id.items()}

    @cached_property
    def current_ancestors(self) -> frozenset[int]:
        """The ids of the current snapshot and of its ancestors that have not expired."""
        return frozenset(each.id for each in ancestors(self.snapshots, self.current_snapshot_id))

    @property
    def metadata_folder(self) -> str:
        """The folder of new manifests and statistics files: `write.metadata.path`, else `<location>/metadata`."""
        return (self.properties.get("write.metadata.path") or f"{self.location}/metadata").rstrip("/")

    @property
    def own_folders(self) -> list[str]:
        """The folders of the table's own files: its location, earlier locations, and the folders of its properties."""
        earlier = [file.rpartition("/metadata/")[0] for _, file in self.metadata_log]
        return list(dict.fromkeys([self.location, *self.table_properties.folders, *filter(None, earlier)]))

    def check_log(self, name: str) -> None:
        """Raise the fault of a damaged log or statistics list, named by its JSON name, for operations that need it."""
        if name in self.faults:
            raise self.faults[name]

    @cached_property
    def partition_type(self) -> Struct:
        """One struct type for the partition values of all specs."""
        return partition_type(self.specs.values(), self.schema)
