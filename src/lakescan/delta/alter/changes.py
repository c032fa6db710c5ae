"""Apply table changes to a Delta table, in order; reject changes that the format cannot express."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common import types as t
from lakescan.common.references import dotted_path
from lakescan.common.schema import Schema
from lakescan.definition.table_changes import (
    AddColumn,
    AddConstraint,
    AddPartition,
    ChangeColumn,
    Default,
    DropColumn,
    DropConstraint,
    DropFeature,
    DropKey,
    DropPartition,
    RenameColumn,
    ReplaceColumns,
    ReplacePartition,
    SetClustering,
    SetComment,
    SetKey,
    SetLocation,
    SetOrder,
    SetProperties,
    TableChange,
    UnsetProperties,
)
from lakescan.delta.alter.clustering import set_clustering
from lakescan.delta.alter.columns import (
    DEFAULT,
    add_column,
    as_logged,
    change_column,
    check_droppable,
    check_mapped,
    check_names,
    drop_column,
    drop_stats_column,
    physical_path,
    rename_column,
    with_mapping,
    with_types,
)
from lakescan.delta.alter.constraints import add_constraint, drop_constraint
from lakescan.delta.alter.droppable_features import drop_writer_feature
from lakescan.delta.alter.properties import set_comment, set_properties, unset_properties
from lakescan.delta.alter.table_state import AlterStep, Node, Path, RowCheck, TableState, find_field
from lakescan.delta.alter.type_widening import widen
from lakescan.delta.commit.actions import DeltaFileChanges, json_text
from lakescan.delta.commit.commit import DeltaCommit, Operation
from lakescan.delta.commit.conflicts import Reads
from lakescan.delta.commit.file_actions import live_adds, whole_adds
from lakescan.delta.data_files.column_rules import DeclaredRules
from lakescan.delta.log.reader import DeltaVersion, LogReader
from lakescan.delta.metadata.features import Support
from lakescan.delta.metadata.new_schema import IDENTITY_STEP, field_node, type_node
from lakescan.delta.metadata.protocol import CLUSTERING, Metadata, Protocol, clustering_paths
from lakescan.errors import InvalidOption, LakescanError, UnsupportedFeature
from lakescan.expressions.row_condition import RowCondition
from lakescan.local.reader import scan_batches
from lakescan.storage import Storage
from lakescan.tables.scan_spec import ScanSpec
from lakescan.writing.column_rules import example_of


def apply_changes(
    state: TableState, changes: Sequence[TableChange], base: Schema, domains: frozenset[str]
) -> TableState:
    """Return the table state after the changes.

    Args:
        state: The table before the changes.
        changes: The changes, in order.
        base: The schema of the committed version, which its rows have.
        domains: The names of the table's metadata domains.

    Raises:
        NoSuchColumn: A change names a column that does not exist.
        InvalidOption: A change is not possible.
        UnsupportedFeature: The format, or lakescan's writer, does not support a change.
    """
    for change in changes:
        state = _apply_change(state, change, base, domains)
    return state


def _apply_change(state: TableState, change: TableChange, base: Schema, domains: frozenset[str]) -> TableState:
    match change:
        case AddColumn():
            return add_column(state, change)
        case DropColumn():
            return drop_column(state, change)
        case RenameColumn():
            return rename_column(state, change)
        case ChangeColumn():
            return change_column(state, change)
        case ReplaceColumns():
            return replace_columns(state, change)
        case SetProperties():
            return set_properties(state, change)
        case UnsetProperties():
            return unset_properties(state, change)
        case SetComment():
            return set_comment(state, change)
        case SetClustering():
            return set_clustering(state, change)
        case AddConstraint():
            return add_constraint(state, change, base)
        case DropConstraint():
            return drop_constraint(state, change)
        case DropFeature():
            return drop_writer_feature(state, change, domains)
        case SetKey() | DropKey():
            raise UnsupportedFeature(f"a key of the Delta table {state.location}", "The format has no primary keys.")
        case AddPartition() | DropPartition() | ReplacePartition():
            raise UnsupportedFeature(
                f"changing the partitions of the Delta table {state.location}",
                "Write it to a new table, or overwrite it by CREATE OR REPLACE TABLE ... PARTITIONED BY.",
            )
        case SetOrder():
            raise UnsupportedFeature(
                f"a sort order of the Delta table {state.location}",
                "Cluster it, ALTER TABLE ... CLUSTER BY, or sort its files: compact(strategy='sort', sort_order=...).",
            )
        case SetLocation():
            raise UnsupportedFeature(
                f"another location of the Delta table {state.location}",
                "A Delta table is its folder: give the other folder a name by register_table.",
            )


def replace_columns(state: TableState, change: ReplaceColumns) -> TableState:
    """Replace the columns of the table; a column that keeps its name keeps its values.

    As in Delta, one statement cannot both add and drop columns, since one of them may be meant as a rename. Raises
    `InvalidOption` and `UnsupportedFeature`.
    """
    schema = state.schema
    columns = tuple(replace(each, default=None, write_default=None) for each in change.columns)
    wanted = {each.name.lower(): each for each in columns}
    if any(IDENTITY_STEP in (each.get("metadata") or {}) for each in schema["fields"]):
        raise UnsupportedFeature(f"REPLACE COLUMNS of {state.location}, which has identity columns")
    if len(wanted) < len(columns):
        raise InvalidOption("REPLACE COLUMNS has two columns with one name")
    before = {each["name"].lower(): each for each in schema["fields"]}
    dropped = [each for name, each in before.items() if name not in wanted]
    added = [each for name, each in wanted.items() if name not in before]
    if dropped and added:
        raise UnsupportedFeature(
            f"REPLACE COLUMNS of {state.location} that adds {added[0].name!r} and drops {dropped[0]['name']!r}",
            "One may be meant as the other renamed: use RENAME COLUMN, or ADD COLUMNS and DROP COLUMNS.",
        )
    check_names(state, added)
    after = state
    for each in dropped:
        check_mapped(state, f"dropping column {dotted_path((each['name'],))}")
        check_droppable(state, schema, find_field(schema, (each["name"],)))
        after = drop_stats_column(after, (each["name"],))
    fields = []
    for each in columns:
        if (node := before.get(each.name.lower())) is None:
            fields.append(_new_column(state, each, change))
            if each.required:
                after = after.with_check(RowCheck(f"adding column {each.name!r} NOT NULL to {state.location}"))
            continue
        after = _update_column(after, state, schema, node, each)
        _set_default(state, node, change.defaults.get(each.name))
        fields.append(node)
    if {each["name"] for each in fields} <= {*state.metadata.partition_columns}:
        raise UnsupportedFeature(f"REPLACE COLUMNS of {state.location} that keeps only partition columns")
    schema["fields"] = fields
    after = with_types(with_mapping(after.with_schema(schema)), columns)
    logged: list[Any] = [as_logged((), field_node(each)) for each in columns]
    return after.with_step("REPLACE COLUMNS", columns=logged)


def _update_column(after: TableState, state: TableState, schema: Node, node: Node, wanted: t.Field) -> TableState:
    """Give the existing column `node` the wanted type, comment and nullability; return the state with any row check.

    `node` is changed in place. `state` is the table before the statement, and `after` the state so far.
    """
    found = find_field(schema, (node["name"],))
    if isinstance(node["type"], dict) or isinstance(type_node(wanted.type), dict):
        own = next(each for each in state.metadata.schema().fields if each.name == node["name"])
        if not _same_type(own.type, wanted.type):
            raise UnsupportedFeature(
                f"changing the type of column {wanted.name!r} of {state.location} by REPLACE COLUMNS",
                "Add, drop and change its members one by one.",
            )
    else:
        widen(state, found, wanted.type)
    if wanted.doc is not None:
        found.metadata["comment"] = wanted.doc
    nullable = bool(node.get("nullable", True))
    node["nullable"] = not wanted.required
    if wanted.required and nullable:
        why = f"column {wanted.name!r} of {state.location} as NOT NULL, which has nulls"
        return after.with_check(RowCheck(why, not_null=found.path))
    return after


def _new_column(state: TableState, wanted: t.Field, change: ReplaceColumns) -> Node:
    node = field_node(wanted)
    _set_default(state, node, change.defaults.get(wanted.name))
    return node


def _set_default(state: TableState, node: Node, default: Default | None) -> None:
    if default is None:
        (node.get("metadata") or {}).pop(DEFAULT, None)
        return
    if "allowColumnDefaults" not in state.protocol.features:
        raise UnsupportedFeature(
            f"a default of column {node['name']!r} of {state.location}",
            "Set 'delta.feature.allowColumnDefaults'='supported' first: ALTER TABLE ... SET TBLPROPERTIES.",
        )
    node["metadata"][DEFAULT] = default.text


def _same_type(one: t.Type, other: t.Type) -> bool:
    return str(one) == str(other)


@dataclass(frozen=True)
class DeltaAlteration:
    """Changes to a table that was read at a version.

    `scan` reads the rows of that version, and `properties` are commitInfo fields that the user adds.
    """

    version: DeltaVersion
    scan: ScanSpec
    storage: Storage
    properties: Mapping[str, Any] = field(default_factory=dict)  # members that the user adds to commitInfo

    def commit(self, changes: Sequence[TableChange]) -> None:
        """Apply the changes to the version and commit the result; commit nothing if the changes have no effect.

        Raises `CommitConflict` if a concurrent commit changed the table's columns, properties or protocol, or rows that
        were checked. The changes can then be applied to the newer version.
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
        """The table before the changes; raises `UnsupportedFeature` if lakescan cannot write the table."""
        protocol = self.version.protocol
        protocol.check_supports(Support.WRITE, "altering", self._location)
        is_clustered = "clustering" in protocol.features
        clustering = tuple(clustering_paths(self._domains.get(CLUSTERING))) if is_clustered else None
        return TableState(self._location, protocol, self.version.metadata, clustering)

    def _check_rules(self, after: TableState) -> None:
        """Raise an error, usually `UnsupportedFeature`, for new column rules that lakescan's writer cannot enforce.

        Nothing is raised if the rules before the changes could not be enforced either.
        """
        try:
            self._rules(after.protocol, after.metadata)
        except LakescanError:
            try:
                self._rules(self.version.protocol, self.version.metadata)
            except LakescanError:
                return  # the rules could not be enforced before the changes either
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
        """Return the name of a column in the rows of the base version, or None for a column that they do not have.

        `path` is its path in the schema of `after`; columns are compared by physical names.
        """
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
        """Return all live files, to be added again: with row ids, which the commit assigns, or with row ids removed."""
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
    """Return the names of the struct fields that lead to a field, from its column down."""
    return [each.name for each in schema.struct_path(field_id)]


def alter_operation(steps: Sequence[AlterStep]) -> Operation:
    """Return the changes as one operation of Delta's history.

    Changes of one kind become one operation of that kind; others become `ALTER TABLE` with a list of changes.
    """
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
        return Operation(first.name, {"properties": json_text(properties)})
    changes = [{"operation": step.name, **step.parameters} for step in steps]
    return Operation("ALTER TABLE", {"changes": json_text(changes)})


def _place(step: AlterStep) -> dict[str, Any]:
    return {"position": step.parameters["position"]} if "position" in step.parameters else {}


def _texts(parameters: Mapping[str, Any]) -> dict[str, Any]:
    return {name: json_text(value) if isinstance(value, list | dict) else value for name, value in parameters.items()}
