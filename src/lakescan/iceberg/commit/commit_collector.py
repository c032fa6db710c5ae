"""Catalogs that collect the commits of several tables, to make them as one: what commits need to know of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from lakescan.errors import UnsupportedFeature
from lakescan.iceberg.table import IcebergTable

if TYPE_CHECKING:
    from pyiceberg.table import Table

# Makes the changes again, of the table as pyiceberg and as lakescan read it.
Redo = Callable[["Table", IcebergTable], object]


@runtime_checkable
class Collector(Protocol):
    """A pyiceberg catalog whose tables are as the collected commits leave them; it sends none of them."""

    def collect(
        self,
        table: Table,
        requirements: tuple[Any, ...],
        updates: tuple[Any, ...],
    ) -> None:
        """Take a commit; raises pyiceberg's `CommitFailedException` if the table was changed here meanwhile."""

    def redone_by(self, redo: Redo, *, fits_any: bool) -> AbstractContextManager[None]:
        """Commits collected within are made by `redo`, should others get ahead; with `fits_any` after any changes."""


@contextmanager
def register_redo(table: Table, redo: Redo, *, fits_any: bool = False) -> Iterator[None]:
    """Tell the collector of a table, if it has one, how to make the commits within again."""
    if not isinstance(table.catalog, Collector):
        yield
        return
    with table.catalog.redone_by(redo, fits_any=fits_any):
        yield


def check_not_collected(table: Table, doing: str) -> None:
    """Raise `UnsupportedFeature` for what removes files, or takes those of others: both cannot be undone."""
    if isinstance(table.catalog, Collector):
        raise UnsupportedFeature(
            f"{doing} {'.'.join(table.name())} in a transaction", "Do it before the transaction, or after it."
        )
