"""Table metadata: the JSON file that names everything else (specification, "Table Metadata")."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from lakescan.common.schema import Schema
from lakescan.common.types import Field, Struct
from lakescan.errors import CorruptMetadata
from lakescan.iceberg.metadata.partition_spec import PartitionSpec, partition_type
from lakescan.iceberg.metadata.sort_order import UNSORTED, SortOrder


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
    """Parsed table metadata; unknown members of the JSON are left alone.

    `faults` has what is wrong with logs (`snapshot-log`, `metadata-log`) and lists of statistics, which then are empty:
    reading goes without.
    `last_column_id` is the greatest field id ever given; None in metadata that does not list its earlier schemas.
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
    refs: Mapping[str, Reference]
    last_updated_ms: int
    metadata_log: tuple[tuple[int, str], ...] = ()
    sort_order: SortOrder = UNSORTED
    statistics_files: tuple[str, ...] = ()  # of the table and of its partitions, by location
    last_column_id: int | None = None
    faults: Mapping[str, CorruptMetadata] = field(default_factory=dict, compare=False)
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

    def check_log(self, name: str) -> None:
        """Raise what is wrong with `snapshot-log`, `metadata-log` or statistics, for what cannot go without them."""
        if name in self.faults:
            raise self.faults[name]

    @cached_property
    def partition_type(self) -> Struct:
        """The partition values of all specs as one struct."""
        return partition_type(self.specs.values(), self.schema)
