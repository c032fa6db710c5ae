"""An HTTP client of an S3 bucket whose requests a catalog signs. pyarrow and obstore only send requests that they sign.

Requests are those of S3's REST API, with the headers of the signature. They are retried after failed connections and
statuses such as 503. Redirections are not followed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from urllib.parse import quote, unquote_plus
from xml.etree import ElementTree
from xml.sax.saxutils import escape

from lakescan.common.retries import Attempts, RetryPolicy
from lakescan.errors import LimitExceeded, LocationRefused
from lakescan.storage.allowed_locations import hands_out_credentials
from lakescan.storage.remote_signing import RequestSigner, S3Request, Signatures
from lakescan.storage.settings import StorageOptions

MOST_TEXT = 64 * 2**20  # the limit of an XML response, in bytes


@dataclass(frozen=True)
class S3Response:
    """A response of S3, of any status: headers by names in lower case, and the body's bytes."""

    status: int
    headers: Mapping[str, str]
    data: bytes = field(repr=False)


@dataclass(frozen=True)
class S3Object:
    """A listed object: its key, its size in bytes and its modification time in whole seconds."""

    key: str
    size: int
    modified: datetime


def keys_in(page: ElementTree.Element) -> list[S3Object]:
    """Return the objects in a page of a listing (ListObjectsV2); raises `OSError` if it cannot be parsed."""
    decoded = _decoding(page)
    try:
        return [
            S3Object(
                decoded(text_in(each, "Key")),
                int(text_in(each, "Size")),
                datetime.fromisoformat(text_in(each, "LastModified")).replace(microsecond=0),
            )
            for each in all_in(page, "Contents")
        ]
    except ValueError as error:
        raise OSError(f"the store's list of keys cannot be read: {error}") from error


def prefixes_in(page: ElementTree.Element) -> list[str]:
    """Return the common prefixes ("subfolders") in a page of a listing (ListObjectsV2)."""
    decoded = _decoding(page)
    return [decoded(text_in(each, "Prefix")) for each in all_in(page, "CommonPrefixes")]


def _decoding(page: ElementTree.Element) -> Callable[[str], str]:
    return unquote_plus if text_in(page, "EncodingType") == "url" else str


def parse_error(answer: S3Response) -> tuple[str, str]:
    """Return the code and message in the XML of an error response; empty texts if it has no such XML."""
    try:
        root = parse_xml(answer.data, "Error")
    except OSError:
        return "", ""
    return text_in(root, "Code"), text_in(root, "Message")


def parse_xml(data: bytes, name: str) -> ElementTree.Element:
    """Parse XML, and return its root element, which must be called `name`.

    Raises `OSError` for invalid XML, another root, more than 64 MiB, or any declaration (`<!`).
    """
    if len(data) > MOST_TEXT or b"<!" in data:
        raise OSError("the store's answer is not the expected XML")
    try:
        root = ElementTree.fromstring(data)
    except ElementTree.ParseError as error:
        raise OSError(f"the store's answer is not XML: {error}") from error
    if _name(root) != name:
        more = f" ({text_in(root, 'Code')}: {text_in(root, 'Message')})" if _name(root) == "Error" else ""
        raise OSError(f"the store's answer is not {name}{more}")
    return root


def _name(node: ElementTree.Element) -> str:
    return node.tag.rpartition("}")[2]


def all_in(node: ElementTree.Element, name: str) -> list[ElementTree.Element]:
    """Return the child elements with a name, in any XML namespace."""
    return [each for each in node if _name(each) == name]


def text_in(node: ElementTree.Element, name: str) -> str:
    """Return the text of the first child element with a name, in any XML namespace; empty if it is missing."""
    return next((each.text or "" for each in node if _name(each) == name), "")


_POLICY = RetryPolicy(attempts=5, first=0.2, ceiling=5)
_NOT_OBEYED = (408, 429, 500, 502, 503, 504)
_CONNECTIONS = 128
_MOST_OF_ERROR = 64 * 1024  # bytes of an error that are read
_PAGE = 1000  # keys in a response of S3
_CONTENT_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+)")
_SAFE = "-_.~"  # characters that are not encoded, besides letters and digits


class UnknownOutcome(OSError):
    """The store did not respond to any attempt, so the request may or may not have been carried out."""


