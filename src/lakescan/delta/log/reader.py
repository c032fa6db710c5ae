"""Read a Delta log: a version's protocol and metadata, its live files, and its change data files."""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice

import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common import types as t
from lakescan.common.cache import CacheKind, table_size
from lakescan.common.executors import LOCAL, PlanningExecutor, ShufflingExecutor
from lakescan.common.schema import Schema
from lakescan.delta.log.actions import ActionReader
from lakescan.delta.log.catalog_managed import FEATURES as _MANAGED
from lakescan.delta.log.catalog_managed import find_managed_table
from lakescan.delta.log.checkpoint_files import checkpoint_actions
from lakescan.delta.log.log_pieces import LogPiece, batches, pieces_of, read_commits, read_piece
from lakescan.delta.log.log_text import (
    ADVICE,
    Action,
    LogText,
    as_long,
    only_actions,
    parse_object,
    short_json,
    single_actions,
)
from lakescan.delta.log.partitioned_replay import LogShares, share_count
from lakescan.delta.log.replay import live_files, update_live_files
from lakescan.delta.log.segment import LAST_CHECKPOINT, LOG_FOLDER, LogFile, LogSegment, commits_between
from lakescan.delta.metadata.features import why_not_read
from lakescan.delta.metadata.protocol import Metadata, Protocol
from lakescan.delta.scan.change_feed import changed_files, has_no_changes
from lakescan.delta.scan.scan_files import DeltaScanFiles
from lakescan.delta.scan.statistics import add_record_counts
from lakescan.errors import CorruptMetadata, LakescanError, MissingFile, UnsupportedFeature
from lakescan.planning.candidates import Candidates
from lakescan.planning.scan_report import ScanMetrics
from lakescan.storage import Storage, join

_FIRST_COMMITS, _MOST_COMMITS = 64, 1024  # remote commits that are read in parallel
_VERSION = 2048  # approximate bytes of a version's own objects: its segment, checkpoint and last commit


@dataclass(frozen=True)
class DeltaVersion:
    """A version of a table: its log segment, protocol and metadata."""

    segment: LogSegment
    protocol: Protocol
    metadata: Metadata

    def schema(self) -> Schema:
        """Parse the version's columns; raises the errors of `Metadata.schema`."""
        return self.metadata.schema()

    def partition_fields(self, schema: Schema) -> tuple[t.Field, ...]:
        """Return the partition columns as fields of `schema`; raises `CorruptMetadata` if the schema lacks one."""
        fields = {f.name: f for f in schema.fields}
        if missing := [name for name in self.metadata.partition_columns if name not in fields]:
            raise CorruptMetadata(
                f"{self.metadata.where}: partition column {short_json(missing[0])} is not a column of the table's "
                "schema. "
                f"{ADVICE}"
            )
        return tuple(fields[name] for name in self.metadata.partition_columns)


def _size_of(version: DeltaVersion) -> int:
    """Return the approximate memory of a version in bytes; its commits only count as references."""
    texts = (version.metadata.schema_string, *version.metadata.configuration.values())
    return _VERSION + sum(map(len, texts)) + 8 * len(version.segment.commits)


_VERSIONS: CacheKind[DeltaVersion] = CacheKind("states of Delta tables", _size_of)
_NEWEST: CacheKind[DeltaVersion] = CacheKind(
    "newest states of Delta tables", _size_of
)  # by location, shared by all open tables


def check_catalog_asked(features: Collection[str], location: str, storage: Storage) -> None:
    """Raise `UnsupportedFeature` if a table is catalog-managed but was opened without its catalog."""
    for name in sorted(set(features) & set(_MANAGED)):
        if find_managed_table(location, storage) is None:
            raise UnsupportedFeature(f"Delta table feature {name!r}", why_not_read(name, ""))


