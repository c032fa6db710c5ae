"""Manifest lists and manifests as Arrow tables, their columns named by the specification's field ids.

Names differ between writers and format versions; ids do not. Columns that the caller does not name are not decoded.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from typing import Any

import fastavro
import pyarrow as pa

from lakescan.errors import CorruptMetadata
from lakescan.reading.avro_records import arrow_field, column


def read_avro(data: bytes, names: Mapping[int, str], source: str) -> pa.Table:
    """Decode a file of records; `names` maps the field ids that are wanted to the column names to use.

    Wanted fields under a record keep their nesting. Raises `CorruptMetadata` for what is not Avro.
    """
    try:
        schema: dict[str, Any] = json.loads(fastavro.reader(io.BytesIO(data)).metadata["avro.schema"])
        wanted = _pruned(schema, names)
        records = list(fastavro.reader(io.BytesIO(data), reader_schema=wanted))
    except (ValueError, EOFError, KeyError, IndexError, TypeError) as error:
        raise CorruptMetadata(f"{source} is not an Avro file that can be read: {error}") from error
    arrow = pa.schema([arrow_field(f, names) for f in wanted["fields"]])
    keys = [f["name"] for f in wanted["fields"]]
    columns = [column([r[key] for r in records], field.type) for key, field in zip(keys, arrow, strict=True)]
    return pa.Table.from_arrays(columns, schema=arrow)


def read_header(data: bytes, source: str) -> dict[str, str]:
    """The key-value pairs in a file's header; raises `CorruptMetadata` for what is not Avro."""
    try:
        found: dict[str, str] = fastavro.reader(io.BytesIO(data)).metadata
    except (ValueError, EOFError, KeyError, IndexError, TypeError) as error:
        raise CorruptMetadata(f"{source} is not an Avro file that can be read: {error}") from error
    return found


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
