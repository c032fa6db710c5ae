"""The classes of `delta.exceptions`: conflicts of a commit to a Delta table with concurrent commits."""

from __future__ import annotations

from pyspark.errors import PySparkException

from lakescan.errors import CommitConflict, ConflictCause


class DeltaConcurrentModificationException(PySparkException):
    """A commit conflicts with a concurrent commit. Base class of all others of this module."""


class ConcurrentWriteException(DeltaConcurrentModificationException):
    """A concurrent commit wrote to the table after this one had read it."""


class MetadataChangedException(DeltaConcurrentModificationException):
    """A concurrent commit changed the table's columns or properties."""


class ProtocolChangedException(DeltaConcurrentModificationException):
    """A concurrent commit changed the table's protocol."""


class ConcurrentAppendException(DeltaConcurrentModificationException):
    """A concurrent commit added files that this one would have read."""


class ConcurrentDeleteReadException(DeltaConcurrentModificationException):
    """A concurrent commit deleted files that this one read."""


class ConcurrentDeleteDeleteException(DeltaConcurrentModificationException):
    """A concurrent commit deleted files that this one deletes."""


class ConcurrentTransactionException(DeltaConcurrentModificationException):
    """A concurrent commit has the same application id."""


_CLASSES: dict[ConflictCause, type[DeltaConcurrentModificationException]] = {
    ConflictCause.PROTOCOL: ProtocolChangedException,
    ConflictCause.METADATA: MetadataChangedException,
    ConflictCause.TRANSACTION: ConcurrentTransactionException,
    ConflictCause.DELETE_DELETE: ConcurrentDeleteDeleteException,
    ConflictCause.DELETE_READ: ConcurrentDeleteReadException,
    ConflictCause.APPEND: ConcurrentAppendException,
    ConflictCause.WRITE: ConcurrentWriteException,
}
_CONDITIONS = {
    ConflictCause.PROTOCOL: "DELTA_PROTOCOL_CHANGED",
    ConflictCause.METADATA: "DELTA_METADATA_CHANGED",
    ConflictCause.TRANSACTION: "DELTA_CONCURRENT_TRANSACTION",
    ConflictCause.DELETE_DELETE: "DELTA_CONCURRENT_DELETE_DELETE",
    ConflictCause.DELETE_READ: "DELTA_CONCURRENT_DELETE_READ",
    ConflictCause.APPEND: "DELTA_CONCURRENT_APPEND",
    ConflictCause.WRITE: "DELTA_CONCURRENT_WRITE",
}

__all__ = [
    "ConcurrentAppendException",
    "ConcurrentDeleteDeleteException",
    "ConcurrentDeleteReadException",
    "ConcurrentTransactionException",
    "ConcurrentWriteException",
    "DeltaConcurrentModificationException",
    "MetadataChangedException",
    "ProtocolChangedException",
]


def conflict_class(error: CommitConflict) -> tuple[type[DeltaConcurrentModificationException], str] | None:
    """Return the class and the error condition of a conflict in a Delta table; None for other tables."""
    return None if error.cause is None else (_CLASSES[error.cause], _CONDITIONS[error.cause])