class LogReader:
    """Reads the files of one table's log."""

    def __init__(self, location: str, storage: Storage) -> None:
        self._location = location
        self.storage: RememberingStorage = RememberingStorage.copy_from(storage)
        self._log_id = object()  # part of cache keys: a later log at this location may be another table's
        self._last: DeltaVersion | None = None  # most calls request the same version again
        self.known_id: str | None = None  # the table's id, once a metaData action was read

    def read(self, commit: LogFile) -> LogText:
        """Read the content of a commit's file."""
        return read_commits([commit], self.storage)[0]

    def version(self, segment: LogSegment) -> DeltaVersion:
        """Read a version's protocol and metadata: the newest in the commits, else those of the checkpoint.

        Raises `CorruptMetadata`, and `UnsupportedFeature` for a catalog-managed table that was opened without its
        catalog.
        """
        last = self._last
        if last is None or last.segment.version != segment.version:
            key = (self._log_id, segment.version)
            last = _VERSIONS.get(key, lambda: self._read_version(segment))
            check_catalog_asked(last.protocol.features, self._location, self.storage)
            self._last = last
            self.known_id = self.known_id or last.metadata.id
        return last

    def _read_version(self, segment: LogSegment) -> DeltaVersion:
        names, key = ("protocol", "metaData"), (self._location, self.storage.identity)
        known = _NEWEST.find(key)
        new = None if known is None else commits_after(known.segment, segment, self.storage)
        if known is None or new is None:
            found = self._read_whole(segment, names)
        else:
            newest = self._newest(reversed(new), names)
            protocol, metadata = newest.get("protocol"), newest.get("metaData")
            found = DeltaVersion(
                segment,
                known.protocol if protocol is None else Protocol.parse(protocol),
                known.metadata if metadata is None else Metadata.parse(metadata),
            )
        if known is None or not is_older(segment, known.segment):
            _NEWEST.put(key, found)
        return found

    def _texts(self, commits: Iterable[LogFile]) -> Iterator[LogText]:
        """Yield the texts of commits, in order; remote ones are read in parallel, in batches of increasing size."""
        rest, count = iter(commits), _FIRST_COMMITS if self.storage.is_remote(self._location) else 1
        while some := list(islice(rest, count)):
            yield from read_commits(some, self.storage)
            count = min(count * 4, _MOST_COMMITS) if count > 1 else 1

    def _newest(self, commits: Iterable[LogFile], names: tuple[str, ...]) -> dict[str, Action]:
        """Return the newest action of each of these names, if any; `commits` are newest first."""
        newest: dict[str, Action] = {}
        for text in self._texts(commits):
            newest = {**only_actions(single_actions(text, names)), **newest}
            if len(newest) == len(names):
                break
        return newest

    def _read_whole(self, segment: LogSegment, names: tuple[str, ...]) -> DeltaVersion:
        newest: dict[str, Action] = {}
        for actions in self._newest_first(segment, names):
            newest = {**only_actions(actions), **newest}
            if len(newest) == len(names):
                break
        for name in names:
            if name not in newest:
                raise CorruptMetadata(f"{self._location}: the log has no {name} action up to version {segment.version}")
        return DeltaVersion(segment, Protocol.parse(newest["protocol"]), Metadata.parse(newest["metaData"]))

    def domain(self, segment: LogSegment, domain: str) -> Action | None:
        """Return the newest domainMetadata action of a domain; None without one, or if it removes the domain."""
        for actions in self._newest_first(segment, ("domainMetadata",)):
            for action in actions:
                if action.get("domain") == domain:
                    return None if action.get("removed") else action
        return None

    def domains(self, segment: LogSegment) -> dict[str, Action]:
        """Return the newest domainMetadata actions by domain, without removed domains."""
        newest: dict[str, Action] = {}
        for actions in self._newest_first(segment, ("domainMetadata",)):
            for action in actions:
                newest.setdefault(str(action.get("domain")), action)
        return {name: action for name, action in newest.items() if not action.get("removed")}

    def transaction(self, segment: LogSegment, app_id: str) -> int | None:
        """Return the `version` in an application's newest `txn` action; None if the segment has no such action."""
        for actions in self._newest_first(segment, ("txn",)):
            for action in actions:
                if action.get("appId") == app_id:
                    return action.whole_number("version")
        return None

    def _newest_first(self, segment: LogSegment, names: tuple[str, ...]) -> Iterator[list[Action]]:
        """Yield the actions of these names commit by commit, newest first, then those of the checkpoint."""
        for text in self._texts(reversed(segment.commits)):
            yield list(single_actions(text, names))
        if segment.checkpoint is not None:
            parts = segment.checkpoint.parts
            yield [each for part in parts for each in checkpoint_actions(part.location, self.storage, names)]

    def live_files(
        self,
        segment: LogSegment,
        partition_columns: tuple[str, ...],
        metrics: ScanMetrics,
        executor: PlanningExecutor = LOCAL,
    ) -> pa.Table:
        """Return the live files of a version (see `replay.live_files`), with the column `record_count`.

        `partition_columns` are physical names. `metrics` gets the number of the version's log files, and of those that
        were read. If the version continues the newest cached one, only the commits after that are read.
        """
        reader = ActionReader(self.storage, partition_columns)
        key = (self._location, partition_columns, self.storage.identity)
        known = LIVE_FILES.find(key)
        new = None if known is None else commits_after(known.segment, segment, self.storage)
        if known is None or new is None:
            files = add_record_counts(self._live_files(segment, reader, metrics, executor))
        else:
            parts = executor.map(partial(read_piece, reader), [LogPiece(commits=batch) for batch in batches(new)])
            files = update_live_files(
                known.files, [add_record_counts(each) for each in (reader.commits(()), *parts)], self._location
            )
            metrics.total_data_manifests = len(segment.commits) + len(segment.parts)
            metrics.scanned_data_manifests = len(new)
        size = pc.sum(files["size"]).as_py() or 0
        check_version(self._location, segment.version, files.num_rows, size, self.storage)
        if known is None or not is_older(segment, known.segment):
            LIVE_FILES.put(key, KnownFiles(segment, files))
        self.storage.forget()
        return files

    def _live_files(
        self, segment: LogSegment, reader: ActionReader, metrics: ScanMetrics, executor: PlanningExecutor
    ) -> pa.Table:
        pieces = self._pieces(segment, reader, metrics)
        parts = list(executor.map(partial(read_piece, reader), pieces))
        _check_adds(segment, [part for piece, part in zip(pieces, parts, strict=True) if piece.checkpoint is not None])
        return live_files([reader.commits(()), *parts], self._location)

    def live_shares(
        self, segment: LogSegment, planner: DeltaScanFiles, metrics: ScanMetrics, executor: ShufflingExecutor
    ) -> Iterator[Candidates]:
        """Yield the candidate files of each share of a version's log; `executor` reconciles and prunes the shares.

        `metrics` counts the log files.
        """
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
        """Return the files that hold the row changes of these commits (see `change_feed.changed_files`).

        `times` are commit times in milliseconds since 1970, by version. `partition_columns` are physical names.
        """
        reader = ActionReader(self.storage, partition_columns)
        parts, unchanged = [reader.changes(())], set()
        for batch in batches(commits):
            texts = read_commits(batch, self.storage)
            parts.append(reader.changes(texts))
            unchanged |= {text.version for text in texts if has_no_changes(text)}
        metrics.total_data_manifests = metrics.scanned_data_manifests = len(commits)
        return changed_files(pa.concat_tables(parts), unchanged, times, self._location)


