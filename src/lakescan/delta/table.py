"""An open Delta table, as the layers above see it."""

from __future__ import annotations

import itertools
import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakescan import types as t
from lakescan.delta.actions import ActionReader, checkpoint_actions, single_actions
from lakescan.delta.deletion_vectors import delete_table
from lakescan.delta.file_stats import FileStats
from lakescan.delta.kept_rows import kept_rows
from lakescan.delta.log_segment import LOG_FOLDER, LogFile, LogListing, LogSegment, end_of_log, list_log
from lakescan.delta.partition_values import typed_values
from lakescan.delta.protocol import Metadata, Protocol
from lakescan.delta.replay import reconcile
from lakescan.delta.schema_json import parse_schema
from lakescan.delta.time_travel import (
    commit_info,
    commit_times,
    has_in_commit_timestamp,
    in_commit_timestamp,
    version_at,
)
from lakescan.errors import CorruptMetadata, InvalidOption, NoSuchSnapshot, UnsupportedFeature
from lakescan.expressions.predicate import Predicate, conjuncts, leaves
from lakescan.moments import from_millis
from lakescan.planning.column_stats import ColumnStats
from lakescan.planning.file_table import FILES, FileTable, struct_of
from lakescan.planning.metadata_table import MetadataTable
from lakescan.planning.plan import Candidates
from lakescan.planning.prune import might_match, must_match
from lakescan.planning.report import ScanMetrics
from lakescan.planning.table_format import Snapshot, SnapshotSelector
from lakescan.schema import FieldMatching, Schema
from lakescan.storage import Storage, join, split_location

HISTORY = pa.schema(
    [
        pa.field("version", pa.int64(), nullable=False),
        pa.field("timestamp", pa.timestamp("ms", "UTC"), nullable=False),
        pa.field("operation", pa.string()),
        pa.field("operation_parameters", pa.string()),  # JSON
        pa.field("engine_info", pa.string()),
        pa.field("operation_metrics", pa.string()),  # JSON
        pa.field("user_metadata", pa.string()),
    ]
)
_READERS = 8
_BATCH_BYTES, _COMMIT_COST = 1 << 24, 1 << 14


@dataclass(frozen=True)
class DeltaState:
    """What a version's log says of the table as a whole."""

    segment: LogSegment
    protocol: Protocol
    metadata: Metadata


