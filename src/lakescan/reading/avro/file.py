"""Avro data and delete files, read by blocks. They have no footer, so rows are counted while blocks are read."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, BinaryIO

import fastavro
import pyarrow as pa

from lakescan import limits
from lakescan.common.polars_columns import polars_for
from lakescan.errors import LimitExceeded
from lakescan.reading.avro.codecs import TooLarge, check_codec, decompress_block
from lakescan.reading.avro.columnar import (
    NotColumnar,
    apply_logical_types,
    columnar_decoder,
    decode_columns,
    encode_varint,
    is_columnar,
    physical_schema,
)
from lakescan.reading.avro.schema import WrittenSchema, arrow_field, column, parse_avro_schema
from lakescan.reading.decoding_errors import decoding
from lakescan.reading.field_ids import FileField
from lakescan.reading.projection import Projection
from lakescan.reading.record_batches import batch_of
from lakescan.storage import Storage
from lakescan.storage.encrypted_files import open_stream
from lakescan.storage.encryption import FileKey
from lakescan.storage.errors import redact

_BUFFER = 1 << 16  # bytes of a read while blocks are skipped
_REMOTE_BUFFER = 1 << 23  # the same for remote files, where each read is a request


@dataclass(frozen=True)
class AvroData:
    """An open Avro data or delete file (`DataFile`). Its chunks are byte offsets.

    A block belongs to the offset where the preceding sync marker, of the header or of the previous block, starts.
    """

    blocks: AvroBlocks
    schema: pa.Schema
    path: str

    @property
    def rows(self) -> int | None:
        """The row count; None until the last block was read or skipped."""
        return self.blocks.rows

    def chunks(self, start: int, stop: int) -> Sequence[int]:
        """Return the byte offsets of the file in [start, stop), as a range; see `AvroData`."""
        return range(start, min(stop, self.blocks.size))

    def batches(
        self, chunks: Sequence[int], projection: Projection, batch_size: int
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield the file position of the first row, and a batch of the projection's columns.

        `chunks` is a range of byte offsets. Raises `CorruptData` if a block cannot be decoded, or its row count differs
        from the one it declares, and `LimitExceeded` for a block that is too large.
        """
        if not chunks:
            return
        fields = [_prune_members(self.schema.field(each.index), each) for each in projection.read]
        schema = pa.schema(fields)
        with decoding(self.path, "a block"):
            columns = BlockDecoder(self.blocks.record, self.blocks.schema.least, fields)
            for first, rows, arrays in columns.batches(self.blocks.read_blocks(chunks[0], chunks[-1] + 1)):
                batch = batch_of(arrays, schema, rows)
                for start in range(0, rows, batch_size):
                    yield first + start, batch.slice(start, batch_size)


def _prune_members(field: pa.Field, read: FileField) -> pa.Field:
    """Return an Arrow field with only those struct members that are read. Other members are not converted."""
    if not pa.types.is_struct(field.type):
        return field
    return field.with_type(pa.struct([_prune_members(field.type.field(each.index), each) for each in read.children]))


@contextmanager
def open_avro(storage: Storage, path: str, key: FileKey | None = None) -> Iterator[AvroData]:
    """Context manager: open a data or delete file, decrypted with `key` if it is not None.

    Raises `MissingFile`, `CorruptData` if it is not Avro, and `UnsupportedFeature` for its codec or a union type.
    """
    with open_stream(storage, path, key) as handle:
        with decoding(path, "its header"):
            size = int(handle.size())
            buffer = _REMOTE_BUFFER if storage.is_remote(path) else _BUFFER
            blocks = open_blocks(io.BufferedReader(handle, max(1, min(buffer, size))), path, size)
            schema = pa.schema([arrow_field(f) for f in blocks.record["fields"]])
        yield AvroData(blocks, schema, path)


# Both decoders read the same physical values (see `physical_schema`), and return the same columns. The columnar one is
# tried first, if it is installed and there is enough to read. If it fails, fastavro decodes the records, or raises the
# error.

_TOGETHER = 1 << 22  # bytes of blocks that are decoded together
_WORK = 16  # decoding a byte takes as much time as processing so many bytes of Arrow arrays


