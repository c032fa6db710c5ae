"""A catalog that collects the commits of a multi-table transaction, to send them as one commit."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from threading import RLock
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakescan.catalogs.registry import location_limits
from lakescan.catalogs.rest_credentials import credentials_for
from lakescan.common.retries import COMMITS, RetryPolicy
from lakescan.errors import CommitConflict, UnsupportedFeature
from lakescan.iceberg.alter.commit_draft import is_changed
from lakescan.iceberg.commit.commit_collector import Redo
from lakescan.iceberg.commit.reachable_files import snapshot_files
from lakescan.iceberg.maintenance.tables_in_folder import OF_TRANSACTION
from lakescan.iceberg.metadata.application_transactions import PREFIX
from lakescan.iceberg.metadata.pyiceberg_metadata import metadata_text, metadata_writes
from lakescan.iceberg.metadata.table_metadata import MAIN, TableMetadata
from lakescan.iceberg.metadata.table_metadata_parser import parse_metadata
from lakescan.iceberg.table import IcebergTable
from lakescan.storage import Storage, join
from lakescan.storage.settings.catalog_properties import storage_properties

if TYPE_CHECKING:
    from pyiceberg.table import Table

# The updates that a transaction may have, by pyiceberg's class names. They only add to the metadata.
_ROWS = frozenset({"AddSnapshotUpdate", "SetSnapshotRefUpdate"})
_TAKEN = _ROWS | {
    "UpgradeFormatVersionUpdate",
    "AddSchemaUpdate",
    "SetCurrentSchemaUpdate",
    "AddPartitionSpecUpdate",
    "SetDefaultSpecUpdate",
    "AddSortOrderUpdate",
    "SetDefaultSortOrderUpdate",
    "SetLocationUpdate",
    "SetPropertiesUpdate",
    "RemovePropertiesUpdate",
}


@dataclass(frozen=True)
class CollectedCommit:
    """One collected commit: pyiceberg's requirements and updates, and the function that redoes it.

    `redo` is None if the commit cannot be redone. `fits_any`: `redo` is valid after any concurrent commit.
    """

    requirements: tuple[Any, ...]
    updates: tuple[Any, ...]
    redo: Redo | None
    fits_any: bool

    @property
    def snapshots(self) -> set[int]:
        """The ids of the snapshots that the commit adds."""
        added = (getattr(each, "snapshot", None) for each in self.updates)
        return {each.snapshot_id for each in added if each is not None}

    @property
    def operation(self) -> str:
        """The operation of the commit's last snapshot, such as "append"; "alter" without a snapshot."""
        added = [snapshot for each in self.updates if (snapshot := getattr(each, "snapshot", None)) is not None]
        summary = added[-1].summary if added else None
        return "alter" if summary is None else str(summary.operation.value)

    @property
    def changes_only_rows(self) -> bool:
        """Whether the commit changes only snapshots and the properties that record application transactions."""
        return all(type(each).__name__ in _ROWS or _is_record(each) for each in self.updates)


def _is_record(update: Any) -> bool:
    properties = getattr(update, "updates", None)
    return isinstance(properties, dict) and all(name.startswith(PREFIX) for name in properties)


