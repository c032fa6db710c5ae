"""Credentials and signatures that a REST catalog issues for a table's files, and their renewal (`loadCredentials`)."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from types import MappingProxyType
from typing import Any

from lakescan.catalogs.properties import filter_server_properties
from lakescan.catalogs.registry import CatalogConfiguration, configuration_of, connection_with, user_property
from lakescan.catalogs.rest_catalog import origin, safe_address
from lakescan.catalogs.rest_session import (
    CREDENTIALS,
    SIGN,
    RestSession,
    file_access,
    is_rest,
    message_of,
    response_object,
    wait_for_retry,
)
from lakescan.common.retries import Attempts, RetryPolicy
from lakescan.errors import CorruptMetadata, LocationRefused, StorageError
from lakescan.storage.remote_signing import S3Request, Signature
from lakescan.storage.settings.catalog_properties import (
    is_signed_remotely,
    merge_server_properties,
    storage_properties,
)
from lakescan.storage.vended_credentials import Credential, Credentials


@dataclass(frozen=True)
class CatalogCredentials:
    """Requests new credentials of a table from its REST catalog. Can be pickled for other processes.

    `plan_id` is the id of the server's scan plan that the credentials are for, or None. `of_table` are the storage
    settings in the table's configuration.
    """

    catalog: str
    table: tuple[str, ...]
    configuration: CatalogConfiguration
    plan_id: str | None = None
    of_table: Mapping[str, str] = field(default_factory=dict, repr=False)  # settings in the table's configuration

    def fetch(self) -> Sequence[Credential]:
        """Return the credentials that the catalog issues now; raises `StorageError`."""
        from requests import RequestException

        real = connection_with(self.catalog, self.configuration)
        session = RestSession(real)
        path = f"{session.table_path(self.table)}/credentials"
        query = {} if self.plan_id is None else {"planId": self.plan_id}
        try:
            response = session.get(path, lambda: real.load_table(self.table), query)
        except RequestException as error:
            raise StorageError(
                f"catalog {self.catalog!r} failed to respond to a request for credentials: {error}"
            ) from error
        if response.status_code != 200:
            raise StorageError(
                f"catalog {self.catalog!r} issues no credentials for {'.'.join(self.table)}: {message_of(response)}"
            )
        what = f"the answer of catalog {self.catalog!r} for credentials of {'.'.join(self.table)}"
        try:
            return credentials_in(response_object(response), what, {**server_settings(real), **self.of_table})
        except CorruptMetadata as error:  # the known credentials may still be valid
            raise StorageError(str(error)) from error


def credentials_in(answer: Mapping[str, Any], what: str, settings: Mapping[str, str]) -> tuple[Credential, ...]:
    """Parse the storage credentials in a server's response, in `storage-credentials`; empty if it is missing.

    `what` names the response in errors. `settings` are the server's other storage settings: its hosts are used together
    with its credentials. Raises `CorruptMetadata`.
    """
    given = answer.get("storage-credentials") or ()
    if not isinstance(given, Sequence) or not all(map(_is_credential, given)):  # the value may hold secrets
        raise CorruptMetadata(
            f"{what}: its storage-credentials are not a list of objects with a string 'prefix' and strings in 'config'"
        )
    issued = ((each["prefix"], filter_server_properties(each["config"], what, each["prefix"])) for each in given)
    return tuple(Credential(prefix, merge_server_properties(settings, config, what)) for prefix, config in issued)


def _is_credential(given: Any) -> bool:
    if not isinstance(given, Mapping) or not isinstance(given.get("prefix"), str):
        return False
    config = given.get("config")
    return isinstance(config, Mapping) and all(isinstance(each, str) for each in config.values())


def credentials_for(catalog: Any, table: Any) -> Credentials | None:
    """Return the credentials that a catalog vends for pyiceberg's `table`; None if it vends no credentials.

    These are the credentials by location prefix or, without them, properties of the table with an expiry. Where they
    enable remote signing and have no keys, the catalog signs requests. Raises `CorruptMetadata` and `LocationRefused`.
    """
    if not is_rest(catalog):
        return None
    name, said = table.name(), storage_properties(table.io.properties)
    of_table = storage_properties(getattr(table, "config", None) or {})
    by_prefix = credentials_in(
        file_access(catalog, name),
        f"the response of catalog {catalog.name!r} for {'.'.join(name)}",
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
    """Return the storage properties that the server of a REST catalog sets for all tables; empty for others."""
    return storage_properties(getattr(catalog, "server_properties", {}))


def source_for(
    catalog: Any, name: tuple[str, ...], plan_id: str | None = None, of_table: Mapping[str, str] = MappingProxyType({})
) -> CatalogCredentials | None:
    """Return the object that renews the credentials of a table; None if the server lacks the endpoint for it.

    `plan_id` and `of_table` are fields of `CatalogCredentials`.
    """
    if not RestSession(catalog).has(CREDENTIALS):
        return None
    return CatalogCredentials(catalog.name, tuple(name), configuration_of(catalog.name), plan_id, dict(of_table))


# Newer servers sign at `.../tables/{table}/sign`, others at `v1/aws/s3/sign` or at an address in their configuration.

_URI, _ENDPOINT = ("signer.uri", "s3.signer.uri"), ("signer.endpoint", "s3.signer.endpoint")
_OLD_PATH = "v1/aws/s3/sign"
_POLICY = RetryPolicy(attempts=5, first=0.2, ceiling=5)
_BUSY = (429, 500, 502, 503, 504)


@dataclass(frozen=True)
class CatalogSigner:
    """Requests signatures from a REST catalog, at `url`. Can be pickled for other processes.

    `more` (properties) and `headers` are added to each request, as the catalog's `remote-signing-config` demands.
    """

    catalog: str
    table: tuple[str, ...]
    url: str
    configuration: CatalogConfiguration
    more: Mapping[str, str] = field(default_factory=dict, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def identity(self) -> Hashable:
        """A key for caches: the signing URL, the table, and a digest of the catalog's configuration."""
        said = repr(sorted((name, str(value)) for name, value in self.configuration.properties.items()))
        return self.url, self.table, sha256(said.encode()).hexdigest()

    def sign(self, region: str, request: S3Request) -> Signature:
        """Return the signature of an S3 request for a bucket in `region`; raises `StorageError`."""
        body: dict[str, Any] = {
            "region": region,
            "uri": request.uri,
            "method": request.method,
            "headers": {name: [value] for name, value in request.headers.items()},
        }
        body |= {"properties": dict(self.more)} if self.more else {}
        body |= {"body": request.body} if request.body is not None else {}
        what = f"{request.method} {request.place} for {'.'.join(self.table)}"
        response = self._request_signature(body, what)
        if response.status_code != 200:
            raise StorageError(
                f"catalog {self.catalog!r} does not sign {what}: {message_of(response)} (status "
                f"{response.status_code} of POST {self.url}). Ask for the permission, or configure the catalog to vend "
                "credentials."
            )
        try:
            answer = response_object(response)
        except CorruptMetadata as error:  # the table's metadata is not at fault
            raise StorageError(str(error)) from error
        uri, headers = answer.get("uri"), _headers_in(answer.get("headers"))
        if not isinstance(uri, str) or headers is None:
            raise StorageError(f"catalog {self.catalog!r} returned no signature for {what}")
        said = {each.strip().lower() for each in response.headers.get("Cache-Control", "").split(",")}
        return Signature(uri, headers, "private" in said and said.isdisjoint({"no-cache", "no-store"}))

    def _request_signature(self, body: Mapping[str, Any], what: str) -> Any:
        """Post `body`, and return the server's response of any status. `what` names the signed request in errors.

        Retried after connection errors, timeouts and statuses such as 503, since signing changes nothing. Raises
        `StorageError` without a response.
        """
        from requests import ConnectionError, RequestException, Timeout

        real = connection_with(self.catalog, self.configuration)
        session, attempts = RestSession(real), Attempts(_POLICY)
        while True:
            try:
                response = session.post_to(self.url, body, self.headers, lambda: real.load_table(self.table))
            except (ConnectionError, Timeout) as error:
                if not attempts.wait():
                    raise self._no_answer_error(what, error) from error
                continue
            except RequestException as error:
                raise self._no_answer_error(what, error) from error
            if response.status_code not in _BUSY or not wait_for_retry(response.headers.get("Retry-After"), attempts):
                return response

    def _no_answer_error(self, what: str, error: Exception) -> StorageError:
        return StorageError(f"catalog {self.catalog!r} failed to respond to a request to sign {what}: {error}")


