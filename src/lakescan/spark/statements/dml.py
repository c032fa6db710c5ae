"""Statements that change rows on Spark: workers find the rows, write new ones, and record the rows to delete.

One job has two stages. Tasks of the first stage take rows of the statement's query, write new and changed rows, and
pass on bitmaps of the rows to delete, by file. A task of the second stage gets all bitmaps of its files, unites them,
and writes deletes, or rewrites the files with their remaining rows. The driver gets descriptions of files, and commits.

If only deletes are written, and the planned files have few rows, the driver also gets the bitmaps and does the second
stage itself, which is faster. A DELETE on so few rows needs no Python workers: the driver gets the positions of rows.
"""

from __future__ import annotations

import pickle
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from lakescan.api.scan import Scan
from lakescan.common.metadata_columns import FILE, POS
from lakescan.errors import LakescanError, QueryFailed
from lakescan.options.session_defaults import evolution_of_session
from lakescan.planning.file_table import FileTable
from lakescan.planning.plan import ScanPlan
from lakescan.spark.following import in_one_state
from lakescan.spark.native.planned_frames import frame_by_relation, plan_frame
from lakescan.spark.session import conf, parallelism
from lakescan.spark.statements.merge_keys import SourceKeys
from lakescan.spark.statements.names import current_namespace, has_catalog, is_of_session
from lakescan.spark.statements.queries import (
    analyze_frame,
    cache_query_settings,
    change_message,
    frame_of_others,
    query_frame,
    query_schema,
    replace_braces,
    session_settings,
)
from lakescan.spark.statements.session_tables import qualify_target
from lakescan.spark.statements.statement_routing import find_catalog
from lakescan.spark.types import schema_of_rows
from lakescan.spark.wap import settings_of_session
from lakescan.spark.workers import is_spark, task_number, translate_worker_errors, use_this_python
from lakescan.spark.writing.arrow_batches import ArrowTransfer
from lakescan.spark.writing.write import SparkRows, cluster_changes
from lakescan.statements.duckdb.types import spark_type
from lakescan.statements.rows.change_query import FILE_AT, POSITION_AT, TARGET, ChangeQuery, ChangeStatement
from lakescan.statements.rows.change_writer import (
    ChangeOutcome,
    ChangeRecorder,
    ChangeSink,
    ChangeWrites,
    SinkResult,
    find_changed_files,
    total_counts,
)
from lakescan.statements.rows.delete_whole_files import plan_filter_delete
from lakescan.statements.rows.execute import Change, scan_condition
from lakescan.statements.rows.expressions import relocate_error, translate_error_places
from lakescan.statements.rows.insert import Insertion, run_insert
from lakescan.statements.rows.matched_rows import DuplicateMatch, RowPositions, unite, unite_matches
from lakescan.statements.rows.store_assignment import column_caster
from lakescan.statements.rows.target import ChangedTable, changed_table, names_table
from lakescan.statements.select.session import may_have_rounded
from lakescan.statements.syntax.dml import Delete, DmlStatement, Insert, Merge, Update
from lakescan.statements.syntax.parse import Arguments, name_parameters
from lakescan.statements.syntax.parse_dml import parse
from lakescan.statements.syntax.text import Sql, TableName
from lakescan.tables.base import Target
from lakescan.tables.capabilities import RowLevelChanges, require
from lakescan.tables.results import ChangeResult, WriteResult
from lakescan.tables.scan_spec import ScanSpec
from lakescan.writing.parquet_writer import remove_written

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SCHEMA = "file string, kind string, data binary"
_NAMES = ["file", "kind", "data"]
_SOURCE = "__lakescan_source"  # the name of a MERGE's source if its keys are read
_CHANGED, _MATCHED, _SUNK, _FINISHED, _TWICE = "changed", "matched", "sunk", "finished", "twice"
_OF_ROWS = (  # the conditions of Spark's errors about values
    "ARITHMETIC_OVERFLOW",
    "BINARY_ARITHMETIC_OVERFLOW",
    "CAST_INVALID_INPUT",
    "CAST_OVERFLOW",
    "DIVIDE_BY_ZERO",
    "NUMERIC_VALUE_OUT_OF_RANGE",
    "USER_RAISED_EXCEPTION",
)
_SUGGESTED = re.compile(rf", `(?:\w+`\.`)?(?:{FILE.name}|{POS.name})`")
_FEW_ROWS = 2**23  # of all planned files; their bitmaps have a few MB at most, and need no second stage
_FEW_POSITIONS = 2**22  # rows of all planned files: the driver gets 16 bytes for each, at most 64 MB
_FILES = 1_000  # number of files whose deletes are written together


