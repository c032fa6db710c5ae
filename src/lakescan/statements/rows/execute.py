"""Run a statement that changes rows in this process: one query over a snapshot of the table, and one commit."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from lakescan.api.scan import Scan
from lakescan.api.table import Table
from lakescan.common import types as t
from lakescan.common.executors import PlanningExecutor
from lakescan.common.metadata_columns import FILE, POS, ROW_ID
from lakescan.errors import AmbiguousMerge, InvalidStatement, UnsupportedFeature
from lakescan.expressions.predicate import Comparison, Predicate, conjunction
from lakescan.statements.rows.change_query import TARGET, ChangeQuery, ChangeQueryBuilder, ChangeStatement
from lakescan.statements.rows.change_writer import (
    ChangeOutcome,
    ChangeRecorder,
    ChangeSink,
    ChangeWrites,
    SinkResult,
    find_changed_files,
)
from lakescan.statements.rows.delete_whole_files import delete_by_filter
from lakescan.statements.rows.expressions import (
    check_parts,
    qualify_sides,
    shorten_names,
    translate_error_places,
    unstable_call,
)
from lakescan.statements.rows.insert import insert
from lakescan.statements.rows.matched_rows import DuplicateMatch
from lakescan.statements.rows.merge import SOURCE
from lakescan.statements.rows.store_assignment import MemberRules, column_caster, strip_qualifiers
from lakescan.statements.rows.target import changed_table
from lakescan.statements.select.namespace import current_namespace
from lakescan.statements.select.query import JoinSettings, Query, columns_of, most_rows, query, scan_of
from lakescan.statements.select.session import arrow_table, may_have_rounded
from lakescan.statements.select.timestamps import as_microseconds
from lakescan.statements.syntax.dml import Clause, Delete, Insert, Merge, MergeAction, Update, When
from lakescan.statements.syntax.parse import Arguments, name_parameters
from lakescan.statements.syntax.parse_dml import parse
from lakescan.tables import row_changes
from lakescan.tables.base import Target
from lakescan.tables.capabilities import Overwrites, RowLevelChanges, commit_columns, require
from lakescan.tables.commit_files import add_new_columns, remove_on_failure
from lakescan.tables.copy_on_write import join_small_files
from lakescan.tables.results import ChangeResult, WriteResult
from lakescan.tables.row_changes import OperationTimes, RowChanges
from lakescan.tables.scan_spec import PlanCache, ScanSpec
from lakescan.writing.parquet_writer import new_write_id

_RECORDED = {
    When.MATCHED: "matchedPredicates",
    When.NOT_MATCHED: "notMatchedPredicates",
    When.NOT_MATCHED_BY_SOURCE: "notMatchedBySourcePredicates",
}
_SHOWN = 5  # the number of columns to show of a row in a message


class Change:
    """A statement that changes rows, from opening the target to the commit. An engine runs its query, and feeds a sink.

    - `source_columns`: the names of the source's columns in a MERGE, if they are known yet.
    - `given`: the filter of a DELETE or UPDATE whose condition is not SQL text.
    - `started`: the time when the statement began, on the clock `time.perf_counter`.
    - `pinned`: the target as the statement reads it by name, without columns that the statement adds.
    - `case_sensitive`: whether names of assigned columns must match in case.

    Raises `InvalidStatement` and `UnsupportedFeature` for a statement that cannot be run.
    """

    def __init__(
        self,
        target: Target,
        statement: ChangeStatement,
        source_columns: Sequence[str] = (),
        *,
        given: Predicate | None = None,
        started: float | None = None,
        pinned: ScanSpec | None = None,
        case_sensitive: bool = False,
    ) -> None:
        overwriting = require(target, Overwrites)
        overwriting.check_removable()
        self.started: float = time.perf_counter() if started is None else started
        self._source_columns = source_columns
        self.given = given
        self._case_sensitive = case_sensitive
        self.pinned: ScanSpec = target.scan if pinned is None else pinned
        plain = strip_qualifiers(statement, target.writes.schema.names, case_sensitive=case_sensitive)
        assert not isinstance(plain, Insert)
        check_parts(plain)
        names = target.writes.schema.names
        self.target = target
        self.statement: Delete | Update | Merge = qualify_sides(shorten_names(plain, names), names, source_columns)
        if _writes_rows(plain):
            _check_types(target)
        self.kind: row_changes.RowLevelCommand = row_changes.RowLevelCommand(type(statement).__name__.lower())
        self.mode: row_changes.RowLevelOperationMode = require(target, RowLevelChanges).mode_of(self.kind)
        self.write_id: str = new_write_id()
        self._check_stable()
        changes = overwriting.change_files
        self._plans = PlanCache()
        self._change_writes = None if changes is None else changes.writes
        self._moved = target.writes.lineage_writes if _updates(statement) else target.writes

    def _check_stable(self) -> None:
        match self.statement:
            case Merge(on=on, clauses=clauses):
                conditions = [on, *(each.condition for each in clauses)]
            case Delete(where=where) | Update(where=where):
                conditions = [where]
        for each in conditions:
            if each is not None and (found := unstable_call(each.text)):
                raise InvalidStatement(
                    f"{found}() returns another value at each call, so the condition {each.text.strip()!r} does not "
                    "determine the rows to change. Store its values in the source first"
                )

    @property
    def selecting(self) -> ChangeQueryBuilder:
        """The builder of the query that finds the rows to change.

        In a MERGE, call `with_source` first if `needs_source`.
        """
        writes = self.target.writes
        hidden = self._moved.schema.fields[len(writes.schema.fields) :]
        row_id = next((each.name for each in hidden if each.id == ROW_ID.id), None)
        return ChangeQueryBuilder(
            self.statement,
            writes.schema,
            frozenset(writes.rules.generated),
            row_id,
            self._change_writes is not None,
            self._source_columns,
            identities=frozenset(writes.rules.identities),
            mark=self.write_id,
            case_sensitive=self._case_sensitive,
            places=self.places,
        )

    @property
    def needs_source(self) -> bool:
        """Whether the columns of a MERGE's source are needed before the query can be built.

        They are needed for `*`, to add columns to the target, and for unqualified names of source columns.
        """
        assert isinstance(self.statement, Merge)
        return self.evolves or any(
            each.assignments is None or each.when == When.NOT_MATCHED for each in self.statement.clauses
        )

    @property
    def evolves(self) -> bool:
        """Whether a MERGE adds source columns that the target lacks, by WITH SCHEMA EVOLUTION or `mergeSchema`."""
        assert isinstance(self.statement, Merge)
        return self.statement.with_schema_evolution or self.target.writes.options.merge_schema

    @property
    def members(self) -> MemberRules:
        """The rules for struct members that only the source's values or only the target's columns have."""
        evolves = isinstance(self.statement, Merge) and self.evolves
        takes_texts = not self._capability.follows_jar
        return MemberRules(evolves, evolves and self.target.writes.fills_members, takes_texts)

    def with_source(self, source: pa.Schema) -> Change:
        """Return the change of a MERGE with the source's columns.

        With schema evolution, they are added to the target.
        """
        assert isinstance(self.statement, Merge)
        statement, target = self.statement, self.target
        if self.evolves:
            statement = replace(statement, with_schema_evolution=True)
            set_columns = {each.column[0].lower() for clause in statement.clauses for each in clause.assignments or ()}
            takes_all = any(clause.assignments is None for clause in statement.clauses)
            taken = pa.schema([each for each in source if takes_all or each.name.lower() in set_columns])
            target = add_new_columns(target, taken)
        return Change(
            target,
            statement,
            source.names,
            started=self.started,
            pinned=self.pinned,
            case_sensitive=self._case_sensitive,
        )

    @property
    def scan(self) -> ScanSpec:
        """The scan of the target, with all columns, that the query reads under the name `TARGET`."""
        names = [*self.target.writes.schema.names, *self.places]
        if self.selecting.row_id is not None:
            names.append(self.selecting.row_id)
        scan = self.target.scan if self.given is None else self.target.scan.where(self.given)
        scan = replace(scan, plans=self._plans)
        return scan.select_columns(scan.selectable.select(names))

    @property
    def places(self) -> tuple[str, str]:
        """The names of the target's metadata columns with the data file and the position of a row."""
        names = {each.id: each.name for each in self.target.scan.snapshot.metadata_columns}
        return names[FILE.id], names[POS.id]

    @property
    def records_changes(self) -> bool:
        """Whether the table records changes in separate files (Delta's change data feed)."""
        return self._change_writes is not None

    def writes(self, found: ChangeQuery) -> ChangeWrites:
        """Return the settings for writing the rows of the query `found`."""
        return ChangeWrites(found, self.target.writes, self._moved, self._change_writes, self.write_id)

    @property
    def finishing(self) -> ChangeRecorder:
        """The recorder that removes changed rows from their files, by copy-on-write or merge-on-read."""
        return ChangeRecorder.build(self.target, self.mode, self.write_id)

    def commit(self, sunk: SinkResult, scan: ScanSpec, executor: PlanningExecutor | None) -> ChangeResult:
        """Write deletes, or files without the changed rows, and commit.

        `sunk` has the matched rows and the written files, and `scan` is the target's scan in the query. If writing
        fails, the files of `sunk` are deleted.
        """
        written: list[Any] = [*sunk.files, *sunk.change_files]
        found = time.perf_counter()
        try:
            done = ChangeOutcome()
            if sunk.rows.changed:
                files, positions = find_changed_files(scan.plan().table, sunk.rows.changed)
                pa.default_memory_pool().release_unused()  # free the memory of the query before files are rewritten
                done = self.finishing.finish(files, positions, executor)
                written += [*done.files, *done.deletes]
        except BaseException:
            self.target.storage.remove([each.location for each in written])
            raise
        return self.commit_finished(sunk, done, scan_condition(scan), found)

    def commit_finished(
        self,
        sunk: SinkResult,
        done: ChangeOutcome,
        read: Predicate,
        found: float | None = None,
        *,
        reads_rows: bool = True,
    ) -> ChangeResult:
        """Commit the written files, or only new columns of the table if no row changed.

        - `sunk`: the written rows. `done`: the changes to files with changed rows.
        - `read`: the condition of the rows that the statement read, to find conflicts with concurrent commits.
        - `found`: the time when all rows were found, on the clock `time.perf_counter`.
        - `reads_rows`: whether rows were read to find those to change.

        If the commit fails, the written files are deleted.
        """
        now = time.perf_counter()
        scan, rewrite = (None, None) if found is None else (found - self.started, now - found)
        files = [*sunk.files, *done.files]
        written: list[Any] = [*files, *sunk.change_files, *done.deletes]
        if len(files) > 1 and self._capability.joins_files(self.mode):
            try:
                files = join_small_files(self.target.writes, files)
            except BaseException:
                self.target.storage.remove([each.location for each in written])
                raise
            written = [*files, *sunk.change_files, *done.deletes]
        deleted, copied = done.changed - sunk.counts.updated, sum(each.rows for each in done.files)
        counts = replace(sunk.counts, deleted=deleted, copied=copied)
        changes = RowChanges(
            self.kind,
            read,
            done.removed,
            done.deletes,
            files,
            sunk.change_files or None,  # readers of a change feed infer the changes of files that are removed whole
            counts,
            self._parameters,
            OperationTimes(now - self.started, scan, rewrite),
            reads_rows,
        )
        if not changes and not self._capability.follows_jar:
            commit_columns(self.target)
            return ChangeResult()
        with remove_on_failure(self.target, written):
            require(self.target, RowLevelChanges).change(changes)
        return ChangeResult(
            counts.inserted,
            counts.updated,
            counts.deleted,
            len(files),
            len(done.removed),
            len(done.deletes),
            sum(each.size for each in files),
            note=self.target.writes.note if files else "",
        )

    @property
    def _capability(self) -> RowLevelChanges:
        return require(self.target, RowLevelChanges)

    @property
    def _parameters(self) -> Mapping[str, str]:
        match self.statement:
            case Merge(on=on, clauses=clauses):
                return {
                    "predicate": on.text,
                    **{name: _history_clauses(clauses, when) for when, name in _RECORDED.items()},
                }
            case Delete() | Update() if self.given is not None:
                return {"predicate": str(self.given)}
            case Delete(where=where) | Update(where=where):
                return {} if where is None else {"predicate": where.text}
        return {}

    def ambiguity_error(self, twice: DuplicateMatch) -> AmbiguousMerge:
        """Return the error of a MERGE for the target row `twice` with several matches, showing its key values."""
        assert isinstance(self.statement, Merge)
        words = {each.lower() for each in re.findall(r"\w+", self.statement.on.text)}
        names = [each for each in self.target.writes.schema.names if each.lower() in words][:_SHOWN]
        file, position = self.places
        is_it = Comparison(file, op="=", value=twice.path) & Comparison(position, op="=", value=twice.position)
        scan = self.target.scan.where(is_it)
        rows = Scan(scan.select_columns(scan.selectable.select(names))).to_arrow().to_pylist() if names else []
        shown = ", ".join(f"{name} = {value!r}" for name, value in (rows[0] if rows else {}).items())
        row = f"the row with {shown}" if shown else "a row"
        return AmbiguousMerge(
            f"MERGE INTO {self.target.name}: {row} matches more than one row of the source, and it is not defined "
            "which one to use. Nothing was changed. Make the source's keys unique, or add conditions to ON"
        )


