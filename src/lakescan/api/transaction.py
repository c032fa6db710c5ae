"""`Transaction`: change several tables of a catalog in one commit."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self, Unpack

from lakescan.api.open import table
from lakescan.api.table import Table
from lakescan.catalogs.multi_table_commit import MultiTableCommit
from lakescan.catalogs.registry import connection, forget_transaction, register_transaction
from lakescan.common.identifiers import parse_identifier
from lakescan.errors import InvalidOption
from lakescan.options.keywords import OpenKeywords
from lakescan.tables.notebook import transaction_as_html
from lakescan.tables.results import TransactionResult


class Transaction:
    """Changes of several Iceberg tables that are committed together: all of them, or none.

    `Catalog.transaction` creates it. Tables that it opens have the snapshot that was current when the transaction first
    opened them, plus the transaction's own changes: rows appended, overwritten, deleted, updated and merged, columns
    and properties altered. Nobody else sees these changes before the commit. As a context manager, the transaction
    commits at the end of the block. If the block raises an error, the transaction is rolled back.

    Tables that are only read are not checked for concurrent commits. Files are written before the commit, and removed
    if the commit definitely failed.

    Example:
        >>> with lake.transaction() as tx:
        ...     tx.load_table("shop.orders").append(orders)
        ...     tx.load_table("shop.stock").update({"left": "left - 1"}, where="id = 7")
        ...     lakescan.sql(f"DELETE FROM {tx.name}.shop.baskets WHERE customer = 12")
    """

    def __init__(self, catalog: str) -> None:
        made: list[MultiTableCommit] = []

        def collects(alias: str) -> Any:
            made.append(MultiTableCommit(catalog, real, alias))
            return made[0].catalog

        real = connection(catalog)
        self._of, self._name = catalog, register_transaction(catalog, collects)
        self._tables, self._ended = made[0], ""

    def __repr__(self) -> str:
        changed = ", ".join(each.name for each in self._tables.changed_tables) or "nothing"
        return f"Transaction({self._of!r}, {self._state}, changes {changed})"

    def _repr_html_(self) -> str:
        """Return HTML for notebooks: the state of the transaction, and the tables that it changes."""
        facts = {"state": self._state} if self._ended else {"state": self._state, "name in SQL": self._name}
        changed = {each.name: each.operations for each in self._tables.changed_tables}
        return transaction_as_html(self._of, facts, changed)

    @property
    def _state(self) -> str:
        return self._ended.removeprefix("been ") or "open"

    @property
    def name(self) -> str:
        """The name of the transaction's catalog in SQL, as in `{tx.name}.shop.orders`; valid until it ends."""
        return self._name

    def load_table(self, name: str, **options: Unpack[OpenKeywords]) -> Table:
        """Open a table within the transaction, to read and to change it.

        Args:
            name: `namespace.table`, or `catalog.namespace.table`.
            options: Keyword arguments of `lakescan.table`.

        Raises:
            NoSuchTable: The catalog has no such table.
            InvalidOption: The transaction has ended.

        Example:
            >>> tx.load_table("shop.orders").append(orders)
        """
        self._check_open()
        found = parse_identifier(self._of, name)
        return table(str(parse_identifier(self._name, found.within)), **options)

    def commit(self) -> TransactionResult:
        """Commit all changes in one commit, and end the transaction.

        If another writer has changed one of the tables, the transaction's changes are applied to the new snapshot where
        that is possible: appends, and a single overwrite or change of rows that the other commit did not touch.

        Returns:
            The names of the changed tables.

        Raises:
            CommitConflict: Another writer changed rows that the transaction read or replaced. Nothing is committed.
            CommitStateUnknown: The answer to the commit was lost, and lakescan could not find out whether it succeeded.
            UnsupportedFeature: The catalog refused the changes. Nothing is committed.
            InvalidOption: The transaction has ended.

        Example:
            >>> print(tx.commit())
            2 tables changed: shop.orders, shop.stock
        """
        self._check_open()
        self._ended = "failed"
        try:
            names = self._tables.commit()
        finally:
            forget_transaction(self._name)
        self._ended = "been committed"
        return TransactionResult(names)

    def rollback(self) -> None:
        """Discard all changes, remove the files written for them, and end the transaction.

        Raises:
            InvalidOption: The transaction has ended.

        Example:
            >>> tx.rollback()
        """
        self._check_open()
        self._ended = "been rolled back"
        try:
            self._tables.rollback()
        finally:
            forget_transaction(self._name)

    def __enter__(self) -> Self:
        self._check_open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._ended:
            return
        if error is None:
            self.commit()
        else:
            self.rollback()

    def _check_open(self) -> None:
        if self._ended:
            raise InvalidOption(f"the transaction of catalog {self._of!r} has {self._ended}: begin another one")
