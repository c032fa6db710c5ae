"""Outcomes of commits: succeeded, definitely failed, or unknown. After a lost response the table is checked again."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakescan.common.retries import outcome_of
from lakescan.errors import CommitConflict, LakescanError, NoSuchTable, UnsupportedFeature
from lakescan.iceberg.scan.named_files import added_since
from lakescan.iceberg.table import IcebergTable
from lakescan.storage import Storage
from lakescan.storage.removal import discard

if TYPE_CHECKING:
    from pyiceberg.table import Table, Transaction


@dataclass(frozen=True)
class Failed:
    """A commit that definitely failed: its error, and the table reloaded after it (`table`, `now`)."""

    error: Exception
    table: Table
    now: IcebergTable


def commit_snapshot(
    table: Table, build: Callable[[Transaction], Any], known: Collection[int], storage: Storage
) -> Failed | None:
    """Commit the snapshot of the producer that `build` returns. Returns None on success, else the definite failure.

    `known` are the ids of the snapshots that the table had before anything was written. The manifests of a failed
    commit are removed. Raises `CommitConflict` if the snapshot no longer fits the table, and what `commit` raises.
    """
    return _commit_built(table, build, lambda transaction: None, known, storage)


def commit_emptied(
    table: Table, change: Callable[[Transaction], None], known: Collection[int], storage: Storage
) -> Failed | None:
    """Commit changes to a table together with a snapshot that removes all its files; see `commit_snapshot`."""
    from lakescan.iceberg.write.producers import emptying

    return _commit_built(table, emptying, change, known, storage)


def _commit_built(
    table: Table,
    build: Callable[[Transaction], Any],
    change: Callable[[Transaction], None],
    known: Collection[int],
    storage: Storage,
) -> Failed | None:
    from pyiceberg.exceptions import CommitFailedException, ValidationException

    transaction = table.transaction()
    producer = build(transaction)

    def look() -> Iterator[pa.Array]:
        return added_since(_loaded(table, storage)[1], known)

    try:
        changes = producer._commit()
        transaction._stage(*changes)
        change(transaction)
    except Exception as error:  # nothing was sent to the catalog
        discard(storage, _written(producer), look)
        if isinstance(error, (CommitFailedException, ValidationException)):
            raise CommitConflict(f"{'.'.join(table.name())}: {error}") from error
        if isinstance(error, (ValueError, TypeError, NotImplementedError)) and not isinstance(error, LakescanError):
            raise UnsupportedFeature(f"committing to {'.'.join(table.name())} with pyiceberg", str(error)) from error
        raise
    snapshot_id = producer.snapshot_id if changes[0] else None
    updates, requirements = transaction._updates, transaction._requirements
    failed = commit(table, updates, requirements, storage, lambda now: snapshot_id in now.metadata.snapshots)
    if failed is not None:
        discard(storage, _written(producer), lambda: added_since(failed.now, known))
    return failed


def commit(
    table: Table,
    updates: tuple[Any, ...],
    requirements: tuple[Any, ...],
    storage: Storage,
    is_made: Callable[[IcebergTable], bool],
) -> Failed | None:
    """Commit changes to a table. Returns None on success, else the definite failure.

    `is_made` tells from the reloaded table whether the changes were committed. Raises `CommitStateUnknown` if the
    outcome is unknown, `CommitConflict` if another table has the name now, and `NoSuchTable`.
    """
    from pyiceberg.table.update import AssertTableUUID

    if not updates:
        return None
    try:
        table._do_commit(updates, (*requirements, AssertTableUUID(uuid=table.metadata.table_uuid)))
    except Exception as error:
        return _looked_up(table, error, storage, is_made)
    return None


def _looked_up(
    table: Table, error: Exception, storage: Storage, is_made: Callable[[IcebergTable], bool]
) -> Failed | None:
    is_refused = _is_refusal(error, table)

    def look() -> Failed | bool | None:
        fresh, now = _loaded(table, storage)
        if is_made(now):
            return True
        return Failed(error, fresh, now) if is_refused else None

    outcome = outcome_of(".".join(table.name()), error, look, definite=(CommitConflict, NoSuchTable))
    return outcome if isinstance(outcome, Failed) else None


def _loaded(table: Table, storage: Storage) -> tuple[Table, IcebergTable]:
    """Reload the table from its catalog; its metadata file is read too, as a catalog may not return all snapshots."""
    from pyiceberg.exceptions import NoSuchTableError

    try:
        fresh = table.catalog.load_table(table.name())
    except NoSuchTableError as error:
        raise NoSuchTable(f"{'.'.join(table.name())} was dropped by another writer") from error
    check_same(table, fresh)
    return fresh, IcebergTable.open(fresh.metadata_location, storage)


def check_same(before: Table, now: Table) -> None:
    """Raise `CommitConflict` if another table has the same name now."""
    if before.metadata.table_uuid != now.metadata.table_uuid:
        raise CommitConflict(f"{'.'.join(before.name())} was dropped and recreated since it was opened: open it again")


def _is_refusal(error: Exception, table: Table) -> bool:
    """Whether the catalog definitely did not commit; any other error may have happened after the commit."""
    from pyiceberg import exceptions as theirs
    from pyiceberg.catalog import MetastoreCatalog

    kinds = (
        theirs.CommitFailedException,
        theirs.ValidationException,
        theirs.NoSuchTableError,
        theirs.BadRequestError,
        theirs.UnauthorizedError,
        theirs.ForbiddenError,
    )
    # pyiceberg's own catalogs validate updates before they write anything, and raise ValueError.
    checked_here = type(error) is ValueError and isinstance(table.catalog, MetastoreCatalog)
    return isinstance(error, kinds) or checked_here


def _written(producer: Any) -> Sequence[str]:
    return [*producer._written_manifests, *producer._written_manifest_lists]