def _check_types(target: Target) -> None:
    """Raise `UnsupportedFeature` for columns with nanoseconds, which the query would round."""
    schema = target.writes.schema
    for column in t.walk(schema.fields):
        if isinstance(column.type, t.Timestamp) and column.type.unit != "us":
            raise UnsupportedFeature(
                f"new values for rows of {target.name}, whose column {schema.path_of[column.id]!r} has nanoseconds",
                "Use append, overwrite and delete.",
            )


def _writes_rows(statement: ChangeStatement) -> bool:
    if isinstance(statement, Merge):
        return any(each.action != MergeAction.DELETE for each in statement.clauses)
    return isinstance(statement, Update)


def scan_condition(scan: ScanSpec) -> Predicate:
    """Return the condition that all rows read by a scan satisfy: its filter and its pruning by join keys."""
    return conjunction([scan.condition, scan.pruning])


def _history_clauses(clauses: Sequence[Clause], when: When) -> str:
    """Return the clauses of a MERGE that apply to `when`, as JSON text for Delta's history."""
    found = []
    for each in clauses:
        if each.when == when:
            condition = {} if each.condition is None else {"predicate": each.condition.text}
            found.append({**condition, "actionType": each.action.value})
    return json.dumps(found, separators=(",", ":"))


def _updates(statement: ChangeStatement) -> bool:
    if isinstance(statement, Merge):
        return any(each.action == MergeAction.UPDATE for each in statement.clauses)
    return isinstance(statement, Update)


