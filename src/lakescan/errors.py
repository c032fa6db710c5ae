"""Exceptions that lakescan raises deliberately. A message names the table or file, the problem and the remedy.

Catch `LakescanError` for all of them, or a subclass for one kind.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from enum import Enum

from lakescan.common.secrets import hide_secrets

# The project's documentation, for links in messages: an installed wheel has no `docs` folder.
DOCUMENTS = "https://github.com/lakescan/lakescan/tree/main/docs"


class LakescanError(Exception):
    """Base class of all errors that lakescan raises deliberately. Its message hides secrets such as keys and tokens.

    Attributes:
        table_format: The format of the table that a statement was changing, "iceberg" or "delta", if known; else None.
    """

    table_format: str | None = None

    def __init__(self, *arguments: object) -> None:
        super().__init__(*(hide_secrets(each) if isinstance(each, str) else each for each in arguments))

    def __str__(self) -> str:
        return hide_secrets(super().__str__())

    def __repr__(self) -> str:
        return hide_secrets(super().__repr__())


class NotATable(LakescanError):
    """The path holds neither an Iceberg nor a Delta table, or does not exist."""


class NoSuchCatalog(LakescanError, LookupError):
    """No catalog is configured under that name."""


class NoSuchNamespace(LakescanError, LookupError):
    """The catalog does not have the namespace."""


class NoSuchTable(NotATable, LookupError):
    """The catalog does not have the table."""


class IsAView(NoSuchTable):
    """The catalog has a view of that name, not a table: query it by `lakescan.sql`, or open it by `load_view`."""

    found: object = None  # the view, for callers that can read it


class TableExists(LakescanError):
    """A table with that name or location already exists."""


class CreatedConcurrently(TableExists):
    """Another writer created the table after this one had checked that it did not exist."""


class ConflictCause(Enum):
    """What a concurrent commit to a Delta table did, so that this commit conflicts with it."""

    PROTOCOL = "changed the protocol"
    METADATA = "changed columns or properties"
    TRANSACTION = "has the same application id"
    DELETE_DELETE = "removed files that this commit removes"
    DELETE_READ = "removed files that this commit read"
    APPEND = "added files that this commit would have read"
    WRITE = "wrote to the table"


class CommitConflict(LakescanError):
    """A concurrent commit changed data that this commit depends on: read the table again, then repeat the write.

    Attributes:
        cause: What the concurrent commit did, for a Delta table; else None.
    """

    cause: ConflictCause | None = None

    def because(self, cause: ConflictCause) -> CommitConflict:
        """Return this error with a cause."""
        self.cause = cause
        return self


class FeatureInUse(LakescanError):
    """A table feature cannot be dropped yet: versions of the table use it. The message says what to do, and when.

    Commits that the statement has already made are kept: the newest version does not use the feature, unless the
    message says otherwise.
    """


class AmbiguousMerge(LakescanError, ValueError):
    """Several rows of a MERGE's source match the same target row, so the result is undefined.

    Nothing is committed. Make the keys of the source unique, or add conditions to ON.
    """


class SchemaMismatch(LakescanError, ValueError):
    """The rows to write do not fit the table's schema; the message shows both."""


class CorruptMetadata(LakescanError):
    """Table metadata violates its specification: a missing field, a gap in the log, a bad checksum."""


class CorruptData(CorruptMetadata):
    """A data or delete file is damaged: it cannot be decoded, or its rows contradict its footer or the metadata."""


class LimitExceeded(LakescanError):
    """A file declares or decompresses to more than a limit of `lakescan.limits` allows: it is damaged or hostile."""


class UnsupportedFeature(LakescanError):
    """The table (or the call) needs a feature that this version lacks; continuing could give wrong results.

    Args:
        feature: The name of the feature.
        detail: Sentences that explain the problem or name an alternative; may be empty.
    """

    def __init__(self, feature: str, detail: str = "") -> None:
        super().__init__(feature, detail)
        self.feature = feature
        self.detail = detail

    def __str__(self) -> str:
        return hide_secrets(f"unsupported feature: {self.feature}" + (f". {self.detail}" if self.detail else ""))


class InvalidOption(LakescanError, ValueError):
    """An option is unknown, has a malformed value, or contradicts another option."""


class InvalidStatement(InvalidOption):
    """An SQL statement cannot be parsed, or names something that does not exist; the message underlines the place."""


class QueryFailed(LakescanError):
    """A query failed on the values of its rows: an impossible cast, an overflow, a division by zero."""


class InvalidFilter(LakescanError, ValueError):
    """A filter cannot be parsed, or compares a column with a literal that cannot be converted to its type."""


class NoTruthValue(InvalidFilter, TypeError):
    """A filter was used as a boolean (`and`, `or`, `not`, `if`, `a < b < c`): use `&`, `|`, `~`."""


class NoSuchMethod(InvalidFilter, AttributeError):
    """A filter calls a method that columns do not have; the message suggests the most similar one."""


class NoSuchColumn(LakescanError, KeyError):
    """A filter or projection names a column that the table's schema does not have."""

    def __str__(self) -> str:
        return str(self.args[0])


class NoSuchSnapshot(LakescanError, LookupError):
    """The requested snapshot, version, branch, tag or timestamp is not in the table."""


class RowsChanged(LakescanError):
    """A stream of appended rows reached a commit that removed or rewrote rows; the message says how to continue."""


class SchemaChanged(LakescanError):
    """A stream, or a frame that follows its table, reached another schema: start the stream or make the frame again."""


class StorageError(LakescanError, OSError):
    """Storage is unreachable or denies access; the message has the location and the filesystem's error."""


class LocationRefused(StorageError):
    """A table's metadata refers to a location that is not allowed, such as a local file or a cloud metadata server.

    The message names the location. The options `allowed-locations` and `relocate` allow more locations.
    """


class CommitStateUnknown(StorageError):
    """The response to a commit was lost, and the table does not show the commit (yet). The written files are kept.

    Read the table again before repeating the write. With `txnAppId` and `txnVersion`, repeating it is safe.
    """


class MissingFile(StorageError, FileNotFoundError):
    """A file listed in the table's metadata is not in storage."""


class NotEnoughMemory(LakescanError):
    """Decoding a file needs more memory than is available: the file is damaged, or the process has too little."""


class MissingDependency(LakescanError, ImportError):
    """The call needs an optional library that is not installed; the message names the extra that installs it."""


def missing_dependency(library: str, extra: str, purpose: str) -> MissingDependency:
    """Return the error for an optional `library` that is not installed, naming the `extra` that installs it."""
    return MissingDependency(f"{purpose} needs `{library}`, which is not installed: pip install 'lakescan[{extra}]'")


def nearest(name: str, candidates: Iterable[str]) -> str:
    """Return " Did you mean ...?" with the candidate closest to `name`, or an empty string."""
    by_lower = {c.lower(): c for c in candidates}
    matches = difflib.get_close_matches(str(name).lower(), list(by_lower), n=1, cutoff=0.5)
    return f" Did you mean {by_lower[matches[0]]!r}?" if matches else ""
