"""How requests to a REST catalog's server are sent: with idempotency keys, and again where that is safe.

The adapter is mounted on pyiceberg's HTTP session, in front of its own ones, so that pyiceberg's requests have it, too.

- A server that says so (`idempotency-key-lifetime`) gets a key with each change. What was not answered (no answer, 500,
  502, 504) is then sent again with the same key: it has one effect, however often it arrives. If the repetition is
  refused (400, 403, ...), the first request may still arrive: that is no answer, either. A conflict (409) is one.
- 429 and 503 say that a request was not taken: it is sent again after the time that the server asks for.
- New schemas say the last column id, which servers of earlier versions need.
- Reads are sent again after these, 502, 504 and no answer. Changes without a key are not: who made them looks up what
  became of them.
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

_LOG = logging.getLogger("lakescan")
KEY = "Idempotency-Key"
_NOT_TAKEN, _NOT_ANSWERED, _FAILED = (429, 503), (502, 504), 500
_PASSED_ON = (401, 409, 419)  # of changes: a conflict, and a token that has expired, which pyiceberg renews
_READS = ("GET", "HEAD")
_TOKENS = "/oauth/tokens"  # requests for tokens change nothing
_POLICY = RetryPolicy(attempts=5, first=0.2, ceiling=5)
_CONNECTIONS = 128
_LONGEST = 60  # seconds that a server may ask to wait; a longer wait is left to the caller


def mount(session: Any, url: str, takes_keys: Callable[[], bool]) -> None:
    """Send the requests of a session to a server by the rules of this module; `takes_keys` tells if it knows keys."""
    from requests.adapters import BaseAdapter, HTTPAdapter

    inner = session.get_adapter(url)
    if type(inner) is HTTPAdapter:  # which keeps 10 connections, and warns of each further one
        inner = pool_adapter()

    class Adapter(BaseAdapter):
        """Sends by another adapter."""

        def send(self, request: Any, *arguments: Any, **named: Any) -> Any:
            return _send_request(inner, request, takes_keys, arguments, named)

        def close(self) -> None:
            inner.close()

    session.mount(url, Adapter())


def pool_adapter() -> Any:
    """An adapter as `requests` has it, for as many threads as read files at once."""
    from requests.adapters import HTTPAdapter

    return HTTPAdapter(pool_maxsize=_CONNECTIONS)


def _send_request(
    inner: Any, request: Any, takes_keys: Callable[[], bool], arguments: tuple[Any, ...], named: dict[str, Any]
) -> Any:
    from requests import ConnectionError, Timeout

    if request.headers.get(KEY) == "":  # it changes nothing, and who made it repeats it
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
            response = inner.send(request.copy(), *arguments, **named)  # signatures are added to the copy alone
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
    """Wait as long as the server asks; False, at once, if that is too long, or it was sent often enough."""
    seconds = _seconds(asked)
    if seconds > _LONGEST or not attempts.wait():
        return False
    time.sleep(seconds)
    return True


def _seconds(asked: str | None) -> float:
    """The wait that `Retry-After` asks for, a number of seconds or a date; 0 for what is neither."""
    if asked is None:
        return 0
    if asked.strip().isdecimal():
        return float(asked)
    try:
        return max(0, parsedate_to_datetime(asked).timestamp() - time.time())
    except ValueError:
        return 0


def uuid7() -> UUID:
    """A new UUID of version 7 (RFC 9562): milliseconds since 1970, then random bits."""
    bits = int.from_bytes(os.urandom(10))
    number = (time.time_ns() // 1_000_000 & (1 << 48) - 1) << 80 | bits
    number = number & ~(0xF << 76) | 0x7 << 76
    return UUID(int=number & ~(0x3 << 62) | 0x2 << 62)


_ACTION = b'"add-schema"'
_LAST = "last-column-id"


def add_last_column_ids(body: Any) -> Any:
    """A request's body whose new schemas say `last-column-id`, or the body itself if none has to.

    The protocol lets clients leave it out since 2025, as pyiceberg does; servers before that refuse such a request.
    It is the table's, as the request requires it, or the highest id of the schema's fields.

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
    """The ids of all fields in a schema or type as JSON, those inside of others, too."""
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
_ENDED = (401, 419)  # statuses that say that a token has expired
# Those that servers have which do not list any, by the specification.
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
    """Whether a pyiceberg catalog is one of type rest."""
    return "RestCatalog" in {each.__name__ for each in type(catalog).__mro__}


