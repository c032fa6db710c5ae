"""Operations that only some tables support, as protocols. A target implements the protocols of its format.

Callers get a capability with `require`, which raises the error for a missing one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Protocol, TypeVar

import pyarrow as pa

from lakescan.definition.table_changes import TableChange
from lakescan.definition.table_definition import TableDefinition
from lakescan.errors import UnsupportedFeature
from lakescan.storage import FileEntry
from lakescan.tables.base import (
    AS_NEEDED,
    ChangeFiles,
    FileRules,
    OverwriteScope,
    ReferencedFiles,
    RewriteSettings,
    SnapshotFiles,
    Target,
    VacuumEvent,
)
from lakescan.tables.metadata_actions import MetadataFiles, SnapshotManager
from lakescan.tables.results import (
    CheckpointResult,
    ExpireResult,
    GenerateResult,
    ManifestsResult,
    PositionDeletesResult,
    RestoreResult,
)
from lakescan.tables.row_changes import DeleteWriter, RemovedFile, RowChanges, RowLevelCommand, RowLevelOperationMode
from lakescan.writing.table_writes import DeleteLimits, TableWrites, WrittenDeletes, WrittenFile

C = TypeVar("C")


class Overwrites(Protocol):
    """A table whose files can be replaced by other files."""

    @property
    def has_dynamic_overwrites(self) -> bool:
        """Whether a dynamic overwrite replaces only the partitions of its rows, not the whole table."""

    def check_removable(self) -> None:
        """Raise `UnsupportedFeature` if the table's files must not be replaced."""

    @property
    def change_files(self) -> ChangeFiles | None:
        """How to write change files for commits that replace part of a data file; None without a change data feed."""

    def replace_all(self, removed: Sequence[RemovedFile], files: Sequence[WrittenFile]) -> None:
        """Commit `files`, which replace all files of the table (`removed`).

        Raises `CommitConflict` if the base changed, and the errors of `Target.append`.
        """

    def replace(
        self,
        removed: Sequence[RemovedFile],
        files: Sequence[WrittenFile],
        what: OverwriteScope,
        changes: Sequence[WrittenFile] | None = None,
    ) -> None:
        """Commit `files`, which replace `removed`, all files with rows in the scope `what`.

        `changes` are the change files of all changed rows, possibly none; None if readers infer the changes from the
        data files. Raises `CommitConflict` if another commit changed rows that this one read, and the errors of
        `Target.append`.
        """


class Rewrites(Protocol):
    """A table whose rows can be moved to other files without changing them (compaction)."""

    def check_rewritable(self) -> None:
        """Raise `UnsupportedFeature` if rows must not be moved to other files."""

    def rewrite(
        self, removed: Sequence[RemovedFile], files: Sequence[WrittenFile], how: RewriteSettings = AS_NEEDED
    ) -> None:
        """Commit `files`, which have the same rows as the `removed` ones; raises the errors of `Overwrites.replace`."""


class RowLevelChanges(Protocol):
    """A table whose rows can be changed by DELETE, UPDATE and MERGE."""

    def mode_of(self, statement: RowLevelCommand) -> RowLevelOperationMode:
        """Return the row-level operation mode of a statement, by options, table properties and table features."""

    @property
    def records_source_rows(self) -> bool:
        """Whether a commit of MERGE records the number of rows of its source."""

    def joins_files(self, mode: RowLevelOperationMode) -> bool:
        """Return whether the small new files of a statement in this mode are joined, one for each partition."""

    @property
    def follows_jar(self) -> bool:
        """Whether statements behave as with the format's JAR where lakescan's own behaviour differs.

        Then one that changes no row commits an empty snapshot, and texts are not stored in columns of other types.
        """

    def delete_writer(self, write_id: str) -> DeleteWriter:
        """Return the writer of position deletes or deletion vectors for one write; `write_id` is part of file names.

        Raises `UnsupportedFeature` for a table that has no such deletes.
        """

    def change(self, changes: RowChanges) -> None:
        """Commit changes of rows; retried after concurrent commits that do not conflict with them.

        Raises `CommitConflict` if another commit changed rows that the statement read, or after the last attempt, and
        the errors of `Target.append`.
        """


