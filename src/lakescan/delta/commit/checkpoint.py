"""Write checkpoints of a Delta log: the reconciled actions of one version, as a starting point for readers.

Implements "Checkpoints" of the protocol: classic checkpoints, which are a single Parquet file, and V2 checkpoints
(table feature `v2Checkpoint`), a Parquet file that lists sidecars. The previous checkpoint is copied in batches,
without the actions that later commits replaced. Memory holds the later commits and the paths of all files, but not the
statistics of all files.
"""

from __future__ import annotations

import itertools
import json
import logging
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakescan.common.timestamps import to_millis
from lakescan.delta.commit.actions import TEXTS
from lakescan.delta.commit.checkpoint_rows import (
    OTHER_ACTIONS,
    CheckpointRows,
    LiveFileCounter,
    OtherActions,
    ParsedStats,
    columns_with_stats,
)
from lakescan.delta.commit.file_actions import FileActions
from lakescan.delta.commit.staged_commits import ensure_published
from lakescan.delta.commit.version_checksum import state_checksum, write_checksum
from lakescan.delta.log.actions import ActionReader
from lakescan.delta.log.checkpoint_files import checkpoint_actions
from lakescan.delta.log.log_pieces import LogPiece, batches, pieces_of, read_commits
from lakescan.delta.log.log_text import CHECKSUM, checksum_of
from lakescan.delta.log.reader import DeltaVersion, check_catalog_asked, check_version
from lakescan.delta.log.replay import identity, keep_rows, newest_mask, resolve_paths
from lakescan.delta.log.segment import LAST_CHECKPOINT, LOG_FOLDER, LogSegment, end_of_log, list_log
from lakescan.delta.log.time_travel import commit_info
from lakescan.delta.metadata.protocol import Metadata, Protocol, check_known
from lakescan.delta.metadata.table_properties import DeltaProperties
from lakescan.errors import LakescanError
from lakescan.storage import Storage, join
from lakescan.storage.errors import storage_boundary
from lakescan.storage.put_if_absent import publish, replace_file

_LOG = logging.getLogger("lakescan")
_BATCH = 1 << 16  # file actions of commits per output batch


def is_due(version: int, properties: DeltaProperties) -> bool:
    """Return whether a newly committed version needs a checkpoint (`delta.checkpointInterval`)."""
    return version > 0 and version % properties.checkpoint_interval == 0


def checkpoint_version(
    location: str, version: int, storage: Storage, *, now: datetime | None = None
) -> WrittenCheckpoint:
    """Write a checkpoint of a version of the table at `location`; see `write_checkpoint`.

    Publishes staged commits of a catalog-managed table first. Raises `NoSuchSnapshot` if the log no longer has the
    version.
    """
    ensure_published(location, version, storage)
    listing = end_of_log(location, storage)
    if listing is None or listing.checkpoints[-1].version > version or listing.latest < version:
        listing = list_log(location, storage)
    return write_checkpoint(listing.segment(version), storage, now=now)


def write_checkpoint(segment: LogSegment, storage: Storage, *, now: datetime | None = None) -> WrittenCheckpoint:
    """Write a checkpoint of the segment's version and update `_last_checkpoint`, unless it names a newer version.

    The version also gets a checksum if it has none, since the whole state is read anyway. Tombstones and transactions
    that have expired at `now` (by default the current time) are left out. Raises `UnsupportedFeature` if the log has
    actions that a checkpoint would lose, `CorruptMetadata` and `StorageError`. The table stays readable after any
    error.

    >>> write_checkpoint(list_log("/lake/orders", Storage()).segment(20), Storage())  # doctest: +SKIP
    CheckpointResult(version=20, location='/lake/orders/_delta_log/00000000000000000020.checkpoint.parquet', ...)
    """
    others = _other_actions(segment, storage)
    version = _read_version(segment, others, storage)
    live = LiveFileCounter(segment.location)
    result = _write_files(version, others, live, storage, now or datetime.now(UTC))
    point_to(result, segment.location, storage)
    _add_checksum(segment, others, live, storage)
    return result


def _add_checksum(segment: LogSegment, others: OtherActions, live: LiveFileCounter, storage: Storage) -> None:
    last = [text for text in read_commits(segment.commits[-1:], storage) if text.version == segment.version]
    actions = [{each.name: each.members} for each in others.live()]
    actions += [{"commitInfo": commit_info(text)} for text in last]
    checksum = state_checksum(live.count, live.size, actions)
    if checksum is None:
        return
    try:
        write_checksum(segment.location, segment.version, checksum, storage)
    except LakescanError as error:
        _LOG.warning("%s: version %d has no checksum: %s", segment.location, segment.version, error)


def _other_actions(segment: LogSegment, storage: Storage) -> OtherActions:
    actions = OtherActions()
    for part in segment.checkpoint.parts if segment.checkpoint is not None else ():
        actions.apply(checkpoint_actions(part.location, storage, tuple(OTHER_ACTIONS)))
    for batch in batches(segment.commits):
        for text in read_commits(batch, storage):
            actions.apply_commit(text)
    return actions


