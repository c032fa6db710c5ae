"""Catalog-managed tables (protocol, "Catalog-managed tables"): tables whose commits a catalog ratifies.

A commit is staged as a file in `_delta_log/_staged_commits`, ratified by the catalog, and published later, in order, as
`_delta_log/<version>.json`. Readers ask the catalog before they list the log: any commit that the catalog no longer
lists was published before.
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
    """A staged commit as a catalog records it: `name` and `size` (in bytes) of its file in `_staged_commits`.

    `timestamp` is the in-commit timestamp, and `modified` the time when the file was written, both in milliseconds
    since 1970.
    """

    version: int
    name: str
    size: int
    timestamp: int
    modified: int


@dataclass(frozen=True)
class RatifiedCommits:
    """The newest version of a table in its catalog (`latest`), and its commits that may not be published yet.

    `commits` are oldest first; older commits are in the log.
    """

    latest: int
    commits: tuple[StagedCommit, ...] = ()


@dataclass(frozen=True)
class MetadataChange:
    """A commit's changes of protocol, metadata and domains, as fields of Delta actions; None for an unchanged one.

    - `before`, `after`: the fields of the metaData action before and after the commit.
    - `protocol`: the fields of the new protocol action.
    - `domains`: the new configurations by domain, or None for a removed domain.
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
        """A key that distinguishes the table from every other one, even one of the same name or in the same folder."""

    def ratified_commits(self) -> RatifiedCommits:
        """Request the newest version and the commits that may not be published yet.

        Raises `NoSuchTable`, and `CommitConflict` if another table now has the name.
        """

    def propose(self, commit: StagedCommit, change: MetadataChange) -> RatifiedCommits:
        """Propose a commit to the catalog, and return the ratified commits including it.

        The request is sent again if the response is lost: the same proposal is ratified only once. Raises
        `VersionConflict` if the version has a commit, `NotCreated` if the catalog rejects this one, `TooManyStaged` if
        other commits have to be published first, and `CommitStateUnknown` if no attempt gets a response.
        """

    def report_publication(self, version: int) -> None:
        """Report to the catalog that all commits up to a version are published."""


class VersionConflict(Exception):
    """The version of a proposed commit is taken: by another commit if `certain`, else possibly by the proposed one."""

    def __init__(self, *, certain: bool) -> None:
        super().__init__("the version is taken")
        self.certain = certain


class TooManyStaged(Exception):
    """The catalog accepts no commit until some ratified commits are published."""


def find_managed_table(location: str, storage: Storage) -> ManagedTable | None:
    """Return the catalog's entry of the table in a folder; None if the table was not opened through its catalog.

    `storage` holds it if the table was opened by its name in a catalog that ratifies its commits.
    """
    table = storage.vended
    if not isinstance(table, ManagedTable) or normal(table.location) != normal(location):
        return None
    return table


def staged_file(location: str, name: str) -> str:
    """Return the location of the staged commit `name` of the table in folder `location`."""
    return join(location, "_delta_log", STAGED_FOLDER, name)
