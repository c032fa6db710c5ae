"""Streams that keep history (slowly changing dimensions of type 2): one row per version of a key.

A version is valid from `__START_AT` until before `__END_AT`, which is null for the current version. For the keys of a
batch, one query computes their new history from the versions in the table and the rows of the batch, wherever these
belong. One MERGE records the differences. Both read the same snapshot or version of the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lakescan.api.scan import Scan
from lakescan.common.metadata_columns import CHANGE_ORDINAL
from lakescan.common.references import backquote
from lakescan.errors import InvalidOption, SchemaMismatch, UnsupportedFeature
from lakescan.spark.statements.merge_keys import SourceKeys
from lakescan.spark.statements.names import find_column
from lakescan.spark.streams.batch_target import BatchSink
from lakescan.spark.streams.keyed_rows import (
    CHANGE_SEQUENCE,
    DELETES,
    SEQUENCE,
    SequenceBy,
    add_marks,
    cast_keys,
    find_keys,
    newest_rows,
    translate_row_errors,
)
from lakescan.spark.streams.upserts import fit_columns
from lakescan.statements.rows.execute import change
from lakescan.statements.rows.merge import SOURCE, merge_of
from lakescan.statements.rows.table_methods import keys_of
from lakescan.statements.syntax.dml import Clause, Merge, MergeAction, When
from lakescan.statements.syntax.text import Sql
from lakescan.tables.base import Target
from lakescan.tables.results import ChangeResult

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

START, END = "__START_AT", "__END_AT"
_RANK, _ENDED, _IS_END = "__lakescan_rank", "__lakescan_ended", "__lakescan_is_end"
_DOES, _VERSION = "__lakescan_does", "__lakescan_version"
# The kinds of events of a key. Of events with the same sequence, the one with the least number is kept.
_KNOWN, _KNOWN_DELETE, _KNOWN_END, _NEW = 0, 1, 2, 3


@dataclass(frozen=True)
class HistorySink(BatchSink):
    """Adds the versions of a batch to a table. Made by `lakescan.spark.history_sink`, whose arguments are its fields.

    Example:
        >>> sink = lakescan.spark.history_sink("local.shop.customers", "id", sequence_by="changed_at")
        >>> stream.writeStream.foreachBatch(sink).option("checkpointLocation", "/lake/checkpoint").start()
    """

    _keys: tuple[str, ...]
    _sequence_by: str
    _deletes_when: str | None
    _left_out: tuple[str, ...]
    _tracked: tuple[str, ...] | None
    _keeps_deletes: bool

    def _merge(self, target: Target, frame: DataFrame) -> ChangeResult:
        adds, texts = self._target.options.merge_schema, (self._sequence_by, self._deletes_when)
        target, columns = fit_columns(target, frame, texts, (*self._left_out, START, END), adds=adds)
        table = target.writes.schema.names
        if missing := [name for name in (START, END) if name not in table]:
            raise SchemaMismatch(
                f"{target.name} keeps history, but has no column {missing[0]}: add __START_AT and __END_AT with the "
                "type of the sequence"
            )
        if self._sequence_by == CHANGE_SEQUENCE and find_column(CHANGE_ORDINAL.name, frame.columns) is not None:
            raise UnsupportedFeature(
                "a history in the order of an Iceberg changelog, whose numbers restart in each batch",
                "Give a column of the table that orders its rows, sequence_by=...",
            )
        keys = keys_of(target, self._keys)
        if missing := [each for each in table if find_column(each, (*columns, *keys, START, END)) is None]:
            raise SchemaMismatch(
                f"the stream has no column {missing[0]!r}, which {target.name} has: each version has all columns"
            )
        sequence = SequenceBy.parse(self._sequence_by, frame.columns, table, in_order=True)
        rows = add_marks(frame, columns, sequence, self._deletes_when)
        by = find_keys(rows, keys)
        rows = cast_keys(rows, target, keys, f"changes of {target.name}")
        rows = newest_rows(rows, by, [*by, SEQUENCE], f"changes of {target.name}", has_sequence=True)
        rows = rows.persist()  # read twice: for its keys, and for its rows
        changed = None
        try:
            with translate_row_errors():
                changed = self._find_version_changes(
                    rows, target, keys
                ).persist()  # also read for its keys, which prune the table
                return change(target, self._statement(keys), {SOURCE: changed})
        finally:
            rows.unpersist()
            if changed is not None:
                changed.unpersist()

    def _statement(self, keys: Sequence[str]) -> Merge:
        on = [f"t.{backquote(name)} = s.{backquote(name)}" for name in (*keys, START)]
        return replace(
            merge_of(" AND ".join(on), "t", "s"),
            clauses=(
                Clause(When.MATCHED, MergeAction.DELETE, Sql(f"s.{_DOES} = 'delete'")),
                Clause(When.MATCHED, MergeAction.UPDATE, Sql(f"s.{_DOES} = 'update'"), None),
                Clause(When.NOT_MATCHED, MergeAction.INSERT, Sql(f"s.{_DOES} = 'insert'"), None),
            ),
        )

    def _find_version_changes(self, rows: DataFrame, target: Target, keys: Sequence[str]) -> DataFrame:
        """Return the versions of the batch's keys to insert, update or delete; the column `_DOES` has the action.

        `rows` are the batch's rows with the columns of `add_marks`.
        """
        of_keys = ", ".join(map(backquote, keys))
        values = [name for name in target.writes.schema.names if name not in (*keys, START, END)]
        cut = _events(rows, target, keys, values)
        # Keep one event per sequence, and compute whether the events before and after it begin a version.
        cut = cut.selectExpr(
            "*", f"row_number() OVER (PARTITION BY {of_keys}, {SEQUENCE} ORDER BY {_RANK}) AS __lakescan_row"
        ).where("__lakescan_row = 1")
        order = f"OVER (PARTITION BY {of_keys} ORDER BY {SEQUENCE})"
        begins = "TRUE"
        if (tracked := self._history_columns(values)) is not None:
            goes_on = f"lag({DELETES}) {order} <=> FALSE AND NOT {DELETES} AND lag({tracked}) {order} <=> {tracked}"
            begins = f"NOT ({goes_on})"
        cut = cut.selectExpr(
            "*",
            f"lead({SEQUENCE}) {order} AS __lakescan_next",
            f"coalesce(lag({DELETES}) {order}, TRUE) AS __lakescan_after_none",
            f"{begins} AS __lakescan_begins",
        ).selectExpr("*", f"sum(int(__lakescan_begins)) {order} AS {_VERSION}")
        # A version begins with its first event, and has the values and the end of its last event.
        version = f"OVER (PARTITION BY {of_keys}, {_VERSION} ORDER BY {SEQUENCE} ROWS BETWEEN UNBOUNDED PRECEDING"
        last = f"{version} AND UNBOUNDED FOLLOWING)"
        keeps = f"__lakescan_after_none AND ({self._keeps_deletes} OR {_RANK} = {_KNOWN_DELETE})"
        is_known = f"{_RANK} IN ({_KNOWN}, {_KNOWN_DELETE})"
        cut = cut.selectExpr(
            *map(backquote, keys),
            *(f"last({backquote(name)}) {last} AS {backquote(name)}" for name in values),
            f"{SEQUENCE} AS {backquote(START)}",
            f"if({DELETES}, {SEQUENCE}, last(__lakescan_next) {last}) AS {backquote(END)}",
            f"{_ENDED}",
            f"last({_RANK}) {last} <> {_KNOWN} AND NOT {DELETES} AS __lakescan_differs",
            f"if({DELETES}, {keeps}, __lakescan_begins) AS __lakescan_stays",
            f"{is_known} AS __lakescan_known",
            f"{DELETES}",
        )
        differs = f"NOT ({backquote(END)} <=> {_ENDED}) OR __lakescan_differs"
        does = (
            f"CASE WHEN __lakescan_known AND NOT __lakescan_stays THEN 'delete' "
            f"WHEN __lakescan_known AND NOT {DELETES} AND ({differs}) THEN 'update' "
            "WHEN NOT __lakescan_known AND __lakescan_stays THEN 'insert' END"
        )
        cut = cut.selectExpr("*", f"{does} AS {_DOES}").where(f"{_DOES} IS NOT NULL")
        return cut.selectExpr(*(backquote(name) for name in (*keys, *values, START, END)), _DOES)

    def _history_columns(self, values: Sequence[str]) -> str | None:
        """Return an SQL struct of the columns whose changes create a version; None if each row creates one.

        `values` are the table's columns apart from keys. Raises `InvalidOption` for a tracked column that is not one of
        them.
        """
        if self._tracked is None:
            return None
        found = [find_column(name, values) for name in self._tracked]
        for name, column in zip(self._tracked, found, strict=True):
            if column is None:
                raise InvalidOption(f"track_history_columns: the table has no column {name!r}, or it is a key")
        return f"struct({', '.join(backquote(name) for name in found if name is not None)})" if found else "TRUE"


def _events(rows: DataFrame, target: Target, keys: Sequence[str], values: Sequence[str]) -> DataFrame:
    """Return the events of a batch's keys: rows of the batch, and starts and ends of the versions in the table.

    `values` are the table's columns apart from keys and validity.
    """
    new = rows.selectExpr(
        *(f"{backquote(name)} AS {backquote(name)}" for name in keys),
        *(f"if({DELETES}, NULL, {backquote(name)}) AS {backquote(name)}" for name in values),
        SEQUENCE,
        DELETES,
        f"{_NEW} AS {_RANK}",
        f"NULL AS {_ENDED}",
    )
    schema = target.writes.schema
    of_batch = SourceKeys.read_columns({name: name for name in keys}, schema, new)
    scan = target.scan if of_batch is None else of_batch.prune_scan(target.scan)
    known = Scan(scan).to_spark(rows.sparkSession)
    if of_batch is not None:
        known = of_batch.keep_matching_rows(known, None)
    known = known.join(new.select(*map(backquote, keys)).distinct(), list(keys), "left_semi")
    is_delete = f"({backquote(START)} <=> {backquote(END)})"
    has_end = f"{backquote(END)} IS NOT NULL AND NOT {is_delete}"
    known = known.selectExpr(
        *map(backquote, (*keys, *values, START, END)),
        f"explode(if({has_end}, array(FALSE, TRUE), array(FALSE))) AS {_IS_END}",
    ).selectExpr(
        *map(backquote, keys),
        *(f"if({_IS_END}, NULL, {backquote(name)}) AS {backquote(name)}" for name in values),
        f"if({_IS_END}, {backquote(END)}, {backquote(START)}) AS {SEQUENCE}",
        f"({_IS_END} OR {is_delete}) AS {DELETES}",
        f"CASE WHEN {_IS_END} THEN {_KNOWN_END} WHEN {is_delete} THEN {_KNOWN_DELETE} ELSE {_KNOWN} END AS {_RANK}",
        f"if({_IS_END}, NULL, {backquote(END)}) AS {_ENDED}",
    )
    return known.unionByName(new)
