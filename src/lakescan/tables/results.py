"""The results of writes and maintenance. Each prints as a sentence, in Python and in the command line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import overload

from lakescan.common.html import facts_table, name_list, section
from lakescan.planning.explain.summary import human_bytes


class _Result:
    """Base class of results, which print as the sentence that `__str__` returns."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self})"

    def _repr_html_(self) -> str:
        """Return HTML for notebooks: the sentence, and the attributes."""
        return section(str(self), facts_table(_facts(self)))


def _facts(result: _Result) -> dict[str, str]:
    """Return the attributes of a result as text, by name; without those that are None, False or empty."""
    members = {each.name: getattr(result, each.name) for each in fields(result)}  # type: ignore[arg-type]
    told = {name: value for name, value in members.items() if value not in (None, "", ()) and value is not False}
    return {name.replace("_", " "): _value_text(name, value) for name, value in told.items()}


def _value_text(name: str, value: object) -> str:
    if isinstance(value, Mapping):
        value = tuple(f"{key}: {count}" for key, count in value.items())
    if isinstance(value, tuple):
        return name_list([str(each) for each in value])
    return human_bytes(value) if name.endswith("bytes") and isinstance(value, int) else str(value)


@dataclass(frozen=True, repr=False)
class WriteResult(_Result):
    """The files and rows that a write committed.

    Attributes:
        files: The number of data files added.
        rows: The number of rows in these files; 0 if unknown, for files without statistics.
        bytes: The size of these files in bytes.
        removed_files: The number of data files that the commit removed from the table.
        note: A remark on the files, or an empty text.

    Example:
        >>> print(orders.append(rows))
        1 file written (1,200 rows, 18.2 KB)
    """

    files: int
    rows: int
    bytes: int
    removed_files: int = 0
    note: str = field(default="", kw_only=True, hash=False)

    def __str__(self) -> str:
        if not self.files and not self.removed_files:
            return "nothing written"
        removed = f"; {_count_text(self.removed_files, 'file')} removed" if self.removed_files else ""
        content = f"{_count_text(self.rows, 'row')}, {human_bytes(self.bytes)}"
        return f"{_count_text(self.files, 'file')} written ({content}){removed}{_note_text(self.note)}"


@dataclass(frozen=True, repr=False)
class TransactionResult(_Result):
    """The tables that the commit of a transaction changed.

    Attributes:
        tables: The names of the changed tables, `namespace.table`, in the order that the transaction opened them in.

    Example:
        >>> print(tx.commit())
        2 tables changed: shop.orders, shop.stock
    """

    tables: tuple[str, ...]

    def __str__(self) -> str:
        changed = f"{_count_text(len(self.tables), 'table')} changed: {', '.join(self.tables)}"
        return changed if self.tables else "nothing changed"


@dataclass(frozen=True, repr=False)
class AlterResult(_Result):
    """The changes that `Table.alter` committed.

    Attributes:
        changes: A description of each change, in order.

    Example:
        >>> print(orders.alter().add_column("note", "STRING").commit())
        1 change: added column note string
    """

    changes: tuple[str, ...]

    def __str__(self) -> str:
        return f"{_count_text(len(self.changes), 'change')}: {'; '.join(self.changes)}"


@dataclass(frozen=True, repr=False)
class RefResult(_Result):
    """The snapshots of a branch or tag of an Iceberg table before and after a change.

    Attributes:
        name: The name of the branch or tag; `main` for the current snapshot of the table.
        previous: The id of the snapshot that it pointed to before; None if it is new.
        current: The id of the snapshot that it points to now; None if it was dropped.
        retention_changed: Whether its retention settings changed. False if it is new.

    Example:
        >>> print(orders.rollback(version=4711))
        main: snapshot 4712 -> 4711
    """

    name: str
    previous: int | None
    current: int | None
    retention_changed: bool = False

    def __str__(self) -> str:
        if self.previous == self.current:
            if self.retention_changed:
                return f"{self.name}: retention changed, at snapshot {self.current}"
            return f"{self.name}: nothing to do"
        if self.current is None:
            return f"{self.name}: dropped, was at snapshot {self.previous}"
        before = "" if self.previous is None else f"{self.previous} -> "
        return f"{self.name}: snapshot {before}{self.current}"


