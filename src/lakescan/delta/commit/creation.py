"""Create a Delta table, or replace one by an empty table, from a table definition."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from lakescan.common import types as t
from lakescan.common.references import dotted_path, parse_reference
from lakescan.definition.table_changes import AddConstraint, SetClustering, default_of
from lakescan.definition.table_definition import IdentityColumn, NewColumnRule, TableDeclarations, TableDefinition, Term
from lakescan.delta.alter.clustering import logical_name, set_clustering
from lakescan.delta.alter.constraints import add_constraint
from lakescan.delta.alter.table_state import TableState, parse_schema_tree
from lakescan.delta.commit.actions import (
    ADD,
    CommitText,
    DeltaFileChanges,
    SetTransaction,
    json_text,
    remove_actions,
)
from lakescan.delta.commit.commit import DeltaCommit, Operation, commit_info_of
from lakescan.delta.commit.commit_file import put_commit
from lakescan.delta.commit.conflicts import ROW_TRACKING, Reads
from lakescan.delta.commit.file_actions import live_adds
from lakescan.delta.commit.post_commit_hooks import run_post_commit_hooks
from lakescan.delta.commit.restore import keep_protection
from lakescan.delta.commit.row_tracking import assign_row_ids, needs_row_ids
from lakescan.delta.commit.staged_commits import check_managed_change, check_not_managed
from lakescan.delta.data_files.column_rules import DeclaredRules
from lakescan.delta.log.reader import DeltaVersion, LogReader
from lakescan.delta.log.segment import LOG_FOLDER, list_log
from lakescan.delta.metadata.features import (
    Support,
    add_dependencies,
    implied_features,
    new_table_features,
    type_feature,
    unsupported_features,
)
from lakescan.delta.metadata.new_schema import IDENTITY_STEP, assign_column_ids, check_partitioning, field_node
from lakescan.delta.metadata.protocol import CLUSTERING, Metadata, Protocol, check_columns, clustering_paths
from lakescan.delta.metadata.table_properties import DeltaProperties, asked_features, checked_properties
from lakescan.errors import CreatedConcurrently, InvalidOption, NotATable, UnsupportedFeature
from lakescan.storage import Storage, join
from lakescan.tables.committer import TableCreator, TablePlace

_READER, _WRITER = DeltaProperties.reader_version.name, DeltaProperties.writer_version.name
_MAPPING, _LAST_ID = DeltaProperties.column_mapping.name, DeltaProperties.max_column_id.name
_ROW_IDS, _ROW_VERSIONS = DeltaProperties.row_id_column.name, DeltaProperties.row_version_column.name


@dataclass(frozen=True)
class NewDelta:
    """A table to be created: its protocol, its metadata, and its metadata domains as JSON texts.

    `clustering` are the physical paths of its clustering columns. `command` is that of the definition.
    """

    protocol: Protocol
    metadata: Metadata
    domains: Mapping[str, str | None] = field(default_factory=dict)
    clustering: tuple[tuple[str, ...], ...] = ()
    command: str = "CREATE TABLE"


@dataclass(frozen=True)
class InitialRows:
    """The rows that a table is created with: the files to add and their metrics for the table's history.

    - `metadata`: the table's metadata with the last values of identity columns; None without such columns.
    - `properties`: commitInfo fields that the user adds.
    - `of_query`: whether the rows come from a query, as in CREATE TABLE AS SELECT.
    - `operation`: the entry in the history, if the table is created by writing to its folder; else None.
    """

    added: pa.Table = field(default_factory=ADD.empty_table)
    metrics: Mapping[str, int] = field(default_factory=dict)
    metadata: Metadata | None = None
    transaction: SetTransaction | None = None
    properties: Mapping[str, Any] = field(default_factory=dict)
    of_query: bool = True
    operation: Operation | None = None


def create_table(location: str, definition: TableDefinition, storage: Storage) -> None:
    """Create an empty table in a folder.

    Raises `CreatedConcurrently` if the folder has a table, and the errors of `new_table` and `put_commit`.
    """
    commit_new_table(location, new_table(definition), storage, InitialRows(of_query=False))


def create_named_table(committer: TableCreator, definition: TableDefinition) -> None:
    """Create an empty table and register its name in a catalog; raises `NoSuchNamespace` and `CreatedConcurrently`."""
    place = committer.place_table(definition.location)
    new = new_table_at(place, definition, str(committer.identifier))
    with committer.name_table(place.location, place.storage):
        commit_new_table(place.location, new, place.storage, InitialRows(of_query=False))


def check_no_table(location: str, storage: Storage) -> None:
    """Raise `CreatedConcurrently` if a folder has a Delta table."""
    if is_table(location, storage):
        raise CreatedConcurrently(f"a Delta table already exists at {location}")


def commit_new_table(location: str, new: NewDelta, storage: Storage, rows: InitialRows) -> None:
    """Create a table in a folder; its version 0 includes the rows.

    Raises `CreatedConcurrently` if the folder already has a table, and the errors of `put_commit`.
    """
    check_no_table(location, storage)
    metadata = rows.metadata or new.metadata
    created = _operation(replace(new, metadata=metadata), rows.of_query, rows.metrics)
    operation = replace(rows.operation or created, is_blind_append=True)
    commit_first(
        location,
        operation,
        new.protocol,
        metadata,
        storage,
        DeltaFileChanges(rows.added),
        new.domains,
        rows.transaction,
        rows.properties,
    )


def commit_first(
    location: str,
    operation: Operation,
    protocol: Protocol,
    metadata: Metadata,
    storage: Storage,
    files: DeltaFileChanges | None = None,
    domains: Mapping[str, str | None] | None = None,
    transaction: SetTransaction | None = None,
    properties: Mapping[str, Any] | None = None,
) -> None:
    """Commit the first version of a table.

    Files get row ids if the table has row tracking. `properties` are commitInfo fields that the user adds. Raises
    `CreatedConcurrently` if the log already has a version 0, and the errors of `put_commit`.
    """
    check_managed_change(location, storage, (protocol, metadata), (protocol, metadata))
    now = int(time.time() * 1000)
    timestamp = {"inCommitTimestamp": now} if metadata.properties.in_commit_timestamps else {}
    own_id = uuid.uuid4().hex
    files, domains = files or DeltaFileChanges(), dict(domains or {})
    if files.added.num_rows and needs_row_ids(protocol, metadata):
        added, mark = assign_row_ids(files.added, -1, 0)
        files = replace(files, added=added)
        domains[ROW_TRACKING] = f'{{"rowIdHighWaterMark":{mark}}}'
    more = {"isolationLevel": "Serializable", **(properties or {})}
    info = commit_info_of(operation, own_id, {**timestamp, "timestamp": now}, more)
    text = CommitText(info, protocol, metadata, transaction, domains, files)
    if not put_commit(storage, location, 0, text.encode(), own_id):
        raise CreatedConcurrently(f"a Delta table already exists at {location}")
    run_post_commit_hooks(location, 0, text, None, storage)


def replace_table(location: str, definition: TableDefinition, storage: Storage) -> None:
    """Replace the table in a folder by an empty one, or create it; earlier versions stay in the history.

    Raises `CommitConflict` if a concurrent commit changes the table, and the errors of `new_table`.
    """
    if not is_table(location, storage):
        return create_table(location, definition, storage)
    commit_table_replacement(
        replaceable_version(location, storage), new_table(definition), storage, InitialRows(of_query=False)
    )
    return None


def replaceable_version(location: str, storage: Storage) -> DeltaVersion:
    """Return the newest version of a table for a replacement.

    Raises `UnsupportedFeature` if it is append-only, catalog-managed, or has features that lakescan cannot write.
    """
    base = LogReader(location, storage).version(list_log(location, storage).segment())
    base.protocol.check_supports(Support.WRITE, "replacing", location)
    check_not_managed(base.protocol, "replacing", location)
    if base.metadata.properties.append_only:
        raise UnsupportedFeature(f"replacing {location}, whose delta.appendOnly is true")
    return base


def as_replacement(base: DeltaVersion, new: NewDelta) -> NewDelta:
    """Return the new table as a replacement of `base`: its protocol keeps the features of `base`.

    Protected checkpoints of `base` stay protected.
    """
    configuration = keep_protection(new.metadata.configuration, base.metadata)
    metadata = replace(new.metadata, configuration=configuration)
    return replace(new, protocol=base.protocol.with_features(new.protocol.features), metadata=metadata)


def commit_table_replacement(base: DeltaVersion, new: NewDelta, storage: Storage, rows: InitialRows) -> None:
    """Replace a table and its rows in one commit; earlier versions stay in the history.

    Raises `CommitConflict` if a concurrent commit changed the table since it was read, and the errors of `DeltaCommit`.
    """
    after = as_replacement(base, new)
    metadata = rows.metadata or after.metadata
    is_clustered = "clustering" in base.protocol.features
    gone = {CLUSTERING: None} if is_clustered and CLUSTERING not in new.domains else {}
    DeltaCommit(
        base,
        storage,
        _operation(
            replace(after, metadata=metadata),
            rows.of_query,
            rows.metrics,
        ),
        DeltaFileChanges(added=rows.added, removed=remove_actions(live_adds(base, storage))),
        Reads.whole_table(),
        metadata,
        None if after.protocol == base.protocol else after.protocol,
        rows.transaction,
        domains={**new.domains, **gone},
        properties=rows.properties,
    ).commit()


def is_table(location: str, storage: Storage) -> bool:
    """Return whether the folder has a Delta log with a commit or a checkpoint, not necessarily from version 0."""
    if not storage.exists(join(location, LOG_FOLDER)):
        return False
    try:
        list_log(location, storage)
    except NotATable:
        return False
    return True


def new_table(definition: TableDefinition) -> NewDelta:
    """Return a new table from its definition.

    Raises `UnsupportedFeature` for definitions that the format cannot record, and `InvalidOption`.
    """
    if definition.primary_key:
        raise UnsupportedFeature("a primary key of a Delta table", "The format has no primary keys.")
    if definition.sort_by:
        raise UnsupportedFeature("a sort order of a Delta table", "The format has no sort orders.")
    if definition.properties.get(_MAPPING) == "id":
        raise InvalidOption(f"'{_MAPPING}'='id' is only for converted tables: use 'name'")
    partition_by = [partition_column(definition, term) for term in definition.partition_by]
    check_partitioning(definition.columns, partition_by)
    brought = declared_features(definition)
    properties = checked_properties(definition.properties)
    asked = asked_features(definition.properties, {*new_table_features(properties), *brought})
    schema = declared_schema(definition)
    if properties.get(_MAPPING, "none") != "none":
        schema, last = assign_column_ids(schema, 0)
        properties[_LAST_ID] = str(last)
    if properties.get(DeltaProperties.row_tracking.name) == "true":
        properties |= {
            _ROW_IDS: f"_row-id-col-{uuid.uuid4()}",
            _ROW_VERSIONS: f"_row-commit-version-col-{uuid.uuid4()}",
        }
    metadata = Metadata(
        str(uuid.uuid4()),
        None,
        definition.comment,
        schema,
        tuple(partition_by),
        {name: value for name, value in properties.items() if name not in (_READER, _WRITER)},  # these set the protocol
        int(time.time() * 1000),
    )
    check_columns(metadata)
    state = add_declarations(
        TableState("the new table", protocol_of(definition, properties, asked.union(brought)), metadata), definition
    )
    return NewDelta(state.protocol, state.metadata, state.domains, state.clustering or (), definition.command)


def new_table_at(place: TablePlace, definition: TableDefinition, name: str) -> NewDelta:
    """Return a new table from its definition and the requirements of its catalog in `place`; `name` is for messages.

    Raises `InvalidOption` for properties with other values than the catalog requires, `UnsupportedFeature` for required
    features that lakescan cannot write, and the errors of `new_table`.
    """
    given = dict(definition.properties)
    for option, value in place.properties.items():
        if value is not None and given.setdefault(option, value) != value:
            raise InvalidOption(f"'{option}'={given[option]!r}: the catalog requires {value!r} of {name}")
    if missing := [option for option, value in place.properties.items() if value is None and option not in given]:
        raise InvalidOption(f"the catalog requires a value of '{missing[0]}' for {name}: set the property")
    if unknown := unsupported_features(place.features, Support.WRITE):
        raise UnsupportedFeature(f"a table with the feature {unknown[0]!r}, which the catalog requires of {name}")
    named = {f"delta.feature.{each.lower()}" for each in place.features}
    kept = {option: value for option, value in given.items() if option.lower() not in named}
    new = new_table(replace(definition, properties=kept, location=place.location))
    return replace(new, protocol=new.protocol.with_features(set(place.features)))


def protocol_of(definition: TableDefinition, properties: Mapping[str, str], declared: Collection[str] = ()) -> Protocol:
    """Return the lowest protocol with all features that a new table needs.

    These are the features of its properties and column types, the `declared` ones, those that the protocol versions in
    its properties imply, and those that these features depend on.
    """
    brought = {type_feature(column.type) for column in t.walk(definition.columns)} - {None}
    features = {*new_table_features(properties), *declared, *(name for name in brought if name is not None)}
    asked = implied_features(int(properties.get(_WRITER, 2)), int(properties.get(_READER, 1)))
    return Protocol.weakest(add_dependencies(features | asked))


def partition_column(definition: TableDefinition, term: Term) -> str:
    """Return the column name of a partition term; raises `UnsupportedFeature` for a transform or a struct field."""
    if term.name != "identity":
        raise UnsupportedFeature(f"partitioning a Delta table by {term}", "Partition it by plain columns.")
    field = definition.schema.field(term.column)
    if field not in definition.columns:
        raise UnsupportedFeature(f"partitioning a Delta table by {term}", "The format has no nested partition columns.")
    return field.name


def _operation(new: NewDelta, of_query: bool, metrics: Mapping[str, int]) -> Operation:
    metadata = new.metadata
    parameters = {
        "isManaged": "false",
        "description": metadata.description,
        "partitionBy": json_text(list(metadata.partition_columns)),
        "clusterBy": json_text([dotted_path(path) for path in new.clustering]),
        "properties": json_text(dict(metadata.configuration)),
    }
    return Operation(f"{new.command} AS SELECT" if of_query else new.command, parameters, metrics)


# Protocol, "Default Columns", "Generated Columns", "Identity Columns", "CHECK Constraints", "Clustered Table".

_NONE = NewColumnRule()
DEFAULT, GENERATED = "CURRENT_DEFAULT", "delta.generationExpression"
START, EXPLICIT = "delta.identity.start", "delta.identity.allowExplicitInsert"
LENGTHS = "__CHAR_VARCHAR_TYPE_STRING"


def declared_features(definition: TableDefinition) -> set[str]:
    """Return the table features that the definition's column rules, constraints and clustering need."""
    rules = [_rule(each, definition) for each in definition.columns]
    features = {
        "allowColumnDefaults": any(each.default is not None for each in rules),
        "generatedColumns": any(each.generated is not None for each in rules),
        "identityColumns": any(each.identity is not None for each in rules),
        "checkConstraints": bool(definition.constraints),
        "clustering": bool(definition.cluster_by),
        "domainMetadata": bool(definition.cluster_by),
    }
    return {name for name, is_there in features.items() if is_there}


