"""pyiceberg's REST catalog, restricted to the server properties that `lakescan.catalogs.properties` permits.

pyiceberg merges the response to `GET v1/config`, the configuration of each table, and the table's own properties into
the user's, and imports the classes that they name. Here they are checked before pyiceberg uses them. Secrets are sent
to no other host: neither the server's configuration nor a redirection can change the host.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Set
from contextlib import suppress
from functools import cache, partial
from threading import local
from typing import Any
from urllib.parse import parse_qsl, urljoin, urlsplit

from lakescan import limits
from lakescan.catalogs.properties import filter_server_properties, property_named, warn_of_metadata
from lakescan.catalogs.responses import config_error, limit_answer, log_response, response_json
from lakescan.catalogs.rest_session import TIMEOUT
from lakescan.errors import LimitExceeded, StorageError
from lakescan.storage.settings import find_settings
from lakescan.storage.settings.catalog_properties import is_storage_property, merge_server_properties, warn_ignored

_PAGE = "pageToken"
_URI, _TOKENS = "uri", "oauth2-server-uri"


@cache
def rest_catalog_class() -> Any:
    """Return the class `CheckedRestCatalog`. The first call imports pyiceberg."""
    from pyiceberg.catalog.rest import RestCatalog
    from pyiceberg.catalog.rest.auth import AUTH_MANAGER
    from pyiceberg.io import load_file_io

    class CheckedRestCatalog(RestCatalog):
        """A connection to a REST server that may only set permitted properties.

        `user_properties` are set by the user, and `server_properties` by the server's configuration.
        """

        properties: dict[str, Any]
        _defaults: Set[str] = frozenset()

        def _config_headers(self, session: Any) -> None:
            super()._config_headers(session)  # before the session gets its authentication, which requests a token
            session.hooks["response"] += [
                log_response,
                limit_answer,
                _check_redirection,
                _pages_checker(),
                self._keep_defaults,
            ]
            session.request = partial(_request_in_time, session.request)

        def _fetch_config(self) -> None:
            self.user_properties = dict(self.properties)
            super()._fetch_config()
            set_by_user = {each.key for name in self.user_properties for each in find_settings(name)}
            said = {
                name: value
                for name, value in self.properties.items()
                if (name not in self.user_properties or self.user_properties[name] != value)
                and not (name in self._defaults and any(each.key in set_by_user for each in find_settings(name)))
            }
            self.uri = self.user_properties[_URI]
            self.server_properties = self._check_server_properties(said)
            self.uri = self.server_properties.get(_URI, self.uri)
            own = {name: value for name, value in self.user_properties.items() if name.startswith("client.")}
            # The user's AWS keys sign requests to the server, whatever keys it issues for a store.
            self.properties = {**self._merge_storage(self.server_properties), **own}

        def _keep_defaults(self, response: Any, *_: Any, **__: Any) -> None:
            """Remember which properties in a `GET v1/config` response are defaults, which must not override the user's.

            pyiceberg compares only names, but a setting can have several names.
            """
            if urlsplit(response.url).path.endswith("/v1/config") and response.status_code == 200:
                with suppress(ValueError, AttributeError, TypeError):  # pyiceberg raises the error
                    answer = response_json(response)
                    self._defaults = {*(answer.get("defaults") or ())} - {*(answer.get("overrides") or ())}

        @property
        def _server(self) -> str:
            return f"the server of catalog {self.name!r}"

        def _parse_value(self, name: str, value: Any) -> Any:
            """Convert a server's property to text; raises `CorruptMetadata` for an invalid value.

            Properties that a server may not set are returned unchanged.
            """
            known = property_named(name)
            if known is None or not known.of_server:
                return value
            with suppress(ValueError):
                return str(known.kind(value))
            raise config_error(self.name, f"{name} takes {known.kind.expects}, not {value[:60]!r}")

        def _check_server_properties(self, said: dict[str, Any]) -> dict[str, str]:
            """Return the properties of a response (`said`) that the server may set, as text; warn about the others.

            Raises `StorageError` if it names a token server on another host, which would get the user's credential, and
            `CorruptMetadata` for an invalid value.
            """
            for name, value in said.items():
                known = property_named(name)
                is_used = name in (_URI, _TOKENS) or (known is not None and known.of_server)
                if is_used and not isinstance(value, str | int | float | None):
                    raise config_error(self.name, f"{name} is not a string: {str(value)[:60]}")
            said = {name: self._parse_value(name, _as_text(value)) for name, value in said.items() if value is not None}
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
                        f"{self._server} ({safe_address(self.uri)}) redirects requests to {safe_address(value)} by its "
                        f"{name!r}: your "
                        f"credentials would be sent there. If that is right, set {name!r} as a property of the catalog."
                    )
            return {**filter_server_properties(said, self._server), **addresses}

        def _merge_storage(self, said: Mapping[str, str]) -> dict[str, Any]:
            """Merge the user's properties and the server's (`said`), which take precedence.

            Storage properties are merged by `merge_server_properties`.
            """
            merged = {**self.user_properties, **said}
            storage = merge_server_properties(self.user_properties, said, self._server)
            return {name: value for name, value in merged.items() if not is_storage_property(name)} | storage

        def _load_file_io(self, properties: Mapping[str, str] = {}, location: str | None = None) -> Any:
            merged = self._merge_storage({**self.server_properties, **properties})
            if self._auth_manager is not None:  # used by pyiceberg's own clients to request signatures
                merged[AUTH_MANAGER] = self._auth_manager
            return load_file_io(merged, location)

        def _response_to_table(self, identifier_tuple: Any, table_response: Any) -> Any:
            found = super()._response_to_table(
                identifier_tuple, self._filter_response(identifier_tuple, table_response)
            )
            found.metadata = table_response.metadata
            return found

        def _response_to_staged_table(self, identifier_tuple: Any, table_response: Any) -> Any:
            permitted = self._filter_response(identifier_tuple, table_response)
            found = super()._response_to_staged_table(identifier_tuple, permitted)
            found.metadata = table_response.metadata
            return found

        def _filter_response(self, name: tuple[str, ...], response: Any) -> Any:
            """Return a copy of a table response with only permitted server properties, and no table properties."""
            warn_of_metadata(response.metadata.properties, ".".join((self.name, *name)))
            changes = {
                "metadata": response.metadata.model_copy(update={"properties": {}}),
                "config": filter_server_properties(response.config, self._server, response.metadata.location),
            }
            if hasattr(response, "storage_credentials"):
                changes["storage_credentials"] = [
                    each.model_copy(update={"config": filter_server_properties(each.config, self._server, each.prefix)})
                    for each in response.storage_credentials
                ]
            return response.model_copy(update=changes)

    return CheckedRestCatalog


def _as_text(value: Any) -> Any:
    """Return a JSON number or boolean as text; other values unchanged."""
    return json.dumps(value) if isinstance(value, bool | int | float) else value


def origin(url: str) -> tuple[str, str | None, int | None] | None:
    """Return the scheme, host and port of a URL; None if it has no host, such as a path.

    Also None if the host is ambiguous: HTTP clients disagree about backslashes and escapes in it.
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


