"""Creation of a Delta table in a Unity Catalog: stage it on the server, write version 0, then register it.

The table is invisible until it is registered. A table with a given location is external, others are managed.
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

_NO_API = (404, 405, 501)  # statuses of a server without the endpoint


@dataclass
class StagedTable(ManagedUnityTable):
    """A managed table that is not registered yet, and the server's requirements for it.

    `required` has the members `protocol` (features) and `properties`.
    """

    required: Mapping[str, Any] = field(default_factory=dict)

    def ratified_commits(self) -> RatifiedCommits:
        """Return version 0 as the latest version, without ratified commits: it is written directly to the log."""
        return RatifiedCommits(0)

    def _ask(self) -> IssuedCredentials:
        try:
            answer = self.client.get(f"/delta/v1{quoted_path('staging-tables', self.uuid, 'credentials')}")
        except UnityRefusal as error:
            raise StorageError(f"the catalog issues no credentials for the new table {self.name}: {error}") from error
        return parse_credentials(answer, self.location)


@dataclass
class ExternalPlace(UnityTable):
    """The location of an external table that is not registered yet, without requirements (`required` is empty)."""

    required: Mapping[str, Any] = field(default_factory=dict)

    def _ask(self) -> IssuedCredentials:
        query = {"location": self.location, "operation": "READ_WRITE"}
        try:
            answer = self.client.get("/delta/v1/temporary-path-credentials", query)
        except UnityRefusal as error:
            raise StorageError(f"the catalog issues no credentials for {self.location}: {error}") from error
        return parse_credentials(answer, self.location)


def place(catalog: UnityCatalog, identifier: Identifier, location: str | None) -> StagedTable | ExternalPlace:
    """Return the place of a new table: an `ExternalPlace` at `location` or, if it is None, a `StagedTable`.

    A staged table is managed, and the server assigns its location. Raises `NoSuchNamespace`, `CreatedConcurrently`,
    `TableExists`, `StorageError`, `CorruptMetadata`, and `UnsupportedFeature` for a server without the API of Delta
    tables.
    """
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
            f"catalog {catalog.name!r} returned no location or no id for the new table {identifier}, in the answer to "
            f"{answer.request}. Ask its operator."
        )
    required = _requirements(answer)
    where = folder.rstrip("/")
    return StagedTable(catalog.client, identifier, names, uuid, where, writes=True, required=required)


def _requirements(answer: UnityResponse) -> dict[str, Any]:
    """Return the `protocol` (features) and the `properties` that a new table must have.

    The value of a property that may have any value is None.
    """
    protocol, properties = answer.node("required-protocol"), answer.node("required-properties")
    features = {name: protocol.names(name) for name in ("reader-features", "writer-features")}
    values = answer.texts("required-properties")
    return {"protocol": features, "properties": {name: values.get(name) for name in properties}}


@contextmanager
def registration(catalog: UnityCatalog, identifier: Identifier, storage: Storage) -> Iterator[None]:
    """Context manager: register a table after the body, which writes version 0 to `storage`.

    Raises `CreatedConcurrently` if the name is taken, `StorageError` if the server refuses the table, and
    `CommitStateUnknown` if it does not respond.
    """
    yield
    table = storage.vended
    assert isinstance(table, StagedTable | ExternalPlace)
    catalog_, schema, _ = table.names
    path = f"/delta/v1{quoted_path('catalogs', catalog_, 'schemas', schema, 'tables')}"
    body = _body(table, storage)

    def send() -> bool:
        """Send the request once. Return True if the table was registered.

        Raises `UnityRefusal` if the server refused it, and `StorageError` if the outcome is unclear.
        """
        try:
            catalog.client.send("POST", path, body)
        except UnityRefusal as error:
            if not error.kind and error.status not in _NO_API:  # from a proxy or gateway
                raise StorageError(str(error)) from error
            if _named_table(catalog, identifier) != _key(table):
                raise
        return True  # also if the request arrived twice, or its first response was lost

    def retry_send() -> bool:
        try:
            return send()
        except UnityRefusal as error:
            if error.status == 409 and _named_table(catalog, identifier) is not None:
                return False
            raise StorageError(str(error)) from error  # the first request may still arrive

    try:
        send()
    except UnityRefusal as error:
        raise _failure(catalog, identifier, error) from error
    except (CorruptMetadata, StorageError) as error:
        if not outcome_of(str(identifier), error, retry_send, policy=LOOKS):
            raise CreatedConcurrently(f"another writer created {identifier} at the same time") from error


def _named_table(catalog: UnityCatalog, identifier: Identifier) -> Hashable | None:
    """Return the key (see `_key`) of the table with this name, or the name itself for a table of another format.

    None if it does not exist. Raises `StorageError`, `CorruptMetadata`.
    """
    from pyiceberg.exceptions import NoSuchTableError

    try:
        return _key(catalog.find(identifier))
    except NoSuchTableError:
        return None
    except UnsupportedFeature:  # a table of another format
        return str(identifier)


def _key(table: UnityTable) -> Hashable:
    """Return the identity of a table: its id or, for an external table, which gets its id later, its location."""
    return table.uuid if isinstance(table, ManagedUnityTable) else table.location


def _body(table: StagedTable | ExternalPlace, storage: Storage) -> dict[str, Any]:
    """Return the JSON of the request that registers a table, read from its version 0."""
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
        return TableExists(f"{identifier}: {error.message}. No table of this name is visible to you")
    if error.status in _NO_API:
        return UnsupportedFeature(f"creating {identifier} on a server without the API delta/v1", "Update the server.")
    return StorageError(f"the catalog refuses the new table {identifier}: {error}")


def _no_namespace(identifier: Identifier) -> NoSuchNamespace:
    return NoSuchNamespace(f"catalog {identifier.catalog!r} has no namespace {'.'.join(identifier.namespace)!r}")
