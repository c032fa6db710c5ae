"""The name mapping (`schema.name-mapping.default`) of changed columns, as Java's `MappingUtil` updates it.

A renamed column keeps its earlier names, which files have; a new column has its own. A name that a column has now is
taken from the others.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from lakescan.common import types as t
from lakescan.common.schema import Schema
from lakescan.iceberg.alter.column_tree import parent_ids

_LOG = logging.getLogger("lakescan")
_Node = dict[str, Any]


def update_name_mapping(text: str, before: Schema, now: Schema) -> str:
    """Return the mapping of the columns as they are now; one that cannot be read stays as it is."""
    try:
        nodes = _NameMappingUpdate(before, now).fields(json.loads(text), None)
    except (ValueError, TypeError, AttributeError, KeyError, RecursionError):
        _LOG.warning("the name mapping of the table cannot be read, and stays as it is: %.200s", text)
        return text
    return json.dumps(nodes)


def lost_names(before: str, now: str) -> list[tuple[int, str]]:
    """The names that a mapping takes from fields, with the ids of these."""
    names = dict(_field_names(json.loads(now))) if before != now else {}
    known = _field_names(json.loads(before)) if before != now else ()
    return [(own, name) for own, those in known for name in those if name not in names.get(own, ())]


def _field_names(nodes: Iterable[_Node]) -> Iterator[tuple[int, list[str]]]:
    for node in nodes:
        if "field-id" in node:
            yield node["field-id"], list(node.get("names", []))
        yield from _field_names(node.get("fields", []))


class _NameMappingUpdate:
    def __init__(self, before: Schema, now: Schema) -> None:
        parents = parent_ids(now.fields)
        self._changed = {
            i: f.name
            for i, f in now.by_id.items()
            if i in before.by_id and _bare_field(f) != _bare_field(before.by_id[i])
        }
        self._added: dict[int | None, list[t.Field]] = {}
        for each in t.walk(now.fields):
            parent = parents[each.id]
            if each.id not in before.by_id and (parent is None or parent in before.by_id):
                self._added.setdefault(parent, []).append(each)

    def fields(self, nodes: Iterable[_Node], parent: int | None) -> list[_Node]:
        """The nodes below a field."""
        known, added = list(nodes), self._added.get(parent, [])
        taken = {
            self._changed[node["field-id"]]: node["field-id"] for node in known if node.get("field-id") in self._changed
        }
        taken |= {each.name: each.id for each in added}
        return [self._node(each, taken) for each in known] + [_mapping_node(each) for each in added]

    def _node(self, node: _Node, taken: Mapping[str, int]) -> _Node:
        own, names = node.get("field-id"), list(node.get("names", []))
        if own in self._changed and self._changed[own] not in names:
            names.append(self._changed[own])
        found: _Node = {**node, "names": [name for name in names if taken.get(name, own) == own]}
        if "fields" in node or own in self._added:
            found["fields"] = self.fields(node.get("fields", []), own)
        return found


def _bare_field(of: t.Field) -> t.Field:
    """A field without what is nested in it."""
    return replace(of, type=t.UNKNOWN) if t.children(of.type) else of


def _mapping_node(of: t.Field) -> _Node:
    inner = [_mapping_node(each) for each in t.children(of.type)]
    return {"field-id": of.id, "names": [of.name], **({"fields": inner} if inner else {})}
