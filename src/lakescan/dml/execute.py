"""Runs a statement that changes rows in this process: one query over a state of the table, and one commit."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from lakescan.common import types as t
from lakescan.common.metadata_columns import FILE, POS, ROW_ID
from lakescan.dml.finish import Finished, finish, touched
from lakescan.dml.positions import FoundTwice
from lakescan.dml.select import TARGET, ChangeQuery, Selecting, Statement
from lakescan.dml.sink import ChangeSink, ChangeWrites, Sunk
from lakescan.dml.statements import Action, Delete, Merge, Update
from lakescan.dml.whole_files import changed_by_files
from lakescan.errors import AmbiguousMerge, InvalidStatement
from lakescan.executors import PlanningExecutor
from lakescan.expressions.predicate import Comparison, Predicate, conjunction
from lakescan.query.lazy import Query, query
from lakescan.scan import Scan
from lakescan.scan_spec import ScanSpec
from lakescan.transaction import row_changes
from lakescan.transaction.base import Target
from lakescan.transaction.results import ChangeResult
from lakescan.transaction.row_changes import Mode, RowChanges
from lakescan.transaction.save import removed_on_failure
from lakescan.write.partitioned_writer import new_write_id

_UNSTABLE = re.compile(
    r"\b(rand|randn|random|uuid|shuffle|monotonically_increasing_id|spark_partition_id)\s*\(", re.IGNORECASE
)
_SHOWN = 5  # columns of a row in a message


class Change:
    """One statement, on its way from the target to the commit. Engines run its query, and give its rows to a sink.

    Raises `InvalidStatement` and `UnsupportedFeature` for a statement that cannot be run.
    """

    def __init__(self, target: Target, statement: Statement) -> None:
        target.check_removable()
        self.target, self.statement = target, statement
        self.kind = row_changes.Statement(type(statement).__name__.lower())
        self.mode = target.mode_of(self.kind)
        self.write_id = new_write_id()
        self._check_stable()
        changes = target.change_files
        self._change_writes = None if changes is None else changes.writes
        self._moved = target.writes.of_moved_rows if _updates(statement) else target.writes

    def _check_stable(self) -> None:
        match self.statement:
            case Merge(on=on, clauses=clauses):
                conditions = [on, *(each.condition for each in clauses)]
            case Delete(where=where) | Update(where=where):
                conditions = [where]
        for each in conditions:
            if each is not None and (found := _UNSTABLE.search(each.text)):
                raise InvalidStatement(
                    f"{found[1]}() has another value each time: the condition {each.text.strip()!r} does not say which "
                    "rows to change. Write its values into the source first"
                )

    @property
    def selecting(self) -> Selecting:
        """The query, as far as it is known without the source."""
        writes = self.target.writes
        hidden = self._moved.schema.fields[len(writes.schema.fields) :]
        row_id = next((each.name for each in hidden if each.id == ROW_ID.id), None)
        return Selecting(
            self.statement, writes.schema, frozenset(writes.rules.generated), row_id, self._change_writes is not None
        )

    @property
    def scan(self) -> ScanSpec:
        """The scan of the target that the query reads under the name `select.TARGET`."""
        names = [*self.target.writes.schema.names, FILE.name, POS.name]
        if self.selecting.row_id is not None:
            names.append(self.selecting.row_id)
        return self.target.scan.select_columns(self.target.scan.selectable.select(names))

    @property
    def records_changes(self) -> bool:
        """Whether the table records changes in files of their own (Delta's change data feed)."""
        return self._change_writes is not None

    def writes(self, found: ChangeQuery) -> ChangeWrites:
        """How the rows of the query are written."""
        return ChangeWrites(found, self.target.writes, self._moved, self._change_writes, self.write_id)

    def commit(self, sunk: Sunk, scan: ScanSpec, executor: PlanningExecutor | None) -> ChangeResult:
        """Write deletes, or files without the changed rows, and commit. `scan` is that of the target in the query."""
        written: list[Any] = [*sunk.files, *sunk.change_files]
        writer = self.target.delete_writer(self.write_id) if self.mode is Mode.MERGE_ON_READ else None
        try:
            done = Finished()
            if sunk.rows.changed:
                files, positions = touched(scan.plan().table, sunk.rows.changed)
                done = finish(self.target, files, positions, self.mode, writer, executor)
                written += [*done.files, *done.deletes]
        except BaseException:
            self.target.storage.remove([each.location for each in written])
            raise
        return self.commit_finished(sunk, done, read_by(scan))

    def commit_finished(self, sunk: Sunk, done: Finished, read: Predicate) -> ChangeResult:
        """Commit what is written."""
        files = [*sunk.files, *done.files]
        written: list[Any] = [*files, *sunk.change_files, *done.deletes]
        counts = replace(sunk.counts, copied=sum(each.rows for each in done.files))
        changes = RowChanges(
            self.kind,
            read,
            done.removed,
            done.deletes,
            files,
            None if self._change_writes is None else sunk.change_files,
            counts,
            self._parameters,
        )
        if not changes:
            return ChangeResult()
        with removed_on_failure(self.target, written):
            self.target.change(changes)
        return ChangeResult(
            counts.inserted,
            counts.updated,
            counts.deleted,
            len(files),
            len(done.removed),
            len(done.deletes),
            sum(each.size for each in files),
        )

    @property
    def _parameters(self) -> Mapping[str, str]:
        match self.statement:
            case Merge(on=on):
                return {"predicate": on.text}
            case Delete(where=where) | Update(where=where):
                return {} if where is None else {"predicate": where.text}
        return {}

    def ambiguous(self, twice: FoundTwice) -> AmbiguousMerge:
        """The error for a row of the target that has several matches, with its values."""
        assert isinstance(self.statement, Merge)
        words = {each.lower() for each in re.findall(r"\w+", self.statement.on.text)}
        names = [each for each in self.target.writes.schema.names if each.lower() in words][:_SHOWN]
        where: Predicate = Comparison(FILE.name, op="=", value=twice.path) & Comparison(
            POS.name, op="=", value=twice.position
        )
        rows = (
            Scan(self.target.scan.where(where)).select(*[f"`{n}`" for n in names]).to_arrow().to_pylist()
            if names
            else []
        )
        shown = ", ".join(f"{name} = {value!r}" for name, value in (rows[0] if rows else {}).items())
        return AmbiguousMerge(
            f"MERGE INTO {self.target.name}: the row{f' with {shown}' if shown else ''} matches more than one row of the "
            "source, and which of them counts is not defined. Nothing was changed. Make the source's keys unique, or "
            "add conditions to ON"
        )


def read_by(scan: ScanSpec) -> Predicate:
    """What a scan says of the rows that it read."""
    return conjunction([scan.condition, scan.pruning])


def _updates(statement: Statement) -> bool:
    if isinstance(statement, Merge):
        return any(each.action == Action.UPDATE for each in statement.clauses)
    return isinstance(statement, Update)


def change(
    target: Target,
    statement: Statement,
    frames: Mapping[str, Any],
    arguments: Any = None,
    within: tuple[str, ...] = (),
    executor: PlanningExecutor | None = None,
) -> ChangeResult:
    """Run a statement in this process; `frames` are the data that it names.

    Raises `AmbiguousMerge`, `InvalidStatement`, `SchemaMismatch`, `CommitConflict`, and what reading raises; nothing is
    committed then.
    """
    if target.has_committed():
        return ChangeResult()
    one = Change(target, statement)
    if isinstance(statement, Delete) and not arguments and (quick := changed_by_files(one, executor)) is not None:
        return quick
    run = partial(_query, one, frames, arguments, within)
    selecting = one.selecting
    if isinstance(statement, Merge) and any(each.assignments is None for each in statement.clauses):
        columns = query(f"SELECT * FROM {statement.source}\n", arguments, frames, within).schema.names
        selecting = replace(selecting, source_columns=columns)
    raw = run(selecting.query())
    types = [kind for _, kind in raw.columns]
    found = selecting.query(lambda place, value, column: assigned(value, types[place], column))
    rows = run(found)
    sink = ChangeSink(one.writes(found))
    try:
        for batch in rows.to_batches():
            sink.take(batch)
        sunk = sink.close()
    except FoundTwice as twice:
        sink.undo()
        raise one.ambiguous(twice) from None
    except BaseException:
        sink.undo()
        raise
    return one.commit(sunk, rows.scan_of(TARGET), executor)


def _query(
    one: Change, frames: Mapping[str, Any], arguments: Any, within: tuple[str, ...], found: ChangeQuery
) -> Query:
    return query(found.text, arguments, {**frames, TARGET: Scan(one.scan)}, within)


def assigned(value: str, found: t.Type, column: t.Field) -> str:
    from lakescan.dml.select import sql_type

    if found == column.type or isinstance(column.type, t.Struct | t.ListOf | t.MapOf):
        return value
    return f"CAST({value} AS {sql_type(column.type)})"
