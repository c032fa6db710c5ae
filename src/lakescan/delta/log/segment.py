"""Log segments: the log files that make up one version, which are a checkpoint and the commits after it.

Implements "Delta Log Entries", "Checkpoints" and "Last Checkpoint File" of the protocol. The newest version is found
without listing the log: `_last_checkpoint` names a checkpoint, and the commits after it are looked up by name until one
is missing. Older versions, and tables whose `_last_checkpoint` is missing or wrong, need the whole listing. For a
catalog-managed table, the catalog's ratified commits replace those in the log, and its newest version is the last.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from lakescan.common.cache import ENTRY, CacheKind
from lakescan.common.timestamps import from_millis
from lakescan.delta.log.catalog_managed import STAGED_FOLDER, RatifiedCommits, find_managed_table, staged_file
from lakescan.delta.log.log_text import Action, has_right_checksum, parse_object
from lakescan.errors import CorruptMetadata, LimitExceeded, MissingFile, NoSuchSnapshot, NotATable, StorageError
from lakescan.storage import FileEntry, Storage, join

LOG_FOLDER = "_delta_log"
LAST_CHECKPOINT = "_last_checkpoint"
_FIRST_LOOK, _LAST_LOOK = 16, 1024  # commits looked up in parallel: initial and largest number, doubling each time
_MOST_LOOKED_UP = 2000  # beyond this number of commits, the log is listed instead
_VERSIONS = 2**63
_COMMIT = re.compile(r"(\d{20})\.json")
_CLASSIC = re.compile(r"(\d{20})\.checkpoint\.parquet")
_PART = re.compile(r"(\d{20})\.checkpoint\.(\d{10})\.(\d{10})\.parquet")
_WITH_UUID = re.compile(r"(\d{20})\.checkpoint\.[0-9a-fA-F-]{36}\.(json|parquet)")


@dataclass(frozen=True)
class LogFile:
    """A commit: its version and its file."""

    version: int
    entry: FileEntry

    @property
    def is_staged(self) -> bool:
        """True if the file is a staged commit that a catalog has ratified, not a published one."""
        return f"/{STAGED_FOLDER}/" in self.entry.location

    def is_same(self, other: LogFile) -> bool:
        """Return whether both are the same commit of one table; a staged commit equals its published copy."""
        return self == other or (self.version == other.version and (self.is_staged or other.is_staged))


@dataclass(frozen=True)
class Checkpoint:
    """A complete checkpoint: one file, or all parts of a multi-part checkpoint.

    `adds` is the number of add actions that `_last_checkpoint` records; None unless its checksum is valid.
    """

    version: int
    parts: tuple[FileEntry, ...]
    adds: int | None = None


@dataclass(frozen=True)
class LogListing:
    """The commits and complete checkpoints in `_delta_log`, both in ascending order."""

    location: str
    commits: tuple[LogFile, ...]
    checkpoints: tuple[Checkpoint, ...]

    @property
    def first(self) -> int:
        """The oldest version with a commit or a checkpoint."""
        return min([c.version for c in self.checkpoints[:1]] + [c.version for c in self.commits[:1]])

    @property
    def latest(self) -> int:
        """The newest version with a commit or a checkpoint."""
        return max([c.version for c in self.commits[-1:]] + [c.version for c in self.checkpoints[-1:]])

    def segment(self, version: int | None = None) -> LogSegment:
        """Return the segment of a version, by default the newest.

        Raises `NoSuchSnapshot` for a version after the newest or one whose commits were removed from the log, and
        `CorruptMetadata` if a commit in between is missing.
        """
        wanted = self.latest if version is None else version
        if not 0 <= wanted <= self.latest:
            raise NoSuchSnapshot(f"{self.location} has no version {wanted}: its newest is {self.latest}")
        base = next((c for c in reversed(self.checkpoints) if c.version <= wanted), None)
        start = base.version + 1 if base is not None else 0
        commits = tuple(c for c in self.commits if start <= c.version <= wanted)
        self._check_contiguous(commits, start, wanted)
        return LogSegment(self.location, wanted, base, commits)

    def _check_contiguous(self, commits: tuple[LogFile, ...], start: int, wanted: int) -> None:
        gap = first_gap(commits, start)
        if gap > wanted:
            return
        first = self.commits[0].version if self.commits else None
        if start == 0 and first is not None and gap < first:
            raise NoSuchSnapshot(
                f"{self.location} version {wanted} cannot be read: commits before version {first} were removed from "
                "the log, and there is no checkpoint at or before it"
            )
        raise CorruptMetadata(
            f"{self.location}: version {wanted} cannot be read: commit {gap} ({gap:020d}.json) is missing from the log"
        )


def first_gap(commits: Sequence[LogFile], start: int) -> int:
    """Return the first version from `start` without a commit; `commits` are ascending and not older than `start`."""
    return next((v for v, commit in enumerate(commits, start) if commit.version != v), start + len(commits))


def next_commits(location: str, start: int, storage: Storage) -> list[LogFile]:
    """Return the commits starting at a version, up to the first missing one.

    Commits are looked up in parallel, so a later one may be found before an earlier one exists. For a catalog-managed
    table, the commits come from the catalog, and from the log where the catalog no longer lists them.
    """
    table = find_managed_table(location, storage)
    if table is not None:
        ratified = table.ratified_commits()
        known = [each for each in _staged_commits(location, ratified) if each.version >= start]
        missing = ratified.latest >= start and (not known or known[0].version > start)
        found = commits_from(location, start, storage) if missing else []
        commits = list(_merge_commits(found, known, ratified.latest))
        return commits[: first_gap(commits, start) - start]
    commits = commits_from(location, start, storage)
    return commits[: first_gap(commits, start) - start]


_ENDS: CacheKind[LogListing] = CacheKind("ends of Delta logs", lambda listing: ENTRY * len(listing.commits))


@dataclass(frozen=True)
class LogSegment:
    """The log files of one version: replaying the checkpoint, then the commits in order, yields its state."""

    location: str
    version: int
    checkpoint: Checkpoint | None
    commits: tuple[LogFile, ...]

    @property
    def parts(self) -> tuple[FileEntry, ...]:
        """The files of the checkpoint."""
        return self.checkpoint.parts if self.checkpoint is not None else ()

    @property
    def size(self) -> int:
        """The total bytes of the files, without a checkpoint's sidecars."""
        return sum(part.size for part in self.parts) + sum(commit.entry.size for commit in self.commits)


