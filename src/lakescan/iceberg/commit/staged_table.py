"""New Iceberg tables: staged with their future metadata, then created in one commit with their first snapshot.

No catalog has the table before that commit. The files of its rows are written first, at the location in the staged
metadata.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import pyarrow as pa

from lakescan.common.retries import outcome_of
from lakescan.errors import CommitStateUnknown, CreatedConcurrently, UnsupportedFeature
from lakescan.iceberg.commit.commit_base import CommitBase
from lakescan.iceberg.commit.commit_snapshot import (
    MetadataChanges,
    commit_emptied,
    commit_snapshot,
    record_updates,
    snapshot_updates,
)
from lakescan.iceberg.commit.file_changes import SnapshotChanges, added_files
from lakescan.iceberg.commit.outcomes import FailedCommit, is_refusal
from lakescan.iceberg.commit.reachable_files import reachable_files
from lakescan.iceberg.commit.snapshot_producer import SnapshotProducer
from lakescan.iceberg.metadata.encryption_keys import add_keys, split_key_updates
from lakescan.iceberg.metadata.format_versions import PROPERTY
from lakescan.iceberg.metadata.pyiceberg_metadata import MetadataNotWritten, metadata_text, metadata_writes
from lakescan.iceberg.metadata.table_metadata import MAIN
from lakescan.iceberg.metadata.table_metadata_parser import parse_metadata
from lakescan.iceberg.table import IcebergTable
from lakescan.storage import Storage
from lakescan.storage.removal import discard
from lakescan.writing.table_writes import WrittenFile

if TYPE_CHECKING:
    from pyiceberg.table import StagedTable, Table


@runtime_checkable
class MakesTables(Protocol):
    """A pyiceberg catalog that creates a table by writing its first metadata file, whose name the catalog chooses."""

    def make_table(self, staged: StagedTable, metadata: Any) -> None:
        """Create a table with this metadata; raises pyiceberg's `TableAlreadyExistsError`."""


def stage_table(catalog: Any, name: tuple[str, ...], arguments: Mapping[str, Any]) -> StagedTable:
    """Return a staged table for `commit_staged_table`, with the location and properties that the catalog gives it.

    `arguments` are those of pyiceberg's `create_table`. The catalog is asked with an empty schema of version 2, the
    newest that pyiceberg's transactions support. Raises pyiceberg's errors, including `NoSuchNamespaceError`.
    """
    from pyiceberg.schema import Schema
    from pyiceberg.table import StagedTable
    from pyiceberg.table.locations import load_location_provider
    from pyiceberg.table.metadata import new_table_metadata

    schema, properties = arguments["schema"], arguments["properties"]
    given = {each: value for each, value in properties.items() if each != PROPERTY}
    staged = _extract_staged_table(
        catalog.create_table_transaction(name, Schema(), arguments["location"], properties=given)
    )
    metadata = new_table_metadata(
        schema=schema,
        partition_spec=arguments["partition_spec"],
        sort_order=arguments["sort_order"],
        location=staged.metadata.location,
        properties={**staged.metadata.properties, PROPERTY: properties[PROPERTY]},
    )
    if metadata.format_version > 2:  # pyiceberg omits the next row id and the columns' defaults
        metadata = metadata.model_copy(update={"next_row_id": 0, "schemas": [schema]})
    with metadata_writes(metadata.properties, ".".join(name)):
        provider = load_location_provider(metadata.location, metadata.properties)
        location = provider.new_table_metadata_file_location()
    return StagedTable(name, metadata, location, staged.io, catalog, staged.config)


def _extract_staged_table(transaction: Any) -> StagedTable:
    """Return the staged table of a transaction, with the storage configuration that the server gave."""
    from pyiceberg.table import CreateTableTransaction

    class StagingTransaction(CreateTableTransaction):
        """A transaction that exposes its staged table."""

        def staged_table(self) -> Any:
            return self._table

    found: StagedTable = StagingTransaction.staged_table(transaction)
    return found


