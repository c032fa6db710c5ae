"""Manifest lists and manifests as Arrow tables, their columns named by the specification's field ids.

Names differ between writers and format versions; ids do not. Files of one schema are decoded together, straight to
columns, by `polars-avro` where it is installed. Without it, and for what it does not take, fastavro decodes record by
record; a test holds the two against each other on every manifest at hand.
"""

from __future__ import annotations

import functools
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa

from lakescan.errors import CorruptMetadata, LakescanError, NotEnoughMemory, UnsupportedFeature
from lakescan.iceberg.manifests.avro_container import Container
from lakescan.reading.avro.records import arrow_field, column, field_of_type, only_type
from lakescan.storage.faults import shown, told

FILE = "lakescan.file"  # the column that says which file a row is of
_MANY_ROWS = 500  # fewer are decoded before the columnar decoder is imported
_FILE_ROWS = 32  # what opening a file costs the other decoder, in rows
_BATCH_ROWS = 4096


@functools.cache
def columnar_decoder() -> Any:
    """The module `polars_avro`; None where the extra `fast` is not installed."""
    try:
        import polars_avro
    except ImportError:
        return None
    return polars_avro


def read_avro(files: Sequence[Container], names: Mapping[int, str], *, fast: bool | None = None) -> pa.Table:
    """Decode files of records that have one schema; `names` maps the field ids that are wanted to column names.

    Wanted fields under a record keep their nesting. The column `FILE` has the number of each row's file. `fast` asks
    for the columnar decoder, or for the other one; by default the number of rows decides. Raises `CorruptMetadata` for
    what cannot be decoded.
    """
    rows = [file.rows for file in files]
    numbers = pa.array(np.repeat(np.arange(len(files), dtype=np.int32), rows))
    schema = files[0].written.record
    with decoding(files):
        wanted = _pruned(schema, names)
        if not wanted["fields"]:
            return pa.table({FILE: numbers})
        fast = sum(rows) + _FILE_ROWS * len(files) >= _MANY_ROWS if fast is None else fast
        found = _by_columns(files, schema, names) if fast and columnar_decoder() is not None else None
    if found is None or found.num_rows != len(numbers):
        found = pa.concat_tables([_each(file, wanted, names) for file in files])
    return found.append_column(FILE, numbers)


@contextmanager
def decoding(files: Sequence[Container]) -> Iterator[None]:
    """Turn what is raised over the records of files into `CorruptMetadata` that names the first of them."""
    where = shown(files[0].source) + (f" (or one of the {len(files) - 1} read with it)" if len(files) > 1 else "")
    try:
        yield
    except UnsupportedFeature as error:
        raise UnsupportedFeature(error.feature, f"{where} has it.") from error
    except LakescanError:
        raise
    except MemoryError as error:
        raise NotEnoughMemory(f"{where}: its records do not fit into the memory that there is") from error
    except Exception as error:  # libraries raise what they like over bytes that they did not expect
        raise CorruptMetadata(
            f"{where} has records that are not what its schema says: {told(error)}. Restore the file, or read an older "
            "snapshot."
        ) from error


def _by_columns(files: Sequence[Container], full: Mapping[str, Any], names: Mapping[int, str]) -> pa.Table | None:
    """The columnar decoder's result for files of one schema; None where it refuses them."""
    schema = _without_empty_records(full)
    inlined, columns = _inlined(schema, names)
    header = json.dumps(inlined).encode()
    wanted = [name for members in columns.values() for name, _ in members]
    try:
        decoded = _decoded([io.BytesIO(file.as_file(header)) for file in files], wanted)
        found = [_assembled(decoded, f, columns[f["name"]], names) for f in _pruned(schema, names)["fields"]]
    except (KeyboardInterrupt, SystemExit, GeneratorExit, MemoryError):
        raise
    except BaseException:  # a panic of the decoder is one; the other one says what is wrong with the file, or reads it
        return None
    return pa.Table.from_arrays([array for array, _ in found], schema=pa.schema([field for _, field in found]))


def _decoded(files: list[io.BytesIO], columns: list[str]) -> pa.Table:
    """Some top-level columns of files of one schema, straight from the decoder's own batches.

    These are not part of its public interface, which makes a Polars frame of them, and that takes half as long again:
    where a version has them not, the frame will do.
    """
    try:
        from polars_avro._avro_rs import AvroSource
        from polars_avro._source import seekable_factory
    except ImportError:
        return columnar_decoder().read_avro(files, columns=columns, rechunk=False).to_arrow()
    source = AvroSource([seekable_factory(file) for file in files], strict=False, utf8_view=False)
    batches = [pa.record_batch(batch) for batch in source.batch_iter(_BATCH_ROWS, columns)]
    return pa.Table.from_batches(batches).select(columns)


_Members = list[tuple[str, Mapping[str, Any]]]


