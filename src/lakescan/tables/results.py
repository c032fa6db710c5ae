"""The results of writes and of maintenance. They are printed as a sentence, in Python as in the command line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import overload

from lakescan.common.html import facts_table, name_list, section
from lakescan.planning.explain.summary import human_bytes


class _Result:
    """Prints as the sentence that `__str__` returns."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self})"

    def _repr_html_(self) -> str:
        """The result as notebooks show it: the sentence, and what it is made of."""
        return section(str(self), facts_table(_facts(self)))


def _facts(result: _Result) -> dict[str, str]:
    """The members of a result that say something, as text."""
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
    """What a write committed.

    Attributes:
        files: How many data files were added.
        rows: How many rows these have; 0 where it is unknown: for files without statistics.
        bytes: The size of these files.
        removed_files: How many data files the commit removed from the table.
        note: What else is to be known of the files; empty otherwise.

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
    """What the commit of a transaction changed.

    Attributes:
        tables: The names of the changed tables in their catalog, in the order in which the transaction opened them.

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
    """What `Table.alter` changed.

    Attributes:
        changes: A sentence for each change, in order.

    Example:
        >>> print(orders.alter().add_column("note", "STRING").commit())
        1 change: added column note string
    """

    changes: tuple[str, ...]

    def __str__(self) -> str:
        return f"{_count_text(len(self.changes), 'change')}: {'; '.join(self.changes)}"


@dataclass(frozen=True, repr=False)
class RefResult(_Result):
    """What became of a branch or tag of an Iceberg table.

    Attributes:
        name: The name of the branch or tag; `main` for the current state of the table.
        previous: The id of the snapshot that it named before; None if it is new.
        current: The id of the snapshot that it names now; None if it is dropped.
        retention_changed: Whether it is kept for another time than before. False if it is new.

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
    """What a statement that changes rows committed.

    Attributes:
        inserted: How many rows were inserted.
        updated: How many rows were updated.
        deleted: How many rows were deleted.
        files: How many data files were added: new and changed rows, and in copy-on-write all other rows of their files.
        removed_files: How many data files were removed from the table.
        delete_files: How many data files got position deletes or a deletion vector.
        bytes: The size of the added data files.
        note: What else is to be known of these; empty otherwise.

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
    """What a compaction replaced.

    Attributes:
        files: How many data files were written.
        rows: How many rows these have.
        bytes: The size of these files.
        removed_files: How many data files they replace.
        removed_bytes: The size of the replaced files.
        failed_files: With partial progress, how many data files stayed since another writer changed files of their
            commit.

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
    """The snapshots, branches and tags that expired; with `dry_run`, those that would.

    It stands for the number of snapshots: `int(result)`.

    Attributes:
        snapshots: The ids of the snapshots, in ascending order.
        references: The names of the branches and tags, in ascending order.
        dry_run: Whether this is only what would expire.
        removed_files: How many files that only they had were removed. With `clean_expired_files=False` they stay until
            `Table.remove_orphans`.

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
    """The orphan files that were removed; with `dry_run`, those that would be. It is a sequence of their locations.

    Attributes:
        files: The locations of the files.
        bytes: The size of these files.
        dry_run: Whether the files are still there.

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
    """The checkpoint of a Delta table.

    Attributes:
        version: The version that the checkpoint holds.

    Example:
        >>> print(customers.checkpoint())
        wrote a checkpoint of version 12
    """

    version: int

    def __str__(self) -> str:
        return f"wrote a checkpoint of version {self.version}"


@dataclass(frozen=True, repr=False)
class RestoreResult(_Result):
    """An earlier state that is the current one again; the attributes are those of Delta's RESTORE.

    Attributes:
        version: The version (Delta) or snapshot id (Iceberg) that was restored.
        table_size_after_restore: The bytes of its data files; None for Iceberg, as all that follow.
        num_of_files_after_restore: How many data files it has.
        num_removed_files: How many files are not current any more.
        num_restored_files: How many files came back.
        removed_files_size: The bytes of the files that are not current any more.
        restored_files_size: The bytes of the files that came back.

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
    """A Delta table that was made of another one's files; the attributes are those of Delta's CLONE.

    Attributes:
        version: The version of the source that was cloned.
        source_table_size: The bytes of its data files.
        source_num_of_files: How many data files it has.
        num_removed_files: How many files the clone had before; 0.
        num_copied_files: How many files were copied; 0.
        removed_files_size: The bytes of removed files; 0.
        copied_files_size: The bytes of copied files; 0.

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
    """The symlink manifests of a Delta table.

    Attributes:
        manifests: How many manifests there are: one for each partition.
        files: How many data files they name.

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
    """The equality deletes of an Iceberg table that became deletes by position.

    Attributes:
        removed: How many files of equality deletes were removed.
        files: How many data files got a deletion vector, or position deletes.
        rows: How many of their rows these delete.

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
    """The manifests of an Iceberg table that were rewritten.

    Attributes:
        rewritten: How many manifests were replaced.
        written: How many manifests replace them.

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
    """The files of position deletes of an Iceberg table that were rewritten.

    Attributes:
        rewritten_delete_files: How many files were replaced, or dropped since no data file has their rows any more.
        added_delete_files: How many files replace them: files of position deletes, or of deletion vectors.
        rewritten_bytes: The size of the replaced files.
        added_bytes: The size of the new files.

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
    """A statistics file of an Iceberg table, which its metadata names.

    Attributes:
        location: Where the file is; None for a table without rows to count.
        distinct_values: How many distinct values each column has, nulls left out; empty for partition statistics. More
            than 4,096 are an estimate, with a standard error of 1.6%.

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
    """The metadata of an Iceberg table with other paths, to be copied with its files.

    Attributes:
        latest_version: The name of the last metadata file, by which the copy is opened or registered.
        file_list: The list of files to copy, a line each: from where, a comma, to where; None if it was not asked for.
        staging: The folder of the files that were written.
        manifests: How many manifests were rewritten.
        delete_files: How many files of position deletes, and vectors, were rewritten.

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
