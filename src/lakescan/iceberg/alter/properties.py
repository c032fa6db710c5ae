"""Table property changes, and updates of the properties that refer to columns."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from lakescan.common import types as t
from lakescan.common.schema import Schema
from lakescan.definition.table_changes import SetComment, SetLocation, UnsetProperties
from lakescan.errors import InvalidOption, nearest
from lakescan.iceberg.alter.column_tree import parent_ids
from lakescan.iceberg.alter.metadata_draft import FilesHaveIds, MetadataDraft
from lakescan.iceberg.metadata.format_versions import PROPERTY as FORMAT_VERSION
from lakescan.iceberg.metadata.format_versions import chosen_version
from lakescan.iceberg.metadata.table_properties import IcebergProperties, check_properties
from lakescan.storage.locations import split_location

_COMMENT = "comment"
_KEY = IcebergProperties.encryption_key.name
# Properties that Java's Spark catalog reserves, with the statements to use instead.
_STATEMENTS = {
    "sort-order": "WRITE ORDERED BY, or Table.alter().set_sort_order",
    "identifier-fields": "SET IDENTIFIER FIELDS, or Table.alter().set_key",
    "location": "SET LOCATION, or Table.alter().set_location",
    "provider": "CREATE TABLE ... USING: a table keeps its format",
}
# Prefixes of properties about one column, whose name follows. They are updated if the column is renamed or dropped.
_OF_COLUMNS = (
    "write.metadata.metrics.column.",
    "write.parquet.bloom-filter-enabled.column.",
    "write.parquet.stats-enabled.column.",
)


def set_properties(properties: Mapping[str, str], draft: MetadataDraft) -> MetadataDraft:
    """Set properties; `format-version` is not stored as a property but upgrades the table.

    Raises `InvalidOption` for an invalid value, another encryption key, or a property that another statement sets, and
    `UnsupportedFeature` for a value that lakescan does not support.
    """
    rest = {name: value for name, value in properties.items() if name != FORMAT_VERSION}
    for name in rest:
        if name.lower() in _STATEMENTS:
            raise InvalidOption(f"{name!r} cannot be set as a property: use {_STATEMENTS[name.lower()]}")
    check_properties(rest, "a table that is altered")
    _check_same_key(rest.get(_KEY, draft.properties.get(_KEY)), draft)
    if FORMAT_VERSION in properties:
        draft = _upgrade_format(properties, draft)
    return replace(draft, properties={**draft.properties, **rest})


def _upgrade_format(properties: Mapping[str, str], draft: MetadataDraft) -> MetadataDraft:
    number = chosen_version(properties).number
    if number < draft.version:
        raise InvalidOption(
            f"'{FORMAT_VERSION}'='{number}': the table has version {draft.version}, which cannot be lowered: copy its "
            "rows into a new table"
        )
    return replace(draft, version=number)


def unset_properties(change: UnsetProperties, draft: MetadataDraft) -> MetadataDraft:
    """Remove properties; raises `InvalidOption` for one that is not set, unless the change has IF EXISTS."""
    missing = [name for name in change.names if name not in draft.properties]
    if missing and not change.if_exists:
        raise InvalidOption(
            f"the table has no property {missing[0]!r}.{nearest(missing[0], draft.properties)} UNSET TBLPROPERTIES IF "
            "EXISTS ignores properties that are not set."
        )
    _check_same_key(None if _KEY in change.names else draft.properties.get(_KEY), draft)
    return replace(draft, properties={n: v for n, v in draft.properties.items() if n not in change.names})


def _check_same_key(key: str | None, draft: MetadataDraft) -> None:
    """Raise `InvalidOption` if `key` is not the table's `encryption.key-id`, on which the keys of all files depend."""
    if key != draft.properties.get(_KEY):
        raise InvalidOption(
            f"'{_KEY}' cannot be set, changed or removed: a table has one encryption key from its creation on. Create "
            "another table, and copy the rows"
        )


def set_comment(change: SetComment, draft: MetadataDraft) -> MetadataDraft:
    """Set the table property `comment`, or remove it if the comment is None."""
    rest = {name: value for name, value in draft.properties.items() if name != _COMMENT}
    return replace(draft, properties=rest if change.comment is None else {**rest, _COMMENT: change.comment})


def set_location(change: SetLocation, draft: MetadataDraft) -> MetadataDraft:
    """Set the table's location, where new files are written; raises `InvalidOption` for a relative path."""
    location = change.location.strip()
    scheme, _, path = split_location(location)
    if not location or (scheme == "file" and not path.startswith("/")):
        raise InvalidOption(
            f"the location {change.location!r} is not that of a folder: give an absolute path, or one with a scheme"
        )
    return replace(draft, location=location.rstrip("/") or location)


def update_column_properties(draft: MetadataDraft) -> MetadataDraft:
    """Return the draft with the properties of columns and the name mapping updated to its new columns.

    Properties of renamed columns get the new names, and those of dropped columns are removed. Properties that the draft
    itself sets are unchanged. Names that fields lose in the name mapping require the proof `FilesHaveIds`.
    """
    if draft.schema.fields == draft.base.schema.fields:
        return draft
    before, now = draft.base.schema.path_of, draft.schema.path_of
    moved = {path: now.get(field_id) for field_id, path in before.items() if now.get(field_id) != path}
    properties: dict[str, str] = {}
    for name, value in draft.properties.items():
        prefix = next((each for each in _OF_COLUMNS if name.startswith(each)), None)
        column = None if prefix is None else name.removeprefix(prefix)
        if prefix is None or column not in moved or draft.base.properties.get(name) != value:
            properties[name] = value
        elif moved[column] is not None:
            properties[f"{prefix}{moved[column]}"] = value
    mapping, text = IcebergProperties.name_mapping.name, draft.base.properties.get(IcebergProperties.name_mapping.name)
    if text is not None and properties.get(mapping) == text:
        properties[mapping] = update_name_mapping(text, draft.base.schema, draft.schema)
        for field_id, taken in lost_names(text, properties[mapping]):
            draft = draft.add_proof(FilesHaveIds(field_id, taken))
    return replace(draft, properties=properties)


# In the name mapping, a renamed column keeps its earlier names, which existing files have, and a new column gets its
# own name. The current name of a column is removed from all other columns.

_LOG = logging.getLogger("lakescan")
_Node = dict[str, Any]


def update_name_mapping(text: str, before: Schema, now: Schema) -> str:
    """Return the name mapping `text` (JSON) with the changes from the columns `before` to the columns `now`.

    A mapping that cannot be parsed is logged and returned unchanged.
    """
    try:
        nodes = _NameMappingUpdate(before, now).fields(json.loads(text), None)
    except (ValueError, TypeError, AttributeError, KeyError, RecursionError):
        _LOG.warning("the name mapping of the table cannot be parsed, and is left unchanged: %.200s", text)
        return text
    return json.dumps(nodes)


def lost_names(before: str, now: str) -> list[tuple[int, str]]:
    """Return the (field id, name) pairs that the name mapping `before` has and `now` lacks; both are JSON texts."""
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
        """Return the updated mapping entries `nodes`, which are inside the field `parent` (None for top-level columns).

        Fields added to that parent are appended, and other fields lose the names that changed fields have now.
        """
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
    """Return a field of a nested type with the type `unknown` instead, to compare it without the fields inside it."""
    return replace(of, type=t.UNKNOWN) if t.children(of.type) else of


def _mapping_node(of: t.Field) -> _Node:
    inner = [_mapping_node(each) for each in t.children(of.type)]
    return {"field-id": of.id, "names": [of.name], **({"fields": inner} if inner else {})}