def declared_schema(definition: TableDefinition) -> str:
    """Return the columns with their declared rules as schema JSON; raises `UnsupportedFeature` and `InvalidOption`."""
    nodes = []
    for each in definition.columns:
        rule = _rule(each, definition)
        _check(each, rule)
        node = field_node(replace(each, default=None, write_default=None))
        node["metadata"] |= _metadata(rule)
        nodes.append(node)
    return json.dumps({"type": "struct", "fields": nodes}, separators=(",", ":"))


def add_declarations(state: TableState, definition: TableDefinition) -> TableState:
    """Return the state of a new table with the definition's constraints and clustering columns added.

    Raises `UnsupportedFeature` for rules that lakescan's writer cannot enforce.
    """
    for name, condition in definition.constraints.items():
        state = add_constraint(state, AddConstraint(name, condition), state.metadata.schema())
    if definition.cluster_by:
        state = set_clustering(state, SetClustering(definition.cluster_by))
    if definition.rules or definition.constraints:
        schema = state.metadata.schema()
        DeclaredRules(state.protocol, state.metadata, schema, "the new table", datetime.now(UTC)).rules()
    return state


def declarations_of(version: DeltaVersion, storage: Storage) -> TableDeclarations:
    """Return the column rules, clustering columns and constraints of a table, as a definition would declare them."""
    metadata, protocol = version.metadata, version.protocol
    schema = parse_schema_tree(metadata.schema_string)
    rules = {node["name"]: _declared_rule(node.get("metadata") or {}, protocol.features) for node in schema["fields"]}
    paths: Sequence[tuple[str, ...]] = ()
    if "clustering" in protocol.features:
        paths = clustering_paths(LogReader(version.segment.location, storage).domain(version.segment, CLUSTERING))
    return TableDeclarations(
        {name: rule for name, rule in rules.items() if rule != _NONE},
        tuple(parse_reference(logical_name(schema, path)) for path in paths),
        metadata.properties.constraints,
    )


