"""The `manifests` and `all_manifests` tables: manifests with the counts and partition bounds from manifest lists."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import time
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common import types as t
from lakescan.common.arrays import as_array
from lakescan.common.java_numbers import double_text, float_text
from lakescan.common.schema import Schema
from lakescan.iceberg.manifests.bounds import decode_values
from lakescan.iceberg.manifests.manifest_file import DATA
from lakescan.iceberg.manifests.manifest_list import snapshot_manifests
from lakescan.iceberg.metadata.partition_spec import PartitionField
from lakescan.iceberg.metadata.table_metadata import IcebergSnapshot, TableMetadata
from lakescan.storage import Storage

_SUMMARY = t.Struct(
    (
        t.Field(10, "contains_null", t.BOOLEAN),
        t.Field(11, "contains_nan", t.BOOLEAN),
        t.Field(12, "lower_bound", t.STRING),
        t.Field(13, "upper_bound", t.STRING),
    )
)
MANIFESTS = Schema(
    (
        t.Field(14, "content", t.INT, required=True),
        t.Field(1, "path", t.STRING, required=True),
        t.Field(2, "length", t.LONG),
        t.Field(3, "partition_spec_id", t.INT),
        t.Field(4, "added_snapshot_id", t.LONG),
        t.Field(5, "added_data_files_count", t.INT),
        t.Field(6, "existing_data_files_count", t.INT),
        t.Field(7, "deleted_data_files_count", t.INT),
        t.Field(15, "added_delete_files_count", t.INT),
        t.Field(16, "existing_delete_files_count", t.INT),
        t.Field(17, "deleted_delete_files_count", t.INT),
        t.Field(8, "partition_summaries", t.ListOf(t.Field(9, "element", _SUMMARY, required=True))),
    )
)
ALL_MANIFESTS = Schema(
    (
        *MANIFESTS.fields,
        t.Field(18, "reference_snapshot_id", t.LONG, required=True),
        t.Field(19, "key_metadata", t.BINARY),
    )
)


@dataclass(frozen=True)
class ManifestsTable:
    """The manifests of one snapshot."""

    metadata: TableMetadata
    storage: Storage
    snapshot: IcebergSnapshot | None
    schema = MANIFESTS

    def parts(self) -> Sequence[Any]:
        """Return the snapshot as the only part; nothing for an empty table."""
        return () if self.snapshot is None else (self.snapshot,)

    def read(self, part: IcebergSnapshot) -> Iterator[pa.RecordBatch]:
        """Yield the manifests of the snapshot, one row each."""
        yield pa.RecordBatch.from_arrays(
            _columns(part, self.metadata, self.storage)[: len(MANIFESTS.fields)], schema=MANIFESTS.arrow()
        )


@dataclass(frozen=True)
class AllManifestsTable:
    """The manifests of every snapshot: one row per manifest and snapshot that lists it."""

    metadata: TableMetadata
    storage: Storage
    schema = ALL_MANIFESTS

    def parts(self) -> Sequence[Any]:
        """Return all snapshots in the metadata."""
        return tuple(self.metadata.snapshots.values())

    def read(self, part: IcebergSnapshot) -> Iterator[pa.RecordBatch]:
        """Yield the manifests of one snapshot, one row each."""
        yield pa.RecordBatch.from_arrays(_columns(part, self.metadata, self.storage), schema=ALL_MANIFESTS.arrow())


def _columns(snapshot: IcebergSnapshot, metadata: TableMetadata, storage: Storage) -> list[pa.Array]:
    listed = snapshot_manifests(snapshot, metadata, storage).combine_chunks()
    is_data = pc.equal(listed["content"], DATA)
    counts = [listed[f"{kind}_files_count"] for kind in ("added", "existing", "deleted")]
    zero = pa.scalar(0, pa.int32())
    columns = [
        *(listed[n] for n in ("content", "manifest_path", "manifest_length", "partition_spec_id", "added_snapshot_id")),
        *(pc.if_else(is_data, count, zero) for count in counts),
        *(pc.if_else(is_data, zero, count) for count in counts),
        _summaries(listed, metadata),
        pa.repeat(pa.scalar(snapshot.id), listed.num_rows),
        # In an encrypted table, it contains the keys of the manifests.
        pa.nulls(len(listed), pa.binary()) if metadata.table_properties.is_encrypted else listed["key_metadata"],
    ]
    return [as_array(column) for column in columns]


def _summaries(listed: pa.Table, metadata: TableMetadata) -> pa.Array:
    """Return the partition summaries of manifests, with bounds as text; null unless there is one for each field."""
    rows = []
    pairs = zip(listed["partition_spec_id"].to_pylist(), listed["partitions"].to_pylist(), strict=True)
    for spec_id, summaries in pairs:
        fields = metadata.specs[spec_id].fields
        known = summaries if summaries is not None and len(summaries) == len(fields) else None
        rows.append(None if known is None else [_bounds_as_text(s, f) for s, f in zip(known, fields, strict=True)])
    return pa.array(rows, MANIFESTS.arrow().field("partition_summaries").type)


def _bounds_as_text(summary: dict[str, Any], field: PartitionField) -> dict[str, Any]:
    return summary | {side: bound_text(summary[side], field) for side in ("lower_bound", "upper_bound")}


def bound_text(serialized: bytes | None, field: PartitionField) -> str | None:
    """Return a serialized bound of partition values as text; None if it is missing or cannot be decoded."""
    decoded = None if serialized is None else decode_values(pa.array([serialized], pa.binary()), field.type)
    if serialized is None or decoded is None or not decoded[0].is_valid:
        return None
    value = decoded[0]
    match field.type:
        case t.Timestamp():
            return _timestamp_text(value.cast(pa.int64()).as_py(), field.type)
        case t.DATE:
            return _date_text(value.cast(pa.int32()).as_py())
    return _text(value.as_py(), field)


def _text(value: Any, field: PartitionField) -> str:
    """Return a partition value as text: a year as 2026, an hour as 2026-01-31-07, bytes as base64, 1e10 as 1.0E10."""
    match field.transform.name:
        case "year":
            return f"{1970 + value:04d}"
        case "month":
            return f"{1970 + value // 12:04d}-{value % 12 + 1:02d}"
        case "hour":
            return f"{_date_text(value // 24)}-{value % 24:02d}"
    match value:
        case float():
            return float_text(value) if field.type == t.FLOAT else double_text(value)
        case bool():
            return str(value).lower()
        case bytes():
            return base64.b64encode(value).decode()
        case time():
            return _time_text(value)
    return str(value)


def _date_text(days: int, *, signed: bool = False) -> str:
    """Return a Gregorian date of any year; with `signed`, years outside of 0 to 9999 have a sign (ISO 8601)."""
    day = np.datetime64(days, "D")
    month = day.astype("datetime64[M]")
    year, of_year = divmod(int(month.astype(np.int64)), 12)
    year += 1970
    text = f"{year:04d}"
    if signed and not 0 <= year <= 9999:
        text = f"+{year}" if year > 0 else f"-{-year:04d}"
    return f"{text}-{of_year + 1:02d}-{int((day - month.astype('datetime64[D]')).astype(np.int64)) + 1:02d}"


def _timestamp_text(value: int, kind: t.Timestamp) -> str:
    """Return a timestamp in ISO 8601 as Java writes it: with seconds, without trailing zeros of the fraction."""
    days, of_day = divmod(value, kind.per_day)
    per_second = kind.per_day // 86_400
    seconds, fraction = divmod(of_day, per_second)
    digits = str(per_second + fraction)[1:].rstrip("0")
    return (
        f"{_date_text(days, signed=True)}T{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
        + (f".{digits}" if digits else "")
        + ("+00:00" if kind.zoned else "")
    )


def _time_text(value: time) -> str:
    """Return a time as Java's `LocalTime` does: seconds only if not zero, fractions in three or six digits."""
    if value.microsecond:
        return value.isoformat("microseconds" if value.microsecond % 1000 else "milliseconds")
    return value.isoformat("seconds" if value.second else "minutes")