@dataclass
class BlockDecoder:
    """Decodes the columns `fields` of the records of the schema `record`, whose minimum size is `least` bytes.

    The types of `fields` (from `arrow_field`) may lack struct members. `columnar` selects the columnar decoder (True)
    or fastavro (False). By default, the amount of data decides.
    """

    record: Mapping[str, Any]
    least: int
    fields: Sequence[pa.Field]
    columnar: bool | None = None
    _failed: bool = field(default=False, init=False)

    def batches(self, blocks: Iterator[Block]) -> Iterator[tuple[int, int, list[pa.Array]]]:
        """Yield the file position of the first row, the number of rows and the columns, for groups of blocks.

        Without `fields`, the columns are empty. Raises `ValueError`, or errors of pyarrow and fastavro, for records
        that do not match their schema or number.
        """
        for some in _group_blocks(blocks):
            rows = sum(block.rows for block in some)
            records = [block.data for block in some]
            yield some[0].first_row, rows, self._decode(rows, records) if self.fields else []

    def _decode(self, rows: int, records: list[bytes]) -> list[pa.Array]:
        if self._is_columnar(sum(map(len, records))):
            try:
                return self._convert(self._decode_columnar(rows, records))
            except (NotColumnar, ValueError, pa.ArrowException):
                if self.columnar:
                    raise
                self._failed = True
        return self._convert(self._decode_records(rows, b"".join(records)))

    def _is_columnar(self, size: int) -> bool:
        if self.columnar is not None:
            return self.columnar
        if self._failed or not self.least or not is_columnar(self._physical_schema):
            return False
        return polars_for(_WORK * size) is not None and columnar_decoder() is not None

    def _decode_columnar(self, rows: int, records: list[bytes]) -> list[pa.Array]:
        names = [self._physical_schema["fields"][n]["name"] for n in self._places]
        (batch,) = decode_columns(self._physical_schema, rows, records, names, rows + 1)
        return [batch.column(name) for name in names]

    def _decode_records(self, rows: int, records: bytes) -> list[pa.Array]:
        file = io.BytesIO(encode_varint(rows) + records + b"\x00")  # as one array, which must use all bytes
        decoded: Any = fastavro.schemaless_reader(file, self._array, None)
        if len(decoded) != rows or file.tell() != len(file.getbuffer()):
            raise ValueError(f"a block has extra bytes after its {rows:,} records")
        stored = [self._physical_schema["fields"][n] for n in self._places]
        return [column([row[each["name"]] for row in decoded], arrow_field(each).type) for each in stored]

    def _convert(self, arrays: list[pa.Array]) -> list[pa.Array]:
        types = [self.record["fields"][n]["type"] for n in self._places]
        return [
            apply_logical_types(array, node, each.type)
            for array, node, each in zip(arrays, types, self.fields, strict=True)
        ]

    @cached_property
    def _places(self) -> list[int]:
        place = {each["name"]: n for n, each in enumerate(self.record["fields"])}
        return [place[each.name] for each in self.fields]

    @cached_property
    def _physical_schema(self) -> dict[str, Any]:
        return physical_schema(self.record)

    @cached_property
    def _array(self) -> Any:
        """fastavro's schema of an array of the physical records, as which a group of blocks is decoded."""
        return fastavro.parse_schema({"type": "array", "items": self._physical_schema})


def _group_blocks(blocks: Iterator[Block]) -> Iterator[list[Block]]:
    """Yield lists of consecutive non-empty blocks, each of at least 4 MiB except the last.

    Raises `ValueError` for a block that has bytes, but declares no records.
    """
    some: list[Block] = []
    size = 0
    for block in blocks:
        if block.rows:
            some.append(block)
            size += len(block.data)
        elif block.data:
            raise ValueError(f"a block without records has {len(block.data):,} bytes")
        if size >= _TOGETHER:
            yield some
            some, size = [], 0
    if some:
        yield some


# Avro specification, "Object Container Files": magic, metadata map, sync marker; then blocks of a row count, a size in
# bytes, the data, and the sync marker again. A file truncated between two blocks cannot be detected here.

_MAGIC = b"Obj\x01"
_MARKER = 16
_NUMBER = 10  # maximum bytes of a varint
_HEADER = 1000  # maximum entries in a header
_DEPTH = 100  # maximum nesting of a row schema
_OF_NOTHING = 1 << 20  # maximum rows in a block if a row may take no bytes


@dataclass(frozen=True)
class Block:
    """The decompressed records of a block, their number, and the file position of the first row."""

    first_row: int
    rows: int
    data: bytes