def _read_version(segment: LogSegment, others: OtherActions, storage: Storage) -> DeltaVersion:
    """Return the segment's version with the protocol and metadata in `others`.

    Raises `CorruptMetadata` if one is missing, and `UnsupportedFeature` for unknown table features, whose checkpoints
    may need more content, or for a catalog-managed table that was opened without its catalog.
    """
    protocol, metadata = (
        others.required_action(name, segment.location, segment.version) for name in ("protocol", "metaData")
    )
    version = DeltaVersion(segment, Protocol.parse(protocol), Metadata.parse(metadata))
    check_known(version.protocol, "checkpoints of", segment.location)
    check_catalog_asked(version.protocol.features, segment.location, storage)
    return version


def _write_files(
    version: DeltaVersion, others: OtherActions, live: LiveFileCounter, storage: Storage, now: datetime
) -> WrittenCheckpoint:
    segment, properties = version.segment, version.metadata.properties
    rows = _rows(version, now)

    def adds() -> int:
        live.check()
        check_version(segment.location, segment.version, live.count, live.size, storage)
        return live.count

    retention = properties.transaction_retention
    kept = others.rows(None if retention is None else to_millis(now - retention))
    writer = CheckpointWriter(segment.location, segment.version, storage, rows.schema, kept, adds)
    files = _file_rows(version, rows, live, storage)
    if properties.checkpoint_policy == "v2" and "v2Checkpoint" in version.protocol.features:
        return writer.write_v2(files, to_millis(now))
    return writer.write_classic(files)


def _rows(version: DeltaVersion, now: datetime) -> CheckpointRows:
    schema, metadata = version.schema(), version.metadata
    properties, parsed = metadata.properties, None
    if properties.struct_stats:
        columns = columns_with_stats(schema, metadata.partition_columns, properties)
        parsed = ParsedStats(columns, "deletionVectors" in version.protocol.features)
    return CheckpointRows(
        version.segment.location,
        version.partition_fields(schema),
        properties.json_stats,
        parsed,
        to_millis(now - properties.removed_file_retention),
    )


def _file_rows(
    version: DeltaVersion, rows: CheckpointRows, live: LiveFileCounter, storage: Storage
) -> Iterator[pa.Table]:
    """Yield the checkpoint rows of the reconciled file actions, in batches; `live` counts their adds."""
    segment = version.segment
    names = tuple(f.physical_name for f in rows.partition_fields)
    for actions in _reconcile(segment, FileActions(storage, names), _pieces(segment, names, storage)):
        made = rows.build(actions)
        live.add(made)
        yield made


def _pieces(segment: LogSegment, names: tuple[str, ...], storage: Storage) -> list[LogPiece]:
    return pieces_of(segment, ActionReader(storage, names))


def _reconcile(segment: LogSegment, reader: FileActions, pieces: list[LogPiece]) -> Iterator[pa.Table]:
    """Yield the newest action on each file, in batches: first those of the last checkpoint, then those of commits."""
    texts = (read_commits(piece.commits, reader.storage) for piece in pieces if piece.checkpoint is None)
    recent = pa.concat_tables([reader.empty(), *(reader.commits(each) for each in texts)])
    replaced = pa.array([], pa.string())
    if recent.num_rows:
        found = resolve_paths(recent, segment.location)
        is_newest = newest_mask(found)
        recent, replaced = keep_rows(recent, is_newest), identity(found).filter(pa.array(is_newest))
    for piece in pieces:
        if piece.checkpoint is None:
            continue
        for batch in reader.checkpoint_file(piece.checkpoint.location):
            same = pc.is_in(identity(resolve_paths(batch, segment.location)), value_set=replaced)
            yield keep_rows(batch, np.invert(same.to_numpy(zero_copy_only=False)))
    for start in range(0, recent.num_rows, _BATCH):
        yield recent.slice(start, _BATCH)


def point_to(checkpoint: WrittenCheckpoint, location: str, storage: Storage) -> None:
    """Write the table's `_last_checkpoint` for this checkpoint, unless it already names a newer one.

    Raises `StorageError`.
    """
    listing = end_of_log(location, storage)
    if listing is not None and any(each.version > checkpoint.version for each in listing.checkpoints):
        return
    node: dict[str, Any] = {
        "version": checkpoint.version,
        "size": checkpoint.actions,
        "sizeInBytes": checkpoint.size,
        "numOfAddFiles": checkpoint.adds,
        **checkpoint.details,
    }
    text = json.dumps({**node, CHECKSUM: checksum_of(node)}, separators=(",", ":"))
    publish(storage, join(location, LOG_FOLDER, LAST_CHECKPOINT), text.encode())


SIDECARS = "_sidecars"
_GROUP = 50_000  # actions per row group and per sidecar, as in Delta on Spark
_SIDECAR = pa.struct(
    [("path", pa.string()), ("sizeInBytes", pa.int64()), ("modificationTime", pa.int64()), ("tags", TEXTS)]
)
_OF_V2 = {"checkpointMetadata": pa.struct([("version", pa.int64()), ("tags", TEXTS)]), "sidecar": _SIDECAR}
Row = tuple[str, dict[str, Any]]  # an action: its name, and its fields as values for `pa.array`


