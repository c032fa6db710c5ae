"""What became of a change in a catalog that ended with an error: made, refused, or unknown. It is looked up."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from lakescan.catalogs.unity.client import UnityRefusal
from lakescan.common.retries import outcome_of
from lakescan.errors import LakescanError, StorageError
from lakescan.storage.put_if_absent import NotCreated

T = TypeVar("T")

# Of a metastore (thrift), of Glue and of databases: answers that say that nothing was changed.
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
# Errors before a request to Glue.
_NOT_ASKED = frozenset(("NoCredentialsError", "PartialCredentialsError", "ParamValidationError", "NoRegionError"))
# What a metastore says that its file system refused, before it asked its database. Of errors of its database, such as
# a connection lost in a commit, it says no more than what failed: the change may still arrive.
_OF_FILES = ("java.io", "java.nio.file", *(f"org.apache.hadoop.{name}" for name in ("fs", "hdfs", "ipc", "security")))
_FILE_ERRORS = tuple(f"Got exception: {package}." for package in _OF_FILES)


def commit_change(
    doing: str,
    change: Callable[[], T],
    is_made: Callable[[], bool | None],
    *,
    repeated: tuple[type[Exception], ...] = (),
) -> T | None:
    """Make a change in a catalog, and return its answer; None if that was lost, and the change is found to be made.

    `doing` says what is done, such as "dropping local.db.t". `is_made` asks the catalog anew: True if the change is
    made, False if it is not and cannot be any more, None if it may still arrive. A refusal is raised without a look,
    unless it is one of `repeated`: what a catalog answers to a request that its client has sent twice, as boto3 does.

    Raises `CommitStateUnknown` if the last look has no outcome, and the error of `change` if it was not made.

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
    """Whether an error proves that a catalog has changed nothing: it refused, or was not asked.

    Any other error may have happened after the change: no answer, one of a server that failed, of a gateway, of a
    database whose connection ended.
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
    if "ValidationError" in kinds:  # pydantic's: the answer to a change that may be made cannot be read
        return False
    if isinstance(error, ValueError | TypeError | LookupError | AttributeError):  # before a request
        return True
    return not kinds.isdisjoint(_REFUSALS | _NOT_ASKED)


def _is_of_files(error: Exception) -> bool:
    """Whether a metastore says that its work ended at the files of a table: what is not there then, is not made."""
    if type(error).__name__ != "MetaException":
        return False
    words = str(getattr(error, "message", None) or error)
    return words.startswith(_FILE_ERRORS) or words.endswith("is not a directory or unable to create one")


def _is_refused(error: Exception) -> bool:
    return isinstance(error.__cause__, UnityRefusal)