def _check_adds(segment: LogSegment, parts: list[pa.Table]) -> None:
    """Raise `CorruptMetadata` if the checkpoint has another number of adds than `_last_checkpoint` records.

    `parts` are the file actions of the checkpoint's files. Not checked if the checksum of `_last_checkpoint` is wrong
    or missing.
    """
    base = segment.checkpoint
    adds = sum(pc.sum(part["is_add"]).as_py() or 0 for part in parts)
    if base is not None and base.adds is not None and base.adds != adds:
        raise CorruptMetadata(
            f"{base.parts[0].location} has {adds:,} add actions, but {LAST_CHECKPOINT}, whose checksum is right, "
            f"counts {base.adds:,}. {ADVICE}"
        )


# A cached version is identified by its segment. Commits never change, so a later segment of the same log is the cached
# version and the commits after it. It is the same log if the files in both segments have the same size and time, among
# them the cached segment's last commit: another table in the folder has other files. A commit that a catalog has
# ratified is the same before and after it is published.

_MOST_LOOKED_UP = 128  # commits before a newer checkpoint


@dataclass(frozen=True)
class KnownFiles:
    """An entry of the cache of live files: those of the version that `segment` makes up."""

    segment: LogSegment
    files: pa.Table


LIVE_FILES: CacheKind[KnownFiles] = CacheKind("live files of Delta tables", lambda known: table_size(known.files))


