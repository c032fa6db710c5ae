"""Open metadata files: bytes -> JSON object, decompressed within limits and parsed strictly."""

from __future__ import annotations

import json
import zlib
from typing import NoReturn

import pyarrow as pa

from lakescan import limits
from lakescan.errors import LimitExceeded, NotEnoughMemory
from lakescan.iceberg.metadata.json_node import Node, fault
from lakescan.storage.faults import error_text, redact

_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_PIECE = 1 << 20
_MEMBERS = 64  # maximum members of a gzip file; writers create one


def read_document(data: bytes, source: str) -> Node:
    """Parse a metadata file, plain or compressed with gzip or zstd. `source` names the file in errors.

    Raises `CorruptMetadata` for a file that is not a JSON object, `LimitExceeded` past `limits.METADATA` bytes.
    """
    text = decompress(data, source)
    try:
        node = json.loads(text, parse_constant=_no_number)
    except RecursionError:
        raise fault(source, "its JSON is nested too deeply") from None
    except MemoryError as error:
        raise NotEnoughMemory(f"{redact(source)}: its JSON does not fit into memory") from error
    except ValueError as error:  # not JSON, not Unicode, or a number with thousands of digits
        raise fault(source, f"it is not valid JSON: {error_text(error)}") from error
    if not isinstance(node, dict) or "format-version" not in node:
        raise fault(source, "it is not Iceberg table metadata: it has no format-version")
    return Node(node, source)


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a JSON number")


def decompress(data: bytes, source: str) -> bytes:
    """Decompress a file; the first bytes tell the compression, whatever the file name."""
    try:
        if data.startswith(_GZIP):
            return _gunzip(data, source)
        if data.startswith(_ZSTD):
            return _unzstd(data, source)
    except (zlib.error, EOFError, OSError, pa.ArrowException) as error:
        raise fault(source, f"it cannot be decompressed: {error_text(error)}") from error
    return data


def _gunzip(data: bytes, source: str) -> bytes:
    """Decompress all members of a gzip file; trailing zero bytes are padding."""
    text, left = b"", limits.METADATA
    for _ in range(_MEMBERS):
        if not data.strip(b"\x00"):
            return text
        member = zlib.decompressobj(31)
        piece = member.decompress(data, left + 1)
        if len(piece) > left:
            raise _too_large(source)
        if not member.eof:
            raise EOFError("it is truncated")
        text, left, data = text + piece, left - len(piece), member.unused_data
    raise EOFError(f"it has more than {_MEMBERS} gzip members")


def _unzstd(data: bytes, source: str) -> bytes:
    stream, pieces, size = pa.CompressedInputStream(pa.BufferReader(data), "zstd"), [], 0
    while piece := stream.read(_PIECE):
        pieces.append(piece)
        size += len(piece)
        if size > limits.METADATA:
            raise _too_large(source)
    return b"".join(pieces)


def _too_large(source: str) -> LimitExceeded:
    return LimitExceeded(
        f"{redact(source)} exceeds the limit of {limits.METADATA:,} decompressed bytes. If the file is valid, raise "
        "lakescan.limits.METADATA."
    )
