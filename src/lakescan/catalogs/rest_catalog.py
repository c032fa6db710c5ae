"""pyiceberg's REST catalog, whose server may set only what `lakescan.catalogs.properties` permits.

pyiceberg merges the answer to `GET v1/config`, the configuration of each table, and the table's own properties into the
user's, and imports the classes that they name. Here they are checked before pyiceberg acts on them. Secrets are sent
to no other host: the server cannot name another address of itself, and no redirection leads to one.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, partial
from threading import local
from typing import Any
from urllib.parse import parse_qsl, urljoin, urlsplit

from lakescan.catalogs.answers import unread_config
from lakescan.catalogs.properties import of_server, property_named, warn_of_metadata
from lakescan.catalogs.rest_session import TIMEOUT
from lakescan.errors import StorageError
from lakescan.storage.issued import is_of_storage, warn_ignored, with_server

_PAGE = "pageToken"
_URI, _TOKENS = "uri", "oauth2-server-uri"


@cache
def rest_catalog_class() -> Any:
    """Return the class of the catalog. The first call imports pyiceberg."""
    from pyiceberg.catalog.rest import RestCatalog
    from pyiceberg.io import load_file_io

    class CheckedRestCatalog(RestCatalog):
        """A connection to a server that may set only what is permitted.

        `user_properties` are the user's, and `server_properties` those that the server's configuration sets.
        """

        properties: dict[str, Any]

        def _config_headers(self, session: Any) -> None:
            super()._config_headers(session)  # before the session gets its authentication, which asks for a token
            session.hooks["response"] += [_check_redirection, _pages_checker()]
            session.request = partial(_request_in_time, session.request)

        def _fetch_config(self) -> None:
            self.user_properties = dict(self.properties)
            super()._fetch_config()
            said = {
                name: value
                for name, value in self.properties.items()
                if name not in self.user_properties or self.user_properties[name] != value
            }
            self.uri = self.user_properties[_URI]
            self.server_properties = self._checked(said)
            self.uri = self.server_properties.get(_URI, self.uri)
            own = {name: value for name, value in self.user_properties.items() if name.startswith("client.")}
            # The user's AWS keys sign requests to the server, whatever keys it issues for a store.
            self.properties = {**self._with_storage(self.server_properties), **own}

        @property
        def _server(self) -> str:
            return f"the server of catalog {self.name!r}"

        def _checked(self, said: dict[str, Any]) -> dict[str, str]:
            """Return the properties of an answer that the server may set.

            Raises `StorageError` if it names a token server on another host that would get the user's credential, and
            `CorruptMetadata` for a value that is not text.
            """
            for name, value in said.items():
                known = property_named(name)
                is_used = name in (_URI, _TOKENS) or (known is not None and known.of_server)
                if is_used and not isinstance(value, str):
                    raise unread_config(self.name, f"{name} is no text: {str(value)[:60]}")
            addresses = {name: str(said.pop(name)) for name in (_URI, _TOKENS) if name in said}
            if _TOKENS in addresses and _TOKENS in self.user_properties:
                warn_ignored([_TOKENS], self._server, "you have set it")
                del addresses[_TOKENS]
            elif _TOKENS in addresses and ("auth" in self.user_properties or "credential" not in self.user_properties):
                del addresses[_TOKENS]  # nothing would be sent there
            for name, value in list(addresses.items()):
                value = addresses[name] = urljoin(f"{self.uri.rstrip('/')}/", value)
                if name == _URI and origin(value) != origin(self.uri):
                    warn_ignored([name], self._server, "you have set another one")
                    del addresses[name]
                elif origin(value) is None or origin(value) != origin(self.uri):
                    raise StorageError(
                        f"{self._server} ({shown(self.uri)}) wants requests at {shown(value)}, by its {name!r}: your "
                        f"credentials would be sent there. If that is right, set {name!r} as a property of the catalog."
                    )
            return {**of_server(said, self._server), **addresses}

        def _with_storage(self, said: Mapping[str, str]) -> dict[str, Any]:
            """Return the properties of the user and the server, with those of storage merged by `with_server`."""
            merged = {**self.user_properties, **said}
            storage = with_server(self.user_properties, said, self._server)
            return {name: value for name, value in merged.items() if not is_of_storage(name)} | storage

        def _load_file_io(self, properties: Mapping[str, str] = {}, location: str | None = None) -> Any:
            return load_file_io(self._with_storage({**self.server_properties, **properties}), location)

        def _response_to_table(self, identifier_tuple: Any, table_response: Any) -> Any:
            found = super()._response_to_table(identifier_tuple, self._permitted(identifier_tuple, table_response))
            found.metadata = table_response.metadata
            return found

        def _response_to_staged_table(self, identifier_tuple: Any, table_response: Any) -> Any:
            permitted = self._permitted(identifier_tuple, table_response)
            found = super()._response_to_staged_table(identifier_tuple, permitted)
            found.metadata = table_response.metadata
            return found

        def _permitted(self, name: tuple[str, ...], response: Any) -> Any:
            """Return an answer with the properties that the server may set, and none of the table's metadata."""
            warn_of_metadata(response.metadata.properties, ".".join((self.name, *name)))
            changes = {
                "metadata": response.metadata.model_copy(update={"properties": {}}),
                "config": of_server(response.config, self._server),
            }
            if hasattr(response, "storage_credentials"):
                changes["storage_credentials"] = [
                    each.model_copy(update={"config": of_server(each.config, self._server)})
                    for each in response.storage_credentials
                ]
            return response.model_copy(update=changes)

    return CheckedRestCatalog


