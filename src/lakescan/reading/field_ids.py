"""The columns of a data file as a tree with field ids, from the file or from a name mapping.

Iceberg specification, "Column Projection" and "Name Mapping Serialization".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pyarrow as pa

from lakescan.common.schema import FieldMatching
from lakescan.errors import CorruptMetadata

_ID_KEYS = (b"PARQUET:field_id", b"iceberg.id")


@dataclass(frozen=True)
class FileField:
    """A field of a data file: its index among its siblings, its Arrow type, and its id, None without one.

    `children` are struct members, a list's element, or a map's key and value.
    """

    index: int
    name: str
    type: pa.DataType
    id: int | None
    children: tuple[FileField, ...] = ()

    @property
    def leaves(self) -> int:
        """The number of leaf columns below the field; 1 for a leaf."""
        return sum(child.leaves for child in self.children) if self.children else 1


def read_fields(schema: pa.Schema, matching: FieldMatching) -> tuple[FileField, ...]:
    """Return the columns of a file with this Arrow schema, with field ids assigned according to `matching`.

    A file without any ids gets them from the name mapping, or by position, or not at all. Raises `CorruptMetadata` if
    the table requires ids, or its name mapping is invalid.
    """
    fields = tuple(_read_field(schema.field(i), i) for i in range(len(schema)))
    if matching.ids_required and fields and not any(f.id is not None for f in _walk(fields)):
        raise CorruptMetadata(
            "a data file has no field ids, but the table maps columns by id: the protocol forbids guessing them"
        )
    if not matching.by_id or any(f.id is not None for f in _walk(fields)):
        return fields
    if matching.fault is not None:
        raise CorruptMetadata(matching.fault)
    if matching.name_mapping is not None:
        return tuple(_apply_name_mapping(f, (), matching.name_mapping) for f in fields)
    return tuple(replace(f, id=f.index + 1) for f in fields) if matching.by_position else fields


def has_ids(schema: pa.Schema) -> bool:
    """Return whether any field of a file with this Arrow schema, at any depth, has a field id."""
    return any(f.id is not None for f in _walk(tuple(_read_field(schema.field(i), i) for i in range(len(schema)))))


def ids_of_fields(schema: pa.Schema) -> tuple[int | None, ...]:
    """Return the ids of a file's fields at all depths, each before those of its children; None for a missing id."""
    return tuple(f.id for f in _walk(tuple(_read_field(schema.field(i), i) for i in range(len(schema)))))


def ids_of_columns(schema: pa.Schema) -> list[tuple[str, int | None]]:
    """Return the names of a file's top-level columns with their ids, None for a missing id."""
    fields = (_read_field(schema.field(i), i) for i in range(len(schema)))
    return [(f.name, f.id) for f in fields]


def names_without_ids(schema: pa.Schema) -> set[str]:
    """Return the names of all fields of a file, at any depth, if the file has no field ids; else an empty set."""
    fields = [*_walk(tuple(_read_field(schema.field(i), i) for i in range(len(schema))))]
    return set() if any(f.id is not None for f in fields) else {f.name for f in fields}


def _read_field(field: pa.Field, index: int) -> FileField:
    kind = field.type
    if pa.types.is_map(kind):
        inner = [kind.key_field, kind.item_field]
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        inner = [kind.value_field]
    elif pa.types.is_struct(kind):
        inner = [kind.field(i) for i in range(kind.num_fields)]
    else:
        inner = []
    metadata = field.metadata or {}
    written = next((metadata[key] for key in _ID_KEYS if key in metadata), None)
    file_id = None if written is None or int(written) < 0 else int(written)
    return FileField(index, field.name, kind, file_id, tuple(_read_field(f, i) for i, f in enumerate(inner)))


def _apply_name_mapping(field: FileField, path: tuple[str, ...], mapping: dict[tuple[str, ...], int]) -> FileField:
    children = field.children
    if pa.types.is_map(field.type):
        names = ["key", "value"]
    elif pa.types.is_list(field.type) or pa.types.is_large_list(field.type):
        names = ["element"]
    else:
        names = [child.name for child in children]
    own = (*path, field.name)
    return replace(
        field,
        id=mapping.get(own),
        children=tuple(
            _apply_name_mapping(replace(c, name=n), own, mapping) for c, n in zip(children, names, strict=True)
        ),
    )


def _walk(fields: tuple[FileField, ...]) -> Iterator[FileField]:
    for field in fields:
        yield field
        yield from _walk(field.children)
