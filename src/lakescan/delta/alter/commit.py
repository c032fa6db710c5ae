"""Commit changes of a Delta table's columns, layout and properties: all of them, or none."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common.references import dotted_path
from lakescan.common.schema import Schema
from lakescan.definition.table_changes import TableChange
from lakescan.delta.alter.changes import apply_changes
from lakescan.delta.alter.columns import physical_path
from lakescan.delta.alter.schema_tree import Path
from lakescan.delta.alter.state import AlterStep, RowCheck, TableState
from lakescan.delta.commit.commit import DeltaCommit, Operation
from lakescan.delta.commit.conflicts import Reads
from lakescan.delta.commit.file_changes import DeltaFileChanges
from lakescan.delta.commit.live_adds import live_adds, whole_adds
from lakescan.delta.data_files.column_rules import DeclaredRules
from lakescan.delta.log.reader import DeltaVersion, LogReader
from lakescan.delta.metadata.clustering import CLUSTERING, clustering_paths
from lakescan.delta.metadata.features import Support
from lakescan.delta.metadata.protocol import Metadata, Protocol
from lakescan.errors import InvalidOption, LakescanError
from lakescan.expressions.scalar.condition import RowCondition
from lakescan.local.run import scan_batches
from lakescan.storage import Storage
from lakescan.tables.scan_spec import ScanSpec
from lakescan.writing.column_rules import example_of


@dataclass(frozen=True)
class DeltaAlteration:
    """Changes to a table that was read at a version; `scan` reads its rows."""

    version: DeltaVersion
    scan: ScanSpec
    storage: Storage
    properties: Mapping[str, Any] = field(default_factory=dict)  # members that the user adds to commitInfo

    def commit(self, changes: Sequence[TableChange]) -> None:
        """Apply the changes to the version, and commit what they make of it; nothing if that is nothing.

        Raises `CommitConflict` if another writer changed the table's columns, properties or protocol, or rows that were
        checked; then the changes can be applied to the newer version.
        """
        before = self.state
        after = apply_changes(before, changes, self._schema, frozenset(self._domains))
        if not after.steps:
            return
        self._check_rules(after)
        for check in after.checks:
            self._check_rows(check, after)
        changes_files = after.backfills or after.strips
        DeltaCommit(
            self.version,
            self.storage,
            alter_operation(after.steps),
            self._files(after) if changes_files else DeltaFileChanges(),
            Reads.whole_table() if after.checks or changes_files else Reads(),
            None if after.metadata == before.metadata else after.metadata,
            None if after.protocol == before.protocol else after.protocol,
            domains=after.domains,
            properties=self.properties,
        ).commit()

    @property
    def _location(self) -> str:
        return self.version.segment.location

    @property
    def _schema(self) -> Schema:
        return self.scan.snapshot.schema

    @cached_property
    def _domains(self) -> dict[str, Any]:
        return LogReader(self._location, self.storage).domains(self.version.segment)

    @property
    def state(self) -> TableState:
        """What the version is before changes; raises `UnsupportedFeature` if writers here do not support it."""
        protocol = self.version.protocol
        protocol.check_supports(Support.WRITE, "altering", self._location)
        is_clustered = "clustering" in protocol.features
        clustering = tuple(clustering_paths(self._domains.get(CLUSTERING))) if is_clustered else None
        return TableState(self._location, protocol, self.version.metadata, clustering)

    def _check_rules(self, after: TableState) -> None:
        """Raise `UnsupportedFeature` if writers here could not obey the rules of columns any more."""
        try:
            self._rules(after.protocol, after.metadata)
        except LakescanError:
            try:
                self._rules(self.version.protocol, self.version.metadata)
            except LakescanError:
                return  # nor could they before
            raise

    def _rules(self, protocol: Protocol, metadata: Metadata) -> None:
        DeclaredRules(protocol, metadata, metadata.schema(), self._location, datetime.now(UTC)).rules()

    def _check_rows(self, check: RowCheck, after: TableState) -> None:
        if check.condition is not None:
            self._check_condition(check, check.condition)
            return
        spec = self.scan
        if check.not_null is not None:
            name = self._base_name(check.not_null, after)
            spec = spec if name is None else spec.where(f"{name} IS NULL")
        if any(batch.num_rows for batch in scan_batches(spec.limit(1))):
            instead = "Fill them first." if check.not_null is not None else "Add it without NOT NULL, and fill it."
            raise InvalidOption(f"{check.refused}. {instead}")

    def _base_name(self, path: Path, after: TableState) -> str | None:
        """The name that rows of the base have for a column; None for one that they do not have."""
        schema, wanted = self._schema, physical_path(after.schema, path)
        for each, name in schema.path_of.items():
            if schema.physical_path(schema.by_id[each]) == wanted:
                return dotted_path(_names_of(schema, each)) if name else None
        return None

    def _check_condition(self, check: RowCheck, text: str) -> None:
        schema = self._schema
        read = RowCondition.parse(text, schema).columns
        names = {schema.top_level_of[each].name for each in read} or {schema.names[0]}
        spec = self.scan.narrow_columns(names)
        condition, count, example = RowCondition.parse(text, spec.output), 0, ""
        for batch in scan_batches(spec):
            fails = pc.invert(condition.holds(batch))
            if failed := pc.sum(fails).as_py():
                example = example or example_of(batch, fails, spec.output, condition.columns)
                count += failed
        if count:
            more = f". For example: {example}" if example else ""
            raise InvalidOption(f"{count:,} rows {check.refused}: {text}{more}. Change or delete them first")

    def _files(self, after: TableState) -> DeltaFileChanges:
        """All live files, to be committed again: with row ids, which the commit assigns, or without any."""
        live = live_adds(self.version, self.storage)
        before = whole_adds(self.version, self.storage, live)
        added = _set_column(before, "dataChange", pa.repeat(pa.scalar(False), before.num_rows))
        if after.strips:
            for name in ("baseRowId", "defaultRowCommitVersion"):
                added = _set_column(added, name, pa.nulls(before.num_rows, pa.int64()))
        return DeltaFileChanges(added=added, replaced=before)


def _set_column(files: pa.Table, name: str, values: pa.Array) -> pa.Table:
    place = files.column_names.index(name)
    return files.set_column(place, files.schema.field(place), values)


def _names_of(schema: Schema, field_id: int) -> list[str]:
    """The names of a member of structs, from its column down."""
    return [each.name for each in schema.struct_path(field_id)]


def alter_operation(steps: Sequence[AlterStep]) -> Operation:
    """Return changes as Delta's history has them: those of one kind as one, others as `ALTER TABLE` with a list."""
    names = {step.name for step in steps}
    first = steps[0]
    if len(steps) == 1:
        return Operation(first.name, _texts(first.parameters))
    if names <= {"ADD COLUMNS"} or names <= {"DROP COLUMNS"}:
        columns = [each for step in steps for each in step.parameters["columns"]]
        return Operation(first.name, _texts({"columns": columns}))
    if names <= {"CHANGE COLUMN"}:
        columns = [{**step.parameters["column"], **_place(step)} for step in steps]
        return Operation("CHANGE COLUMNS", _texts({"columns": columns}))
    if names <= {"SET TBLPROPERTIES"}:
        properties = {k: v for step in steps for k, v in json.loads(step.parameters["properties"]).items()}
        return Operation(first.name, {"properties": _json(properties)})
    changes = [{"operation": step.name, **step.parameters} for step in steps]
    return Operation("ALTER TABLE", {"changes": _json(changes)})


def _place(step: AlterStep) -> dict[str, Any]:
    return {"position": step.parameters["position"]} if "position" in step.parameters else {}


def _texts(parameters: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _json(value) if isinstance(value, list | dict) else value for name, value in parameters.items()}


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
