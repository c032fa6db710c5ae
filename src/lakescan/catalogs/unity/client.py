"""Requests to a Unity Catalog server: JSON over HTTP, with a token that is sent only to this server."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any
from urllib.parse import quote, urlsplit

from lakescan import limits
from lakescan.catalogs.responses import limit_answer, log_response
from lakescan.common.retries import RetryPolicy
from lakescan.errors import CorruptMetadata, InvalidOption, LimitExceeded, StorageError

API = "/api/2.1/unity-catalog"
_TIMEOUT = 10, 60  # seconds to connect, and to wait for a response
_READS = RetryPolicy(attempts=6, first=0.2, ceiling=10)
_LONGEST_WAIT = 60.0  # seconds, whatever `Retry-After` says
_BUSY = (429, 503)  # statuses after which the request can be retried
_PAGE = 500


class UnityRefusal(Exception):
    """The server refused a request, by an HTTP `status`. `kind` is its name of the error, empty if it sends no name.

    `retry_after` is the wait that the server asks for, in seconds, or None.
    """

    def __init__(
        self, status: int, kind: str, message: str, retry_after: float | None = None, request: str = ""
    ) -> None:
        said = f"status {status}, {kind}: {message}" if kind else f"status {status}: {message}"
        super().__init__(f"{request}: {said}" if request else said)
        self.status = status
        self.kind = kind
        self.message = message
        self.retry_after = retry_after

    @property
    def is_missing(self) -> bool:
        """Whether the requested object does not exist. False if the server lacks the endpoint."""
        return self.status == 404 and bool(self.kind)


class NoAnswer(StorageError):
    """The server did not respond, or its response does not show whether the request was carried out."""


@dataclass(frozen=True)
class UnityClient:
    """A client of a Unity Catalog server: the address of its API, and the token for it. Can be pickled."""

    uri: str
    token: str | None = field(default=None, repr=False)

    @staticmethod
    def configure(name: str, properties: Mapping[str, str]) -> UnityClient:
        """Create the client from a catalog's `uri` and `token`; raises `InvalidOption` for an invalid uri."""
        uri = properties.get("uri", "")
        try:
            parts = urlsplit(uri)
        except ValueError:  # brackets without an IPv6 address
            parts = urlsplit("")
        if parts.scheme not in ("http", "https") or not parts.netloc or parts.username or parts.query:
            raise InvalidOption(
                f"catalog {name!r} of type unity needs a uri, such as https://unity.example.com, without a password"
            )
        base = uri.rstrip("/")
        return UnityClient(base if API in base else base + API, properties.get("token"))

    def get(self, path: str, query: Mapping[str, Any] | None = None) -> UnityResponse:
        """Send a GET request; retried if the server is busy or does not respond. Raises `UnityRefusal`, `NoAnswer`.

        `query` are the URL's parameters, without those that are None.
        """
        waits = _READS.waits()
        while True:
            try:
                return self.send("GET", path, query=query)
            except (UnityRefusal, NoAnswer) as error:
                wait = next(waits, None)
                if wait is None or (isinstance(error, UnityRefusal) and error.status not in _BUSY):
                    raise
                pause(error, wait)

    def pages(self, path: str, member: str, query: Mapping[str, Any]) -> Iterator[UnityResponse]:
        """Yield all objects of a paged list, the member called `member` of each response.

        Raises the errors of `get`, `CorruptMetadata`, and `LimitExceeded` for more than `limits.PAGES` pages.
        """
        token: str | None = None
        seen: set[str] = set()
        while True:
            found = self.get(path, {**query, "max_results": _PAGE, "page_token": token})
            yield from found.nodes(member)
            if (token := found.text("next_page_token")) is None:
                return
            if token in seen:
                raise CorruptMetadata(f"{found.request} returns the same next page repeatedly. {WHAT_TO_DO}")
            seen.add(token)
            if len(seen) >= limits.PAGES:
                raise LimitExceeded(
                    f"{found.request} has more than {limits.PAGES:,} pages. If this length is expected, raise "
                    "lakescan.limits.PAGES."
                )

    def send(
        self, method: str, path: str, body: Any = None, *, query: Mapping[str, Any] | None = None
    ) -> UnityResponse:
        """Send one request with the JSON `body`, and return the response; raises `UnityRefusal`, `NoAnswer`."""
        from requests import RequestException

        asked = {name: str(value) for name, value in (query or {}).items() if value is not None}
        try:
            response = _session(os.getpid()).request(
                method,
                self.uri + path,
                params=asked,
                data=None if body is None else json.dumps(body).encode(),
                headers={"Content-Type": "application/json"},
                auth=_Bearer(self.token),
                timeout=_TIMEOUT,
                allow_redirects=False,
            )
        except RequestException as error:
            raise NoAnswer(f"{method} {self.uri}{path}: {type(error).__name__}") from error
        return _answer(method, self.uri + path, response)


def _answer(method: str, url: str, response: Any) -> UnityResponse:
    try:
        found = response.json() if response.content else {}
    except (ValueError, RecursionError):
        found = None
    status, request = int(response.status_code), f"{method} {url}"
    if 200 <= status < 300 and isinstance(found, dict):
        return UnityResponse(found, request)
    if 200 <= status < 300:
        kind = response.headers.get("Content-Type") or "of no content type"
        raise NoAnswer(f"{request}: the answer ({kind}, status {status}) is not a JSON object. {WHAT_TO_DO}")
    kind, message = _error(found, response.reason)
    if not isinstance(found, dict):
        message = f"{message}. The answer is not a JSON object. {WHAT_TO_DO}"
    if status >= 500 and status not in (501, 503):
        raise NoAnswer(f"{request}: status {status}: {message}")
    raise UnityRefusal(status, kind, message, _seconds(response.headers.get("Retry-After")), request)