@dataclass
class AvroBlocks:
    """An open Avro file of `size` bytes, as blocks of records.

    `marker` is the sync marker, `body` the offset of the first block. `rows` is None until the end of the file was
    read.
    """

    file: BinaryIO
    path: str
    size: int
    schema: WrittenSchema
    codec: str
    marker: bytes
    body: int
    rows: int | None = None

    @property
    def record(self) -> Mapping[str, Any]:
        """The Avro schema of the records, without type references."""
        return self.schema.record

    def read_blocks(self, start: int, stop: int) -> Iterator[Block]:
        """Yield the blocks whose preceding sync marker starts in the bytes [start, stop), as in Java's readers.

        Earlier blocks are skipped by their sizes, to count their rows. Raises `ValueError` or `EOFError` for an
        incomplete or invalid block, and `LimitExceeded` for one that is too large.
        """
        at, first_row = self.body, 0
        self.file.seek(at)
        while first := self.file.read(1):
            if (marker := at - _MARKER) >= stop:
                return
            count, size = _read_varint(self.file, first), _read_varint(self.file)
            if marker >= start:
                block = _read_exactly(self.file, size, self.size)
            elif 0 <= size <= self.size:
                self.file.seek(size, io.SEEK_CUR)
            else:
                raise ValueError(f"it declares a block of {size:,} bytes but has {self.size:,}")
            if count < 0 or self.file.read(_MARKER) != self.marker:
                raise ValueError("a block does not end with the file's sync marker")
            if marker >= start:
                yield Block(first_row, count, self._decompress(block, count))
            first_row += count
            at = self.file.tell()
        self.rows = first_row

    def _decompress(self, block: bytes, count: int) -> bytes:
        try:
            data = decompress_block(self.codec, block, limits.AVRO_BLOCK)
        except TooLarge:
            raise LimitExceeded(
                f"{redact(self.path)} has a block that decompresses to more than {limits.AVRO_BLOCK:,} bytes. If "
                "the size is legitimate, raise lakescan.limits.AVRO_BLOCK."
            ) from None
        if count > (len(data) // self.schema.least if self.schema.least else _OF_NOTHING):
            raise ValueError(f"a block has {len(data):,} bytes, too few for its {count:,} records")
        return data


def open_blocks(file: BinaryIO, path: str, size: int) -> AvroBlocks:
    """Read the header of an Avro file of `size` bytes.

    Raises `ValueError`, `EOFError` or `KeyError` if it is not a valid Avro file, and `UnsupportedFeature` for an
    unknown codec.
    """
    if file.read(len(_MAGIC)) != _MAGIC:
        raise ValueError("it does not start with Avro's magic bytes")
    header: dict[bytes, bytes] = {}
    while count := _read_varint(file):
        if count < 0:
            _read_varint(file)
        if abs(count) > _HEADER - len(header):
            raise ValueError(f"its header declares {abs(count):,} entries, and the limit is {_HEADER:,}")
        for _ in range(abs(count)):
            key = _read_exactly(file, _read_varint(file), size)
            header[key] = _read_exactly(file, _read_varint(file), size)
    codec = header.get(b"avro.codec", b"null").decode()
    check_codec(codec, path)
    if (text := header.get(b"avro.schema")) is None:
        raise ValueError("its header has no schema")
    schema = parse_avro_schema(text, _DEPTH)
    marker = _read_exactly(file, _MARKER, size)
    return AvroBlocks(file, path, size, schema, codec, marker, file.tell())


def _read_exactly(file: BinaryIO, length: int, most: int) -> bytes:
    """Read exactly `length` bytes; raises `EOFError` if the file ends before.

    A length above `most`, the file's size, raises `ValueError` before memory is allocated.
    """
    if not 0 <= length <= most:
        raise ValueError(f"it declares {length:,} bytes but has {most:,}")
    data = file.read(length)
    if len(data) < length:
        raise EOFError("it is truncated")
    return data


def _read_varint(file: BinaryIO, first: bytes = b"") -> int:
    """Read a zigzag varint of at most 64 bits. `first` is its first byte if it was read already.

    Raises `ValueError` or `EOFError`.
    """
    value = 0
    for place in range(_NUMBER):
        byte = (first or _read_exactly(file, 1, 1))[0]
        first = b""
        value |= (byte & 127) << 7 * place
        if byte < 128:
            return (value >> 1) ^ -(value & 1)
    raise ValueError("it has a number of more than 64 bits")