class SignedBucket:
    """Sends signed requests to an S3 bucket. Thread-safe.

    `settings` have the endpoint, region, addressing, timeouts and proxy. Methods raise `OSError` for an unexpected
    status (`PermissionError` for 401 and 403), and the errors of `Signatures.sign_request`.
    """

    def __init__(self, name: str, settings: StorageOptions, signer: RequestSigner) -> None:
        self.name = name
        self._arguments = settings.s3()
        self._root, self._base = _address(name, self._arguments)
        self._signatures = Signatures(signer, str(self._arguments.get("region") or "us-east-1"))
        self._pool: tuple[int, Any] | None = None

    def head(self, key: str) -> S3Response:
        """Return the response to a HEAD request, with the headers of an object; raises `FileNotFoundError`."""
        return self._check_status("HEAD", key, self._send("HEAD", key), (200,))

    def tail(self, key: str, count: int) -> tuple[int, bytes]:
        """Return the size of an object and its last bytes, at most `count`; raises `FileNotFoundError`."""
        answer = self._send("GET", key, headers={"range": f"bytes=-{count}"}, most=count)
        if answer.status == 416 or (answer.status == 200 and not answer.data):
            return int(self.head(key).headers["content-length"]), b""
        self._check_status("GET", key, answer, (200, 206))
        if answer.status == 200:
            return len(answer.data), answer.data
        start, size = self._range_of(key, answer)
        if start + len(answer.data) != size:
            raise OSError(f"GET {self._uri(key)}: the answer is not the end of the object")
        return size, answer.data

    def read(self, key: str, offset: int, length: int, size: int) -> bytes:
        """Read `length` bytes of an object from `offset`; empty for no bytes.

        Raises `FileNotFoundError`, and `OSError` if the object's size differs from `size`, so that it was replaced.
        """
        if length <= 0:
            return b""
        headers = {"range": f"bytes={offset}-{offset + length - 1}"}
        answer = self._check_status("GET", key, self._send("GET", key, headers=headers, most=length), (206,))
        start, now = self._range_of(key, answer)
        if start != offset or len(answer.data) != length or now != size:
            raise OSError(
                f"GET {self._uri(key)}: {length:,} of {size:,} bytes from byte {offset:,} were requested, but the "
                f"answer has {len(answer.data):,} of {now:,} from byte {start:,}: was the object replaced?"
            )
        return answer.data

    def whole(self, key: str, most: int) -> bytes | None:
        """Read a whole object; None if it has more than `most` bytes. Raises `FileNotFoundError`, `OSError`."""
        answer = self._send("GET", key, most=most)
        if answer.status == 200 and int(answer.headers.get("content-length", "0")) > most:
            return None
        return self._check_status("GET", key, answer, (200,)).data

    def put(self, key: str, data: bytes) -> None:
        """Write an object; raises `OSError`, after which the object may or may not exist."""
        self._check_status("PUT", key, self._send("PUT", key, data=data), (200,))

    def delete(self, key: str) -> None:
        """Delete an object; does nothing if it does not exist. Raises `OSError`."""
        answer = self._send("DELETE", key)
        if answer.status != 404 or parse_error(answer)[0] == "NoSuchBucket":
            self._check_status("DELETE", key, answer, (200, 204))

    def delete_all(self, keys: Sequence[str]) -> list[str]:
        """Delete at most 1,000 objects by one request; return the keys that could not be deleted.

        Raises `OSError` if the request fails.
        """
        from base64 import b64encode
        from hashlib import md5

        inner = "".join(f"<Object><Key>{escape(each)}</Key></Object>" for each in keys)
        body = f'<Delete xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Quiet>true</Quiet>{inner}</Delete>'
        data = body.encode()
        headers = {
            "content-md5": b64encode(md5(data, usedforsecurity=False).digest()).decode(),
            "content-type": "application/xml",
        }
        answer = self._send("POST", "", {"delete": ""}, headers, data, body=body)
        root = parse_xml(self._check_status("POST", "", answer, (200,)).data, "DeleteResult")
        failed = {text_in(each, "Key") for each in all_in(root, "Error")}
        return [each for each in keys if each in failed]

    def pages(self, prefix: str, delimiter: str = "", after: str = "") -> Iterator[tuple[list[S3Object], list[str]]]:
        """Yield pages of a listing: the objects whose keys start with `prefix`, and the common prefixes.

        `delimiter` groups keys by the text up to it after `prefix`. The listing starts after the key `after`. Raises
        `OSError`.
        """
        query = {"list-type": "2", "encoding-type": "url", "max-keys": str(_PAGE), "prefix": prefix}
        query |= {name: value for name, value in (("delimiter", delimiter), ("start-after", after)) if value}
        while True:
            root = parse_xml(
                self._check_status("GET", prefix, self._send("GET", "", query), (200,)).data, "ListBucketResult"
            )
            yield keys_in(root), prefixes_in(root)
            token = text_in(root, "NextContinuationToken")
            if text_in(root, "IsTruncated") != "true":
                return
            if not token or token == query.get("continuation-token"):
                raise OSError(
                    f"GET {self._uri(prefix)}: the listing is truncated, but the store returned no token to continue"
                )
            query["continuation-token"] = token

    def begin(self, key: str) -> str:
        """Start a multipart upload of the object `key`, and return the upload's id."""
        answer = self._check_status("POST", key, self._send("POST", key, {"uploads": ""}), (200,))
        return text_in(parse_xml(answer.data, "InitiateMultipartUploadResult"), "UploadId")

    def put_part(self, key: str, upload: str, number: int, data: bytes) -> str:
        """Upload a part (`number` from 1) of the multipart upload with the id `upload`, and return its ETag."""
        query = {"partNumber": str(number), "uploadId": upload}
        answer = self._check_status("PUT", key, self._send("PUT", key, query, data=data), (200,))
        return answer.headers.get("etag", "")

    def complete(self, key: str, upload: str, tags: Sequence[str], size: int) -> None:
        """Complete a multipart upload from the ETags of its parts; raises `OSError`.

        After an error, the object is looked up: if it has this size and number of parts, the upload was completed.
        """
        parts = "".join(
            f"<Part><PartNumber>{number}</PartNumber><ETag>{escape(tag)}</ETag></Part>"
            for number, tag in enumerate(tags, 1)
        )
        data = f"<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>".encode()
        try:
            answer = self._check_status("POST", key, self._send("POST", key, {"uploadId": upload}, data=data), (200,))
            parse_xml(answer.data, "CompleteMultipartUploadResult")  # errors also have status 200
        except OSError:
            if not self._is_there(key, size, len(tags)):
                raise

    def abort(self, key: str, upload: str) -> None:
        """Abort the multipart upload with the id `upload`, so that its parts are deleted. A refusal is ignored."""
        self._send("DELETE", key, {"uploadId": upload})

    def _is_there(self, key: str, size: int, parts: int) -> bool:
        """Return whether the object has this size and number of parts, as after an upload; False if unclear."""
        try:
            headers = self.head(key).headers
        except OSError:
            return False
        is_of_parts = headers.get("etag", "").strip('"').endswith(f"-{parts}")
        return is_of_parts and headers.get("content-length") == str(size)

    def _range_of(self, key: str, answer: S3Response) -> tuple[int, int]:
        """Return the offset of a range response, and the object's size; raises `OSError` if they are missing."""
        match = _CONTENT_RANGE.fullmatch(answer.headers.get("content-range", ""))
        if match is None:
            raise OSError(f"GET {self._uri(key)}: the answer to a range request lacks its range")
        return int(match[1]), int(match[3])

    def _uri(self, key: str) -> str:
        return f"{self._root}{self._base}/{quote(key, safe=_SAFE + '/')}"

    def _send(
        self,
        method: str,
        key: str,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        data: bytes = b"",
        *,
        body: str | None = None,
        most: int = MOST_TEXT,
    ) -> S3Response:
        """Send a signed request with retries, and return the response of any status.

        `data` is the body to send, and `body` its part that the signer must see. A response of more than `most` bytes
        has no data, or raises `LimitExceeded` if it did not declare its length. Raises `UnknownOutcome` without a
        response, and the errors of `Signatures.sign_request`.
        """
        pairs = [
            f"{_percent_encode(name)}={_percent_encode(value)}" if value else name
            for name, value in (query or {}).items()
        ]
        request = S3Request(method, self._uri(key) + (f"?{'&'.join(pairs)}" if pairs else ""), headers or {}, body)
        attempts, fresh = Attempts(_POLICY), False
        while True:
            signed = self._signatures.sign_request(request, fresh=fresh)
            try:
                answer = self._answer(method, signed.target, signed.headers, data, most)
            except _failures() as error:
                if not attempts.wait():
                    what = f"{method} {request.place}: no answer: {type(error).__name__}: {error}"
                    raise UnknownOutcome(what) from error
                continue
            if answer.status == 403 and signed.is_kept:
                fresh = True  # the cached signature is too old, or covers more than it lists
            elif answer.status not in _NOT_OBEYED or not attempts.wait():
                return answer

    def _answer(self, method: str, target: str, headers: Mapping[str, str], data: bytes, most: int) -> S3Response:
        arguments: dict[str, Any] = {
            "body": data if data or method in ("PUT", "POST") else None,
            "headers": dict(headers),
            "redirect": False,
            "retries": False,
            "preload_content": False,
            "decode_content": False,
        }
        pool, is_proxy = self._connections()
        response = pool.urlopen(method, f"{self._root}{target}" if is_proxy else target, **arguments)
        try:
            found = {name.lower(): value for name, value in response.headers.items()}
            if method == "HEAD":
                return S3Response(response.status, found, b"")
            length, is_good = found.get("content-length", ""), response.status < 300
            if is_good and length.isdecimal() and int(length) > most:
                response.close()  # skip the unwanted data
                return S3Response(response.status, found, b"")
            limit = most if is_good else _MOST_OF_ERROR
            read = response.read(limit + 1)
            if len(read) > limit:
                response.close()
                if is_good:
                    raise LimitExceeded(f"{method} {self._root}{target.partition('?')[0]}: more than {most:,} bytes")
            return S3Response(response.status, found, read[:limit])
        finally:
            response.release_conn()

    def _connections(self) -> tuple[Any, bool]:
        """Return this process's connection pool, and whether it is one to a proxy. Pools do not survive a fork."""
        if self._pool is None or self._pool[0] != os.getpid():
            self._pool = os.getpid(), _pool(self._root, self._arguments)
        return self._pool[1]

    def _check_status(self, method: str, key: str, answer: S3Response, statuses: Sequence[int]) -> S3Response:
        """Return the response if it has one of these statuses.

        Otherwise raises `FileNotFoundError` (404), `PermissionError` (401, 403), or `OSError`.
        """
        if answer.status not in statuses:
            raise self._refusal(method, key, answer)
        return answer

    def _refusal(self, method: str, key: str, answer: S3Response) -> OSError:
        code, message = parse_error(answer)
        what = f"{method} {self._uri(key)}: {f'{code}: {message}. ' if code else ''}HTTP status code {answer.status}"
        if answer.status == 404 and code != "NoSuchBucket":
            return FileNotFoundError(what)
        return PermissionError(what) if answer.status in (401, 403) else OSError(what)


