"""Write checkpoints of a Delta log: the reconciled actions of one version, from which readers begin.

Implements "Checkpoints" of the protocol: classic ones, a single Parquet file, and those of the table feature
`v2Checkpoint`, a Parquet file that names sidecars. The previous checkpoint is copied in batches, without what commits
after it replaced, so that memory holds those commits and the paths of all files, but not their statistics.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common.timestamps import to_millis
from lakescan.delta.commit.catalog_managed import ensure_published
from lakescan.delta.commit.checkpoint_rows import CheckpointRows, LiveFileCounter
from lakescan.delta.commit.checkpoint_writer import CheckpointWriter, WrittenCheckpoint
from lakescan.delta.commit.file_actions import FileActions
from lakescan.delta.commit.known_features import check_known
from lakescan.delta.commit.other_actions import OTHER_ACTIONS, OtherActions
from lakescan.delta.commit.parsed_stats import ParsedStats, columns_with_stats
from lakescan.delta.commit.version_checksum import state_checksum, write_checksum
from lakescan.delta.log.actions import ActionReader
from lakescan.delta.log.checkpoint_actions import checkpoint_actions
from lakescan.delta.log.checksum import check_version
from lakescan.delta.log.json_checksum import CHECKSUM, checksum_of
from lakescan.delta.log.kept_rows import keep_rows
from lakescan.delta.log.reader import DeltaVersion, check_catalog_asked
from lakescan.delta.log.replay import identity, newest_mask, resolve_paths
from lakescan.delta.log.segment import LAST_CHECKPOINT, LOG_FOLDER, LogSegment, end_of_log, list_log
from lakescan.delta.log.segment_parts import LogPiece, batches, pieces_of, read_commits
from lakescan.delta.log.time_travel import commit_info
from lakescan.delta.metadata.protocol import Metadata, Protocol
from lakescan.delta.metadata.table_properties import DeltaProperties
from lakescan.errors import LakescanError
from lakescan.storage import Storage, join
from lakescan.storage.whole_file import publish

_LOG = logging.getLogger("lakescan")
_BATCH = 1 << 16  # actions of commits that are made into rows at once


def is_due(version: int, properties: DeltaProperties) -> bool:
    """Whether a version that was just committed is one to checkpoint (`delta.checkpointInterval`)."""
    return version > 0 and version % properties.checkpoint_interval == 0


def checkpoint_version(
    location: str, version: int, storage: Storage, *, now: datetime | None = None
) -> WrittenCheckpoint:
    """Write a checkpoint of a version of the table at `location`; see `write_checkpoint`.

    Commits that only a catalog knows are published first. Raises `NoSuchSnapshot` if the log does not have the version
    any more.
    """
    ensure_published(location, version, storage)
    listing = end_of_log(location, storage)
    if listing is None or listing.checkpoints[-1].version > version or listing.latest < version:
        listing = list_log(location, storage)
    return write_checkpoint(listing.segment(version), storage, now=now)


def write_checkpoint(segment: LogSegment, storage: Storage, *, now: datetime | None = None) -> WrittenCheckpoint:
    """Write a checkpoint of a segment's version, and point `_last_checkpoint` to it unless that names a newer one.

    As the whole state is read, the version gets a checksum, too, if it has none: that of the next version builds on it.
    Removed files and transactions that have expired at `now` (by default the current time) are left out. Raises
    `UnsupportedFeature` if the log holds what a checkpoint would lose, `CorruptMetadata` and `StorageError`; then the
    table is as before: readers need no checkpoint.

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
    """The version's protocol and metadata; raises `UnsupportedFeature` if its checkpoints may have to hold more."""
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
    """The rows of the reconciled file actions, in batches."""
    segment = version.segment
    names = tuple(f.physical_name for f in rows.partition_fields)
    for actions in _reconcile(segment, FileActions(storage, names), _pieces(segment, names, storage)):
        made = rows.build(actions)
        live.add(made)
        yield made


def _pieces(segment: LogSegment, names: tuple[str, ...], storage: Storage) -> list[LogPiece]:
    return pieces_of(segment, ActionReader(storage, names))


def _reconcile(segment: LogSegment, reader: FileActions, pieces: list[LogPiece]) -> Iterator[pa.Table]:
    """The newest action on each file, in batches: those of the last checkpoint first, then those of commits."""
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
    """Name a checkpoint in the table's `_last_checkpoint`, unless that names a newer one; raises `StorageError`."""
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
