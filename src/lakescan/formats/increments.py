"""Increments: what commits add to a table, read commit by commit, some files at a time.

A reader's place is an `Offset`. Offsets name a commit and how many of its files were read, so that a commit may be
split over several reads, and a reader that starts again finds its place in the same order of files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakescan.planning.file_table import FileTable

F = TypeVar("F", FileTable, pa.Table)
ALL = -1  # files of a commit: all that it has
_NONE = np.empty(0, dtype=np.int64)
# What a commit does to rows.
APPEND, NOTHING, DELETE, OVERWRITE = "append", "nothing", "delete", "overwrite"


@dataclass(frozen=True)
class Offset:
    """How far a reader has come: `files` files of a commit; of the whole table as of it where it is `initial`.

    The commit is a snapshot id or a version. Once all is read, `files` is ALL and `initial` false: there is one offset
    for each place.
    """

    commit: int
    files: int = ALL
    initial: bool = False

    def after(self, read: int, count: int) -> Offset:
        """The offset once `read` files of `count` are read."""
        return Offset(self.commit) if read >= count else Offset(self.commit, read, self.initial)

    @property
    def is_whole(self) -> bool:
        """Whether everything of the commit is read."""
        return self.files == ALL


BEFORE = Offset(-1)  # before the first commit


@dataclass(frozen=True)
class Commit:
    """A commit, as far as it can be told without its files: `change` is what it does to rows.

    `files`, `rows` and `size` (bytes) are those of the files that it adds; None where the commit does not say.
    `obstacle` says why its rows cannot be read as those before it, if they cannot.
    """

    id: int
    timestamp: datetime | None
    operation: str
    change: str
    files: int | None = None
    rows: int | None = None
    size: int | None = None
    summary: Mapping[str, str] = field(default_factory=dict)
    obstacle: str | None = None

    def describe(self) -> str:
        """The commit in words, for messages."""
        said = ", ".join(f"{k}={v}" for k, v in sorted(self.summary.items()))
        moment = f" at {self.timestamp}" if self.timestamp else ""
        return f"{self.id} ({self.operation}{moment}{f'; {said}' if said else ''})"


@dataclass(frozen=True)
class Backlog:
    """What a stream has not read yet; what is left of a commit that it is within is not counted."""

    commits: int
    files: int
    rows: int
    bytes: int


@dataclass(frozen=True)
class Part:
    """Files of one commit to read, from the `first` up to the `stop`: of those it adds, or of the table as of it.

    `ordinal` is the place of the commit among those that are read.
    """

    commit: int
    first: int = 0
    stop: int = ALL
    initial: bool = False
    ordinal: int = 0

    @property
    def is_whole(self) -> bool:
        """Whether these are all files of the commit."""
        return self.first == 0 and self.stop == ALL


@dataclass(frozen=True)
class Limits:
    """The most that one read may take; None is no limit. One file is taken in any case, or nothing would go on."""

    files: int | None = None
    rows: int | None = None
    size: int | None = None
    commits: int | None = None


@dataclass(frozen=True)
class Increment:
    """What to read of some commits, in order. Files whose path matches `exclude` are not there, and not counted.

    With `changes`, rows that they removed are read, too, and each says what became of it. The files of each commit are
    in their own order, which stays, or by the lower bounds of the column `ordered_by` (a field id).
    """

    parts: tuple[Part, ...]
    exclude: str | None = None
    changes: bool = False
    ordered_by: int | None = None

    def runs(self) -> Iterator[tuple[bool, list[Part]]]:
        """The parts, those together that are whole commits in their own order; and whether they are."""
        for is_whole, some in groupby(self.parts, key=lambda each: each.is_whole and not each.initial):
            if is_whole and self.ordered_by is None:
                yield True, list(some)
            else:
                yield from ((False, [part]) for part in some)


class Budget:
    """What is left of the limits of one read."""

    def __init__(self, limits: Limits) -> None:
        self._most = (limits.files, limits.rows, limits.size)
        self._most_commits = limits.commits
        self._used: tuple[int, ...] = (0, 0, 0)  # files, rows, bytes
        self._commits = 0

    def takes_whole(self, commit: Commit, *, at_least: bool = False) -> bool:
        """Take a commit as it is, if it says how large it is and fits; in any case with `at_least`."""
        said = (commit.files, commit.rows, commit.size)
        limits = (None, None, None) if at_least else self._most
        if any(limit is not None and value is None for value, limit in zip(said, limits, strict=True)):
            return False
        used = tuple(have + (value or 0) for have, value in zip(self._used, said, strict=True))
        if any(limit is not None and value > limit for value, limit in zip(used, limits, strict=True)):
            return False
        if self._commits == self._most_commits:
            return False
        self._used, self._commits = used, self._commits + 1
        return True

    def take(self, files: Iterable[tuple[pa.ChunkedArray, pa.ChunkedArray]], start: int) -> tuple[int, int]:
        """How many files to take of those from a place on, by (bytes, rows), in order; and how many there are."""
        listed = [[pc.fill_null(values, 0).to_numpy() for values in each] for each in files]
        size, rows = (np.concatenate([_NONE, *(each[i] for each in listed)]) for i in (0, 1))
        count = len(size)
        if self._commits == self._most_commits:
            return 0, count
        values = (np.ones(count - start, dtype=np.int64), rows[start:], size[start:])
        taken = count - start
        for used, value, limit in zip(self._used, values, self._most, strict=True):
            if limit is not None:
                taken = min(taken, int(np.searchsorted(used + np.cumsum(value), limit, side="right")))
        if not any(self._used):
            taken = max(taken, min(1, count - start))
        self._used = tuple(used + int(v[:taken].sum()) for used, v in zip(self._used, values, strict=True))
        self._commits += 1
        return taken, count


def by_lower_bound(lower: pa.Array | None, count: int) -> pa.Array:
    """The order of files by a column's lower bounds; first those whose bound is not known, which may hold any value."""
    if lower is None:
        return pa.array(np.arange(count))
    return pc.array_sort_indices(lower, null_placement="at_start")  # stable: equal bounds stay as they are


def rows_of(part: Part, tables: Iterable[F]) -> Iterator[F]:
    """The files of a part, out of all files of its commit."""
    start = 0
    for table in tables:
        place = np.arange(start, start + len(table))
        start += len(table)
        mask = place >= part.first
        if part.stop != ALL:
            mask &= place < part.stop
        if mask.any():
            yield table if mask.all() else table.filter(pa.array(mask))
