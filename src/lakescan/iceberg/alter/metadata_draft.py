"""The draft of a table's metadata that changes are applied to, and the proofs that it requires of existing rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from lakescan.common import types as t
from lakescan.common.schema import Schema
from lakescan.iceberg.metadata.partition_spec import PartitionField
from lakescan.iceberg.metadata.sort_order import SortField
from lakescan.iceberg.metadata.table_metadata import TableMetadata


@dataclass(frozen=True)
class NoNulls:
    """Proof required by a change: no row of any branch has a null in the field with that id."""

    field_id: int


@dataclass(frozen=True)
class NoRows:
    """Proof required by a change: no branch has any row. `reason` is the error message if one has."""

    reason: str


@dataclass(frozen=True)
class FilesHaveIds:
    """Proof required by a change: data files of any snapshot with a field called `name` have field ids.

    The new name mapping gives the name to another column. In files without ids, it holds values of the field
    `field_id`.
    """

    field_id: int
    name: str


Proof = NoNulls | NoRows | FilesHaveIds


@dataclass(frozen=True)
class MetadataDraft:
    """A table's metadata after some changes. `proofs` must be checked against existing rows before the commit."""

    base: TableMetadata
    version: int
    schema: Schema
    last_column_id: int
    partition_fields: tuple[PartitionField, ...]
    last_partition_id: int
    sort_fields: tuple[SortField, ...]
    properties: Mapping[str, str]
    location: str
    proofs: tuple[Proof, ...] = field(default=())

    @staticmethod
    def create(base: TableMetadata, last_column_id: int, last_partition_id: int) -> MetadataDraft:
        """Return a draft without changes; the last ids are the highest that the table ever assigned."""
        return MetadataDraft(
            base,
            base.format_version,
            base.schema,
            last_column_id,
            base.specs[base.default_spec_id].fields,
            last_partition_id,
            base.sort_order.fields,
            dict(base.properties),
            base.location,
        )

    def with_columns(self, columns: tuple[t.Field, ...]) -> MetadataDraft:
        """Return the draft with these columns."""
        return replace(self, schema=replace(self.schema, fields=columns))

    def add_proof(self, proof: Proof) -> MetadataDraft:
        """Return the draft with one more proof."""
        return replace(self, proofs=(*self.proofs, proof))
