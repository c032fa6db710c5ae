"""An empty server on loopback that records the requests: the clients' identities and the paths."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

_IDENTITY = re.compile(r"Credential=([^/]+)/\d+/([^/]+)/|(Bearer .+)|SharedKey ([^:]+):")


@dataclass(frozen=True)
class Request:
    """A request of obstore's or Arrow's client: its path, and the credentials used."""

    client: str
    method: str
    path: str
    identity: tuple[str, ...]


@dataclass
class Recorded:
    """A server that answers every request with `status`."""

    address: str
    status: int
    requests: list[Request] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://{self.address}"

    def of(self, client: str) -> set[tuple[str, ...]]:
        """Return the identities in the requests of a client: arrow or obstore."""
        return {each.identity for each in self.requests if each.client == client}

    def paths(self, client: str) -> set[str]:
        """Return the paths of the requests of a client."""
        return {each.path for each in self.requests if each.client == client}


@contextmanager
def recording_server(status: int = 404) -> Iterator[Recorded]:
    """Start a server that answers each request with a status."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.0"

        def note(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            path, _, query = self.path.partition("?")
            agent = self.headers.get("User-Agent", "")
            client = "obstore" if agent.startswith("object_store") else "arrow"
            found.requests.append(Request(client, self.command, path, _identity(self.headers, query)))
            self.send_response(found.status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = note

        def log_message(self, *arguments: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    found = Recorded(f"127.0.0.1:{server.server_address[1]}", status)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield found
    finally:
        server.shutdown()
        server.server_close()


def _identity(headers: Any, query: str) -> tuple[str, ...]:
    """Return key, region and session token (S3), or token, account or signature (others); empty without credentials."""
    match = _IDENTITY.search(headers.get("Authorization", ""))
    found = [] if match is None else [each for each in match.groups() if each]
    found += [each for each in (headers.get("X-Amz-Security-Token"),) if each]
    return (*found, *(each for each in query.split("&") if each.startswith("sig=")))