class KeyUpserts(Protocol):
    """A table whose rows can be replaced by key, without knowing their files: by equality deletes."""

    def key_writes(self, keys: Sequence[str]) -> TableWrites:
        """Return the settings for equality delete files, which have the `keys` columns of rows to delete.

        Raises `UnsupportedFeature` for a table without equality deletes.
        """

    def upsert(self, files: Sequence[WrittenFile], deletes: Sequence[WrittenFile]) -> None:
        """Commit new rows, and equality deletes of older rows with the same keys; retried after concurrent commits.

        Raises `CommitConflict` after the last attempt, or if the table's partitioning changed, and the errors of
        `Target.append`.
        """

    @property
    def upserts_by_default(self) -> bool:
        """Whether the table's properties make streams upsert by equality deletes."""

    def append_keys(self) -> Sequence[str] | None:
        """Return the key columns if appended rows replace rows with the same key; None if appends only add rows.

        Raises `UnsupportedFeature` if the table's properties ask for upserts, but it has no key columns.
        """


class EqualityDeleteConversion(Protocol):
    """A table whose equality deletes can be replaced by position deletes or deletion vectors."""

    def equality_deletes(self) -> Sequence[str]:
        """Return the locations of all equality delete files; raises `UnsupportedFeature` if the format has none."""

    def replace_equality(self, deletes: Sequence[WrittenDeletes], gone: Sequence[str]) -> None:
        """Commit position deletes or vectors (`deletes`) that replace equality delete files (`gone`). No row changes.

        Raises `CommitConflict` if another commit changed the data files of these rows, or added older rows, and the
        errors of `Target.append`.
        """


class ColumnChanges(Protocol):
    """A table whose columns can be changed in the same commit as its rows."""

    def with_columns(self, changes: Sequence[TableChange]) -> Target:
        """Return the target whose next commit also changes columns, all or nothing.

        New columns are null in existing rows. The changes add columns and struct members, and widen types. The commit
        raises `CommitConflict` if another writer changed the columns.
        """

    @property
    def added(self) -> Any:
        """The columns that the next commit adds, as an argument of `add_same_columns`; None for none. It is pickled."""

    def add_same_columns(self, added: Any) -> Target:
        """Return the target that also adds the columns `added`, those of another target of this table.

        They have the same ids and names.
        """

    def commit_columns(self) -> None:
        """Commit the changes of `with_columns`, if there are any, for a write without rows."""

    def with_schema(self, new: TableDefinition, *, repartitions: bool = False) -> Target:
        """Return the target whose overwrite also replaces the columns, and with `repartitions` the partitioning.

        Raises `UnsupportedFeature`.
        """


class Alterations(Protocol):
    """A table whose columns, layout and properties can be changed (ALTER TABLE)."""

    def alter(self, changes: Sequence[TableChange]) -> None:
        """Commit changes of columns, layout and properties, in order, as one commit; retried after concurrent commits.

        Each attempt applies the changes to the reloaded table. Raises `NoSuchColumn`, `InvalidOption` and
        `UnsupportedFeature` for changes that do not fit the table, `CommitConflict` after the last attempt, and
        `CommitStateUnknown`. Except for the last one, nothing is changed then.
        """


class BranchesAndTags(Protocol):
    """A table with branches, tags and snapshots that can be managed."""

    @property
    def snapshots(self) -> SnapshotManager:
        """The operations on branches, tags and snapshots; raises `UnsupportedFeature` if the format has none."""


class Restoration(Protocol):
    """A table that can be restored to an earlier snapshot or version."""

    def restore(self, version: int | str | None, timestamp: datetime | None) -> RestoreResult:
        """Make an earlier snapshot or version the current one, given by its id or by a time at which it was current.

        Raises `NoSuchSnapshot`, `MissingFile` if data files no longer exist, `CommitConflict` if another writer changed
        rows at the same time, and the errors of `Target.append`.
        """


class SnapshotExpiry(Protocol):
    """A table whose snapshots can be expired."""

    def expire(
        self,
        older_than: datetime | None,
        retain_last: int | None = None,
        *,
        dry_run: bool = False,
        snapshots: Sequence[int] = (),
    ) -> ExpireResult:
        """Expire the given snapshots, and snapshots older than a time, except the newest `retain_last` of each branch.

        None stands for the table's own properties. Raises `UnsupportedFeature` if the format has no snapshots to
        expire, `InvalidOption` if nothing would be retained, or if a branch or tag references a given snapshot,
        `NoSuchSnapshot`, and `CommitConflict`.
        """

    def files_of_snapshots(self, snapshots: Sequence[int]) -> Sequence[SnapshotFiles]:
        """Return in parts the files that these snapshots' manifest lists reference, but no other snapshot's.

        Workers read the parts. Data files may still be in the manifests of other snapshots.
        """