def commits_after(known: LogSegment, segment: LogSegment, storage: Storage) -> tuple[LogFile, ...] | None:
    """Return the commits that `segment` has after those of `known`, a cached segment of the same table.

    None if `segment` is older, or may be another table's log. Commits that a newer checkpoint has replaced are looked
    up by name.
    """
    if known.version > segment.version or known.location != segment.location:
        return None
    if known.checkpoint == segment.checkpoint and not known.commits:
        return segment.commits
    if not known.commits:
        return None
    last, start = known.commits[-1], segment.checkpoint.version if segment.checkpoint is not None else -1
    commits = segment.commits
    if last.version <= start:
        if start - last.version > _MOST_LOOKED_UP:
            return None
        commits = (*commits_between(segment.location, last.version, start, storage), *commits)
    first = segment.version + 1 - len(commits)
    place = last.version - first
    if not 0 <= place < len(commits) or last.entry.modified is None:
        return None
    shared = min(place + 1, len(known.commits))
    pairs = zip(commits[place + 1 - shared : place + 1], known.commits[-shared:], strict=True)
    is_same = all(one.is_same(other) for one, other in pairs)
    return commits[place + 1 :] if is_same else None


def is_older(segment: LogSegment, known: LogSegment) -> bool:
    """Return whether `segment` is an earlier version of the same log as `known`, a cached segment.

    It should then not replace `known` in the cache.
    """
    return segment.version < known.version and bool(segment.commits) and segment.commits[-1] in known.commits


# Checking version checksums is optional. A difference is only logged, since writers have left wrong checksums next to
# correct commits.

_LOG = logging.getLogger("lakescan")


def check_version(location: str, version: int, files: int, size: int, storage: Storage) -> None:
    """Log a warning if a version's checksum file exists and differs from the live files (`files`, `size` in bytes)."""
    path = join(location, LOG_FOLDER, f"{version:020d}.crc")
    try:
        node = parse_object(storage.read(path), path)
    except MissingFile:
        return
    except LakescanError as error:
        _LOG.warning("%s: ignoring the checksum of version %d, which cannot be read: %s", location, version, error)
        return
    expected = as_long(node.get("numFiles")), as_long(node.get("tableSizeBytes"))
    if None in expected:
        return
    if expected != (files, size):
        _LOG.warning(
            "%s counts %s files of %s bytes, the log %d of %d bytes: one of them is damaged; the log is used",
            path,
            *expected,
            files,
            size,
        )


_MOST_BYTES = 32 * 2**20


class RememberingStorage(Storage):
    """A storage for the log of one open table, which caches small remote files until `forget` is called.

    Files of a log never change. Local files are not cached, since reading them again is as fast. Copies that are sent
    to other processes have an empty cache.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        self._contents: dict[str, bytes] = {}
        self._bytes, self._lock = 0, threading.Lock()

    def forget(self) -> None:
        """Clear the cache."""
        with self._lock:
            self._contents.clear()
            self._bytes = 0

    def read(self, location: str, offset: int = 0, length: int | None = None, *, size: int | None = None) -> bytes:
        """Read a file, or a range of it; see `Storage.read`."""
        if offset or length is not None or not self.is_remote(location):
            return super().read(location, offset, length, size=size)
        data = self._contents.get(location)
        if data is None or size not in (None, len(data)):  # another size: the log now belongs to another table
            data = self._remember(location, super().read(location, size=size))
        return data

    @contextmanager
    def open(self, location: str) -> Iterator[pa.NativeFile]:
        """Open a file for random access, in memory if it is small and remote; see `Storage.open`."""
        data = self._contents.get(location)
        if data is None and (data := self.read_in_one_request(location)) is not None:
            self._remember(location, data)
        if data is None:
            with super().open(location) as file:
                yield file
        else:
            yield pa.BufferReader(data)

    def _remember(self, location: str, data: bytes) -> bytes:
        with self._lock:
            more = len(data) - len(self._contents.get(location, b""))
            if self._bytes + more <= _MOST_BYTES:
                self._contents[location] = data
                self._bytes += more
        return data