@dataclass(frozen=True)
class WrittenCheckpoint:
    """A checkpoint that was written: its version and file location.

    - `actions`, `adds`: the number of all actions, and of add actions, including those in sidecars.
    - `size`: total bytes of the file and its sidecars.
    - `details`: more fields for `_last_checkpoint`.
    """

    version: int
    location: str
    actions: int
    adds: int
    size: int
    details: dict[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class CheckpointWriter:
    """Writes the checkpoint of one version.

    `files` is the schema of the file rows, with the columns `add` and `remove`; `others` are the rows of all other
    actions. `adds` returns the number of adds and is called after the last file row. If it raises, no checkpoint is
    created.
    """

    location: str
    version: int
    storage: Storage
    files: pa.Schema
    others: Sequence[Row]
    adds: Callable[[], int]

    def write_classic(self, rows: Iterable[pa.Table]) -> WrittenCheckpoint:
        """Write the checkpoint as one Parquet file; raises `StorageError`."""
        location = join(self.location, LOG_FOLDER, f"{self.version:020d}.checkpoint.parquet")
        schema = pa.schema([*OTHER_ACTIONS.items(), *self.files])
        first = _as_table(self.others, schema)
        with replace_file(self.storage, location) as stream:
            actions = _write(stream, location, schema, itertools.chain([first], _regroup(rows)))
            size, adds = int(stream.tell()), self.adds()
        return WrittenCheckpoint(self.version, location, actions, adds, size)

    def write_v2(self, rows: Iterable[pa.Table], now: int) -> WrittenCheckpoint:
        """Write sidecars and the Parquet file that lists them; raises `StorageError`.

        `now` is the time in milliseconds since 1970.
        """
        sidecars: list[str] = []
        try:
            return self._write_v2(rows, now, sidecars)
        except BaseException:
            self.storage.remove(sidecars)  # no checkpoint lists them
            raise

    def _write_v2(self, rows: Iterable[pa.Table], now: int, sidecars: list[str]) -> WrittenCheckpoint:
        written: list[dict[str, Any]] = []
        actions = 0
        for group in _regroup(rows):
            name = f"{uuid.uuid4()}.parquet"
            sidecars.append(join(self.location, LOG_FOLDER, SIDECARS, name))
            size = self._write_sidecar(sidecars[-1], group)
            actions += group.num_rows
            written.append({"path": name, "sizeInBytes": size, "modificationTime": now, "tags": []})
        adds, of_sidecars = self.adds(), sum(each["sizeInBytes"] for each in written)
        counts = {"sidecarNumActions": actions, "sidecarSizeInBytes": of_sidecars, "numOfAddFiles": adds}
        tags = [(name, str(count)) for name, count in counts.items()]
        top = [
            ("checkpointMetadata", {"version": self.version, "tags": tags}),
            *(("sidecar", each) for each in written),
        ]
        name = f"{self.version:020d}.checkpoint.{uuid.uuid4()}.parquet"
        location = join(self.location, LOG_FOLDER, name)
        schema = pa.schema([*OTHER_ACTIONS.items(), *self.files, *_OF_V2.items()])
        with replace_file(self.storage, location) as stream:
            actions += _write(stream, location, schema, [_as_table([*top, *self.others], schema)])
            size = int(stream.tell())
        details = {"v2Checkpoint": {"path": name, "sizeInBytes": size, "modificationTime": now}}
        return WrittenCheckpoint(self.version, location, actions, adds, size + of_sidecars, details)

    def _write_sidecar(self, location: str, rows: pa.Table) -> int:
        with self.storage.writing(location) as stream:
            _write(stream, location, self.files, [rows])
            return int(stream.tell())


def _write(stream: pa.NativeFile, location: str, schema: pa.Schema, tables: Iterable[pa.Table]) -> int:
    """Write each table as a row group; return the number of rows."""
    rows = 0
    with pq.ParquetWriter(stream, schema) as writer:
        for table in tables:
            missing = [f for f in schema if f.name not in table.column_names]
            for field in missing:
                table = table.append_column(field, pa.nulls(table.num_rows, field.type))
            with storage_boundary("written", location):
                writer.write_table(table.select(schema.names), row_group_size=max(1, table.num_rows))
            rows += table.num_rows
    return rows


def _as_table(rows: Sequence[Row], schema: pa.Schema) -> pa.Table:
    """Return actions as a table with one column per action name."""
    names = [name for name in schema.names if any(name == each for each, _ in rows)]
    columns = [
        pa.array([node if each == name else None for each, node in rows], schema.field(name).type) for name in names
    ]
    return pa.table(columns, names=names)


def _regroup(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Yield the rows of the tables in tables of `_GROUP` rows; the last one may be shorter."""
    waiting, count = list[pa.Table](), 0
    for table in tables:
        waiting.append(table)
        count += table.num_rows
        while count >= _GROUP:
            whole = pa.concat_tables(waiting)
            yield whole.slice(0, _GROUP)
            waiting, count = [whole.slice(_GROUP)], count - _GROUP
    if count:
        yield pa.concat_tables(waiting)
