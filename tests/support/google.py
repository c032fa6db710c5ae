"""fake-gcs-server, and before it what it lacks: puts by Google's XML API, which obstore sends."""

from __future__ import annotations

import http.client
import json
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote

from tests.support.stores import STORES, needed


def free_port() -> int:
    with closing(socket.socket()) as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def await_port(port: int, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while True:
        with closing(socket.socket()) as tried:
            if tried.connect_ex(("127.0.0.1", port)) == 0:
                return
        assert time.monotonic() < end, "the server does not start"
        time.sleep(0.2)


@contextmanager
def google_server(bucket: str) -> Iterator[str]:
    """A server with a bucket; its address, to which Arrow and obstore go."""
    program = STORES / "fake-gcs-server"
    needed(program)
    behind, port = free_port(), free_port()
    address = f"127.0.0.1:{port}"
    options = [
        "-backend",
        "memory",
        "-scheme",
        "http",
        "-host",
        "127.0.0.1",
        "-port",
        str(behind),
        "-log-level",
        "error",
    ]
    names = ["-public-host", address, "-external-url", f"http://{address}"]
    process = subprocess.Popen([program, *options, *names])

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.0"  # Arrow waits for ever for the end of a kept connection

        def forward(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            method, path = self.command, self.path
            headers = dict(self.headers.items())
            if method == "PUT" and not path.startswith("/upload"):
                method, path, headers, body = _as_json_api(path, headers, body)
            with closing(http.client.HTTPConnection("127.0.0.1", behind)) as connection:
                connection.request(method, path, body, headers)
                answer = connection.getresponse()
                content = answer.read()
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in ("transfer-encoding", "connection", "content-length", "date"):
                    self.send_header(name, value)
            if method != self.command:
                self.send_header("ETag", '"1"')
            length = answer.getheader("Content-Length") if self.command == "HEAD" else None
            self.send_header("Content-Length", length or str(len(content)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content)

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = do_PATCH = forward

        def log_message(self, *arguments: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        await_port(behind)
        with closing(http.client.HTTPConnection("127.0.0.1", behind)) as connection:
            text = json.dumps({"name": bucket})
            connection.request("POST", "/storage/v1/b?project=p", text, {"Content-Type": "application/json"})
            assert connection.getresponse().status == 200
        yield address
    finally:
        server.shutdown()
        process.kill()
        process.wait()


def _as_json_api(path: str, headers: dict[str, str], body: bytes) -> tuple[str, str, dict[str, str], bytes]:
    """The same put, with its condition, as an upload in parts: the server obeys conditions there alone."""
    bucket, _, key = path[1:].partition("?")[0].partition("/")
    given = {name.lower(): value for name, value in headers.items()}
    generation = given.get("x-goog-if-generation-match")
    query = "uploadType=multipart" + ("" if generation is None else f"&ifGenerationMatch={generation}")
    head = json.dumps({"name": unquote(key)}).encode()
    parts = b"--B\r\nContent-Type: application/json\r\n\r\n%b\r\n--B\r\nContent-Type: text/plain\r\n\r\n%b\r\n--B--\r\n"
    kind = {"Content-Type": "multipart/related; boundary=B"}
    return "POST", f"/upload/storage/v1/b/{bucket}/o?{query}", kind, parts % (head, body)