def commit_staged_table(staged: StagedTable, snapshot: Sequence[Any] = ()) -> None:
    """Create a staged table in its catalog; `snapshot` are the updates that add its first snapshot, if any.

    After `CommitStateUnknown`, the table may exist. After any other error, it does not and will not exist:
    `CreatedConcurrently` if another table has the name, `UnsupportedFeature` for a catalog that cannot create it with
    rows, or pyiceberg's errors.
    """
    from pyiceberg.catalog import MetastoreCatalog

    catalog: Any = staged.catalog
    with metadata_writes(staged.metadata.properties, ".".join(staged.name())):
        if isinstance(catalog, MakesTables):
            send = _creation(catalog, staged, _add_snapshot(staged, snapshot))
        elif isinstance(catalog, MetastoreCatalog):
            _write_metadata(staged, snapshot)
            send = _registration(staged)
        else:
            changes = MetadataChanges.record_creation(staged)
            send = lambda: catalog.commit_table(staged, changes.requirements, (*changes.updates, *snapshot))  # noqa: E731
        try:
            send()
        except (MetadataNotWritten, UnsupportedFeature):
            raise
        except Exception as error:
            _find_outcome(staged, error)


def _creation(catalog: MakesTables, staged: StagedTable, metadata: Any) -> Any:
    return lambda: catalog.make_table(staged, metadata)


def _registration(staged: StagedTable) -> Any:
    return lambda: create_tolerating_drop(
        lambda: staged.catalog.register_table(staged.name(), staged.metadata_location), staged.catalog
    )


def create_tolerating_drop(change: Callable[[], object], catalog: Any) -> None:
    """Create a table, and ignore the error if it was dropped or renamed right after its creation.

    pyiceberg's own catalogs load the table after creating it. Then the table was created, and its files belong to the
    table that now has another name. The same error from a server means that no table was created, and is raised.
    """
    from pyiceberg.catalog import MetastoreCatalog
    from pyiceberg.exceptions import NoSuchTableError

    try:
        change()
    except NoSuchTableError:
        if not isinstance(catalog, MetastoreCatalog):
            raise


def _write_metadata(staged: StagedTable, snapshot: Sequence[Any]) -> None:
    from pyiceberg.serializers import ToOutputFile

    metadata = _add_snapshot(staged, snapshot)
    ToOutputFile.table_metadata(metadata, staged.io.new_output(staged.metadata_location))


def _add_snapshot(staged: StagedTable, snapshot: Sequence[Any]) -> Any:
    """Return the metadata of a staged table after the updates that add its first snapshot."""
    from pyiceberg.table.update import update_table_metadata

    plain, keys = split_key_updates(snapshot)
    return add_keys(update_table_metadata(staged.metadata, plain), keys) if snapshot else staged.metadata


def _find_outcome(staged: StagedTable, error: Exception) -> None:
    """Return if the table was created in spite of an error, which is found by asking the catalog; otherwise raise.

    Raises `CreatedConcurrently` if another table has the name, `UnsupportedFeature` for a catalog that cannot create a
    table with rows, `CommitStateUnknown`, or the error itself.
    """
    from pyiceberg.exceptions import (
        CommitFailedException,
        NoSuchNamespaceError,
        NoSuchTableError,
        TableAlreadyExistsError,
    )

    name = ".".join(staged.name())
    exists = isinstance(error, (TableAlreadyExistsError, CommitFailedException))
    is_refused = exists or isinstance(error, NotImplementedError | NoSuchNamespaceError) or is_refusal(error, staged)

    def find_table() -> bool | None:
        try:
            now = staged.catalog.load_table(staged.name())
        except NoSuchTableError:
            return False if is_refused else None
        if now.metadata.table_uuid == staged.metadata.table_uuid:
            return True
        return False if is_refused else None

    if outcome_of(name, error, find_table):
        return
    if exists:
        raise CreatedConcurrently(f"another writer created {name} at the same time") from error
    if isinstance(error, NotImplementedError):
        raise UnsupportedFeature(
            f"creating {name} with its rows in a catalog of this type", "Create it empty, then INSERT."
        ) from error
    raise error