@dataclass(frozen=True, repr=False)
class ChangeResult(_Result):
    """The rows and files that a statement changed.

    Attributes:
        inserted: The number of rows inserted.
        updated: The number of rows updated.
        deleted: The number of rows deleted.
        files: The number of data files added. They have new and changed rows, and in copy-on-write also the other rows
            of rewritten files.
        removed_files: The number of data files removed from the table.
        delete_files: The number of data files that got position deletes or a deletion vector.
        bytes: The size of the added data files in bytes.
        note: A remark on the added data files, or an empty text.

    Example:
        >>> print(orders.delete("status = 'cancelled'"))
        12 rows deleted (deletes of 3 files)
    """

    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    files: int = 0
    removed_files: int = 0
    delete_files: int = 0
    bytes: int = 0
    note: str = field(default="", kw_only=True, hash=False)

    def __str__(self) -> str:
        rows = [
            f"{_count_text(count, 'row')} {what}"
            for what, count in (("inserted", self.inserted), ("updated", self.updated), ("deleted", self.deleted))
            if count
        ]
        if not rows:
            return "no row changed"
        files = [
            text
            for text, count in (
                (f"{_count_text(self.files, 'file')} written, {human_bytes(self.bytes)}", self.files),
                (f"{_count_text(self.removed_files, 'file')} removed", self.removed_files),
                (f"deletes of {_count_text(self.delete_files, 'file')}", self.delete_files),
            )
            if count
        ]
        return f"{', '.join(rows)} ({'; '.join(files)}){_note_text(self.note)}"


def _note_text(note: str) -> str:
    return f"; {note}" if note else ""


@dataclass(frozen=True, repr=False)
class CompactResult(WriteResult):
    """The files that a compaction wrote and replaced.

    Attributes:
        files: The number of data files written.
        rows: The number of rows in these files.
        bytes: The size of these files in bytes.
        removed_files: The number of data files replaced.
        removed_bytes: The size of the replaced files in bytes.
        failed_files: With partial progress, the number of data files that stayed because another writer changed files
            of the same commit.

    Example:
        >>> print(orders.compact())
        compacted 40 files into 1 (12.1 MB into 11.8 MB)
    """

    removed_bytes: int = 0
    failed_files: int = 0

    def __str__(self) -> str:
        if not self.removed_files:
            return "nothing to compact"
        sizes = f"{human_bytes(self.removed_bytes)} into {human_bytes(self.bytes)}"
        failed = f"; {_count_text(self.failed_files, 'file')} stayed after conflicts" if self.failed_files else ""
        removed, note = _count_text(self.removed_files, "file"), _note_text(self.note)
        return f"compacted {removed} into {self.files:,} ({sizes}){failed}{note}"


@dataclass(frozen=True, repr=False)
class ExpireResult(_Result):
    """The snapshots, branches and tags that expired, or with `dry_run` would expire.

    `int(result)` is the number of snapshots.

    Attributes:
        snapshots: The ids of the snapshots, in ascending order.
        references: The names of the branches and tags, in ascending order.
        dry_run: Whether nothing was changed.
        removed_files: The number of files deleted because only expired snapshots had them. With
            `clean_expired_files=False` the files stay until `Table.remove_orphans`.

    Example:
        >>> print(orders.expire_snapshots("2026-01-31"))
        12 snapshots expired
    """

    snapshots: tuple[int, ...] = ()
    references: tuple[str, ...] = ()
    dry_run: bool = False
    removed_files: int = 0

    def __str__(self) -> str:
        names = ", ".join(map(repr, self.references))
        also = f", and the branches and tags {names}" if names else ""
        gone = f"; {_count_text(self.removed_files, 'file')} removed" if self.removed_files else ""
        return (
            f"{_count_text(len(self.snapshots), 'snapshot')}{also} {'would be ' if self.dry_run else ''}expired{gone}"
        )

    def __int__(self) -> int:
        return len(self.snapshots)

    __index__ = __int__

    def __bool__(self) -> bool:
        return bool(self.snapshots or self.references)

    def __format__(self, spec: str) -> str:
        return format(int(self), spec) if spec else str(self)


