"""Log segments: the files that make one version of a table: a checkpoint, and the commits after it.

Protocol, "Delta Log Entries", "Checkpoints" and "Last Checkpoint File". The newest version needs no listing of the
whole log: `_last_checkpoint` says where its end begins, and the commits after that are looked up by name until one is
missing. Older versions, and a pointer that says what is not so, are answered by the whole listing.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from lakescan.errors import CorruptMetadata, MissingFile, NoSuchSnapshot, NotATable
from lakescan.storage import FileEntry, Storage, join

LOG_FOLDER = "_delta_log"
LAST_CHECKPOINT = "_last_checkpoint"
_FIRST_LOOK, _LAST_LOOK = 16, 1024  # commits looked up at once, doubled each time
_MOST_LOOKED_UP = 2000  # beyond, the log is listed
_COMMIT = re.compile(r"(\d{20})\.json")
_CLASSIC = re.compile(r"(\d{20})\.checkpoint\.parquet")
_PART = re.compile(r"(\d{20})\.checkpoint\.(\d{10})\.(\d{10})\.parquet")
_NAMED = re.compile(r"(\d{20})\.checkpoint\.[0-9a-fA-F-]{36}\.(json|parquet)")


@dataclass(frozen=True)
class LogFile:
    """A commit or a checkpoint part: its version and the file."""

    version: int
    entry: FileEntry


@dataclass(frozen=True)
class Checkpoint:
    """A whole checkpoint: one file, or all parts of a multi-part one."""

    version: int
    parts: tuple[FileEntry, ...]


@dataclass(frozen=True)
class LogListing:
    """Everything in `_delta_log` that says something of the table: commits ascending, whole checkpoints ascending."""

    location: str
    commits: tuple[LogFile, ...]
    checkpoints: tuple[Checkpoint, ...]

    @property
    def first(self) -> int:
        """The oldest version that a segment can be made of."""
        return min([c.version for c in self.checkpoints[:1]] + [c.version for c in self.commits[:1]])

    @property
    def latest(self) -> int:
        """The newest version."""
        return max([c.version for c in self.commits[-1:]] + [c.version for c in self.checkpoints[-1:]])

    def segment(self, version: int | None = None) -> LogSegment:
        """The segment of a version, or of the newest; raises `NoSuchSnapshot`, and `CorruptMetadata` for gaps."""
        wanted = self.latest if version is None else version
        if not 0 <= wanted <= self.latest:
            raise NoSuchSnapshot(f"{self.location} has no version {wanted}: its newest is {self.latest}")
        base = next((c for c in reversed(self.checkpoints) if c.version <= wanted), None)
        start = base.version + 1 if base is not None else 0
        commits = tuple(c for c in self.commits if start <= c.version <= wanted)
        self._check_contiguous(commits, start, wanted)
        return LogSegment(self.location, wanted, base, commits)

    def _check_contiguous(self, commits: tuple[LogFile, ...], start: int, wanted: int) -> None:
        present = [c.version for c in commits]
        if present == list(range(start, wanted + 1)):
            return
        gap = next(v for v in range(start, wanted + 1) if v not in set(present))
        first = self.commits[0].version if self.commits else None
        if start == 0 and first is not None and gap < first:
            raise NoSuchSnapshot(
                f"{self.location} version {wanted} cannot be rebuilt: commits before version {first} were cleaned up "
                "and no checkpoint at or before it is left"
            )
        raise CorruptMetadata(
            f"{self.location}: the log has a gap, commit {gap} ({gap:020d}.json) is missing for version {wanted}"
        )


@dataclass(frozen=True)
class LogSegment:
    """One version's files: replaying the checkpoint, then the commits in order, gives its state."""

    location: str
    version: int
    checkpoint: Checkpoint | None
    commits: tuple[LogFile, ...]

    @property
    def size(self) -> int:
        """The bytes of its files; sidecars of a checkpoint are not counted."""
        parts = self.checkpoint.parts if self.checkpoint is not None else ()
        return sum(part.size for part in parts) + sum(commit.entry.size for commit in self.commits)


