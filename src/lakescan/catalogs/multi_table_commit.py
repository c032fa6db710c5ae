"""Atomic commits to several tables, by `transactions/commit` of a REST catalog.

A conflict on one table fails all. Then the commits are retried where that is safe. If the response is lost, every table
is looked up. The files of a transaction that provably failed are deleted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from copy import copy
from typing import Any

import pyarrow as pa

from lakescan.catalogs.lookup import translate_catalog_errors
from lakescan.catalogs.rest_session import COMMIT_TRANSACTION, RestSession, is_rest, message_of
from lakescan.catalogs.transaction_catalog import CollectedCommit, CollectedTable, collecting_catalog
from lakescan.common.identifiers import Identifier
from lakescan.common.retries import COMMITS, Attempts, RetryPolicy, outcome_of
from lakescan.errors import CommitConflict, LakescanError, NoSuchTable, StorageError, UnsupportedFeature
from lakescan.iceberg.commit.outcomes import REFUSALS, check_same_table
from lakescan.iceberg.commit.reachable_files import reachable_files
from lakescan.iceberg.table import IcebergTable
from lakescan.storage.removal import discard

_MADE = 204  # other statuses below 300 may come from a proxy or a login page
_BAD_REQUEST, _CONFLICT = 400, 409
_REFUSED = "Its catalog refused it."


class _Conflict(Exception):
    """The catalog refused a commit because a table does not meet its requirements, so it may be retried.

    `otherwise` is the error to raise if no table was changed concurrently.
    """

    def __init__(self, why: str, otherwise: Exception) -> None:
        super().__init__(why)
        self.otherwise = otherwise


class MultiTableCommit:
    """The collected commits of a transaction.

    `name` is the catalog's name, and `alias` its name within the transaction. `catalog` is the real pyiceberg catalog.
    Raises `UnsupportedFeature` before anything is written if the catalog cannot commit several tables.
    """

    def __init__(self, name: str, catalog: Any, alias: str) -> None:
        self._name, self._real = name, catalog
        check_supported(name, catalog)
        self.catalog: Any = collecting_catalog(alias, catalog)

    @property
    def changed_tables(self) -> list[CollectedTable]:
        """The tables that have collected commits."""
        return [each for each in self.catalog.tables.values() if each.steps]

    def commit(self) -> tuple[str, ...]:
        """Commit all changes atomically, and return the names of the changed tables (`namespace.table`).

        Raises `CommitConflict` if a table conflicts with a concurrent commit, `CommitStateUnknown`,
        `UnsupportedFeature` if the catalog refuses, `NoSuchTable`, `StorageError`. Nothing is changed then, unless the
        state is unknown.
        """
        earlier: list[CollectedTable] = []  # the tables of failed attempts
        attempts = Attempts(self._retries)
        try:
            while self.changed_tables and (failure := self._attempt()) is not None:
                try:
                    if not isinstance(failure, _Conflict):
                        raise failure
                    attempts.wait_or_raise(self._table_names, failure)
                    self._redo_conflicts(earlier, failure)
                except BaseException:  # no request to the catalog is pending
                    self._discard([*earlier, *self.changed_tables])
                    raise
            self._discard(earlier)
            return tuple(each.name for each in self.changed_tables)
        finally:
            self._forget(earlier)

    def rollback(self) -> None:
        """Delete the files that the transaction wrote. Call it if `commit` was not called."""
        self._discard(self.changed_tables)

    @property
    def _table_names(self) -> str:
        return " and ".join(f"{self._name}.{each.name}" for each in self.changed_tables)

    @property
    def _retries(self) -> RetryPolicy:
        """The strictest retry policy of the changed tables' properties `commit.retry.*`."""
        return RetryPolicy.strictest([each.retries for each in self.changed_tables] or [COMMITS])

    def _attempt(self) -> Exception | None:
        """Send the commit once. Return None if it was made, else the error that proves that it was not made.

        The error is a `_Conflict` if the commit may be retried. Raises `CommitStateUnknown`.
        """
        body = f'{{"table-changes": [{", ".join(map(_change_of, self.changed_tables))}]}}'
        first = self.changed_tables[0].base.name()
        try:
            response = RestSession(self._real).post("transactions/commit", body, lambda: self._real.load_table(first))
        except Exception as error:
            return self._find_commit(error, None)
        if response.status_code == _MADE:
            return None
        why = f"status {response.status_code}: {message_of(response)}"
        if response.status_code not in REFUSALS:
            return self._find_commit(StorageError(why), None)
        return self._find_commit(StorageError(why), self._refusal(response.status_code, message_of(response)))

    def _refusal(self, status: int, why: str) -> Exception:
        where = f"the transaction of {self._table_names}: {why}. Nothing was changed"
        if status == _CONFLICT:
            as_before = (
                f"{self._table_names}: the catalog reports that another writer changed them, but they are unchanged"
            )
            return _Conflict(why, CommitConflict(as_before))
        if status == _BAD_REQUEST:  # Java's servers also send it if another branch has a newer snapshot
            return _Conflict(why, UnsupportedFeature(where, _REFUSED))
        if status == 404:
            return NoSuchTable(where)
        if status in (401, 403, 419):
            return StorageError(f"catalog {self._name!r} does not allow {where}")
        if status == 429:
            return StorageError(f"catalog {self._name!r} is too busy for {where}: commit them later")
        return UnsupportedFeature(where, _REFUSED)

    def _find_commit(self, error: Exception, refusal: Exception | None) -> Exception | None:
        """Look up whether the commit was made, after the request ended with `error`.

        `refusal` is the error to return if the server refused, None if its response was lost. Returns None if all
        tables have the commit, and the refusal if no table has it. If a table was dropped, its error is returned
        instead of the refusal. Raises `CommitStateUnknown` if the outcome cannot be determined.
        """
        telling = [each for each in self.changed_tables if each.snapshots] or self.changed_tables

        def check_tables() -> Exception | bool | None:
            gone: LakescanError | None = None
            made, touched = list[str](), list[str]()
            for each in telling:
                try:
                    now = self._reload(each)[1]
                except (CommitConflict, NoSuchTable) as failure:  # dropped, before or after the commit
                    gone = failure
                    continue
                made += [each.name] if each.is_made(now, is_refused=refusal is not None) else []
                touched += [each.name] if each.is_touched(now) else []
            left = [each.name for each in telling if each.name not in made]
            if not left:
                return True
            if touched:
                raise StorageError(f"{' and '.join(touched)} has the commit, {' and '.join(left)} does not")
            return refusal if gone is None or refusal is None else gone

        outcome = outcome_of(self._table_names, error, check_tables)
        return outcome if isinstance(outcome, Exception) else None

    def _reload(self, changed: CollectedTable) -> tuple[Any, IcebergTable]:
        """Load a table's current state from the catalog, as pyiceberg's and as lakescan's table.

        Raises `NoSuchTable`, and `CommitConflict` if another table has the name.
        """
        name = changed.base.name()
        with translate_catalog_errors(Identifier(self._name, name[:-1], name[-1])):
            fresh = self._real.load_table(name)
        check_same_table(changed.base, fresh)
        return fresh, IcebergTable.open(fresh.metadata_location, changed.storage)

    def _redo_conflicts(self, earlier: list[CollectedTable], conflict: _Conflict) -> None:
        """Redo the commits to tables that were concurrently changed. Their failed states are appended to `earlier`.

        Raises `conflict.otherwise` if no table was changed, and `CommitConflict` if commits cannot be redone.
        """
        count = len(earlier)
        for name, table in list(self.catalog.tables.items()):
            if table.steps and (new := table.rebase(self.catalog, self._reload(table)[0])) is not table:
                earlier.append(table)
                self.catalog.tables[name] = new
                self._redo(new, table.steps)
        if len(earlier) == count:
            raise conflict.otherwise

    def _redo(self, table: CollectedTable, steps: Sequence[CollectedCommit]) -> None:
        for step in steps:
            assert step.redo is not None
            with self.catalog.redone_by(step.redo, fits_any=step.fits_any):
                step.redo(copy(table.now), IcebergTable.open(table.now.metadata_location, table.storage))

    def _discard(self, tables: Sequence[CollectedTable]) -> None:
        """Delete the files that uncommitted changes of these tables added, and all temporary metadata files.

        Files that the current table may reference are kept. If these or the added files cannot be determined, all are
        kept.
        """
        for each in tables:
            try:
                files = [name for chunk in each.added_files() for name in chunk.to_pylist()]
            except (LakescanError, OSError):
                continue  # the files stay as orphans

            def current_files(each: CollectedTable = each) -> Iterator[pa.Array]:
                return reachable_files(self._reload(each)[1])

            discard(each.storage, files, current_files)
        self._forget(tables)

    def _forget(self, tables: Sequence[CollectedTable]) -> None:
        """Delete the temporary metadata files of these tables and of all tables of the transaction."""
        for each in [*tables, *self.catalog.tables.values()]:
            if each.stored:
                with suppress(LakescanError, OSError):
                    each.storage.remove(each.stored)
                each.stored = []


def check_supported(name: str, catalog: Any) -> None:
    """Raise `UnsupportedFeature` if a catalog (called `name`) cannot commit several tables at once."""
    if not is_rest(catalog):
        raise UnsupportedFeature(
            f"a transaction of several tables in catalog {name!r} ({type(catalog).__name__})",
            "Only catalogs of type rest commit several tables at once: commit to each table by itself.",
        )
    if not RestSession(catalog).has(COMMIT_TRANSACTION):
        raise UnsupportedFeature(
            f"a transaction of several tables in catalog {name!r}",
            f"Its server does not have the endpoint {COMMIT_TRANSACTION}: commit to each table by itself.",
        )


def _change_of(table: CollectedTable) -> str:
    from pyiceberg.table import CommitTableRequest, TableIdentifier

    name = table.base.name()
    request = CommitTableRequest(
        identifier=TableIdentifier(namespace=name[:-1], name=name[-1]),
        requirements=tuple(table.requirements),
        updates=tuple(table.updates),
    )
    return str(request.model_dump_json())
