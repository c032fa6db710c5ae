"""An Iceberg catalog in memory, of both kinds: one whose clients write metadata files and swap a pointer, as those in
databases do, and one whose server does both in one request, as REST catalogs do."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

from pyiceberg.catalog import Catalog, MetastoreCatalog
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError, NoSuchViewError
from pyiceberg.io import FileIO, InputFile, OutputFile
from pyiceberg.serializers import FromInputFile
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.update import AddSnapshotUpdate, _apply_table_update

from tests.simulation.store import READ, WRITE, Store

NAME = "sim"
IDENTIFIER = ("db", "t")


class Pointer:
    """What the catalog knows: where the table's metadata is."""

    def __init__(self, store: Store, kind: str) -> None:
        self.store, self.kind = store, kind
        self.location: str | None = None
        self.on_commit: Callable[[str], None] = lambda location: None

    def swap(self, before: str | None, after: str) -> bool:
        if self.location != before:
            return False
        self.location = after
        self.on_commit(after)
        return True


class SimulatedIO(FileIO):
    """Files of the store, as pyiceberg's catalogs read and write them."""

    store: Store

    def new_input(self, location: str) -> InputFile:
        return _Input(location, self)

    def new_output(self, location: str) -> OutputFile:
        return _Output(location, self)

    def delete(self, location: Any) -> None:
        self.store.delete_file(_key(location if isinstance(location, str) else location.location))


def _key(location: str) -> str:
    return location.partition("://")[2]


class _Input(InputFile):
    def __init__(self, location: str, of: SimulatedIO) -> None:
        super().__init__(location)
        self._of = of

    def __len__(self) -> int:
        return len(self._of.store.objects[_key(self.location)][0])

    def exists(self) -> bool:
        return _key(self.location) in self._of.store.objects

    def open(self, seekable: bool = True) -> Any:
        return io.BytesIO(self._of.store.get(_key(self.location)))


class _Output(OutputFile):
    def __init__(self, location: str, of: SimulatedIO) -> None:
        super().__init__(location)
        self._of = of

    def __len__(self) -> int:
        return len(self._of.store.objects[_key(self.location)][0])

    def exists(self) -> bool:
        return _key(self.location) in self._of.store.objects

    def to_input_file(self) -> InputFile:
        return self._of.new_input(self.location)

    def create(self, overwrite: bool = False) -> Any:
        return _Upload(self._of.store, _key(self.location))


class _Upload(io.BytesIO):
    def __init__(self, store: Store, key: str) -> None:
        super().__init__()
        self._store, self._key = store, key

    def __exit__(self, kind: Any, *_: Any) -> None:
        if kind is None:
            self.close()

    def close(self) -> None:
        if not self.closed:
            data = self.getvalue()
            super().close()
            self._store.put(self._key, data)


class _Unchecked(AddSnapshotUpdate):
    """A snapshot that is added whatever its numbers are."""


@_apply_table_update.register(_Unchecked)
def _(update: _Unchecked, base: Any, context: Any) -> Any:
    context.add_update(update)
    snapshot = update.snapshot
    changes = {
        "last_updated_ms": snapshot.timestamp_ms,
        "last_sequence_number": snapshot.sequence_number,
        "snapshots": [*base.snapshots, snapshot],
    }
    if base.format_version > 2:
        changes["next_row_id"] = snapshot.first_row_id + snapshot.added_rows
    return base.model_copy(update=changes)