def _inlined(schema: Mapping[str, Any], names: Mapping[int, str]) -> tuple[dict[str, Any], dict[str, _Members]]:
    """The schema with the members of its records in their place, which describes the same bytes, and what is wanted.

    The decoder walks over top-level fields that are not asked for, and builds all that is below one that is: inlined,
    the statistics of a manifest, most of its bytes, cost little where they are not wanted. The second result has, for
    each wanted field, the wanted members that stand for it, by their new names.
    """
    fields: list[dict[str, Any]] = []
    found: dict[str, _Members] = {}
    kept = {f["name"]: f for f in _pruned(schema, names)["fields"]}
    for each in schema["fields"]:
        members = each["type"]["fields"] if _can_be_inlined(each) else [each]
        wanted = kept.get(each["name"])
        if wanted is not None:
            inner = wanted["type"]["fields"] if _can_be_inlined(each) else [wanted]
            found[each["name"]] = []
            asked = {f["name"]: f for f in inner}
        for member in members:
            name = f"c{len(fields)}"
            fields.append({**member, "name": name})
            if wanted is not None and member["name"] in asked:
                found[each["name"]].append((name, asked[member["name"]]))
    return {**schema, "fields": fields}, found


def _can_be_inlined(node: Mapping[str, Any]) -> bool:
    """Whether a field is a record that is always there: its bytes are those of its members, one after the other."""
    kind = node["type"]
    return isinstance(kind, dict) and kind["type"] == "record" and not _is_partition(kind)


def _assembled(
    decoded: pa.Table, node: Mapping[str, Any], members: _Members, names: Mapping[int, str]
) -> tuple[pa.Array, pa.Field]:
    """A field of the pruned schema from the columns that stand for it."""
    arrays = [_named(decoded[name].chunks, member, names) for name, member in members]
    if not _can_be_inlined(node):
        return arrays[0], field_of_type(node, arrays[0].type, names)
    fields = [field_of_type(member, array.type, names) for (_, member), array in zip(members, arrays, strict=True)]
    struct = pa.StructArray.from_arrays(arrays, fields=fields)
    return struct, field_of_type(node, struct.type, names)


def _without_empty_records(node: Any) -> Any:
    """The schema less fields of records without fields, which take no bytes and which the decoder cannot build.

    Such is the partition of tables that have none.
    """
    if isinstance(node, list):
        return [_without_empty_records(n) for n in node]
    if not isinstance(node, dict):
        return node
    if node.get("type") == "record":
        kept = [f for f in node["fields"] if not (isinstance(f["type"], dict) and f["type"].get("fields") == [])]
        return {**node, "fields": [{**f, "type": _without_empty_records(f["type"])} for f in kept]}
    return {**node, **{k: _without_empty_records(node[k]) for k in ("items", "values") if k in node}}


def _named(chunks: list[pa.Array], node: Mapping[str, Any], names: Mapping[int, str]) -> pa.Array:
    """One array of chunks: records as structs of their wanted members, named by id; all else as it was decoded.

    Only what is wanted is put together: statistics are most of a manifest, and most scans do without.
    """
    kind = _record(node["type"])
    if kind is None or not pa.types.is_struct(chunks[0].type):
        return pa.concat_arrays(chunks)
    members, fields = [], []
    for each in kind["fields"] if _is_partition(kind) else _pruned(kind, names)["fields"]:
        member = _named([c.field(c.type.get_field_index(each["name"])) for c in chunks], each, names)
        members.append(member)
        fields.append(field_of_type(each, member.type, names))
    if not members:
        return pa.array([{}] * sum(map(len, chunks)), pa.struct([]))
    has_null = any(c.null_count for c in chunks)
    mask = pa.concat_arrays([c.is_null() for c in chunks]) if has_null else None
    return pa.StructArray.from_arrays(members, fields=fields, mask=mask)


def _record(node: Any) -> Mapping[str, Any] | None:
    """The record type of a field, optional or not; None for other types."""
    only = only_type(node)
    return only if isinstance(only, dict) and only["type"] == "record" else None


def _each(file: Container, wanted: dict[str, Any], names: Mapping[int, str]) -> pa.Table:
    with decoding([file]):
        return _by_records(file, wanted, names)


def _by_records(file: Container, wanted: dict[str, Any], names: Mapping[int, str]) -> pa.Table:
    """The other decoder's result: the fields of the schema `wanted`, which is part of the file's."""
    written, asked = fastavro.parse_schema(dict(file.written.record)), fastavro.parse_schema(wanted)
    data = io.BytesIO(file.records)
    records: list[Any] = [fastavro.schemaless_reader(data, written, asked) for _ in range(file.rows)]
    if left := len(data.getbuffer()) - data.tell():
        raise CorruptMetadata(
            f"{shown(file.source)} has {left:,} bytes after its {file.rows:,} records: its "
            "blocks have another number of records than they say. Restore the file, or read an older snapshot."
        )
    arrow = pa.schema([arrow_field(f, names) for f in wanted["fields"]])
    keys = [f["name"] for f in wanted["fields"]]
    columns = [column([r[key] for r in records], field.type) for key, field in zip(keys, arrow, strict=True)]
    return pa.Table.from_arrays(columns, schema=arrow)


def _pruned(schema: Mapping[str, Any], names: Mapping[int, str]) -> dict[str, Any]:
    """The record schema with the wanted fields only."""
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
        return _pruned(node, names)
    return node


def _is_partition(node: Mapping[str, Any]) -> bool:
    """The partition record has the table's own field ids (from 1000): it is kept whole."""
    ids = [f.get("field-id") for f in node["fields"]]
    return node.get("name") == "r102" or all(i is not None and i >= 1000 for i in ids)
