"""What tables can do beside being read and appended to. A target implements those protocols that its format can.

Callers ask for a capability by `require`, the one place that refuses a missing one.
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
    """A table whose files can be replaced by others."""

    @property
    def has_dynamic_overwrites(self) -> bool:
        """Whether a dynamic overwrite replaces the partitions of its rows; otherwise it replaces the whole table."""

    def check_removable(self) -> None:
        """Raise `UnsupportedFeature` if files of the table cannot be replaced."""

    @property
    def change_files(self) -> ChangeFiles | None:
        """How to record the changes of a commit that replaces files in part; None if the table does not."""

    def replace_all(self, removed: Sequence[RemovedFile], files: Sequence[WrittenFile]) -> None:
        """Commit files that replace the whole table; raises `CommitConflict` if the base changed; see `append`."""

    def replace(
        self,
        removed: Sequence[RemovedFile],
        files: Sequence[WrittenFile],
        what: OverwriteScope,
        changes: Sequence[WrittenFile] | None = None,
    ) -> None:
        """Commit files that replace others, which are all that have rows of `what`; see `append`.

        `changes` are change files of all rows that differ, which may be none; None if the files themselves tell.
        Raises `CommitConflict` if another commit changed what this one read.
        """


class Rewrites(Protocol):
    """A table whose rows can be moved to other files without being changed: compaction."""

    def check_rewritable(self) -> None:
        """Raise `UnsupportedFeature` if rows may not be moved to other files without being changed."""

    def rewrite(
        self, removed: Sequence[RemovedFile], files: Sequence[WrittenFile], how: RewriteSettings = AS_NEEDED
    ) -> None:
        """Commit files that hold the same rows as those they replace; see `replace`."""


class RowLevelChanges(Protocol):
    """A table whose rows statements can change: DELETE, UPDATE and MERGE."""

    def mode_of(self, statement: RowLevelCommand) -> RowLevelOperationMode:
        """How a statement's changes are recorded: by the write options, the table's properties and what it supports."""

    def delete_writer(self, write_id: str) -> DeleteWriter:
        """The writer of deletes by position, for one write: `write_id` tells its files from those of others.

        Raises `UnsupportedFeature` for a table that has none.
        """

    def change(self, changes: RowChanges) -> None:
        """Commit changes of rows; it is retried after concurrent commits that do not conflict with it.

        Raises `CommitConflict` if another commit changed what the statement read, or retries run out; see `append`.
        """


class KeyUpserts(Protocol):
    """A table whose rows can be replaced by their keys, whatever files they are in: by equality deletes."""

    def key_writes(self, keys: Sequence[str]) -> TableWrites:
        """How to write the keys of rows to delete, whatever files they are in; raises `UnsupportedFeature`."""

    def upsert(self, files: Sequence[WrittenFile], deletes: Sequence[WrittenFile]) -> None:
        """Commit new rows, and deletes of all older rows by files of keys; it is retried after concurrent commits.

        Raises `CommitConflict` if retries run out, or the table is partitioned in another way now; see `append`.
        """

    @property
    def upserts_by_default(self) -> bool:
        """Whether the table's properties say that streams upsert, by such files of keys."""

    def append_keys(self) -> Sequence[str] | None:
        """The columns by which appended rows replace those with their keys; None if they are only added.

        Raises `UnsupportedFeature` if the table's properties ask for that and it has no such columns.
        """


class EqualityDeleteConversion(Protocol):
    """A table whose equality deletes can be replaced by deletes by position."""

    def equality_deletes(self) -> Sequence[str]:
        """The files of equality deletes of the base; raises `UnsupportedFeature` if the format has none."""

    def replace_equality(self, deletes: Sequence[WrittenDeletes], gone: Sequence[str]) -> None:
        """Commit deletes by position in the place of files of equality deletes (`gone`): the rows stay the same.

        Raises `CommitConflict` if another commit changed the files with these rows, or has added older ones; see
        `append`.
        """


class ColumnChanges(Protocol):
    """A table whose columns a commit can change together with its rows."""

    def with_columns(self, changes: Sequence[TableChange]) -> Target:
        """The target whose commits change columns with their rows, all or nothing; older rows have nulls in new ones.

        The changes add columns and members of structs, and widen types.

        Commits raise `CommitConflict` if another writer changed the columns meanwhile.
        """

    @property
    def added(self) -> Any:
        """The columns of `with_columns` that a commit is to add, for `adding`; None for none. It is pickled."""

    def add_same_columns(self, added: Any) -> Target:
        """The target that adds the columns that another of the same table adds, with the same ids and names."""

    def commit_columns(self) -> None:
        """Commit the columns of `with_columns` alone, if there are any: for a write that has no rows."""

    def with_schema(self, new: TableDefinition, *, repartitions: bool = False) -> Target:
        """The target of an overwrite that also replaces the columns, and with `repartitions` the partitions.

        Raises `UnsupportedFeature`.
        """


class Alterations(Protocol):
    """A table whose columns, layout and properties can be changed: ALTER TABLE."""

    def alter(self, changes: Sequence[TableChange]) -> None:
        """Commit changes of columns, layout and properties, in order, as one commit; retried after concurrent ones.

        Each attempt applies them to the table as it is then. Raises `NoSuchColumn`, `InvalidOption` and
        `UnsupportedFeature` for changes that the table cannot have, `CommitConflict` if retries run out,
        `CommitStateUnknown`; nothing is changed then.
        """


