"""Process the rows of a statement's query: record the target rows to delete, and write new and updated rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from lakescan.common.executors import PlanningExecutor
from lakescan.common.metadata_columns import CHANGE_TYPE
from lakescan.errors import CorruptMetadata
from lakescan.planning.delete_files import DeleteKind, DeleteReferences
from lakescan.planning.file_table import DELETES, FileTable
from lakescan.reading.data_file import open_data_file
from lakescan.reading.deletes.deletion_vectors import encode_bitmaps
from lakescan.reading.parquet.file import ParquetData
from lakescan.statements.rows.change_query import ACTION_AT, FILE_AT, POSITION_AT, ChangeQuery, RowAction
from lakescan.statements.rows.matched_rows import RowPositions
from lakescan.statements.syntax.dml import MergeAction, When
from lakescan.storage import Storage
from lakescan.tables.base import Target
from lakescan.tables.capabilities import RowLevelChanges, require
from lakescan.tables.copy_on_write import as_removed_files, rewrite_rows
from lakescan.tables.row_changes import DeleteWriter, RemovedFile, RowCounts, RowLevelOperationMode
from lakescan.tables.scan_spec import ScanSpec
from lakescan.writing.column_rules import MARKS, RowCompleter
from lakescan.writing.parquet_writer import PartitionedWriter
from lakescan.writing.table_writes import TableWrites, WrittenDeletes, WrittenFile

_KINDS = {
    MergeAction.UPDATE: ("update_preimage", "update_postimage"),
    MergeAction.DELETE: ("delete", ""),
    MergeAction.INSERT: ("", "insert"),
}


@dataclass(frozen=True)
class ChangeWrites:
    """The settings for writing the rows of a statement. Pickled for workers.

    - `query`: the meaning of the query's columns.
    - `rows`: the writes of new rows.
    - `moved`: the writes to use instead if the query updates rows, which come from other files. Hidden columns follow
      the table's columns, beginning with the row id.
    - `changes`: the writes of change data files; None for a table without them.
    - `write_id`: the unique id of this write, for file names.
    """

    query: ChangeQuery
    rows: TableWrites
    moved: TableWrites
    changes: TableWrites | None
    write_id: str

    @property
    def updates(self) -> bool:
        """Whether an action of the query updates rows."""
        return any(each.action == MergeAction.UPDATE for each in self.query.actions.values())


@dataclass
class SinkResult:
    """The matched rows and the written files of one sink.

    - `files`: data files with new and updated rows.
    - `change_files`: change data files.
    - `counts`: the numbers of inserted, updated and deleted rows.
    """

    rows: RowPositions
    files: list[WrittenFile]
    change_files: list[WrittenFile] = field(default_factory=list)
    counts: RowCounts = field(default_factory=RowCounts)


class ChangeSink:
    """Processes batches of the query's rows: records target rows to delete, and writes new rows.

    End it with `close` or `undo`. `task` distinguishes the parallel sinks of one statement.
    """

    def __init__(self, writes: ChangeWrites, task: int | None = None) -> None:
        self._writes, self._query = writes, writes.query
        self._found = RowPositions(is_unique=writes.query.checks_matches)
        self._counts = Counter[tuple[MergeAction, bool]]()  # by action, and whether the row has no source row
        table = writes.rows
        rules = table.rules
        self._target = writes.moved if writes.updates else table
        self._hidden = self._target.schema.fields[len(table.schema.fields) :]
        self._inserts = RowCompleter(rules, table.schema, {}, task)
        # Updated rows keep their identity values.
        self._updates = RowCompleter(replace(rules, identities={}), table.schema, {}, task)
        self._writer: PartitionedWriter | None = None
        self._changes: PartitionedWriter | None = None

    def take(self, batch: pa.RecordBatch) -> None:
        """Process one batch.

        Raises `DuplicateMatch` for a row that matches twice, and `SchemaMismatch` for rows that the table cannot store.
        """
        numbers = np.asarray(batch.column(ACTION_AT).cast(pa.int32()).fill_null(0))
        is_changed = np.isin(
            numbers, [n for n, each in self._query.actions.items() if each.action != MergeAction.INSERT]
        )
        self._found.add(batch.column(FILE_AT), batch.column(POSITION_AT), is_changed)
        for number, action in self._query.actions.items():
            mask = numbers == number
            count = int(mask.sum())
            if count:
                self._counts[action.action, action.when == When.NOT_MATCHED_BY_SOURCE] += count
                self._change(action, batch if count == batch.num_rows else batch.filter(pa.array(mask)))

    def _change(self, action: RowAction, rows: pa.RecordBatch) -> None:
        before, after = _KINDS[action.action]
        if before and self._writes.changes is not None:
            self._record(_columns(rows, self._query.old), before)
        if not after:
            return
        made = self._updates if action.action == MergeAction.UPDATE else self._inserts
        start = 0
        for done in made.complete([_columns(rows, action.values)]):
            hidden = self._hidden_values(rows.slice(start, done.num_rows))
            start += done.num_rows
            self._row_writer().write(_append_hidden(done, self._target.schema.names, hidden))
            if self._writes.changes is not None:
                self._record(done, after)

    def _hidden_values(self, rows: pa.RecordBatch) -> list[pa.Array]:
        """Return the hidden columns of rows: row ids of updated rows, and nulls for values that the commit assigns."""
        values: list[pa.Array] = [pa.nulls(rows.num_rows, each.type.arrow()) for each in self._hidden]
        if values and self._query.row_id is not None:
            values[0] = rows.column(self._query.row_id).cast(pa.int64())
        return values

    def _record(self, rows: pa.RecordBatch, kind: str) -> None:
        assert self._writes.changes is not None
        if self._changes is None:
            self._changes = PartitionedWriter(self._writes.changes, self._writes.write_id)
        self._changes.write(rows.append_column(CHANGE_TYPE.name, pa.repeat(kind, rows.num_rows)))

    def _row_writer(self) -> PartitionedWriter:
        if self._writer is None:
            self._writer = PartitionedWriter(self._target, self._writes.write_id)
        return self._writer

    def close(self) -> SinkResult:
        """Close all files and return the result."""
        files = [] if self._writer is None else self._writer.close()
        if marks := self._inserts.marks:
            files = [replace(each, details={**each.details, MARKS: marks}) for each in files]
        changes = [] if self._changes is None else self._changes.close()
        return SinkResult(self._found, files, changes, self._row_counts())

    def _row_counts(self) -> RowCounts:
        matched, alone = ({each: self._counts[each, is_alone] for each in MergeAction} for is_alone in (False, True))
        return RowCounts(
            matched[MergeAction.INSERT],
            matched[MergeAction.UPDATE] + alone[MergeAction.UPDATE],
            matched[MergeAction.DELETE] + alone[MergeAction.DELETE],
            updated_alone=alone[MergeAction.UPDATE],
            deleted_alone=alone[MergeAction.DELETE],
        )

    def undo(self) -> None:
        """Delete all written files, instead of `close`."""
        for each in (self._writer, self._changes):
            if each is not None:
                each.undo()


def _columns(rows: pa.RecordBatch, places: Mapping[str, int]) -> pa.RecordBatch:
    """Return columns of the query's rows under their names in the table. `places` are their indices, by name."""
    if not places:  # the writer fills all columns, so that only the number of rows matters
        return rows.select([])
    return pa.RecordBatch.from_arrays([rows.column(place) for place in places.values()], names=list(places))


