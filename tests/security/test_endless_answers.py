"""Huge, slow or endless server answers exhaust neither the memory nor the time of a client."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from threading import Thread

import pytest

import lakescan
from lakescan import limits
from lakescan.catalogs import responses as answers
from lakescan.errors import LimitExceeded, StorageError

CONFIG = json.dumps({"defaults": {}, "overrides": {}}).encode()
CHUNK = b"[" * 2**16
NUMBERS = count()


class Handler(BaseHTTPRequestHandler):
    """Answers `GET v1/config`, and passes all other requests to `answer`."""

    protocol_version = "HTTP/1.1"
    answer: Callable[[Handler], None]
    status = 200

    def do_GET(self) -> None:
        if self.path.startswith("/v1/config"):
            self.begin({"Content-Length": str(len(CONFIG))}, 200)
            self.wfile.write(CONFIG)
            return
        try:
            type(self).answer(self)
        except OSError:  # the client has closed the connection
            self.close_connection = True

    do_POST = do_GET

    def begin(self, headers: dict[str, str], status: int = 0) -> None:
        self.send_response(status or self.status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


def claimed(handler: Handler) -> None:
    handler.begin({"Content-Length": str(10**12)})
    while True:
        handler.wfile.write(CHUNK)


def until_closed(handler: Handler) -> None:
    handler.begin({"Connection": "close"})
    while True:
        handler.wfile.write(CHUNK)


def chunked(handler: Handler) -> None:
    handler.begin({"Transfer-Encoding": "chunked"})
    while True:
        handler.wfile.write(b"10000\r\n" + CHUNK + b"\r\n")


def bomb(handler: Handler) -> None:
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    packed = packer.compress(b"[" * 2**23) + packer.flush()
    handler.begin({"Content-Encoding": "gzip", "Content-Length": str(len(packed))})
    handler.wfile.write(packed)


def redirection(handler: Handler) -> None:
    handler.begin({"Location": handler.path + "x", "Content-Length": str(10**12)}, 307)
    while True:
        handler.wfile.write(CHUNK)


@contextmanager
def server(answer: Callable[[Handler], None], status: int = 200) -> Iterator[str]:
    kind = type("Handler", (Handler,), {"answer": answer, "status": status})
    running = ThreadingHTTPServer(("127.0.0.1", 0), kind)
    running.daemon_threads = True
    running.handle_error = lambda *_: None  # type: ignore[method-assign]
    Thread(target=running.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{running.server_port}"
    finally:
        running.shutdown()
        running.server_close()


def list_of(kind: str, uri: str) -> None:
    more = {"warehouse": "c"} if kind == "unity" else {}
    lakescan.catalog(f"endless{next(NUMBERS)}", type=kind, uri=uri, token="t0ken", **more).list_namespaces()


@pytest.mark.parametrize("kind", ["rest", "unity"])
@pytest.mark.parametrize("answer", [claimed, until_closed, chunked, bomb, redirection])
def test_an_endless_answer_is_refused(
    kind: str, answer: Callable[[Handler], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "ANSWER", 2**20)
    with server(answer) as uri, pytest.raises(LimitExceeded, match=r"more than 1,048,576 .*lakescan\.limits\.ANSWER"):
        list_of(kind, uri)


@pytest.mark.parametrize("kind", ["rest", "unity"])
def test_an_endless_error_is_refused(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "ANSWER", 2**20)
    with server(claimed, 404) as uri, pytest.raises(LimitExceeded):
        list_of(kind, uri)


@pytest.mark.parametrize("kind", ["rest", "unity"])
@pytest.mark.parametrize("answer", [claimed, chunked])
def test_an_answer_that_arrives_too_slowly_is_refused(
    kind: str, answer: Callable[[Handler], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers, "_LONGEST", -1)  # the first bytes are too late
    monkeypatch.setattr(answers, "_CHUNK", 1)
    with server(answer) as uri, pytest.raises(StorageError, match="has not arrived within"):
        list_of(kind, uri)


def test_an_endless_list_of_unity_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = count()

    def page(handler: Handler) -> None:
        text = json.dumps({"schemas": [], "next_page_token": f"p{next(tokens)}"}).encode()
        handler.begin({"Content-Length": str(len(text))})
        handler.wfile.write(text)

    monkeypatch.setattr(limits, "PAGES", 20)
    with server(page) as uri, pytest.raises(LimitExceeded, match=r"more than 20 pages.*lakescan\.limits\.PAGES"):
        list_of("unity", uri)
