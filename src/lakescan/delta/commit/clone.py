"""Shallow clones of Delta tables: a new table that references the source's files by absolute location."""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Mapping
from dataclasses import replace as replace_members
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc

from lakescan.definition.table_changes import SetProperties
from lakescan.delta.alter.changes import apply_changes
from lakescan.delta.alter.table_state import TableState
from lakescan.delta.commit.actions import ADD, DeltaFileChanges, null_empty_vectors
from lakescan.delta.commit.commit import DeltaCommit, Operation
from lakescan.delta.commit.conflicts import Reads
from lakescan.delta.commit.creation import check_no_table, commit_first, is_table
from lakescan.delta.commit.file_actions import live_adds, whole_adds
from lakescan.delta.commit.restore import keep_identity_marks, keep_protection
from lakescan.delta.commit.staged_commits import check_not_managed
from lakescan.delta.log.actions import VECTOR
from lakescan.delta.log.reader import DeltaVersion, LogReader
from lakescan.delta.log.segment import list_log
from lakescan.delta.metadata.features import Support
from lakescan.delta.metadata.protocol import CLUSTERING
from lakescan.delta.metadata.table_properties import DeltaProperties
from lakescan.delta.scan.deletion_vectors import delete_table
from lakescan.delta.table import DeltaTable
from lakescan.errors import UnsupportedFeature
from lakescan.storage import Storage
from lakescan.tables.results import CloneResult
from lakescan.tables.scan_spec import ScanSpec

_OF_HISTORY = (  # properties that refer to versions of the source
    DeltaProperties.in_commit_since.name,
    DeltaProperties.in_commit_since_time.name,
    DeltaProperties.protected_before.name,
)
_ROW_COLUMNS = (DeltaProperties.row_id_column.name, DeltaProperties.row_version_column.name)
_NAMES = ("_row-id-col-", "_row-commit-version-col-")
_OTHERS = re.compile(r"[\x00-\x7f](?<![A-Za-z0-9_.~/!$&'()*+,:;=@-])")  # ASCII that Java's URI encodes


def clone_table(
    source: DeltaVersion,
    source_storage: Storage,
    location: str,
    storage: Storage,
    properties: dict[str, str],
    *,
    replace: bool = False,
) -> tuple[int, int]:
    """Create a Delta table in a folder from a version's files; return their number and total bytes.

    `properties` are set in addition to the source's. Its rows do not keep the source's row ids: with row tracking, they
    get new ones. With `replace`, the folder may have a table without rows: one commit gives it the source's columns,
    layout and files, and its history stays. Raises `CreatedConcurrently` for any other table in the folder,
    `CommitConflict`, and `UnsupportedFeature` for a source that lakescan cannot write or, as in Delta on Spark, a
    target with rows.
    """
    origin = source.segment.location
    source.protocol.check_readable(origin)
    source.protocol.check_supports(Support.WRITE, "cloning", origin)
    check_not_managed(source.protocol, "cloning", origin)
    base = _target_version(location, storage, source) if is_table(location, storage) and replace else None
    if base is None:
        check_no_table(location, storage)
    state = _state(source, location, properties)
    live = live_adds(source, source_storage)
    size: int = pc.sum(live["size"]).as_py() or 0
    metrics = {
        "sourceTableSize": size,
        "sourceNumOfFiles": live.num_rows,
        "numRemovedFiles": 0,
        "numCopiedFiles": 0,
        "removedFilesSize": 0,
        "copiedFilesSize": 0,
    }
    clustering = LogReader(origin, source_storage).domains(source.segment).get(CLUSTERING)
    domains = {} if clustering is None else {CLUSTERING: clustering.text("configuration") or ""}
    parameters = {"source": f"delta.`{origin}`", "sourceVersion": source.segment.version}
    operation = Operation("CLONE", parameters, metrics)
    files = DeltaFileChanges(added=_absolute_adds(whole_adds(source, source_storage, live), live, origin))
    if base is None:
        commit_first(location, operation, state.protocol, state.metadata, storage, files, {**domains, **state.domains})
    else:
        _commit_onto(base, storage, operation, files, state, domains)
    return live.num_rows, size


def _target_version(location: str, storage: Storage, source: DeltaVersion) -> DeltaVersion:
    """Return the newest version of the table that a clone replaces.

    Raises `UnsupportedFeature` if it has rows, another column mapping mode than `source`, or cannot be written.
    """
    base = LogReader(location, storage).version(list_log(location, storage).segment())
    base.protocol.check_supports(Support.WRITE, "cloning onto", location)
    check_not_managed(base.protocol, "cloning onto", location)
    if live_adds(base, storage).num_rows:
        raise UnsupportedFeature(f"cloning onto {location}, which has rows", "Delete them, or drop the table, first.")
    modes = base.metadata.column_mapping_mode, source.metadata.column_mapping_mode
    if modes[0] != modes[1]:
        raise UnsupportedFeature(
            f"cloning onto {location}, whose {DeltaProperties.column_mapping.name} is {modes[0]!r}, a table where it "
            f"is {modes[1]!r}",
            "Drop the table first.",
        )
    return base


