"""Create a Delta table in a Unity Catalog: the server gives it a place, version 0 is written there, then it is named.

Until it is named, nobody sees it. A table that is given a location is an external one; others are managed.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from lakescan.catalogs.unity.catalog import UnityCatalog
from lakescan.catalogs.unity.client import UnityRefusal, UnityResponse, quoted_path
from lakescan.catalogs.unity.credentials import IssuedCredentials, parse_credentials
from lakescan.catalogs.unity.table import ManagedUnityTable, UnityTable
from lakescan.catalogs.unity.updates import known_domains, protocol_node, schema_node
from lakescan.common.identifiers import Identifier
from lakescan.common.retries import LOOKS, outcome_of
from lakescan.delta.commit.actions import protocol_action
from lakescan.delta.log.catalog_managed import RatifiedCommits
from lakescan.delta.log.log_pieces import read_commits
from lakescan.delta.log.reader import LogReader
from lakescan.delta.log.segment import list_log
from lakescan.delta.log.time_travel import commit_info
from lakescan.errors import (
    CorruptMetadata,
    CreatedConcurrently,
    NoSuchNamespace,
    StorageError,
    TableExists,
    UnsupportedFeature,
)
from lakescan.storage import Storage

_NO_API = (404, 405, 501)  # statuses of a server that does not know the address


@dataclass
class StagedTable(ManagedUnityTable):
    """The place of a managed table that has no name yet, and what the server requires of it."""

    required: Mapping[str, Any] = field(default_factory=dict)

    def ratified_commits(self) -> RatifiedCommits:
        """Version 0, which is written to the log itself."""
        return RatifiedCommits(0)

    def _ask(self) -> IssuedCredentials:
        try:
            answer = self.client.get(f"/delta/v1{quoted_path('staging-tables', self.uuid, 'credentials')}")
        except UnityRefusal as error:
            raise StorageError(f"the catalog issues no credentials for the new table {self.name}: {error}") from error
        return parse_credentials(answer, self.location)


@dataclass
class ExternalPlace(UnityTable):
    """The location of an external table that has no name yet."""

    required: Mapping[str, Any] = field(default_factory=dict)

    def _ask(self) -> IssuedCredentials:
        query = {"location": self.location, "operation": "READ_WRITE"}
        try:
            answer = self.client.get("/delta/v1/temporary-path-credentials", query)
        except UnityRefusal as error:
            raise StorageError(f"the catalog issues no credentials for {self.location}: {error}") from error
        return parse_credentials(answer, self.location)


def place(catalog: UnityCatalog, identifier: Identifier, location: str | None) -> StagedTable | ExternalPlace:
    """Where a new table is to be; raises `NoSuchNamespace`, `CreatedConcurrently`, `StorageError`."""
    names = catalog.table_names(identifier.within)
    if location is not None:
        if not catalog.namespace_exists(identifier.namespace):
            raise _no_namespace(identifier)
        return ExternalPlace(catalog.client, identifier, names, f"new {location}", location, writes=True)
    path = f"/delta/v1{quoted_path('catalogs', names[0], 'schemas', names[1], 'staging-tables')}"
    try:
        answer = catalog.client.send("POST", path, {"name": names[2]})
    except UnityRefusal as error:
        raise _failure(catalog, identifier, error) from error
    uuid, folder = answer.text("table-id"), answer.text("location")
    if not uuid or not folder:
        raise CorruptMetadata(
            f"catalog {catalog.name!r} gives the new table {identifier} no location, or no id, in the answer to "
            f"{answer.request}. Ask its operator."
        )
    required = _requirements(answer)
    where = folder.rstrip("/")
    return StagedTable(catalog.client, identifier, names, uuid, where, writes=True, required=required)


def _requirements(answer: UnityResponse) -> dict[str, Any]:
    """The features and properties that a new table has to have; properties of any value are None."""
    protocol, properties = answer.node("required-protocol"), answer.node("required-properties")
    features = {name: protocol.names(name) for name in ("reader-features", "writer-features")}
    values = answer.texts("required-properties")
    return {"protocol": features, "properties": {name: values.get(name) for name in properties}}


@contextmanager
def registration(catalog: UnityCatalog, identifier: Identifier, storage: Storage) -> Iterator[None]:
    """Name a table once it is written, which is the body of the `with` block.

    Raises `CreatedConcurrently` if the name is taken, `StorageError` if the server refuses the table, and
    `CommitStateUnknown` if it does not answer.
    """
    yield
    table = storage.vended
    assert isinstance(table, StagedTable | ExternalPlace)
    catalog_, schema, _ = table.names
    path = f"/delta/v1{quoted_path('catalogs', catalog_, 'schemas', schema, 'tables')}"
    body = _body(table, storage)

    def send() -> bool:
        """Whether the table was made; raises `StorageError` if no answer tells."""
        try:
            catalog.client.send("POST", path, body)
        except UnityRefusal as error:
            if not error.kind and error.status not in _NO_API:  # of anything in between
                raise StorageError(str(error)) from error
            if _named_table(catalog, identifier) != _key(table):
                raise
        return True  # also if the request came twice, or its first answer was lost

    def retry_send() -> bool:
        try:
            return send()
        except UnityRefusal as error:
            if error.status == 409 and _named_table(catalog, identifier) is not None:
                return False
            raise StorageError(str(error)) from error  # the first request may be on its way

    try:
        send()
    except UnityRefusal as error:
        raise _failure(catalog, identifier, error) from error
    except (CorruptMetadata, StorageError) as error:
        if not outcome_of(str(identifier), error, retry_send, policy=LOOKS):
            raise CreatedConcurrently(f"another writer created {identifier} at the same time") from error


def _named_table(catalog: UnityCatalog, identifier: Identifier) -> Hashable | None:
    """The key of the table that has a name; None if there is none. Raises `StorageError`, `CorruptMetadata`."""
    from pyiceberg.exceptions import NoSuchTableError

    try:
        return _key(catalog.find(identifier))
    except NoSuchTableError:
        return None
    except UnsupportedFeature:  # a table of another kind
        return str(identifier)


def _key(table: UnityTable) -> Hashable:
    """What tells a table from others of the same name; an external one has no id before it has a name."""
    return table.uuid if isinstance(table, ManagedUnityTable) else table.location


def _body(table: StagedTable | ExternalPlace, storage: Storage) -> dict[str, Any]:
    """The request that names a table, by its version 0."""
    segment = list_log(table.location, storage).segment(0)
    reader = LogReader(table.location, storage)
    version = reader.version(segment)
    info = commit_info(read_commits(segment.commits, storage)[0])
    domains = {name: json.loads(each.text("configuration") or "{}") for name, each in reader.domains(segment).items()}
    body = {
        "name": table.names[2],
        "location": table.location,
        "table-type": "MANAGED" if isinstance(table, StagedTable) else "EXTERNAL",
        "comment": version.metadata.description,
        "columns": schema_node(version.metadata.schema_string),
        "partition-columns": list(version.metadata.partition_columns),
        "protocol": protocol_node(protocol_action(version.protocol)),
        "properties": dict(version.metadata.configuration),
        "domain-metadata": known_domains(domains) or None,
        "last-commit-timestamp-ms": info.get("inCommitTimestamp", info.get("timestamp")),
    }
    return {name: value for name, value in body.items() if value is not None}


def _failure(catalog: UnityCatalog, identifier: Identifier, error: UnityRefusal) -> Exception:
    if error.status == 404 and error.kind in ("NoSuchSchemaException", "NoSuchCatalogException"):
        return _no_namespace(identifier)
    if error.status == 409:
        if _named_table(catalog, identifier) is not None:
            return CreatedConcurrently(f"{identifier}: {error.message}")
        return TableExists(f"{identifier}: {error.message}. There is no table of this name that you may see")
    if error.status in _NO_API:
        return UnsupportedFeature(f"creating {identifier} on a server without the API delta/v1", "Update the server.")
    return StorageError(f"the catalog refuses the new table {identifier}: {error}")


def _no_namespace(identifier: Identifier) -> NoSuchNamespace:
    return NoSuchNamespace(f"catalog {identifier.catalog!r} has no namespace {'.'.join(identifier.namespace)!r}")
