"""Streams that upsert: a function for `foreachBatch` that merges each batch into a table by keys."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakescan.common.references import backquote
from lakescan.errors import InvalidOption
from lakescan.spark.streams.batch_target import BatchSink
from lakescan.spark.streams.keyed_rows import (
    DELETES,
    SEQUENCE,
    SequenceBy,
    add_marks,
    cast_keys,
    columns_to_write,
    find_keys,
    newest_rows,
    translate_row_errors,
)
from lakescan.spark.workers import use_this_python
from lakescan.spark.writing.arrow_batches import ArrowTransfer
from lakescan.statements.rows.execute import change
from lakescan.statements.rows.merge import SOURCE, merge_of
from lakescan.statements.rows.table_methods import keys_of
from lakescan.statements.rows.upserts import check_all_columns, commit_upserts
from lakescan.statements.syntax.dml import Assignment, Clause, MergeAction, When
from lakescan.statements.syntax.text import Sql
from lakescan.tables.base import Target
from lakescan.tables.capabilities import KeyUpserts, find_capability, require
from lakescan.tables.commit_files import add_new_columns
from lakescan.tables.results import ChangeResult
from lakescan.writing.parquet_writer import new_write_id, remove_written
from lakescan.writing.table_writes import TableWrites
from lakescan.writing.upserts import UpsertFiles, UpsertWriter

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_MARKS = (SEQUENCE, DELETES)


@dataclass(frozen=True)
class UpsertSink(BatchSink):
    """Merges batches into a table: `df.writeStream.foreachBatch(sink)`.

    Made by `lakescan.spark.upsert_sink`, whose arguments are its fields.

    Example:
        >>> sink = lakescan.spark.upsert_sink("local.shop.customers", sequence_by="changed_at")
        >>> stream.writeStream.foreachBatch(sink).option("checkpointLocation", "/lake/checkpoint").start()
    """

    _keys: tuple[str, ...]
    _sequence_by: str | None
    _deletes_when: str | None
    _in_order: bool
    _left_out: tuple[str, ...]

    def _merge(self, target: Target, frame: DataFrame) -> ChangeResult:
        adds, texts = self._target.options.merge_schema, (self._sequence_by, self._deletes_when)
        target, columns = fit_columns(target, frame, texts, self._left_out, adds=adds)
        table = target.writes.schema.names
        sequence = None
        if self._sequence_by is not None:
            sequence = SequenceBy.parse(self._sequence_by, frame.columns, table, in_order=self._in_order)
        keys = keys_of(target, self._keys)
        rows = add_marks(frame, columns, sequence, self._deletes_when)
        of_rows = find_keys(rows, keys)
        rows = cast_keys(rows, target, keys, f"upsert into {target.name}")
        rows = newest_rows(rows, of_rows, of_rows, f"upsert into {target.name}", has_sequence=sequence is not None)
        if self._is_by_equality(target, sequence):
            with translate_row_errors():
                return upsert_rows(target, rows, keys, DELETES, SEQUENCE)
        on = " AND ".join(f"t.{backquote(name)} = s.{backquote(name)}" for name in keys)
        given = None  # the source must have all columns of the table
        if adds:
            given = tuple(
                Assignment((each,), Sql(f"s.{backquote(each)}")) for each in rows.columns if each not in _MARKS
            )
        statement = replace(
            merge_of(on, "t", "s"),
            clauses=tuple(self._clauses(None if sequence is None else sequence.column, given)),
        )
        rows = rows.persist()  # read twice: for its keys, which prune the table, and for its rows
        try:
            with translate_row_errors():
                return change(target, statement, {SOURCE: rows})
        finally:
            rows.unpersist()

    def _is_by_equality(self, target: Target, sequence: SequenceBy | None) -> bool:
        """Return whether rows are upserted by equality deletes, without reading the table: by option, or by default.

        Raises `InvalidOption` if the mode is `equality` and sequences would be compared with the table's.
        """
        mode = self._target.options.upsert_mode
        is_compared = sequence is not None and sequence.column is not None
        if mode is None:
            keyed = find_capability(target, KeyUpserts)
            return keyed is not None and keyed.upserts_by_default and not is_compared
        if mode == "equality" and is_compared:
            raise InvalidOption(
                "upsert-mode=equality does not read the table, so late rows cannot be detected: leave out "
                "sequence_by, or set in_order=True if batches come in the order of the sequence"
            )
        return mode == "equality"

    def _clauses(self, kept: str | None, given: tuple[Assignment, ...] | None) -> Iterator[Clause]:
        """Yield the MERGE clauses that delete, update and insert rows.

        `kept` is the table's column that stores the sequence; None if sequences are not compared. `given` has the
        assignments; None for all columns of the table.
        """
        is_newer = None
        if kept is not None:
            is_newer = f"(t.{backquote(kept)} IS NULL OR s.{SEQUENCE} > t.{backquote(kept)})"
        if self._deletes_when is not None:
            deletes = f"s.{DELETES}" + ("" if is_newer is None else f" AND {is_newer}")
            yield Clause(When.MATCHED, MergeAction.DELETE, Sql(deletes))
        yield Clause(When.MATCHED, MergeAction.UPDATE, None if is_newer is None else Sql(is_newer), given)
        stays = None if self._deletes_when is None else Sql(f"NOT s.{DELETES}")
        yield Clause(When.NOT_MATCHED, MergeAction.INSERT, stays, given)


def fit_columns(
    target: Target, frame: DataFrame, texts: Sequence[str | None], left_out: Sequence[str], *, adds: bool
) -> tuple[Target, list[str]]:
    """Return the table, with new columns if `adds`, and the columns of a source that are written.

    See `columns_to_write`.
    """
    columns = columns_to_write(frame, target.writes.schema.names, texts, adds_others=adds, left_out=left_out)
    if adds:
        from lakescan.spark.types import schema_of_rows

        target = add_new_columns(target, schema_of_rows(frame.select(*map(backquote, columns)).schema))
    return target, columns


def upsert_rows(target: Target, frame: DataFrame, keys: Sequence[str], deletes: str, *others: str) -> ChangeResult:
    """Upsert rows, at most one per key, by equality deletes. Rows where the column `deletes` is true delete their keys.

    The columns `others` are not written. On failure, written files are removed.
    """
    check_all_columns(target, frame.columns)
    use_this_python(frame.sparkSession)
    writes, of_keys, write_id = target.writes, require(target, KeyUpserts).key_writes(keys), new_write_id()
    frame, written = frame.drop(*others), UpsertFiles()
    try:
        handed = ArrowTransfer(frame)
        files = handed.map_in_arrow(frame, _make_writer(writes, of_keys, write_id, deletes), "files binary")
        for row in handed.run(files, lambda files: files.collect()):
            written.add(pickle.loads(row["files"]))
    except BaseException:
        remove_written(writes, write_id)
        raise
    return commit_upserts(target, written)


def _make_writer(rows: TableWrites, keys: TableWrites, write_id: str, deletes: str) -> Any:
    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        writer = UpsertWriter(rows, keys, write_id, deletes)
        try:
            for batch in batches:
                writer.take(batch)
            files = writer.close()
        except BaseException:
            writer.undo()
            raise
        yield pa.RecordBatch.from_pydict({"files": pa.array([pickle.dumps(files, protocol=5)], pa.binary())})

    return write