@dataclass
class CollectedTable:
    """A table's state at the start of the transaction (`base`, a pyiceberg table) and after its commits (`now`).

    `steps` are the commits. Each commit writes a temporary metadata file, so that the new state can be read. `stored`
    are the locations of these files, which are deleted when the transaction ends.
    """

    base: Table
    now: Table
    storage: Storage
    steps: list[CollectedCommit] = field(default_factory=list)
    stored: list[str] = field(default_factory=list)

    @staticmethod
    def start(base: Table, catalog: Any, storage: Storage) -> CollectedTable:
        """Start collecting commits to a table that the real catalog returned (`base`).

        `catalog` is the collecting catalog, and `storage` accesses the table's files.
        """
        return CollectedTable(base, _pyiceberg_table(base, catalog, base.metadata, base.metadata_location), storage)

    def take(self, step: CollectedCommit) -> None:
        """Add a commit, and write the temporary metadata file of the new state.

        Raises pyiceberg's `CommitFailedException` if its requirements are not met any more, `UnsupportedFeature` for
        updates that a transaction cannot have, and `StorageError`.
        """
        for each in step.requirements:
            each.validate(self.now.metadata)
        metadata = self._apply_updates(step.updates)
        location = join(self.now.metadata_location.rpartition("/")[0], f"{OF_TRANSACTION}{uuid.uuid4()}.metadata.json")
        self.stored.append(location)  # before the write, since a failed write may leave a file
        with self.storage.writing(location) as file:
            file.write(metadata_text(metadata).encode())
        self.now = _pyiceberg_table(self.base, self.now.catalog, metadata, location)
        self.steps.append(step)

    def _apply_updates(self, updates: Sequence[Any]) -> Any:
        import pyiceberg.catalog

        if others := [type(each).__name__ for each in updates if type(each).__name__ not in _TAKEN]:
            raise UnsupportedFeature(
                f"this change of {self.name} in a transaction ({others[0].removesuffix('Update')})",
                "A transaction supports changes of rows, columns, partitions, sort orders and properties.",
            )
        with metadata_writes(self.now.properties, self.name):
            return pyiceberg.catalog.update_table_metadata(
                self.now.metadata, tuple(updates), metadata_location=self.now.metadata_location
            )

    @property
    def name(self) -> str:
        """The table's name in its catalog."""
        return ".".join(self.base.name())

    @property
    def retries(self) -> RetryPolicy:
        """The table's retry policy for commits."""
        return _convert_metadata(self.base).table_properties.retry_policy(COMMITS)

    @property
    def operations(self) -> list[str]:
        """The operations of the commits, in order."""
        return [each.operation for each in self.steps]

    @property
    def updates(self) -> list[Any]:
        """The updates of all commits, in order."""
        return [each for step in self.steps for each in step.updates]

    @property
    def requirements(self) -> list[Any]:
        """The distinct requirements of all commits, with the values of the base: no intermediate state is committed."""
        found: list[Any] = []
        for each in (each for step in self.steps for each in step.requirements):
            if (required := _base_requirement(each, self.base.metadata)) not in found:
                found.append(required)
        return found

    @property
    def snapshots(self) -> set[int]:
        """The ids of all snapshots that the commits add."""
        return set().union(*(step.snapshots for step in self.steps))

    def is_made(self, now: IcebergTable, *, is_refused: bool) -> bool:
        """Return whether the commits were made, given the reloaded table `now`.

        If the commits add snapshots, these decide, else the metadata that they changed together. Concurrent commits may
        have changed the same metadata since. So all later metadata files are searched, unless the catalog refused the
        commits.
        """
        if self.snapshots:
            return self.snapshots <= now.metadata.snapshots.keys()
        before, after = (
            _convert_metadata(self.base),
            _convert_metadata(self.now),
        )  # the base's metadata file may have been deleted concurrently
        return is_changed(self.base, before, after, now, None if is_refused else self.storage)

    def is_touched(self, now: IcebergTable) -> bool:
        """Return whether the reloaded table has any snapshot that these commits add."""
        return bool(self.snapshots & now.metadata.snapshots.keys())

    def added_files(self) -> Iterator[pa.Array]:
        """Yield the locations of all files that the collected snapshots added, in Arrow arrays."""
        if self.snapshots:
            yield from snapshot_files(IcebergTable.open(self.now.metadata_location, self.storage), self.snapshots)

    def rebase(self, catalog: Any, fresh: Table) -> CollectedTable:
        """Return the table as reloaded (`fresh`), without commits, which the caller redoes.

        Returns the table itself if no other writer changed it. Raises `CommitConflict` if the commits cannot be redone.
        """
        if fresh.metadata_location == self.base.metadata_location:
            return self
        first, *others = self.steps
        if first.redo is None or not all(each.fits_any for each in others) or (others and not first.changes_only_rows):
            raise CommitConflict(
                f"{self.name}: another writer changed the table, and the transaction changes it by several statements "
                "that depend on its earlier state. Begin the transaction again."
            )
        return CollectedTable.start(fresh, catalog, self.storage)


def _pyiceberg_table(given: Table, catalog: Any, metadata: Any, location: str) -> Table:
    from pyiceberg.table import Table

    return Table(given.name(), metadata, location, given.io, catalog, given.config)


def _convert_metadata(table: Table) -> TableMetadata:
    return parse_metadata(metadata_text(table.metadata).encode(), table.metadata_location)


def _base_requirement(requirement: Any, base: Any) -> Any:
    """Return a requirement of the same kind, such as the current schema's id, with the value in metadata `base`."""
    from pyiceberg.table import update as theirs

    refs: Mapping[str, Any] = base.refs
    match requirement:
        case theirs.AssertRefSnapshotId(ref=name):
            head = refs[name].snapshot_id if name in refs else None
            if name == MAIN and head is None:
                head = base.current_snapshot_id
            return theirs.AssertRefSnapshotId(ref=name, snapshot_id=head)
        case theirs.AssertLastAssignedFieldId():
            return theirs.AssertLastAssignedFieldId(last_assigned_field_id=base.last_column_id)
        case theirs.AssertCurrentSchemaId():
            return theirs.AssertCurrentSchemaId(current_schema_id=base.current_schema_id)
        case theirs.AssertLastAssignedPartitionId():
            return theirs.AssertLastAssignedPartitionId(last_assigned_partition_id=base.last_partition_id)
        case theirs.AssertDefaultSpecId():
            return theirs.AssertDefaultSpecId(default_spec_id=base.default_spec_id)
        case theirs.AssertDefaultSortOrderId():
            return theirs.AssertDefaultSortOrderId(default_sort_order_id=base.default_sort_order_id)
    return requirement


