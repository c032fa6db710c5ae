"""Clone a Delta table without copying its files: a new table that names them by their absolute locations."""

from __future__ import annotations

import re
import time
import uuid
from dataclasses import replace
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc

from lakescan.definition.table_changes import SetProperties
from lakescan.delta.alter.changes import altered
from lakescan.delta.alter.state import TableState
from lakescan.delta.commit.commit import Operation
from lakescan.delta.commit.creation import commit_first, is_table
from lakescan.delta.commit.file_changes import ADD, FileChanges, without_empty
from lakescan.delta.commit.live_adds import live_adds, whole_adds
from lakescan.delta.log.actions import VECTOR
from lakescan.delta.log.reader import DeltaVersion, LogReader
from lakescan.delta.metadata.clustering import CLUSTERING
from lakescan.delta.metadata.features import Support
from lakescan.delta.metadata.table_properties import DeltaProperties
from lakescan.delta.scan.deletion_vectors import delete_table
from lakescan.errors import CreatedConcurrently
from lakescan.storage import Storage

_SINCE = (DeltaProperties.in_commit_since.name, DeltaProperties.in_commit_since_time.name)
_ROW_COLUMNS = (DeltaProperties.row_id_column.name, DeltaProperties.row_version_column.name)
_NAMES = ("_row-id-col-", "_row-commit-version-col-")
_OTHERS = re.compile(r"[\x00-\x7f](?<![A-Za-z0-9_.~/!$&'()*+,:;=@-])")  # ASCII that URIs of Java do not keep


def clone_table(
    source: DeltaVersion, source_storage: Storage, location: str, storage: Storage, properties: dict[str, str]
) -> tuple[int, int]:
    """Make a table in a folder of a version's files; returns how many there are, and their bytes.

    Its rows have no ids of the source: with row tracking, they get new ones. Raises `CreatedConcurrently` if there is a
    table, and `UnsupportedFeature` for a source that writers here do not support.
    """
    origin = source.segment.location
    source.protocol.check_readable(origin)
    source.protocol.check_supports(Support.WRITE, "cloning", origin)
    if is_table(location, storage):
        raise CreatedConcurrently(f"a Delta table already exists at {location}")
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
    added = _absolute(whole_adds(source, source_storage, live), live, origin)
    commit_first(
        location,
        Operation("CLONE", parameters, metrics),
        state.protocol,
        state.metadata,
        storage,
        FileChanges(added=added),
        {**domains, **state.domains},
    )
    return live.num_rows, size


def _state(source: DeltaVersion, location: str, properties: dict[str, str]) -> TableState:
    """The source's protocol and metadata as those of a new table, with other properties."""
    configuration = {n: v for n, v in source.metadata.configuration.items() if n not in _SINCE}
    for name, prefix in zip(_ROW_COLUMNS, _NAMES, strict=True):
        if name in configuration:  # files of the source may have ids in its columns, which are not the clone's
            configuration[name] = f"{prefix}{uuid.uuid4()}"
    metadata = replace(
        source.metadata,
        id=str(uuid.uuid4()),
        name=None,
        configuration=configuration,
        created_time=int(time.time() * 1000),
    )
    state = TableState(location, source.protocol, metadata)
    if not properties:
        return state
    return altered(state, [SetProperties(properties)], metadata.schema(), frozenset())


def _absolute(adds: pa.Table, live: pa.Table, origin: str) -> pa.Table:
    """Add actions with the locations of their files and deletion vectors, and without row ids."""
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
    """Descriptors of vectors whose files are named by their locations; those within the log stay."""
    named = pc.fill_null(pc.equal(vectors.field("storageType"), "u"), False)
    if not pc.any(named).as_py():
        return without_empty(vectors)
    places = delete_table(vectors.filter(named), origin)["path"]
    texts = pa.array([_uri(each) for each in places.to_pylist()], pa.string())
    kinds = pc.if_else(named, "p", vectors.field("storageType"))
    where = pc.replace_with_mask(vectors.field("pathOrInlineDv"), named, texts)
    parts = {each.name: vectors.field(each.name) for each in VECTOR}
    parts |= {"storageType": kinds, "pathOrInlineDv": where}
    return without_empty(pa.StructArray.from_arrays(list(parts.values()), fields=list(VECTOR)))


def _uri(location: str) -> str:
    """A location as the URI that logs have. Local paths and letters are written as Hadoop writes them.

    Delta on Spark compares the texts when it changes rows.
    """
    path = re.sub(r"^file:/*/", "/", location)
    encoded = _OTHERS.sub(lambda match: quote(match[0]), path)
    return f"file:{encoded}" if path.startswith("/") else encoded
