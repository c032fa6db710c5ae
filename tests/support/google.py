"""Google Cloud Storage in memory: the JSON API used by Arrow, the XML API used by obstore, and preconditions."""

from __future__ import annotations

import http.client
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlsplit
from xml.sax.saxutils import escape

from tests.support.google_objects import Blob, GoogleStorage, Refused

REFUSED = "503"
OBEYED = "obeyed, then 503"
LOST = "obeyed, then the connection breaks"
RACED = "obeyed, then 412"
_ROOT = Path(__file__).parents[2]
PAGE = 1000  # maximum number of names in a listing, as Google's
_RANGE = re.compile(r"bytes=(\d*)-(\d*)")


@dataclass
class Faults:
    """Decides which modifying request fails, and how."""

    fault: str = ""
    at: int = -1
    count: int = 0

    def next(self, handler: BaseHTTPRequestHandler) -> str:
        """Return the fault of this request."""
        is_conditional = "x-goog-if-generation-match" in handler.headers
        if handler.command in ("GET", "HEAD") or (self.fault == RACED and not is_conditional):
            return ""
        number, self.count = self.count, self.count + 1
        return self.fault if number == self.at else ""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    storage: GoogleStorage
    faults: Faults
    fault = ""

    def handle_any(self) -> None:
        if self.path == "/faults":
            told = self._body()
            self._answer(200, json.dumps({"met": self.faults.count > self.faults.at >= 0}))
            self.faults.__init__(**json.loads(told or b"{}"))  # type: ignore[misc]
            return
        self.fault = self.faults.next(self)
        if self.fault == REFUSED:
            self._body()
            self._answer(503)
        else:
            self._handle()

    def _handle(self) -> None:
        address = urlsplit(self.path)
        query = dict(parse_qsl(address.query, keep_blank_values=True))
        body = self._body()
        json_api = re.fullmatch(r"(?:/(upload|download))?/storage/v1/b/([^/]+)(?:/o(?:/([^/]+)(/.*)?)?)?", address.path)
        try:
            if json_api is not None:
                upload, bucket, key, more = json_api.groups()
                self._json(upload == "upload", bucket, unquote(key or ""), more or "", query, body)
            else:
                bucket, _, key = address.path[1:].partition("/")
                self._xml(bucket, unquote(key), query, body)
        except Refused as error:
            self._answer(error.status, b"" if self.command == "HEAD" else json.dumps({"error": {"code": error.status}}))

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = handle_any

    def _json(self, is_upload: bool, bucket: str, key: str, more: str, query: dict[str, str], body: bytes) -> None:
        storage = self.storage
        if is_upload and self.command == "PUT":
            *_, blob, size = storage.continued(query["upload_id"], body, self.headers.get("Content-Range"))
            if blob is None:
                return self._answer(308, b"", {"Range": f"bytes=0-{size - 1}"} if size else {})
            bucket, key = storage._uploads[query["upload_id"]][:2]
            return self._answer(200, self._resource(bucket, key, blob))
        if is_upload and query.get("uploadType") == "resumable":
            named = json.loads(body or b"{}")
            number = storage.begun(bucket, query.get("name") or named["name"], named.get("metadata", {}), query)
            place = f"http://{self.headers['Host']}/upload/storage/v1/b/{bucket}/o?uploadType=resumable"
            return self._answer(200, b"", {"Location": f"{place}&upload_id={number}"})
        if is_upload:
            named, data = {}, body
            if query.get("uploadType") == "multipart":
                mark = re.search(r'boundary="?([^";]+)', self.headers["Content-Type"])[1].encode()  # type: ignore[index]
                parts = [each.split(b"\r\n\r\n", 1)[1] for each in body.split(b"--" + mark)[1:-1]]
                named, data = json.loads(parts[0]), parts[1].removesuffix(b"\r\n")
            name = query.get("name") or named["name"]
            blob = storage.put(bucket, name, data, query.get("ifGenerationMatch"), named.get("metadata", {}))
            return self._answer(200, self._resource(bucket, name, blob))
        if more.startswith("/rewriteTo/b/"):
            to, _, name = more.removeprefix("/rewriteTo/b/").partition("/o/")
            old = storage.blob(bucket, key)
            blob = storage.put(to, unquote(name), old.data, query.get("ifGenerationMatch"), old.metadata)
            found = {"kind": "storage#rewriteResponse", "done": True, "resource": self._fields(to, unquote(name), blob)}
            size = str(len(old.data))
            return self._answer(200, json.dumps({**found, "totalBytesRewritten": size, "objectSize": size}))
        if key and self.command == "DELETE":
            storage.delete(bucket, key)
            return self._answer(204)
        if key:
            blob = storage.blob(bucket, key)
            return (
                self._content(blob)
                if query.get("alt") == "media"
                else self._answer(200, self._resource(bucket, key, blob))
            )
        if bucket not in storage.buckets:
            raise Refused(404)
        if not urlsplit(self.path).path.endswith("/o"):
            return self._answer(200, json.dumps({"kind": "storage#bucket", "id": bucket, "name": bucket}))
        after, most = unquote(query.get("pageToken", "")), int(query.get("maxResults") or PAGE)
        keys, prefixes, last = storage.listed(bucket, query, after, min(most, PAGE))
        items = [self._fields(bucket, each, storage.buckets[bucket][each]) for each in keys]
        page = {"kind": "storage#objects", "items": items, "prefixes": prefixes}
        return self._answer(200, json.dumps({**page, **({"nextPageToken": quote(last)} if last else {})}))

    def _xml(self, bucket: str, key: str, query: dict[str, str], body: bytes) -> None:
        storage = self.storage
        match self.command:
            case "PUT" if "uploadId" in query:
                storage._parts[query["uploadId"]][int(query["partNumber"])] = body
                self._answer(200, b"", {"ETag": f'"{query["partNumber"]}"'})
            case "PUT":
                blob = storage.put(bucket, key, body, self.headers.get("x-goog-if-generation-match"), {})
                self._answer(200, b"", self._named(blob))
            case "POST" if "uploads" in query:
                number = storage.begun(bucket, key, {}, query)
                storage._parts[number] = {}
                told = f"<Bucket>{bucket}</Bucket><Key>{escape(key)}</Key><UploadId>{number}</UploadId>"
                self._answer(200, f"<InitiateMultipartUploadResult>{told}</InitiateMultipartUploadResult>")
            case "POST":
                parts = storage._parts.pop(query["uploadId"])
                blob = storage.put(bucket, key, b"".join(parts[n] for n in sorted(parts)), None, {})
                told = f"<ETag>&quot;{blob.generation}&quot;</ETag>"
                told = f"<CompleteMultipartUploadResult>{told}</CompleteMultipartUploadResult>"
                self._answer(200, told, self._named(blob))
            case "DELETE":
                storage.delete(bucket, key)
                self._answer(204)
            case _ if key:
                self._content(storage.blob(bucket, key))
            case _:
                self._answer(200, self._xml_page(bucket, query))

    def _xml_page(self, bucket: str, query: dict[str, str]) -> str:
        after = query.get("continuation-token") or query.get("start-after", "")
        keys, prefixes, last = self.storage.listed(bucket, query, after, int(query.get("max-keys") or PAGE))
        told = f"<IsTruncated>{str(bool(last)).lower()}</IsTruncated>"
        told += f"<NextContinuationToken>{escape(last)}</NextContinuationToken>" if last else ""
        for each in keys:
            blob = self.storage.buckets[bucket][each]
            what = f"<Size>{len(blob.data)}</Size><ETag>&quot;{blob.generation}&quot;</ETag>"
            when = f"<LastModified>{blob.modified.isoformat()}</LastModified>"
            told += f"<Contents><Key>{escape(each)}</Key>{when}{what}</Contents>"
        told += "".join(f"<CommonPrefixes><Prefix>{escape(each)}</Prefix></CommonPrefixes>" for each in prefixes)
        return f"<ListBucketResult><Name>{bucket}</Name>{told}</ListBucketResult>"

    def _named(self, blob: Blob) -> dict[str, str]:
        return {
            "ETag": f'"{blob.generation}"',
            "x-goog-generation": str(blob.generation),
            "Last-Modified": format_datetime(blob.modified, usegmt=True),
        }

    def _content(self, blob: Blob) -> None:
        """Send the whole object, or the requested range."""
        wanted, whole = _RANGE.fullmatch(self.headers.get("Range") or ""), len(blob.data)
        if wanted is None:
            return self._answer(200, blob.data, self._named(blob))
        first, last = wanted.groups()
        start = int(first) if first else max(0, whole - int(last))
        end = min(whole, int(last) + 1) if first and last else whole
        if start >= whole:
            raise Refused(416)
        headers = {**self._named(blob), "Content-Range": f"bytes {start}-{end - 1}/{whole}"}
        return self._answer(206, blob.data[start:end], headers)

    def _resource(self, bucket: str, key: str, blob: Blob) -> str:
        return json.dumps(self._fields(bucket, key, blob))

    def _fields(self, bucket: str, key: str, blob: Blob) -> dict[str, Any]:
        when = blob.modified.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        metadata = {name: value for name, value in blob.metadata.items() if name != "upload"}
        names = {"kind": "storage#object", "id": f"{bucket}/{key}/{blob.generation}", "name": key, "bucket": bucket}
        times = {"timeCreated": when, "updated": when, "etag": str(blob.generation), "metadata": metadata}
        return {
            **names,
            **times,
            "generation": str(blob.generation),
            "metageneration": "1",
            "size": str(len(blob.data)),
        }

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        chunks = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            chunks.append(self.rfile.read(size))
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass  # trailers
        return b"".join(chunks)

    def _answer(self, status: int, content: bytes | str = b"", headers: dict[str, str] | None = None) -> None:
        data = content.encode() if isinstance(content, str) else content
        if self.fault == LOST:
            self.close_connection = True
            return
        if self.fault:
            status, data, headers = (412 if self.fault == RACED else 503), b"", {}
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        if status != 204:
            self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def log_message(self, *arguments: object) -> None:
        """Say nothing."""


def _serve(buckets: list[str]) -> None:
    handler = type("Handler", (_Handler,), {"storage": GoogleStorage(*buckets), "faults": Faults()})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    print(f"http://127.0.0.1:{server.server_address[1]}", flush=True)
    server.serve_forever()


def armed(address: str, fault: str = "", at: int = -1) -> bool:
    """Make one later request of a server fail; return whether the previous fault has occurred."""
    with closing(http.client.HTTPConnection(address.rpartition("/")[2])) as connection:
        connection.request("POST", "/faults", json.dumps({"fault": fault, "at": at}))
        return bool(json.loads(connection.getresponse().read())["met"])


@contextmanager
def google_server(*buckets: str) -> Iterator[str]:
    """Start a server with buckets and yield its endpoint. It is a process: a read by Arrow blocks other threads."""
    process = subprocess.Popen([sys.executable, "-m", __name__, *buckets], stdout=subprocess.PIPE, text=True, cwd=_ROOT)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
    finally:
        process.kill()
        process.wait()


if __name__ == "__main__":
    _serve(sys.argv[1:])
