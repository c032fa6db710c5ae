"""Work on one table: a writer, followers, readers and maintenance, each in a thread, until stopped."""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

import lakescan

LIVE = 2_000  # the number of rows to keep; older rows are deleted
BATCH = 100  # rows per append
PROPERTIES = {
    "iceberg": {
        "format-version": "3",
        "write.delete.mode": "merge-on-read",
        "write.update.mode": "merge-on-read",
        "write.metadata.delete-after-commit.enabled": "true",
        "write.metadata.previous-versions-max": "5",
    },
    "delta": {
        "delta.enableDeletionVectors": "true",
        "delta.logRetentionDuration": "interval 0 seconds",
        "delta.deletedFileRetentionDuration": "interval 0 seconds",  # otherwise checkpoints grow with the removed files
    },
}


class Work:
    """The threads of one table, with counts of their work and their failures.

    The table reaches a steady state: its rows, files and snapshots are bounded. Delta's folder and log are not, because
    nothing younger than a day is removed from them. Therefore operations that list all of them run only on Iceberg.
    """

    def __init__(self, kind: str, warehouse: str, leak: int = 0) -> None:
        self.kind, self.done = kind, Counter[str]()
        self.failed: list[str] = []
        self._leak, self._leaked = leak, list[bytes]()
        self._ended = threading.Event()
        self._next = itertools.count()
        self._name = f"{kind}.db.t"
        catalog = lakescan.catalog(kind, warehouse=f"{warehouse}/{kind}")
        catalog.create_namespace("db")
        catalog.create_table("db.t", "id BIGINT, part BIGINT, note STRING", format=kind, properties=PROPERTIES[kind])
        self._rows, self._first = 0, 0  # ids written so far; the oldest id that is not deleted
        self._changed = set[int]()
        self._followed, self._sum = 0, 0  # the number of rows, and the sum of their ids
        self._offset: dict[str, Any] | None = None
        self._loops = (self._write, self._follow, self._read, self._maintain)
        self._threads = [threading.Thread(target=self._loop, args=(each,), name=each.__name__) for each in self._loops]

    def start(self) -> None:
        self._follow()  # starts at the empty table, so that each row is followed once
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join()

    def check(self) -> None:
        """Check that all live rows exist once, with their changes, and that all rows were followed."""
        idle = [each.__name__.strip("_") for each in self._loops if not self.done[each.__name__.strip("_")]]
        if idle:
            self.failed.append(f"{self.kind}: never done to its end: {', '.join(idle)}")
        found = self._table().scan().to_arrow().sort_by("id")
        if found.to_pylist() != [self._row(n) for n in range(self._first, self._rows)]:
            self.failed.append(
                f"{self.kind}: the {found.num_rows} rows are not those that were written and not deleted, "
                f"{self._first} to {self._rows - 1}, as they were changed"
            )
        try:
            self._follow()
        except Exception as error:
            self.failed.append(f"{self.kind}, the last rows followed: {type(error).__name__}: {error}")
        if (self._followed, self._sum) != (self._rows, sum(range(self._rows))):
            self.failed.append(f"{self.kind}: {self._followed} rows were followed, but {self._rows} were written")

    def _row(self, n: int) -> dict[str, Any]:
        return {"id": n, "part": n % 4, "note": "changed" if n in self._changed else f"note {n}"}

    def _table(self) -> lakescan.Table:
        return lakescan.table(self._name)

    def _loop(self, step: Callable[[], None]) -> None:
        while not self._ended.is_set():
            try:
                step()
                self.done[step.__name__.strip("_")] += 1
            except lakescan.CommitConflict:
                self.done["conflicts"] += 1  # another thread changed the same files, which is allowed
            except BaseException as error:  # also a Rust panic: otherwise its thread would end unnoticed
                self.failed.append(f"{self.kind}, {step.__name__}: {type(error).__name__}: {error}")
                self._ended.set()
            self._ended.wait(0.01)

    def _write(self) -> None:
        """Append rows, then change a few and delete the old ones."""
        start = self._rows
        ids = range(start, start + BATCH)
        self._table().append(pa.Table.from_pylist([self._row(n) for n in ids]))
        self._rows += BATCH
        if self._leak:
            self._leaked.append(bytes(bytearray(b"x" * self._leak)))
        if next(self._next) % 4 == 3:
            self._table().update({"note": "'changed'"}, where=f"id % 17 = 0 AND id >= {start}")
            self._changed |= {n for n in ids if n % 17 == 0}
            self._table().delete(f"id < {self._rows - LIVE}")
            self._first = max(self._first, self._rows - LIVE)
            self._changed = {n for n in self._changed if n >= self._first}

    def _follow(self) -> None:
        """Start a follower where the last one ended, drain it and close it."""
        follower = self._table().stream(start=self._offset, wait=False, **{"on-change": "skip"})
        for batch in follower:
            self.done["rows followed"] += batch.num_rows
            self._followed += batch.num_rows
            self._sum += sum(batch.column("id").to_pylist())
        self._offset = follower.offset
        follower.close()

    def _read(self) -> None:
        table = self._table()
        whole = table.scan()
        if whole.count() != whole.to_arrow().num_rows:
            self.failed.append(f"{self.kind}: a count is not the number of rows")
        table.scan().where("part = 1 AND note LIKE 'note%'").select("id").to_arrow()
        lakescan.sql("SELECT part, count(*) AS n FROM t GROUP BY part", t=whole).to_arrow()

    def _maintain(self) -> None:
        self._ended.wait(3)
        table = self._table()
        try:
            table.compact()
        except lakescan.CommitConflict:
            self.done["compactions given up"] += 1  # the writer changed the same files: the next round compacts them
        if self.kind == "delta":
            table.checkpoint()
        else:
            table.expire_snapshots(older_than=datetime.now(UTC) - timedelta(seconds=30), clean_expired_files=True)
            table.remove_orphans(dry_run=True)
            table.history()
        table.health()


def works(warehouse: str, leak: int = 0) -> list[Work]:
    """Return the work of one table of each format. Each append leaks `leak` bytes, to check that a leak is found."""
    return [Work(kind, warehouse, leak) for kind in PROPERTIES]


def described(each: Work) -> dict[str, Any]:
    return {"table": each.kind, **each.done}
