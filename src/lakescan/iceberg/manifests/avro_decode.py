"""Decode manifest lists and manifests: Avro records -> Arrow tables, with columns resolved by field id.

Names differ between writers and format versions; ids do not. If `polars-avro` is installed, it decodes files with the
same schema together, directly to columns. Otherwise, and for files that it does not support, fastavro decodes record by
record. A test compares the two decoders on every available manifest.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa

from lakescan import limits
from lakescan.common.arrays import empty_structs
from lakescan.errors import CorruptMetadata, LakescanError, LimitExceeded, NotEnoughMemory, UnsupportedFeature
from lakescan.reading.avro.codecs import TooLarge, check_codec, decompress_block
from lakescan.reading.avro.columnar import columnar_decoder, decode_columns
from lakescan.reading.avro.schema import WrittenSchema, arrow_field, column, field_of_type, only_type, parse_avro_schema
from lakescan.storage.errors import error_text, redact

FILE = "lakescan.file"  # the column with the number of each row's file
_MANY_ROWS = 500  # with fewer rows, fastavro finishes before the columnar decoder is imported
_FILE_ROWS = 32  # the cost of opening a file in fastavro, as a number of rows
_BATCH_ROWS = 4096


def read_avro(files: Sequence[Container], names: Mapping[int, str], *, fast: bool | None = None) -> pa.Table:
    """Decode files that share one record schema; `names` maps the field ids to read to column names.

    Fields inside records keep their nesting. The column `FILE` has the number of each row's file. `fast` forces the
    columnar decoder (True) or fastavro (False); by default the number of rows decides. Raises `CorruptMetadata` for
    records that cannot be decoded.
    """
    rows = [file.rows for file in files]
    numbers = pa.array(np.repeat(np.arange(len(files), dtype=np.int32), rows))
    schema = files[0].written.record
    with decoding(files):
        wanted = _prune_schema(schema, names)
        if not wanted["fields"]:
            return pa.table({FILE: numbers})
        fast = sum(rows) + _FILE_ROWS * len(files) >= _MANY_ROWS if fast is None else fast
        table = _decode_columns(files, schema, names) if fast and columnar_decoder() is not None else None
    if table is None or table.num_rows != len(numbers):
        table = pa.concat_tables([_decode_file(file, wanted, names) for file in files])
    return table.append_column(FILE, numbers)


@contextmanager
def decoding(files: Sequence[Container]) -> Iterator[None]:
    """Context manager like `decoding_file`: errors name the first of the files, and the number of others."""
    others = f" (or one of the {len(files) - 1} read with it)" if len(files) > 1 else ""
    with decoding_file(redact(files[0].source) + others):
        yield


@contextmanager
def decoding_file(where: str) -> Iterator[None]:
    """Context manager: re-raise errors of decoding libraries as `CorruptMetadata` that names the file `where`.

    Errors of lakescan are raised as they are; out-of-memory errors become `NotEnoughMemory`.
    """
    try:
        yield
    except UnsupportedFeature as error:
        raise UnsupportedFeature(error.feature, f"{where} uses it.") from error
    except LakescanError:
        raise
    except MemoryError as error:
        raise NotEnoughMemory(f"{where}: its records do not fit into memory") from error
    except Exception as error:  # libraries raise any type of exception for invalid bytes
        raise CorruptMetadata(
            f"{where} has records that do not match its schema: {error_text(error)}. Restore the file, or read an "
            "older "
            "snapshot."
        ) from error


def _decode_columns(files: Sequence[Container], full: Mapping[str, Any], names: Mapping[int, str]) -> pa.Table | None:
    """Decode files of one schema with the columnar decoder; return None if it fails."""
    schema = _drop_empty_records(full)
    inlined, columns = _inline_records(schema, names)
    wanted = [name for members in columns.values() for name, _ in members]
    records = [block for file in files for block in file.blocks]
    try:
        decoded = pa.Table.from_batches(
            decode_columns(inlined, sum(f.rows for f in files), records, wanted, _BATCH_ROWS)
        )
        assembled = [
            _assemble_field(decoded, f, columns[f["name"]], names) for f in _prune_schema(schema, names)["fields"]
        ]
    except (MemoryError, KeyboardInterrupt):
        raise
    except Exception:  # fastavro then either reads the file or reports the problem
        return None
    return pa.Table.from_arrays([array for array, _ in assembled], schema=pa.schema([field for _, field in assembled]))


_Members = list[tuple[str, Mapping[str, Any]]]


def _inline_records(schema: Mapping[str, Any], names: Mapping[int, str]) -> tuple[dict[str, Any], dict[str, _Members]]:
    """Inline the members of record fields into the top level; return that schema and the wanted members by field.

    The inlined schema describes the same bytes. The decoder skips top-level fields that are not requested, but builds
    everything inside a requested one. Inlining makes statistics, which are most of a manifest's bytes, cheap to skip.
    The second result maps each wanted field to the wanted members that represent it, with their new names.
    """
    fields: list[dict[str, Any]] = []
    members_of: dict[str, _Members] = {}
    kept = {f["name"]: f for f in _prune_schema(schema, names)["fields"]}
    for each in schema["fields"]:
        members = each["type"]["fields"] if _can_be_inlined(each) else [each]
        wanted = kept.get(each["name"])
        if wanted is not None:
            inner = wanted["type"]["fields"] if _can_be_inlined(each) else [wanted]
            members_of[each["name"]] = []
            asked = {f["name"]: f for f in inner}
        for member in members:
            name = f"c{len(fields)}"
            fields.append({**member, "name": name})
            if wanted is not None and member["name"] in asked:
                members_of[each["name"]].append((name, asked[member["name"]]))
    return {**schema, "fields": fields}, members_of


def _can_be_inlined(node: Mapping[str, Any]) -> bool:
    """Return whether a field is a non-optional record, whose bytes are those of its members, concatenated."""
    kind = node["type"]
    return isinstance(kind, dict) and kind["type"] == "record" and not _is_partition(kind)


def _assemble_field(
    decoded: pa.Table, node: Mapping[str, Any], members: _Members, names: Mapping[int, str]
) -> tuple[pa.Array, pa.Field]:
    """Rebuild a field of the pruned schema from the columns of its members."""
    arrays = [_concat_chunks(decoded[name].chunks, member, names) for name, member in members]
    if not _can_be_inlined(node):
        return arrays[0], field_of_type(node, arrays[0].type, names)
    fields = [field_of_type(member, array.type, names) for (_, member), array in zip(members, arrays, strict=True)]
    struct = pa.StructArray.from_arrays(arrays, fields=fields)
    return struct, field_of_type(node, struct.type, names)


def _drop_empty_records(node: Any) -> Any:
    """Return the schema without fields whose type is an empty record.

    Such fields take no bytes, and the decoder cannot build them. The partition of an unpartitioned table is one.
    """
    if isinstance(node, list):
        return [_drop_empty_records(n) for n in node]
    if not isinstance(node, dict):
        return node
    if node.get("type") == "record":
        kept = [f for f in node["fields"] if not (isinstance(f["type"], dict) and f["type"].get("fields") == [])]
        return {**node, "fields": [{**f, "type": _drop_empty_records(f["type"])} for f in kept]}
    return {**node, **{k: _drop_empty_records(node[k]) for k in ("items", "values") if k in node}}


def _concat_chunks(chunks: list[pa.Array], node: Mapping[str, Any], names: Mapping[int, str]) -> pa.Array:
    """Concatenate the chunks of a field to one array, keeping only the wanted members (`names`) of records.

    `node` is the field's Avro schema. Unwanted members are skipped because statistics are most of a manifest, and most
    scans do not need them.
    """
    kind = _record(node["type"])
    if kind is None or not pa.types.is_struct(chunks[0].type):
        return pa.concat_arrays(chunks)
    members, fields = [], []
    for each in kind["fields"] if _is_partition(kind) else _prune_schema(kind, names)["fields"]:
        member = _concat_chunks([c.field(c.type.get_field_index(each["name"])) for c in chunks], each, names)
        members.append(member)
        fields.append(field_of_type(each, member.type, names))
    if not members:
        return empty_structs(sum(map(len, chunks)))
    has_null = any(c.null_count for c in chunks)
    mask = pa.concat_arrays([c.is_null() for c in chunks]) if has_null else None
    return pa.StructArray.from_arrays(members, fields=fields, mask=mask)


def _record(node: Any) -> Mapping[str, Any] | None:
    """Return the record type of a field, optional or required; None for other types."""
    only = only_type(node)
    return only if isinstance(only, dict) and only["type"] == "record" else None


def _decode_file(file: Container, wanted: dict[str, Any], names: Mapping[int, str]) -> pa.Table:
    with decoding([file]):
        return _decode_records(file, wanted, names)


def _decode_records(file: Container, wanted: dict[str, Any], names: Mapping[int, str]) -> pa.Table:
    """Decode the fields of the schema `wanted`, a subset of the file's schema, with fastavro, one record at a time.

    Raises `CorruptMetadata` if bytes are left after the last record.
    """
    written, asked = fastavro.parse_schema(dict(file.written.record)), fastavro.parse_schema(wanted)
    data = io.BytesIO(file.records)
    records: list[Any] = [fastavro.schemaless_reader(data, written, asked) for _ in range(file.rows)]
    if left := len(data.getbuffer()) - data.tell():
        raise CorruptMetadata(
            f"{redact(file.source)} has {left:,} bytes after its {file.rows:,} records: the record counts of its "
            "blocks are wrong. Restore the file, or read an older snapshot."
        )
    arrow = pa.schema([arrow_field(f, names) for f in wanted["fields"]])
    keys = [f["name"] for f in wanted["fields"]]
    columns = [column([r[key] for r in records], field.type) for key, field in zip(keys, arrow, strict=True)]
    return pa.Table.from_arrays(columns, schema=arrow)


def _prune_schema(schema: Mapping[str, Any], names: Mapping[int, str]) -> dict[str, Any]:
    """Return the record schema with only the fields to read, at any depth.

    `names` are their names by field id. Fields without ids are found by name.
    """
    fields = []
    for each in schema["fields"]:
        field_id = each.get("field-id")
        if field_id is not None and field_id not in names:
            continue
        if field_id is None and each["name"] not in names.values():
            continue
        fields.append({**each, "type": _prune_type(each["type"], names)})
    return {**schema, "fields": fields}


def _prune_type(node: Any, names: Mapping[int, str]) -> Any:
    if isinstance(node, list):
        return [_prune_type(n, names) for n in node]
    if isinstance(node, dict) and node["type"] == "record" and not _is_partition(node):
        return _prune_schema(node, names)
    return node


def _is_partition(node: Mapping[str, Any]) -> bool:
    """Return whether a record is the partition, whose field ids are the table's own (from 1000). It is read in full."""
    ids = [f.get("field-id") for f in node["fields"]]
    return node.get("name") == "r102" or all(i is not None and i >= 1000 for i in ids)


