"""Decode manifest lists and manifests: Avro records -> Arrow tables, with columns resolved by field id.

Names differ between writers and format versions; ids do not. Files with one schema are decoded together, directly to
columns, by `polars-avro` if it is installed. Otherwise, and for files that it does not support, fastavro decodes record
by record. A test compares the two decoders on every available manifest.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa

from lakescan.common.arrays import empty_structs
from lakescan.errors import CorruptMetadata, LakescanError, NotEnoughMemory, UnsupportedFeature
from lakescan.iceberg.manifests.avro_container import Container
from lakescan.reading.avro.columnar import columnar_decoder, decode_columns
from lakescan.reading.avro.records import arrow_field, column, field_of_type, only_type
from lakescan.storage.faults import error_text, redact

FILE = "lakescan.file"  # the column with the number of each row's file
_MANY_ROWS = 500  # with fewer rows, fastavro is done before the columnar decoder is imported
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
    """Convert exceptions from decoding files into `CorruptMetadata` that names the first file."""
    others = f" (or one of the {len(files) - 1} read with it)" if len(files) > 1 else ""
    with decoding_file(redact(files[0].source) + others):
        yield


@contextmanager
def decoding_file(where: str) -> Iterator[None]:
    """Convert exceptions from decoding a file into `CorruptMetadata` that names it."""
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
    """Decode files of one schema with the columnar decoder; None if it cannot."""
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
    except Exception:  # fastavro then either reads the file or reports what is wrong with it
        return None
    return pa.Table.from_arrays([array for array, _ in assembled], schema=pa.schema([field for _, field in assembled]))


_Members = list[tuple[str, Mapping[str, Any]]]


def _inline_records(schema: Mapping[str, Any], names: Mapping[int, str]) -> tuple[dict[str, Any], dict[str, _Members]]:
    """Replace each record field by its members, which describes the same bytes; and the wanted members per field.

    The decoder skips top-level fields that are not requested, but builds everything below a requested one. Inlining
    makes unneeded statistics, most of a manifest's bytes, cheap to skip. The second result maps each wanted field to
    the wanted members that represent it, with their new names.
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
    """Whether a field is a non-optional record: its bytes are those of its members, concatenated."""
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
    """Drop fields whose type is an empty record: they take no bytes, and the decoder cannot build them.

    The partition of an unpartitioned table is such a field.
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
    """Concatenate chunks to one array: records become structs of their wanted members, named by field id.

    Unwanted members are not concatenated: statistics are most of a manifest, and most scans do not need them.
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
    """The record type of a field, optional or required; None for other types."""
    only = only_type(node)
    return only if isinstance(only, dict) and only["type"] == "record" else None


def _decode_file(file: Container, wanted: dict[str, Any], names: Mapping[int, str]) -> pa.Table:
    with decoding([file]):
        return _decode_records(file, wanted, names)


def _decode_records(file: Container, wanted: dict[str, Any], names: Mapping[int, str]) -> pa.Table:
    """Decode with fastavro the fields of the schema `wanted`, a subset of the file's schema."""
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
    """The record schema with only the wanted fields."""
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
    """Whether a record is the partition, whose field ids are the table's own (from 1000): it is read in full."""
    ids = [f.get("field-id") for f in node["fields"]]
    return node.get("name") == "r102" or all(i is not None and i >= 1000 for i in ids)