class BranchesAndTags(Protocol):
    """A table that has branches and tags, and snapshots to move them to."""

    @property
    def snapshots(self) -> SnapshotManager:
        """Its branches, tags and snapshots; raises `UnsupportedFeature` if the format has none."""


class Restoration(Protocol):
    """A table that can go back to an earlier state."""

    def restore(self, version: int | str | None, timestamp: datetime | None) -> RestoreResult:
        """Make an earlier state the current one, as a new commit: that of a version, or of a time.

        Raises `NoSuchSnapshot` for a state that is not there, `InvalidOption` for the current one, `MissingFile` if
        files of it are gone, `CommitConflict` if another writer changed rows meanwhile; see `append`.
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
        """Expire snapshots from before a time, except the newest `retain_last` of each branch; and the given snapshots.

        None stands for the table's own properties. Raises `UnsupportedFeature` if the format has nothing to expire,
        `InvalidOption` if nothing would be retained, or a branch or tag names a given snapshot, `NoSuchSnapshot`,
        `CommitConflict`.
        """

    def files_of_snapshots(self, snapshots: Sequence[int]) -> Sequence[SnapshotFiles]:
        """The files of these snapshots of the base that no others of it have in their lists, in parts.

        Data files may be in the manifests of other snapshots as well. Workers read the parts.
        """


class FileImports(Protocol):
    """A table that can take files of other writers where they are."""

    def add_files(
        self,
        folder: str,
        partitions: Mapping[str, str],
        *,
        check_duplicates: bool,
        files: Sequence[str] | None = None,
    ) -> Mapping[str, str]:
        """Add the Parquet files under a folder where they are; return what the new snapshot says of them.

        The partition of a file is that of its folders, of which `partitions` choose some. `files` are the locations of
        those to take, if not all. Raises `InvalidOption` for files that are the table's already, unless
        `check_duplicates` is false; `SchemaMismatch`, `UnsupportedFeature`, `CommitConflict`.
        """


class OrphanRemoval(Protocol):
    """A table whose files can be told from others in its folders."""

    def file_rules(self) -> FileRules:
        """Where files are, and for how long; raises `UnsupportedFeature` if they may not be removed."""

    def parts_in_use(self, since: datetime, other_metadata: Sequence[FileEntry]) -> Iterator[ReferencedFiles]:
        """Return the locations of all files that this state of the table needs, or needed after `since`, in parts.

        Workers read them. The first part has the files that the table's metadata file names itself; it is empty without
        such a file. `other_metadata` are Iceberg metadata files in its folder: the files of tables that they belong to
        count, too.
        """


class RemovedFilesLog(Protocol):
    """A table whose log records removed files."""

    def files_removed(self) -> Iterator[pa.Array]:
        """Reopen the table; return the locations of all files that its log says were removed, in any version.

        Raises `UnsupportedFeature` if the format does not keep them.
        """


class MetadataFileActions(Protocol):
    """A table of which statistics, and copies of its metadata, can be stored."""

    @property
    def metadata_files(self) -> MetadataFiles:
        """Statistics, and copies of its metadata; raises `UnsupportedFeature` if the format has none."""


class ManifestRewrites(Protocol):
    """A table that has manifests to rewrite."""

    def rewrite_manifests(self) -> ManifestsResult:
        """Rewrite the manifests of the branch; raises `UnsupportedFeature` if the format has none."""


class PositionDeleteRewrites(Protocol):
    """A table that has files of position deletes to rewrite."""

    def rewrite_position_deletes(self, where: str | None, limits: DeleteLimits) -> PositionDeletesResult:
        """Rewrite files of position deletes; raises `UnsupportedFeature` if the format has none, `CommitConflict`."""


class ManifestGeneration(Protocol):
    """A table for which files can be generated by which other engines read it."""

    def generate(self, mode: str) -> GenerateResult:
        """Write files by which other engines read the table; raises `InvalidOption` and `UnsupportedFeature`."""


class Checkpoints(Protocol):
    """A table whose log is summed up by checkpoints."""

    def checkpoint(self, log_retention: timedelta | None = None) -> CheckpointResult:
        """Write a checkpoint of the newest version; raises `UnsupportedFeature` if the format has none.

        With a `log_retention`, remove older commits before it.
        """


def find_capability(target: Target, capability: Callable[..., C]) -> C | None:
    """Return a table as one with a capability, a protocol of this module; None if its format does not have it."""
    found: Any = target
    return found if capability in type(target).__mro__ else None


def require(target: Target, capability: Callable[..., C], what: str = "") -> C:
    """Return a table as one with a capability; raise `UnsupportedFeature` if its format does not have it.

    `what` is the part of a statement that asks for it, which the message may name.

    Example:
        >>> require(target, ManifestRewrites).rewrite_manifests()
    """
    if (found := find_capability(target, capability)) is not None:
        return found
    if (refusal := target.refusal(capability, what)) is not None:
        raise refusal
    name = getattr(capability, "__name__", str(capability))
    raise UnsupportedFeature(f"{name} of {target.name}", "Its format does not have it.")


def added_columns(target: Target) -> Any:
    """Return the columns that the commit of a target adds; None for none."""
    changing = find_capability(target, ColumnChanges)
    return None if changing is None else changing.added


def add_same_columns(target: Target, added: Any) -> Target:
    """Return the target that adds the columns that another of the same table adds; `added` are those of that."""
    return target if added is None else require(target, ColumnChanges).add_same_columns(added)


def commit_columns(target: Target) -> None:
    """Commit the columns that a target adds, if there are any: for a write that has no rows."""
    if (changing := find_capability(target, ColumnChanges)) is not None:
        changing.commit_columns()
