"""Add, drop, rename and change columns (protocol, "Column Mapping", "Default Columns")."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from lakescan.common import types as t
from lakescan.common.references import dotted_path, parse_reference, split_list
from lakescan.definition.table_changes import (
    KEPT,
    AddColumn,
    ChangeColumn,
    ColumnPosition,
    Default,
    DropColumn,
    RenameColumn,
)
from lakescan.delta.alter.constraints import check_independent, check_no_lengths
from lakescan.delta.alter.table_state import (
    FoundField,
    Node,
    Path,
    RowCheck,
    TableState,
    find_field,
    has_field,
    overlap,
    position_of,
    struct_fields,
    type_text,
)
from lakescan.delta.alter.type_widening import CHANGES, widen
from lakescan.delta.metadata.features import type_feature
from lakescan.delta.metadata.new_schema import IDENTITY_STEP, assign_column_ids, field_node
from lakescan.delta.metadata.table_properties import DeltaProperties
from lakescan.errors import InvalidOption, UnsupportedFeature

DEFAULT, _GENERATED, _PHYSICAL = "CURRENT_DEFAULT", "delta.generationExpression", "delta.columnMapping.physicalName"
_MAPPING = DeltaProperties.column_mapping.name
FORBIDDEN = " ,;{}()\n\t="  # in column names without column mapping: Parquet writers refuse them


def add_column(state: TableState, change: AddColumn) -> TableState:
    """Add a column, or a field of a struct; existing rows have nulls in it.

    Raises `InvalidOption` if it exists, unless the change has `if_not_exists`, `NoSuchColumn`, and
    `UnsupportedFeature`.
    """
    schema, own = state.schema, change.column
    fields, parent = struct_fields(schema, change.parent), find_field(schema, change.parent).path
    path = (*parent, own.name)
    if has_field(schema, path):
        if change.if_not_exists:
            return state
        raise InvalidOption(f"{state.location} already has a column {dotted_path(find_field(schema, path).path)}")
    check_no_lengths(state, path, "adding")
    check_names(state, [own])
    node = field_node(own)
    if change.default is not None:
        node["metadata"][DEFAULT] = _default(state, change.default, path)
    place = len(fields) if change.place is None else _insert_position(fields, change.place, parent)
    fields.insert(place, node)
    added = with_types(with_mapping(state.with_schema(schema)), [own])
    if own.required:
        why = f"adding the column {dotted_path(path)} NOT NULL to {state.location}: existing rows have no value"
        added = added.with_check(RowCheck(why))
    column: dict[str, Any] = {"column": as_logged(parent, node)}
    if change.place is not None:
        column["position"] = _position(change.place)
    return added.with_step("ADD COLUMNS", columns=[column])


def drop_column(state: TableState, change: DropColumn) -> TableState:
    """Drop a column, or a field of a struct; its values stay in the files.

    Raises `NoSuchColumn`, unless the change has `if_exists`, and `UnsupportedFeature` without column mapping or for a
    column that is needed.
    """
    schema = state.schema
    if change.if_exists and not has_field(schema, change.path):
        return state
    found = find_field(schema, change.path)
    check_mapped(state, f"dropping column {dotted_path(found.path)}")
    check_droppable(state, schema, found)
    assert found.siblings is not None
    found.siblings.remove(found.field)
    dropped = drop_stats_column(state.with_schema(schema), found.path)
    return dropped.with_step("DROP COLUMNS", columns=[dotted_path(found.path)])


def check_droppable(state: TableState, schema: Node, found: FoundField) -> None:
    """Raise `UnsupportedFeature` for a column that cannot be dropped.

    That is one that partitioning, clustering or an expression needs, or that is the last of its struct or table.
    """
    doing = f"dropping {dotted_path(found.path)} of {state.location}"
    if found.siblings is None:
        raise UnsupportedFeature(doing, "The element of a list, and the key and value of a map, cannot be dropped.")
    if len(found.path) == 1 and found.path[0] in state.metadata.partition_columns:
        raise UnsupportedFeature(doing, "The table is partitioned by it: write it to a new table.")
    if any(overlap(each, physical_path(schema, found.path)) for each in state.clustering or ()):
        raise UnsupportedFeature(doing, "The table is clustered by it: change CLUSTER BY first.")
    kept = [each for each in found.siblings if each is not found.field]
    if not kept or (len(found.path) == 1 and {each["name"] for each in kept} <= {*state.metadata.partition_columns}):
        raise UnsupportedFeature(doing, "It is the last one.")
    check_independent(state, found.path, "dropping")
    check_no_lengths(state, found.path, "dropping")


def rename_column(state: TableState, change: RenameColumn) -> TableState:
    """Rename a column, or a field of a struct; files keep its physical name.

    Raises `NoSuchColumn`, `InvalidOption` for an empty or existing name, and `UnsupportedFeature` without column
    mapping or if an expression reads the column.
    """
    schema = state.schema
    found = find_field(schema, change.path)
    doing = f"renaming column {dotted_path(found.path)}"
    check_mapped(state, doing)
    if found.siblings is None:
        raise UnsupportedFeature(
            f"{doing} of {state.location}", "The element of a list, and the key and value of a map, have fixed names."
        )
    others = [each["name"] for each in found.siblings if each is not found.field]
    if change.name.lower() in (each.lower() for each in others):
        raise InvalidOption(f"{state.location} already has a column {change.name!r} next to {dotted_path(found.path)}")
    if not change.name:
        raise InvalidOption(f"{doing} of {state.location}: the new name is empty")
    check_independent(state, found.path, "renaming")
    check_no_lengths(state, found.path, "renaming")
    old, found.field["name"] = found.path, change.name
    renamed = rename_stats_column(state.with_schema(schema), old, change.name)
    if len(old) == 1:
        columns = tuple(change.name if each == old[0] else each for each in state.metadata.partition_columns)
        renamed = replace(renamed, metadata=replace(renamed.metadata, partition_columns=columns))
    new = (*old[:-1], change.name)
    return renamed.with_step("RENAME COLUMN", oldColumnPath=dotted_path(old), newColumnPath=dotted_path(new))


def change_column(state: TableState, change: ChangeColumn) -> TableState:
    """Change the type, comment, default, position or nullability of a column.

    Raises `NoSuchColumn`, `InvalidOption` for a narrower type, and `UnsupportedFeature`.
    """
    schema = state.schema
    found = find_field(schema, change.path)
    name = dotted_path(found.path)
    if found.siblings is None and (change.doc is not KEPT or change.place or change.default is not KEPT):
        raise UnsupportedFeature(
            f"a comment, a default or a place of {name} of {state.location}", "Only its type can be changed."
        )
    changed, before = state, found.metadata.get(CHANGES)
    if change.type is not None:
        widen(state, found, change.type)
        changed = with_types(changed, [t.Field(0, found.path[-1], change.type)])
    if change.doc is not KEPT:
        _set_member(found.metadata, "comment", change.doc)
    if change.default is not KEPT:
        given = None if change.default is None else _default(state, change.default, found.path)
        _check_no_other_values(state, found)
        _set_member(found.metadata, DEFAULT, given)
    if change.required is not None:
        changed = _with_nulls(changed, schema, found, change.required)
    if change.place is not None:
        assert found.siblings is not None
        _move(found, change.place)
    column = as_logged(found.path[:-1], _as_field(found))
    _set_member(column["metadata"], CHANGES, before)  # as in Delta's history: without this type change
    parameters: dict[str, Any] = {"column": column}
    if change.place is not None:
        parameters["position"] = _position(change.place)
    return changed.with_schema(schema).with_step("CHANGE COLUMN", **parameters)


def check_mapped(state: TableState, doing: str) -> None:
    """Raise `UnsupportedFeature` for a table without column mapping; `doing` names the operation in the message."""
    if not state.is_mapped:
        raise UnsupportedFeature(
            f"{doing} of {state.location}, whose files store columns under their logical names",
            f"Set '{_MAPPING}'='name' first, ALTER TABLE ... SET TBLPROPERTIES: no file is rewritten.",
        )


def check_names(state: TableState, columns: Sequence[t.Field]) -> None:
    """Raise `InvalidOption` for column names that files cannot store, unless the table has column mapping."""
    wrong = [each.name for each in t.walk(tuple(columns)) if set(each.name) & set(FORBIDDEN)]
    if wrong and not state.is_mapped:
        raise InvalidOption(
            f"the name of column {wrong[0]!r} has a space or one of ,;{{}}()=, which Delta's data files cannot have. "
            f"Set '{_MAPPING}'='name' first: files then use physical names"
        )


def with_mapping(state: TableState) -> TableState:
    """Return the table with an id and a physical name for each column without one, if it has column mapping."""
    if not state.is_mapped:
        return state
    schema, last = assign_column_ids(state.metadata.schema_string, state.metadata.properties.max_column_id)
    metadata = replace(state.metadata, schema_string=schema)
    configuration = {**metadata.configuration, DeltaProperties.max_column_id.name: str(last)}
    return replace(state, metadata=replace(metadata, configuration=configuration))


def with_types(state: TableState, columns: Sequence[t.Field]) -> TableState:
    """Return the table with the table features that the types of these columns need."""
    brought = {type_feature(each.type) for each in t.walk(tuple(columns))}
    held = state.protocol.features
    return state.with_features(*(n for n in brought if n is not None and f"{n}-preview" not in held))


def physical_path(schema: Node, path: Sequence[str]) -> Path:
    """Return the physical path of a column or struct field: the names that files store it under."""
    names = []
    for count in range(1, len(path) + 1):
        found = find_field(schema, path[:count])
        is_field = found.siblings is not None
        names.append(str(found.metadata.get(_PHYSICAL, found.path[-1])) if is_field else found.path[-1])
    return tuple(names)


def as_logged(parent: Path, node: Node) -> Node:
    """Return a schema JSON field as Delta's history records it: with its full name, and a type such as `struct`.

    `parent` is the path of the struct that has the field.
    """
    return {
        "name": dotted_path((*parent, node["name"])),
        "type": type_text(node["type"]),
        "nullable": node["nullable"],
        "metadata": dict(node.get("metadata") or {}),
    }


def _as_field(found: FoundField) -> Node:
    if found.siblings is not None:
        return found.field
    return {"name": found.path[-1], "type": found.type, "nullable": _is_nullable(found), "metadata": {}}


def _is_nullable(found: FoundField) -> bool:
    if found.siblings is not None:
        return bool(found.field.get("nullable", True))
    contains = {"elementType": "containsNull", "valueType": "valueContainsNull"}.get(found.member)
    return contains is not None and bool(found.holder.get(contains, True))


def _with_nulls(state: TableState, schema: Node, found: FoundField, required: bool) -> TableState:
    if _is_nullable(found) != required:
        return state
    name = dotted_path(found.path)
    if found.siblings is None:
        raise UnsupportedFeature(f"changing whether {name} of {state.location} may be null")
    if required and any(find_field(schema, found.path[: n + 1]).siblings is None for n in range(len(found.path))):
        raise UnsupportedFeature(f"SET NOT NULL of {name} of {state.location}, which is within a list or a map")
    if not required and IDENTITY_STEP in found.metadata:
        raise UnsupportedFeature(f"nulls in the identity column {name} of {state.location}")
    found.field["nullable"] = not required
    if not required:
        return state
    why = f"SET NOT NULL of column {name} of {state.location}, which has nulls"
    return state.with_check(RowCheck(why, not_null=found.path))


def _check_no_other_values(state: TableState, found: FoundField) -> None:
    if len(found.path) > 1:
        raise UnsupportedFeature(
            f"a default of {dotted_path(found.path)} of {state.location}", "Only columns have one."
        )
    for each, what in ((_GENERATED, "generated"), (IDENTITY_STEP, "an identity column")):
        if each in found.metadata:
            raise UnsupportedFeature(f"a default of column {found.path[0]!r} of {state.location}, which is {what}")


def _default(state: TableState, default: Default, path: Path) -> str:
    """Return the SQL text of a default.

    Raises `UnsupportedFeature` for struct fields and tables without column defaults.
    """
    if "allowColumnDefaults" not in state.protocol.features:
        raise UnsupportedFeature(
            f"a default of column {dotted_path(path)} of {state.location}",
            "Set 'delta.feature.allowColumnDefaults'='supported' first: ALTER TABLE ... SET TBLPROPERTIES.",
        )
    if len(path) > 1:
        raise UnsupportedFeature(f"a default of {dotted_path(path)} of {state.location}", "Only columns have one.")
    return default.text


def _set_member(metadata: Node, name: str, value: object) -> None:
    if value is None:
        metadata.pop(name, None)
    else:
        metadata[name] = value


def _insert_position(fields: list[Node], place: ColumnPosition, parent: Path) -> int:
    if place.after is None:
        return 0
    return position_of(place.after, fields, f"in {dotted_path(parent)}" if parent else "in the table") + 1


def _move(found: FoundField, place: ColumnPosition) -> None:
    assert found.siblings is not None
    if place.after is not None and place.after.lower() == found.field["name"].lower():
        return
    target = (
        None if place.after is None else found.siblings[_insert_position(found.siblings, place, found.path[:-1]) - 1]
    )
    found.siblings.remove(found.field)
    found.siblings.insert(0 if target is None else found.siblings.index(target) + 1, found.field)


def _position(place: ColumnPosition) -> str:
    return "FIRST" if place.after is None else f"AFTER {place.after}"


_NAME = DeltaProperties.stats_columns.name


def drop_stats_column(state: TableState, path: Path) -> TableState:
    """Return the table without the column and its fields in `delta.dataSkippingStatsColumns`."""
    return _map_columns(state, lambda each: None if _begins(each, path) else each)


def rename_stats_column(state: TableState, path: Path, name: str) -> TableState:
    """Return the table with the column's new name in `delta.dataSkippingStatsColumns`."""
    new = (*path[:-1], name)
    return _map_columns(state, lambda each: (*new, *each[len(path) :]) if _begins(each, path) else each)


def _begins(each: Path, path: Path) -> bool:
    return tuple(name.lower() for name in each[: len(path)]) == tuple(name.lower() for name in path)


def _map_columns(state: TableState, change: Callable[[Path], Path | None]) -> TableState:
    text = state.metadata.configuration.get(_NAME)
    if not text:
        return state
    before = [parse_reference(each) for each in split_list(text)]
    after = [new for each in before if (new := change(each)) is not None]
    if after == before:
        return state
    configuration = {**state.metadata.configuration, _NAME: ",".join(map(dotted_path, after))}
    return state.with_configuration(configuration)