def _commit_onto(
    base: DeltaVersion,
    storage: Storage,
    operation: Operation,
    files: DeltaFileChanges,
    state: TableState,
    domains: Mapping[str, str | None],
) -> None:
    """Commit a clone to the table that it replaces, which keeps its id, name and description."""
    old, new = base.metadata, state.metadata
    metadata = replace_members(
        new,
        id=old.id,
        name=old.name,
        description=old.description,
        created_time=old.created_time,
        schema_string=keep_identity_marks(new.schema_string, old.schema_string),
        configuration=keep_protection(new.configuration, old),
    )
    protocol = base.protocol.with_features(state.protocol.features)
    gone = {CLUSTERING: None} if "clustering" in base.protocol.features and CLUSTERING not in domains else {}
    DeltaCommit(
        base,
        storage,
        operation,
        files,
        Reads.whole_table(),
        metadata,
        None if protocol == base.protocol else protocol,
        domains={**gone, **domains, **state.domains},
    ).commit()


def _state(source: DeltaVersion, location: str, properties: dict[str, str]) -> TableState:
    """Return the source's protocol and metadata as those of a new table, with additional properties."""
    configuration = {n: v for n, v in source.metadata.configuration.items() if n not in _OF_HISTORY}
    for name, prefix in zip(_ROW_COLUMNS, _NAMES, strict=True):
        if name in configuration:  # the source's files may store its row ids under these names
            configuration[name] = f"{prefix}{uuid.uuid4()}"
    metadata = replace_members(
        source.metadata,
        id=str(uuid.uuid4()),
        name=None,
        configuration=configuration,
        created_time=int(time.time() * 1000),
    )
    state = TableState(location, source.protocol, metadata)
    if not properties:
        return state
    return apply_changes(state, [SetProperties(properties)], metadata.schema(), frozenset())


def _absolute_adds(adds: pa.Table, live: pa.Table, origin: str) -> pa.Table:
    """Return add actions with absolute locations of data files and deletion vectors, and without row ids.

    `live` are the same files as rows of `live_adds`, and `origin` is the source table's folder.
    """
    rows = adds.num_rows
    paths = pa.array([_uri(each) for each in live["path"].to_pylist()], pa.string())
    columns = {
        "path": paths,
        "deletionVector": _absolute_vectors(live["vector"].combine_chunks(), origin),
        "baseRowId": pa.nulls(rows, pa.int64()),
        "defaultRowCommitVersion": pa.nulls(rows, pa.int64()),
    }
    for name, values in columns.items():
        adds = adds.set_column(adds.column_names.index(name), ADD.field(name), values)
    return adds


def _absolute_vectors(vectors: pa.StructArray, origin: str) -> pa.Array:
    """Return deletion vector descriptors with absolute file locations; inline vectors stay as they are.

    `origin` is the source table's folder, which relative locations refer to.
    """
    named = pc.fill_null(pc.equal(vectors.field("storageType"), "u"), False)
    if not pc.any(named).as_py():
        return null_empty_vectors(vectors)
    places = delete_table(vectors.filter(named), origin)["path"]
    texts = pa.array([_uri(each) for each in places.to_pylist()], pa.string())
    kinds = pc.if_else(named, "p", vectors.field("storageType"))
    where = pc.replace_with_mask(vectors.field("pathOrInlineDv"), named, texts)
    parts = {each.name: vectors.field(each.name) for each in VECTOR}
    parts |= {"storageType": kinds, "pathOrInlineDv": where}
    return null_empty_vectors(pa.StructArray.from_arrays(list(parts.values()), fields=list(VECTOR)))


def _uri(location: str) -> str:
    """Return a location as the URI that logs record, with local paths and escapes as Hadoop writes them.

    Delta on Spark compares these texts when it changes rows.
    """
    path = re.sub(r"^file:/*/", "/", location)
    encoded = _OTHERS.sub(lambda match: quote(match[0]), path)
    return f"file:{encoded}" if path.startswith("/") else encoded


def clone(
    source: ScanSpec, location: str, storage: Storage, properties: Mapping[str, str], *, replace: bool = False
) -> CloneResult:
    """Clone the Delta table version that a scan reads into a folder; see `Table.clone`.

    Raises `UnsupportedFeature` for an Iceberg table, and the errors of `clone_table`.
    """
    table = source.table
    if not isinstance(table, DeltaTable):
        raise UnsupportedFeature(
            f"cloning the Iceberg table {source.location}",
            "Use create_branch or create_tag instead, or write its rows to a new table.",
        )
    version = table.version_of(source.snapshot)
    files, size = clone_table(version, source.storage, location, storage, dict(properties), replace=replace)
    return CloneResult(version.segment.version, size, files)
