"""Every error lakescan raises on purpose: what was read, what was wrong, what to do.

Catch `LakescanError` for all of them, or one of its children.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class LakescanError(Exception):
    """The parent of all errors that lakescan raises on purpose."""


class NotATable(LakescanError):
    """The path holds neither an Iceberg nor a Delta table, or does not exist."""


class NoSuchCatalog(LakescanError, LookupError):
    """No catalog is known by that name."""


class NoSuchNamespace(LakescanError, LookupError):
    """The catalog does not have the namespace."""


class NoSuchTable(NotATable, LookupError):
    """The catalog does not have the table."""


class TableExists(LakescanError):
    """A table of that name, or at that place, is there already."""


class CreatedConcurrently(TableExists):
    """The table was not there when its creation began, and another writer has made it since."""


class CommitConflict(LakescanError):
    """Another writer has changed what this one was about to change: look at the table again, and repeat it."""


class SchemaMismatch(LakescanError, ValueError):
    """Rows to write do not fit the table's columns; the message has both sides."""


class CorruptMetadata(LakescanError):
    """Table metadata breaks its specification: a missing field, a gap in the log, a bad checksum."""


class CorruptData(CorruptMetadata):
    """A data or delete file is damaged: it cannot be decoded, or has other rows than its footer or the table says."""


class LimitExceeded(LakescanError):
    """A file says, or unpacks to, more than is taken of one thing (`lakescan.limits`): it is damaged, or hostile."""


class UnsupportedFeature(LakescanError):
    """The table (or the call) needs a feature that this version does not have; reading on could be wrong."""

    def __init__(self, feature: str, detail: str = "") -> None:
        super().__init__(feature, detail)
        self.feature = feature
        self.detail = detail

    def __str__(self) -> str:
        return f"unsupported feature: {self.feature}" + (f". {self.detail}" if self.detail else "")


class InvalidOption(LakescanError, ValueError):
    """An option is unknown, has a malformed value, or contradicts another one."""


class InvalidFilter(LakescanError, ValueError):
    """A filter cannot be parsed, or compares a column with a value that its type cannot hold."""


class NoTruthValue(InvalidFilter, TypeError):
    """A filter was asked whether it is true, as `and`, `or`, `not`, `if` and `a < b < c` do: use `&`, `|`, `~`."""


class NoSuchColumn(LakescanError, KeyError):
    """A filter or projection names a column that the table's schema does not have."""

    def __str__(self) -> str:
        return str(self.args[0])


class NoSuchSnapshot(LakescanError, LookupError):
    """The snapshot, version, branch, tag or time asked for is not in the table."""


class RowsChanged(LakescanError):
    """A stream of added rows came to a commit that removed or rewrote rows; the message has the ways on."""


class SchemaChanged(LakescanError):
    """A stream came to a commit with another schema: start it again to read on with that one."""


class StorageError(LakescanError, OSError):
    """Storage cannot be reached, or refuses: the message has the location and what the filesystem said."""


class CommitStateUnknown(StorageError):
    """The answer to a commit was lost, and the table does not show it (yet): its files stay.

    Look at the table again before it is repeated; with `txnAppId` and `txnVersion` it can be repeated safely.
    """


class MissingFile(StorageError, FileNotFoundError):
    """A file that the table's metadata lists is not in storage."""


class NotEnoughMemory(LakescanError):
    """Decoding a file takes more memory than there is: it is damaged, or this process has too little."""


class MissingDependency(LakescanError, ImportError):
    """An optional library is needed for this call; the message names the extra that installs it."""


def missing_dependency(library: str, extra: str, purpose: str) -> MissingDependency:
    """The error for an optional `library` that is absent, naming the `extra` that brings it."""
    return MissingDependency(f"{purpose} needs `{library}`, which is not installed: pip install 'lakescan[{extra}]'")


def nearest(name: str, candidates: Iterable[str]) -> str:
    """A ' Did you mean ...?' for the candidate closest to `name`, or an empty string."""
    by_lower = {c.lower(): c for c in candidates}
    found = difflib.get_close_matches(str(name).lower(), list(by_lower), n=1, cutoff=0.5)
    return f" Did you mean {by_lower[found[0]]!r}?" if found else ""
