"""How the changes of a DELETE, UPDATE or MERGE become one commit of a Delta table, as Delta on Spark describes it."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from lakescan.delta.commit.commit import Operation
from lakescan.delta.commit.file_changes import ADD, DeltaFileChanges, add_actions, change_actions, remove_actions
from lakescan.delta.commit.vector_changes import ChangedFiles
from lakescan.delta.data_files.data_files import DeltaWrites
from lakescan.delta.metadata.protocol import Metadata, Protocol
from lakescan.delta.metadata.table_properties import DeltaProperties
from lakescan.errors import UnsupportedFeature
from lakescan.tables.row_changes import RowChanges, RowLevelCommand, RowLevelOperationMode

_CLAUSES = ("matchedPredicates", "notMatchedPredicates", "notMatchedBySourcePredicates")


def allows_vectors(protocol: Protocol, metadata: Metadata) -> bool:
    """Return whether writers may mark rows of a table in deletion vectors; readers must apply them in any case."""
    return "deletionVectors" in protocol.features and metadata.properties.deletion_vectors


def check_vectors(protocol: Protocol, metadata: Metadata, name: str) -> None:
    """Raise `UnsupportedFeature` for a table in which writers may not mark rows in deletion vectors."""
    if allows_vectors(protocol, metadata):
        return
    flag = DeltaProperties.deletion_vectors.name
    raise UnsupportedFeature(
        f"merge-on-read in {name}, which does not allow deletion vectors",
        f"Set the table property {flag} to true, or the write option row-change-mode to copy-on-write.",
    )


def mode_of(option: str | None, protocol: Protocol, metadata: Metadata, name: str) -> RowLevelOperationMode:
    """Return how changes are recorded: by the write option, else in vectors where the table allows them.

    Raises `UnsupportedFeature` if the option asks for vectors, and the table does not allow them.
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
    """Return the file actions of the commit; with change files that are none, nothing changes but where rows are."""
    moves_only = changes.change_files is not None and not changes.change_files and not changes.deletes
    new = add_actions(changes.files, writes, changes_data=not moves_only)
    return DeltaFileChanges(
        pa.concat_tables([files.added, new]) if files.added.num_rows else new.cast(ADD),
        remove_actions(files.removed, changes_data=not moves_only),
        change_actions(changes.change_files or (), writes),
    )


def statement_operation(changes: RowChanges, files: ChangedFiles) -> Operation:
    """Return the operation with Delta's parameters and metrics; what was not counted or measured is left out.

    No such statement is a blind append: it has read the table, even if it only inserts.
    """
    name = changes.statement.upper()
    return Operation(name, _parameters(changes), {**_METRICS[changes.statement](changes, files), **_times(changes)})


def _times(changes: RowChanges) -> dict[str, int]:
    """The times of a statement, in milliseconds."""
    if changes.times is None:
        return {}
    found = changes.times
    seconds = {"executionTimeMs": found.execution, "scanTimeMs": found.scan, "rewriteTimeMs": found.rewrite}
    return {name: round(each * 1000) for name, each in seconds.items() if each is not None}


def _parameters(changes: RowChanges) -> dict[str, str]:
    """The parameters: the condition becomes a list of one, as Delta writes it."""
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
        "numRemovedFiles": files.removed.num_rows,  # of UPDATE, Delta counts files with another vector, too
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
    """The metrics of files. As in Delta, an updated vector counts as added and removed, too; its file as neither.

    `number`, `size` and `prefix` make Delta's names of them.
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
