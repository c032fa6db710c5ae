"""Requests to a REST catalog's server, with idempotency keys and with retries where they are safe.

A transport adapter is mounted on pyiceberg's HTTP session in front of pyiceberg's own, so it also handles pyiceberg's
requests.

- If the server supports it (`idempotency-key-lifetime`), each change is sent with a key. After no response or status
  500, 502 or 504, it is retried with the same key, and takes effect at most once. If the retry is refused (400, 403,
  ...), the first request may still arrive, so the state is unknown. A conflict (409) is a definite response.
- Statuses 429 and 503 mean that the request was not processed. It is retried after the time in `Retry-After`.
- New schemas are sent with `last-column-id`, which older servers require.
- Reads are also retried after 502, 504 and no response. Changes without a key are not: the caller looks up their state.
"""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import quote, unquote
from uuid import UUID
from weakref import WeakKeyDictionary

from lakescan.catalogs.responses import response_json
from lakescan.common.retries import Attempts, RetryPolicy
from lakescan.errors import CorruptMetadata, StorageError, UnsupportedFeature

_LOG = logging.getLogger("lakescan.requests")
KEY = "Idempotency-Key"
_NOT_TAKEN, _NOT_ANSWERED, _FAILED = (429, 503), (502, 504), 500
_PASSED_ON = (401, 409, 419)  # definite responses to changes: a conflict, or an expired token, which pyiceberg renews
_READS = ("GET", "HEAD")
_TOKENS = "/oauth/tokens"  # requests for tokens change nothing
_POLICY = RetryPolicy(attempts=5, first=0.2, ceiling=5)
_CONNECTIONS = 128
_LONGEST = 60  # the longest accepted `Retry-After`, in seconds; a longer wait is left to the caller


def mount(session: Any, url: str, takes_keys: Callable[[], bool]) -> None:
    """Mount the adapter of this module on an HTTP session, for requests to the server at `url`.

    `takes_keys()` returns whether the server supports idempotency keys.
    """
    from requests.adapters import BaseAdapter, HTTPAdapter

    inner = session.get_adapter(url)
    if type(inner) is HTTPAdapter:  # keeps only 10 connections, and warns about each further one
        inner = pool_adapter()

    class Adapter(BaseAdapter):
        """Sends requests through the previously mounted adapter, with keys and retries."""

        def send(self, request: Any, *arguments: Any, **named: Any) -> Any:
            return _send_request(inner, request, takes_keys, arguments, named)

        def close(self) -> None:
            inner.close()

    session.mount(url, Adapter())


def pool_adapter() -> Any:
    """Return a `requests` adapter with up to 128 connections, enough for all threads that read files concurrently."""
    from requests.adapters import HTTPAdapter

    return HTTPAdapter(pool_maxsize=_CONNECTIONS)


def _send_request(
    inner: Any, request: Any, takes_keys: Callable[[], bool], arguments: tuple[Any, ...], named: dict[str, Any]
) -> Any:
    from requests import ConnectionError, Timeout

    if request.headers.get(KEY) == "":  # the request changes nothing, and its caller retries it
        del request.headers[KEY]
        return inner.send(request, *arguments, **named)
    is_read = request.method in _READS
    if not is_read and (body := add_last_column_ids(request.body)) is not request.body:
        request.prepare_body(body, None)
    has_key = not is_read and not str(request.url).endswith(_TOKENS) and takes_keys()
    if has_key and KEY not in request.headers:
        request.headers[KEY] = str(uuid7())
    attempts, is_open = Attempts(_POLICY), False
    while True:
        try:
            response = inner.send(request.copy(), *arguments, **named)  # signatures are added only to the copy
        except (ConnectionError, Timeout) as error:
            if not (is_read or has_key) or not attempts.wait():
                raise
            _LOG.info("a request is sent again: %s", type(error).__name__)
            is_open = True
            continue
        status = int(response.status_code)
        is_unclear = (status in _NOT_ANSWERED and (is_read or has_key)) or (status == _FAILED and has_key)
        may_repeat = status in _NOT_TAKEN or is_unclear
        if not may_repeat or not wait_for_retry(response.headers.get("Retry-After"), attempts):
            if has_key and is_open and 400 <= status < 500 and status not in _PASSED_ON:
                response.close()
                raise ConnectionError(f"no answer to a request whose repetition is refused with status {status}")
            return response
        is_open = is_open or is_unclear
        _LOG.info("a request is sent again: status %d", status)
        response.close()


