"""An in-memory Iceberg catalog of two kinds.

In a SQL catalog, clients write metadata files and swap a pointer. In a REST catalog, the server does both in one
request.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Collection, Sequence
from typing import Any

from pyiceberg.catalog import Catalog, MetastoreCatalog
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError, NoSuchViewError, TableAlreadyExistsError
from pyiceberg.io import FileIO, InputFile, OutputFile
from pyiceberg.serializers import FromInputFile
from pyiceberg.table import CommitTableRequest, CommitTableResponse, Table
from pyiceberg.table.update import AddSnapshotUpdate, AssertRefSnapshotId, _apply_table_update
from requests import ConnectionError, Response

from lakescan.iceberg.metadata.pyiceberg_metadata import metadata_writes
from tests.simulation.store import READ, WRITE, Store

NAME = "sim"
OTHER = "other"  # a second catalog, whose tables share the locations of tables of the first
IDENTIFIER = ("db", "t")


class Pointer:
    """The catalog's state: the location of each table's metadata."""

    def __init__(self, store: Store, kind: str) -> None:
        self.store, self.kind = store, kind
        self.locations: dict[tuple[str, ...], str] = {}
        self.on_commit: Callable[[tuple[str, ...], str], None] = lambda name, location: None
        self.on_drop: Callable[[tuple[str, ...]], None] = lambda name: None
        self.on_rename: Callable[[tuple[str, ...], tuple[str, ...]], None] = lambda name, new: None

    @property
    def location(self) -> str | None:
        """Return the metadata location of the table whose rows the model tracks."""
        return self.locations.get(IDENTIFIER)

    def swap(self, name: tuple[str, ...], before: str | None, after: str) -> bool:
        if self.locations.get(name) != before:
            return False
        self.locations[name] = after
        self.on_commit(name, after)
        return True

    def drop(self, name: tuple[str, ...]) -> None:
        if self.locations.pop(name, None) is None:
            raise NoSuchTableError(".".join(name))
        self.on_drop(name)

    def rename(self, name: tuple[str, ...], new: tuple[str, ...]) -> None:
        if name not in self.locations:
            raise NoSuchTableError(".".join(name))
        if new in self.locations:
            raise TableAlreadyExistsError(".".join(new))
        self.locations[new] = self.locations.pop(name)
        self.on_rename(name, new)


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
    """A snapshot that is added without a check of its numbers."""


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


def _check_numbers(metadata: Any, requirements: Any, updates: Any, known: Collection[str]) -> None:
    """Refuse a sequence number that a branch unknown to the client has already used.

    A client cannot require anything of a branch that was created after it loaded the table; only a server can check it.
    For other branches, this server checks no numbers, because not all servers do.
    """
    named = {each.ref for each in requirements if isinstance(each, AssertRefSnapshotId)}
    if not {*metadata.refs} - named - {*known}:
        return
    for each in updates:
        number = each.snapshot.sequence_number if isinstance(each, AddSnapshotUpdate) else None
        if number is not None and metadata.format_version > 1 and number <= metadata.last_sequence_number:
            raise CommitFailedException(
                f"Cannot add snapshot with sequence number {number} older than last sequence number "
                f"{metadata.last_sequence_number}"
            )


class SimulatedCatalog(MetastoreCatalog):
    """One client's connection; all clients share one pointer."""

    pointer: Pointer

    def _table(self, name: tuple[str, ...], location: str) -> Table:
        files = self._load_file_io({}, location)
        metadata = FromInputFile.table_metadata(files.new_input(location))
        return Table(name, metadata, location, self._load_file_io(metadata.properties, location), self)

    def load_table(self, identifier: Any) -> Table:
        pointer, name = self.pointer, Catalog.identifier_to_tuple(identifier)
        found = pointer.store.world.call("load", name[-1], lambda: pointer.locations.get(name), READ)
        if found is None:
            raise NoSuchTableError(str(identifier))
        return self._table(name, found)

    def commit_table(self, table: Table, requirements: Any, updates: Any) -> CommitTableResponse:
        name = table.name()
        if self.pointer.kind == "rest":
            return self.pointer.store.world.call(
                "commit", name[-1], lambda: self._served(table, requirements, updates), WRITE
            )
        now = self.load_table(name)
        staged = self._update_and_stage_table(now, name, requirements, updates)
        if staged.metadata == now.metadata:
            return CommitTableResponse(metadata=now.metadata, metadata_location=now.metadata_location)
        self._write_metadata(staged.metadata, staged.io, staged.metadata_location)
        before, after = now.metadata_location, staged.metadata_location
        world = self.pointer.store.world
        if not world.call("swap", name[-1], lambda: self.pointer.swap(name, before, after), WRITE):
            raise CommitFailedException(f"Table has been updated by another process: {'.'.join(name)}")
        return CommitTableResponse(metadata=staged.metadata, metadata_location=after)

    def _served(self, table: Table, requirements: Any, updates: Any) -> CommitTableResponse:
        world = self.pointer.store.world
        with world.as_server(), metadata_writes(table.properties, "a server"):  # also for a request that arrives late
            return self._server_commit(table, requirements, updates)

    def _server_commit(self, table: Table, requirements: Any, updates: Any) -> CommitTableResponse:
        (staged,) = self._served_all([(table.name(), requirements, updates)], {*table.metadata.refs})
        return CommitTableResponse(metadata=staged.metadata, metadata_location=staged.metadata_location)

    def _served_all(
        self, changes: Sequence[tuple[tuple[str, ...], Any, Any]], refs: Collection[str] = ()
    ) -> list[Table]:
        """Commit to all of the given tables or to none. `refs` are the branches and tags that the client knew."""
        known = self.pointer.locations
        if missing := [name for name, _, _ in changes if name not in known]:
            raise NoSuchTableError(".".join(missing[0]))
        before = [self._table(name, known[name]) for name, _, _ in changes]
        for now, (_, requirements, updates) in zip(before, changes, strict=True):
            _check_numbers(now.metadata, requirements, updates, refs)
        after = [self._update_and_stage_table(now, *change) for now, change in zip(before, changes, strict=True)]
        pairs = [each for each in zip(before, after, strict=True) if each[0].metadata != each[1].metadata]
        for _, staged in pairs:
            self._write_metadata(staged.metadata, staged.io, staged.metadata_location)
        for now, staged in pairs:
            self.pointer.swap(now.name(), now.metadata_location, staged.metadata_location)
        return [old if old.metadata == new.metadata else new for old, new in zip(before, after, strict=True)]

    def commit_several(self, body: str) -> int:
        """Return the server's status for a transaction of several tables."""
        world = self.pointer.store.world
        requests = [CommitTableRequest.model_validate(each) for each in json.loads(body)["table-changes"]]
        names = [(*each.identifier.namespace.root, each.identifier.name) for each in requests]
        changes = [(name, each.requirements, each.updates) for name, each in zip(names, requests, strict=True)]

        def act() -> int:
            with world.as_server(), metadata_writes({}, "a transaction"):  # pyiceberg does not write version 3
                try:
                    self._served_all(changes)
                except CommitFailedException:
                    return 409
                except NoSuchTableError:
                    return 404
            return 204

        return world.call("commit", " and ".join(each[-1] for each in names), act, WRITE)

    def _update_and_stage_table(self, current: Any, identifier: Any, requirements: Any, updates: Any) -> Any:
        if self.pointer.kind == "rest":  # see `_check_numbers`
            updates = tuple(
                _Unchecked(**each.model_dump()) if isinstance(each, AddSnapshotUpdate) else each for each in updates
            )
        return super()._update_and_stage_table(current, identifier, requirements, updates)

    def create_table(self, identifier: Any, schema: Any, *arguments: Any, **named: Any) -> Table:
        staged = self._create_staged_table(identifier, schema, *arguments, **named)
        self._write_metadata(staged.metadata, staged.io, staged.metadata_location)
        return self.register_table(identifier, staged.metadata_location)

    def register_table(self, identifier: Any, metadata_location: str, overwrite: bool = False) -> Table:
        name, world = Catalog.identifier_to_tuple(identifier), self.pointer.store.world
        if not world.call("name", name[-1], lambda: self.pointer.swap(name, None, metadata_location), WRITE):
            raise TableAlreadyExistsError(f"Table {'.'.join(name)} already exists")
        return self.load_table(identifier)

    def drop_table(self, identifier: Any) -> None:
        pointer, name = self.pointer, Catalog.identifier_to_tuple(identifier)
        pointer.store.world.call("drop", name[-1], lambda: pointer.drop(name), WRITE)

    def rename_table(self, from_identifier: Any, to_identifier: Any) -> Table:
        pointer = self.pointer
        name, new = map(Catalog.identifier_to_tuple, (from_identifier, to_identifier))
        pointer.store.world.call("rename", f"{name[-1]} to {new[-1]}", lambda: pointer.rename(name, new), WRITE)
        return self.load_table(new)

    def namespace_exists(self, namespace: Any) -> bool:
        return True

    def load_namespace_properties(self, namespace: Any) -> Any:
        return {}

    def list_tables(self, namespace: Any) -> Any:
        return [each for each in self.pointer.locations if (each[-1] == "c") == (self.name == OTHER)]

    def list_views(self, namespace: Any) -> Any:
        return []

    def view_exists(self, identifier: Any) -> bool:
        return False

    def load_view(self, identifier: Any) -> Any:
        raise NoSuchViewError(str(identifier))

    def table_exists(self, identifier: Any) -> bool:
        return Catalog.identifier_to_tuple(identifier) in self.pointer.locations

    def list_namespaces(self, namespace: Any = ()) -> Any:
        return [("db",)]

    def _refused(self, *arguments: Any, **named: Any) -> Any:
        raise NotImplementedError

    create_namespace = drop_namespace = drop_view = _refused
    purge_table = update_namespace_properties = _refused
    register_view = create_view = _refused

    def supports_server_side_planning(self) -> bool:
        return False


class SimulatedSession:
    """Requests to the server for which pyiceberg has no method."""

    def __init__(self, catalog: SimulatedCatalog) -> None:
        self._catalog = catalog

    def has(self, endpoint: str) -> bool:
        return self._catalog.pointer.kind == "rest"

    def post(self, path: str, body: str, renew: object = None) -> Response:
        response = Response()
        try:
            response.status_code = self._catalog.commit_several(body)
        except OSError as error:
            raise ConnectionError(str(error)) from error
        return response


def install(pointer: Pointer) -> None:
    """Install the class for this run."""
    SimulatedCatalog.pointer = pointer
    SimulatedIO.store = pointer.store
