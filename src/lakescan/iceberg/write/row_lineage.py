"""Snapshots of format version 3 (specification, "Row Lineage"), which pyiceberg reads but cannot write.

Manifest lists assign each manifest its first row id, rewritten entries keep theirs, and the deletion vectors of removed
data files are removed with them.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

from pyiceberg.avro.file import AvroFile, AvroOutputFile
from pyiceberg.exceptions import ValidationException
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io import FileIO
from pyiceberg.manifest import (
    MANIFEST_ENTRY_SCHEMAS,
    MANIFEST_LIST_FILE_SCHEMAS,
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    ManifestListWriterV2,
    ManifestWriterV2,
    PartitionFieldSummary,
    _inherit_from_manifest,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.table.snapshots import Snapshot, Summary
from pyiceberg.table.update import AddSnapshotUpdate, AssertRefSnapshotId, SetSnapshotRefUpdate
from pyiceberg.table.update.snapshot import _new_manifest_list_file_name, _SnapshotProducer

from lakescan.errors import UnsupportedFeature

_VERSION = 3
_FIRST_ROW_ID = [field.name for field in MANIFEST_LIST_FILE_SCHEMAS[_VERSION].fields].index("first_row_id")
_FILE_FIELDS = [field.name for field in MANIFEST_ENTRY_SCHEMAS[_VERSION].find_field("data_file").field_type.fields]
_FILE_FIRST_ROW_ID, _REFERENCED = _FILE_FIELDS.index("first_row_id"), _FILE_FIELDS.index("referenced_data_file")


class LineageManifestWriter(ManifestWriterV2):
    """A manifest whose entries may have `first_row_id`."""

    def __init__(self, of: ManifestContent, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._of = of

    @property
    def version(self) -> Any:
        """The format version."""
        return _VERSION

    def content(self) -> ManifestContent:
        """Data or deletes."""
        return self._of

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": self._of.name.lower()}

    def new_writer(self) -> AvroOutputFile[ManifestEntry]:
        """An Avro writer with all fields of the format version."""
        schema = self._with_partition(_VERSION)
        return AvroOutputFile(self._output_file, schema, "manifest_entry", schema, self._meta)

    def to_manifest_file(self) -> ManifestFile:
        """The manifest without a first row id, which the manifest list assigns."""
        return ManifestFile(*super().to_manifest_file()._data, None)


class LineageManifestListWriter(ManifestListWriterV2):
    """A manifest list that assigns row ids to new manifests, starting at `next_row_id`."""

    def __init__(self, next_row_id: int, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.next_row_id = next_row_id
        self._format_version = _VERSION
        self._meta |= {"format-version": str(_VERSION), "first-row-id": str(next_row_id)}

    def __enter__(self) -> LineageManifestListWriter:
        schema = MANIFEST_LIST_FILE_SCHEMAS[_VERSION]
        self._writer = AvroOutputFile(self._output_file, schema, "manifest_file", schema, self._meta)
        self._writer.__enter__()
        return self

    def prepare_manifest(self, manifest_file: ManifestFile) -> ManifestFile:
        """Assign row ids to the rows of a data manifest that has none (specification, "First Row ID Assignment")."""
        manifest = super().prepare_manifest(manifest_file)
        if manifest.content == ManifestContent.DATA and manifest[_FIRST_ROW_ID] is None:
            if manifest.added_rows_count is None or manifest.existing_rows_count is None:
                raise UnsupportedFeature(
                    "row ids for manifests without row counts", f"{manifest.manifest_path} has no row counts."
                )
            manifest[_FIRST_ROW_ID] = self.next_row_id
            self.next_row_id += manifest.added_rows_count + manifest.existing_rows_count
        return manifest


class LineageSnapshot(_SnapshotProducer[Any]):
    """A snapshot that adds and removes files in format version 3; a mixin for pyiceberg's snapshot producers."""

    def new_manifest_writer(
        self, spec: PartitionSpec, of: ManifestContent = ManifestContent.DATA
    ) -> LineageManifestWriter:
        """A writer for a manifest of one partition spec."""
        output = self.new_manifest_output()
        return LineageManifestWriter(of, spec, self.schema(), output, self._snapshot_id, self._compression)

    def _deleted_entries(self) -> list[ManifestEntry]:
        """Empty: `_existing_manifests` writes the deleted entries."""
        return []

    def _existing_manifests(self) -> list[ManifestFile]:
        return self._kept_and_removed[0]

    def remove_all(self) -> None:
        """Remove all data files and their deletes."""
        for manifest in self._manifests_before():
            for entry in live_entries(self._io, manifest):
                if entry.data_file.content == DataFileContent.DATA:
                    self.delete_data_file(entry.data_file)
        self.delete_by_predicate(AlwaysTrue())

    @cached_property
    def _kept_and_removed(self) -> tuple[list[ManifestFile], list[DataFile]]:
        """The retained manifests, rewritten where they had removed files; and the removed deletion vectors."""
        paths = {each.file_path for each in self._deleted_data_files}
        kept: list[ManifestFile] = []
        vectors: list[DataFile] = []
        removed: set[str] = set()
        for manifest in self._manifests_before():
            if not (manifest.has_added_files() or manifest.has_existing_files()):
                continue
            is_data = manifest.content == ManifestContent.DATA
            may_have = paths and self._build_manifest_evaluator(manifest.partition_spec_id)(manifest)
            entries = list(live_entries(self._io, manifest)) if may_have else []
            removes = [_is_of(entry.data_file, paths) for entry in entries]
            if not any(removes):
                kept.append(manifest)
                continue
            with self.new_manifest_writer(self.spec(manifest.partition_spec_id), manifest.content) as writer:
                for entry, is_removed in zip(entries, removes, strict=True):
                    (writer.delete if is_removed else writer.existing)(entry)
            kept.append(writer.to_manifest_file())
            files = [entry.data_file for entry, is_removed in zip(entries, removes, strict=True) if is_removed]
            if is_data:
                removed.update(file.file_path for file in files)
            else:
                vectors += files
        if missing := sorted(paths - removed):
            raise ValidationException(f"Missing required files to delete: {', '.join(missing)}")
        return kept, vectors

    def _manifests_before(self) -> list[ManifestFile]:
        """The manifests of the parent snapshot, with their first row ids."""
        if self._parent_snapshot_id is None:
            return []
        parent = self._transaction.table_metadata.snapshot_by_id(self._parent_snapshot_id)
        with AvroFile[ManifestFile](
            self._io.new_input(parent.manifest_list),
            MANIFEST_LIST_FILE_SCHEMAS[_VERSION],
            read_types={-1: ManifestFile, 508: PartitionFieldSummary},
            read_enums={517: ManifestContent},
        ) as reader:
            return list(reader)

    def _summary(self, snapshot_properties: dict[str, str] = {}) -> Summary:  # noqa: B006
        """pyiceberg's summary, with the removed deletion vectors counted."""
        summary = super()._summary(snapshot_properties)
        vectors = self._kept_and_removed[1]
        if not vectors:
            return summary
        counts, rows = summary.additional_properties, sum(each.record_count for each in vectors)
        changes = {"delete-files": len(vectors), "position-deletes": rows}
        totals = {f"total-{name}": int(counts.get(f"total-{name}", 0)) - number for name, number in changes.items()}
        removed = {f"removed-{name}": number for name, number in {**changes, "dvs": len(vectors)}.items()}
        updated = {name: str(number) for name, number in {**removed, **totals}.items() if number >= 0}
        return Summary(operation=summary.operation, **{**counts, **updated})

    def _commit(self) -> Any:
        """The updates and requirements of the commit, as in pyiceberg, with row ids added."""
        metadata = self._transaction.table_metadata
        manifests = self._manifests()
        number, first = metadata.next_sequence_number(), metadata.next_row_id or 0
        name = _new_manifest_list_file_name(self._snapshot_id, 0, self.commit_uuid)
        location = self._transaction._table.location_provider().new_metadata_location(name)
        self._written_manifest_lists.append(location)
        output = self._io.new_output(location)
        with LineageManifestListWriter(
            first, output, self._snapshot_id, self._parent_snapshot_id, number, self._compression
        ) as writer:
            writer.add_manifests(manifests)
        snapshot = Snapshot(
            snapshot_id=self._snapshot_id,
            parent_snapshot_id=self._parent_snapshot_id,
            manifest_list=location,
            sequence_number=number,
            summary=self._summary(self.snapshot_properties),
            schema_id=metadata.current_schema_id,
            first_row_id=first,
            added_rows=writer.next_row_id - first,
        )
        branch = self._target_branch
        head = metadata.refs[branch].snapshot_id if branch in metadata.refs else None
        moved = SetSnapshotRefUpdate(
            snapshot_id=self._snapshot_id, parent_snapshot_id=self._parent_snapshot_id, ref_name=branch, type="branch"
        )
        return (AddSnapshotUpdate(snapshot=snapshot), moved), (AssertRefSnapshotId(snapshot_id=head, ref=branch),)


def live_entries(io: FileIO, manifest: ManifestFile) -> Iterator[ManifestEntry]:
    """The live entries of a manifest, with inherited values filled in ("First Row ID Inheritance")."""
    with AvroFile[ManifestEntry](
        io.new_input(manifest.manifest_path),
        MANIFEST_ENTRY_SCHEMAS[_VERSION],
        read_types={-1: ManifestEntry, 2: DataFile},
        read_enums={0: ManifestEntryStatus, 101: FileFormat, 134: DataFileContent},
    ) as reader:
        next_row_id = manifest[_FIRST_ROW_ID]
        for entry in reader:
            if entry.status == ManifestEntryStatus.DELETED:
                continue
            file = _inherit_from_manifest(entry, manifest).data_file
            if next_row_id is not None and file[_FILE_FIRST_ROW_ID] is None:
                file[_FILE_FIRST_ROW_ID] = next_row_id
                next_row_id += file.record_count
            yield entry


def _is_of(file: DataFile, paths: set[str]) -> bool:
    """Whether a file is one of the data files at `paths`, or the deletion vector of one."""
    return (file.file_path if file.content == DataFileContent.DATA else file[_REFERENCED]) in paths