@dataclass(frozen=True)
class ServerConfig:
    """What a server says of itself: its endpoints, and whether requests with the same key have one effect."""

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
        """The connection, which has the catalog's authentication. pyiceberg has no public name for it."""
        return http_session(self._catalog)

    @property
    def server(self) -> ServerConfig:
        """The endpoints that the server has; asked once for each connection."""
        known = _SERVERS.get(self._catalog)
        if known is None:
            known = _SERVERS[self._catalog] = self._fetch_config()
        return known

    def has(self, endpoint: str) -> bool:
        """Whether the server has an endpoint, such as `POST /v1/{prefix}/transactions/commit`."""
        return endpoint in self.server.endpoints

    def table_path(self, name: tuple[str, ...]) -> str:
        """The path of a table under the catalog's prefix."""
        return f"{namespace_path(self._catalog, name[:-1])}/tables/{quote(name[-1], safe='')}"

    def post(self, path: str, body: Any, renew: Callable[[], object] | None = None) -> Any:
        """Post JSON, or text that is JSON, and return the response, whatever its status is.

        `renew` asks the catalog something by pyiceberg, which renews a token that has expired: then the request is
        sent once more, whatever became of that; the answer tells. Raises `requests.RequestException` if none comes.
        """
        data = (body if isinstance(body, str) else json.dumps(body)).encode()
        return self._send("POST", path, data, renew)

    def get(self, path: str, renew: Callable[[], object] | None = None, query: Mapping[str, str] | None = None) -> Any:
        """Get a path under the catalog's prefix; see `post`."""
        return self._send("GET", path, None, renew, query)

    def delete(self, path: str) -> Any:
        """Delete a path under the catalog's prefix; see `post`."""
        return self._send("DELETE", path, None, None)

    def post_to(self, url: str, body: Any, headers: Mapping[str, str], renew: Callable[[], object]) -> Any:
        """Post JSON, which changes nothing, to an address that the catalog names; see `post`.

        It is sent once, and no redirection is followed.
        """
        has_adapter = url.lower().startswith(self._catalog.url("", prefixed=False).lower())
        own = {KEY: ""} if has_adapter else {}  # the adapter reads and removes it
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
            raise StorageError(f"catalog {self._catalog.name!r} does not say what it has: {message_of(response)}")
        said = response_object(response)
        listed = said.get("endpoints") or _DEFAULT
        if not isinstance(listed, Collection) or not all(isinstance(each, str) for each in listed):
            raise CorruptMetadata(f"{_request_text(response)}: the endpoints are no list of texts: {str(listed)[:60]}")
        return ServerConfig(frozenset(listed), said.get("idempotency-key-lifetime") is not None)


def keep_credentials(catalog: Any) -> None:
    """Keep what the server says with tables of access to their files, of which pyiceberg keeps one credential."""
    kept = _HANDED_OUT[catalog] = {}

    def keep_response(response: Any, *arguments: Any, **named: Any) -> None:
        method, url = response.request.method, response.url.partition("?")[0]
        is_creation = method == "POST" and url.endswith("/tables")
        if response.status_code != 200 or not (method == "GET" or is_creation):
            return
        if is_creation:
            try:
                url = f"{url}/{quote(json.loads(response.request.body)['name'], safe='')}"
            except (ValueError, TypeError, KeyError):  # a commit to a table with the name `tables`
                return
        given = {}
        if any(each.encode() in response.content for each in _MEMBERS):
            with suppress(ValueError, AttributeError):  # pyiceberg tells what is wrong with it
                answer = response_json(response)
                given = {each: answer[each] for each in _MEMBERS if answer.get(each)}
        if given:
            kept[url] = given
        else:
            kept.pop(url, None)

    http_session(catalog).hooks["response"].append(keep_response)


def file_access(catalog: Any, name: tuple[str, ...]) -> Mapping[str, Any]:
    """What the server said of access to a table's files when it was last loaded or made, as JSON.

    The members are `storage-credentials` and `remote-signing-config`, as far as there are any.
    """
    url = catalog.url("{path}", path=RestSession(catalog).table_path(name))
    return _HANDED_OUT.get(catalog, {}).get(url, {})


def has_session(catalog: Any) -> bool:
    """Whether pyiceberg keeps the HTTP session of a REST catalog where `http_session` finds it."""
    return _session_in(catalog) is not None


def _session_in(catalog: Any) -> Any:
    from requests import Session

    return next((each for each in vars(catalog).values() if isinstance(each, Session)), None)


def http_session(catalog: Any) -> Any:
    """The HTTP session of a REST catalog; raises `UnsupportedFeature` for a pyiceberg that keeps it elsewhere."""
    found = _session_in(catalog)
    if found is None:
        raise UnsupportedFeature(
            f"this request to catalog {catalog.name!r} with this version of pyiceberg", "Use pyiceberg 0.12."
        )
    return found


def namespace_path(catalog: Any, namespace: tuple[str, ...]) -> str:
    """The path of a namespace under the catalog's prefix."""
    separator = unquote(catalog.properties.get(_SEPARATOR, _DEFAULT_SEPARATOR))
    return f"namespaces/{separator.join(quote(part, safe='') for part in namespace)}"


def response_object(response: Any) -> dict[str, Any]:
    """The JSON object in an answer; raises `CorruptMetadata` for what is none."""
    try:
        found = response_json(response)
    except ValueError as error:
        raise CorruptMetadata(f"{_request_text(response)}: the answer is no JSON: {error}") from error
    if not isinstance(found, dict):
        raise CorruptMetadata(f"{_request_text(response)}: the answer is no JSON object: {str(found)[:60]}")
    return found


def _request_text(response: Any) -> str:
    """The request of an answer, as `GET https://catalog.example/v1/config`."""
    return f"{response.request.method} {response.url.partition('?')[0]}"


def message_of(response: Any) -> str:
    """What the server says about an error."""
    try:
        return str(response_json(response)["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return f"status {response.status_code}"
