"""Parse and check the schema in an Avro file's header, before any record is decoded.

Decoders trust the schema: a recursive one makes them recurse as deep as the data says, and items of zero bytes can be
of any number. Here references to named types are replaced by the types, so that the schema is a tree of limited depth
and size, with a known minimum number of bytes per record.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeGuard

_LEAST = {"null": 0, "boolean": 1, "int": 1, "long": 1, "float": 4, "double": 8, "bytes": 1, "string": 1}
_DEPTH = 32  # manifests have seven levels
_NODES = 100_000
_DIGITS = 38  # maximum precision of a decimal


@dataclass(frozen=True)
class WrittenSchema:
    """A record schema without type references; `least` is the minimum number of bytes of a record."""

    record: Mapping[str, Any]
    least: int


@functools.lru_cache(maxsize=128)
def parse_avro_schema(text: bytes, depth: int = _DEPTH) -> WrittenSchema:
    """Parse the schema of a file's records; raises `ValueError` if it is invalid or nests deeper than `depth`."""
    try:
        node = json.loads(text)
    except RecursionError:
        raise ValueError(f"its schema nests deeper than {depth} levels") from None
    except ValueError:
        raise ValueError("its schema is not JSON") from None
    record, least = _Resolver(depth).resolve(node, 0)
    if not isinstance(record, dict) or record["type"] != "record":
        raise ValueError("its schema is not a record")
    return WrittenSchema(record, least)


class _Resolver:
    """Resolves one schema: returns each type with its references replaced, and the minimum bytes of a value."""

    def __init__(self, depth: int) -> None:
        self._most = depth
        self._known: dict[str, Mapping[str, Any]] = {}
        self._within: set[str] = set()
        self._uses: dict[str, int] = {}
        self._nodes = 0

    def resolve(self, node: Any, depth: int) -> tuple[Any, int]:
        self._nodes += 1
        if depth > self._most:
            raise ValueError(f"its schema nests deeper than {self._most} levels")
        if self._nodes > _NODES:
            raise ValueError(f"its schema has more than {_NODES:,} types")
        if isinstance(node, str):
            return self._resolve_name(node, depth)
        if isinstance(node, list):
            return self._resolve_union(node, depth)
        if not isinstance(node, dict) or "type" not in node:
            raise ValueError(f"its schema has {_quote(node)} as a type")
        kind = node["type"]
        if isinstance(kind, dict | list):
            return self.resolve(kind, depth + 1)
        if kind in ("record", "fixed", "enum"):
            return self._resolve_definition(node, depth)
        if kind == "array":
            items, least = self.resolve(node.get("items"), depth + 1)
            if least == 0:
                raise ValueError("its schema has arrays whose items take no bytes")
            return {**node, "items": items}, 1
        if kind == "map":
            return {**node, "values": self.resolve(node.get("values"), depth + 1)[0]}, 1
        if isinstance(kind, str) and kind in _LEAST:
            return _check_decimal(node), _LEAST[kind]
        return self._resolve_name(kind, depth)

    def _resolve_name(self, name: Any, depth: int) -> tuple[Any, int]:
        """A primitive type, or a type defined earlier."""
        if isinstance(name, str) and name in _LEAST:
            return name, _LEAST[name]
        if name in self._within:
            raise ValueError(f"its schema's type {_quote(name)} contains itself")
        if not isinstance(name, str) or name not in self._known:
            raise ValueError(f"its schema references a type {_quote(name)}, which it does not define")
        return self._resolve_definition(self._known[name], depth)

    def _resolve_union(self, members: list[Any], depth: int) -> tuple[Any, int]:
        if not members or any(isinstance(each, list) for each in members):
            raise ValueError("its schema has an empty union, or a union of unions")
        resolved = [self.resolve(each, depth + 1) for each in members]
        return [kind for kind, _ in resolved], 1 + min(least for _, least in resolved)

    def _resolve_definition(self, node: Mapping[str, Any], depth: int) -> tuple[dict[str, Any], int]:
        name = node.get("name")
        if not isinstance(name, str) or not name:
            raise ValueError(f"its schema has a {node['type']} without a name")
        if name in self._within:
            raise ValueError(f"its schema's type {_quote(name)} contains itself")
        self._known.setdefault(name, node)
        self._uses[name] = used = self._uses.get(name, 0) + 1
        own = {**node, "name": name if used == 1 else f"{name}_use{used}"}
        if node["type"] == "fixed":
            size = node.get("size")
            if not _is_number(size, 0, 2**31 - 1):
                raise ValueError(f"its schema has a fixed type of {_quote(size)} bytes")
            return _check_decimal(own), size
        if node["type"] == "enum":
            if not isinstance(node.get("symbols"), list):
                raise ValueError(f"its schema's enum {_quote(name)} has no symbols")
            return own, 1
        self._within.add(name)
        fields = self._resolve_fields(node.get("fields"), depth)
        self._within.discard(name)
        return {**own, "fields": [each for each, _ in fields]}, sum(least for _, least in fields)

    def _resolve_fields(self, nodes: Any, depth: int) -> list[tuple[dict[str, Any], int]]:
        if not isinstance(nodes, list) or not all(
            isinstance(n, dict) and isinstance(n.get("name"), str) for n in nodes
        ):
            raise ValueError("its schema has a record with unnamed fields")
        ids = [n["field-id"] for n in nodes if n.get("field-id") is not None]
        if wrong := [i for i in ids if not _is_number(i, -(2**31), 2**31 - 1)]:
            raise ValueError(f"its schema has {_quote(wrong[0])} as a field id")
        for each, what in ((ids, "ids"), ([n["name"] for n in nodes], "names")):
            if len(set(each)) < len(each):
                raise ValueError(f"its schema has a record whose fields share {what}")
        fields = []
        for node in nodes:
            kind, least = self.resolve(node.get("type"), depth + 1)
            fields.append(({k: v for k, v in node.items() if k != "default"} | {"type": kind}, least))
        return fields


def _check_decimal(node: Mapping[str, Any]) -> dict[str, Any]:
    """The type, once the precision and scale of a decimal are checked."""
    if node.get("logicalType") == "decimal":
        digits, scale = node.get("precision"), node.get("scale", 0)
        if not _is_number(digits, 1, _DIGITS) or not _is_number(scale, 0, digits):
            raise ValueError(f"its schema has a decimal of precision {_quote(digits)} and scale {_quote(scale)}")
    return dict(node)


def _is_number(value: Any, least: int, most: int) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _quote(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}..."