def _append_hidden(rows: pa.RecordBatch, names: Sequence[str], hidden: Sequence[pa.Array]) -> pa.RecordBatch:
    """Append the hidden columns to the rows. `names` are the names of all columns."""
    return pa.RecordBatch.from_arrays([*rows.columns, *hidden], names=list(names)) if hidden else rows


def total_counts(counts: Sequence[RowCounts]) -> RowCounts:
    """Return the sums of the row counts of several sinks."""
    return RowCounts(
        sum(each.inserted for each in counts),
        sum(each.updated for each in counts),
        sum(each.deleted for each in counts),
        sum(each.copied for each in counts),
        updated_alone=sum(each.updated_alone for each in counts),
        deleted_alone=sum(each.deleted_alone for each in counts),
    )


_LEAST = 32 * 2**20  # bytes: rewritten files may be smaller than the target size, down to this, to keep threads busy


@dataclass
class ChangeOutcome:
    """The changes to the data files that had changed rows.

    - `removed`: the files to remove.
    - `deletes`: the written delete files or deletion vectors for files that stay.
    - `files`: new files with the remaining rows of removed files.
    - `changed`: the number of rows that were deleted or updated.
    """

    removed: list[RemovedFile] = field(default_factory=list)
    deletes: list[WrittenDeletes] = field(default_factory=list)
    files: list[WrittenFile] = field(default_factory=list)
    changed: int = 0


def find_changed_files(plan: FileTable, changed: Mapping[str, BitMap64]) -> tuple[FileTable, list[BitMap64]]:
    """Return the planned files that have changed rows, and the positions of these rows in the same order.

    `changed` has the row positions by file location. Raises `CorruptMetadata` for a file that is not in the plan.
    """
    paths = plan.files["path"].combine_chunks()
    wanted = pa.array(list(changed), pa.string())
    places = pc.index_in(wanted, value_set=paths)
    if places.null_count:
        lost = wanted.filter(places.is_null())[0]
        raise CorruptMetadata(f"rows were read from {lost}, which is not in the scan's plan. Run the statement again")
    return plan.take(places).drop_unused_deletes(), list(changed.values())


