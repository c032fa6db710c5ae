"""The state of a table while changes apply to it: what a commit then makes of the table's metadata."""

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
    """What a change takes for granted: no row has a null in the field of that id; it must be true of all branches."""

    field_id: int


@dataclass(frozen=True)
class NoRows:
    """What a change takes for granted: no branch has a row. `reason` says which change, and why."""

    reason: str


@dataclass(frozen=True)
class FilesHaveIds:
    """What a change takes for granted: data files of any snapshot that have a field called `name` have field ids.

    The name mapping gives the name to another column now: files without ids have values of the field `field_id` there.
    """

    field_id: int
    name: str


Proof = NoNulls | NoRows | FilesHaveIds


@dataclass(frozen=True)
class MetadataDraft:
    """A table's metadata as some changes leave it. `proofs` are to be checked against the rows before the commit."""

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
        """The table as it is; the last ids are the highest ones that it ever assigned."""
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
