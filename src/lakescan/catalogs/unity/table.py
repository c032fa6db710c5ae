"""A Delta table in a Unity Catalog: its location, its credentials, and the commits of a catalog-managed table."""

from __future__ import annotations

import re
from collections.abc import Hashable
from contextlib import suppress
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any, Self

from lakescan.catalogs.unity.client import (
    WHAT_TO_DO,
    NoAnswer,
    UnityClient,
    UnityRefusal,
    UnityResponse,
    pause,
    quoted_path,
)
from lakescan.catalogs.unity.credentials import (
    IssuedCredentials,
    has_credentials,
    parse_credentials,
    parse_legacy_credentials,
    valid_credentials,
)
from lakescan.catalogs.unity.updates import updates_of
from lakescan.common.identifiers import Identifier
from lakescan.common.retries import RetryPolicy, outcome_of
from lakescan.delta.log.catalog_managed import (
    MetadataChange,
    RatifiedCommits,
    StagedCommit,
    TooManyStaged,
    VersionConflict,
)
from lakescan.errors import CommitConflict, CorruptMetadata, NoSuchTable, StorageError, UnsupportedFeature
from lakescan.storage.put_if_absent import NotCreated
from lakescan.storage.vended_credentials import Credential

Node = dict[str, Any]
# Retries of a busy server, and of a server that does not respond (for about half a minute).
_BUSY = RetryPolicy(attempts=12, first=0.2, ceiling=10)
_LOST = RetryPolicy(attempts=10, first=0.1, ceiling=10)
_ONCE = RetryPolicy(attempts=1, first=0)
_LOCKED = "UpdateRequirementConflictException"  # the table is locked, or another table has the name
_NAME = re.compile(r"(\d{20})\.[0-9A-Za-z-]+\.json")


@dataclass
class UnityTable:
    """A table by its name and id (`uuid`), with `VendedCredentials` for its files.

    `names` are those of the catalog, schema and table on the server. `writes`: the credentials are for writing, too.
    `is_old`: only the server's older API has this table.
    """

    client: UnityClient
    identifier: Identifier
    names: tuple[str, str, str]
    uuid: str
    location: str
    writes: bool = False
    is_old: bool = False

    def __post_init__(self) -> None:
        self._issued: IssuedCredentials | None = None
        self._lock = Lock()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _lock=Lock())

    @property
    def name(self) -> str:
        """The table's name in lakescan."""
        return str(self.identifier)

    @property
    def identity(self) -> Hashable:
        """The server's address and the table's id."""
        return self.client.uri, self.uuid

    @property
    def has_credentials(self) -> bool:
        """Whether the table's files need credentials; False for local files."""
        return has_credentials(self.location)

    @property
    def signer(self) -> None:
        """Always None: the catalog issues credentials, and does not sign requests."""

    def at(self, location: str) -> Credential | None:
        """Return credentials for all of the table's files that do not expire soon; None for local files.

        `location` is ignored. Raises `StorageError` if the catalog issues no credentials.
        """
        if not self.has_credentials:
            return None
        with self._lock:
            self._issued = valid_credentials(self._issued, self._ask)
            return self._issued.credential

    def request_write_access(self) -> Self:
        """Return this table with credentials for reading and writing; itself if it has them."""
        return self if self.writes else replace(self, writes=True)

    def _ask(self) -> IssuedCredentials:
        operation = "READ_WRITE" if self.writes else "READ"
        try:
            if self.is_old:
                body = {"table_id": self.uuid, "operation": operation}
                answer = self.client.send("POST", "/temporary-table-credentials", body)
                return parse_legacy_credentials(answer, self.location)
            answer = self.client.get(f"{self._path}/credentials", {"operation": operation})
        except UnityRefusal as error:
            raise StorageError(f"the catalog issues no credentials ({operation}) for {self.name}: {error}") from error
        return parse_credentials(answer, self.location)

    @property
    def _path(self) -> str:
        catalog, schema, table = self.names
        return f"/delta/v1{quoted_path('catalogs', catalog, 'schemas', schema, 'tables', table)}"