@dataclass(frozen=True, repr=False)
class OrphanResult(_Result, Sequence[str]):
    """A sequence of the locations of orphan files that were deleted, or with `dry_run` would be.

    Attributes:
        files: The locations of the files.
        bytes: The total size of these files in bytes.
        dry_run: Whether nothing was deleted.

    Example:
        >>> print(orders.remove_orphans())
        1.2 MB in 3 files removed
    """

    files: tuple[str, ...] = ()
    bytes: int = 0
    dry_run: bool = False

    def __str__(self) -> str:
        size = f"{human_bytes(self.bytes)} in " if self.files else ""
        return f"{size}{_count_text(len(self), 'file')} {'would be ' if self.dry_run else ''}removed"

    def __len__(self) -> int:
        return len(self.files)

    def __iter__(self) -> Iterator[str]:
        return iter(self.files)

    @overload
    def __getitem__(self, index: int) -> str: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[str, ...]: ...

    def __getitem__(self, index: int | slice) -> str | tuple[str, ...]:
        return self.files[index]


@dataclass(frozen=True, repr=False)
class CheckpointResult(_Result):
    """The checkpoint that was written for a Delta table.

    Attributes:
        version: The version of the checkpoint.

    Example:
        >>> print(customers.checkpoint())
        wrote a checkpoint of version 12
    """

    version: int

    def __str__(self) -> str:
        return f"wrote a checkpoint of version {self.version}"


@dataclass(frozen=True, repr=False)
class RestoreResult(_Result):
    """The result of restoring an earlier version or snapshot, with the attributes of Delta's RESTORE.

    Attributes:
        version: The version (Delta) or snapshot id (Iceberg) that was restored.
        table_size_after_restore: The size of its data files in bytes; None for Iceberg, like all following attributes.
        num_of_files_after_restore: The number of its data files.
        num_removed_files: The number of files removed from the table.
        num_restored_files: The number of files added back.
        removed_files_size: The size of the removed files in bytes.
        restored_files_size: The size of the files added back, in bytes.

    Example:
        >>> print(orders.restore(version=3))
        restored version 3: 1 file came back, 2 files removed
    """

    version: int
    table_size_after_restore: int | None = None
    num_of_files_after_restore: int | None = None
    num_removed_files: int | None = None
    num_restored_files: int | None = None
    removed_files_size: int | None = None
    restored_files_size: int | None = None

    def __str__(self) -> str:
        if self.num_restored_files is None or self.num_removed_files is None:
            return f"restored snapshot {self.version}"
        back, gone = _count_text(self.num_restored_files, "file"), _count_text(self.num_removed_files, "file")
        return f"restored version {self.version}: {back} came back, {gone} removed"


@dataclass(frozen=True, repr=False)
class CloneResult(_Result):
    """The result of a shallow clone of a Delta table, with the attributes of Delta's CLONE.

    Attributes:
        version: The version of the source that was cloned.
        source_table_size: The size of its data files in bytes.
        source_num_of_files: The number of its data files.
        num_removed_files: The number of files removed from the clone; always 0.
        num_copied_files: The number of files copied; always 0.
        removed_files_size: The size of removed files in bytes; always 0.
        copied_files_size: The size of copied files in bytes; always 0.

    Example:
        >>> print(events.clone("/lake/events_test"))
        cloned version 12: 40 files (1.2 GB), none copied
    """

    version: int
    source_table_size: int
    source_num_of_files: int
    num_removed_files: int = 0
    num_copied_files: int = 0
    removed_files_size: int = 0
    copied_files_size: int = 0

    def __str__(self) -> str:
        files = _count_text(self.source_num_of_files, "file")
        return f"cloned version {self.version}: {files} ({human_bytes(self.source_table_size)}), none copied"


@dataclass(frozen=True, repr=False)
class GenerateResult(_Result):
    """The symlink manifests that were written for a Delta table.

    Attributes:
        manifests: The number of manifests, one for each partition.
        files: The number of data files that they list.

    Example:
        >>> print(events.generate())
        12 manifests of 40 files
    """

    manifests: int
    files: int

    def __str__(self) -> str:
        return f"{_count_text(self.manifests, 'manifest')} of {_count_text(self.files, 'file')}"


