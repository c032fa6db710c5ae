"""The schema in the header of an Avro file, checked before a byte of a record is decoded.

Decoders follow a schema wherever it leads: one that contains itself leads them as deep as the bytes say, and items
that take no bytes can be any number. Here types that are named a second time are put in their place, so that what is
left is a tree, of a depth, a size and a least number of bytes that are known.
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
_DIGITS = 38  # of a decimal


@dataclass(frozen=True)
class WrittenSchema:
    """A record schema without references. A record of it takes at least so many bytes."""

    record: Mapping[str, Any]
    least: int


@functools.lru_cache(maxsize=128)
def parse_avro_schema(text: bytes, depth: int = _DEPTH) -> WrittenSchema:
    """The schema of a file's records, of so many levels; raises `ValueError` for what is not one, or has more."""
    try:
        node = json.loads(text)
    except RecursionError:
        raise ValueError(f"its schema nests deeper than {depth} levels") from None
    except ValueError:
        raise ValueError("its schema is not JSON") from None
    record, least = _Resolver(depth).resolved(node, 0)
    if not isinstance(record, dict) or record["type"] != "record":
        raise ValueError("its schema is not of records")
    return WrittenSchema(record, least)


class _Resolver:
    """One schema: each type comes back with its references replaced, and the bytes that a value takes at least."""

    def __init__(self, depth: int) -> None:
        self._most = depth
        self._known: dict[str, Mapping[str, Any]] = {}
        self._within: set[str] = set()
        self._uses: dict[str, int] = {}
        self._nodes = 0

    def resolved(self, node: Any, depth: int) -> tuple[Any, int]:
        self._nodes += 1
        if depth > self._most:
            raise ValueError(f"its schema nests deeper than {self._most} levels")
        if self._nodes > _NODES:
            raise ValueError(f"its schema has more than {_NODES:,} types")
        if isinstance(node, str):
            return self._by_name(node, depth)
        if isinstance(node, list):
            return self._union(node, depth)
        if not isinstance(node, dict) or "type" not in node:
            raise ValueError(f"its schema has {_shown(node)} for a type")
        kind = node["type"]
        if isinstance(kind, dict | list):
            return self.resolved(kind, depth + 1)
        if kind in ("record", "fixed", "enum"):
            return self._named(node, depth)
        if kind == "array":
            items, least = self.resolved(node.get("items"), depth + 1)
            if least == 0:
                raise ValueError("its schema has arrays of items that take no bytes")
            return {**node, "items": items}, 1
        if kind == "map":
            return {**node, "values": self.resolved(node.get("values"), depth + 1)[0]}, 1
        if isinstance(kind, str) and kind in _LEAST:
            return _with_digits(node), _LEAST[kind]
        return self._by_name(kind, depth)

    def _by_name(self, name: Any, depth: int) -> tuple[Any, int]:
        """A primitive type, or one that was named before."""
        if isinstance(name, str) and name in _LEAST:
            return name, _LEAST[name]
        if name in self._within:
            raise ValueError(f"its schema's type {_shown(name)} contains itself")
        if not isinstance(name, str) or name not in self._known:
            raise ValueError(f"its schema names a type {_shown(name)}, which it does not have")
        return self._named(self._known[name], depth)

    def _union(self, members: list[Any], depth: int) -> tuple[Any, int]:
        if not members or any(isinstance(each, list) for each in members):
            raise ValueError("its schema has a union of no types, or of unions")
        found = [self.resolved(each, depth + 1) for each in members]
        return [kind for kind, _ in found], 1 + min(least for _, least in found)

    def _named(self, node: Mapping[str, Any], depth: int) -> tuple[dict[str, Any], int]:
        name = node.get("name")
        if not isinstance(name, str) or not name:
            raise ValueError(f"its schema has a {node['type']} without a name")
        if name in self._within:
            raise ValueError(f"its schema's type {_shown(name)} contains itself")
        self._known.setdefault(name, node)
        self._uses[name] = used = self._uses.get(name, 0) + 1
        own = {**node, "name": name if used == 1 else f"{name}_use{used}"}
        if node["type"] == "fixed":
            size = node.get("size")
            if not _is_number(size, 0, 2**31 - 1):
                raise ValueError(f"its schema has a fixed type of {_shown(size)} bytes")
            return _with_digits(own), size
        if node["type"] == "enum":
            if not isinstance(node.get("symbols"), list):
                raise ValueError(f"its schema's enum {_shown(name)} has no symbols")
            return own, 1
        self._within.add(name)
        fields = self._fields(node.get("fields"), depth)
        self._within.discard(name)
        return {**own, "fields": [each for each, _ in fields]}, sum(least for _, least in fields)

    def _fields(self, nodes: Any, depth: int) -> list[tuple[dict[str, Any], int]]:
        if not isinstance(nodes, list) or not all(
            isinstance(n, dict) and isinstance(n.get("name"), str) for n in nodes
        ):
            raise ValueError("its schema has a record whose fields have no names")
        ids = [n["field-id"] for n in nodes if n.get("field-id") is not None]
        if wrong := [i for i in ids if not _is_number(i, -(2**31), 2**31 - 1)]:
            raise ValueError(f"its schema has {_shown(wrong[0])} for a field id")
        for each, what in ((ids, "ids"), ([n["name"] for n in nodes], "names")):
            if len(set(each)) < len(each):
                raise ValueError(f"its schema has a record whose fields share {what}")
        found = []
        for node in nodes:
            kind, least = self.resolved(node.get("type"), depth + 1)
            found.append(({k: v for k, v in node.items() if k != "default"} | {"type": kind}, least))
        return found


def _with_digits(node: Mapping[str, Any]) -> dict[str, Any]:
    """The type, after a look at what it says of decimals."""
    if node.get("logicalType") == "decimal":
        digits, scale = node.get("precision"), node.get("scale", 0)
        if not _is_number(digits, 1, _DIGITS) or not _is_number(scale, 0, digits):
            raise ValueError(f"its schema has decimals of {_shown(digits)} digits, {_shown(scale)} after the point")
    return dict(node)


def _is_number(value: Any, least: int, most: int) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}..."