@in_one_state
def change(
    spark: SparkSession,
    target: Target,
    statement: ChangeStatement,
    frames: Mapping[str, Any],
    arguments: Any = None,
    *,
    counts_source: bool = False,
) -> ChangeResult:
    """Run a statement on Spark; see `lakescan.statements.rows.execute.change`.

    With `counts_source`, the source of a MERGE is read once more, as Delta's own MERGE does, to record its number of
    rows in the history of a Delta table.
    """
    if target.has_committed():
        return ChangeResult()
    use_this_python(spark)
    settings = session_settings(spark)
    one = Change(target, statement, case_sensitive=settings.case_sensitive)
    has_quick = isinstance(statement, Delete) and not arguments and not settings.case_sensitive
    if has_quick and (result := _delete_by_filter(spark, one)) is not None:
        return result
    if isinstance(statement, Merge) and one.needs_source:
        source = query_schema(spark, f"SELECT * FROM {statement.source}\n", arguments, frames)
        one = one.with_source(schema_of_rows(source))
    selecting, given = one.selecting, {**frames, TARGET: Scan(one.scan)}
    keys = source_rows = None
    if isinstance(one.statement, Merge):
        source = frame_of_others(spark, f"SELECT * FROM {one.statement.source}\n", arguments, frames)
        if counts_source and require(one.target, RowLevelChanges).records_source_rows:
            source_rows = _count_source(spark, one, source, arguments, frames)
        if source is not None and (keys := SourceKeys.read_keys(one.statement, one.target.writes.schema, source)):
            selecting = replace(selecting, statement=replace(one.statement, source=Sql(_SOURCE)))
            given[_SOURCE] = source  # read twice but analyzed once, so it has the same rows
    found = selecting.query()
    if any(each.values for each in found.actions.values()):
        with (
            translate_error_places(one.statement, found.text, target.writes.schema.names),
            _translate_query_errors(one, found.text),
        ):
            columns = query_schema(spark, found.text, arguments, given)
        types = [spark_type(kind) for kind in schema_of_rows(columns).types]
        rounds = may_have_rounded(frames)
        found = selecting.query(column_caster(types, ansi=settings.is_ansi, checks_floats=rounds, members=one.members))
    rows = _TargetRows(spark, keys, numbers_files=FILE.name not in repr(one.statement).lower())
    with (
        translate_error_places(one.statement, found.text, target.writes.schema.names),
        _translate_query_errors(one, found.text),
    ):
        frame = query_frame(spark, found.text, arguments, given, {TARGET: rows.read})
    assert rows.scan is not None
    sunk, done = _run(spark, one, frame, one.writes(found), rows.files)
    sunk.counts = replace(sunk.counts, source=source_rows)
    return one.commit_finished(sunk, done, scan_condition(rows.scan))


def _count_source(
    spark: SparkSession, one: Change, source: DataFrame | None, arguments: Any, frames: Mapping[str, Any]
) -> int:
    """Return the number of rows of a MERGE's source; `source` is its frame, None if it reads lakescan's tables."""
    assert isinstance(one.statement, Merge)
    with _translate_value_errors(one):
        if source is None:
            source = query_frame(spark, f"SELECT * FROM {one.statement.source}\n", arguments, frames, {})
        return source.count()


@dataclass(frozen=True)
class _PlannedFiles:
    """The files of the target's `plan`. With `are_numbered`, rows refer to them by index in the plan, else by path."""

    plan: FileTable
    are_numbered: bool

    def path(self, found: int | str) -> str:
        """Return the path of the file that a row refers to by `found`, an index or path."""
        return str(self.plan.files["path"][int(found)]) if self.are_numbered else str(found)

    def have_at_most(self, rows: int) -> bool:
        """Return whether metadata records at most `rows` rows in all files together; False if a count is missing."""
        counts = self.plan.files["record_count"]
        return counts.null_count == 0 and (pc.sum(counts).as_py() or 0) <= rows