# Avro specification, "Object Container Files": magic, a metadata map and a sync marker. Then follow blocks, each with a
# row count, a size in bytes, the data, and the marker again. When files are decoded together, the row counts map rows
# to files. A count of more records than the bytes can hold is refused.

MAGIC = b"Obj\x01"
_SYNC = 16
_NUMBER = 10  # maximum bytes of an encoded number
_HEADER = 1000  # maximum entries in a header


@dataclass(frozen=True)
class Container:
    """An open Avro file: its header, its decompressed blocks, and the number of its records.

    - `source`: the file's name for errors.
    - `metadata`, `written`: the entries of the header, and the parsed writer's schema among them.
    - `size`: the file's size in bytes.
    - `body`: the offset of the 16-byte sync marker that precedes the blocks.
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
    """Group consecutive files with the same schema, as indexes into `files`; each group can be decoded together."""
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
    """Read an Avro map from strings to bytes at the offset `at`; return it with the offset after it.

    The map consists of blocks: a count (if negative, followed by a size) and that many pairs. An empty block ends it.
    Raises `ValueError` for too many entries.
    """
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
    """Decode a zigzag varint at the offset `at`; return the number and the offset after it.

    Raises `ValueError` for a number that is too long.
    """
    value = 0
    for place in range(_NUMBER):
        byte = data[at + place]
        value |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at + place + 1
    raise ValueError(f"the number at byte {at:,} is longer than {_NUMBER} bytes")


def encode_bytes(value: bytes) -> bytes:
    """Encode bytes, or a text in UTF-8, as Avro does: the length followed by the bytes."""
    return encode_number(len(value)) + value


def encode_number(value: int) -> bytes:
    """Encode a 64-bit number as a zigzag varint."""
    value, encoded = value << 1 ^ value >> 63, bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded, value])
