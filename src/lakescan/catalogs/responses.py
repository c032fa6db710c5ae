"""Reading of catalog responses: limits of their size, and errors for responses and metadata that cannot be read."""

from __future__ import annotations

import json
import logging
import re
import time
import zlib
from collections.abc import Iterator
from io import BytesIO
from types import TracebackType
from typing import Any

from lakescan import limits
from lakescan.common.secrets import iter_causes
from lakescan.errors import CorruptMetadata, LimitExceeded, StorageError
from lakescan.storage.errors import redact

_REQUESTS = logging.getLogger("lakescan.requests")
_MOST = 3  # faults listed in a message
_LONGEST = 600  # seconds for the body of a response, since a server may send one byte per minute forever
_CHUNK = 2**16  # bytes
_UNKNOWN_TYPE = re.compile(r"Unsupported field type: '([^']+)'|Could not parse (.+?) into a Geo")
_PARSERS = {"pyiceberg.table.metadata", "pyiceberg.view.metadata", "pyiceberg.utils.properties"}


def response_json(response: Any) -> Any:
    """Parse the JSON of a `requests` response; raises `ValueError` if it is not JSON or is nested too deeply."""
    try:
        return response.json()
    except RecursionError:
        raise ValueError("its JSON is nested too deeply") from None


def log_response(response: Any, *_: Any, **__: Any) -> None:
    """Log a request as a DEBUG line of `lakescan.requests`, without its query. A response hook of `requests`."""
    if _REQUESTS.isEnabledFor(logging.DEBUG):
        url, seconds = redact(response.url.partition("?")[0]), response.elapsed.total_seconds()
        _REQUESTS.debug("%s %s: status %d (%.3f s)", response.request.method, url, response.status_code, seconds)


def limit_answer(response: Any, *_: Any, **__: Any) -> None:
    """Limit the size and duration of a response's body. A response hook of `requests`, called before the body is read.

    Reading raises `LimitExceeded` for more than `limits.ANSWER` decompressed bytes, and `StorageError` after ten
    minutes.
    """
    response.raw = _LimitedBody(response.raw, f"{response.request.method} {response.url.partition('?')[0]}")


class _LimitedBody:
    """Wraps the body of a urllib3 response, and enforces the limits while it is read."""

    def __init__(self, body: Any, request: str) -> None:
        self._body, self._request = body, request

    def __getattr__(self, name: str) -> Any:
        return getattr(self._body, name)

    def stream(self, size: int = _CHUNK, decode_content: bool = True) -> Iterator[bytes]:
        """Yield the body in chunks as they arrive; raises the errors of `limit_answer`."""
        total, end = 0, time.monotonic() + _LONGEST
        for chunk in self._chunks(max(size, _CHUNK), decode_content):
            total += len(chunk)
            if total > limits.ANSWER:
                self._body.close()
                raise LimitExceeded(
                    f"the answer to {self._request} has more than {limits.ANSWER:,} decompressed bytes. If this size "
                    "is expected, raise lakescan.limits.ANSWER."
                )
            if time.monotonic() > end:
                self._body.close()
                raise StorageError(f"the answer to {self._request} has not arrived within {_LONGEST} seconds")
            yield chunk

    def _chunks(self, size: int, decode_content: bool) -> Iterator[bytes]:
        if not hasattr(self._body, "read1"):  # older releases of urllib3 wait for whole chunks
            yield from self._body.stream(size, decode_content)
            return
        while chunk := self._body.read1(size, decode_content=decode_content):
            yield chunk


def parse_failure(error: BaseException) -> str | None:
    """Describe why pyiceberg could not parse a response or a file; None if the error has another cause.

    pyiceberg does not translate the errors of its parsers: pydantic, JSON, UTF-8 decoding and decompression.
    """
    kinds = [f"{kind.__module__.partition('.')[0]}.{kind.__name__}" for kind in type(error).__mro__]
    if "pydantic_core.ValidationError" in kinds:
        return "; ".join(_faults(error))
    if "pyiceberg.ValidationError" in kinds:
        return (None if error.__cause__ is None else parse_failure(error.__cause__)) or str(error)
    if isinstance(error, AttributeError | KeyError | TypeError) and _origin_module(error) in _PARSERS:
        return f"{type(error).__name__} in {_origin_module(error)}: {error}"
    if isinstance(error, json.JSONDecodeError):
        return f"it is not JSON: {error}"
    if isinstance(error, UnicodeDecodeError):
        return "it is not text in UTF-8"
    return f"it is damaged: {error}" if isinstance(error, zlib.error | EOFError) else None


def drop_pydantic_causes(error: BaseException) -> None:
    """Remove pydantic errors from the causes of an error: they quote the server's response, which has secrets."""
    for each in iter_causes(error):
        if type(each.__cause__).__module__ == "pydantic_core._pydantic_core":
            object.__setattr__(each, "__cause__", None)
        if type(each.__context__).__module__ == "pydantic_core._pydantic_core":
            object.__setattr__(each, "__context__", None)


def unknown_type(error: BaseException) -> str | None:
    """Return the column type that pyiceberg does not support, if it is the cause of the error; else None."""
    match = _UNKNOWN_TYPE.search(parse_failure(error) or "")
    return None if match is None else match[1] or match[2]


def config_failure(error: BaseException) -> str | None:
    """Describe why pyiceberg failed on a REST server's configuration while opening a catalog; None for other errors.

    pyiceberg does not check the types of the configuration's members, but fails when it uses them.
    """
    at = error.__traceback__
    while at is not None:
        if isinstance(error, AttributeError | TypeError) and _module_of(at).startswith("pyiceberg.catalog.rest"):
            return f"{type(error).__name__}: {error}"
        at = at.tb_next
    return None


def config_error(catalog: str, why: str) -> CorruptMetadata:
    """Return the error for an unreadable response of a REST catalog's server to `GET v1/config`."""
    return CorruptMetadata(
        f"catalog {catalog!r} cannot be opened: the answer of its server to GET v1/config cannot be read: {why}"
    )


def _origin_module(error: BaseException) -> str:
    """Return the name of the module whose code raised an error; empty without a traceback."""
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    return "" if at is None else _module_of(at)


def _module_of(at: TracebackType) -> str:
    return str(at.tb_frame.f_globals.get("__name__", ""))


def check_readable(text: bytes, location: str) -> None:
    """Raise `CorruptMetadata` if pyiceberg cannot read the bytes `text` of the metadata file at `location`.

    The file's suffix in `location` decides whether it is compressed.
    """
    from pyiceberg.serializers import Compressor, FromByteStream

    try:
        stream: Any = BytesIO(text)
        FromByteStream.table_metadata(stream, compression=Compressor.get_compressor(location))
    except Exception as error:
        why = parse_failure(error) or str(error)
        raise CorruptMetadata(
            f"{location} cannot be registered: pyiceberg, lakescan's catalog client, cannot read it: {why}. Register "
            "it with another engine and rewrite it there, or read it here by its location."
        ) from error


def _faults(error: Any) -> Iterator[str]:
    found = error.errors(include_url=False, include_context=False, include_input=False)
    for each in found[:_MOST]:
        where = ".".join(map(str, each["loc"]))
        yield f"{where}: {each['msg']}" if where else each["msg"]
    if len(found) > _MOST:
        yield f"and {len(found) - _MOST} more"