class _TargetRows:
    """The target's rows in the statement's query, read by one plan.

    `keys` are the keys of a MERGE's source, if read in advance. With `numbers_files`, rows refer to files by index.
    """

    def __init__(self, spark: SparkSession, keys: SourceKeys | None, *, numbers_files: bool) -> None:
        self._spark, self._keys, self._numbers_files = spark, keys, numbers_files
        self._plan: ScanPlan | None = None
        self.scan: ScanSpec | None = None

    def read(self, scan: ScanSpec) -> DataFrame:
        """Plan the scan as narrowed by the query and the keys, and return a frame of its rows."""
        keys = self._keys
        if keys is not None:
            scan = keys.prune_scan(scan)
        self.scan = scan
        frame, self._plan = plan_frame(self._spark, scan, numbers_files=self._numbers_files)
        return frame if keys is None else keys.keep_matching_rows(frame, self._plan.report.records)

    @property
    def files(self) -> _PlannedFiles:
        """The files of the plan; `read` must have been called."""
        assert self._plan is not None
        return _PlannedFiles(replace(self._plan.table, stats={}), self._numbers_files)  # no task needs statistics


def run_dml(
    spark: SparkSession,
    statement: ChangeStatement,
    args: Any,
    frames: Mapping[str, Any],
    text: str | None = None,
    *,
    counts_source: bool = False,
) -> ChangeResult:
    """Run a SQL statement on Spark; see `lakescan.statements.rows.execute.run`. `counts_source` is that of `change`."""
    with cache_query_settings(spark):
        target = changed_table(statement.target, current_namespace(spark), frames, text)
        return _run_change(spark, target, statement, args, frames, counts_source=counts_source)


def _run_change(
    spark: SparkSession,
    target: ChangedTable,
    statement: ChangeStatement,
    args: Any,
    frames: Mapping[str, Any],
    *,
    counts_source: bool = False,
) -> ChangeResult:
    found = replace(target, session=settings_of_session(spark))
    if isinstance(statement, Merge) and evolution_of_session(found.session, found.table.format):
        statement = replace(statement, with_schema_evolution=True)
    run = partial(change, spark, counts_source=counts_source)
    return found.run({}, lambda target, _: run(target, statement, frames, args or None))


def _delete_by_filter(spark: SparkSession, one: Change) -> ChangeResult | None:
    quick = plan_filter_delete(one, of_sql=True)
    if quick is None:
        return None
    if not len(quick.others.table):
        return quick.commit(one, RowPositions(is_unique=False), ChangeOutcome())
    frame = frame_by_relation(spark, quick.scan, quick.others, numbers_files=True).selectExpr("*", "1 AS action")
    found = ChangeQuery("", one.selecting.query().actions, {}, None, checks_matches=False)
    sunk, done = _run(spark, one, frame, one.writes(found), _PlannedFiles(quick.others.table, are_numbered=True))
    return quick.commit(one, sunk.rows, done)


