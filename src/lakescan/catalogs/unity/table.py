"""A Delta table in a Unity Catalog: where its files are, credentials for them, and, if it is managed, its commits."""

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
# How often a server that is busy is asked again; one that does not answer, for half a minute.
_BUSY = RetryPolicy(attempts=12, first=0.2, ceiling=10)
_LOST = RetryPolicy(attempts=10, first=0.1, ceiling=10)
_ONCE = RetryPolicy(attempts=1, first=0)
_LOCKED = "UpdateRequirementConflictException"  # or another table has the name
_NAME = re.compile(r"(\d{20})\.[0-9A-Za-z-]+\.json")


@dataclass
class UnityTable:
    """A table by its name and id, with `VendedCredentials` for its files.

    `names` are those of the catalog, the schema and the table on the server. `is_old` says that the server has the
    older API alone for this table.
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
        """The table's name here."""
        return str(self.identifier)

    @property
    def identity(self) -> Hashable:
        """The server, and the table's id."""
        return self.client.uri, self.uuid

    @property
    def has_credentials(self) -> bool:
        """False for local files."""
        return has_credentials(self.location)

    @property
    def signer(self) -> None:
        """None: it issues credentials."""

    def at(self, location: str) -> Credential | None:
        """FileIO properties with credentials that do not expire soon, for all of the table; raises `StorageError`."""
        if not self.has_credentials:
            return None
        with self._lock:
            self._issued = valid_credentials(self._issued, self._ask)
            return self._issued.credential

    def request_write_access(self) -> Self:
        """The table with credentials for writing."""
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
    """A table whose commits the catalog ratifies (`lakescan.delta.log.catalog_managed.ManagedTable`)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._found: RatifiedCommits | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_found": None}

    def keep_answer(self, answer: UnityResponse) -> Self:
        """This table, as the catalog has just described it: its log is opened without asking again."""
        self._found = self._parse_commits(answer)
        return self

    def ratified_commits(self) -> RatifiedCommits:
        """The newest version, and the commits that are not published as far as the catalog knows.

        Raises `NoSuchTable`, `CommitConflict` if another table has the name, `StorageError`, `CorruptMetadata`.
        """
        found, self._found = self._found, None
        if found is not None:
            return found
        try:
            return self._parse_commits(self.client.get(self._path))
        except UnityRefusal as error:
            if error.is_missing:
                raise NoSuchTable(f"{self.name} is not in its catalog any more: {error.message}") from error
            raise StorageError(f"the catalog does not tell the commits of {self.name}: {error}") from error

    def propose(self, commit: StagedCommit, change: MetadataChange) -> RatifiedCommits:
        """Send the commit with what it changes of the metadata; see `ManagedTable.propose`."""
        body = self._request({"action": "add-commit", "commit": _node(commit)}, *updates_of(change))
        try:
            return self._send_update(body, _BUSY)
        except UnityRefusal as error:
            return self._resolve_refusal(commit, body, error)
        except NoAnswer as error:
            return self._retry_proposal(commit, body, error)

    def report_publication(self, version: int) -> None:
        """Tell that all commits up to a version are published; raises `StorageError`."""
        try:
            action = {"action": "set-latest-backfilled-version", "latest-published-version": version}
            self._send_update(self._request(action), _BUSY)
        except UnityRefusal as error:
            raise StorageError(f"the catalog does not note published commits of {self.name}: {error}") from error

    def _request(self, *updates: Node) -> Node:
        return {"requirements": [{"type": "assert-table-uuid", "uuid": self.uuid}], "updates": list(updates)}

    def _send_update(self, body: Node, policy: RetryPolicy) -> RatifiedCommits:
        """Send an update; a server that is too busy, or has the table locked, is asked again by the policy.

        Raises `UnityRefusal` if the server itself says so, `NoAnswer` for what anything in between may have said.
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
                raise NoAnswer(str(error)) from error  # the request may have passed before
            try:
                return self._parse_commits(answer)
            except (CorruptMetadata, CommitConflict, UnsupportedFeature) as error:  # but it was carried out
                raise NoAnswer(str(error)) from error

    def _is_busy(self, error: UnityRefusal) -> bool:
        """Whether to repeat a request that was refused. The server says so, too, of a table that is locked."""
        if error.kind == _LOCKED:
            with suppress(StorageError, CorruptMetadata, UnsupportedFeature):
                self.ratified_commits()  # raises `CommitConflict` if the table is another one
            return True
        return error.status == 429 and error.kind != "ResourceExhaustedException"

    def _resolve_refusal(self, commit: StagedCommit, body: Node, error: UnityRefusal) -> RatifiedCommits:
        """The outcome of a proposal that the server refuses, which is no proof: the request may have come twice.

        Raises `VersionConflict`, `TooManyStaged`, `CommitStateUnknown`, and `NotCreated` for a commit that is provably
        not made.
        """
        try:
            made = self._find_commit(commit)
        except (StorageError, CorruptMetadata, UnsupportedFeature):
            return self._retry_proposal(commit, body, error)
        if made is not None:
            return made
        if error.kind == "ResourceExhaustedException":
            raise TooManyStaged(error.message)
        if error.status == 409 and error.kind != _LOCKED:  # a conflict with what? Another answer has to tell
            return self._retry_proposal(commit, body, error)
        raise NotCreated(f"the catalog refuses a commit to {self.name}: {error}")

    def _retry_proposal(self, commit: StagedCommit, body: Node, error: Exception) -> RatifiedCommits:
        """The outcome of a proposal whose answer was lost. It is sent again: the catalog ratifies the same one once.

        Raises `VersionConflict`, and `CommitStateUnknown`.
        """

        def retry_update() -> RatifiedCommits:
            try:
                return self._send_update(body, _ONCE)
            except UnityRefusal as refusal:
                if (made := self._find_commit(commit)) is not None:
                    return made
                raise StorageError(str(refusal)) from refusal  # an earlier request may be on its way

        name = f"{self.name} (version {commit.version})"
        return outcome_of(name, error, retry_update, (CommitConflict, VersionConflict), _LOST)

    def _find_commit(self, commit: StagedCommit) -> RatifiedCommits | None:
        """What the catalog has, if this commit is among it; None if the version has none.

        Raises `VersionConflict`, and what `ratified` raises.
        """
        ratified = self.ratified_commits()
        name = {each.version: each.name for each in ratified.commits}.get(commit.version)
        if name == commit.name:
            return ratified
        if name is not None:
            raise VersionConflict(certain=True)
        if ratified.latest >= commit.version:
            raise VersionConflict(certain=False)  # published, and forgotten by the catalog: its text tells whose it is
        return None

    def _parse_commits(self, answer: UnityResponse) -> RatifiedCommits:
        """What is ratified, by the catalog's description of the table."""
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
                f"the catalog says that {self.name} has version {latest}, and names the commits "
                f"{versions[0]} to {versions[-1]}: some are missing. Ask its operator."
            )
        return RatifiedCommits(latest, tuple(commits))

    def _parse_commit(self, node: UnityResponse) -> StagedCommit:
        if (name := node.text("file-name")) is None:
            raise UnsupportedFeature(f"commits that the catalog has inline, as of {self.name}", "It names no file.")
        numbers = [node.number(each) for each in ("version", "file-size", "timestamp", "file-modification-timestamp")]
        known = [each for each in numbers if each is not None]
        match = _NAME.fullmatch(name)
        if match is None or len(known) < len(numbers) or int(match[1]) != known[0]:
            raise CorruptMetadata(
                f"{node.request} names a commit of {self.name} that is not one: {dict(node)}. {WHAT_TO_DO}"
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
