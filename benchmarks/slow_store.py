"""A store that implements enough of S3 to be read, and delays each answer: folders as buckets, no keys.

An answer costs the store 0.1 ms in addition to the delay, so that hundreds of concurrent requests are no load.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import sys
import time
import urllib.request
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from email.utils import formatdate
from functools import cache
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

BUCKET = "lake"
_PAGE = 1000
_LOG = "/-/requests"


@dataclass(frozen=True)
class Requests:
    """The requests to a store: their number by kind, and the length of the longest chain of sequential ones."""

    kinds: dict[str, int]
    chain: int
    at_once: int

    @property
    def count(self) -> int:
        """Return the number of all requests."""
        return sum(self.kinds.values())

    def __str__(self) -> str:
        return ", ".join(
            f"{self.kinds[kind]:,} {kind}" for kind in ("list", "head", "get", "range") if kind in self.kinds
        )


@dataclass(frozen=True)
class SlowStore:
    """A running store, and the settings that its clients need."""

    endpoint: str

    @property
    def options(self) -> dict[str, str]:
        """Return storage options of lakescan and of pyiceberg."""
        keys = {"s3.access-key-id": "some-key", "s3.secret-access-key": "some-secret"}
        return {"s3.endpoint": self.endpoint, "s3.region": "us-east-1", **keys}

    @property
    def delta_rs(self) -> dict[str, str]:
        """Return storage options of deltalake."""
        keys = {"aws_access_key_id": "some-key", "aws_secret_access_key": "some-secret", "aws_region": "us-east-1"}
        return {"aws_endpoint_url": self.endpoint, "aws_allow_http": "true", **keys}

    def requests(self) -> Requests:
        """Return the requests since the last call."""
        with urllib.request.urlopen(self.endpoint + _LOG) as answer:
            seen = json.load(answer)
        return Requests(dict(Counter(kind for kind, _, _ in seen)), _chain(seen), _at_once(seen))


def _chain(seen: list[tuple[str, float, float]]) -> int:
    """Return the length of the longest chain of requests that each began after the previous one was answered."""
    count, end = 0, 0.0
    for _, started, ended in sorted(seen, key=lambda each: each[2]):
        if started >= end:
            count, end = count + 1, ended
    return count


def _at_once(seen: list[tuple[str, float, float]]) -> int:
    now = most = 0
    for _, change in sorted([(s, 1) for _, s, _ in seen] + [(e, -1) for _, _, e in seen]):
        now += change
        most = max(most, now)
    return most


@contextmanager
def slow_store(folder: Path, delay: float, *, changes: bool = False) -> Iterator[SlowStore]:
    """Serve a folder as every bucket from a process of its own, each answer after `delay` seconds.

    Its files are listed once, unless it `changes` while the store runs.
    """
    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(
        target=_serve, args=(str(folder), delay, changes, there), daemon=True
    )
    process.start()
    try:
        yield SlowStore(f"http://127.0.0.1:{here.recv()}")
    finally:
        process.terminate()
        process.join()


def _serve(folder: str, delay: float, changes: bool, ready: Connection) -> None:
    async def serve() -> None:
        server = await asyncio.get_running_loop().create_server(
            lambda: _Client(Path(folder), delay, changes), "127.0.0.1", 0, backlog=1024
        )
        ready.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(serve())


_seen: list[tuple[str, float, float]] = []


class _Client(asyncio.Protocol):
    """One connection: answers come in the order of requests."""

    def __init__(self, folder: Path, delay: float, changes: bool) -> None:
        self._folder, self._delay, self._changes, self._read = folder, delay, changes, b""

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._read += data
        while (end := self._read.find(b"\r\n\r\n")) >= 0:
            head, self._read = self._read[:end].decode("latin-1"), self._read[end + 4 :]
            first, *lines = head.split("\r\n")
            method, target, _ = first.split(" ")
            headers = {n.lower(): v.strip() for n, _, v in (line.partition(":") for line in lines)}
            self._handle(method, target, headers)

    def _handle(self, method: str, target: str, headers: dict[str, str]) -> None:
        if target == _LOG:
            self._send(200, {}, json.dumps(_seen).encode())
            _seen.clear()
            return
        url = urlsplit(target)
        bucket, _, key = unquote(url.path).lstrip("/").partition("/")
        asked = {name: values[0] for name, values in parse_qs(url.query, keep_blank_values=True).items()}
        started = time.perf_counter()
        if method == "HEAD":
            kind, answer = "head", self._object(key, None, with_body=False) if key else (200, {}, b"")
        elif key:
            kind = "range" if "range" in headers else "get"
            answer = self._object(key, headers.get("range"), with_body=True)
        else:
            if self._changes:
                _keys.cache_clear()
            kind, answer = "list", (200, {"Content-Type": "application/xml"}, _listed(self._folder, bucket, asked))
        asyncio.get_running_loop().call_later(self._delay, self._answer, kind, started, answer, method == "HEAD")

    def _answer(self, kind: str, started: float, answer: tuple[int, dict[str, str], bytes], is_head: bool) -> None:
        self._send(*answer, is_head=is_head)
        _seen.append((kind, started, time.perf_counter()))

    def _send(self, status: int, headers: dict[str, str], body: bytes, *, is_head: bool = False) -> None:
        lines = {"Content-Length": str(len(body)), **headers}
        head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        self._transport.write(f"HTTP/1.1 {status} Answer\r\n{head}\r\n".encode() + (b"" if is_head else body))

    def _object(self, key: str, wanted: str | None, *, with_body: bool) -> tuple[int, dict[str, str], bytes]:
        path = self._folder / key
        if not path.is_file():
            missing = b"<Error><Code>NoSuchKey</Code><Message>The specified key does not exist.</Message></Error>"
            return 404, {"Content-Type": "application/xml"}, missing if with_body else b""
        stat = path.stat()
        about = {"Last-Modified": formatdate(stat.st_mtime, usegmt=True), "ETag": f'"{stat.st_mtime_ns:x}"'}
        about["Accept-Ranges"] = "bytes"
        if not with_body:
            return 200, {**about, "Content-Length": str(stat.st_size)}, b""
        if wanted is None:
            return 200, about, path.read_bytes()
        first, last = _bounds(wanted, stat.st_size)
        if first >= stat.st_size:
            return 416, {"Content-Type": "application/xml"}, b"<Error><Code>InvalidRange</Code></Error>"
        with path.open("rb") as file:
            file.seek(first)
            body = file.read(last - first + 1)
        return 206, {**about, "Content-Range": f"bytes {first}-{last}/{stat.st_size}"}, body


def _bounds(wanted: str, size: int) -> tuple[int, int]:
    first, _, last = wanted.removeprefix("bytes=").partition("-")
    if not first:
        return max(0, size - int(last)), size - 1
    return int(first), min(int(last) if last else size - 1, size - 1)


@cache
def _keys(folder: Path) -> list[tuple[str, int, float]]:
    """All keys of the bucket, sorted as S3 does."""
    files = [(str(each.relative_to(folder)), each.stat()) for each in folder.rglob("*") if each.is_file()]
    return sorted((name, stat.st_size, stat.st_mtime) for name, stat in files)


def _listed(folder: Path, bucket: str, asked: dict[str, str]) -> bytes:
    """An answer to ListObjectsV2."""
    prefix, delimiter = asked.get("prefix", ""), asked.get("delimiter", "")
    after = max(asked.get("start-after", ""), asked.get("continuation-token", ""))
    most = min(int(asked.get("max-keys", _PAGE)), _PAGE)
    found: list[str] = []
    last, is_cut, common = "", False, ""
    keys = _keys(folder)
    for name, size, modified in keys[bisect_left(keys, (max(prefix, after),)) :]:
        if not name.startswith(prefix):
            break
        if name <= after or (common and name.startswith(common)):
            continue
        if delimiter and after.endswith(delimiter) and name.startswith(after):
            continue
        if len(found) == most:
            is_cut = True
            break
        rest = name[len(prefix) :]
        if delimiter and delimiter in rest:
            common = last = prefix + rest.partition(delimiter)[0] + delimiter
            found.append(f"<CommonPrefixes><Prefix>{escape(common)}</Prefix></CommonPrefixes>")
            continue
        at = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(modified))
        last = name
        found.append(
            f"<Contents><Key>{escape(name)}</Key><Size>{size}</Size><LastModified>{at}</LastModified>"
            f"<ETag>&quot;{modified}&quot;</ETag><StorageClass>STANDARD</StorageClass></Contents>"
        )
    token = f"<NextContinuationToken>{escape(last)}</NextContinuationToken>" if is_cut else ""
    return (
        f'<?xml version="1.0"?><ListBucketResult><Name>{bucket}</Name><Prefix>{escape(prefix)}</Prefix>'
        f"<KeyCount>{len(found)}</KeyCount><MaxKeys>{most}</MaxKeys><IsTruncated>{str(is_cut).lower()}</IsTruncated>"
        f"{token}{''.join(found)}</ListBucketResult>"
    ).encode()


if __name__ == "__main__":
    with slow_store(Path(sys.argv[1]), float(sys.argv[2]) / 1000) as running:
        print(running.endpoint, flush=True)
        time.sleep(float("inf"))