def origin(url: str) -> tuple[str, str | None, int | None] | None:
    """Return the scheme, host and port of an address; None if it has no host, such as a path.

    Also None if its host is ambiguous: HTTP clients do not agree about backslashes and escapes in it.
    """
    authority = url.partition("://")[2].partition("/")[0]
    if not url.isascii() or not url.isprintable() or any(letter in authority for letter in "\\ %?#"):
        return None
    try:
        parts = urlsplit(url)
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme.lower())
    except ValueError:
        return None
    return (parts.scheme.lower(), parts.hostname, port) if parts.hostname else None


def shown(url: str) -> str:
    """Return an address for a message, without its user's name, path and query."""
    found = origin(url)
    return "an address that is none" if found is None else f"{found[0]}://{found[1]}:{found[2]}"


def _request_in_time(request: Any, method: str, url: str, **arguments: Any) -> Any:
    """Send a request that fails if no answer comes for a minute; pyiceberg's would wait for ever."""
    if arguments.get("timeout") is None:
        arguments["timeout"] = TIMEOUT
    return request(method, url, **arguments)


def _pages_checker() -> Any:
    """Make a check of answers that raises `StorageError` if a page is requested twice: the list would not end."""
    asked = local()

    def check(response: Any, *_: Any, **__: Any) -> None:
        parts = urlsplit(response.request.url)
        token = dict(parse_qsl(parts.query)).get(_PAGE)
        if response.request.method != "GET" or response.status_code != 200:
            return
        if not token:
            asked.tokens = set()
            return
        tokens: set[str] = getattr(asked, "tokens", set())
        if token in tokens:
            raise StorageError(f"the server {shown(response.request.url)} repeats a page of GET {parts.path}")
        asked.tokens = {*tokens, token}

    return check


def _check_redirection(response: Any, *_: Any, **__: Any) -> None:
    """Raise `StorageError` for a redirection to another host, which would get headers and bodies with secrets."""
    if not response.is_redirect:
        return
    here, there = response.request.url, urljoin(response.request.url, response.headers["location"])
    if origin(there) is None or origin(there) != origin(here):
        raise StorageError(
            f"{shown(here)} redirects {response.request.method} {urlsplit(here).path} to {shown(there)}: your "
            "credentials would be sent there. If that is right, set it as the catalog's 'uri'."
        )
