"""An S3 proxy in front of moto that makes one request of a test fail: refused, lost, or carried out too late."""

from __future__ import annotations

import http.client
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.support.s3 import s3_server

# Faults: whether the request is carried out, and the client's answer.
REFUSED = "503"
OBEYED = "obeyed, then 503"
LOST = "obeyed, then the connection breaks"
RACED = "obeyed, then 412"  # the answer to a repeated conditional put if the answer to the first was lost
LATE = "obeyed after the client has given up"
FAULTS = (REFUSED, OBEYED, LOST, RACED, LATE)
TIMEOUT = 3.0  # seconds: the client timeout to set for a `LATE` answer
_STATUS = {REFUSED: 503, OBEYED: 503, RACED: 412}


class FaultyS3:
    """Forward requests to an endpoint; while `armed`, the request numbered `at` among the relevant ones fails."""

    def __init__(self, behind: str) -> None:
        self.behind = behind  # the endpoint that carries out requests
        self._behind, self._lock = behind.removeprefix("http://"), threading.Lock()
        self._count, self._at, self._fault = 0, -1, ""
        self.has_met = self._lasting = False
        self.requests: Counter[str] = Counter()  # by kind, since they were cleared

    @contextmanager
    def armed(self, fault: str, at: int, *, lasting: bool = False) -> Iterator[None]:
        """Inject the fault within the block; if it is `lasting`, also into all requests after the one at `at`."""
        with self._lock:
            self._count, self._at, self._fault, self.has_met, self._lasting = 0, at, fault, False, lasting
        try:
            yield
        finally:
            with self._lock:
                self._at = -1

    def handle(self, handler: BaseHTTPRequestHandler) -> None:
        body = _body(handler)
        with self._lock:
            self.requests[_kind(handler)] += 1
        fault = self._next(handler)
        if fault == LATE:
            time.sleep(TIMEOUT + 0.5)
        status, headers, content = (0, {}, b"") if fault == REFUSED else self._forwarded(handler, body)
        if fault in (LOST, LATE):
            handler.close_connection = True
        elif fault is not None:
            answer(handler, _STATUS[fault], {}, b"")
        else:
            answer(handler, status, headers, content)

    def _forwarded(self, handler: BaseHTTPRequestHandler, body: bytes) -> tuple[int, dict[str, str], bytes]:
        headers = {n: v for n, v in handler.headers.items() if n.lower() not in ("host", "transfer-encoding", "expect")}
        with closing(http.client.HTTPConnection(self._behind)) as connection:
            connection.request(handler.command, handler.path, body, headers)
            response = connection.getresponse()
            return response.status, dict(response.headers), response.read()

    def _next(self, handler: BaseHTTPRequestHandler) -> str | None:
        with self._lock:
            if not _matters(self._fault, handler):
                return None
            number, self._count = self._count, self._count + 1
            is_met = number == self._at or (self._lasting and number > self._at >= 0)
            self.has_met |= is_met
            return self._fault if is_met else None


def _kind(handler: BaseHTTPRequestHandler) -> str:
    """Return the kind of a request: list, head, get, range or put, ..."""
    if handler.command != "GET":
        return handler.command.lower()
    return "list" if "list-type" in handler.path else "range" if "Range" in handler.headers else "get"


def _matters(fault: str, handler: BaseHTTPRequestHandler) -> bool:
    """Return whether a fault applies to this request: most faults apply only to requests that change something."""
    is_conditional = handler.command == "PUT" and "If-None-Match" in handler.headers
    return is_conditional if fault == RACED else fault == REFUSED or handler.command not in ("GET", "HEAD")


def _body(handler: BaseHTTPRequestHandler) -> bytes:
    if handler.headers.get("Transfer-Encoding") != "chunked":
        return handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
    chunks = []
    while size := int(handler.rfile.readline().split(b";")[0], 16):
        chunks.append(handler.rfile.read(size))
        handler.rfile.readline()
    while handler.rfile.readline().strip():
        pass  # trailers
    return b"".join(chunks)


def answer(handler: BaseHTTPRequestHandler, status: int, headers: dict[str, str], content: bytes) -> None:
    """Send an answer."""
    handler.send_response(status)
    is_head = handler.command == "HEAD"
    kept = {n: v for n, v in headers.items() if n.lower() not in ("transfer-encoding", "connection", "server", "date")}
    if not is_head:
        kept = {n: v for n, v in kept.items() if n.lower() != "content-length"} | {"Content-Length": str(len(content))}
    for name, value in kept.items():
        handler.send_header(name, value)
    handler.end_headers()
    if not is_head:
        handler.wfile.write(content)


@contextmanager
def faulty_s3(bucket: str, make: type[FaultyS3] = FaultyS3) -> Iterator[tuple[str, FaultyS3]]:
    """Start a server with a bucket; yield its endpoint and the object that decides on faults."""
    with s3_server(bucket) as behind:
        faulty = make(behind)

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_any(self) -> None:
                try:
                    faulty.handle(self)
                except (ConnectionError, BrokenPipeError):
                    self.close_connection = True  # the client has given up

            do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = handle_any

            def log_message(self, *arguments: Any) -> None:
                """Say nothing."""

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}", faulty
        finally:
            server.shutdown()
            thread.join()
