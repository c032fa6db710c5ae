"""Compare the keys of an upsert as their columns store them, so that no key is duplicated.

A key that is stored as another value, such as 5.5 in a BIGINT, could otherwise add a second row for an existing key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lakescan.common import types as t
from lakescan.common.references import backquote
from lakescan.definition.arrow_schema import columns_of
from lakescan.errors import SchemaMismatch
from lakescan.statements.duckdb.types import ForeignType, comparable_type
from lakescan.statements.rows.store_assignment import cast_to_column, check_members
from lakescan.tables.base import Target
from lakescan.tables.capabilities import KeyUpserts, require
from lakescan.tables.commit_files import upsert
from lakescan.tables.results import ChangeResult
from lakescan.writing.column_rules import TextLength
from lakescan.writing.parquet_writer import new_write_id
from lakescan.writing.upserts import UpsertFiles, UpsertWriter

_MOST_DIGITS = 38


@dataclass(frozen=True)
class StoredKey:
    """A key column of a source whose values are converted when they are stored.

    - `name`: the source's column. `column`: the table's column. `type`: the table column's type, for messages.
    - `text`: the SQL of the stored value.
    - `changed`: the SQL of whether the stored value differs from the source's; None if it never does.
    """

    name: str
    column: t.Field
    type: str
    text: str
    changed: str | None

    @property
    def problem(self) -> str:
        """The end of the message about a key that would change. Its name and value come before."""
        return (
            f"which the key column {self.column.name!r} ({self.type}) would store as another value. Nothing was "
            "changed. Round or cast the keys first"
        )


@dataclass(frozen=True)
class StoredKeys:
    """The key columns whose values are converted when they are stored. `columns` are all columns of the source."""

    columns: tuple[str, ...]
    keys: tuple[StoredKey, ...]

    @staticmethod
    def build(target: Target, columns: Mapping[str, t.Type], keys: Sequence[str], *, ansi: bool) -> StoredKeys:
        """Return the keys of a source that are converted when they are stored.

        Args:
            target: The table.
            columns: The source's columns, with their types in Spark.
            keys: The table's key columns. Keys that the source lacks are skipped.
            ansi: Whether casts of the engine fail for values that do not fit.

        Raises:
            SchemaMismatch: A key column cannot store the source's type.
        """
        given = {name.lower(): name for name in columns}
        pairs = [(given[key.lower()], target.writes.schema.column(key)) for key in keys if key.lower() in given]
        found = [_make_stored_key(name, columns[name], column, target, ansi) for name, column in pairs]
        return StoredKeys(tuple(columns), tuple(each for each in found if each is not None))

    @property
    def description(self) -> str:
        """The keys and their types, for messages."""
        return ", ".join(f"the key {each.column.name!r} is {each.type}" for each in self.keys)

    def source(self, name: str) -> str:
        """Return the FROM item that reads the source `name` with its keys as they are stored.

        It is only the name if no key is converted.
        """
        if not self.keys:
            return backquote(name)
        return f"(SELECT {', '.join(self.items)} FROM {backquote(name)})"

    @property
    def items(self) -> list[str]:
        """The select list of all columns, with keys as they are stored."""
        texts = {each.name: each.text for each in self.keys}
        return [f"{texts[name]} AS {backquote(name)}" if name in texts else backquote(name) for name in self.columns]

    @property
    def lossy_keys(self) -> list[StoredKey]:
        """The keys that can change when they are stored."""
        return [each for each in self.keys if each.changed is not None]

    def change_query(self, name: str) -> str | None:
        """Return an SQL query for one row of the source `name` with a key that would change.

        Returns None if no key can change.
        """
        if not self.lossy_keys:
            return None
        items = [backquote(each.name) for each in self.lossy_keys]
        items += [f"coalesce({each.changed}, FALSE) AS {backquote(_mark(n))}" for n, each in enumerate(self.lossy_keys)]
        condition = " OR ".join(f"({each.changed})" for each in self.lossy_keys)
        return f"SELECT {', '.join(items)} FROM {backquote(name)} WHERE {condition} LIMIT 1"

    def refuse(self, table: str, row: Mapping[str, Any]) -> None:
        """Raise `SchemaMismatch` for a row that `change_query` returned. `table` is the name for the message."""
        for n, each in enumerate(self.lossy_keys):
            if row[_mark(n)]:
                raise SchemaMismatch(f"upsert into {table}: a row has {each.name} = {row[each.name]!r}, {each.problem}")


def _mark(number: int) -> str:
    return f"__lakescan_changed_{number}"


def _make_stored_key(name: str, found: t.Type, column: t.Field, target: Target, ansi: bool) -> StoredKey | None:
    kind, given = comparable_type(column.type), backquote(name)
    length = target.writes.rules.lengths.get(column.name)
    if column.type == t.UUID and found == t.STRING:
        return StoredKey(name, column, "uuid", f"lower({given})", None)
    if isinstance(length, TextLength):
        text = cast_to_column(given, found, column, ansi=ansi)
        if length.is_padded:
            short = f"rtrim({text})"
            padded = f"rpad({short}, {length.length}, ' ')"
            return StoredKey(name, column, str(length), padded, f"length({short}) > {length.length}")
        return StoredKey(name, column, str(length), text, f"length({text}) > {length.length}")
    if found in (kind, t.UNKNOWN) or isinstance(found, ForeignType) or _is_kept(found, kind):
        return None
    text = cast_to_column(given, found, column, ansi=ansi)
    return StoredKey(name, column, str(column.type), text, _change_test(given, text, found, kind))


def _is_kept(found: t.Type, kind: t.Type) -> bool:
    """Return whether a key of the type `found` can be compared with a column of the type `kind` without a cast.

    This holds if storing the key keeps its value or fails.
    """
    whole = found in t.INTEGRAL and kind in t.INTEGRAL
    return whole or t.is_widening(found, kind) or (found == t.DATE and isinstance(kind, t.Timestamp))


def _change_test(given: str, stored: str, found: t.Type, kind: t.Type) -> str | None:
    """Return the SQL of whether a key is stored as another value; None if it never is.

    `given` is the SQL of the key with the type `found`, and `stored` its cast to the column's type `kind`. String keys
    are compared as numbers or timestamps of a higher precision than the column's.
    """
    exact = given
    if found == t.STRING:
        if isinstance(kind, t.Decimal) and kind.precision < _MOST_DIGITS:
            exact = f"CAST({given} AS DECIMAL({_MOST_DIGITS}, {_MOST_DIGITS - kind.precision + kind.scale}))"
        elif kind == t.DATE:
            exact = f"CAST({given} AS TIMESTAMP_NTZ)"
        else:
            return None
    if found in t.FLOATING and kind in t.INTEGRAL:  # the float may be a rounded integer
        return f"(abs({given}) >= {t.exact_integers(found)} OR NOT ({stored} <=> {exact}))"
    return None if kind == t.STRING else f"NOT ({stored} <=> {exact})"


def upsert_by_equality(target: Target, rows: pa.Table, keys: Sequence[str]) -> ChangeResult:
    """Upsert rows with unique keys in this process, by equality deletes that remove the old rows without reading them.

    Raises `SchemaMismatch` if the rows lack a column or struct member. If writing fails, the written files are deleted.
    """
    check_all_columns(target, rows.column_names)
    columns = {each.name.lower(): each for each in columns_of(rows.schema)}
    for each in target.writes.schema.fields:
        check_members(each.name, columns[each.name.lower()].type, each.type)
    writer = UpsertWriter(target.writes, require(target, KeyUpserts).key_writes(keys), new_write_id())
    try:
        for batch in rows.to_batches():
            writer.take(batch)
        written = writer.close()
    except BaseException:
        writer.undo()
        raise
    return commit_upserts(target, written)


def check_keys(rows: pa.Table, keys: Sequence[str], table: str) -> list[str]:
    """Return the names of the rows' key columns; raises `SchemaMismatch` for a missing column or a null key.

    Equality deletes with a null key would delete rows that a merge keeps.
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
    """Raise `SchemaMismatch` if the rows of an equality upsert lack a column of the table.

    The rows that they replace are not read to fill it.
    """
    given = {name.lower() for name in columns}
    missing = [name for name in target.writes.schema.names if name.lower() not in given]
    if missing:
        raise SchemaMismatch(
            f"upsert into {target.name}: the rows have no column {missing[0]!r}, and upsert-mode=equality does not "
            "read the rows that they replace. Add the column, or use upsert-mode=merge"
        )


def commit_upserts(target: Target, written: UpsertFiles) -> ChangeResult:
    """Commit the files of an upsert. All rows count as inserted, because replaced rows are not read.

    If a concurrent commit was the same transaction, the files are deleted and nothing is committed.
    """
    if not upsert(target, written):
        return ChangeResult()
    return ChangeResult(
        inserted=sum(each.rows for each in written.files),
        files=len(written.files),
        bytes=sum(each.size for each in written.all),
    )
