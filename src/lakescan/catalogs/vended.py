"""Credentials that a REST catalog hands out for a table's files, and renews (`loadCredentials`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from lakescan.catalogs.properties import filter_server_properties
from lakescan.catalogs.registry import CatalogConfiguration, configuration_of, connection_with
from lakescan.catalogs.remote_signing import signer_of
from lakescan.catalogs.rest_session import (
    CREDENTIALS,
    RestSession,
    file_access,
    is_rest,
    message_of,
    response_object,
)
from lakescan.errors import CorruptMetadata, StorageError
from lakescan.storage.credentials import Credential, Credentials, is_signed_remotely
from lakescan.storage.issued import merge_server_properties, storage_properties


@dataclass(frozen=True)
class CatalogCredentials:
    """Asks a catalog for new credentials of a table, in any process."""

    catalog: str
    table: tuple[str, ...]
    configuration: CatalogConfiguration
    plan_id: str | None = None
    of_table: Mapping[str, str] = field(default_factory=dict, repr=False)  # settings that came with the table

    def fetch(self) -> Sequence[Credential]:
        """The credentials that the catalog has now; raises `StorageError`."""
        from requests import RequestException

        real = connection_with(self.catalog, self.configuration)
        session = RestSession(real)
        path = f"{session.table_path(self.table)}/credentials"
        query = {} if self.plan_id is None else {"planId": self.plan_id}
        try:
            response = session.get(path, lambda: real.load_table(self.table), query)
        except RequestException as error:
            raise StorageError(f"catalog {self.catalog!r} does not answer for credentials: {error}") from error
        if response.status_code != 200:
            raise StorageError(
                f"catalog {self.catalog!r} gives no new credentials for {'.'.join(self.table)}: {message_of(response)}"
            )
        what = f"the answer of catalog {self.catalog!r} for credentials of {'.'.join(self.table)}"
        try:
            return credentials_in(response_object(response), what, {**server_settings(real), **self.of_table})
        except CorruptMetadata as error:  # those that are there may be good for a while
            raise StorageError(str(error)) from error


def credentials_in(answer: Mapping[str, Any], what: str, settings: Mapping[str, str]) -> tuple[Credential, ...]:
    """The storage credentials in an answer of a server, which `what` names in errors; raises `CorruptMetadata`.

    `settings` are other storage settings of the server: its hosts go with its credentials.
    """
    given = answer.get("storage-credentials") or ()
    if not isinstance(given, Sequence) or not all(map(_is_credential, given)):  # the value may hold secrets
        raise CorruptMetadata(
            f"{what}: its storage-credentials are no list of objects, each with a text 'prefix' and texts in 'config'"
        )
    issued = ((each["prefix"], filter_server_properties(each["config"], what, each["prefix"])) for each in given)
    return tuple(Credential(prefix, merge_server_properties(settings, config, what)) for prefix, config in issued)


def _is_credential(given: Any) -> bool:
    if not isinstance(given, Mapping) or not isinstance(given.get("prefix"), str):
        return False
    config = given.get("config")
    return isinstance(config, Mapping) and all(isinstance(each, str) for each in config.values())


def credentials_for(catalog: Any, table: Any) -> Credentials | None:
    """What a catalog has issued with a table (pyiceberg's); None if there is nothing.

    Credentials are those by prefix or, without these, what is configured with an expiry. Where these say so, and have
    no keys, the catalog signs requests.
    """
    if not is_rest(catalog):
        return None
    name, said = table.name(), storage_properties(table.io.properties)
    of_table = storage_properties(getattr(table, "config", None) or {})
    by_prefix = credentials_in(
        file_access(catalog, name),
        f"what catalog {catalog.name!r} says of {'.'.join(name)}",
        {**server_settings(catalog), **of_table},
    )
    whole = Credential("", said)
    if any(is_signed_remotely({**said, **each.properties}) for each in (whole, *by_prefix)):
        rest = (whole,) if is_signed_remotely(said) else ()
        return Credentials((*by_prefix, *rest), source_for(catalog, name, of_table=of_table), signer_of(catalog, table))
    if by_prefix:
        return Credentials(by_prefix, source_for(catalog, name, of_table=of_table))
    return None if whole.expires_at is None else Credentials([whole], source_for(catalog, name, of_table=of_table))


def server_settings(catalog: Any) -> dict[str, str]:
    """The storage properties that the server of a REST catalog sets for all tables."""
    return storage_properties(getattr(catalog, "server_properties", {}))


def source_for(
    catalog: Any, name: tuple[str, ...], plan_id: str | None = None, of_table: Mapping[str, str] = MappingProxyType({})
) -> CatalogCredentials | None:
    """Who renews the credentials of a table; None if the catalog's server does not."""
    if not RestSession(catalog).has(CREDENTIALS):
        return None
    return CatalogCredentials(catalog.name, tuple(name), configuration_of(catalog.name), plan_id, dict(of_table))
