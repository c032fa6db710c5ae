"""Write manifest lists (specification, "Manifest Lists"), and assign sequence numbers and row ids to new manifests."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common import types as t
from lakescan.errors import UnsupportedFeature
from lakescan.iceberg.manifests.avro_encode import avro_file
from lakescan.iceberg.manifests.manifest_file import DATA

_SUMMARY = t.Struct(
    (
        t.Field(509, "contains_null", t.BOOLEAN, required=True),
        t.Field(518, "contains_nan", t.BOOLEAN),
        t.Field(510, "lower_bound", t.BINARY),
        t.Field(511, "upper_bound", t.BINARY),
    )
)
_PARTITIONS = t.Field(507, "partitions", t.ListOf(t.Field(508, "element", _SUMMARY, required=True)))
_KEY_METADATA = t.Field(519, "key_metadata", t.BINARY)


def manifest_list_file(
    manifests: pa.Table,
    format_version: int,
    snapshot_id: int,
    parent_id: int | None,
    sequence_number: int,
    first_row_id: int | None,
) -> bytes:
    """Return the manifest list of a snapshot; `manifests` are complete (see `numbered`)."""
    header = {
        "snapshot-id": str(snapshot_id),
        "parent-snapshot-id": "null" if parent_id is None else str(parent_id),
        "format-version": str(format_version),
    }
    if format_version > 1:
        header["sequence-number"] = str(sequence_number)
    if format_version > 2:
        header["first-row-id"] = str(first_row_id)
    fields = _fields(format_version)
    return avro_file(manifests.select([field.name for field in fields.fields]), fields, "manifest_file", header)


def assign_sequence_numbers(
    manifests: pa.Table, sequence_number: int, next_row_id: int | None
) -> tuple[pa.Table, int | None]:
    """Assign the commit's sequence number to new manifests, and row ids to data manifests that have none.

    New manifests have a null `sequence_number`. A null `min_sequence_number` becomes the commit's: all their live
    entries inherit it. Returns the manifests and the table's next row id after them (None without row lineage).
    Specification, "First Row ID Assignment".
    """
    columns = {name: manifests[name] for name in manifests.column_names}
    for name in ("sequence_number", "min_sequence_number"):
        columns[name] = pc.fill_null(columns[name], sequence_number)
    if next_row_id is not None:
        columns["first_row_id"], next_row_id = _row_ids(manifests, next_row_id)
    return pa.table(columns, schema=manifests.schema), next_row_id


def _row_ids(manifests: pa.Table, next_row_id: int) -> tuple[pa.Array, int]:
    needs = pc.and_(pc.equal(manifests["content"], DATA), pc.is_null(manifests["first_row_id"]))
    rows = pc.add(manifests["added_rows_count"], manifests["existing_rows_count"])
    missing = pc.index(pc.and_(needs, pc.is_null(rows)), True).as_py()
    if missing >= 0:
        path = manifests["manifest_path"][missing].as_py()
        raise UnsupportedFeature("row ids for manifests without row counts", f"{path} has no row counts.")
    counts = pc.if_else(needs, rows, 0).combine_chunks().to_numpy(zero_copy_only=False).astype(np.int64)
    starts = pa.array(next_row_id + np.cumsum(counts) - counts)
    return pc.if_else(needs, starts, manifests["first_row_id"]), next_row_id + int(counts.sum())


def _fields(format_version: int) -> t.Struct:
    """The fields of a manifest list; those that a version requires are required."""
    since_2 = format_version > 1
    counts = [
        t.Field(504, "added_files_count", t.INT, required=since_2),
        t.Field(505, "existing_files_count", t.INT, required=since_2),
        t.Field(506, "deleted_files_count", t.INT, required=since_2),
        t.Field(512, "added_rows_count", t.LONG, required=since_2),
        t.Field(513, "existing_rows_count", t.LONG, required=since_2),
        t.Field(514, "deleted_rows_count", t.LONG, required=since_2),
    ]
    numbers = [
        t.Field(517, "content", t.INT, required=True),
        t.Field(515, "sequence_number", t.LONG, required=True),
        t.Field(516, "min_sequence_number", t.LONG, required=True),
    ]
    return t.Struct(
        (
            t.Field(500, "manifest_path", t.STRING, required=True),
            t.Field(501, "manifest_length", t.LONG, required=True),
            t.Field(502, "partition_spec_id", t.INT, required=True),
            *(numbers if since_2 else ()),
            t.Field(503, "added_snapshot_id", t.LONG, required=True),
            *counts,
            _PARTITIONS,
            _KEY_METADATA,
            *((t.Field(520, "first_row_id", t.LONG),) if format_version > 2 else ()),
        )
    )
