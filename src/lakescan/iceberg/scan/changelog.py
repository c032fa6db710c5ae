"""Changelogs: the rows that snapshots inserted and deleted, over files added and removed, and deletes of every kind.

Rows inserted by a snapshot are those of the files that it added, less those deleted in the same commit. Rows deleted
are those of the files that it removed, and, of files that stay, the rows that its new deletes hit: in both cases those
that were live before. A row that a snapshot moves from one file to another comes twice, deleted and inserted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common import metadata_columns as m
from lakescan.errors import NoSuchSnapshot
from lakescan.formats.increments import Part, rows_of
from lakescan.iceberg.metadata.table_metadata import IcebergSnapshot, TableMetadata
from lakescan.iceberg.scan.delete_index import DeleteIndex
from lakescan.iceberg.scan.scan_files import ScanFiles, named_apart, with_deletes
from lakescan.planning.file_table import FileTable, struct_of
from lakescan.reading.net_changes import DELETE, INSERT


class Changelog:
    """The files of the changes of snapshots, with what became of their rows as constants."""

    def __init__(self, metadata: TableMetadata, scan: ScanFiles) -> None:
        self._metadata, self._scan = metadata, scan

    def tables(self, parts: tuple[Part, ...]) -> Iterator[FileTable]:
        """The files of parts of snapshots, snapshot by snapshot."""
        for part in parts:
            snapshot = self._metadata.snapshots[part.commit]
            for change, tables in self._changes(snapshot, part):
                yield from (_marked(table, change, part.ordinal, snapshot.id) for table in tables if len(table))

    def _changes(self, snapshot: IcebergSnapshot, part: Part) -> Iterator[tuple[str, Iterator[FileTable]]]:
        """The files whose rows a commit deleted, and those whose rows it inserted; a whole table is inserted."""
        if part.initial:
            yield INSERT, rows_of(part, (found.table for found in self._scan.plan(snapshot)))
            return
        yield DELETE, self._deleted(snapshot)
        yield INSERT, (found.table for found in self._scan.added([snapshot]))

    def _deleted(self, snapshot: IcebergSnapshot) -> Iterator[FileTable]:
        if snapshot.parent_id is None:
            return
        parent = self._metadata.snapshots.get(snapshot.parent_id)
        if parent is None:
            raise NoSuchSnapshot(
                f"{self._metadata.location}: the snapshot before {snapshot.id}, {snapshot.parent_id}, has expired: "
                "the rows that it deleted cannot be told. Start with a later snapshot."
            )
        own_data, own_deletes = self._scan.manifests(snapshot, only_its_own=True)
        removes = pc.fill_null(pc.greater(own_data["deleted_files_count"], 0), True)
        removed_from = own_data.filter(removes)
        new = self._scan.index_of(own_deletes)
        if not removed_from.num_rows and not new.table.num_rows:
            return
        data, deletes = self._scan.manifests(parent)
        old = self._scan.index_of(deletes)
        gone: list[pa.ChunkedArray] = []
        for found in self._scan.scanned(removed_from, old, changed_by=(snapshot.id,), removed=True):
            table = with_deletes(found, old).table
            gone.append(table.files["path"])
            yield table
        if new.table.num_rows:
            removed = pa.array([path for paths in gone for path in paths.to_pylist()], pa.string())
            yield from self._newly_deleted(data, old, new, removed)

    def _newly_deleted(
        self, data: pa.Table, old: DeleteIndex, new: DeleteIndex, removed: pa.Array
    ) -> Iterator[FileTable]:
        """The files that stay and that new deletes hit: the rows that these name, less those deleted before."""
        wanted = new.table.set_column(new.table.schema.get_field_index("kept"), "kept", pa.repeat(True, len(new.table)))
        both = pa.concat_tables([old.table, wanted])
        for found in self._scan.scanned(data, old, new):
            assert found.matching is not None
            before, hits = (index.match(found.matching, found.names) for index in (old, new))
            files = named_apart(found)
            stays = pc.invert(pc.is_in(files.files["path"].combine_chunks(), value_set=removed))
            mask = pc.and_(pc.greater(pc.list_value_length(hits), 0), stays)
            lists = _joined(before, hits, old.table.num_rows)
            yield files.with_deletes(lists, both).filter(mask)


def _joined(first: pa.ListArray, second: pa.ListArray, offset: int) -> pa.ListArray:
    """Lists of two arrays put together, row by row; numbers of the second are further down."""
    counts = [pc.list_value_length(each).to_numpy(zero_copy_only=False) for each in (first, second)]
    rows = [np.repeat(np.arange(len(each)), count) for each, count in zip((first, second), counts, strict=True)]
    values = np.concatenate([first.flatten().to_numpy(), second.flatten().to_numpy() + offset])
    order = np.argsort(np.concatenate(rows), kind="stable")
    offsets = np.concatenate([[0], np.cumsum(counts[0] + counts[1])])
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pa.array(values[order], pa.int32()))


def _marked(table: FileTable, change: str, ordinal: int, snapshot: int) -> FileTable:
    """The files with the columns of a changelog among their constants."""
    values = {m.CHANGE: change, m.CHANGE_ORDINAL: ordinal, m.COMMIT_SNAPSHOT: snapshot}
    constants = table.files["constants"].combine_chunks()
    members = {f.name: constants.field(i) for i, f in enumerate(constants.type)}
    members |= {str(f.id): pa.repeat(pa.scalar(v, f.type.arrow()), len(table)) for f, v in values.items()}
    place = table.files.schema.get_field_index("constants")
    files = table.files.set_column(place, "constants", struct_of(members, len(table)))
    ids = tuple(f.id for f in values)
    return replace(table, files=files, constant_fields={s: (*c, *ids) for s, c in table.constant_fields.items()})
