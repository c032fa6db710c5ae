"""Upserts that do not read the table (Iceberg): new rows, and equality deletes of those that had their keys."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from lakescan.definition.from_arrow import columns_of
from lakescan.errors import SchemaMismatch
from lakescan.statements.rows.assignment import check_members
from lakescan.tables.base import Target
from lakescan.tables.results import ChangeResult
from lakescan.tables.save import upsert
from lakescan.writing.partitioned_writer import new_write_id
from lakescan.writing.upserts import UpsertFiles, UpsertWriter


def upsert_by_equality(target: Target, rows: pa.Table, keys: Sequence[str]) -> ChangeResult:
    """Upsert rows, each key once, in this process."""
    check_all_columns(target, rows.column_names)
    columns = {each.name.lower(): each for each in columns_of(rows.schema)}
    for each in target.writes.schema.fields:
        check_members(each.name, columns[each.name.lower()].type, each.type)
    writer = UpsertWriter(target.writes, target.key_writes(keys), new_write_id())
    try:
        for batch in rows.to_batches():
            writer.take(batch)
        written = writer.close()
    except BaseException:
        writer.undo()
        raise
    return commit_upserts(target, written)


def check_keys(rows: pa.Table, keys: Sequence[str], table: str) -> list[str]:
    """The columns of rows that are keys, in which there is no null: null would delete rows that merges keep.

    Raises `SchemaMismatch`.
    """
    by_name = {name.lower(): name for name in rows.column_names}
    found = []
    for key in keys:
        name = by_name.get(key.lower())
        if name is None or rows[name].null_count:
            what = "have no column" if name is None else "have nulls in"
            raise SchemaMismatch(f"upsert into {table}: the rows {what} {key!r}, which is a key")
        found.append(name)
    return found


def check_all_columns(target: Target, columns: Sequence[str]) -> None:
    """Raise `SchemaMismatch` if rows lack a column: the values of the rows that they replace are not read."""
    given = {name.lower() for name in columns}
    missing = [name for name in target.writes.schema.names if name.lower() not in given]
    if missing:
        raise SchemaMismatch(
            f"upsert into {target.name}: the rows have no column {missing[0]!r}, and upsert-mode=equality does not "
            "read the rows that they replace. Add the column, or use upsert-mode=merge"
        )


def commit_upserts(target: Target, written: UpsertFiles) -> ChangeResult:
    """Commit the files; what they replace is not known, so all rows count as inserted.

    If another writer committed the same transaction, the files are removed and nothing is committed.
    """
    if not upsert(target, written):
        return ChangeResult()
    return ChangeResult(
        inserted=sum(each.rows for each in written.files),
        files=len(written.files),
        bytes=sum(each.size for each in written.all),
    )
