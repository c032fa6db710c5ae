"""Name mapping: field ids by column name for data files without ids (specification, "Column Projection").

Some writers number the nested fields of a mapping in another order than the schema. A field never moves from one struct
to another, so such a mapping contradicts the schema: its ids could resolve a string as a list, for example. If the
table has only ever had one schema, the ids are taken from that schema by name. Otherwise, files without ids are
refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from lakescan.common import types as t
from lakescan.common.schema import FieldMatching, Schema
from lakescan.iceberg.metadata.json_document import INT_MAX, Node, fault
from lakescan.iceberg.metadata.table_metadata import TableMetadata
from lakescan.iceberg.metadata.table_properties import IcebergProperties
from lakescan.storage.errors import error_text

PROPERTY: str = IcebergProperties.name_mapping.name
_Path = tuple[str, ...]


def field_matching(metadata: TableMetadata) -> FieldMatching:
    """Return how to match columns: by field id, and in files without ids by the name mapping, else by position.

    If the name mapping contradicts the schema, the ids come from the only schema by name, or files without ids are
    refused when they are read. Raises `CorruptMetadata` for an invalid name mapping.
    """
    text = metadata.table_properties.name_mapping
    settled = stable_name_ids(metadata.schemas, metadata.last_column_id)
    if text is None:
        return FieldMatching(by_id=True, by_position=True, settled=settled)
    ids, schemas = parse_name_mapping(text, metadata.source), list(metadata.schemas.values())
    if not _contradicts(ids, [field for schema in schemas for field in schema.fields]):
        return FieldMatching(by_id=True, name_mapping=ids, settled=settled)
    if len(schemas) == 1:
        return FieldMatching(by_id=True, name_mapping=dict(field_paths(schemas[0].fields)), settled=settled)
    return FieldMatching(
        by_id=True,
        settled=settled,
        name_mapping={},
        fault=f"{metadata.source}: {PROPERTY} gives nested fields the ids of other fields, so the columns of a data "
        "file without field ids cannot be identified. Correct the property.",
    )


def parse_name_mapping(text: str, source: str) -> dict[_Path, int]:
    """Parse a name mapping to field ids by name path, aliases included; raises `CorruptMetadata` if it is invalid."""
    try:
        nodes = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise fault(source, f"{PROPERTY} is not a name mapping: {error_text(error)}") from error
    if not isinstance(nodes, list):
        raise fault(source, f"{PROPERTY} is not a name mapping: it is not a list")
    return dict(_parse_fields(Node({"fields": nodes}, source, PROPERTY), ()))


def _parse_fields(parent: Node, path: _Path) -> Iterator[tuple[_Path, int]]:
    for node in parent.children("fields", []):
        field_id = node.integer("field-id", None, most=INT_MAX)
        for name in node.items("names", []):
            if not isinstance(name, str):
                raise node.fault("has a name that is not a string")
            own = (*path, name)
            if field_id is not None:
                yield own, field_id
            yield from _parse_fields(node, own)


def _contradicts(ids: Mapping[_Path, int], fields: list[t.Field]) -> bool:
    """Return whether the name mapping `ids` has a field inside another parent than the schemas' `fields` do."""
    parents: dict[int, int | None] = {field.id: None for field in fields}
    for field in t.walk(tuple(fields)):
        parents |= {child.id: field.id for child in t.children(field.type)}
    known = ((path[:-1], own) for path, own in ids.items() if own in parents and (len(path) == 1 or path[:-1] in ids))
    return any(parents[own] != ids.get(above) for above, own in known)


def field_paths(fields: Iterable[t.Field], path: _Path = ()) -> Iterator[tuple[_Path, int]]:
    """Yield the name path of each field, at any depth, with the field's id; `path` is that of the fields' parent."""
    for field in fields:
        own = (*path, field.name)
        yield own, field.id
        yield from field_paths(t.children(field.type), own)


def name_mapping_text(fields: Iterable[t.Field]) -> str:
    """Return the JSON text of the name mapping of fields, as in the table property."""
    return json.dumps(_nodes(fields))


def _nodes(fields: Iterable[t.Field]) -> list[dict[str, Any]]:
    nodes = []
    for field in fields:
        node: dict[str, Any] = {"field-id": field.id, "names": [field.name]}
        if below := _nodes(t.children(field.type)):
            node["fields"] = below
        nodes.append(node)
    return nodes


# Data files keep the column names of the time when they were written, and columns are resolved by field id. A reader
# that also uses names (Spark pushes filters into Parquet by name) may do so only for the columns of `stable_name_ids`.

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MAY_STAND_FOR_ANOTHER = re.compile(r"_\d|.*_x[0-9a-f]", re.IGNORECASE)


def stable_name_ids(schemas: Mapping[int, Schema], last_column_id: int | None) -> frozenset[int]:
    """Return the ids of top-level columns that kept one name, which no other column ever had (ignoring case).

    The result is empty if the schema history is incomplete: a schema or field id is missing, or `last_column_id` is
    unknown. (Schemas that no snapshot uses may be removed while files written with them remain.) Writers escape names
    that are not plain identifiers (`a_x2Eb` for `a.b`), so such names, and names that may be such an escape, are left
    out.
    """
    known = {field_id for schema in schemas.values() for field_id in schema.by_id}
    is_whole = set(schemas) == set(range(len(schemas))) and _counts_to(known, last_column_id or 0)
    if not is_whole:
        return frozenset()
    owners: dict[str, set[int]] = {}
    names: dict[int, set[str]] = {}
    for schema in schemas.values():
        for field in schema.fields:
            owners.setdefault(field.name.lower(), set()).add(field.id)
            names.setdefault(field.id, set()).add(field.name)
    plain = {name for name in owners if _PLAIN.fullmatch(name)}
    if len(plain) < len(owners):
        plain = {name for name in plain if not _MAY_STAND_FOR_ANOTHER.match(name)}
    return frozenset(
        field_id
        for field_id, own in names.items()
        if len(own) == 1 and all(name.lower() in plain and owners[name.lower()] == {field_id} for name in own)
    )


def _counts_to(ids: Collection[int], last: int) -> bool:
    """Return whether the ids are exactly 1 to `last`, without allocating that many: a file may claim any number."""
    return len(ids) == last and all(1 <= each <= last for each in ids)