Name = tuple[str, ...]
_SHOWN = ("list_namespaces", "list_tables", "namespace_exists", "load_namespace_properties")
_REDO: ContextVar[tuple[Redo, bool] | None] = ContextVar("redo", default=None)


def collecting_catalog(name: str, of: Any) -> Any:
    """Return a pyiceberg catalog called `name` that collects the commits to tables of the catalog `of`."""
    from pyiceberg.catalog.noop import NoopCatalog
    from pyiceberg.exceptions import NoSuchTableError

    class CollectingCatalog(NoopCatalog):
        """A pyiceberg catalog that collects commits; creating or dropping tables raises `UnsupportedFeature`.

        Implements `lakescan.iceberg.commit.commit_collector.Collector`. `tables` are the loaded tables by name.
        """

        def __init__(self) -> None:
            super().__init__(name, **of.properties)
            self.collects_for = of
            self.tables: dict[Name, CollectedTable] = {}
            self._lock = RLock()

        def load_table(self, identifier: str | Name) -> Any:
            """Return the table as it was when the transaction first loaded it, with the transaction's commits since.

            Raises pyiceberg's `NoSuchTableError`.
            """
            within = self.identifier_to_tuple(identifier)
            with self._lock:
                if within not in self.tables:
                    self.tables[within] = self.open_table(of.load_table(within))
                return self.tables[within].now

        def open_table(self, base: Any) -> CollectedTable:
            """Return a `CollectedTable` of a table of the real catalog, without commits."""
            properties = storage_properties(base.io.properties)
            allowed = location_limits(name, base.metadata_location)
            storage = Storage(io_properties=properties, vended=credentials_for(of, base), allowed=allowed)
            return CollectedTable.start(base, self, storage)

        def table_exists(self, identifier: str | Name) -> bool:
            """Return whether the table exists. Loads it into the transaction if it is not loaded already."""
            try:
                self.load_table(identifier)
            except NoSuchTableError:
                return False
            return True

        def commit_table(self, table: Any, requirements: Any, updates: Any) -> Any:
            """Collect a commit of pyiceberg, and return the new state; raises the errors of `CollectedTable.take`."""
            from pyiceberg.table import CommitTableResponse

            self.collect(table, tuple(requirements), tuple(updates))
            now = self.load_table(table.name())
            return CommitTableResponse(metadata=now.metadata, metadata_location=now.metadata_location)

        def collect(self, table: Any, requirements: tuple[Any, ...], updates: tuple[Any, ...]) -> None:
            redo, fits_any = _REDO.get() or (None, False)
            with self._lock:
                self.tables[table.name()].take(CollectedCommit(requirements, updates, redo, fits_any))

        @contextmanager
        def redone_by(self, redo: Redo, *, fits_any: bool) -> Iterator[None]:
            token = _REDO.set((redo, fits_any))
            try:
                yield
            finally:
                _REDO.reset(token)

    for each in _SHOWN:
        setattr(CollectingCatalog, each, _delegate_method(of, each))
    for each in _REFUSED:
        setattr(CollectingCatalog, each, _refuse_method(each))
    return CollectingCatalog()


_REFUSED = {
    "create_table": "creating a table",
    "create_table_transaction": "creating a table",
    "register_table": "registering a table",
    "drop_table": "dropping a table",
    "purge_table": "dropping a table",
    "rename_table": "renaming a table",
    "create_namespace": "creating a namespace",
    "drop_namespace": "dropping a namespace",
    "update_namespace_properties": "changing a namespace",
    "drop_view": "dropping a view",
}


def _delegate_method(of: Any, method: str) -> Callable[..., Any]:
    return lambda self, *arguments, **named: getattr(of, method)(*arguments, **named)


def _refuse_method(method: str) -> Callable[..., Any]:
    def refuse(self: Any, *arguments: Any, **named: Any) -> Any:
        raise UnsupportedFeature(
            f"{_REFUSED[method]} in a transaction",
            "A transaction only changes existing tables: do this before or after it.",
        )

    return refuse