def end_of_log(location: str, storage: Storage) -> LogListing | None:
    """The checkpoint that `_last_checkpoint` names and the commits after it; None where that cannot be relied on."""
    checkpoint = _last_checkpoint(join(location, LOG_FOLDER), storage)
    if checkpoint is None:
        return None
    commits = commits_from(location, checkpoint.version, storage, most=_MOST_LOOKED_UP)
    if len(commits) > _MOST_LOOKED_UP:
        return None
    after = [c.version for c in commits if c.version > checkpoint.version]
    in_row = after == list(range(checkpoint.version + 1, checkpoint.version + 1 + len(after)))
    return LogListing(location, tuple(commits), (checkpoint,)) if in_row else None


def commits_from(location: str, start: int, storage: Storage, *, most: int | None = None) -> list[LogFile]:
    """The commits from a version on, looked up by name until one is missing, or there are more than `most`."""
    commits: list[LogFile] = []
    count = _FIRST_LOOK
    while most is None or len(commits) <= most:
        versions = range(start, start + count)
        found = storage.look_up([join(location, LOG_FOLDER, f"{v:020d}.json") for v in versions])
        present = [LogFile(v, e) for v, e in zip(versions, found, strict=True) if e is not None]
        commits += present
        if len(present) < count:
            break
        start, count = start + count, min(count * 2, _LAST_LOOK)
    return commits


def _last_checkpoint(folder: str, storage: Storage) -> Checkpoint | None:
    """The checkpoint that the pointer names, if its files are there."""
    try:
        node = json.loads(storage.read(join(folder, LAST_CHECKPOINT)))
        version = int(node["version"])
        stem = f"{version:020d}.checkpoint"
        if node.get("v2Checkpoint"):
            names = [str(node["v2Checkpoint"]["path"]).rsplit("/", 1)[-1]]
        elif parts := int(node.get("parts") or 0):
            names = [f"{stem}.{i:010d}.{parts:010d}.parquet" for i in range(1, parts + 1)]
        else:
            names = [f"{stem}.parquet"]
    except (MissingFile, ValueError, KeyError, TypeError, AttributeError):
        return None
    found = [e for e in storage.look_up([join(folder, name) for name in names]) if e is not None]
    return Checkpoint(version, tuple(found)) if len(found) == len(names) else None


def list_log(location: str, storage: Storage) -> LogListing:
    """List a table's log; raises `NotATable` where it is missing or holds neither commit nor checkpoint."""
    folder = join(location, LOG_FOLDER)
    commits: dict[int, LogFile] = {}
    whole: dict[int, Checkpoint] = {}
    parts: dict[tuple[int, int], dict[int, FileEntry]] = {}
    found_any = False
    for entry in storage.list(folder):
        found_any = True
        if found := _COMMIT.fullmatch(entry.name):
            commits[int(found[1])] = LogFile(int(found[1]), entry)
        elif found := _CLASSIC.fullmatch(entry.name) or _NAMED.fullmatch(entry.name):
            whole[int(found[1])] = Checkpoint(int(found[1]), (entry,))
        elif found := _PART.fullmatch(entry.name):
            parts.setdefault((int(found[1]), int(found[3])), {})[int(found[2])] = entry
    for (version, count), entries in parts.items():
        if set(entries) == set(range(1, count + 1)):
            whole.setdefault(version, Checkpoint(version, tuple(entries[i] for i in range(1, count + 1))))
    if not commits and not whole:
        raise NotATable(_why_not(location, folder, found_any, storage))
    return LogListing(
        location,
        tuple(commits[v] for v in sorted(commits)),
        tuple(whole[v] for v in sorted(whole)),
    )


def _why_not(location: str, folder: str, found_any: bool, storage: Storage) -> str:
    """A folder without a table: it is missing, it is something else, or its log is empty."""
    if found_any:
        return f"{location} is not a Delta table: its log {folder} has no commit and no checkpoint"
    if storage.exists(folder):
        return f"{location} is not a Delta table yet: its log {folder} is empty"
    if storage.exists(location):
        return f"{location} is not a Delta table: it has no {LOG_FOLDER} folder"
    storage.check_bucket(location)
    return f"{location} does not exist"