def _run(
    spark: SparkSession, one: Change, frame: DataFrame, writes: ChangeWrites, files: _PlannedFiles
) -> tuple[SinkResult, ChangeOutcome]:
    """Run both stages of a statement; return the result of the first (without bitmaps) and the outcome of the second.

    The second stage runs in this process if metadata records few rows. `frame` has the rows of the statement's query,
    `writes` write new rows and changes. On failure, written files are removed.
    """
    finishing = one.finishing
    only_deletes = isinstance(one.statement, Delete) and not one.records_changes and finishing.writer is not None
    if only_deletes and files.are_numbered and files.have_at_most(min(_FEW_ROWS, _FEW_POSITIONS)):
        return _collect_and_finish(one, frame, finishing, files)
    try:
        # One task needs no clustering, and Sail does not find the columns for it.
        handed = ArrowTransfer(frame)
        rows = cluster_changes(frame, writes.query, writes.rows) if is_spark(spark) else frame.coalesce(1)
        found = handed.map_in_arrow(rows, _make_sink_stage(writes), _SCHEMA)
        finish = _make_finish_stage(finishing, files)
        if finishing.writer is not None and files.have_at_most(_FEW_ROWS):
            with translate_worker_errors(), _translate_value_errors(one):
                parts = handed.run(found, lambda parts: parts.toArrow().sort_by("file"))
            rows = [row for batch in finish(iter(parts.to_batches())) for row in batch.to_pylist()]
        else:
            # All tasks rewrite files, however small the bitmaps are. Deletes of a few files are written by one task.
            tasks = parallelism(spark)
            if finishing.writer is not None:
                tasks = min(tasks, len(files.plan) // _FILES + 1)
            sorted_parts = found.repartition(tasks, "file").sortWithinPartitions("file")
            with translate_worker_errors(), _translate_value_errors(one):
                finished = handed.map_in_arrow(sorted_parts, finish, _SCHEMA)
                rows = handed.run(finished, lambda parts: parts.toArrow().to_pylist())
        for row in rows:
            if row["kind"] == _TWICE:
                file, position = pickle.loads(row["data"])
                raise one.ambiguity_error(DuplicateMatch(files.path(file), position))
    except BaseException:
        for each in (writes.rows, writes.changes):
            if each is not None:
                remove_written(each, writes.write_id)
        if finishing.writer is not None:
            finishing.writer.remove_written()
        raise
    sunk = SinkResult(RowPositions(is_unique=False), [])
    parts = [pickle.loads(row["data"]) for row in rows if row["kind"] == _SUNK]
    for new_files, change_files, _ in parts:
        sunk.files += new_files
        sunk.change_files += change_files
    sunk.counts = total_counts([counts for _, _, counts in parts])
    done = ChangeOutcome()
    for row in rows:
        if row["kind"] == _FINISHED:
            more = pickle.loads(row["data"])
            done.removed += more.removed
            done.deletes += more.deletes
            done.files += more.files
            done.changed += more.changed
    return sunk, done


def _collect_and_finish(
    one: Change, frame: DataFrame, finishing: ChangeRecorder, files: _PlannedFiles
) -> tuple[SinkResult, ChangeOutcome]:
    """Collect the positions of the rows in `frame`, which a DELETE matches, and write the deletes in this process.

    On failure, written deletes are removed.
    """
    assert finishing.writer is not None
    with translate_worker_errors(), _translate_value_errors(one):
        rows = frame.toArrow()
    found = RowPositions(is_unique=False)
    for batch in rows.combine_chunks().to_batches():
        found.add(batch.column(FILE_AT), batch.column(POSITION_AT), np.ones(batch.num_rows, dtype=bool))
    changed = {files.path(number): positions for number, positions in found.changed.items()}
    try:
        done = finishing.finish(*find_changed_files(files.plan, changed))
    except BaseException:
        finishing.writer.remove_written()
        raise
    return SinkResult(RowPositions(is_unique=False), []), done


@contextmanager
def _translate_query_errors(one: Change, query: str) -> Iterator[None]:
    """Context manager: change the messages of Spark's errors about a generated `query`, and re-raise them.

    They refer to places in the user's statement, and suggest no columns that only the query has.
    """
    from pyspark.errors import PySparkException

    def translate(said: str) -> str:
        return relocate_error(one.statement, query, _SUGGESTED.sub("", said))

    try:
        yield
    except PySparkException as error:
        change_message(error, translate)
        raise


@contextmanager
def _translate_value_errors(one: Change) -> Iterator[None]:
    """Context manager: re-raise Spark's errors about values in rows, such as failed casts, as `QueryFailed`.

    Its message names the statement and the table.
    """
    from pyspark.errors import PySparkException

    try:
        yield
    except PySparkException as error:
        if (error.getCondition() or "").partition(".")[0] not in _OF_ROWS:
            raise
        said = str(error).partition("\n== SQL")[0].partition(" SQLSTATE:")[0].strip()
        name = type(one.statement).__name__.upper()
        raise QueryFailed(f"{name} of {one.target.name}: {said} Nothing was changed") from error


def _make_sink_stage(writes: ChangeWrites) -> Any:
    """Return the `mapInArrow` function of the first stage, from rows of the query to bitmaps and descriptions of files.

    Its rows have a file's index or path, a kind, and pickled data.
    """

    def sink_rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        number = task_number()
        sink = ChangeSink(writes, number)
        try:
            for batch in batches:
                sink.take(batch)
            sunk = sink.close()
        except DuplicateMatch as twice:
            sink.undo()
            yield _pickle_row("", _TWICE, (twice.path, twice.position))
            return
        except BaseException:
            sink.undo()
            raise
        for kind, rows in ((_CHANGED, sunk.rows.changed), (_MATCHED, sunk.rows.matched)):
            for file, positions in rows.items():
                yield _pickle_row(str(file), kind, positions.serialize())
        if any((sunk.counts.inserted, sunk.counts.updated, sunk.counts.deleted)):
            # A retried task yields the same key, so no two tasks of the second stage see both results.
            yield _pickle_row(f"task {number}", _SUNK, (sunk.files, sunk.change_files, sunk.counts))

    return sink_rows


def _make_finish_stage(finishing: ChangeRecorder, files: _PlannedFiles) -> Any:
    """Return the `mapInArrow` function of the second stage, from bitmaps sorted by file to written deletes or files."""

    def finish_rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        changed: dict[str, BitMap64] = {}
        matched: dict[str, BitMap64] = {}
        last = None
        for batch in batches:
            for file, kind, data in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                if kind in (_SUNK, _TWICE):
                    yield _pack_row(file, kind, data)
                    continue
                path = files.path(file)
                if path != last and len(changed) >= _FILES:
                    yield _pickle_row("", _FINISHED, finishing.finish(*find_changed_files(files.plan, changed)))
                    changed.clear()
                    matched.clear()
                last = path
                more = BitMap64.deserialize(pickle.loads(data))
                if kind == _CHANGED:
                    unite(changed, path, more)
                    continue
                try:
                    unite_matches(matched, path, more)
                except DuplicateMatch as twice:
                    yield _pickle_row("", _TWICE, (file, twice.position))
        if changed:
            yield _pickle_row("", _FINISHED, finishing.finish(*find_changed_files(files.plan, changed)))

    return finish_rows


def _pickle_row(file: str, kind: str, value: Any) -> pa.RecordBatch:
    return _pack_row(file, kind, pickle.dumps(value, protocol=5))


def _pack_row(file: str, kind: str, data: bytes) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([file]), pa.array([kind]), pa.array([data], pa.binary())], names=_NAMES)