def _failures() -> tuple[type[Exception], ...]:
    from urllib3.exceptions import HTTPError

    return HTTPError, ConnectionError, TimeoutError


def _pool(root: str, arguments: Mapping[str, Any]) -> tuple[Any, bool]:
    import urllib3

    options: dict[str, Any] = {
        "maxsize": _CONNECTIONS,
        "timeout": urllib3.Timeout(arguments.get("connect_timeout", 10), arguments.get("request_timeout", 60)),
    }
    if root.startswith("https:"):
        options["ca_certs"] = arguments.get("tls_ca_file_path") or os.environ.get("AWS_CA_BUNDLE") or _certificates()
    if (proxy := arguments.get("proxy_options")) is not None:
        return urllib3.ProxyManager(str(proxy), **options), True
    return urllib3.PoolManager(**options).connection_from_url(root), False


def _certificates() -> str | None:
    try:
        from certifi import where
    except ImportError:
        return None
    return str(where())


def _address(bucket: str, arguments: Mapping[str, Any]) -> tuple[str, str]:
    """Return the URL of a bucket's host, and the path of its keys there, like Arrow's own client.

    Raises `LocationRefused` for a host that hands out a machine's credentials.
    """
    endpoint, virtual = arguments.get("endpoint_override"), bool(arguments.get("force_virtual_addressing"))
    region = str(arguments.get("region") or "us-east-1")
    if endpoint is None:
        host, path = f"s3.{region}.amazonaws.com{'.cn' if region.startswith('cn-') else ''}", ""
        virtual = "." not in bucket and arguments.get("force_virtual_addressing") is not False
        scheme = str(arguments.get("scheme", "https"))
    else:
        scheme, separator, rest = str(endpoint).rpartition("://")
        scheme = str(arguments.get("scheme") or scheme or "https") if not separator else scheme
        host, _, path = rest.partition("/")
    if hands_out_credentials(host):
        raise LocationRefused(f"the endpoint {host} hands out credentials of this machine: no requests are sent there")
    base = f"/{path.strip('/')}" if path.strip("/") else ""
    return (f"{scheme}://{bucket}.{host}", base) if virtual else (f"{scheme}://{host}", f"{base}/{bucket}")


def _percent_encode(text: str) -> str:
    return quote(text, safe=_SAFE)
