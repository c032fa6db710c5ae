"""Open Avro container files: header and blocks, decompressed within limits, without decoding records.

Avro specification, "Object Container Files": magic, a metadata map, a sync marker; then blocks, each of a row count, a
size in bytes, the data, and the marker again. For files that are decoded together, the row counts tell which row
belongs to which file. Counts that exceed what the bytes can hold are refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from lakescan import limits
from lakescan.errors import CorruptMetadata, LimitExceeded
from lakescan.reading.avro.codecs import TooLarge, check_codec, decompress_block
from lakescan.reading.avro.schema import WrittenSchema, parse_avro_schema
from lakescan.storage.faults import redact

MAGIC = b"Obj\x01"
_SYNC = 16
_NUMBER = 10  # maximum bytes of an encoded number
_HEADER = 1000  # maximum entries in a header


@dataclass(frozen=True)
class Container:
    """The decompressed blocks of a file, the number of its records, and its header.

    `size` is the file's size in bytes. `body` is the offset of the 16-byte sync marker that precedes the blocks.
    """

    blocks: tuple[bytes, ...]
    source: str
    metadata: Mapping[str, bytes]
    rows: int
    written: WrittenSchema
    size: int
    body: int

    @property
    def records(self) -> bytes:
        """The bytes of all records, concatenated."""
        return b"".join(self.blocks)

    @property
    def schema(self) -> bytes:
        """The writer's schema, as JSON text."""
        return self.metadata["avro.schema"]


def group_by_schema(files: Sequence[Container]) -> list[list[int]]:
    """Group consecutive files with the same schema (as indexes): each group can be decoded together, in order."""
    return [[i for i, _ in run] for _, run in groupby(enumerate(files), key=lambda each: each[1].schema)]


def open_container(data: bytes, source: str) -> Container:
    """Read the header and decompress all blocks. `source` names the file in errors.

    Raises `CorruptMetadata` for a file that is not Avro, is truncated, or claims more rows than its bytes can hold;
    `UnsupportedFeature` for an unknown codec; `LimitExceeded` past `limits.AVRO_BLOCK` or `limits.AVRO_FILE`.
    """
    try:
        return _parse_container(data, source)
    except TooLarge:
        raise LimitExceeded(
            f"{redact(source)} exceeds the decompressed size limits of {limits.AVRO_BLOCK:,} bytes per block or "
            f"{limits.AVRO_FILE:,} per file. If the file is valid, raise lakescan.limits.AVRO_BLOCK or AVRO_FILE."
        ) from None
    except IndexError:
        problem = "it is truncated"
    except (ValueError, UnicodeDecodeError) as error:
        problem = str(error)
    raise CorruptMetadata(
        f"{redact(source)} is not a valid Avro file: {problem}. Restore the file, or read an older snapshot."
    )


def _parse_container(data: bytes, source: str) -> Container:
    if not data.startswith(MAGIC):
        raise ValueError("it does not begin with 'Obj'" if data else "it is empty")
    metadata, at = _metadata(data, len(MAGIC))
    if "avro.schema" not in metadata:
        raise ValueError("its header has no schema")
    written = parse_avro_schema(metadata["avro.schema"])
    codec = metadata.get("avro.codec", b"null").decode()
    check_codec(codec, source)
    body, sync, at = at, data[at : at + _SYNC], at + _SYNC
    if len(sync) < _SYNC:
        raise ValueError("its header is truncated")
    blocks: list[bytes] = []
    rows, left = 0, limits.AVRO_FILE
    while at < len(data):
        count, at = _number(data, at)
        size, at = _number(data, at)
        end = at + size
        if count < 0 or size < 0 or data[end : end + _SYNC] != sync:
            raise ValueError(f"the block that begins before byte {at:,} does not end with the file's marker")
        block = decompress_block(codec, data[at:end], min(left, limits.AVRO_BLOCK))
        if count and (not written.least or count > len(block) // written.least):
            raise ValueError(f"the block that begins before byte {at:,} has {len(block):,} bytes for {count:,} records")
        blocks.append(block)
        rows, left, at = rows + count, left - len(block), end + _SYNC
    return Container(tuple(blocks), source, metadata, rows, written, len(data), body)


def _metadata(data: bytes, at: int) -> tuple[dict[str, bytes], int]:
    """Read a map of bytes: blocks of a count (if negative, followed by a size) and pairs, up to an empty block."""
    entries: dict[str, bytes] = {}
    while True:
        count, at = _number(data, at)
        if count == 0:
            return entries, at
        if count < 0:
            _, at = _number(data, at)
        if abs(count) > _HEADER - len(entries):
            raise ValueError(f"its header claims {abs(count):,} entries; at most {_HEADER:,} are allowed")
        for _ in range(abs(count)):
            key, at = _bytes(data, at)
            value, at = _bytes(data, at)
            entries[key.decode()] = value


def _bytes(data: bytes, at: int) -> tuple[bytes, int]:
    size, at = _number(data, at)
    if size < 0 or at + size > len(data):
        raise ValueError("a string in its header is truncated")
    return data[at : at + size], at + size


def _number(data: bytes, at: int) -> tuple[int, int]:
    """Decode a zigzag varint; returns the number and the offset after it."""
    value = 0
    for place in range(_NUMBER):
        byte = data[at + place]
        value |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at + place + 1
    raise ValueError(f"the number at byte {at:,} is longer than {_NUMBER} bytes")


def encode_bytes(value: bytes) -> bytes:
    """Encode bytes or a text: its length, then itself."""
    return encode_number(len(value)) + value


def encode_number(value: int) -> bytes:
    """Encode a number of 64 bits as a zigzag varint."""
    value, encoded = value << 1 ^ value >> 63, bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded, value])