def _error(found: Any, reason: str) -> tuple[str, str]:
    """Return an error's name and message from a response's JSON, in the form of the Delta tables API or the older API.

    The name is empty if missing. `reason` is the message for other responses.
    """
    node = found.get("error") if isinstance(found, dict) else None
    if isinstance(node, dict):
        return str(node.get("type") or ""), str(node.get("message") or reason)
    if isinstance(found, dict):
        return str(found.get("error_code") or ""), str(found.get("message") or reason)
    return "", reason


def _seconds(text: str | None) -> float | None:
    try:
        return None if text is None else max(0.0, float(text))
    except ValueError:
        return None


def pause(error: Exception, wait: float) -> None:
    """Sleep before a retry: `wait` seconds, or longer if the server asks for it in `error`, up to a minute."""
    asked = getattr(error, "retry_after", None)
    time.sleep(min(wait if asked is None else max(asked, wait), _LONGEST_WAIT))


def quoted_path(*parts: str) -> str:
    """Return a URL path of these names, each with special characters (also `/`) quoted: `/a/b%2Fc`."""
    return "".join(f"/{quote(part, safe='')}" for part in parts)


@lru_cache(maxsize=4)
def _session(process: int) -> Any:
    """Return the HTTP session of a process (by its id), since sessions do not survive a fork.

    It holds no server's settings or tokens.
    """
    from requests import Session
    from requests.adapters import HTTPAdapter

    session = Session()
    session.hooks["response"] += [log_response, limit_answer]
    for scheme in ("http://", "https://"):
        session.mount(scheme, HTTPAdapter(pool_maxsize=16))
    return session


@dataclass(frozen=True)
class _Bearer:
    """Adds the token to a request, as authentication of `requests`, which then does not read `.netrc`."""

    token: str | None = field(repr=False)

    def __call__(self, request: Any) -> Any:
        if self.token:
            request.headers["Authorization"] = f"Bearer {self.token}"
        return request


# Messages name the request and the kind of a value, never the value, since responses have secrets.

WHAT_TO_DO = "Is that the address of a Unity Catalog server? If it is, ask its operator."
_LARGEST = 2**63 - 1
_KINDS = {str: "a string", dict: "an object", list: "a list", bool: "a boolean", int: "a number", float: "a number"}


class UnityResponse(dict[str, Any]):
    """A JSON object in a response, with methods that read its members by name.

    `request` is the method and URL, for messages. All methods raise `CorruptMetadata` for a member of another type.
    """

    def __init__(self, members: dict[str, Any] | None = None, request: str = "a request") -> None:
        super().__init__(members or {})
        self.request = request

    def text(self, name: str) -> str | None:
        """Return a member that is a string; None if it is missing or empty."""
        value = self.get(name)
        if value is not None and not isinstance(value, str):
            raise self._not(name, value, "a string")
        return value or None

    def required_text(self, name: str) -> str:
        """Return a member that is a string; raises `CorruptMetadata` also if it is missing or empty."""
        value = self.text(name)
        if value is None:
            raise CorruptMetadata(f"{self.request} is answered without {name!r}. {WHAT_TO_DO}")
        return value

    def number(self, name: str) -> int | None:
        """Return a member that is a non-negative 64-bit integer; None if it is missing."""
        value = self.get(name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _LARGEST):
            raise self._not(name, value, "a non-negative 64-bit integer")
        return value

    def node(self, name: str) -> UnityResponse:
        """Return a member that is an object; an empty object if it is missing."""
        value = self.get(name)
        if value is not None and not isinstance(value, dict):
            raise self._not(name, value, "an object")
        return UnityResponse(value, self.request)

    def nodes(self, name: str) -> list[UnityResponse]:
        """Return a member that is a list of objects; an empty list if it is missing."""
        value = self.get(name)
        if value is None:
            return []
        if not isinstance(value, list):
            raise self._not(name, value, "a list of objects")
        for each in value:
            if not isinstance(each, dict):
                raise self._not(name, each, "an object", "an element of ")
        return [UnityResponse(each, self.request) for each in value]

    def names(self, name: str) -> list[str]:
        """Return a member that is a list of strings; an empty list if it is missing."""
        value = self.get(name)
        if value is None:
            return []
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise self._not(name, value, "a list of strings")
        return value

    def texts(self, name: str) -> dict[str, str]:
        """Return a member that is an object of strings; an empty one if it is missing.

        Numbers and booleans are formatted as in JSON, and nulls are left out.
        """
        found = self.node(name)
        for key, value in found.items():
            if isinstance(value, dict | list):
                raise self._not(f"{name}.{key}", value, "a string")
        return {key: _json_text(value) for key, value in found.items() if value is not None}

    def _not(self, name: str, value: Any, wanted: str, part: str = "") -> CorruptMetadata:
        kind = "null" if value is None else _KINDS[type(value)]
        if kind == "a list" and wanted.startswith(kind):
            kind = "another list"
        return CorruptMetadata(f"{self.request} is answered with {part}{name!r} as {kind}, not {wanted}. {WHAT_TO_DO}")


def _json_text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
