"""The state of a table while changes are applied to it one after the other; all of them become one commit."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from lakescan.common.references import dotted_path
from lakescan.delta.log.log_text import parse_json
from lakescan.delta.metadata.protocol import Metadata, Protocol
from lakescan.errors import InvalidOption, NoSuchColumn, nearest


@dataclass(frozen=True)
class RowCheck:
    """A condition that all existing rows must satisfy before the commit.

    - `refused`: the beginning of the error message.
    - `condition`: a SQL condition.
    - `not_null`: the path of a column that must not be null.

    Without `condition` and `not_null`, the table must be empty.
    """

    refused: str
    condition: str | None = None
    not_null: Path | None = None


@dataclass(frozen=True)
class AlterStep:
    """One change in the table's history: Delta's operation name and parameters."""

    name: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True)
class TableState:
    """A table's protocol, metadata and clustering columns, with the changes made since the version it started from.

    - `location`: the table's folder, for messages.
    - `clustering`: the physical paths of the clustering columns; None for a table that has no clustering.
    - `domains`: the changed metadata domains, as JSON text; None for a removed domain.
    - `checks`: conditions that the existing rows must satisfy.
    - `steps`: the changes, in order.
    - `backfills`: whether existing files get row ids; `strips`: whether they lose them.
    """

    location: str
    protocol: Protocol
    metadata: Metadata
    clustering: tuple[Path, ...] | None = None
    domains: Mapping[str, str | None] = field(default_factory=dict)
    checks: tuple[RowCheck, ...] = ()
    steps: tuple[AlterStep, ...] = ()
    backfills: bool = False
    strips: bool = False

    @property
    def schema(self) -> Node:
        """A new parse of the schema JSON, which the caller may modify."""
        return parse_schema_tree(self.metadata.schema_string)

    @property
    def is_mapped(self) -> bool:
        """True if the table has column mapping, by name or by id."""
        return self.metadata.column_mapping_mode != "none"

    def with_schema(self, schema: Node) -> TableState:
        """Return this table with another schema."""
        return replace(self, metadata=replace(self.metadata, schema_string=schema_text(schema)))

    def with_configuration(self, configuration: Mapping[str, str]) -> TableState:
        """Return this table with other properties."""
        return replace(self, metadata=replace(self.metadata, configuration=dict(configuration)))

    def with_features(self, *names: str) -> TableState:
        """Return this table with additional table features."""
        return replace(self, protocol=self.protocol.with_features(names))

    def with_check(self, check: RowCheck) -> TableState:
        """Return this table with one more check on the existing rows."""
        return replace(self, checks=(*self.checks, check))

    def with_step(self, operation: str, /, **parameters: Any) -> TableState:
        """Return this table with one more change in its history: Delta's operation name and parameters."""
        return replace(self, steps=(*self.steps, AlterStep(operation, parameters)))


Node = dict[str, Any]
Path = tuple[str, ...]
_MEMBERS = {"array": {"element": "elementType"}, "map": {"key": "keyType", "value": "valueType"}}


@dataclass(frozen=True)
class FoundField:
    """A field of a struct, or the element, key or value of a list or map.

    - `path`: its names, as the schema spells them.
    - `holder`, `member`: the JSON object that contains its type, and the name of the member with the type.
    - `field`: its own JSON object if it is a struct field, else that of the nearest enclosing struct field.
    - `within`: the path from that struct field down to it; empty for a struct field.
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
        """The type in the schema JSON: a name or an object."""
        return self.holder[self.member]

    @property
    def metadata(self) -> Node:
        """The metadata of the struct field, which is created if missing."""
        if not isinstance(self.field.get("metadata"), dict):
            self.field["metadata"] = {}
        metadata: Node = self.field["metadata"]
        return metadata


def parse_schema_tree(schema: str) -> Node:
    """Parse a table's schema JSON; raises `CorruptMetadata`."""
    node: Node = parse_json(schema, "the table's schema")
    return node


def schema_text(node: Node) -> str:
    """Return a schema as JSON text."""
    return json.dumps(node, separators=(",", ":"))


def find_field(schema: Node, path: Sequence[str]) -> FoundField:
    """Return the field at a path. Case matters only if names differ by nothing else. Raises `NoSuchColumn`."""
    found = FoundField((), {"type": schema}, "type", {}, (), None)
    for name in path:
        found = _find_child(found, name, path)
    return found


def has_field(schema: Node, path: Sequence[str]) -> bool:
    """Return whether a path names a field; case is ignored."""
    try:
        find_field(schema, path)
    except NoSuchColumn:
        return False
    return True


def struct_fields(schema: Node, path: Sequence[str]) -> list[Node]:
    """Return the fields of the struct at a path, or all columns for the empty path.

    Raises `NoSuchColumn`, and `InvalidOption` for a column that is not a struct.
    """
    kind = find_field(schema, path).type
    if not isinstance(kind, dict) or kind.get("type") != "struct":
        raise InvalidOption(f"{dotted_path(path)} is {type_text(kind)}, not a struct: it has no fields")
    fields: list[Node] = kind["fields"]
    return fields


def all_fields(schema: Any, path: Path = ()) -> Iterator[tuple[Path, Node]]:
    """Yield the fields of all structs at any depth with their paths, outer fields first.

    `schema` is a parsed type, and `path` its own path. Paths have `element`, `key` or `value` for a level of a list or
    map.
    """
    if not isinstance(schema, dict):
        return
    if schema.get("type") == "struct":
        for each in schema["fields"]:
            yield (*path, each["name"]), each
            yield from all_fields(each["type"], (*path, each["name"]))
    for name, member in _MEMBERS.get(str(schema.get("type")), {}).items():
        yield from all_fields(schema[member], (*path, name))


def position_of(name: str, fields: Sequence[Node], place: str) -> int:
    """Return the index of a field among its siblings by name; raises `NoSuchColumn` (`place` is for its message)."""
    exact = [n for n, each in enumerate(fields) if each["name"] == name]
    matches = exact or [n for n, each in enumerate(fields) if each["name"].lower() == name.lower()]
    if len(matches) != 1:
        names = [each["name"] for each in fields]
        raise NoSuchColumn(f"no column {name!r} {place}.{nearest(name, names)}")
    return matches[0]


def type_text(kind: Any) -> str:
    """Return the name of a type as Delta's log writes it: `integer`, `struct`."""
    return str(kind["type"] if isinstance(kind, dict) else kind)


def overlap(one: Sequence[str], other: Sequence[str]) -> bool:
    """Return whether two column paths are equal or one is a prefix of the other, ignoring case."""
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
