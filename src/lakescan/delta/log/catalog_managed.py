"""Tables whose commits a catalog ratifies (protocol, "Catalog-managed tables"): what their log is, and who says so.

A commit is staged as a file in `_delta_log/_staged_commits`, ratified by the catalog, and published later, in order, as
`_delta_log/<version>.json`. The catalog is asked first, and the log listed then: whatever the catalog does not name any
more was published before.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from lakescan.storage import Storage, join
from lakescan.storage.locations import normal

STAGED_FOLDER = "_staged_commits"
FEATURES = ("catalogManaged", "catalogOwned-preview")


@dataclass(frozen=True)
class StagedCommit:
    """A commit as a catalog has it: the file in `_staged_commits`, its bytes, and times in milliseconds since 1970.

    `timestamp` is the in-commit timestamp, `modified` when the file was written.
    """

    version: int
    name: str
    size: int
    timestamp: int
    modified: int


@dataclass(frozen=True)
class RatifiedCommits:
    """The newest version of a table by its catalog, and those commits that may not be published, oldest first."""

    latest: int
    commits: tuple[StagedCommit, ...] = ()


@dataclass(frozen=True)
class MetadataChange:
    """What a commit changes of the table beside its rows, as members of Delta actions; None for what stays.

    `before` and `after` are metaData actions, `domains` the configurations of domains, None for one that is removed.
    """

    before: Mapping[str, object]
    after: Mapping[str, object] | None = None
    protocol: Mapping[str, object] | None = None
    domains: Mapping[str, Mapping[str, object] | None] | None = None


@runtime_checkable
class ManagedTable(Protocol):
    """A table in the catalog that ratifies its commits."""

    @property
    def location(self) -> str:
        """The table's folder."""

    @property
    def name(self) -> str:
        """The table's name, for messages."""

    @property
    def identity(self) -> Hashable:
        """Tells the table from every other one, also of the same name or in the same folder."""

    def ratified_commits(self) -> RatifiedCommits:
        """Ask the catalog; raises `NoSuchTable`, and `CommitConflict` if another table has the name by now."""

    def propose(self, commit: StagedCommit, change: MetadataChange) -> RatifiedCommits:
        """Propose a commit, as often as an answer is lost: the same proposal is ratified once.

        Returns the ratified commits. Raises `VersionConflict` if the version has a commit, `NotCreated` if the catalog
        refuses this one, `TooManyStaged` if others have to be published first, `CommitStateUnknown` if no attempt has
        an answer.
        """

    def report_publication(self, version: int) -> None:
        """Tell the catalog that all commits up to a version are published."""


class VersionConflict(Exception):
    """The version that a commit was proposed as has a commit: another one, if that is certain; else perhaps this."""

    def __init__(self, *, certain: bool) -> None:
        super().__init__("the version is taken")
        self.certain = certain


class TooManyStaged(Exception):
    """The catalog takes no commit before some that are ratified are published."""


def find_managed_table(location: str, storage: Storage) -> ManagedTable | None:
    """The catalog's entry of the table in a folder, if it was opened by its name and its commits are ratified there."""
    table = storage.vended
    if not isinstance(table, ManagedTable) or normal(table.location) != normal(location):
        return None
    return table


def staged_file(location: str, name: str) -> str:
    """The location of a staged commit."""
    return join(location, "_delta_log", STAGED_FOLDER, name)