class FileImports(Protocol):
    """A table that can add existing files without moving them."""

    def add_files(
        self,
        folder: str,
        partitions: Mapping[str, str],
        *,
        check_duplicates: bool,
        files: Sequence[str] | None = None,
    ) -> Mapping[str, str]:
        """Add the existing Parquet files under a folder; return the summary of the new snapshot.

        A file's partition is given by its folder names. `partitions` selects partitions by their values. `files` are
        the locations of the files to add; None for all. Raises `InvalidOption` for files that the table already has
        (unless `check_duplicates` is false), `SchemaMismatch`, `UnsupportedFeature`, `CommitConflict`.
        """


class OrphanRemoval(Protocol):
    """A table that can distinguish its own files from others in its folders."""

    def file_rules(self) -> FileRules:
        """Return the folders and the rules for removing files; raises `UnsupportedFeature` if that is not allowed."""

    def parts_in_use(self, since: datetime, other_metadata: Sequence[FileEntry]) -> Iterator[ReferencedFiles]:
        """Yield in parts the files that the base needs, or that were removed after `since`.

        Workers read the parts. The first part has the files that the table's metadata file itself references; it is
        empty for a format without such a file. `other_metadata` are Iceberg metadata files in the table's folder. The
        files of their tables are included.
        """


class RemovedFilesLog(Protocol):
    """A table whose log records removed files."""

    def files_removed(self) -> Iterator[pa.Array]:
        """Reopen the table, and yield the locations of all files that any version in its log removed.

        Raises `UnsupportedFeature` if the format does not record them.
        """


class VacuumHistory(Protocol):
    """A table whose history records when files were removed."""

    def record_vacuum(self, event: VacuumEvent) -> None:
        """Commit the start or the end of a removal of files, which changes no file of the table.

        Does nothing in a store where the format records none.
        """


class MetadataFileActions(Protocol):
    """A table that can have statistics files, and relocated copies of its metadata."""

    @property
    def metadata_files(self) -> MetadataFiles:
        """The operations on such files; raises `UnsupportedFeature` if the format has none."""


class ManifestRewrites(Protocol):
    """A table with manifests that can be rewritten."""

    def rewrite_manifests(self) -> ManifestsResult:
        """Rewrite the manifests of the branch; raises `UnsupportedFeature` if the format has none."""


class PositionDeleteRewrites(Protocol):
    """A table with position delete files that can be rewritten."""

    def rewrite_position_deletes(self, where: str | None, limits: DeleteLimits) -> PositionDeletesResult:
        """Rewrite position delete files of data files that may match `where`; `limits` decide which.

        Raises `UnsupportedFeature` if the format has none, and `CommitConflict`.
        """


class ManifestGeneration(Protocol):
    """A table that can generate files that let other engines read it."""

    def generate(self, mode: str) -> GenerateResult:
        """Write files that let other engines read the table; `mode` is their kind, as in GENERATE.

        Raises `InvalidOption` for an unknown mode, and `UnsupportedFeature`.
        """


class Checkpoints(Protocol):
    """A table whose log is summarized by checkpoints."""

    def checkpoint(self, log_retention: timedelta | None = None) -> CheckpointResult:
        """Write a checkpoint of the newest version; raises `UnsupportedFeature` if the format has none.

        With `log_retention`, also delete log files of older commits that exceed this age.
        """


def find_capability(target: Target, capability: Callable[..., C]) -> C | None:
    """Return the target as an implementation of a protocol of this module; None if its format lacks it."""
    found: Any = target
    return found if capability in type(target).__mro__ else None


def require(target: Target, capability: Callable[..., C], what: str = "") -> C:
    """Return the target as an implementation of a capability; raise `UnsupportedFeature` if its format lacks it.

    `what` is the part of the statement that asks for the capability, for the message.

    Example:
        >>> require(target, ManifestRewrites).rewrite_manifests()
    """
    if (found := find_capability(target, capability)) is not None:
        return found
    if (refusal := target.refusal(capability, what)) is not None:
        raise refusal
    name = getattr(capability, "__name__", str(capability))
    raise UnsupportedFeature(f"{name} of {target.name}", "The table's format does not support this.")


def added_columns(target: Target) -> Any:
    """Return the columns that the next commit of a target adds; None for none."""
    changing = find_capability(target, ColumnChanges)
    return None if changing is None else changing.added


def add_same_columns(target: Target, added: Any) -> Target:
    """Return the target that also adds the columns of another target of the same table; `added` is its `added`."""
    return target if added is None else require(target, ColumnChanges).add_same_columns(added)


def commit_columns(target: Target) -> None:
    """Commit the columns that a target adds, if there are any, for a write without rows."""
    if (changing := find_capability(target, ColumnChanges)) is not None:
        changing.commit_columns()
