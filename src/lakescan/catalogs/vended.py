"""Credentials that a REST catalog hands out for a table's files, and renews (`loadCredentials`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lakescan.catalogs.answers import object_in
from lakescan.catalogs.registry import connection_with
from lakescan.catalogs.rest_session import CREDENTIALS, RestSession, credentials_of_table, is_rest, message_of
from lakescan.catalogs.storage_properties import of_storage
from lakescan.errors import CorruptMetadata, StorageError
from lakescan.storage.credentials import Credential, Credentials


@dataclass(frozen=True)
class CatalogCredentials:
    """Asks a catalog for new credentials of a table, in any process: the properties are those of its connection."""

    catalog: str
    table: tuple[str, ...]
    properties: Mapping[str, Any] = field(repr=False)
    plan_id: str | None = None

    def fetch(self) -> Sequence[Credential]:
        """The credentials that the catalog has now; raises `StorageError`."""
        from requests import RequestException

        real = connection_with(self.catalog, self.properties)
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
        return credentials_in(object_in(response, f"what catalog {self.catalog!r} answers for credentials"))


def credentials_in(answer: Mapping[str, Any]) -> tuple[Credential, ...]:
    """The storage credentials in an answer of a server; raises `CorruptMetadata`, which shows no value, for others."""
    given = answer.get("storage-credentials") or ()
    try:
        return tuple(Credential(str(each["prefix"]), of_storage(each["config"])) for each in given)
    except (KeyError, TypeError, AttributeError) as error:
        raise CorruptMetadata(
            f"the catalog's storage-credentials are not a list of prefix and config: {type(error).__name__}"
        ) from None


def credentials_for(catalog: Any, table: Any) -> Credentials | None:
    """The credentials that a catalog has handed out with a table (pyiceberg's); None if there are none.

    They are those by prefix or, without these, what is configured with an expiry.
    """
    if not is_rest(catalog):
        return None
    name = table.name()
    if by_prefix := credentials_in({"storage-credentials": credentials_of_table(catalog, name)}):
        return Credentials(by_prefix, source_for(catalog, name))
    whole = Credential("", of_storage({**catalog.properties, **table.io.properties}))
    return None if whole.expires_at is None else Credentials([whole], source_for(catalog, name))


def source_for(catalog: Any, name: tuple[str, ...], plan_id: str | None = None) -> CatalogCredentials | None:
    """Who renews the credentials of a table; None if the catalog's server does not."""
    if not RestSession(catalog).has(CREDENTIALS):
        return None
    return CatalogCredentials(catalog.name, tuple(name), plain_properties(catalog), plan_id)


def plain_properties(catalog: Any) -> dict[str, Any]:
    """The properties of a connection by which another process connects: texts, and the settings of `auth` and `ssl`."""
    return {name: value for name, value in catalog.properties.items() if isinstance(value, str | dict)}
