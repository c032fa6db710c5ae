"""The catalog of a transaction: tables as its commits leave them; what it does not change is that of the real one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import RLock
from typing import Any

from lakescan.catalogs.collected_table import CollectedCommit, CollectedTable
from lakescan.catalogs.registry import location_limits
from lakescan.catalogs.vended import credentials_for
from lakescan.errors import UnsupportedFeature
from lakescan.iceberg.commit.collector import Redo
from lakescan.storage import Storage
from lakescan.storage.issued import storage_properties

Name = tuple[str, ...]
_SHOWN = ("list_namespaces", "list_tables", "namespace_exists", "load_namespace_properties")
_REDO: ContextVar[tuple[Redo, bool] | None] = ContextVar("redo", default=None)


def collecting_catalog(name: str, of: Any) -> Any:
    """A pyiceberg catalog called `name` that collects the commits to tables of the catalog `of`."""
    from pyiceberg.catalog.noop import NoopCatalog
    from pyiceberg.exceptions import NoSuchTableError

    class CollectingCatalog(NoopCatalog):
        """See `lakescan.iceberg.commit.collector.Collector`."""

        def __init__(self) -> None:
            super().__init__(name, **of.properties)
            self.collects_for = of
            self.tables: dict[Name, CollectedTable] = {}
            self._lock = RLock()

        def load_table(self, identifier: str | Name) -> Any:
            """The table as it was when the transaction first saw it, with the commits since."""
            within = self.identifier_to_tuple(identifier)
            with self._lock:
                if within not in self.tables:
                    self.tables[within] = self.open_table(of.load_table(within))
                return self.tables[within].now

        def open_table(self, base: Any) -> CollectedTable:
            """A table of the real catalog, without commits."""
            properties = storage_properties(base.io.properties)
            allowed = location_limits(name, base.metadata_location)
            storage = Storage(io_properties=properties, vended=credentials_for(of, base), allowed=allowed)
            return CollectedTable.start(base, self, storage)

        def table_exists(self, identifier: str | Name) -> bool:
            """Whether the real catalog has it."""
            try:
                self.load_table(identifier)
            except NoSuchTableError:
                return False
            return True

        def commit_table(self, table: Any, requirements: Any, updates: Any) -> Any:
            """Collect a commit that pyiceberg makes."""
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
            f"{_REFUSED[method]} in a transaction", "It takes changes of tables that are there: do it before, or after."
        )

    return refuse