@dataclass(frozen=True, repr=False)
class ConvertResult(_Result):
    """The equality deletes of an Iceberg table that were replaced by position deletes or deletion vectors.

    Attributes:
        removed: The number of equality delete files removed.
        files: The number of data files that got a deletion vector or position deletes.
        rows: The number of rows that these delete.

    Example:
        >>> print(orders.convert_equality_deletes())
        12 files of equality deletes replaced: 340 rows of 5 files are deleted by position
    """

    removed: int = 0
    files: int = 0
    rows: int = 0

    def __str__(self) -> str:
        if not self.removed:
            return "no equality deletes"
        deleted = f"{_count_text(self.rows, 'row')} of {_count_text(self.files, 'file')}"
        kinds = "file" if self.removed == 1 else "files"
        return f"{self.removed:,} {kinds} of equality deletes replaced: {deleted} are deleted by position"


@dataclass(frozen=True, repr=False)
class ManifestsResult(_Result):
    """The manifests of an Iceberg table before and after a rewrite.

    Attributes:
        rewritten: The number of manifests replaced.
        written: The number of manifests that replace them.

    Example:
        >>> print(orders.rewrite_manifests())
        120 manifests rewritten as 3
    """

    rewritten: int
    written: int

    def __str__(self) -> str:
        return f"{_count_text(self.rewritten, 'manifest')} rewritten as {self.written:,}"


@dataclass(frozen=True, repr=False)
class PositionDeletesResult(_Result):
    """The position delete files of an Iceberg table before and after a rewrite.

    Attributes:
        rewritten_delete_files: The number of files replaced, or dropped because their data files are no longer in the
            table.
        added_delete_files: The number of files that replace them, with position deletes or deletion vectors.
        rewritten_bytes: The size of the replaced files in bytes.
        added_bytes: The size of the new files in bytes.

    Example:
        >>> print(orders.rewrite_position_deletes())
        120 files of position deletes rewritten as 3 (1.2 MB into 210.4 KB)
    """

    rewritten_delete_files: int
    added_delete_files: int
    rewritten_bytes: int
    added_bytes: int

    def __str__(self) -> str:
        if not self.rewritten_delete_files:
            return "no position deletes to rewrite"
        number = self.rewritten_delete_files
        files = f"{number:,} file{'' if number == 1 else 's'} of position deletes"
        sizes = f"{human_bytes(self.rewritten_bytes)} into {human_bytes(self.added_bytes)}"
        return f"{files} rewritten as {self.added_delete_files:,} ({sizes})"


@dataclass(frozen=True, repr=False)
class StatisticsResult(_Result):
    """A statistics file that was added to an Iceberg table's metadata.

    Attributes:
        location: The location of the file; None if the table has no rows.
        distinct_values: The number of distinct values of each column, without nulls; empty for partition statistics.
            Numbers above 4,096 are estimates, with a standard error of 1.6%.

    Example:
        >>> print(orders.compute_statistics(["customer", "status"]))
        distinct values: customer 3,120, status 4
    """

    location: str | None
    distinct_values: Mapping[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        if self.location is None:
            return "nothing to count"
        found = ", ".join(f"{name} {count:,}" for name, count in self.distinct_values.items())
        return f"distinct values: {found}" if found else f"statistics in {self.location}"


@dataclass(frozen=True, repr=False)
class PathsResult(_Result):
    """Relocated metadata of an Iceberg table, to be copied together with its files.

    Attributes:
        latest_version: The name of the last metadata file, to open or register the copy with.
        file_list: The location of a CSV file that lists the files to copy, one per line: source, target. None if it was
            not requested.
        staging: The folder of the files that were written.
        manifests: The number of manifests rewritten.
        delete_files: The number of position delete files and deletion vectors rewritten.

    Example:
        >>> print(orders.rewrite_paths("s3://lake/orders", "s3://other/orders"))
        12 manifests and 3 delete files rewritten; the files to copy are listed in s3://lake/orders/metadata/copy-...
    """

    latest_version: str
    file_list: str | None
    staging: str
    manifests: int
    delete_files: int

    def __str__(self) -> str:
        counts = f"{_count_text(self.manifests, 'manifest')} and {_count_text(self.delete_files, 'delete file')}"
        listed = "" if self.file_list is None else f"; the files to copy are listed in {self.file_list}"
        return f"{counts} rewritten{listed}"


def _count_text(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + ("" if number == 1 else "s")
