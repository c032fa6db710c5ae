"""Remote signing of S3 requests by a catalog: the protocol, and checks of the signer's responses.

The signed request is sent with this process's rights. So the response must be for exactly the request that was to be
signed, and may only add headers and parameters of a signature.
"""

from __future__ import annotations

import re
import threading
import time
from collections import OrderedDict
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Protocol
from urllib.parse import SplitResult, parse_qsl, unquote_to_bytes, urlsplit

from lakescan.errors import LocationRefused, StorageError

_KEPT_SECONDS, _MOST_KEPT = 30, 1024  # Iceberg's own client caches 100
_OF_SIGNATURES = ("authorization", "date")  # and headers with these prefixes:
_PREFIXES = ("x-amz-", "amz-sdk-")
_OF_CONNECTIONS = {"host", "content-length", "connection", "transfer-encoding", "cache-control", "expect"}
_OF_URIS = re.compile(r"[!-~]+")
_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True)
class S3Request:
    """A request without a signature. `body` is the part that the signer must see, that of DeleteObjects; else None."""

    method: str
    uri: str
    headers: Mapping[str, str] = field(default_factory=dict)  # names in lower case
    body: str | None = None

    @property
    def place(self) -> str:
        """The URI without its query, for messages."""
        return self.uri.partition("?")[0]


@dataclass(frozen=True)
class Signature:
    """A signer's response: the signed URI and headers.

    `may_be_kept`: it can be reused for requests of the same method and URI.
    """

    uri: str = field(repr=False)  # a query may hold a signature
    headers: Mapping[str, str] = field(repr=False)
    may_be_kept: bool = False


class RequestSigner(Protocol):
    """Signs S3 requests on behalf of a catalog. Thread-safe; pickled for workers."""

    @property
    def identity(self) -> Hashable:
        """A key for caches, without secrets: the signer's address, table and authorization."""

    def sign(self, region: str, request: S3Request) -> Signature:
        """Return the signature of a request for a bucket in `region`; raises `StorageError`."""


@dataclass(frozen=True)
class SignedRequest:
    """A request to send. `target` is its path with the query. `is_kept`: it uses a cached signature."""

    target: str = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    is_kept: bool


class Signatures:
    """Caches the signatures of one signer for half a minute, if the signer permits it. Thread-safe."""

    def __init__(self, signer: RequestSigner, region: str) -> None:
        self._signer, self._region = signer, region
        self._kept: OrderedDict[tuple[str, str], tuple[S3Request, Signature, float]] = OrderedDict()
        self._lock = threading.Lock()

    def sign_request(self, request: S3Request, *, fresh: bool = False) -> SignedRequest:
        """Return the request with its signature; `fresh` bypasses the cache.

        Raises `StorageError` if the signer refuses or does not respond, `LocationRefused` if its response is for
        another address.
        """
        kept = None if fresh or request.body is not None else self._fitting(request)
        if kept is not None:
            return _apply_signature(request, *kept, is_kept=True)
        signature = self._signer.sign(self._region, request)
        found = _apply_signature(request, request, signature, is_kept=False)
        if signature.may_be_kept and request.body is None:
            with self._lock:
                self._kept[request.method, request.uri] = request, signature, time.monotonic()
                while len(self._kept) > _MOST_KEPT:
                    self._kept.popitem(last=False)
        return found

    def _fitting(self, request: S3Request) -> tuple[S3Request, Signature] | None:
        """Return a cached signature and the request that was signed; None if the cache has no suitable one.

        It is suitable if the headers that it covers have the same values in this request.
        """
        with self._lock:
            asked, signature, at = self._kept.get((request.method, request.uri), (None, None, 0.0))
        if asked is None or signature is None or time.monotonic() - at > _KEPT_SECONDS:
            return None
        signed = _signed_names(signature)
        if not signed or any(asked.headers.get(name) != request.headers.get(name) for name in signed):
            return None
        return asked, signature


def _apply_signature(request: S3Request, asked: S3Request, signature: Signature, *, is_kept: bool) -> SignedRequest:
    """Return the request to send, with the signature that was made for the request `asked`.

    Raises `LocationRefused` for a signature of another address, and `StorageError` if it covers a header that the
    request lacks.
    """
    given = {name.lower(): value for name, value in signature.headers.items()}
    own = {name: value for name, value in given.items() if _is_of_signatures(name)}
    unknown = set(_signed_names(signature)) - own.keys() - request.headers.keys() - _OF_CONNECTIONS
    if unknown:
        raise StorageError(
            f"the signature for {request.method} {request.place} covers the header {min(unknown)}, which the request "
            "does not have: the catalog's signer is faulty. Ask its operator."
        )
    if not all(value.isascii() and value.isprintable() for value in own.values()):
        raise StorageError(
            f"the signature for {request.method} {request.place} has characters that headers cannot have"
        )
    stale = asked.headers.keys() - request.headers.keys()
    headers = {name: value for name, value in own.items() if name not in stale} | dict(request.headers)
    return SignedRequest(_target(request, signature.uri), headers, is_kept)


def _is_of_signatures(name: str) -> bool:
    return name in _OF_SIGNATURES or name.startswith(_PREFIXES)


def _signed_names(signature: Signature) -> list[str]:
    """Return the names, in lower case, of the headers that a signature covers; empty if it lists no names."""
    for name, value in signature.headers.items():
        if name.lower() == "authorization":
            _, _, after = value.partition("SignedHeaders=")
            return [each.strip().lower() for each in after.partition(",")[0].split(";") if each.strip()]
    query = parse_qsl(urlsplit(signature.uri).query)
    named = next((value for name, value in query if name.lower() == "x-amz-signedheaders"), "")
    return [each.lower() for each in named.split(";") if each]


def _target(request: S3Request, answered: str) -> str:
    """Return the path and query to send, from the signed URI (`answered`).

    Raises `LocationRefused` if it has another address, or another query except for the signature's parameters.
    """
    try:
        asked, found = urlsplit(request.uri), urlsplit(answered)
        is_same = _place(asked) == _place(found) and _query(asked) == _query(found)
    except ValueError:  # a port that is not a number
        is_same = False
    if not is_same or not found.path.startswith("/") or _OF_URIS.fullmatch(answered) is None:
        raise LocationRefused(
            f"the catalog signed another address instead of {request.method} {request.place}: "
            "nothing was sent there. Ask its operator."
        )
    return found.path + (f"?{found.query}" if found.query else "")


def _place(uri: SplitResult) -> tuple[object, ...]:
    scheme = uri.scheme.lower()
    user = uri.username, uri.password
    return scheme, uri.hostname, uri.port or _PORTS.get(scheme), unquote_to_bytes(uri.path), user, uri.fragment


def _query(uri: SplitResult) -> list[tuple[str, str]]:
    """Return a URI's query parameters, sorted, without those of a signature (`X-Amz-...`)."""
    pairs = parse_qsl(uri.query, keep_blank_values=True, encoding="latin-1")  # distinguishes all bytes
    return sorted(pair for pair in pairs if not pair[0].lower().startswith("x-amz-"))
