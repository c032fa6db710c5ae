"""The frame of an Avro file: its header and blocks, unpacked within limits, without decoding a record.

Avro specification, "Object Container Files": magic, a map of metadata, a sync marker; then blocks of a row count, a
size in bytes, so many bytes, and the marker again. Files that are decoded together give rows in a row: the counts tell
which row is of which file. No count is believed that the bytes could not hold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from lakescan import limits
from lakescan.errors import CorruptMetadata, LimitExceeded
from lakescan.reading.avro.codecs import TooLarge, check_codec, unpacked
from lakescan.reading.avro.schema import WrittenSchema, parse_avro_schema
from lakescan.storage.faults import shown

_MAGIC = b"Obj\x01"
_SYNC = 16
_NUMBER = 10  # bytes of the longest number
_HEADER = 1000  # entries of a header


@dataclass(frozen=True)
class Container:
    """The records of a file as bytes, unpacked block by block, with their number, and what the file's header says.

    `size` is the file's own, in bytes; its blocks come after the 16 bytes of the marker at `body`.
    """

    blocks: tuple[bytes, ...]
    source: str
    metadata: Mapping[str, bytes]
    rows: int
    written: WrittenSchema
    size: int
    body: int

    def as_file(self, schema: bytes) -> bytes:
        """A file of one block of these records, under a schema that describes the same bytes."""
        size = sum(map(len, self.blocks))
        block = [_encoded_number(self.rows), _encoded_number(size), *self.blocks, bytes(_SYNC)]
        header = [_MAGIC, b"\x02", _encoded(b"avro.schema"), _encoded(schema), b"\x00", bytes(_SYNC)]
        return b"".join(header + block if self.rows else header)

    @property
    def records(self) -> bytes:
        """All records in a row."""
        return b"".join(self.blocks)

    @property
    def schema(self) -> bytes:
        """The writer's schema, as JSON text."""
        return self.metadata["avro.schema"]


def of_one_schema(files: Sequence[Container]) -> list[list[int]]:
    """Runs of files that have the same schema, by number: they can be decoded together, and their order stays."""
    return [[i for i, _ in run] for _, run in groupby(enumerate(files), key=lambda each: each[1].schema)]


def open_container(data: bytes, source: str) -> Container:
    """Read the frame and unpack its blocks. One step a block.

    Raises `CorruptMetadata` for what is not Avro, breaks off, or says more rows than its bytes can hold;
    `UnsupportedFeature` for an unknown codec; `LimitExceeded` past `limits.AVRO_BLOCK` or `limits.AVRO_FILE`.
    """
    try:
        return _opened(data, source)
    except TooLarge:
        raise LimitExceeded(
            f"{shown(source)} unpacks to more than is taken: {limits.AVRO_BLOCK:,} bytes a block, {limits.AVRO_FILE:,} "
            "in all. If the file is what it should be, raise lakescan.limits.AVRO_BLOCK or AVRO_FILE."
        ) from None
    except IndexError:
        problem = "it breaks off"
    except (ValueError, UnicodeDecodeError) as error:
        problem = str(error)
    raise CorruptMetadata(
        f"{shown(source)} is not an Avro file that can be read: {problem}. Restore the file, or read an older snapshot."
    )


def _opened(data: bytes, source: str) -> Container:
    if not data.startswith(_MAGIC):
        raise ValueError("it does not begin with 'Obj'" if data else "it is empty")
    metadata, at = _metadata(data, len(_MAGIC))
    if "avro.schema" not in metadata:
        raise ValueError("its header has no schema")
    written = parse_avro_schema(metadata["avro.schema"])
    codec = metadata.get("avro.codec", b"null").decode()
    check_codec(codec, source)
    body, sync, at = at, data[at : at + _SYNC], at + _SYNC
    if len(sync) < _SYNC:
        raise ValueError("its header breaks off")
    blocks: list[bytes] = []
    rows, left = 0, limits.AVRO_FILE
    while at < len(data):
        count, at = _number(data, at)
        size, at = _number(data, at)
        end = at + size
        if count < 0 or size < 0 or data[end : end + _SYNC] != sync:
            raise ValueError(f"the block that begins before byte {at:,} does not end with the file's marker")
        block = unpacked(codec, data[at:end], min(left, limits.AVRO_BLOCK))
        if count and (not written.least or count > len(block) // written.least):
            raise ValueError(f"the block that begins before byte {at:,} has {len(block):,} bytes for {count:,} records")
        blocks.append(block)
        rows, left, at = rows + count, left - len(block), end + _SYNC
    return Container(tuple(blocks), source, metadata, rows, written, len(data), body)


def _metadata(data: bytes, at: int) -> tuple[dict[str, bytes], int]:
    """A map of bytes: blocks of a count (negative, then with a size) and so many pairs, up to an empty one."""
    found: dict[str, bytes] = {}
    while True:
        count, at = _number(data, at)
        if count == 0:
            return found, at
        if count < 0:
            _, at = _number(data, at)
        if abs(count) > _HEADER - len(found):
            raise ValueError(f"its header says that it has {abs(count):,} entries")
        for _ in range(abs(count)):
            key, at = _bytes(data, at)
            value, at = _bytes(data, at)
            found[key.decode()] = value


def _bytes(data: bytes, at: int) -> tuple[bytes, int]:
    size, at = _number(data, at)
    if size < 0 or at + size > len(data):
        raise ValueError("a text of its header is cut off")
    return data[at : at + size], at + size


def _number(data: bytes, at: int) -> tuple[int, int]:
    """A zigzag number of seven bits a byte, and where it ends."""
    value = 0
    for place in range(_NUMBER):
        byte = data[at + place]
        value |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at + place + 1
    raise ValueError(f"the number at byte {at:,} is longer than {_NUMBER} bytes")


def _encoded(value: bytes) -> bytes:
    return _encoded_number(len(value)) + value


def _encoded_number(value: int) -> bytes:
    """A number that is not negative, zigzag, seven bits a byte."""
    value, found = value << 1, bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])