def _staged_commits(location: str, ratified: RatifiedCommits) -> list[LogFile]:
    """Return the staged commits that a catalog lists as log files, oldest first."""
    return [
        LogFile(
            each.version,
            FileEntry(each.name, staged_file(location, each.name), each.size, from_millis(each.modified)),
        )
        for each in ratified.commits
    ]


def _merge_commits(commits: Sequence[LogFile], staged: Sequence[LogFile], latest: int) -> tuple[LogFile, ...]:
    """Return the commits up to version `latest`, with staged commits instead of their published copies."""
    by_version = {each.version: each for each in (*commits, *staged) if each.version <= latest}
    return tuple(by_version[version] for version in sorted(by_version))


def _limit_listing(listing: LogListing, ratified: RatifiedCommits) -> LogListing:
    """Return the listing with staged commits, and without versions that the catalog has not ratified."""
    staged = [each for each in _staged_commits(listing.location, ratified) if each.version >= listing.first]
    commits = _merge_commits(listing.commits, staged, ratified.latest)
    checkpoints = tuple(each for each in listing.checkpoints if each.version <= ratified.latest)
    return LogListing(listing.location, commits, checkpoints)


def end_of_log(location: str, storage: Storage) -> LogListing | None:
    """Return the checkpoint that `_last_checkpoint` names and the commits from its version on, without a listing.

    None if the log must be listed: `_last_checkpoint` is missing or wrong, a commit is missing, or there are too many.
    """
    return _find_end(location, storage, _ask_catalog(location, storage))


def newest_log(location: str, storage: Storage) -> tuple[LogListing, bool]:
    """Return the log as found by `end_of_log`, else by `list_log`, and whether the whole log was listed.

    Sends only one request to a catalog. Raises the errors of `list_log`.
    """
    ratified = _ask_catalog(location, storage)
    end = _find_end(location, storage, ratified)
    return (_list_whole_log(location, storage, ratified), True) if end is None else (end, False)


def _ask_catalog(location: str, storage: Storage) -> RatifiedCommits | None:
    """Return the commits that the catalog has ratified, or None for a table that is not catalog-managed."""
    table = find_managed_table(location, storage)
    return None if table is None else table.ratified_commits()


def _find_end(location: str, storage: Storage, ratified: RatifiedCommits | None) -> LogListing | None:
    published = _find_end_in_log(location, storage)
    if ratified is None or published is None:
        return published
    end, start = _limit_listing(published, ratified), published.checkpoints[0].version + 1
    after = [each for each in end.commits if each.version >= start]
    is_whole = bool(end.checkpoints) and first_gap(after, start) == ratified.latest + 1
    return end if is_whole else None


