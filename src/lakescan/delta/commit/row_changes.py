"""Turn the changes of a DELETE, UPDATE or MERGE into one Delta commit, with the metrics that Delta on Spark records."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common.timestamps import to_millis
from lakescan.delta.commit.actions import (
    ADD,
    REMOVE,
    DeltaFileChanges,
    add_actions,
    change_actions,
    log_paths,
    remove_actions,
    table_of,
)
from lakescan.delta.commit.commit import Operation
from lakescan.delta.commit.file_actions import live_adds_at, whole_adds
from lakescan.delta.data_files.deletion_vector_writer import BEFORE, RECORDS, VECTOR_MEMBER, VectorKey, vector_key
from lakescan.delta.data_files.delta_writes import DeltaWrites
from lakescan.delta.data_files.stats_json import json_text
from lakescan.delta.log.actions import VECTOR
from lakescan.delta.log.reader import DeltaVersion
from lakescan.delta.log.replay import canonical_paths
from lakescan.delta.maintenance.referenced_files import vectors_of_removed
from lakescan.delta.metadata.protocol import Metadata, Protocol
from lakescan.delta.metadata.table_properties import DeltaProperties
from lakescan.delta.scan.deletion_vectors import delete_table
from lakescan.errors import CommitConflict, ConflictCause, UnsupportedFeature
from lakescan.planning.delete_files import delete_files
from lakescan.storage import Storage
from lakescan.tables.row_changes import RowChanges, RowLevelCommand, RowLevelOperationMode
from lakescan.writing.table_writes import WrittenDeletes

_CLAUSES = ("matchedPredicates", "notMatchedPredicates", "notMatchedBySourcePredicates")


def allows_vectors(protocol: Protocol, metadata: Metadata) -> bool:
    """Return whether the table allows writers to mark rows in deletion vectors.

    Readers must apply existing ones in any case.
    """
    return "deletionVectors" in protocol.features and metadata.properties.deletion_vectors


def check_vectors(protocol: Protocol, metadata: Metadata, name: str) -> None:
    """Raise `UnsupportedFeature` if the table `name` does not allow writers to mark rows in deletion vectors."""
    if allows_vectors(protocol, metadata):
        return
    flag = DeltaProperties.deletion_vectors.name
    raise UnsupportedFeature(
        f"merge-on-read in {name}, which does not allow deletion vectors",
        f"Set the table property {flag} to true, or the write option row-change-mode to copy-on-write.",
    )


def mode_of(option: str | None, protocol: Protocol, metadata: Metadata, name: str) -> RowLevelOperationMode:
    """Return the row-level operation mode: the write option's, else merge-on-read if the table allows deletion vectors.

    Raises `UnsupportedFeature` if the option is merge-on-read and the table, whose name is `name`, does not allow it.
    """
    mode = RowLevelOperationMode(
        option
        or (
            RowLevelOperationMode.MERGE_ON_READ
            if allows_vectors(protocol, metadata)
            else RowLevelOperationMode.COPY_ON_WRITE
        )
    )
    if mode == RowLevelOperationMode.MERGE_ON_READ:
        check_vectors(protocol, metadata, name)
    return mode


def file_changes(changes: RowChanges, files: ChangedFiles, writes: DeltaWrites) -> DeltaFileChanges:
    """Return the file actions of a statement's commit.

    `changes` are the statement's new files and change files, and `files` the live files that lose rows. `dataChange` is
    false if the table records change files, and the statement has neither change files nor deletes: it only moved rows.
    """
    moves_only = changes.change_files is not None and not changes.change_files and not changes.deletes
    new = add_actions(changes.files, writes, changes_data=not moves_only)
    return DeltaFileChanges(
        pa.concat_tables([files.added, new]) if files.added.num_rows else new.cast(ADD),
        remove_actions(files.removed, changes_data=not moves_only),
        change_actions(changes.change_files or (), writes),
    )


def statement_operation(changes: RowChanges, files: ChangedFiles) -> Operation:
    """Return the operation with Delta's parameters and metrics; metrics that were not measured are left out.

    A row-level statement is never a blind append: it has read the table, even if it only inserts.
    """
    name = changes.statement.upper()
    return Operation(name, _parameters(changes), {**_METRICS[changes.statement](changes, files), **_times(changes)})


def _times(changes: RowChanges) -> dict[str, int]:
    """Return the metrics with the execution times of a statement, in milliseconds."""
    if changes.times is None:
        return {}
    found = changes.times
    seconds = {"executionTimeMs": found.execution, "scanTimeMs": found.scan, "rewriteTimeMs": found.rewrite}
    return {name: round(each * 1000) for name, each in seconds.items() if each is not None}


def _parameters(changes: RowChanges) -> dict[str, str]:
    """Return the operation parameters; like Delta, the condition becomes a list of one predicate."""
    given = dict(changes.parameters)
    predicate = given.pop("predicate", None)
    clauses = dict.fromkeys(_CLAUSES, "[]") if changes.statement == RowLevelCommand.MERGE else {}
    return {"predicate": json.dumps([] if predicate is None else [predicate], ensure_ascii=False), **clauses, **given}


def _delete_metrics(changes: RowChanges, files: ChangedFiles) -> dict[str, int]:
    return {
        **_file_metrics(changes, files, "num{}Files", "num{}Bytes", "num"),
        "numAddedChangeFiles": len(changes.change_files or ()),
        "numDeletedRows": changes.counts.deleted,
        "numCopiedRows": changes.counts.copied,
    }


def _update_metrics(changes: RowChanges, files: ChangedFiles) -> dict[str, int]:
    return {
        **_file_metrics(changes, files, "num{}Files", "num{}Bytes", "num"),
        "numRemovedFiles": files.removed.num_rows,  # for UPDATE, Delta also counts files whose deletion vector changed
        "numAddedChangeFiles": len(changes.change_files or ()),
        "numUpdatedRows": changes.counts.updated,
        "numCopiedRows": changes.counts.copied,
    }


def _merge_metrics(changes: RowChanges, files: ChangedFiles) -> dict[str, int]:
    counts = changes.counts
    return {
        **({} if counts.source is None else {"numSourceRows": counts.source}),
        **_file_metrics(changes, files, "numTargetFiles{}", "numTargetBytes{}", "numTarget"),
        "numTargetChangeFilesAdded": len(changes.change_files or ()),
        "numTargetRowsInserted": counts.inserted,
        "numTargetRowsUpdated": counts.updated,
        "numTargetRowsMatchedUpdated": counts.updated - counts.updated_alone,
        "numTargetRowsNotMatchedBySourceUpdated": counts.updated_alone,
        "numTargetRowsDeleted": counts.deleted,
        "numTargetRowsMatchedDeleted": counts.deleted - counts.deleted_alone,
        "numTargetRowsNotMatchedBySourceDeleted": counts.deleted_alone,
        "numTargetRowsCopied": counts.copied,
        "numOutputRows": counts.inserted + counts.updated + counts.copied,
    }


def _file_metrics(changes: RowChanges, files: ChangedFiles, number: str, size: str, prefix: str) -> Mapping[str, int]:
    """Return the file metrics of a statement, with names that are formatted from `number`, `size` and `prefix`.

    As in Delta, an updated deletion vector also counts as added and removed, while its data file counts as neither.
    """
    is_same = pc.is_in(files.removed["written_path"], value_set=files.added["path"].combine_chunks())
    gone = files.removed.filter(pc.invert(is_same))
    return {
        number.format("Added"): len(changes.files),
        number.format("Removed"): gone.num_rows,
        size.format("Added"): sum(each.size for each in changes.files),
        size.format("Removed"): pc.sum(gone["size"]).as_py() or 0,
        f"{prefix}DeletionVectorsAdded": files.added.num_rows,
        f"{prefix}DeletionVectorsRemoved": files.vectors_before,
        f"{prefix}DeletionVectorsUpdated": files.vectors_updated,
    }


_METRICS = {
    RowLevelCommand.DELETE: _delete_metrics,
    RowLevelCommand.UPDATE: _update_metrics,
    RowLevelCommand.MERGE: _merge_metrics,
}


# A file is removed with its old deletion vector and added with the new one (protocol, "Deletion Vectors"). It keeps
# its statistics, whose bounds still hold but may no longer be tight ("Per-file Statistics").

_COUNT = r'^\s*\{\s*"numRecords"\s*:\s*\d{1,18}\s*'
# Statistics that start with the count, as most writers write them, with `tightBounds` missing or last.
_PLAIN = _COUNT + "[,}]"
_FLAG = r',\s*"tightBounds"\s*:\s*(?:true|false)\s*'
_END = rf"(?:{_FLAG})?\}}\s*$"


@dataclass(frozen=True)
class ChangedFiles:
    """Live files that lose rows.

    - `removed`: all of them, as the log has them (see `live_adds`).
    - `added`: the files that stay, with their new deletion vectors (`ADD`).
    - `vectors_before`: the number of `removed` files that have a deletion vector.
    - `vectors_updated`: the number of `added` files that had a deletion vector before.
    """

    removed: pa.Table
    added: pa.Table
    vectors_before: int
    vectors_updated: int

    @property
    def gone(self) -> int:
        """The number of files that are removed and not added again."""
        return self.removed.num_rows - self.added.num_rows


def changed_files(
    version: DeltaVersion, storage: Storage, removed: Sequence[str], deletes: Sequence[WrittenDeletes]
) -> ChangedFiles:
    """Return the live files that a statement removes or gives a new deletion vector.

    Args:
        version: The version that the deletes were made from.
        storage: The table's storage.
        removed: The locations of files to remove.
        deletes: The deletion vectors of other files (`VectorWriter`); a file that loses all rows is removed.

    Raises:
        CommitConflict: A file is not live in this version, or has another vector than the one that rows were added to.
        UnsupportedFeature: A file's action has unknown fields, which would be lost.
        ValueError: There are two vectors for a file.
    """
    live = live_adds_at(version, storage, [*removed, *(each.path for each in deletes)])
    places = canonical_paths(live["path"].combine_chunks())
    own = pc.index_in(places, value_set=_places([each.path for each in deletes]))
    if len(deletes) - len(pc.unique(_places([each.path for each in deletes]))):
        raise ValueError(f"{version.segment.location}: two deletion vectors were written for one data file")
    is_gone = pc.or_(pc.is_in(places, value_set=_places(removed)), pc.is_in(own, value_set=_empty_files(deletes)))
    stays, own = live.filter(pc.invert(is_gone)), own.filter(pc.invert(is_gone))
    vectors = [deletes[at] for at in own.to_pylist()]
    _check_same(version, stays, vectors)
    has_vector = pc.is_valid(pc.struct_field(live["vector"].combine_chunks(), "storageType"))
    return ChangedFiles(
        live,
        _replace_vectors(whole_adds(version, storage, stays), vectors),
        pc.sum(has_vector).as_py() or 0,
        sum(each.details[BEFORE] is not None for each in vectors),
    )


def _places(paths: Sequence[str]) -> pa.Array:
    return canonical_paths(pa.array(paths, pa.string()))


def _empty_files(deletes: Sequence[WrittenDeletes]) -> pa.Array:
    """Return the indices of the deletes that leave no row in their file."""
    left = [each.details[RECORDS] - each.details[VECTOR_MEMBER]["cardinality"] for each in deletes]
    return pa.array(np.flatnonzero(np.array(left, dtype=np.int64) == 0), pa.int32())


def _check_same(version: DeltaVersion, live: pa.Table, deletes: Sequence[WrittenDeletes]) -> None:
    """Raise `CommitConflict` if a new vector was not made from the file's current one: deleted rows would reappear.

    `live` are the files of `deletes`, in the same order.
    """
    vectors = live["vector"].combine_chunks()
    present = pc.is_valid(pc.struct_field(vectors, "storageType"))
    known = iter(delete_files(delete_table(vectors.filter(present), version.segment.location)))
    for is_present, each in zip(present.to_pylist(), deletes, strict=True):
        now: VectorKey | None = vector_key(next(known)) if is_present else None
        if now != each.details[BEFORE]:
            raise CommitConflict(
                f"{version.segment.location}: {each.path} has another deletion vector in version "
                f"{version.segment.version} than the one that rows were added to: read the rows again, and retry"
            ).because(ConflictCause.DELETE_DELETE)


def _replace_vectors(adds: pa.Table, deletes: Sequence[WrittenDeletes]) -> pa.Table:
    vectors = pa.array([each.details[VECTOR_MEMBER] for each in deletes], VECTOR)
    records = pa.array([each.details[RECORDS] for each in deletes], pa.int64())
    stats = mark_wide_bounds(adds["stats"].combine_chunks(), records)
    names = adds.column_names
    adds = adds.set_column(names.index("deletionVector"), ADD.field("deletionVector"), vectors)
    return adds.set_column(names.index("stats"), ADD.field("stats"), stats)


def mark_wide_bounds(stats: pa.Array, records: pa.Array) -> pa.Array:
    """Return JSON statistics with the number of rows in `records` and with `tightBounds` set to false.

    `records` counts all rows of the files, including deleted ones. A file without statistics, or with statistics that
    cannot be parsed, gets only these two fields. Numbers keep all their digits.

    >>> mark_wide_bounds(pa.array(['{"numRecords":3,"nullCount":{"a":1}}', None]), pa.array([3, 5])).to_pylist()
    ['{"numRecords":3,"nullCount":{"a":1},"tightBounds":false}', '{"numRecords": 5, "tightBounds": false}']
    """
    flags = pc.count_substring(stats, '"tightBounds"')
    at_end = pc.and_(pc.equal(flags, 1), pc.match_substring_regex(stats, _FLAG + r"\}\s*$"))
    is_plain = pc.and_(pc.match_substring_regex(stats, _PLAIN), pc.or_(pc.equal(flags, 0), at_end))
    is_plain = pc.fill_null(is_plain, False)
    is_other = pc.invert(is_plain)
    counts = records.filter(is_plain).cast(pa.string())
    plain = pc.replace_substring_regex(stats.filter(is_plain), _END, ',"tightBounds":false}')
    rest = pc.replace_substring_regex(plain, _COUNT, "")
    texts = pc.replace_with_mask(stats, is_plain, pc.binary_join_element_wise('{"numRecords":', counts, rest, ""))
    others = zip(stats.filter(is_other).to_pylist(), records.filter(is_other).to_pylist(), strict=True)
    return pc.replace_with_mask(texts, is_other, pa.array([_widen_stats(*each) for each in others], pa.string()))


def _widen_stats(text: str | None, records: int) -> str:
    node = _parse_stats(text)
    return json_text({**node, "numRecords": records, "tightBounds": False})


def _parse_stats(text: str | None) -> Mapping[str, Any]:
    try:
        node = json.loads(text or "{}", parse_float=Decimal)
    except (ValueError, RecursionError):
        return {}
    return node if isinstance(node, dict) else {}


# The VACUUM of a writer without deletion vectors deletes all files that no action names in `path`. So before a table
# loses the feature, the vector files of recently removed data files get `remove` actions of their own.


def vector_tombstones(version: DeltaVersion, storage: Storage) -> pa.Table:
    """Return `remove` actions (`REMOVE`) for the deletion vector files of data files removed within the retention time.

    Raises `CorruptMetadata` and `StorageError`.
    """
    now = datetime.now(UTC)
    cutoff = to_millis(now - version.metadata.properties.removed_file_retention)
    paths = log_paths(vectors_of_removed(version.segment.location, storage, cutoff))
    rows = len(paths)
    columns = {"path": paths, "deletionTimestamp": [to_millis(now)] * rows, "dataChange": [False] * rows}
    return table_of(columns, REMOVE, rows)
