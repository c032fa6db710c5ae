"""Check rows that were written before a concurrent commit made a column required, because they may have nulls."""

from __future__ import annotations

from collections.abc import Iterator

from lakescan.common import types as t
from lakescan.common.references import dotted_path
from lakescan.common.schema import Schema
from lakescan.errors import CommitConflict, UnsupportedFeature
from lakescan.formats.increments import CommitPart, Increment
from lakescan.formats.table_format import SnapshotSelector
from lakescan.iceberg.table import IcebergTable
from lakescan.local.aggregates import count_rows
from lakescan.storage import Storage
from lakescan.tables.scan_spec import ScanSpec


def newly_required(written: Schema, now: Schema) -> Iterator[int]:
    """Yield the ids of fields that are required now, but were optional or missing when rows were written.

    A new field with a default is left out, because it has no nulls in older rows.
    """
    if written.fields != now.fields:
        yield from _newly_required(now.fields, written)


def _newly_required(fields: tuple[t.Field, ...], written: Schema) -> Iterator[int]:
    for each in fields:
        before = written.by_id.get(each.id)
        lacks = each.default is None if before is None else not before.required
        if each.required and lacks:
            yield each.id
        if before is not None:
            yield from _newly_required(t.children(each.type), written)


def check_required(written: Schema, now: Schema, where: str) -> None:
    """Raise `CommitConflict` if a column is required now that was optional or missing when rows were written.

    `where` is the table's name.
    """
    for field_id in newly_required(written, now):
        raise CommitConflict(
            f"{where}: another writer made {now.path_of[field_id]} NOT NULL after rows had been written, which may "
            "have nulls in it. Write them again."
        )


def check_no_nulls(opened: IcebergTable, snapshot_id: int, storage: Storage, *, added: bool = False) -> None:
    """Raise `UnsupportedFeature` if rows of a snapshot have, or may have, nulls in columns that are NOT NULL now.

    Columns that were NOT NULL when the snapshot was made are not read. With `added`, only the rows that the snapshot
    added are checked.
    """
    metadata = opened.metadata
    scan = ScanSpec(opened, storage, metadata.location, selector=SnapshotSelector(version=snapshot_id))
    written = scan.snapshot.schema
    required = list(newly_required(written, metadata.schema))
    if not required:
        return
    if added:
        scan = scan.select_increment(opened, opened.increment(scan.snapshot, Increment((CommitPart(snapshot_id),))))
    for field_id in required:
        scanned = scan if (condition := _null_condition(field_id, written)) is None else scan.where(condition)
        if nulls := count_rows(scanned):
            column = metadata.schema.path_of[field_id]
            raise UnsupportedFeature(
                f"making snapshot {snapshot_id} of {metadata.location} current, from before {column} was NOT NULL",
                f"Of its rows, {nulls:,} {'may have' if condition is None else 'have'} a null there. Allow nulls "
                f"first: ALTER COLUMN {column} DROP NOT NULL.",
            )


def _null_condition(field_id: int, written: Schema) -> str | None:
    """Return a SQL condition for rows with a null in a field; None if any row may have a null in it.

    That is the case for a field that the schema `written` lacks, and for a field in a list or map.
    """
    if field_id not in written.by_id:
        return None
    way = written.struct_path(field_id)
    if way[-1].id != field_id:
        return None
    names = [dotted_path([each.name for each in way[: depth + 1]]) for depth in range(len(way))]
    return " AND ".join([*(f"{each} IS NOT NULL" for each in names[:-1]), f"{names[-1]} IS NULL"])
