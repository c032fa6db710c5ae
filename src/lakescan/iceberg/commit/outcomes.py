"""Outcomes of commits: succeeded, definitely failed, or unknown. After a lost response, the table is checked."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakescan.common.retries import Attempts, outcome_of
from lakescan.errors import CommitConflict, CommitStateUnknown, NoSuchTable, UnsupportedFeature
from lakescan.iceberg.commit.commit_collector import Collector
from lakescan.iceberg.commit.reachable_files import metadata_locations
from lakescan.iceberg.metadata.pyiceberg_metadata import MetadataNotWritten, check_metadata_writes, metadata_writes
from lakescan.iceberg.metadata.table_properties import IcebergProperties
from lakescan.iceberg.table import IcebergTable
from lakescan.storage import Storage, join
from lakescan.storage.removal import discard, remove_unreferenced_files

if TYPE_CHECKING:
    from pyiceberg.table import Table

# Hive's metastore compares columns before it stores them. The error is compared by name, because its class exists only
# with Hive's library.
_REFUSED = "InvalidOperationException"
# HTTP statuses of a REST catalog's server that mean that nothing was changed.
REFUSALS = frozenset({400, 401, 403, 404, 405, 406, 409, 412, 413, 419, 422, 429, 501})


@dataclass(frozen=True)
class FailedCommit:
    """A commit that definitely failed: its error, and the table reloaded after it (`table`, `now`).

    `is_final` means that the catalog would refuse it again, because it is not allowed, or nobody has changed the table.
    """

    error: Exception
    table: Table
    now: IcebergTable
    is_final: bool = False


def commit(
    table: Table,
    updates: tuple[Any, ...],
    requirements: tuple[Any, ...],
    storage: Storage,
    is_made: Callable[[IcebergTable], bool],
    was_made: Callable[[IcebergTable], bool] = lambda now: False,
) -> FailedCommit | None:
    """Commit changes to a table. Returns None on success, else the definite failure.

    `is_made` returns from the reloaded table whether the changes were committed. `was_made` returns whether they were
    committed and then overwritten by other commits; it is not called if the catalog refused the commit.

    Raises `CommitStateUnknown` if the outcome is unknown, `CommitConflict` if another table has the name now,
    `NoSuchTable`, `InvalidOption` for an invalid property of metadata files, and `LocationRefused` for a metadata
    location that is not allowed.
    """
    from pyiceberg.exceptions import CommitFailedException
    from pyiceberg.table.update import AssertTableUUID

    if not updates:
        return None
    check_metadata_writes(table)
    same = AssertTableUUID(uuid=table.metadata.table_uuid)
    if isinstance(table.catalog, Collector):
        try:
            table.catalog.collect(table, (*requirements, same), updates)
        except CommitFailedException as error:
            return FailedCommit(error, *reload_table(table, storage))
        return None
    _check_place(table, updates, storage)
    with metadata_writes(table.properties, ".".join(table.name())) as named:
        try:
            made = table.catalog.commit_table(table, (*requirements, same), updates)
        except (MetadataNotWritten, UnsupportedFeature):
            raise
        except Exception as error:
            failed = _find_outcome(table, error, storage, is_made, was_made)
            if failed is not None:  # otherwise, its metadata files would look like those of a copy of the table
                now = failed.now
                discard(storage, named, lambda: [pa.array(metadata_locations(now), pa.string())])
            return failed
    remove_old_metadata(table, made.metadata, made.metadata_location, storage)
    return None


def _check_place(table: Table, updates: tuple[Any, ...], storage: Storage) -> None:
    """Raise `LocationRefused` if pyiceberg would write the next metadata file outside of the allowed locations.

    A server chooses its own location, and writes there with its own permissions.
    """
    from pyiceberg.catalog import MetastoreCatalog
    from pyiceberg.table.update import RemovePropertiesUpdate, SetLocationUpdate, SetPropertiesUpdate

    if not isinstance(table.catalog, MetastoreCatalog):
        return
    location, properties = table.metadata.location, dict(table.metadata.properties)
    for each in updates:
        if isinstance(each, SetLocationUpdate):
            location = each.location
        elif isinstance(each, SetPropertiesUpdate):
            properties |= each.updates
        elif isinstance(each, RemovePropertiesUpdate):
            properties = {name: value for name, value in properties.items() if name not in each.removals}
    folder = properties.get("write.metadata.path") or join(location, "metadata")
    storage.allowed.check(join(folder, "metadata.json"))


def _find_outcome(
    table: Table,
    error: Exception,
    storage: Storage,
    is_made: Callable[[IcebergTable], bool],
    was_made: Callable[[IcebergTable], bool],
) -> FailedCommit | None:
    is_refused = is_refusal(error, table)

    def check_table() -> FailedCommit | bool | None:
        fresh, now = reload_table(table, storage)
        if is_made(now):
            return True
        if is_refused:
            return FailedCommit(error, fresh, now, _is_final(error, table, fresh))
        return True if was_made(now) else None

    outcome = outcome_of(".".join(table.name()), error, check_table, definite=(CommitConflict, NoSuchTable))
    return outcome if isinstance(outcome, FailedCommit) else None


def reload_table(table: Table, storage: Storage) -> tuple[Table, IcebergTable]:
    """Reload the table from its catalog, and read its metadata file, because catalogs may not return all snapshots.

    Raises `NoSuchTable` if it was dropped, `CommitConflict` if another table has the name now.
    """
    from pyiceberg.exceptions import NoSuchTableError

    try:
        fresh = table.catalog.load_table(table.name())
    except NoSuchTableError as error:
        raise NoSuchTable(f"{'.'.join(table.name())} was dropped by another writer") from error
    check_same_table(table, fresh)
    return fresh, IcebergTable.open(fresh.metadata_location, storage)


def check_same_table(before: Table, now: Table) -> None:
    """Raise `CommitConflict` if another table has the same name now."""
    if before.metadata.table_uuid != now.metadata.table_uuid:
        raise CommitConflict(f"{'.'.join(before.name())} was dropped and recreated since it was opened: open it again")


@contextmanager
def raise_refusal() -> Iterator[None]:
    """Context manager: raise a Hive metastore's refusal of columns itself, instead of `CommitStateUnknown`.

    The refusal (`InvalidOperationException`, the cause of that error) is final.
    """
    try:
        yield
    except CommitStateUnknown as unknown:
        error = unknown.__cause__
        if type(error).__name__ == _REFUSED and isinstance(error, Exception):
            raise error from None
        raise


def check_refusal(failed: FailedCommit, name: str) -> None:
    """Raise `UnsupportedFeature` if a REST server refused a metadata change as a bad request, not for a conflict."""
    from pyiceberg.exceptions import BadRequestError

    if isinstance(failed.error, BadRequestError):
        raise _refusal_error(failed, name) from failed.error


def wait_before_retry(attempts: Attempts, name: str, failed: FailedCommit) -> None:
    """Wait before a failed commit is retried; `name` is the table's.

    Raises `CommitConflict` after the last attempt, and `UnsupportedFeature` without waiting for a final refusal.
    """
    if failed.is_final:
        raise _refusal_error(failed, name) from failed.error
    attempts.wait_or_raise(name, failed.error)


def _refusal_error(failed: FailedCommit, name: str) -> UnsupportedFeature:
    return UnsupportedFeature(
        f"this change of {name}", f"Its catalog refused it, and nothing was changed: {failed.error}"
    )


def _is_final(error: Exception, table: Table, fresh: Table) -> bool:
    from pyiceberg import exceptions as theirs

    if isinstance(error, theirs.BadRequestError):  # Java's servers also return it for conflicting commits
        return bool(fresh.metadata_location == table.metadata_location)
    return isinstance(error, theirs.RESTError | NotImplementedError)


def is_refusal(error: Exception, table: Table) -> bool:
    """Return whether an error means that the catalog did not commit; after any other error, it may have committed."""
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
    return isinstance(error, kinds) or _status_of(error) in REFUSALS or checked_here


def _status_of(error: Exception) -> int | None:
    """Return the HTTP status of the response that caused pyiceberg's error, or None if there was no response."""
    return getattr(getattr(error.__cause__, "response", None), "status_code", None)


_LOG = logging.getLogger("lakescan")


def remove_old_metadata(before: Table, metadata: Any, location: str, storage: Storage) -> None:
    """Remove the metadata files that a commit dropped from the metadata log, if the table's properties ask for it.

    `before` is the table that was committed to. `metadata` (pyiceberg's) and `location` are those that the commit made.
    For catalogs other than pyiceberg's own, the server does this. Files of a table that does not own them
    (`gc.enabled`) stay. Never raises, because the commit has succeeded.
    """
    from pyiceberg.catalog import MetastoreCatalog

    where = ".".join(before.name())
    properties = IcebergProperties(metadata.properties, where)
    owns_log = isinstance(before.catalog, MetastoreCatalog) and properties.owns_files
    if not (owns_log and properties.removes_metadata):
        return
    kept = {each.metadata_file for each in metadata.metadata_log}
    known = (*(each.metadata_file for each in before.metadata.metadata_log), before.metadata_location)
    dropped = [each for each in known if each not in kept and each != location]
    try:
        remove_unreferenced_files(
            storage, dropped, lambda: [pa.array(metadata_locations(IcebergTable.open(location, storage)), pa.string())]
        )
    except Exception as error:
        _LOG.warning("%s: old metadata files were not removed: %s", where, error)