@dataclass
class ManagedUnityTable(UnityTable):
    """A table with catalog-managed commits (`lakescan.delta.log.catalog_managed.ManagedTable`)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._found: RatifiedCommits | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_found": None}

    def keep_answer(self, answer: UnityResponse) -> Self:
        """Keep the catalog's description of the table for the next call of `ratified_commits`; return the table.

        Raises the errors of `_parse_commits`.
        """
        self._found = self._parse_commits(answer)
        return self

    def ratified_commits(self) -> RatifiedCommits:
        """Return the latest version, and the ratified commits that the catalog has not recorded as published.

        Requests them, unless `keep_answer` stored a response. Raises `NoSuchTable`, `CommitConflict` if another table
        has the name, `StorageError`, `CorruptMetadata`, `UnsupportedFeature`.
        """
        found, self._found = self._found, None
        if found is not None:
            return found
        try:
            return self._parse_commits(self.client.get(self._path))
        except UnityRefusal as error:
            if error.is_missing:
                raise NoSuchTable(f"{self.name} is not in its catalog any more: {error.message}") from error
            raise StorageError(f"the catalog does not return the commits of {self.name}: {error}") from error

    def propose(self, commit: StagedCommit, change: MetadataChange) -> RatifiedCommits:
        """Send a commit with its metadata changes to the catalog, and return its ratified commits after it.

        See `ManagedTable.propose`. Raises `VersionConflict`, `TooManyStaged`, `NotCreated`, `CommitStateUnknown`.
        """
        body = self._request({"action": "add-commit", "commit": _node(commit)}, *updates_of(change))
        try:
            return self._send_update(body, _BUSY)
        except UnityRefusal as error:
            return self._resolve_refusal(commit, body, error)
        except NoAnswer as error:
            return self._retry_proposal(commit, body, error)

    def report_publication(self, version: int) -> None:
        """Report to the catalog that all commits up to a version are published; raises `StorageError`."""
        try:
            action = {"action": "set-latest-backfilled-version", "latest-published-version": version}
            self._send_update(self._request(action), _BUSY)
        except UnityRefusal as error:
            raise StorageError(f"the catalog does not record published commits of {self.name}: {error}") from error

    def _request(self, *updates: Node) -> Node:
        return {"requirements": [{"type": "assert-table-uuid", "uuid": self.uuid}], "updates": list(updates)}

    def _send_update(self, body: Node, policy: RetryPolicy) -> RatifiedCommits:
        """Send an update, and return the ratified commits after it. It is retried by `policy` if the server is busy.

        Raises `UnityRefusal` for a refusal by the server itself, and `NoAnswer` if the update may have been carried
        out, or the refusal may come from a proxy or gateway.
        """
        waits = policy.waits()
        while True:
            try:
                answer = self.client.send("POST", self._path, body)
            except UnityRefusal as error:
                if error.status != 503:
                    wait = next(waits, None)
                    if wait is not None and self._is_busy(error):
                        pause(error, wait)
                        continue
                    if error.kind:
                        raise
                pause(error, 0)
                raise NoAnswer(str(error)) from error  # an earlier request may have succeeded
            try:
                return self._parse_commits(answer)
            except (CorruptMetadata, CommitConflict, UnsupportedFeature) as error:  # the update was carried out
                raise NoAnswer(str(error)) from error

    def _is_busy(self, error: UnityRefusal) -> bool:
        """Return whether to retry a refused request: the server is busy, or the table is locked.

        Raises `CommitConflict` if another table has the name.
        """
        if error.kind == _LOCKED:
            with suppress(StorageError, CorruptMetadata, UnsupportedFeature):
                self.ratified_commits()  # raises `CommitConflict` if another table has the name
            return True
        return error.status == 429 and error.kind != "ResourceExhaustedException"

    def _resolve_refusal(self, commit: StagedCommit, body: Node, error: UnityRefusal) -> RatifiedCommits:
        """Look up the outcome of a refused proposal, and return the ratified commits if it was made.

        `commit` was sent as `body`. A refusal proves nothing, since the request may have arrived twice. Raises
        `VersionConflict`, `TooManyStaged`, `CommitStateUnknown`, and `NotCreated` if the commit was provably not made.
        """
        try:
            made = self._find_commit(commit)
        except (StorageError, CorruptMetadata, UnsupportedFeature):
            return self._retry_proposal(commit, body, error)
        if made is not None:
            return made
        if error.kind == "ResourceExhaustedException":
            raise TooManyStaged(error.message)
        if error.status == 409 and error.kind != _LOCKED:  # the cause of the conflict is unclear
            return self._retry_proposal(commit, body, error)
        raise NotCreated(f"the catalog refuses a commit to {self.name}: {error}")

    def _retry_proposal(self, commit: StagedCommit, body: Node, error: Exception) -> RatifiedCommits:
        """Resend a proposal whose response was lost; return the ratified commits after it.

        The catalog ratifies it only once. Raises `VersionConflict`, `CommitConflict` and `CommitStateUnknown`.
        """

        def retry_update() -> RatifiedCommits:
            try:
                return self._send_update(body, _ONCE)
            except UnityRefusal as refusal:
                if (made := self._find_commit(commit)) is not None:
                    return made
                raise StorageError(str(refusal)) from refusal  # an earlier request may still arrive

        name = f"{self.name} (version {commit.version})"
        return outcome_of(name, error, retry_update, (CommitConflict, VersionConflict), _LOST)

    def _find_commit(self, commit: StagedCommit) -> RatifiedCommits | None:
        """Return the ratified commits if `commit` is among them; None if its version is not taken.

        Raises `VersionConflict` if another commit has the version, and the errors of `ratified_commits`.
        """
        ratified = self.ratified_commits()
        name = {each.version: each.name for each in ratified.commits}.get(commit.version)
        if name == commit.name:
            return ratified
        if name is not None:
            raise VersionConflict(certain=True)
        if ratified.latest >= commit.version:
            raise VersionConflict(certain=False)  # published: only the commit file shows whose commit it is
        return None

    def _parse_commits(self, answer: UnityResponse) -> RatifiedCommits:
        """Parse the ratified commits in the catalog's description of the table.

        Raises `CorruptMetadata`, `UnsupportedFeature`, and `CommitConflict` if another table has the name.
        """
        if (uuid := answer.node("metadata").text("table-uuid")) is None:
            raise CorruptMetadata(f"{answer.request} is answered without the id of {self.name}. {WHAT_TO_DO}")
        if uuid != self.uuid:
            raise CommitConflict(f"{self.name} was dropped and recreated since it was opened: open it again")
        commits = sorted(map(self._parse_commit, answer.nodes("commits")), key=lambda each: each.version)
        latest = answer.number("latest-table-version")
        if latest is None:
            latest = max([0, *(each.version for each in commits)])
        versions = [each.version for each in commits]
        is_whole = not versions or latest - versions[0] + 1 == len(versions) == len(set(versions))
        if not is_whole or (versions and versions[-1] != latest):
            raise CorruptMetadata(
                f"the catalog reports version {latest} of {self.name}, and lists the commits "
                f"{versions[0]} to {versions[-1]}: some are missing. Ask its operator."
            )
        return RatifiedCommits(latest, tuple(commits))

    def _parse_commit(self, node: UnityResponse) -> StagedCommit:
        if (name := node.text("file-name")) is None:
            raise UnsupportedFeature(
                f"inline commits of {self.name} in its catalog", "The catalog must record them by file names."
            )
        numbers = [node.number(each) for each in ("version", "file-size", "timestamp", "file-modification-timestamp")]
        known = [each for each in numbers if each is not None]
        match = _NAME.fullmatch(name)
        if match is None or len(known) < len(numbers) or int(match[1]) != known[0]:
            raise CorruptMetadata(
                f"{node.request} returned an invalid commit of {self.name}: {dict(node)}. {WHAT_TO_DO}"
            )
        version, size, timestamp, modified = known
        return StagedCommit(version, name, size, timestamp, modified)


def _node(commit: StagedCommit) -> Node:
    return {
        "version": commit.version,
        "timestamp": commit.timestamp,
        "file-name": commit.name,
        "file-size": commit.size,
        "file-modification-timestamp": commit.modified,
    }
