"""Requests to S3 that a catalog signs: what is asked of it, and what its answer may say.

The answer is the catalog's word on a request that is sent with this process's rights. It must be for the very request
that was asked for, and it adds nothing but what a signature consists of.
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

_KEPT_SECONDS, _MOST_KEPT = 30, 1024  # as Iceberg's own client, which keeps 100
_OF_SIGNATURES = ("authorization", "date")  # and those that begin so:
_PREFIXES = ("x-amz-", "amz-sdk-")
_OF_CONNECTIONS = {"host", "content-length", "connection", "transfer-encoding", "cache-control", "expect"}
_OF_URIS = re.compile(r"[!-~]+")
_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True)
class S3Request:
    """A request without a signature; `body` is what a signer has to see of it, that of DeleteObjects."""

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
    """A signer's answer; `may_be_kept` for further requests of the same method and URI."""

    uri: str = field(repr=False)  # a query may hold a signature
    headers: Mapping[str, str] = field(repr=False)
    may_be_kept: bool = False


class RequestSigner(Protocol):
    """Who signs requests. Thread-safe; pickled for workers."""

    @property
    def identity(self) -> Hashable:
        """A key for caches: who asks whom, for which table. It has no secrets."""

    def sign(self, region: str, request: S3Request) -> Signature:
        """The signature of a request; raises `StorageError`."""


@dataclass(frozen=True)
class SignedRequest:
    """A request as it is sent: its path with its query, and all headers. `is_kept`: by an earlier signature."""

    target: str = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    is_kept: bool


class Signatures:
    """Signatures of one signer, kept for half a minute where it says that they may be. Thread-safe."""

    def __init__(self, signer: RequestSigner, region: str) -> None:
        self._signer, self._region = signer, region
        self._kept: OrderedDict[tuple[str, str], tuple[S3Request, Signature, float]] = OrderedDict()
        self._lock = threading.Lock()

    def sign_request(self, request: S3Request, *, fresh: bool = False) -> SignedRequest:
        """The request with its signature, a new one if `fresh`.

        Raises `StorageError` if the signer refuses or does not answer, `LocationRefused` for an answer about another
        place.
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
        """A signature that is kept, if it is one of this request, too: all headers that it is about are the same."""
        with self._lock:
            asked, signature, at = self._kept.get((request.method, request.uri), (None, None, 0.0))
        if asked is None or signature is None or time.monotonic() - at > _KEPT_SECONDS:
            return None
        signed = _signed_names(signature)
        if not signed or any(asked.headers.get(name) != request.headers.get(name) for name in signed):
            return None
        return asked, signature


def _apply_signature(request: S3Request, asked: S3Request, signature: Signature, *, is_kept: bool) -> SignedRequest:
    """The request as it is sent, by the answer to `asked`."""
    given = {name.lower(): value for name, value in signature.headers.items()}
    own = {name: value for name, value in given.items() if _is_of_signatures(name)}
    unknown = set(_signed_names(signature)) - own.keys() - request.headers.keys() - _OF_CONNECTIONS
    if unknown:
        raise StorageError(
            f"the signature for {request.method} {request.place} is about the header {min(unknown)}, which is not one "
            "of the request: the catalog's signer adds what is not sent. Ask its operator."
        )
    if not all(value.isascii() and value.isprintable() for value in own.values()):
        raise StorageError(f"the signature for {request.method} {request.place} has characters that no header has")
    stale = asked.headers.keys() - request.headers.keys()
    headers = {name: value for name, value in own.items() if name not in stale} | dict(request.headers)
    return SignedRequest(_target(request, signature.uri), headers, is_kept)


def _is_of_signatures(name: str) -> bool:
    return name in _OF_SIGNATURES or name.startswith(_PREFIXES)


def _signed_names(signature: Signature) -> list[str]:
    """The names of the headers that a signature is about; none if it does not say."""
    for name, value in signature.headers.items():
        if name.lower() == "authorization":
            _, _, after = value.partition("SignedHeaders=")
            return [each.strip().lower() for each in after.partition(",")[0].split(";") if each.strip()]
    query = parse_qsl(urlsplit(signature.uri).query)
    named = next((value for name, value in query if name.lower() == "x-amz-signedheaders"), "")
    return [each.lower() for each in named.split(";") if each]


def _target(request: S3Request, answered: str) -> str:
    """The path and query to send; raises `LocationRefused` unless they are those of the request, and its host's."""
    try:
        asked, found = urlsplit(request.uri), urlsplit(answered)
        is_same = _place(asked) == _place(found) and _query(asked) == _query(found)
    except ValueError:  # a port that is no number
        is_same = False
    if not is_same or not found.path.startswith("/") or _OF_URIS.fullmatch(answered) is None:
        raise LocationRefused(
            f"the catalog was asked to sign {request.method} {request.place}, and answers with another address: "
            "nothing was sent there. Ask its operator."
        )
    return found.path + (f"?{found.query}" if found.query else "")


def _place(uri: SplitResult) -> tuple[object, ...]:
    scheme = uri.scheme.lower()
    user = uri.username, uri.password
    return scheme, uri.hostname, uri.port or _PORTS.get(scheme), unquote_to_bytes(uri.path), user, uri.fragment


def _query(uri: SplitResult) -> list[tuple[str, str]]:
    """The query without what a signature in it consists of."""
    pairs = parse_qsl(uri.query, keep_blank_values=True, encoding="latin-1")  # which tells all bytes apart
    return sorted(pair for pair in pairs if not pair[0].lower().startswith("x-amz-"))
