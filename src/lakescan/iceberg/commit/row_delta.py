"""Row deltas, which are commits that add delete files: their operation, validity and conflict checks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from lakescan.errors import CommitConflict, UnsupportedFeature
from lakescan.iceberg.commit.conflicts import Validation
from lakescan.iceberg.commit.file_changes import SnapshotChanges
from lakescan.iceberg.manifests.manifest_file import POSITION_DELETES

_PUFFIN = "PUFFIN"


def row_delta_operation(changes: SnapshotChanges) -> str:
    """Return the operation of a row delta's snapshot (append, delete or overwrite), as in Java's `BaseRowDelta`."""
    adds_data, adds_deletes = _has_files(changes.added), _has_files(changes.added_deletes)
    if adds_data and not adds_deletes and not len(changes.removed):
        return "append"
    return "delete" if adds_deletes and not adds_data else "overwrite"


def _has_files(files: Mapping[int, pa.Table]) -> bool:
    return any(each.num_rows for each in files.values())


def row_delta_validation(changes: SnapshotChanges, validation: Validation) -> Validation:
    """Return the validation of a row delta, with the data files that its delete files and vectors refer to."""
    named = [each["referenced_data_file"].combine_chunks().drop_null() for each in changes.added_deletes.values()]
    referenced = pc.unique(pa.concat_arrays([validation.referenced, *named]))
    return replace(validation, referenced=referenced, vectors=added_vectors(changes))


def added_vectors(changes: SnapshotChanges) -> pa.Array:
    """Return the data files that get deletion vectors from the changes."""
    return pa.concat_arrays([pa.array([], pa.string()), *_vectors(changes)])


def _vectors(changes: SnapshotChanges) -> Iterator[pa.Array]:
    for each in changes.added_deletes.values():
        is_vector = pc.equal(each["file_format"], _PUFFIN)
        yield each.filter(is_vector)["referenced_data_file"].combine_chunks()


def check_row_delta(changes: SnapshotChanges, validation: Validation, format_version: int, table: str) -> None:
    """Check that a row delta is valid by itself, in a table of this format version.

    Raises `UnsupportedFeature` for delete files that the version does not have, and for position deletes of unknown
    data files, which concurrent commits may have removed. Raises `CommitConflict` for delete files of data files that
    the row delta removes itself, and for several vectors of one data file.
    """
    if format_version < 2 and _has_files(changes.added_deletes):
        raise UnsupportedFeature(f"delete files in {table}, of format version 1", "Upgrade the table to version 2.")
    vectors = added_vectors(changes)
    if format_version < 3 and len(vectors):
        raise UnsupportedFeature(f"deletion vectors in {table}, of format version 2", "Write position deletes.")
    for each in changes.added_deletes.values():
        by_position = pc.and_(pc.equal(each["content"], POSITION_DELETES), pc.not_equal(each["file_format"], _PUFFIN))
        if format_version > 2 and pc.any(by_position).as_py():
            raise UnsupportedFeature(
                f"new position delete files in {table}, of format version {format_version}", "Write deletion vectors."
            )
        nameless = pc.and_(by_position, pc.is_null(each["referenced_data_file"]))
        if pc.any(nameless).as_py() and not len(validation.referenced):
            raise UnsupportedFeature(
                f"position deletes in {table} without referenced data files", "Set them in Validation.referenced."
            )
    if len(pc.unique(vectors)) < len(vectors):
        raise CommitConflict(f"{table}: two of the deletion vectors to add are of the same data file: merge them")
    both = changes.removed.filter(pc.is_in(changes.removed, value_set=validation.referenced))
    if len(both):
        raise CommitConflict(f"{table}: {both[0].as_py()} would be removed, but delete files to add refer to it")