def signer_of(catalog: Any, table: Any) -> CatalogSigner:
    """Return the signer for a table (pyiceberg's) of a REST catalog.

    Raises `LocationRefused` if the signing URL is on another server than the catalog, unless the user configures it:
    that server would get the catalog's token.
    """
    name = tuple(table.name())
    url = _url(catalog, name, table.io.properties)
    uri = str(catalog.properties["uri"])
    trusted = [uri, *(given for each in (*_URI, *_ENDPOINT) if (given := user_property(catalog.name, each)))]
    if origin(url) is None or origin(url) not in map(origin, trusted):
        raise LocationRefused(
            f"catalog {catalog.name!r} ({safe_address(uri)}) names {safe_address(url)} as the signer of requests for "
            f"{'.'.join(name)}: "
            "another server would get the catalog's token. If you trust it, set the catalog's property "
            f"'{_URI[1]}' to its address."
        )
    config = file_access(catalog, name).get("remote-signing-config")
    config = config if isinstance(config, dict) else {}
    wanted = config.get("properties")
    more = {key: value for key, value in wanted.items() if isinstance(value, str)} if isinstance(wanted, dict) else {}
    headers = _headers_in(config.get("headers")) or {}
    return CatalogSigner(catalog.name, name, url, configuration_of(catalog.name), more, headers)


def _url(catalog: Any, name: tuple[str, ...], properties: Mapping[str, str]) -> str:
    """Return the URL for signing requests to a table, from the table's `properties` or the server's endpoints."""
    endpoint = next((found for each in _ENDPOINT if (found := properties.get(each))), None)
    base = next((found for each in _URI if (found := properties.get(each))), None)
    session = RestSession(catalog)
    if endpoint is None and base is None and session.has(SIGN):
        return str(catalog.url("{path}", path=f"{session.table_path(name)}/sign"))
    endpoint = endpoint or _OLD_PATH
    if endpoint.lower().startswith(("http://", "https://")):
        return endpoint
    return f"{(base or str(catalog.properties['uri'])).rstrip('/')}/{endpoint.lstrip('/')}"


def _headers_in(given: Any) -> dict[str, str] | None:
    """Parse headers whose values are strings or lists of strings, which are joined; None if they have another form."""
    if not isinstance(given, dict):
        return None
    lists = {name: [value] if isinstance(value, str) else value for name, value in given.items()}
    if not all(isinstance(each, list) and all(isinstance(one, str) for one in each) for each in lists.values()):
        return None
    return {name: ", ".join(each) for name, each in lists.items()}
