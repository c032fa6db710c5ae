"""Reading a Delta log: protocol and metadata of a version, its live files, the files that hold changes.

What is parsed of commits is kept in the cache of metadata: they are never written again.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakescan import types as t
from lakescan.caching import METADATA
from lakescan.delta.actions import ActionReader, checkpoint_actions, checkpoint_domains, single_actions
from lakescan.delta.change_feed import changed_files, without_changes
from lakescan.delta.checksum import check_version
from lakescan.delta.log_segment import LOG_FOLDER, LogFile, LogSegment
from lakescan.delta.protocol import Metadata, Protocol
from lakescan.delta.replay import reconcile
from lakescan.delta.schema_json import parse_schema
from lakescan.errors import CorruptMetadata
from lakescan.planning.report import ScanMetrics
from lakescan.schema import Schema
from lakescan.storage import Storage, join, split_location

_READERS = 8
_BATCH_BYTES, _COMMIT_COST = 1 << 24, 1 << 14


@dataclass(frozen=True)
class DeltaState:
    """What a version's log says of the table as a whole; `changes` are the versions of a change feed, both counting."""

    segment: LogSegment
    protocol: Protocol
    metadata: Metadata
    changes: tuple[int, int] | None = None

    def schema(self) -> Schema:
        """The table's columns."""
        mode = self.metadata.column_mapping_mode
        return parse_schema(self.metadata.schema_string, mode, self.segment.location)

    def partition_fields(self, schema: Schema) -> tuple[t.Field, ...]:
        """The partition columns."""
        return tuple(schema.field(name) for name in self.metadata.partition_columns)


class LogReader:
    """Reads the files of one table's log."""

    def __init__(self, location: str, storage: Storage) -> None:
        self._location, self.storage = location, storage
        self._states: dict[int, DeltaState] = {}

    def read(self, commit: LogFile) -> bytes:
        """A commit's text."""
        return self.storage.read(commit.entry.location)

    def state(self, segment: LogSegment) -> DeltaState:
        """Protocol and metadata: the newest in the commits, else the checkpoint's."""
        if segment.version in self._states:
            return self._states[segment.version]
        found: dict[str, Any] = {}
        names = ("protocol", "metaData")
        for commit in reversed(segment.commits):
            for name, node in single_actions(self.read(commit), names):
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

    def domain(self, segment: LogSegment, domain: str) -> dict[str, Any] | None:
        """The newest metadata of a domain, if it has any."""
        for commit in reversed(segment.commits):
            for _, node in single_actions(self.read(commit), ("domainMetadata",)):
                if node["domain"] == domain:
                    return None if node.get("removed") else node
        parts = segment.checkpoint.parts if segment.checkpoint is not None else ()
        nodes = (n for part in parts for n in checkpoint_domains(part.location, self.storage))
        return next((n for n in nodes if n["domain"] == domain), None)

    def live_files(self, segment: LogSegment, partition_columns: tuple[str, ...], metrics: ScanMetrics) -> pa.Table:
        """The adds of a version that no later action took back; partition columns by physical name."""
        reader = ActionReader(self.storage, partition_columns)
        batches = _batches(segment.commits)
        parts, sidecars = [reader.commits(()).table], []
        with ThreadPoolExecutor(_READERS) as pool:
            checkpoint = [p.location for p in segment.checkpoint.parts] if segment.checkpoint is not None else []
            for found in pool.map(reader.checkpoint_part, checkpoint):
                parts.append(found.table)
                sidecars += [_sidecar(self._location, name) for name in found.sidecars]
            parts += [found.table for found in pool.map(reader.checkpoint_part, sidecars)]
            parts += pool.map(lambda some: self._cached_commits(reader, some), batches)
        metrics.total_data_manifests = len(checkpoint) + len(sidecars) + len(segment.commits)
        metrics.scanned_data_manifests = metrics.total_data_manifests
        files = reconcile(parts, self._location)
        size = pc.sum(files["size"]).as_py() or 0
        check_version(self._location, segment.version, files.num_rows, size, self.storage)
        return files

    def changed_files(
        self,
        commits: tuple[LogFile, ...],
        times: Mapping[int, int],
        partition_columns: tuple[str, ...],
        metrics: ScanMetrics,
    ) -> pa.Table:
        """The files that hold what some commits changed (see `change_feed.changed_files`)."""
        reader = ActionReader(self.storage, partition_columns)
        parts, unchanged = [reader.changes(())], set()
        for some in _batches(commits):
            contents = [(c.version, self.read(c)) for c in some]
            parts.append(reader.changes(contents))
            unchanged |= {version for version, content in contents if without_changes(content)}
        metrics.total_data_manifests = metrics.scanned_data_manifests = len(commits)
        return changed_files(pa.concat_tables(parts), unchanged, times, self._location)

    def _cached_commits(self, reader: ActionReader, commits: tuple[LogFile, ...]) -> pa.Table:
        """The file actions of some commits: those are never written again."""
        files = tuple((c.entry.location, c.entry.size, c.entry.modified) for c in commits)
        key = (files, reader.partition_columns, self.storage.identity)
        return METADATA.get(key, lambda: reader.commits((c.version, self.read(c)) for c in commits).table)


def _batches(commits: tuple[LogFile, ...]) -> list[tuple[LogFile, ...]]:
    """Commits that are read and parsed together: many small ones, or some megabytes."""
    ends = np.cumsum([c.entry.size + _COMMIT_COST for c in commits]) // _BATCH_BYTES
    cuts = [0, *(np.flatnonzero(np.diff(ends)) + 1).tolist(), len(commits)]
    return [commits[a:b] for a, b in itertools.pairwise(cuts) if b > a]


def _sidecar(location: str, name: str) -> str:
    if split_location(name)[0] != "file" or name.startswith("/"):
        return name
    return join(location, LOG_FOLDER, "_sidecars", name)
