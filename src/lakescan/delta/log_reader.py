"""Reading a Delta log: protocol and metadata of a version, its live files, the files that hold changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakescan import types as t
from lakescan.delta.actions import ActionReader, checkpoint_actions, checkpoint_domains, single_actions
from lakescan.delta.change_feed import changed_files, without_changes
from lakescan.delta.checksum import check_version
from lakescan.delta.log_pieces import LogPiece, batches, pieces_of, read_piece
from lakescan.delta.log_segment import LogFile, LogSegment
from lakescan.delta.log_shares import LogShares, share_count
from lakescan.delta.protocol import Metadata, Protocol
from lakescan.delta.replay import reconcile
from lakescan.delta.scan_files import ScanFiles
from lakescan.delta.schema_json import parse_schema
from lakescan.errors import CorruptMetadata
from lakescan.executors import LOCAL, PlanningExecutor, ShufflingExecutor
from lakescan.planning.candidates import Candidates
from lakescan.planning.increments import Increment
from lakescan.planning.report import ScanMetrics
from lakescan.schema import Schema
from lakescan.storage import Storage


@dataclass(frozen=True)
class DeltaState:
    """What a version's log says of the table as a whole.

    `changes` are the versions of a change feed, both counting; `increment` the files to read instead of all.
    """

    segment: LogSegment
    protocol: Protocol
    metadata: Metadata
    changes: tuple[int, int] | None = None
    increment: Increment | None = None

    def schema(self) -> Schema:
        """The table's columns."""
        mode = self.metadata.column_mapping_mode
        return parse_schema(self.metadata.schema_string, mode, self.segment.location)

    def partition_fields(self, schema: Schema) -> tuple[t.Field, ...]:
        """The partition columns."""
        return tuple(schema.column(name) for name in self.metadata.partition_columns)


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

    def live_files(
        self,
        segment: LogSegment,
        partition_columns: tuple[str, ...],
        metrics: ScanMetrics,
        executor: PlanningExecutor = LOCAL,
    ) -> pa.Table:
        """The adds of a version that no later action took back; partition columns by physical name."""
        reader = ActionReader(self.storage, partition_columns)
        pieces = self._pieces(segment, reader, metrics)
        files = reconcile([reader.commits(()), *executor.map(partial(read_piece, reader), pieces)], self._location)
        size = pc.sum(files["size"]).as_py() or 0
        check_version(self._location, segment.version, files.num_rows, size, self.storage)
        return files

    def live_shares(
        self, segment: LogSegment, planner: ScanFiles, metrics: ScanMetrics, executor: ShufflingExecutor
    ) -> Iterator[Candidates]:
        """The candidates of a version, reconciled and pruned share by share where the executor runs."""
        reader = ActionReader(self.storage, tuple(f.physical_name for f in planner.partition_fields))
        pieces = self._pieces(segment, reader, metrics)
        work = LogShares(reader, self._location, planner, share_count(segment.size))
        files = size = 0
        for share in executor.shuffle(work.split, pieces, work.merge):
            files, size = files + share.files, size + share.size
            yield share.candidates
        check_version(self._location, segment.version, files, size, self.storage)

    def _pieces(self, segment: LogSegment, reader: ActionReader, metrics: ScanMetrics) -> list[LogPiece]:
        pieces = pieces_of(segment, reader)
        metrics.total_data_manifests = sum(len(piece.commits) or 1 for piece in pieces)
        metrics.scanned_data_manifests = metrics.total_data_manifests
        return pieces

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
        for some in batches(commits):
            contents = [(c.version, self.read(c)) for c in some]
            parts.append(reader.changes(contents))
            unchanged |= {version for version, content in contents if without_changes(content)}
        metrics.total_data_manifests = metrics.scanned_data_manifests = len(commits)
        return changed_files(pa.concat_tables(parts), unchanged, times, self._location)