@dataclass(frozen=True)
class ChangeRecorder:
    """Removes changed rows from their data files, by writing deletes or by rewriting files. Pickled for workers.

    - `scan`: a scan of the base snapshot, with all columns that `moved` writes.
    - `moved`: the writes of the remaining rows of rewritten files.
    - `writer`: the writer of deletes in merge-on-read; None in copy-on-write.
    """

    scan: ScanSpec
    moved: TableWrites
    writer: DeleteWriter | None

    @staticmethod
    def build(target: Target, mode: RowLevelOperationMode, write_id: str) -> ChangeRecorder:
        """Build the recorder of a write to `target` in copy-on-write or merge-on-read."""
        if mode is RowLevelOperationMode.MERGE_ON_READ:
            return ChangeRecorder(target.scan, target.writes, require(target, RowLevelChanges).delete_writer(write_id))
        moved = target.writes.lineage_writes
        return ChangeRecorder(target.scan.select_columns(moved.schema), moved, None)

    def finish(
        self, files: FileTable, positions: Sequence[BitMap64], executor: PlanningExecutor | None = None
    ) -> ChangeOutcome:
        """Write deletes, or files without the changed rows.

        `files` are the files of the base snapshot with changed rows, and `positions` the changed rows of each. Files
        without remaining rows are only listed as removed.
        """
        if not len(files):
            return ChangeOutcome()
        whole = has_no_rows_left(files, positions, self.scan.storage)
        done = ChangeOutcome(removed=as_removed_files(files.filter(pa.array(whole))), changed=sum(map(len, positions)))
        rest = files.filter(pa.array(~whole))
        others = [each for each, is_whole in zip(positions, whole, strict=True) if not is_whole]
        if not len(rest):
            return done
        if self.writer is not None:
            done.deletes += self.writer.write(rest.drop_unused_deletes(), others)
            return done
        plan = self.scan.plan_table(add_inline_vectors(rest, others))
        done.files += rewrite_rows(self.moved, plan, self.scan.read_context(plan), executor, least_size=_LEAST)
        done.removed += as_removed_files(rest)
        return done


def add_inline_vectors(files: FileTable, positions: Sequence[BitMap64]) -> FileTable:
    """Return the files with more deletes, as deletion vectors in memory.

    `positions` are the deleted rows of each file.
    """
    count = files.deletes.num_rows
    vectors = pa.table(
        {
            "kind": [DeleteKind.VECTOR.value] * len(positions),
            "inline": [encode_bitmaps(each) for each in positions],
            "record_count": [len(each) for each in positions],
            "kept": [False] * len(positions),
        }
    )
    columns = {
        each.name: vectors[each.name].cast(each.type)
        if each.name in vectors.column_names
        else pa.nulls(len(vectors), each.type)
        for each in DELETES
    }
    deletes = pa.concat_tables([files.deletes, pa.table(columns, schema=DELETES)])
    every = np.arange(len(files))
    return files.with_deletes(files.references.merge(DeleteReferences(len(files), every, count + every)), deletes)


def has_no_rows_left(files: FileTable, positions: Sequence[BitMap64], storage: Storage) -> np.ndarray:
    """Return a mask of the files whose changed rows are all of their remaining rows.

    `positions` are the changed rows of each. Recorded counts select the candidates. The row count of the file itself
    must agree, because a wrong record would lose rows. False for files with equality deletes or position delete files,
    whose remaining rows are not known.
    """
    rows = files.files["record_count"].to_pylist()
    counts, kinds = files.deletes["record_count"].to_pylist(), files.deletes["kind"].to_pylist()
    whole = np.zeros(len(files), dtype=bool)
    by_key = files.references.has_equality
    for n, (own, changed) in enumerate(zip(files.files["deletes"].to_pylist(), positions, strict=True)):
        deletes = own or ()
        if (
            rows[n] is None
            or by_key[n]
            or len(deletes) > 1
            or any(kinds[i] != DeleteKind.VECTOR or counts[i] is None for i in deletes)
        ):
            continue
        whole[n] = len(changed) + sum(counts[i] for i in deletes) == rows[n]
    for n in np.flatnonzero(whole).tolist():
        format_name, path, key = (files.files[name][n].as_py() for name in ("file_format", "path", "key_metadata"))
        whole[n] = _footer_row_count(format_name, storage.current_location(path), key, storage) == rows[n]
    return whole


def _footer_row_count(format_name: str, path: str, key_metadata: bytes | None, storage: Storage) -> int | None:
    """Return the number of rows that a file's footer records; None for formats other than Parquet."""
    if format_name != "parquet":
        return None
    with open_data_file(storage, path, format_name, key_metadata) as data:
        return int(data.file.metadata.num_rows) if isinstance(data, ParquetData) else None