def _find_end_in_log(location: str, storage: Storage) -> LogListing | None:
    checkpoint = _last_checkpoint(join(location, LOG_FOLDER), storage)
    if checkpoint is None:
        return None
    commits = _known_and_newer(location, checkpoint, storage)
    if commits is None:
        commits = commits_from(location, checkpoint.version, storage, most=_MOST_LOOKED_UP)
    if len(commits) > _MOST_LOOKED_UP:
        return None
    after = [c for c in commits if c.version > checkpoint.version]
    if first_gap(after, checkpoint.version + 1) != checkpoint.version + 1 + len(after):
        return None
    listing = LogListing(location, tuple(commits), (checkpoint,))
    _ENDS.put((location, storage.identity), listing)
    return listing


def _known_and_newer(location: str, checkpoint: Checkpoint, storage: Storage) -> list[LogFile] | None:
    """Return the commits from a checkpoint's version on; looks up only those after the cached ones.

    None if none is cached for this checkpoint, or if the last cached commit's file has changed, since the log then
    belongs to another table.
    """
    known = _ENDS.find((location, storage.identity))
    if known is None or known.checkpoints != (checkpoint,) or not known.commits:
        return None
    last = known.commits[-1]
    newer = commits_from(location, last.version, storage, most=_MOST_LOOKED_UP)
    is_there = newer[:1] == [last] and last.entry.modified is not None
    return [*known.commits[:-1], *newer] if is_there else None


def commits_from(location: str, start: int, storage: Storage, *, most: int | None = None) -> list[LogFile]:
    """Return the commits starting at version `start`; some may be missing in between.

    The first may be missing, for example, if a log clean-up removed it after a checkpoint of its version. If the store
    cannot list a folder starting after a name, batches of names are looked up until the last commit of a batch does
    not exist. Stops once there are more than `most` commits.
    """
    listed = _list_commits(location, start, storage, most)
    if listed is not None:
        return listed
    commits: list[LogFile] = []
    count = _FIRST_LOOK
    while most is None or len(commits) <= most:
        versions = range(start, start + count)
        entries = storage.look_up([join(location, LOG_FOLDER, f"{v:020d}.json") for v in versions])
        commits += [LogFile(v, e) for v, e in zip(versions, entries, strict=True) if e is not None]
        if entries[-1] is None:
            break
        start, count = start + count, min(count * 2, _LAST_LOOK)
    return commits


def _list_commits(location: str, start: int, storage: Storage, most: int | None) -> list[LogFile] | None:
    """Return the commits starting at version `start`, using the store's start-after listing; None if that fails.

    Stops once there are more than `most` commits.
    """
    last = f"{start:020d}."
    try:
        pages = storage.names_after(join(location, LOG_FOLDER), last)
        if pages is None:
            return None
        commits: list[LogFile] = []
        for page in filter(None, pages):
            names = [last, *(entry.name for entry in page)]
            if any(name >= following for name, following in pairwise(names)):
                return None  # some stores list all names, or in no order
            last = names[-1]
            matches = ((entry, _COMMIT.fullmatch(entry.name)) for entry in page)
            commits += [LogFile(int(match[1]), entry) for entry, match in matches if match]
            if (most is not None and len(commits) > most) or not page[-1].name[:1].isdigit():
                break
    except StorageError:
        return None
    return commits


def _last_checkpoint(folder: str, storage: Storage) -> Checkpoint | None:
    """Return the checkpoint that `_last_checkpoint` names; None if one of the two is missing or invalid."""
    path = join(folder, LAST_CHECKPOINT)
    try:
        action = Action(LAST_CHECKPOINT, parse_object(storage.read(path), path), path)
        version, parts = action.whole_number("version"), action.whole_number("parts") or 0
        unique = action.get("v2Checkpoint")
        name = Action("v2Checkpoint", unique, path).text("path") if isinstance(unique, dict) else None
        adds, is_right = action.whole_number("numOfAddFiles"), has_right_checksum(action.members)
    except (MissingFile, CorruptMetadata, LimitExceeded):
        return None
    if version is None or not 0 <= version < _VERSIONS or is_right is False:
        return None
    if unique:
        names = [(name or "").rsplit("/", 1)[-1]]
        match = _WITH_UUID.fullmatch(names[0]) or _CLASSIC.fullmatch(names[0])
        if match is None or int(match[1]) != version:
            return None
    elif parts:
        if _if_all_exist([_part_name(version, parts, parts)], folder, storage) is None:
            return None  # a wrong number of parts could be huge: check the last part before building all names
        names = [_part_name(version, n, parts) for n in range(1, parts + 1)]
    else:
        names = [f"{version:020d}.checkpoint.parquet"]
    entries = _if_all_exist(names, folder, storage)
    return None if entries is None else Checkpoint(version, entries, adds if is_right else None)


