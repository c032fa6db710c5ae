"""The table metadata and branch that a commit is based on."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from lakescan.common import types as t
from lakescan.errors import CorruptMetadata
from lakescan.iceberg.manifests.manifest_file import DATA
from lakescan.iceberg.manifests.manifest_writer import ManifestWriter
from lakescan.iceberg.metadata.table_metadata import MAIN, IcebergSnapshot, TableMetadata


@dataclass(frozen=True)
class CommitBase:
    """A table's metadata, as read by lakescan and by pyiceberg (`given`), and the branch to commit to."""

    metadata: TableMetadata
    given: Any
    branch: str = MAIN

    @cached_property
    def head(self) -> IcebergSnapshot | None:
        """The branch's newest snapshot; None for a branch that does not exist yet."""
        if self.branch == MAIN:
            current = self.metadata.current_snapshot_id
            return None if current is None else self.metadata.snapshots[current]
        reference = self.metadata.refs.get(self.branch)
        return None if reference is None else self.metadata.snapshots[reference.snapshot_id]

    @property
    def format_version(self) -> int:
        """The table's format version: 1, 2 or 3."""
        return self.metadata.format_version

    @property
    def sequence_number(self) -> int:
        """The sequence number of the next snapshot; 0 in version 1."""
        return 0 if self.format_version == 1 else int(self.given.last_sequence_number) + 1

    @cached_property
    def next_row_id(self) -> int | None:
        """The first row id of the next snapshot; None before version 3.

        pyiceberg omits `next-row-id` from tables that it creates itself, so the row ids of their snapshots are
        considered too. Raises `CorruptMetadata` for a snapshot with a first row id but without a count of added rows.
        """
        if self.format_version < 3:
            return None
        taken = [each for each in self.given.snapshots if each.first_row_id is not None]
        if unknown := [each.snapshot_id for each in taken if each.added_rows is None]:
            raise CorruptMetadata(
                f"{self.metadata.source}: snapshot {unknown[0]} has a first-row-id, but no added-rows: it is unknown "
                "which row ids are taken. Expire the snapshot, and write again."
            )
        return max([int(self.given.next_row_id or 0), *(each.first_row_id + each.added_rows for each in taken)])

    def writer(self, spec_id: int, content: int = DATA) -> ManifestWriter:
        """Return a writer for the manifests of a partition spec; raises `CorruptMetadata` for an unknown spec."""
        spec = self.metadata.specs.get(spec_id)
        if spec is None:
            raise CorruptMetadata(
                f"{self.metadata.source}: the partition spec {spec_id} is not among the table's specs "
                f"{sorted(self.metadata.specs)}: write the files again"
            )
        return ManifestWriter(
            self.format_version,
            self._schema_json,
            self.metadata.current_schema_id,
            spec_id,
            self._spec_json[spec_id],
            t.Struct(tuple(t.Field(each.id, each.name, each.type) for each in spec.fields)),
            content,
        )

    @cached_property
    def _schema_json(self) -> str:
        return str(self.given.schema().model_dump_json())

    @cached_property
    def _spec_json(self) -> dict[int, str]:
        """The fields of each partition spec, as a JSON list."""
        fields = {
            number: [each.model_dump_json() for each in spec.fields] for number, spec in self.given.specs().items()
        }
        return {number: f"[{', '.join(texts)}]" for number, texts in fields.items()}

    def partition_path(self, partition: tuple[int, tuple[Any, ...]]) -> str | None:
        """Return a partition (spec id and values) as text, such as `day=2026-01-31/country=NO`.

        Returns None for values that pyiceberg cannot format, such as dates that Python cannot represent.
        """
        from pyiceberg.typedef import Record

        spec_id, values = partition
        try:
            spec, schema = self.given.specs()[spec_id], self.given.schema()
            return str(spec.partition_to_path(Record(*values), schema))
        except (OverflowError, TypeError, ValueError):
            return None