def current_table_files(staged: StagedTable, storage: Storage) -> Iterator[pa.Array]:
    """Yield the locations of all files of the table that currently has a staged table's name; nothing without one."""
    from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError

    try:
        now = staged.catalog.load_table(staged.name())
    except (NoSuchTableError, NoSuchNamespaceError):
        return
    yield pa.array([now.metadata_location], pa.string())
    yield from reachable_files(IcebergTable.open(now.metadata_location, storage))


def commit_new_table(
    staged: StagedTable,
    files: Iterable[WrittenFile],
    storage: Storage,
    properties: Mapping[str, str],
    branch: str = MAIN,
    *,
    is_staged: bool = False,
    transaction: tuple[str, int] | None = None,
    operation: str = "append",
) -> None:
    """Create a staged table with files, in one commit; without files, it has no snapshot.

    `properties` are added to the snapshot's summary. `transaction` is the application transaction to record. With
    `is_staged`, no branch names the snapshot. `operation` is the snapshot's, which is `overwrite` in Spark for a table
    that would have been replaced. Raises the errors of `commit_staged_table`. The metadata files of a table
    that was not created are removed.
    """
    base, written = _base(staged.metadata, staged.metadata_location, branch), list(files)
    producer = SnapshotProducer(base, storage, operation, SnapshotChanges(added_files(written, base)), properties)
    try:
        updates = snapshot_updates(base.given, producer.produce(), branch) if written else ()
        records = record_updates(producer, transaction) if written else ()
        commit_staged_table(staged, (*records, *(updates[:-1] if is_staged else updates)))
    except CommitStateUnknown:
        raise
    except Exception:
        stored = [staged.metadata_location, *producer.stored_locations]
        leading = [staged.metadata_location, *producer.lists]
        discard(storage, stored, lambda: current_table_files(staged, storage), leading)
        raise


@dataclass(frozen=True)
class TableReplacement:
    """The replacement of a table's definition, as metadata `changes`, and in the same commit of its rows.

    `table` is pyiceberg's, `before` the same table as read by lakescan. Earlier snapshots stay.
    """

    table: Table
    before: IcebergTable
    changes: MetadataChanges
    storage: Storage
    properties: Mapping[str, str] = field(default_factory=dict)
    transaction: tuple[str, int] | None = None

    @cached_property
    def metadata(self) -> Any:
        """The (pyiceberg) metadata after the changes, which files are written for."""
        from pyiceberg.table.update import update_table_metadata

        return update_table_metadata(self.table.metadata, self.changes.updates)

    def commit(self, files: Iterable[WrittenFile] = ()) -> FailedCommit | None:
        """Commit the replacement with these files; return None on success, else the definite failure.

        See `commit_snapshot`.
        """
        written = list(files)
        if not written:
            return commit_emptied(self.table, self.changes, self.before, self.storage)
        base = _base(self.metadata, self.table.metadata_location)
        operation = "append" if base.head is None else "overwrite"
        changes = SnapshotChanges(added_files(written, base), removes_all=base.head is not None)
        producer = SnapshotProducer(base, self.storage, operation, changes, self.properties)
        updates, known = self.changes.updates, set(self.before.metadata.snapshots)
        return commit_snapshot(
            *(self.table, producer, known, self.storage, record_updates(producer, self.transaction)),
            first=updates,
            requirements=self.changes.requirements,
        )


def _base(metadata: Any, source: str, branch: str = MAIN) -> CommitBase:
    return CommitBase(parse_metadata(metadata_text(metadata).encode(), source), metadata, branch)