def safe_address(url: str) -> str:
    """Return the scheme, host and port of a URL for a message, or "an invalid address" if it has no host."""
    found = origin(url)
    return "an invalid address" if found is None else f"{found[0]}://{found[1]}:{found[2]}"


def _request_in_time(request: Any, method: str, url: str, **arguments: Any) -> Any:
    """Send a request by `request` (the session's method), with a timeout of a minute unless the caller sets one.

    pyiceberg sets no timeout.
    """
    if arguments.get("timeout") is None:
        arguments["timeout"] = TIMEOUT
    return request(method, url, **arguments)


def _pages_checker() -> Any:
    """Create a response hook that stops endless paging.

    The hook raises `StorageError` if a page is requested twice, and `LimitExceeded` for more than `limits.PAGES` pages.
    """
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
            raise StorageError(f"the server {safe_address(response.request.url)} repeats a page of GET {parts.path}")
        if len(tokens) >= limits.PAGES:
            raise LimitExceeded(
                f"GET {parts.path} of the server {safe_address(response.request.url)} has more than "
                f"{limits.PAGES:,} pages. "
                "If this length is expected, raise lakescan.limits.PAGES."
            )
        asked.tokens = tokens
        tokens.add(token)

    return check


def _check_redirection(response: Any, *_: Any, **__: Any) -> None:
    """Raise `StorageError` for a redirection to another host, which would receive headers and bodies with secrets."""
    if not response.is_redirect:
        return
    here, there = response.request.url, urljoin(response.request.url, response.headers["location"])
    if origin(there) is None or origin(there) != origin(here):
        raise StorageError(
            f"{safe_address(here)} redirects {response.request.method} {urlsplit(here).path} to "
            f"{safe_address(there)}: your "
            "credentials would be sent there. If that is right, set it as the catalog's 'uri'."
        )