def _part_name(version: int, number: int, parts: int) -> str:
    return f"{version:020d}.checkpoint.{number:010d}.{parts:010d}.parquet"


def _if_all_exist(names: list[str], folder: str, storage: Storage) -> tuple[FileEntry, ...] | None:
    """Return the entries of these files in the log folder; None unless all exist and none is empty."""
    entries = tuple(e for e in storage.look_up([join(folder, name) for name in names]) if e is not None and e.size)
    return entries if len(entries) == len(names) else None


def commits_between(location: str, first: int, last: int, storage: Storage) -> list[LogFile]:
    """Return the commits of versions `first` to `last`, looked up by name; empty if one is missing."""
    versions = range(first, last + 1)
    entries = storage.look_up([join(location, LOG_FOLDER, f"{v:020d}.json") for v in versions])
    found = [LogFile(v, e) for v, e in zip(versions, entries, strict=True) if e is not None]
    return found if len(found) == len(versions) else []


def list_log(location: str, storage: Storage) -> LogListing:
    """List a table's log; raises `NotATable` if it is missing or has neither commit nor checkpoint.

    Raises `CorruptMetadata` if a catalog has ratified a newer version than can be found.
    """
    return _list_whole_log(location, storage, _ask_catalog(location, storage))


def _list_whole_log(location: str, storage: Storage, ratified: RatifiedCommits | None) -> LogListing:
    listing = _list_folder(location, storage)
    if ratified is None:
        return listing
    listing = _limit_listing(listing, ratified)
    newest = max([-1, *(c.version for c in listing.commits[-1:]), *(c.version for c in listing.checkpoints[-1:])])
    if newest < ratified.latest:
        raise CorruptMetadata(
            f"the newest version of {location} in its catalog is {ratified.latest}, but commit {newest + 1} is neither "
            f"among the catalog's ratified commits nor in the log {join(location, LOG_FOLDER)}. Restore the file."
        )
    return listing


def _list_folder(location: str, storage: Storage) -> LogListing:
    folder = join(location, LOG_FOLDER)
    commits: dict[int, LogFile] = {}
    whole: dict[int, Checkpoint] = {}
    parts: dict[tuple[int, int], dict[int, FileEntry]] = {}
    has_files = False
    for entry in storage.list(folder):
        has_files = True
        if match := _COMMIT.fullmatch(entry.name):
            version = _version(match, entry)
            commits[version] = LogFile(version, entry)
        elif not entry.size:
            continue  # an incomplete checkpoint: the commits hold the same actions
        elif match := _CLASSIC.fullmatch(entry.name) or _WITH_UUID.fullmatch(entry.name):
            version = _version(match, entry)
            whole[version] = Checkpoint(version, (entry,))
        elif match := _PART.fullmatch(entry.name):
            parts.setdefault((_version(match, entry), int(match[3])), {})[int(match[2])] = entry
    for (version, count), entries in parts.items():
        if len(entries) == count and min(entries) == 1 and max(entries) == count:
            whole.setdefault(version, Checkpoint(version, tuple(entries[i] for i in range(1, count + 1))))
    if not commits and not whole:
        raise NotATable(_why_not_a_table(location, folder, has_files, storage))
    return LogListing(
        location,
        tuple(commits[v] for v in sorted(commits)),
        tuple(whole[v] for v in sorted(whole)),
    )


def _version(name: re.Match[str], entry: FileEntry) -> int:
    version = int(name[1])
    if version >= _VERSIONS:
        raise CorruptMetadata(
            f"{entry.location}: its version exceeds the largest possible one. Remove the file if it is stray."
        )
    return version


def _why_not_a_table(location: str, folder: str, has_files: bool, storage: Storage) -> str:
    """Return the error message for a folder without a Delta table: it is missing, something else, or its log is empty.

    `has_files` is whether the log folder has any file.
    """
    if has_files:
        return f"{location} is not a Delta table: its log {folder} has no commit and no checkpoint"
    if storage.exists(folder):
        return f"{location} is not a Delta table yet: its log {folder} is empty"
    if storage.exists(location):
        return f"{location} is not a Delta table: it has no {LOG_FOLDER} folder"
    storage.check_bucket(location)
    return f"{location} does not exist"