def wait_for_retry(asked: str | None, attempts: Attempts) -> bool:
    """Wait before a retry: by the policy of `attempts`, then as long as the server asks in `Retry-After` (`asked`).

    Returns False without waiting if the server asks for more than a minute, or no attempt is left.
    """
    seconds = _seconds(asked)
    if seconds > _LONGEST or not attempts.wait():
        return False
    time.sleep(seconds)
    return True


def _seconds(asked: str | None) -> float:
    """Return the wait in a `Retry-After` header (a number of seconds or a date), in seconds; 0 if it is neither."""
    if asked is None:
        return 0
    if asked.strip().isdecimal():
        return float(asked)
    try:
        return max(0, parsedate_to_datetime(asked).timestamp() - time.time())
    except ValueError:
        return 0


def uuid7() -> UUID:
    """Return a new UUID of version 7 (RFC 9562): milliseconds since 1970, then random bits."""
    bits = int.from_bytes(os.urandom(10))
    number = (time.time_ns() // 1_000_000 & (1 << 48) - 1) << 80 | bits
    number = number & ~(0xF << 76) | 0x7 << 76
    return UUID(int=number & ~(0x3 << 62) | 0x2 << 62)


_ACTION = b'"add-schema"'
_LAST = "last-column-id"


def add_last_column_ids(body: Any) -> Any:
    """Add `last-column-id` to new schemas in a request's body; return the same body if it has no such schema.

    Since 2025, the protocol lets clients omit it, as pyiceberg does, but older servers refuse such requests. The value
    is the table's, taken from the request's requirements, or the highest field id of the schema.

    Example:
        >>> add_last_column_ids(b'{"updates": [{"action": "add-schema", "schema": {"fields": [{"id": 3}]}}]}')
        b'{"updates": [{"action": "add-schema", "schema": {"fields": [{"id": 3}]}, "last-column-id": 3}]}'
    """
    text = body.encode() if isinstance(body, str) else body
    if not isinstance(text, bytes) or _ACTION not in text:
        return body
    request = json.loads(text)
    for change in request.get("table-changes") or [request]:
        known = [each.get("last-assigned-field-id", 0) for each in change.get("requirements") or ()]
        for update in change.get("updates") or ():
            if update.get("action") == "add-schema" and _LAST not in update:
                update[_LAST] = max([0, *known, *_ids(update["schema"])])
    return json.dumps(request).encode()


def _ids(node: Any) -> Iterator[int]:
    """Yield the ids of all fields in a schema or type as JSON, including nested fields."""
    if not isinstance(node, Mapping):
        return
    for name in ("id", "element-id", "key-id", "value-id"):
        if isinstance(found := node.get(name), int):
            yield found
    for field in node.get("fields") or ():
        yield from _ids(field)
    for name in ("type", "element", "key", "value"):
        yield from _ids(node.get(name))


# Requests go through pyiceberg's own HTTP session, which has the catalog's authentication (OAuth2, SigV4, basic, ...).

TIMEOUT = 60  # seconds
_SEPARATOR, _DEFAULT_SEPARATOR = "namespace-separator", "%1F"
_ENDED = (401, 419)  # statuses of an expired token
# By the specification, the endpoints of a server that lists none.
_TABLE = "/v1/{prefix}/namespaces/{namespace}/tables/{table}"
_DEFAULT = frozenset(
    {f"POST {_TABLE}/metrics", f"POST {_TABLE}", f"GET {_TABLE}", "POST /v1/{prefix}/transactions/commit"}
)
COMMIT_TRANSACTION = "POST /v1/{prefix}/transactions/commit"
PLAN, PLAN_RESULT = f"POST {_TABLE}/plan", f"GET {_TABLE}/plan/{{plan-id}}"
CANCEL_PLAN, PLAN_TASKS = f"DELETE {_TABLE}/plan/{{plan-id}}", f"POST {_TABLE}/tasks"
CREDENTIALS, REPORT_METRICS = f"GET {_TABLE}/credentials", f"POST {_TABLE}/metrics"
SIGN = f"POST {_TABLE}/sign"


def is_rest(catalog: Any) -> bool:
    """Return whether a pyiceberg catalog is a REST catalog."""
    return "RestCatalog" in {each.__name__ for each in type(catalog).__mro__}


@dataclass(frozen=True)
class ServerConfig:
    """A REST server's configuration: its `endpoints`, and whether it supports idempotency keys (`takes_keys`)."""

    endpoints: frozenset[str]
    takes_keys: bool = False


_SERVERS: WeakKeyDictionary[Any, ServerConfig] = WeakKeyDictionary()
_HANDED_OUT: WeakKeyDictionary[Any, dict[str, dict[str, Any]]] = WeakKeyDictionary()  # by URL
_MEMBERS = ("storage-credentials", "remote-signing-config")


class RestSession:
    """Requests to the server of a REST catalog.

    Example:
        >>> RestSession(catalog).post("transactions/commit", {"table-changes": []}).status_code
        204
    """

    def __init__(self, catalog: Any) -> None:
        self._catalog = catalog

    @property
    def session(self) -> Any:
        """pyiceberg's HTTP session, which has the catalog's authentication; raises `UnsupportedFeature`."""
        return http_session(self._catalog)

    @property
    def server(self) -> ServerConfig:
        """The server's configuration, requested once per catalog connection.

        Raises `StorageError` if the server does not return it, and `CorruptMetadata` if it is unreadable.
        """
        known = _SERVERS.get(self._catalog)
        if known is None:
            known = _SERVERS[self._catalog] = self._fetch_config()
        return known

    def has(self, endpoint: str) -> bool:
        """Return whether the server has an endpoint, such as `POST /v1/{prefix}/transactions/commit`.

        Raises the errors of `server`.
        """
        return endpoint in self.server.endpoints

    def table_path(self, name: tuple[str, ...]) -> str:
        """Return the URL path of a table, relative to the catalog's prefix: `namespaces/NAMESPACE/tables/TABLE`."""
        return f"{namespace_path(self._catalog, name[:-1])}/tables/{quote(name[-1], safe='')}"

    def post(self, path: str, body: Any, renew: Callable[[], object] | None = None) -> Any:
        """Post JSON (an object or its text) to a path under the catalog's prefix; return the response of any status.

        If the token has expired and `renew` is set, `renew` is called, which makes pyiceberg renew the token by another
        request. The request is then sent once more, even if the renewal failed. Raises `requests.RequestException` if
        the server does not respond.
        """
        data = (body if isinstance(body, str) else json.dumps(body)).encode()
        return self._send("POST", path, data, renew)

    def get(self, path: str, renew: Callable[[], object] | None = None, query: Mapping[str, str] | None = None) -> Any:
        """Send a GET request to a path under the catalog's prefix, with the parameters `query`; see `post`."""
        return self._send("GET", path, None, renew, query)

    def delete(self, path: str) -> Any:
        """Send a DELETE request to a path under the catalog's prefix; see `post`."""
        return self._send("DELETE", path, None, None)

    def post_to(self, url: str, body: Any, headers: Mapping[str, str], renew: Callable[[], object]) -> Any:
        """Post JSON with these headers to a URL that the catalog names, by a request that changes nothing; see `post`.

        The request is not retried, except after an expired token, and redirections are not followed.
        """
        has_adapter = url.lower().startswith(self._catalog.url("", prefixed=False).lower())
        own = {KEY: ""} if has_adapter else {}  # read and removed by the adapter
        root = "/".join([*url.split("/")[:3], ""])
        if not has_adapter and root not in self.session.adapters:
            self.session.mount(root, pool_adapter())
        arguments = {"data": json.dumps(body).encode(), "headers": {**headers, **own}, "allow_redirects": False}
        return self._request("POST", url, renew, arguments)

    def _send(
        self,
        method: str,
        path: str,
        data: bytes | None,
        renew: Callable[[], object] | None,
        query: Mapping[str, str] | None = None,
    ) -> Any:
        url = self._catalog.url("{path}", path=path)
        return self._request(method, url, renew, {"params": query, "data": data})

    def _request(self, method: str, url: str, renew: Callable[[], object] | None, arguments: Mapping[str, Any]) -> Any:
        response = self.session.request(method, url, timeout=TIMEOUT, **arguments)
        if response.status_code in _ENDED and renew is not None:
            with suppress(Exception):
                renew()
            response = self.session.request(method, url, timeout=TIMEOUT, **arguments)
        return response

    def _fetch_config(self) -> ServerConfig:
        warehouse = self._catalog.properties.get("warehouse")
        response = self.session.get(
            self._catalog.url("config", prefixed=False),
            params={} if warehouse is None else {"warehouse": warehouse},
            timeout=TIMEOUT,
        )
        if response.status_code != 200:
            raise StorageError(
                f"catalog {self._catalog.name!r} does not return its configuration: {message_of(response)}"
            )
        said = response_object(response)
        listed = said.get("endpoints") or _DEFAULT
        if not isinstance(listed, Collection) or not all(isinstance(each, str) for each in listed):
            raise CorruptMetadata(
                f"{_request_text(response)}: the endpoints are not a list of strings: {str(listed)[:60]}"
            )
        return ServerConfig(frozenset(listed), said.get("idempotency-key-lifetime") is not None)


def keep_credentials(catalog: Any) -> None:
    """Make a catalog keep the credentials in the server's table responses, for `file_access`.

    pyiceberg itself keeps only one of them.
    """
    kept = _HANDED_OUT[catalog] = {}

    def keep_response(response: Any, *arguments: Any, **named: Any) -> None:
        method, url = response.request.method, response.url.partition("?")[0]
        is_creation = method == "POST" and url.endswith("/tables")
        if response.status_code != 200 or not (method == "GET" or is_creation):
            return
        if is_creation:
            try:
                url = f"{url}/{quote(json.loads(response.request.body)['name'], safe='')}"
            except (ValueError, TypeError, KeyError):  # a commit to a table named `tables`
                return
        given = {}
        if any(each.encode() in response.content for each in _MEMBERS):
            with suppress(ValueError, AttributeError):  # pyiceberg raises the error
                answer = response_json(response)
                given = {each: answer[each] for each in _MEMBERS if answer.get(each)}
        if given:
            kept[url] = given
        else:
            kept.pop(url, None)

    http_session(catalog).hooks["response"].append(keep_response)


def file_access(catalog: Any, name: tuple[str, ...]) -> Mapping[str, Any]:
    """Return the members `storage-credentials` and `remote-signing-config` of the server's latest table response.

    Members that the server did not send when the table was last loaded or created are missing.
    """
    url = catalog.url("{path}", path=RestSession(catalog).table_path(name))
    return _HANDED_OUT.get(catalog, {}).get(url, {})


def has_session(catalog: Any) -> bool:
    """Return whether `http_session` finds the HTTP session of a REST catalog in the installed version of pyiceberg."""
    return _session_in(catalog) is not None


def _session_in(catalog: Any) -> Any:
    from requests import Session

    return next((each for each in vars(catalog).values() if isinstance(each, Session)), None)


def http_session(catalog: Any) -> Any:
    """Return the HTTP session of a REST catalog; raises `UnsupportedFeature` for an incompatible pyiceberg."""
    found = _session_in(catalog)
    if found is None:
        raise UnsupportedFeature(
            f"this request to catalog {catalog.name!r} with this version of pyiceberg", "Use pyiceberg 0.12."
        )
    return found


def namespace_path(catalog: Any, namespace: tuple[str, ...]) -> str:
    """Return the URL path of a namespace, relative to the catalog's prefix: `namespaces/NAMESPACE`."""
    separator = unquote(catalog.properties.get(_SEPARATOR, _DEFAULT_SEPARATOR))
    return f"namespaces/{separator.join(quote(part, safe='') for part in namespace)}"


def response_object(response: Any) -> dict[str, Any]:
    """Parse the JSON object in a response; raises `CorruptMetadata` for anything else."""
    try:
        found = response_json(response)
    except ValueError as error:
        raise CorruptMetadata(f"{_request_text(response)}: the answer is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise CorruptMetadata(f"{_request_text(response)}: the answer is not a JSON object: {str(found)[:60]}")
    return found


def _request_text(response: Any) -> str:
    """Return the method and URL of a response's request, such as `GET https://catalog.example/v1/config`."""
    return f"{response.request.method} {response.url.partition('?')[0]}"


def message_of(response: Any) -> str:
    """Return the server's error message in a response, or the response's status, such as "status 500"."""
    try:
        return str(response_json(response)["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return f"status {response.status_code}"
