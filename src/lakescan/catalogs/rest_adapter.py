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
from collections.abc import Callable, Iterator, Mapping
from email.utils import parsedate_to_datetime
from typing import Any
from uuid import UUID

from lakescan.common.retries import Attempts, RetryPolicy

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
        >>> with_last_column_ids(b'{"updates": [{"action": "add-schema", "schema": {"fields": [{"id": 3}]}}]}')
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
