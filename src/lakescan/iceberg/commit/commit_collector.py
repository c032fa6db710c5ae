"""Catalogs that collect the commits of several tables and make them as one transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from lakescan.errors import UnsupportedFeature
from lakescan.iceberg.table import IcebergTable

if TYPE_CHECKING:
    from pyiceberg.table import Table

# Makes the changes again, given the table as read by pyiceberg and by lakescan.
Redo = Callable[["Table", IcebergTable], object]


@runtime_checkable
class Collector(Protocol):
    """A pyiceberg catalog that collects commits without sending them; its tables include the collected commits."""

    def collect(
        self,
        table: Table,
        requirements: tuple[Any, ...],
        updates: tuple[Any, ...],
    ) -> None:
        """Collect a commit; raises pyiceberg's `CommitFailedException` if this catalog has changed the table since."""

    def redone_by(self, redo: Redo, *, fits_any: bool) -> AbstractContextManager[None]:
        """Context manager: record `redo` as the way to make the commits inside again after concurrent commits.

        With `fits_any`, `redo` is valid after any concurrent commit.
        """


@contextmanager
def register_redo(table: Table, redo: Redo, *, fits_any: bool = False) -> Iterator[None]:
    """Context manager: register with a table's collector how to make the commits inside again; see `redone_by`.

    Nothing is done for a table whose catalog is not a collector.
    """
    if not isinstance(table.catalog, Collector):
        yield
        return
    with table.catalog.redone_by(redo, fits_any=fits_any):
        yield


def check_not_collected(table: Table, doing: str) -> None:
    """Raise `UnsupportedFeature` in a transaction, for an action that cannot be undone; `doing` describes it."""
    if isinstance(table.catalog, Collector):
        raise UnsupportedFeature(
            f"{doing} {'.'.join(table.name())} in a transaction", "Do it before the transaction, or after it."
        )
