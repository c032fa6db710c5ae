"""New Iceberg tables: staged with the metadata that they will have, then made in one step, with their first snapshot.

Until that step no catalog has the table. Files of its rows are written before, to where the staged metadata says.
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
    """A pyiceberg catalog that makes a table by creating its first metadata file, under a name that it chooses."""

    def make_table(self, staged: StagedTable, metadata: Any) -> None:
        """Make a table with this metadata; raises pyiceberg's `TableAlreadyExistsError`."""


def stage_table(catalog: Any, name: tuple[str, ...], arguments: Mapping[str, Any]) -> StagedTable:
    """A table that `make` can make: at the place, and with the properties, that the catalog gives it.

    `arguments` are those of pyiceberg's `create_table`. The catalog is asked with an empty schema of version 2, the
    newest that pyiceberg's transactions take. Raises pyiceberg's errors, `NoSuchNamespaceError` among them.
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
    if metadata.format_version > 2:  # pyiceberg leaves out the next row id, and the columns' defaults
        metadata = metadata.model_copy(update={"next_row_id": 0, "schemas": [schema]})
    with metadata_writes(metadata.properties, ".".join(name)):
        provider = load_location_provider(metadata.location, metadata.properties)
        location = provider.new_table_metadata_file_location()
    return StagedTable(name, metadata, location, staged.io, catalog, staged.config)


def _extract_staged_table(transaction: Any) -> StagedTable:
    """The table of a transaction, which has what a server gave for its storage."""
    from pyiceberg.table import CreateTableTransaction

    class StagingTransaction(CreateTableTransaction):
        """A transaction that shows its table to others than its own class."""

        def staged_table(self) -> Any:
            return self._table

    found: StagedTable = StagingTransaction.staged_table(transaction)
    return found


def commit_staged_table(staged: StagedTable, snapshot: Sequence[Any] = ()) -> None:
    """Make a staged table in its catalog; `snapshot` are the updates that add its first snapshot, if it has one.

    After `CommitStateUnknown` the table may be there. After any other error it is not, and will not be:
    `CreatedConcurrently` if another has the name, `UnsupportedFeature` for a catalog that cannot take it whole,
    pyiceberg's errors.
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
    """Make a table in a catalog that looks at what it has made, and may find that others dropped or renamed it since.

    It is made then, and its files are those of the table that has another name now. A server that says so knows no
    table, and has made none.
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
    """The metadata of a staged table, with the updates that add its first snapshot."""
    from pyiceberg.table.update import update_table_metadata

    plain, keys = split_key_updates(snapshot)
    return add_keys(update_table_metadata(staged.metadata, plain), keys) if snapshot else staged.metadata


def _find_outcome(staged: StagedTable, error: Exception) -> None:
    """Return if the table was made in spite of an error; raise what `make` raises otherwise."""
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
    """The files of the table that has the name of a staged one now, if there is any."""
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
) -> None:
    """Make a staged table with files, in one commit; without files it has no snapshot.

    `properties` go into the snapshot's summary. `transaction` is what the commit records of an application. With
    `is_staged`, no branch names the snapshot. Raises what `make` raises; the metadata files of a table that was not
    made are removed.
    """
    base, written = _base(staged.metadata, staged.metadata_location, branch), list(files)
    producer = SnapshotProducer(base, storage, "append", SnapshotChanges(added_files(written, base)), properties)
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
    """A table that is replaced by another: its metadata `changes`, and in the same commit its rows.

    `table` is pyiceberg's, `before` the same state as lakescan read it. Earlier snapshots stay.
    """

    table: Table
    before: IcebergTable
    changes: MetadataChanges
    storage: Storage
    properties: Mapping[str, str] = field(default_factory=dict)
    transaction: tuple[str, int] | None = None

    @cached_property
    def metadata(self) -> Any:
        """The metadata after the changes (pyiceberg's), by which files are written."""
        from pyiceberg.table.update import update_table_metadata

        return update_table_metadata(self.table.metadata, self.changes.updates)

    def commit(self, files: Iterable[WrittenFile] = ()) -> FailedCommit | None:
        """Commit the replacement by these files; returns None, or the definite failure; see `commit_snapshot`."""
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
