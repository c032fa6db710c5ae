"""Catalog changes that ended with an error: looks up whether the change was made, was refused, or may still arrive."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from lakescan.catalogs.unity.client import UnityRefusal
from lakescan.common.retries import outcome_of
from lakescan.errors import LakescanError, StorageError
from lakescan.storage.put_if_absent import NotCreated

T = TypeVar("T")

# Errors of a metastore (Thrift), of Glue and of databases which prove that nothing was changed.
_REFUSALS = frozenset(
    (
        "AccessDeniedException",
        "AlreadyExistsException",
        "EntityNotFoundException",
        "DataError",
        "IntegrityError",
        "InvalidInputException",
        "InvalidObjectException",
        "InvalidOperationException",
        "NoSuchObjectException",
        "ProgrammingError",
        "UnknownDBException",
    )
)
# Errors raised before a request to Glue is sent.
_NOT_ASKED = frozenset(("NoCredentialsError", "PartialCredentialsError", "ParamValidationError", "NoRegionError"))
# A metastore uses its file system before its database, so an error of the file system proves that nothing was changed.
# An error of its database, such as a connection lost in a commit, proves nothing: the change may still arrive.
_OF_FILES = ("java.io", "java.nio.file", *(f"org.apache.hadoop.{name}" for name in ("fs", "hdfs", "ipc", "security")))
_FILE_ERRORS = tuple(f"Got exception: {package}." for package in _OF_FILES)


def commit_change(
    doing: str,
    change: Callable[[], T],
    is_made: Callable[[], bool | None],
    *,
    repeated: tuple[type[Exception], ...] = (),
) -> T | None:
    """Make a change in a catalog, and return its result; None if the response was lost but the change was made.

    `doing` describes the change, such as "dropping local.db.t". `is_made` queries the catalog: True if the change was
    made, False if it was not and cannot be any more, None if it may still arrive. A refusal is raised without a lookup,
    unless its type is in `repeated`: errors that a catalog returns if its client, such as boto3, sent a request twice.

    Raises `CommitStateUnknown` if the last lookup is inconclusive, and the error of `change` if it was not made.

    Example:
        >>> def outcome():
        ...     return None if is_there("db.t") else True
        >>> commit_change("dropping db.t", lambda: catalog.drop_table("db.t"), outcome)
    """
    try:
        return change()
    except Exception as error:
        is_refused = is_refusal(error)
        if is_refused and not isinstance(error, repeated):
            raise
        is_ended = is_refused or _is_of_files(error)

        def check_outcome() -> bool | None:
            found = is_made()
            return False if found is None and is_ended else found

        if not outcome_of(doing, error, check_outcome, doing=True):
            raise
        return None


def is_refusal(error: Exception) -> bool:
    """Return whether an error proves that a catalog changed nothing: it refused or never got the request.

    Any other error may come after the change: no response, a failed server or gateway, a lost database connection.
    """
    from pyiceberg import exceptions as theirs

    unclear = (theirs.ServerError, theirs.ServiceUnavailableError, theirs.CommitStateUnknownException)
    if isinstance(error, unclear):
        return False
    if isinstance(error, LakescanError):
        return not isinstance(error, StorageError) or isinstance(error, NotCreated) or _is_refused(error)
    if isinstance(error, OSError):
        return False
    if type(error).__module__ == theirs.__name__ or isinstance(error, UnityRefusal | NotImplementedError):
        return True
    kinds = {kind.__name__ for kind in type(error).__mro__}
    if "ValidationError" in kinds:  # pydantic's: the response is unreadable, but the change may be made
        return False
    if isinstance(error, ValueError | TypeError | LookupError | AttributeError):  # before a request
        return True
    return not kinds.isdisjoint(_REFUSALS | _NOT_ASKED)


def _is_of_files(error: Exception) -> bool:
    """Return whether an error shows that a Hive metastore failed in its file system, before it changed its database."""
    if type(error).__name__ != "MetaException":
        return False
    words = str(getattr(error, "message", None) or error)
    return words.startswith(_FILE_ERRORS) or words.endswith("is not a directory or unable to create one")


def _is_refused(error: Exception) -> bool:
    return isinstance(error.__cause__, UnityRefusal)