class DeltaTable:
    """A table's log as listed once: versions that are committed later are not seen."""

    name = "delta"

    def __init__(self, location: str, storage: Storage, end: LogListing) -> None:
        self._location, self.storage, self._end = location, storage, end
        self._states: dict[int, DeltaState] = {}

    @staticmethod
    def open(location: str, storage: Storage) -> DeltaTable:
        """Open a table folder; raises `NotATable`."""
        end = end_of_log(location, storage)
        return DeltaTable(location, storage, list_log(location, storage) if end is None else end)

    @cached_property
    def _listing(self) -> LogListing:
        """The whole log, up to the version that was the newest when the table was opened."""
        found = list_log(self._location, self.storage)
        return LogListing(
            self._location,
            tuple(c for c in found.commits if c.version <= self._end.latest),
            tuple(c for c in found.checkpoints if c.version <= self._end.latest),
        )

    def _segment(self, version: int | None = None) -> LogSegment:
        """The segment of a version: from the end of the log where that reaches back so far."""
        near = version is None or self._end.first <= version <= self._end.latest
        return (self._end if near else self._listing).segment(version)

    @property
    def partition_columns(self) -> tuple[str, ...]:
        """The partition columns of the newest version."""
        return self._state(self._segment()).metadata.partition_columns

    @property
    def location(self) -> str:
        """The table's folder."""
        return self._location

    @property
    def partitioning(self) -> str:
        """The partition columns."""
        return ", ".join(self.partition_columns) or "unpartitioned"

    @property
    def sort_order(self) -> str:
        """Delta asks for none."""
        return "unsorted"

    def snapshot(self, selector: SnapshotSelector) -> Snapshot:
        """The selected version; raises `NoSuchSnapshot`, `UnsupportedFeature` for a protocol that is not obeyed."""
        if selector.branch is not None or selector.tag is not None:
            raise UnsupportedFeature("branches and tags of Delta tables", "The format has none: use a version or time.")
        version: int | None = None
        if selector.version is not None:
            version = _version_number(selector.version)
        elif selector.timestamp is not None:
            version = version_at(self._listing, self._times, selector.timestamp)
        state = self._state(self._segment(version))
        moment = self._moment(state)
        state.protocol.check_readable(self._location)
        schema = parse_schema(state.metadata.schema_string, state.metadata.column_mapping_mode, self._location)
        return Snapshot(state.segment.version, moment, "", schema, schema, (), state.metadata.configuration, state)

    def pinned(self, snapshot: Snapshot, selector: SnapshotSelector) -> tuple[str, SnapshotSelector]:
        """The version's number."""
        return self._location, SnapshotSelector(version=snapshot.id)

    def history(self) -> pa.Table:
        """The commits left in the log, oldest first (`HISTORY`)."""

        def read(commit: LogFile) -> dict[str, Any]:
            info = commit_info(self.storage.read(commit.entry.location))
            return {
                "version": commit.version,
                "timestamp": from_millis(self._times[commit.version]),
                "operation": info.get("operation"),
                "operation_parameters": json.dumps(info.get("operationParameters") or {}),
                "engine_info": info.get("engineInfo"),
                "operation_metrics": json.dumps(info.get("operationMetrics") or {}),
                "user_metadata": info.get("userMetadata"),
            }

        with ThreadPoolExecutor(_READERS) as pool:
            return pa.Table.from_pylist(list(pool.map(read, self._listing.commits)), schema=HISTORY)

    @property
    def metadata_tables(self) -> tuple[str, ...]:
        """None yet."""
        return ()

    def metadata_table(self, name: str, snapshot: Snapshot) -> MetadataTable:
        """Raises `InvalidOption`."""
        raise InvalidOption(f"{self._location}: there is no metadata table {name!r} of a Delta table")

    def matching(self, snapshot: Snapshot) -> FieldMatching:
        """By id in the id mode of column mapping, else by physical name."""
        return FieldMatching(by_id=snapshot.state.metadata.column_mapping_mode == "id")

    def plan_files(self, snapshot: Snapshot, predicate: Predicate, metrics: ScanMetrics) -> Candidates:
        """The live files of a version that partition values do not rule out."""
        state: DeltaState = snapshot.state
        partition_fields = [snapshot.schema.field(name) for name in state.metadata.partition_columns]
        adds = self._live_files(state, tuple(f.physical_name for f in partition_fields), metrics)
        if not adds.num_rows:
            return Candidates(FileTable.empty())
        texts = adds["partition"].combine_chunks()
        values = {f.id: typed_values(texts.field(i), f) for i, f in enumerate(partition_fields)}
        exact = {i: ColumnStats.of_constants(v) for i, v in values.items()}
        mask = might_match(predicate, exact, adds.num_rows)
        kept = kept_rows(adds, mask.to_numpy(zero_copy_only=False))
        values = {i: v.filter(mask) for i, v in values.items()}
        exact = {i: s.filter(mask) for i, s in exact.items()}
        proven = [must_match(part, exact, kept.num_rows) for part in conjuncts(predicate)]

        filtered = {leaf.bound_id for leaf in leaves(predicate)} - values.keys()
        stats = _file_stats(kept, snapshot.schema, [snapshot.schema.by_id[i] for i in filtered])
        vectors = kept["vector"].combine_chunks()
        has_vector = pc.is_valid(vectors.field("storageType"))
        deletes = delete_table(vectors.filter(has_vector), self._location)
        metrics.count_indexed(deletes["kind"])
        files = self._file_table(kept, stats.record_counts(), has_vector)
        shown = {f.name: values[f.id] for f in partition_fields}
        constants = {str(i): v for i, v in values.items()}
        files = files.append_column("partition", struct_of(shown, kept.num_rows))
        files = files.append_column("constants", struct_of(constants, kept.num_rows))
        table = FileTable(files, deletes, {**stats.columns(), **exact}, {0: tuple(values)})
        return Candidates(table, proven, adds.num_rows - kept.num_rows)

    def _moment(self, state: DeltaState) -> datetime | None:
        """When the version was committed; None where its commit is no longer in the log."""
        known = (*self._end.commits, *state.segment.commits)
        commit = next((c for c in known if c.version == state.segment.version), None)
        if commit is not None and has_in_commit_timestamp(commit, state.metadata.configuration):
            return from_millis(in_commit_timestamp(commit, self.storage))
        return None if commit is None else commit.entry.modified

    @cached_property
    def _times(self) -> dict[int, int]:
        latest = self._state(self._segment())
        return commit_times(self._listing, latest.metadata.configuration, self.storage)

    def _state(self, segment: LogSegment) -> DeltaState:
        """Protocol and metadata: the newest in the commits, else the checkpoint's."""
        if segment.version in self._states:
            return self._states[segment.version]
        found: dict[str, Any] = {}
        names = ("protocol", "metaData")
        for commit in reversed(segment.commits):
            for name, node in single_actions(self._read(commit), names):
                found.setdefault(name, node)
            if len(found) == len(names):
                break
        for part in segment.checkpoint.parts if segment.checkpoint is not None else ():
            if len(found) < len(names):
                found = {**checkpoint_actions(part.location, self.storage, names), **found}
        for name in names:
            if name not in found:
                raise CorruptMetadata(f"{self._location}: the log has no {name} action up to version {segment.version}")
        if not found["metaData"].get("schemaString"):
            raise CorruptMetadata(f"{self._location}: the metaData action has no schema: the table has no columns yet")
        state = DeltaState(segment, Protocol.parse(found["protocol"]), Metadata.parse(found["metaData"]))
        self._states[segment.version] = state
        return state

    def _read(self, commit: LogFile) -> bytes:
        return self.storage.read(commit.entry.location)

    def _live_files(self, state: DeltaState, partition_columns: tuple[str, ...], metrics: ScanMetrics) -> pa.Table:
        reader = ActionReader(self.storage, partition_columns)
        segment = state.segment
        batches = _batches(segment.commits)
        parts, sidecars = [reader.commits(()).table], []
        with ThreadPoolExecutor(_READERS) as pool:
            checkpoint = [p.location for p in segment.checkpoint.parts] if segment.checkpoint is not None else []
            for found in pool.map(reader.checkpoint_part, checkpoint):
                parts.append(found.table)
                sidecars += [_sidecar(self._location, name) for name in found.sidecars]
            parts += [found.table for found in pool.map(reader.checkpoint_part, sidecars)]
            parts += pool.map(lambda some: reader.commits((c.version, self._read(c)) for c in some).table, batches)
        metrics.total_data_manifests = len(checkpoint) + len(sidecars) + len(segment.commits)
        metrics.scanned_data_manifests = metrics.total_data_manifests
        return reconcile(parts, self._location)

    def _file_table(self, adds: pa.Table, record_counts: pa.Array, has_vector: pa.Array) -> pa.Table:
        rows = adds.num_rows
        counts = has_vector.cast(pa.int32())
        offsets = pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(counts)])
        numbers = pa.array(range(pc.sum(counts).as_py() or 0), pa.int32())
        columns = {
            "path": adds["path"],
            "file_format": pa.repeat(pa.scalar("parquet"), rows),
            "size": adds["size"],
            "record_count": record_counts,
            "spec_id": pa.repeat(pa.scalar(0, pa.int32()), rows),
            "sequence_number": pa.nulls(rows, pa.int64()),
            "first_row_id": pa.nulls(rows, pa.int64()),
            "split_offsets": pa.nulls(rows, pa.list_(pa.int64())),
            "key_metadata": pa.nulls(rows, pa.binary()),
            "deletes": pa.ListArray.from_arrays(offsets, numbers),
        }
        return pa.table(columns, schema=FILES)


def _file_stats(adds: pa.Table, schema: Schema, fields: list[t.Field]) -> FileStats:
    parsed = adds["stats_parsed"].combine_chunks() if "stats_parsed" in adds.column_names else None
    if parsed is not None and not pa.types.is_struct(parsed.type):
        parsed = None
    return FileStats(adds["stats"], parsed, schema, fields)


def _batches(commits: tuple[LogFile, ...]) -> list[tuple[LogFile, ...]]:
    """Commits that are read and parsed together: many small ones, or some megabytes."""
    ends = np.cumsum([c.entry.size + _COMMIT_COST for c in commits]) // _BATCH_BYTES
    cuts = [0, *(np.flatnonzero(np.diff(ends)) + 1).tolist(), len(commits)]
    return [commits[a:b] for a, b in itertools.pairwise(cuts) if b > a]


def _sidecar(location: str, name: str) -> str:
    if split_location(name)[0] != "file" or name.startswith("/"):
        return name
    return join(location, LOG_FOLDER, "_sidecars", name)


def _version_number(version: int | str) -> int:
    try:
        return int(version)
    except ValueError as error:
        raise NoSuchSnapshot(f"{version!r} is not a Delta version: versions are whole numbers from 0") from error
