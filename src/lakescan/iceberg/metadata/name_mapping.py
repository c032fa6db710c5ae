"""A table's name mapping: the ids that the fields of files without any have by their names ("Column Projection").

Some writers numbered the nested fields of a mapping in another order than those of the schema. A field never moves
from one struct to another, so such a mapping contradicts the schema, and its numbers would make a list of a text. Where
the table has had one schema only, the names are that schema's, which says the ids; else files without ids are refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping

from lakescan.common import types as t
from lakescan.common.schema import FieldMatching
from lakescan.iceberg.metadata.json_node import INT_MAX, Node, fault
from lakescan.iceberg.metadata.table_metadata import TableMetadata
from lakescan.iceberg.scan.settled_names import settled_names
from lakescan.storage.faults import told

PROPERTY = "schema.name-mapping.default"
_Path = tuple[str, ...]


def matching_of(metadata: TableMetadata) -> FieldMatching:
    """By field id; files without ids by the table's name mapping, or by position where it has none."""
    text = metadata.properties.get(PROPERTY)
    if text is None:
        settled = settled_names(metadata.schemas, metadata.last_column_id)
        return FieldMatching(by_id=True, by_position=True, settled=settled)
    ids, schemas = parse_name_mapping(text, metadata.source), list(metadata.schemas.values())
    if not _contradicts(ids, [field for schema in schemas for field in schema.fields]):
        return FieldMatching(by_id=True, name_mapping=ids)
    if len(schemas) == 1:
        return FieldMatching(by_id=True, name_mapping=dict(_of_schema(schemas[0].fields, ())))
    return FieldMatching(
        by_id=True,
        name_mapping={},
        fault=f"{metadata.source}: {PROPERTY} gives nested fields the ids of others, and a data file has none of its "
        "own: which column is which cannot be told. Correct the property.",
    )


def parse_name_mapping(text: str, source: str) -> dict[_Path, int]:
    """All names from the top, aliases included, with field ids; raises `CorruptMetadata` for what is no mapping."""
    try:
        nodes = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise fault(source, f"{PROPERTY} is not a name mapping: {told(error)}") from error
    if not isinstance(nodes, list):
        raise fault(source, f"{PROPERTY} is not a name mapping: it is not a list")
    return dict(_mapped(Node({"fields": nodes}, source, PROPERTY), ()))


def _mapped(parent: Node, path: _Path) -> Iterator[tuple[_Path, int]]:
    for node in parent.children("fields", []):
        field_id = node.integer("field-id", None, most=INT_MAX)
        for name in node.items("names", []):
            if not isinstance(name, str):
                raise node.fault("has a name that is not a text")
            own = (*path, name)
            if field_id is not None:
                yield own, field_id
            yield from _mapped(node, own)


def _contradicts(ids: Mapping[_Path, int], fields: list[t.Field]) -> bool:
    """Whether a name below another has an id that the schema has elsewhere."""
    parents: dict[int, int | None] = {field.id: None for field in fields}
    for field in t.walk(tuple(fields)):
        parents |= {child.id: field.id for child in t.children(field.type)}
    known = ((path[:-1], own) for path, own in ids.items() if own in parents and (len(path) == 1 or path[:-1] in ids))
    return any(parents[own] != ids.get(above) for above, own in known)


def _of_schema(fields: Iterable[t.Field], path: _Path) -> Iterator[tuple[_Path, int]]:
    for field in fields:
        own = (*path, field.name)
        yield own, field.id
        yield from _of_schema(t.children(field.type), own)
