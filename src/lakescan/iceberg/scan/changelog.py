"""Changelog scans: the rows that snapshots inserted and deleted, through data files and every kind of delete.

The inserted rows are those of the data files that a snapshot added, less those deleted in the same commit. The deleted
rows are those of the data files that it removed, and the rows of retained files that its new deletes match; in both
cases only rows that were live before. A row that a commit copies to another file appears twice: deleted and inserted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common import metadata_columns as m
from lakescan.errors import NoSuchSnapshot
from lakescan.formats.increments import CommitPart, files_of_part
from lakescan.iceberg.metadata.table_metadata import IcebergSnapshot, TableMetadata
from lakescan.iceberg.scan.delete_index import DeleteIndex
from lakescan.iceberg.scan.scan_files import SnapshotScan, add_other_names, attach_deletes, match_deletes
from lakescan.planning.file_table import FileTable, struct_of
from lakescan.reading.net_changes import DELETE, INSERT


class Changelog:
    """The data files whose rows snapshots changed, with the changelog columns as constants."""

    def __init__(self, metadata: TableMetadata, scan: SnapshotScan) -> None:
        self._metadata, self._scan = metadata, scan

    def tables(self, parts: tuple[CommitPart, ...]) -> Iterator[FileTable]:
        """The changed files of an increment's parts, snapshot by snapshot."""
        for part in parts:
            snapshot = self._metadata.snapshots[part.commit]
            for change, tables in self._changes(snapshot, part):
                yield from (
                    _add_changelog_columns(table, change, part.ordinal, snapshot.id) for table in tables if len(table)
                )

    def _changes(self, snapshot: IcebergSnapshot, part: CommitPart) -> Iterator[tuple[str, Iterator[FileTable]]]:
        """The files with rows that a commit deleted, then those with inserts; an initial scan has only inserts."""
        if part.initial:
            yield INSERT, files_of_part(part, (candidates.table for candidates in self._scan.plan(snapshot)))
            return
        yield DELETE, self._deleted_rows(snapshot)
        yield INSERT, (candidates.table for candidates in self._scan.plan_added_files([snapshot]))

    def _deleted_rows(self, snapshot: IcebergSnapshot) -> Iterator[FileTable]:
        if snapshot.parent_id is None:
            return
        parent = self._metadata.snapshots.get(snapshot.parent_id)
        if parent is None:
            raise NoSuchSnapshot(
                f"{self._metadata.location}: the parent of snapshot {snapshot.id}, {snapshot.parent_id}, has expired, "
                f"so the rows that {snapshot.id} deleted are unknown. Start with a later snapshot."
            )
        own_data, own_deletes = self._scan.manifests(snapshot, only_its_own=True)
        removes = pc.fill_null(pc.greater(own_data["deleted_files_count"], 0), True)
        removed_from = own_data.filter(removes)
        new = self._scan.build_index(own_deletes)
        if not removed_from.num_rows and not new.table.num_rows:
            return
        data, deletes = self._scan.manifests(parent)
        old = self._scan.build_index(deletes)
        removed_paths: list[pa.ChunkedArray] = []
        for candidates in attach_deletes(
            self._scan.scan_manifests(removed_from, old, changed_by=(snapshot.id,), removed=True), old
        ):
            table = candidates.table
            removed_paths.append(table.files["path"])
            yield table
        if new.table.num_rows:
            removed = pa.array([path for chunk in removed_paths for path in chunk.to_pylist()], pa.string())
            yield from self._newly_deleted(data, old, new, removed)

    def _newly_deleted(
        self, data: pa.Table, old: DeleteIndex, new: DeleteIndex, removed: pa.Array
    ) -> Iterator[FileTable]:
        """The retained files that new deletes match: `kept` marks the new deletes, whose rows are the ones to read.

        Rows that older deletes had removed already are left out.
        """
        marked = new.table.set_column(new.table.schema.get_field_index("kept"), "kept", pa.repeat(True, len(new.table)))
        both = pa.concat_tables([old.table, marked])
        for scanned, (before, hits) in match_deletes(self._scan.scan_manifests(data, old, new), old, new):
            assert before is not None
            assert hits is not None
            files = add_other_names(scanned)
            stays = pc.invert(pc.is_in(files.files["path"].combine_chunks(), value_set=removed))
            mask = pc.and_(pa.array(hits.counts > 0), stays)
            yield files.with_deletes(before.merge(hits.shift(old.table.num_rows)), both).filter(mask)


def _add_changelog_columns(table: FileTable, change: str, ordinal: int, snapshot: int) -> FileTable:
    """The files with the changelog columns added to their constants."""
    values = {m.CHANGE: change, m.CHANGE_ORDINAL: ordinal, m.COMMIT_SNAPSHOT: snapshot}
    constants = table.files["constants"].combine_chunks()
    members = {f.name: constants.field(i) for i, f in enumerate(constants.type)}
    members |= {str(f.id): pa.repeat(pa.scalar(v, f.type.arrow()), len(table)) for f, v in values.items()}
    place = table.files.schema.get_field_index("constants")
    files = table.files.set_column(place, "constants", struct_of(members, len(table)))
    ids = tuple(f.id for f in values)
    return replace(table, files=files, constant_fields={s: (*c, *ids) for s, c in table.constant_fields.items()})