class SimulatedCatalog(MetastoreCatalog):
    """One client's connection; all have the same pointer."""

    pointer: Pointer

    def _table(self, location: str) -> Table:
        files = self._load_file_io({}, location)
        metadata = FromInputFile.table_metadata(files.new_input(location))
        return Table(IDENTIFIER, metadata, location, self._load_file_io(metadata.properties, location), self)

    def load_table(self, identifier: Any) -> Table:
        pointer = self.pointer
        found = pointer.store.world.call("load", "table", lambda: pointer.location, READ)
        if found is None or Catalog.identifier_to_tuple(identifier) != IDENTIFIER:
            raise NoSuchTableError(str(identifier))
        return self._table(found)

    def commit_table(self, table: Table, requirements: Any, updates: Any) -> CommitTableResponse:
        if self.pointer.kind == "rest":
            return self.pointer.store.world.call(
                "commit", "table", lambda: self._served(table, requirements, updates), WRITE
            )
        now = self.load_table(IDENTIFIER)
        staged = self._update_and_stage_table(now, table.name(), requirements, updates)
        if staged.metadata == now.metadata:
            return CommitTableResponse(metadata=now.metadata, metadata_location=now.metadata_location)
        self._write_metadata(staged.metadata, staged.io, staged.metadata_location)
        before, after = now.metadata_location, staged.metadata_location
        world = self.pointer.store.world
        if not world.call("swap", "pointer", lambda: self.pointer.swap(before, after), WRITE):
            raise CommitFailedException("Table has been updated by another process: db.t")
        return CommitTableResponse(metadata=staged.metadata, metadata_location=after)

    def _served(self, table: Table, requirements: Any, updates: Any) -> CommitTableResponse:
        world = self.pointer.store.world
        with world.as_server():
            return self._server_commit(table, requirements, updates)

    def _server_commit(self, table: Table, requirements: Any, updates: Any) -> CommitTableResponse:
        assert self.pointer.location is not None
        now = self._table(self.pointer.location)
        staged = self._update_and_stage_table(now, table.name(), requirements, updates)
        if staged.metadata != now.metadata:
            self._write_metadata(staged.metadata, staged.io, staged.metadata_location)
            self.pointer.swap(now.metadata_location, staged.metadata_location)
            return CommitTableResponse(metadata=staged.metadata, metadata_location=staged.metadata_location)
        return CommitTableResponse(metadata=now.metadata, metadata_location=now.metadata_location)

    def _update_and_stage_table(self, current: Any, identifier: Any, requirements: Any, updates: Any) -> Any:
        if self.pointer.kind == "rest":  # a server that does not look at sequence numbers
            updates = tuple(
                _Unchecked(**each.model_dump()) if isinstance(each, AddSnapshotUpdate) else each for each in updates
            )
        return super()._update_and_stage_table(current, identifier, requirements, updates)

    def create_table(self, identifier: Any, schema: Any, *arguments: Any, **named: Any) -> Table:
        staged = self._create_staged_table(identifier, schema, *arguments, **named)
        self._write_metadata(staged.metadata, staged.io, staged.metadata_location)
        self.pointer.swap(None, staged.metadata_location)
        return self.load_table(identifier)

    def register_table(self, identifier: Any, metadata_location: str, overwrite: bool = False) -> Table:
        self.pointer.swap(None, metadata_location)
        return self.load_table(identifier)

    def namespace_exists(self, namespace: Any) -> bool:
        return True

    def load_namespace_properties(self, namespace: Any) -> Any:
        return {}

    def list_tables(self, namespace: Any) -> Any:
        return [IDENTIFIER]

    def list_views(self, namespace: Any) -> Any:
        return []

    def view_exists(self, identifier: Any) -> bool:
        return False

    def load_view(self, identifier: Any) -> Any:
        raise NoSuchViewError(str(identifier))

    def table_exists(self, identifier: Any) -> bool:
        return self.pointer.location is not None

    def list_namespaces(self, namespace: Any = ()) -> Any:
        return [("db",)]

    def _refused(self, *arguments: Any, **named: Any) -> Any:
        raise NotImplementedError

    create_namespace = drop_namespace = drop_table = drop_view = _refused
    purge_table = rename_table = update_namespace_properties = _refused
    register_view = create_view = _refused

    def supports_server_side_planning(self) -> bool:
        return False


def install(pointer: Pointer) -> None:
    """Let the class serve this run."""
    SimulatedCatalog.pointer = pointer
    SimulatedIO.store = pointer.store
