"""Increments: what commits add to a table, read commit by commit, some files at a time.

A reader's place is an `Offset`. Offsets name a commit and how many of its files were read, so that a commit may be
split over several reads, and a reader that starts again finds its place in the same order of files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakescan.planning.file_table import FileTable

ALL = -1  # files of a commit: all that it has
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


@dataclass(frozen=True)
class Commit:
    """A commit, as far as it can be told without its files: `change` is what it does to rows.

    `files`, `rows` and `size` (bytes) are those of the files that it adds; None where the commit does not say.
    """

    id: int
    timestamp: datetime | None
    operation: str
    change: str
    files: int | None = None
    rows: int | None = None
    size: int | None = None
    summary: Mapping[str, str] = field(default_factory=dict)

    def describe(self) -> str:
        """The commit in words, for messages."""
        said = ", ".join(f"{k}={v}" for k, v in sorted(self.summary.items()))
        return f"{self.id} ({self.operation}{f' at {self.timestamp}' if self.timestamp else ''}{f'; {said}' if said else ''})"


@dataclass(frozen=True)
class Part:
    """Files of one commit to read, from the `first` up to the `stop`: of those it adds, or of the table as of it."""

    commit: int
    first: int = 0
    stop: int = ALL
    initial: bool = False

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


class Budget:
    """What is left of the limits of one read."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._files = self._rows = self._size = self._commits = 0

    @property
    def is_untouched(self) -> bool:
        """Whether nothing was taken yet."""
        return self._files == 0

    def takes_whole(self, commit: Commit) -> bool:
        """Take a commit as it is, if it says how large it is and fits."""
        if not self.has_commits:
            return False
        known = (commit.files, commit.rows, commit.size)
        limited = (self._limits.files, self._limits.rows, self._limits.size)
        if any(limit is not None and value is None for value, limit in zip(known, limited, strict=True)):
            return False
        used = (self._files, self._rows, self._size)
        total = [have + (value or 0) for have, value in zip(used, known, strict=True)]
        if any(limit is not None and value > limit for value, limit in zip(total, limited, strict=True)):
            return False
        self._files, self._rows, self._size = total
        self._files = max(1, self._files)
        self._commits += 1
        return True

    @property
    def has_commits(self) -> bool:
        """Whether another commit may be begun."""
        return self._limits.commits is None or self._commits < self._limits.commits

    def take(self, files: pa.Table) -> int:
        """How many of these files (`size`, `record_count`), in order, may be read; they are taken."""
        count = files.num_rows
        fits = np.ones(count, dtype=bool)
        for limit, used, values in (
            (self._limits.files, self._files, np.ones(count, dtype=np.int64)),
            (self._limits.rows, self._rows, _filled(files["record_count"])),
            (self._limits.size, self._size, _filled(files["size"])),
        ):
            if limit is not None:
                fits &= used + np.cumsum(values) <= limit
        taken = int(fits.sum())
        if self.is_untouched and count:
            taken = max(1, taken)
        self._files += taken
        self._rows += int(_filled(files["record_count"])[:taken].sum())
        self._size += int(_filled(files["size"])[:taken].sum())
        self._commits += 1
        return taken


def rows_of(part: Part, tables: Iterable[FileTable]) -> Iterator[FileTable]:
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


def _filled(values: pa.ChunkedArray) -> np.ndarray:
    result: np.ndarray = pc.fill_null(values, 0).to_numpy()
    return result
