"""From the rows that a statement found to its commit: deletes by position, or the files written again without them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from lakescan.common.executors import PlanningExecutor
from lakescan.errors import CorruptMetadata
from lakescan.planning.delete_file import DeleteKind
from lakescan.planning.delete_references import DeleteReferences
from lakescan.planning.file_table import DELETES, FileTable
from lakescan.reading.data_file import open_data_file
from lakescan.reading.parquet.file import ParquetData
from lakescan.storage import Storage
from lakescan.tables.base import Target
from lakescan.tables.overwritten_files import as_removed_files
from lakescan.tables.removed import RemovedFile
from lakescan.tables.rewrite import rewrite_rows
from lakescan.tables.row_changes import DeleteWriter, RowLevelOperationMode
from lakescan.tables.scan_spec import ScanSpec
from lakescan.writing.roaring import encode_bitmaps
from lakescan.writing.row_deletes import WrittenDeletes
from lakescan.writing.table_writes import TableWrites, WrittenFile

_LEAST = 32 * 2**20  # bytes of a file with rows that stay, if threads share the work


@dataclass
class ChangeOutcome:
    """What becomes of the files that had changed rows.

    - `removed`: the files that go; `deletes`: the deletes of those that stay.
    - `files`: the rows of the files that go which are still there, written again.
    - `changed`: how many rows were deleted or updated.
    """

    removed: list[RemovedFile] = field(default_factory=list)
    deletes: list[WrittenDeletes] = field(default_factory=list)
    files: list[WrittenFile] = field(default_factory=list)
    changed: int = 0


def find_changed_files(plan: FileTable, changed: Mapping[str, BitMap64]) -> tuple[FileTable, list[BitMap64]]:
    """The planned files that have changed rows, and these, in the same order."""
    paths = plan.files["path"].combine_chunks()
    wanted = pa.array(list(changed), pa.string())
    places = pc.index_in(wanted, value_set=paths)
    if places.null_count:
        lost = wanted.filter(places.is_null())[0]
        raise CorruptMetadata(f"rows were read of {lost}, which is not among the planned files: plan again")
    return plan.take(places).drop_unused_deletes(), list(changed.values())


@dataclass(frozen=True)
class ChangeRecorder:
    """How files with changed rows are finished. Pickled for workers.

    - `scan`: a scan of the base, with all columns that `moved` writes.
    - `writer`: in merge-on-read, the writer of deletes; None in copy-on-write.
    """

    scan: ScanSpec
    moved: TableWrites
    writer: DeleteWriter | None

    @staticmethod
    def build(target: Target, mode: RowLevelOperationMode, write_id: str) -> ChangeRecorder:
        """How the changes of a write are finished."""
        if mode is RowLevelOperationMode.MERGE_ON_READ:
            return ChangeRecorder(target.scan, target.writes, target.delete_writer(write_id))
        moved = target.writes.lineage_writes
        return ChangeRecorder(target.scan.select_columns(moved.schema), moved, None)

    def finish(
        self, files: FileTable, positions: Sequence[BitMap64], executor: PlanningExecutor | None = None
    ) -> ChangeOutcome:
        """Write what records the changes. `files` are those with changed rows, of the base."""
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
    """The files with more deletes: vectors that are in no file."""
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
    """Whether the changed rows of each file are all that it still has.

    Recorded counts say which files may be such; the files themselves must say it, too: a wrong count would lose rows.
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
    """The number of rows by the file itself; None if it does not say so cheaply."""
    if format_name != "parquet":
        return None
    with open_data_file(storage, path, format_name, key_metadata) as data:
        return int(data.file.metadata.num_rows) if isinstance(data, ParquetData) else None
