"""Statements that change rows on Spark: workers find the rows, write new ones, and record what goes.

One job has two stages. Tasks of the first take rows of the statement's query, write new and changed ones, and hand on
bitmaps of the rows that go, by file. Each task of the second has all bitmaps of its files: it unites them, and writes
deletes, or the files' other rows. The driver gets descriptions of files, and commits.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyroaring import BitMap64

from lakescan.dml.assignment import assigned_within
from lakescan.dml.execute import Change, read_by
from lakescan.dml.finish import Finished, Finishing, touched
from lakescan.dml.parts import in_own_words
from lakescan.dml.positions import FoundRows, FoundTwice, unite, unite_matches
from lakescan.dml.select import TARGET, ChangeQuery, Statement
from lakescan.dml.sink import ChangeSink, ChangeWrites, Sunk, total
from lakescan.dml.statements import Delete, Merge
from lakescan.dml.target import changed_table
from lakescan.dml.whole_files import by_filter
from lakescan.planning.file_table import FileTable
from lakescan.query.dialect.types import of_arrow
from lakescan.scan import Scan
from lakescan.spark.frames import frame_of_plan
from lakescan.spark.session import conf, parallelism
from lakescan.spark.statements import current_namespace, query_frame
from lakescan.spark.types import schema_of_rows
from lakescan.spark.workers import task_number, use_this_python
from lakescan.transaction.base import Target
from lakescan.transaction.results import ChangeResult
from lakescan.write.partitioned_writer import remove_written

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SCHEMA = "path string, kind string, data binary"
_NAMES = ["path", "kind", "data"]
_CHANGED, _MATCHED, _SUNK, _FINISHED, _TWICE = "changed", "matched", "sunk", "finished", "twice"
_FILES = 1_000  # whose deletes are written together


def change(
    spark: SparkSession, target: Target, statement: Statement, frames: Mapping[str, Any], arguments: Any = None
) -> ChangeResult:
    """Run a statement on Spark; see `lakescan.dml.execute.change`."""
    if target.has_committed():
        return ChangeResult()
    use_this_python(spark)
    one = Change(target, statement)
    if isinstance(statement, Delete) and not arguments and (result := _delete_by_filter(spark, one)) is not None:
        return result
    if isinstance(statement, Merge) and one.needs_source:
        frame, _ = query_frame(spark, f"SELECT * FROM {statement.source}\n", arguments, frames, target.scan)
        one = one.with_source(schema_of_rows(frame.schema))
    selecting, given = one.selecting, {**frames, TARGET: Scan(one.scan)}

    def run(text: str) -> Any:
        with in_own_words(one.statement, text, target.writes.schema.names):
            return query_frame(spark, text, arguments, given, one.target.scan)

    frame, _ = run(selecting.query().text)
    types = [of_arrow(kind) for kind in schema_of_rows(frame.schema).types]
    ansi = conf(spark, "spark.sql.ansi.enabled") == "true"
    found = selecting.query(assigned_within(types, ansi=ansi))
    frame, scans = run(found.text)
    scan = scans(TARGET)
    sunk, done = _run(spark, one, frame, one.writes(found), scan.plan().table)
    return one.commit_finished(sunk, done, read_by(scan))


def run_dml(
    spark: SparkSession, statement: Statement, args: Any, frames: Mapping[str, Any], text: str | None = None
) -> ChangeResult:
    """Run a statement of SQL on Spark; see `lakescan.dml.execute.run`."""
    found = changed_table(statement.target, current_namespace(spark), frames, text)
    return found.run({}, lambda target, _: change(spark, target, statement, frames, args or None))


def _delete_by_filter(spark: SparkSession, one: Change) -> ChangeResult | None:
    quick = by_filter(one, of_sql=True)
    if quick is None:
        return None
    if not len(quick.others.table):
        return quick.commit(one, FoundRows(is_unique=False), Finished())
    frame = frame_of_plan(spark, quick.scan, quick.others).selectExpr("*", "1 AS action")
    found = ChangeQuery("", one.selecting.query().actions, {}, None, checks_matches=False)
    sunk, done = _run(spark, one, frame, one.writes(found), quick.others.table)
    return quick.commit(one, sunk.rows, done)


def _run(
    spark: SparkSession, one: Change, frame: DataFrame, writes: ChangeWrites, plan: FileTable
) -> tuple[Sunk, Finished]:
    """Run both stages. If the job fails, whatever it wrote is removed."""
    finishing = one.finishing
    try:
        found = frame.mapInArrow(_sinking(writes), _SCHEMA)
        # Files are written again by all tasks, however small the bitmaps are; of deletes, Spark makes few tasks.
        tasks = [parallelism(spark)] if finishing.writer is None else []
        found = found.repartition(*tasks, "path")
        finished = found.sortWithinPartitions("path").mapInArrow(_finishing(finishing, plan), _SCHEMA)
        rows = finished.toArrow().to_pylist()
        for row in rows:
            if row["kind"] == _TWICE:
                raise one.ambiguous(FoundTwice(*pickle.loads(row["data"])))
    except BaseException:
        for each in (writes.rows, writes.changes):
            if each is not None:
                remove_written(each, writes.write_id)
        if finishing.writer is not None:
            finishing.writer.remove_written()
        raise
    sunk = Sunk(FoundRows(is_unique=False), [])
    parts = [pickle.loads(row["data"]) for row in rows if row["kind"] == _SUNK]
    for files, change_files, _ in parts:
        sunk.files += files
        sunk.change_files += change_files
    sunk.counts = total([counts for _, _, counts in parts])
    done = Finished()
    for row in rows:
        if row["kind"] == _FINISHED:
            more = pickle.loads(row["data"])
            done.removed += more.removed
            done.deletes += more.deletes
            done.files += more.files
            done.changed += more.changed
    return sunk, done


def _sinking(writes: ChangeWrites) -> Any:
    """The first stage: from rows of the query to bitmaps, and descriptions of the files that were written."""

    def sink_rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        number = task_number()
        sink = ChangeSink(writes, number)
        try:
            for batch in batches:
                sink.take(batch)
            sunk = sink.close()
        except FoundTwice as twice:
            sink.undo()
            yield _row("", _TWICE, (twice.path, twice.position))
            return
        except BaseException:
            sink.undo()
            raise
        for kind, rows in ((_CHANGED, sunk.rows.changed), (_MATCHED, sunk.rows.matched)):
            for path, positions in rows.items():
                yield _row(path, kind, positions.serialize())
        if any((sunk.counts.inserted, sunk.counts.updated, sunk.counts.deleted)):
            # A task that is repeated gives the same key: another task of the second stage never sees both results.
            yield _row(f"task {number}", _SUNK, (sunk.files, sunk.change_files, sunk.counts))

    return sink_rows


def _finishing(finishing: Finishing, plan: FileTable) -> Any:
    """The second stage: from bitmaps to deletes, or to files that are written again."""

    def finish_rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        changed: dict[str, BitMap64] = {}
        matched: dict[str, BitMap64] = {}
        last = None
        for batch in batches:
            for path, kind, data in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                if kind in (_SUNK, _TWICE):
                    yield _packed(path, kind, data)
                    continue
                if path != last and len(changed) >= _FILES:
                    yield _row("", _FINISHED, finishing.finish(*touched(plan, changed)))
                    changed.clear()
                    matched.clear()
                last = path
                more = BitMap64.deserialize(pickle.loads(data))
                if kind == _CHANGED:
                    unite(changed, path, more)
                    continue
                try:
                    unite_matches(matched, path, more)
                except FoundTwice as twice:
                    yield _row("", _TWICE, (twice.path, twice.position))
        if changed:
            yield _row("", _FINISHED, finishing.finish(*touched(plan, changed)))

    return finish_rows


def _row(path: str, kind: str, value: Any) -> pa.RecordBatch:
    return _packed(path, kind, pickle.dumps(value, protocol=5))


def _packed(path: str, kind: str, data: bytes) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([path]), pa.array([kind]), pa.array([data], pa.binary())], names=_NAMES)