def change(
    target: Target,
    statement: ChangeStatement,
    frames: Mapping[str, Any],
    arguments: Any = None,
    within: tuple[str, ...] | None = None,
    executor: PlanningExecutor | None = None,
    *,
    of_sql: bool = True,
    given: Predicate | None = None,
) -> ChangeResult:
    """Run a statement that changes rows. Spark runs it if one of `frames` is a Spark frame.

    - `frames`: the data that the statement names.
    - `arguments`: the values of the statement's parameters.
    - `within`: the catalog and namespace of short names, by default those of `USE`.
    - `executor`: runs the rewriting of files; threads of this process if it is None.
    - `of_sql`: if False, the condition of a DELETE means the same as in `Scan.where`, if it is a filter.
    - `given`: the condition of a DELETE or UPDATE, if it is not SQL text.

    If the transaction of the target is already committed, nothing is done. Raises `AmbiguousMerge`, `InvalidStatement`,
    `SchemaMismatch`, `CommitConflict`, and the errors of reading. Nothing is committed then.
    """
    if target.has_committed():
        return ChangeResult()
    of_spark = [frame for frame in frames.values() if hasattr(frame, "sparkSession")]
    if of_spark:
        from lakescan.spark.statements.dml import change as change_on_spark

        result: ChangeResult = change_on_spark(of_spark[0].sparkSession, target, statement, frames, arguments)
        return result
    rounds = may_have_rounded(frames)
    frames = {name: hold_stream(name, frame) for name, frame in frames.items()}
    for name, frame in frames.items():
        if isinstance(frame, pa.Table):
            as_microseconds(frame, "the source" if name == SOURCE else name)
    one = Change(target, statement, given=given)
    if isinstance(statement, Delete) and not arguments:
        quick = delete_by_filter(one, executor, of_sql=of_sql)
        if quick is not None:
            return quick
    names = current_namespace() if within is None else within

    def run(text: str) -> Query:
        return query_of(one, frames, arguments, names, text)

    if isinstance(statement, Merge) and one.needs_source:
        given_rows = frames.get(SOURCE)
        is_whole = statement.source.text == f"`{SOURCE}`"
        if isinstance(given_rows, pa.Table) and is_whole and not one.evolves:  # no engine is needed for the names
            source = given_rows.schema
        else:
            text = f"SELECT * FROM {statement.source}\n"
            with translate_error_places(statement, text, ()):
                source = run(text).schema
        one = one.with_source(source)
    selecting = one.selecting
    text = selecting.query().text
    with translate_error_places(one.statement, text, target.writes.schema.names):
        raw = run(text)
        types = [kind for _, kind in columns_of(raw)]
    if isinstance(statement, Merge):
        own = scan_of(raw, TARGET).plan().report.records
        selecting = replace(selecting, streams_source=own is not None and most_rows(raw, besides=TARGET) > own)
    found = selecting.query(column_caster(types, ansi=True, checks_floats=rounds, members=one.members))
    rows = run(found.text)
    sink = ChangeSink(one.writes(found))
    try:
        for batch in rows.to_batches():
            sink.take(batch)
        sunk = sink.close()
    except DuplicateMatch as twice:
        sink.undo()
        raise one.ambiguity_error(twice) from None
    except BaseException:
        sink.undo()
        raise
    if isinstance(source_rows := frames.get(SOURCE), pa.Table):
        sunk.counts = replace(sunk.counts, source=source_rows.num_rows)
    return one.commit(sunk, scan_of(rows, TARGET), executor)