_MODE = "spark.sql.sources.partitionOverwriteMode"
_BY_PATH = re.compile(r"\b`?(delta|iceberg)`?\s*\.\s*`", re.IGNORECASE)


@dataclass(frozen=True)
class RowChange:
    """A statement that changed rows of a lakescan table: the statement, the table's format, and the result."""

    statement: DmlStatement
    format: str
    result: WriteResult | ChangeResult


def run_row_statement(spark: SparkSession, text: str, args: Arguments, frames: Mapping[str, Any]) -> DataFrame | None:
    """Run INSERT, DELETE, UPDATE, MERGE or TRUNCATE TABLE on a lakescan table.

    Returns:
        A frame with the numbers of changed rows, with the columns of Delta's statements; None if the statement does not
        change a lakescan table.
    """
    text, frames = replace_braces(text, frames)
    done = change_rows(spark, text, args, frames)
    if done is None:
        return None
    if isinstance(done.result, WriteResult):
        return _one_row(spark, {"num_affected_rows": done.result.rows, "num_inserted_rows": done.result.rows})
    return count_frame(spark, done.statement, done.result)


def change_rows(spark: SparkSession, text: str, args: Arguments, frames: Mapping[str, Any]) -> RowChange | None:
    """Run INSERT, DELETE, UPDATE, MERGE or TRUNCATE TABLE on a lakescan table.

    `frames` are by their names in the text. None if the statement does not change a lakescan table.
    """
    parsed = _own_statement(spark, text, args, frames)
    if parsed is None:
        return None
    statement, text, values = parsed
    if isinstance(statement, Insert):
        target = changed_table(statement.target, current_namespace(spark), frames, text)
        found = replace(target, session=settings_of_session(spark))
        is_dynamic = (conf(spark, _MODE) or "").lower() == "dynamic"
        run = partial(_insert, spark, frames)
        sensitive, rounds = session_settings(spark).case_sensitive, may_have_rounded(frames)
        written = run_insert(
            statement, found, values, run, dynamic=is_dynamic, case_sensitive=sensitive, checks_floats=rounds
        )
        return RowChange(statement, found.table.format, written)
    with cache_query_settings(spark):
        target = changed_table(statement.target, current_namespace(spark), frames, text)
        done = _run_change(spark, target, statement, values, frames, counts_source=True)
        return RowChange(statement, target.table.format, done)


