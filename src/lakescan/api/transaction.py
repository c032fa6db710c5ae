"""Transactions: changes of several tables of a catalog, which one commit makes."""

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
    """Changes of several Iceberg tables, which one commit makes: all of them, or none.

    Made by `Catalog.transaction`. Its tables are those of the catalog as they were when the transaction first opened
    them, with its own changes: rows appended, overwritten, deleted, updated and merged, columns and properties altered.
    Nobody else sees them before the commit. As a context manager, it commits at the end, or removes what it wrote if an
    error is raised.

    Tables that are only read are not part of the commit. Files of the tables are written as for other commits; those
    of a transaction that provably failed are removed.

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
        """The transaction as notebooks show it: its state, and what it changes."""
        facts = {"state": self._state} if self._ended else {"state": self._state, "name in SQL": self._name}
        changed = {each.name: each.operations for each in self._tables.changed_tables}
        return transaction_as_html(self._of, facts, changed)

    @property
    def _state(self) -> str:
        return self._ended.removeprefix("been ") or "open"

    @property
    def name(self) -> str:
        """What SQL calls the catalog of this transaction, as in `{tx.name}.shop.orders`, until it ends."""
        return self._name

    def load_table(self, name: str, **options: Unpack[OpenKeywords]) -> Table:
        """Open a table as the transaction has it, to read and to change it.

        Args:
            name: `namespace.table`; the catalog's own name may come first.
            options: Arguments and options of `lakescan.table`.

        Raises:
            NoSuchTable: The catalog does not have it.
            InvalidOption: The transaction has ended.

        Example:
            >>> tx.load_table("shop.orders").append(orders)
        """
        self._check_open()
        found = parse_identifier(self._of, name)
        return table(str(parse_identifier(self._name, found.within)), **options)

    def commit(self) -> TransactionResult:
        """Commit all changes in one commit, and end the transaction.

        If another writer changed one of the tables meanwhile, its changes are made again where they fit: appends, and
        a single overwrite or change of rows that the other commit does not touch.

        Returns:
            Which tables were changed.

        Raises:
            CommitConflict: Another writer changed what the transaction read or replaced. Nothing is committed.
            CommitStateUnknown: The answer to the commit was lost, and looking it up did not tell its outcome.
            UnsupportedFeature: The catalog refused the changes; nothing is committed.
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
        """Drop all changes, remove what was written for them, and end the transaction.

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