def hold_stream(name: str, frame: Any) -> Any:
    """Return data that can be read more than once. Streams and pandas or Polars frames become an Arrow table.

    Raises `InvalidOption`, naming `name`, for an object of another type.
    """
    is_lasting = isinstance(frame, Table | Scan | pa.Table) or hasattr(frame, "sparkSession")
    return frame if is_lasting else arrow_table(name, frame)


def query_of(one: Change, frames: Mapping[str, Any], arguments: Any, within: tuple[str, ...], text: str) -> Query:
    """Return the query `text` of a statement in this process. It reads the target's scan under the name `TARGET`.

    `frames` are the data that the statement names, `arguments` the values of its parameters, and `within` the catalog
    and namespace of short names.
    """
    joins = JoinSettings(one.target.writes.options.memory_limit)
    return query(text, arguments, {**frames, TARGET: Scan(one.scan)}, within, joins=joins, pinned=one.pinned)


def run(
    statement: ChangeStatement, args: Any, frames: Mapping[str, Any], within: tuple[str, ...], text: str | None = None
) -> ChangeResult:
    """Run an SQL statement that changes rows in this process.

    `args` are the values of its parameters by name, `within` is the catalog and namespace of short names, and `text` is
    the statement for messages.
    """
    found = changed_table(statement.target, within, frames, text)
    return found.run({}, lambda target, _: change(target, statement, frames, args or None, within))


def run_statement(
    text: str, args: Arguments, frames: Mapping[str, Any], within: tuple[str, ...]
) -> WriteResult | ChangeResult:
    """Run INSERT, DELETE, UPDATE, MERGE or TRUNCATE TABLE. See `lakescan.sql`.

    Args:
        text: The statement.
        args: The values of its parameters.
        frames: Tables and rows, by the names that the statement uses for them.
        within: The catalog and namespace of short names.
    """
    text, values = name_parameters(text, args)
    statement = parse(text, values)
    if statement is None:
        raise UnsupportedFeature("INSERT OVERWRITE DIRECTORY", "Write the rows of the query: lakescan.sql(query).")
    if isinstance(statement, Insert):
        return insert(statement, values, frames, within, text)
    return run(statement, values, frames, within, text)