def changes_own_table(spark: SparkSession, text: str, args: Arguments, frames: Mapping[str, Any]) -> bool:
    """Return whether a statement would change rows of a lakescan table, like `run_row_statement`; it is not run."""
    text, frames = replace_braces(text, frames)
    return _own_statement(spark, text, args, frames) is not None


def _own_statement(
    spark: SparkSession, text: str, args: Arguments, frames: Mapping[str, Any]
) -> tuple[DmlStatement, str, Mapping[str, Any]] | None:
    """Parse a statement that changes a lakescan table; return it, its text with named parameters, and their values.

    None for other statements. Raises the errors of parsing only if the text may be about a lakescan table.
    """
    try:
        text, values = name_parameters(text, args)
        statement = parse(text, values)
    except LakescanError:
        if current_namespace(spark) or _BY_PATH.search(text) or find_catalog(spark, text) is not None:
            raise
        return None
    if statement is None:
        return None
    if (qualified := qualify_target(spark, statement.target)) is not None:
        return replace(statement, target=qualified), text, values
    if _names_spark_table(spark, statement.target, frames):
        return None
    return statement, text, values


def _names_spark_table(spark: SparkSession, name: TableName, frames: Mapping[str, Any]) -> bool:
    """Return whether a statement's target is a table or view of Spark's own catalogs."""
    if not names_table(name, current_namespace(spark), frames):
        return True
    if len(name.parts) > 1:
        return has_catalog(spark, name.parts[0])
    is_given = name.parts[0].lower() in {each.lower() for each in frames}
    return not is_given and is_of_session(spark, name.parts[0])


def count_frame(spark: SparkSession, statement: DmlStatement, result: ChangeResult) -> DataFrame:
    """Return a frame of the numbers of changed rows, with the columns of Delta's statements."""
    counts = {"num_affected_rows": result.inserted + result.updated + result.deleted}
    if not isinstance(statement, Delete | Update):
        counts |= {
            "num_updated_rows": result.updated,
            "num_deleted_rows": result.deleted,
            "num_inserted_rows": result.inserted,
        }
    return _one_row(spark, counts)


def _one_row(spark: SparkSession, values: Mapping[str, int]) -> DataFrame:
    # An Arrow table becomes a local relation, whose rows Spark returns without a job.
    return spark.createDataFrame(pa.table({name: pa.array([value], pa.int64()) for name, value in values.items()}))


def _insert(spark: SparkSession, frames: Mapping[str, Any], one: Insertion) -> WriteResult:
    """Run an INSERT, whose files Spark's workers write; return the numbers of files, rows and bytes."""
    frame, found = analyze_frame(spark, one.query, one.values, frames)
    kinds = [spark_type(kind) for kind in schema_of_rows(frame.schema).types]
    columns = list(zip(frame.columns, kinds, strict=True))
    literals = [spark.sql(f"SELECT {text} AS v").schema for text in one.partition.values()]
    types = [spark_type(schema_of_rows(each).types[0]) for each in literals]
    outputs = one.outputs(columns, types, ansi=session_settings(spark).is_ansi)
    numbered = frame.toDF(*(f"c{n}" for n in range(len(columns))))
    rows = numbered.selectExpr(*(each.text for each in outputs)).toDF(*(each.name for each in outputs))

    def value_of(text: str) -> Any:
        return spark.sql(f"SELECT {text} AS v").toArrow()["v"][0].as_py()

    return one.write(SparkRows(rows), outputs, value_of, reads_target=found.reads_table(one.target.scan.table.location))
