"""Find fields in a table's schema JSON, to change them in their place: what it says of other fields is kept."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from lakescan.common.references import dotted_path
from lakescan.delta.log.text import parse_json
from lakescan.errors import InvalidOption, NoSuchColumn, nearest

Node = dict[str, Any]
Path = tuple[str, ...]
_MEMBERS = {"array": {"element": "elementType"}, "map": {"key": "keyType", "value": "valueType"}}


@dataclass(frozen=True)
class FoundField:
    """A field of a struct, or the element, key or value of a list or map.

    - `path`: its names, as the schema spells them.
    - `holder`, `member`: the object that has its type, and the member of that name.
    - `field`: the field of a struct that it is, or that is the nearest around it.
    - `within`: the way from that field down to it: empty for a field of a struct.
    - `siblings`: the fields of its struct; None for an element, key or value.
    """

    path: Path
    holder: Node
    member: str
    field: Node
    within: Path
    siblings: list[Node] | None

    @property
    def type(self) -> Any:
        """Its type as the schema has it: a name, or an object."""
        return self.holder[self.member]

    @property
    def metadata(self) -> Node:
        """The metadata of the field."""
        if not isinstance(self.field.get("metadata"), dict):
            self.field["metadata"] = {}
        metadata: Node = self.field["metadata"]
        return metadata


def parse_schema_tree(schema: str) -> Node:
    """Parse a table's schema; raises `CorruptMetadata`."""
    node: Node = parse_json(schema, "the table's schema")
    return node


def schema_text(node: Node) -> str:
    """Return a schema as its JSON text."""
    return json.dumps(node, separators=(",", ":"))


def find_field(schema: Node, path: Sequence[str]) -> FoundField:
    """Return the field at a path; names that differ only in case are taken, if one does. Raises `NoSuchColumn`."""
    found = FoundField((), {"type": schema}, "type", {}, (), None)
    for name in path:
        found = _find_child(found, name, path)
    return found


def has_field(schema: Node, path: Sequence[str]) -> bool:
    """Whether there is a field at a path, in any case."""
    try:
        find_field(schema, path)
    except NoSuchColumn:
        return False
    return True


def struct_fields(schema: Node, path: Sequence[str]) -> list[Node]:
    """Return the fields of the struct at a path, the columns at the empty one; raises `InvalidOption` for others."""
    kind = find_field(schema, path).type
    if not isinstance(kind, dict) or kind.get("type") != "struct":
        raise InvalidOption(f"{dotted_path(path)} is no struct but {type_text(kind)}: it has no columns of its own")
    fields: list[Node] = kind["fields"]
    return fields


def all_fields(schema: Any, path: Path = ()) -> Iterator[tuple[Path, Node]]:
    """Yield the fields of all structs with their paths, outer fields first."""
    if not isinstance(schema, dict):
        return
    if schema.get("type") == "struct":
        for each in schema["fields"]:
            yield (*path, each["name"]), each
            yield from all_fields(each["type"], (*path, each["name"]))
    for name, member in _MEMBERS.get(str(schema.get("type")), {}).items():
        yield from all_fields(schema[member], (*path, name))


def position_of(name: str, fields: Sequence[Node], place: str) -> int:
    """Return the place of a sibling by its name; raises `NoSuchColumn`."""
    exact = [n for n, each in enumerate(fields) if each["name"] == name]
    matches = exact or [n for n, each in enumerate(fields) if each["name"].lower() == name.lower()]
    if len(matches) != 1:
        names = [each["name"] for each in fields]
        raise NoSuchColumn(f"no column {name!r} {place}.{nearest(name, names)}")
    return matches[0]


def type_text(kind: Any) -> str:
    """Return a type as Delta names it in its log: `integer`, `struct`."""
    return str(kind["type"] if isinstance(kind, dict) else kind)


def overlap(one: Sequence[str], other: Sequence[str]) -> bool:
    """Whether one path is the other, or leads to it; in any case."""
    return all(a.lower() == b.lower() for a, b in zip(one, other, strict=False))


def _find_child(found: FoundField, name: str, path: Sequence[str]) -> FoundField:
    kind = found.type
    shape = kind.get("type") if isinstance(kind, dict) else None
    if shape == "struct":
        place = f"in {dotted_path(found.path)}" if found.path else "in the table"
        field = kind["fields"][position_of(name, kind["fields"], place)]
        return FoundField((*found.path, field["name"]), field, "type", field, (), kind["fields"])
    member = _MEMBERS.get(str(shape), {}).get(name.lower())
    if member is None:
        within = list(_MEMBERS.get(str(shape), {}))
        more = f" It has {' and '.join(within)}." if within else ""
        raise NoSuchColumn(f"no column {dotted_path(path)!r}: {dotted_path(found.path)} is {type_text(kind)}.{more}")
    own = name.lower()
    return FoundField((*found.path, own), kind, member, found.field, (*found.within, own), None)
