"""Commit to a catalog-managed table: stage a commit file, propose it, publish it (protocol, "Commit Protocol").

Each attempt at a version stages a file with a new name. A staged file that lost its version is deleted; one with an
unknown outcome stays.
"""

from __future__ import annotations

import json
import logging
import time
import uuid
from collections.abc import Mapping
from typing import Any

from lakescan.common.retries import Attempts, RetryPolicy
from lakescan.delta.commit.actions import CommitText, metadata_action, protocol_action
from lakescan.delta.commit.commit_file import ID, commit_file
from lakescan.delta.log.catalog_managed import (
    FEATURES,
    ManagedTable,
    MetadataChange,
    RatifiedCommits,
    StagedCommit,
    TooManyStaged,
    VersionConflict,
    find_managed_table,
    staged_file,
)
from lakescan.delta.log.log_text import LogText
from lakescan.delta.log.time_travel import commit_info
from lakescan.delta.metadata.protocol import Metadata, Protocol
from lakescan.errors import CommitConflict, LakescanError, StorageError, UnsupportedFeature
from lakescan.storage import Storage
from lakescan.storage.put_if_absent import NotCreated, publish

_LOG = logging.getLogger("lakescan")
_OF_CATALOG = "io.unitycatalog."
# Other writers may stage commits as fast as this one publishes them.
_FULL = RetryPolicy(attempts=10, first=0.1)


def commit_staged(
    table: ManagedTable, storage: Storage, version: int, text: CommitText, before: tuple[Protocol, Metadata]
) -> bool:
    """Commit as a version of the table, and publish ratified commits; return False if the version has a commit.

    That commit may be this one, if the catalog's response was lost; its `txnId` identifies it. `before` are the
    protocol and metadata that the commit was made for. Raises `StorageError` if the commit was provably not made, and
    `CommitStateUnknown` if the outcome cannot be determined.
    """
    data, name = text.encode(), f"{version:020d}.{uuid.uuid4()}.json"
    location = staged_file(table.location, name)
    try:
        publish(storage, location, data)
    except StorageError as error:
        raise NotCreated(str(error)) from error
    info = text.info
    staged = StagedCommit(version, name, len(data), info["inCommitTimestamp"], int(time.time() * 1000))
    try:
        ratified = _propose(table, storage, staged, _change_of(text, before))
    except NotCreated:
        storage.remove([location])
        raise
    except VersionConflict as error:
        if error.certain or _is_other_commit(storage, commit_file(table.location, version), info[ID]):
            storage.remove([location])
        return False
    _publish_or_log(table, storage, ratified, {name: data})
    return True


def _is_other_commit(storage: Storage, file: str, own_id: str) -> bool:
    """Return whether the commit in `file` is provably not the one with the id `own_id`; False if it cannot be read."""
    try:
        return commit_info(LogText(file, storage.read(file))).get(ID) != own_id
    except (LakescanError, OSError):
        return False


def _propose(table: ManagedTable, storage: Storage, staged: StagedCommit, change: MetadataChange) -> RatifiedCommits:
    attempts = Attempts(_FULL)
    while True:
        try:
            return table.propose(staged, change)
        except TooManyStaged as error:
            full: Exception = error
        try:
            publish_ratified(table, storage, table.ratified_commits())
        except StorageError as error:
            raise NotCreated(f"{table.name}: earlier commits must be published first, which failed: {error}") from full
        if not attempts.wait():
            raise NotCreated(
                f"the catalog accepts no commit to {table.name} until earlier ones are published"
            ) from full


def _publish_or_log(table: ManagedTable, storage: Storage, ratified: RatifiedCommits, own: Mapping[str, bytes]) -> None:
    """Publish ratified commits; on failure only log a warning, since readers and writers get them from the catalog.

    `own` maps the names of staged files to their content, as for `publish_ratified`.
    """
    try:
        publish_ratified(table, storage, ratified, own)
    except (LakescanError, OSError) as error:
        _LOG.warning("%s: commits up to version %d are not published yet: %s", table.name, ratified.latest, error)


def publish_ratified(
    table: ManagedTable, storage: Storage, ratified: RatifiedCommits, contents: Mapping[str, bytes] | None = None
) -> None:
    """Copy all ratified commits to the log, oldest first, and report the publication to the catalog.

    `contents` maps the names of staged files to their content, if already known. Raises `StorageError`.
    """
    if not ratified.commits:
        return
    targets = [commit_file(table.location, each.version) for each in ratified.commits]
    for each, target, there in zip(ratified.commits, targets, storage.look_up(targets), strict=True):
        if there is None:
            known = (contents or {}).get(each.name)
            data = storage.read(staged_file(table.location, each.name), size=each.size) if known is None else known
            publish(storage, target, data)
    table.report_publication(ratified.commits[-1].version)


def ensure_published(location: str, version: int, storage: Storage) -> None:
    """Publish the ratified commits of a catalog-managed table if one up to `version` is unpublished.

    Raises `StorageError`.
    """
    table = find_managed_table(location, storage)
    if table is None:
        return
    ratified = table.ratified_commits()
    if any(each.version <= version for each in ratified.commits):
        publish_ratified(table, storage, ratified)


def check_managed_change(
    location: str, storage: Storage, before: tuple[Protocol, Metadata], after: tuple[Protocol, Metadata]
) -> None:
    """Raise `UnsupportedFeature` for a change of protocol or metadata that the catalog must make, or forbids.

    `before` and `after` are the protocol and metadata before and after the commit. Raises `CommitConflict` if the table
    was opened as catalog-managed and its current version no longer is.
    """
    was, will = (bool(each[0].features & set(FEATURES)) for each in (before, after))
    if find_managed_table(location, storage) is None:
        if will:
            raise UnsupportedFeature(
                f"the feature {FEATURES[0]!r} for {location}",
                "Only the catalog can make such a table: see Catalog.create_table of a catalog of type unity.",
            )
        return
    if not was:
        raise CommitConflict(f"{location} is no longer managed by its catalog: open it again")
    kept = {name: value for name, value in before[1].configuration.items() if name.startswith(_OF_CATALOG)}
    if not will or not after[1].properties.in_commit_timestamps or kept.items() - after[1].configuration.items():
        raise UnsupportedFeature(
            f"a change of {location} after which its catalog could no longer ratify its commits",
            f"Keep the feature {FEATURES[0]!r}, in-commit timestamps, and the properties {_OF_CATALOG}*.",
        )


def check_not_managed(protocol: Protocol, doing: str, location: str) -> None:
    """Raise `UnsupportedFeature` for a catalog-managed table; `doing` names the operation in the message."""
    for name in sorted(protocol.features & set(FEATURES)):
        raise UnsupportedFeature(
            f"{doing} Delta tables with the feature {name!r}",
            f"{location} has it: its catalog does not allow that.",
        )


def _change_of(text: CommitText, before: tuple[Protocol, Metadata]) -> MetadataChange:
    domains = {name: None if value is None else json.loads(value) for name, value in text.domains.items()}
    return MetadataChange(
        metadata_action(before[1]),
        _new_metadata(metadata_action(before[1]), text.metadata),
        None if text.protocol is None or text.protocol == before[0] else protocol_action(text.protocol),
        domains or None,
    )


def _new_metadata(before: Mapping[str, Any], metadata: Metadata | None) -> Mapping[str, Any] | None:
    after = None if metadata is None else metadata_action(metadata)
    return None if after == before else after