def _declared_rule(metadata: Mapping[str, Any], features: Collection[str]) -> NewColumnRule:
    identity = None
    if IDENTITY_STEP in metadata and "identityColumns" in features:
        identity = IdentityColumn(metadata[START], metadata[IDENTITY_STEP], bool(metadata.get(EXPLICIT)))
    return NewColumnRule(
        metadata.get(DEFAULT) if "allowColumnDefaults" in features else None,
        metadata.get(GENERATED) if "generatedColumns" in features else None,
        identity,
        metadata.get(LENGTHS),
    )


def _rule(column: t.Field, definition: TableDefinition) -> NewColumnRule:
    rule = definition.rules.get(column.name, _NONE)
    if rule.default is None and column.write_default is not None:
        return replace(rule, default=default_of(column.write_default).text)
    return rule


def _check(column: t.Field, rule: NewColumnRule) -> None:
    if sum(each is not None for each in (rule.default, rule.generated, rule.identity)) > 1:
        raise InvalidOption(f"column {column.name!r} has one of DEFAULT, GENERATED ALWAYS AS and IDENTITY, not two")
    if rule.identity is not None and column.type != t.LONG:
        raise UnsupportedFeature(f"the identity column {column.name!r} of type {column.type}", "It is BIGINT in Delta.")
    if rule.identity is not None and rule.identity.step == 0:
        raise InvalidOption(f"INCREMENT BY 0 of column {column.name!r}: all rows would have the same value")


def _metadata(rule: NewColumnRule) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if rule.default is not None:
        found[DEFAULT] = rule.default
    if rule.generated is not None:
        found[GENERATED] = rule.generated
    if rule.identity is not None:
        found |= {START: rule.identity.start, IDENTITY_STEP: rule.identity.step, EXPLICIT: rule.identity.allows_values}
    if rule.lengths is not None:
        found[LENGTHS] = rule.lengths
    return found
