"""Column changes (Java's `SchemaUpdate`): each function returns the draft with one change made."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, time
from itertools import count

from lakescan.common import types as t
from lakescan.common.references import dotted_path, parse_reference
from lakescan.common.timestamps import EPOCH
from lakescan.definition.table_changes import (
    KEPT,
    AddColumn,
    ChangeColumn,
    ColumnPosition,
    Default,
    DropColumn,
    DropKey,
    RenameColumn,
    ReplaceColumns,
    SetKey,
)
from lakescan.definition.table_definition import assign_field_ids, set_default
from lakescan.errors import InvalidOption, NoSuchColumn, UnsupportedFeature, nearest
from lakescan.iceberg.alter.column_tree import (
    ColumnPath,
    Fields,
    check_names,
    find_by_name,
    find_field,
    with_field,
    with_members,
)
from lakescan.iceberg.alter.metadata_draft import MetadataDraft, NoNulls, NoRows
from lakescan.iceberg.metadata.partition_spec import PartitionField
from lakescan.iceberg.metadata.type_promotion import FROM_DATE, can_promote


def add(change: AddColumn, draft: MetadataDraft) -> MetadataDraft:
    """Add a column, or a member of a struct, with ids above all that the table ever assigned.

    The draft is unchanged if the name exists and the change has IF NOT EXISTS. Raises `NoSuchColumn` for a missing
    parent, and `InvalidOption` for an existing or empty name.
    """
    struct = _parent_struct(draft, change.parent)
    siblings = draft.schema.fields if struct is None else t.children(struct.type)
    name, path = change.column.name, dotted_path((*change.parent, change.column.name))
    if taken := find_by_name(siblings, name):
        if change.if_not_exists:
            return draft
        raise InvalidOption(
            f"column {path} already exists{_case_note(name, taken[0])}: names are compared ignoring case"
        )
    if not name:
        raise InvalidOption("a column needs a name")
    column = _set_default(replace(change.column, type=iceberg_type(change.column.type)), change.default)
    (column,), last = _assign_ids((column,), draft.last_column_id)
    check_names((column,), path)
    draft = replace(_require_no_rows(draft, column, path), last_column_id=last)
    place = change.place
    draft = draft.with_columns(with_members(draft.schema.fields, struct, lambda fields: (*fields, column)))
    return draft if place is None else _move_field(draft, find_field(draft.schema, (*change.parent, name)), place)


def _parent_struct(draft: MetadataDraft, parent: tuple[str, ...]) -> t.Field | None:
    """Return the struct with the path `parent`, or the one inside that list or map; None for the table itself.

    Raises `NoSuchColumn`, and `InvalidOption` for a parent without members.
    """
    if not parent:
        return None
    of = find_field(draft.schema, parent).field
    while isinstance(of.type, t.ListOf | t.MapOf):
        of = t.children(of.type)[-1]
    if not isinstance(of.type, t.Struct):
        raise InvalidOption(f"{dotted_path(parent)} is {of.type}, not a struct, so it has no members")
    return of


def _case_note(name: str, taken: t.Field) -> str:
    return "" if taken.name == name else f" as {taken.name}"


def _set_default(column: t.Field, default: Default | None) -> t.Field:
    return column if default is None else set_default(column, _default_value(column.name, default))


def _default_value(name: str, default: Default) -> object:
    if not default.is_literal:
        raise UnsupportedFeature(
            f"the default of column {name!r}, {default.text}, which is not a literal",
            "Iceberg defaults are literals: use one, or compute the value in the query that writes rows.",
        )
    return default.value


def _assign_ids(columns: Fields, last: int) -> tuple[Fields, int]:
    """Return the columns with new ids after `last`, at all depths, and the highest new id.

    The columns are numbered before the fields inside them, as in Java.
    """
    own = [last + position for position in range(1, len(columns) + 1)]
    ids = count(last + len(columns) + 1)
    numbered = tuple(assign_field_ids(column, number, ids) for column, number in zip(columns, own, strict=True))
    return numbered, max(each.id for each in t.walk(numbered))


def _require_no_rows(draft: MetadataDraft, column: t.Field, path: str) -> MetadataDraft:
    """Return the draft with the proof `NoRows` if the column is required and has no default, else unchanged.

    `path` is the column's name in the message.
    """
    if not column.required or column.default is not None:
        return draft
    return draft.add_proof(
        NoRows(
            f"column {path} is NOT NULL and has no default, but the table has rows, which would have no value for it: "
            "give it a default (format version 3), or add it without NOT NULL"
        )
    )


def drop(change: DropColumn, draft: MetadataDraft) -> MetadataDraft:
    """Drop a column, or a member of a struct; with IF EXISTS, a missing one is ignored.

    Raises `NoSuchColumn`, and `InvalidOption` for the only column or the only member of a struct.
    """
    try:
        found = find_field(draft.schema, change.path)
    except NoSuchColumn:
        if change.if_exists:
            return draft
        raise
    struct = found.struct
    if len(draft.schema.fields if struct is None else t.children(struct.type)) == 1:
        last = "the only column" if struct is None else f"the only member of {struct.name}"
        raise InvalidOption(f"{found.path} is {last}: {'drop the table' if struct is None else f'drop {struct.name}'}")
    columns = with_members(draft.schema.fields, struct, lambda fields: _other_fields(fields, found.field))
    return draft.with_columns(columns)


def _other_fields(fields: Fields, gone: t.Field) -> Fields:
    return tuple(each for each in fields if each.id != gone.id)


def rename(change: RenameColumn, draft: MetadataDraft) -> MetadataDraft:
    """Rename a column, or a member of a struct; its id stays, so that existing values stay readable.

    Raises `NoSuchColumn`, and `InvalidOption` for an empty name, or one that a sibling has (ignoring case).
    """
    found = find_field(draft.schema, change.path)
    struct, name = found.struct, change.name
    siblings = _other_fields(draft.schema.fields if struct is None else t.children(struct.type), found.field)
    if taken := find_by_name(siblings, name):
        raise InvalidOption(
            f"{found.path} cannot be called {name}: there is a column of that name{_case_note(name, taken[0])}; "
            "names are compared ignoring case"
        )
    if not name:
        raise InvalidOption(f"{found.path} needs a name")
    return _replace_column(draft, found.field.id, replace(found.field, name=name, physical_name=name))


def _replace_column(draft: MetadataDraft, field_id: int, field: t.Field) -> MetadataDraft:
    return draft.with_columns(with_field(draft.schema.fields, field_id, lambda _: field))


def change_column(change: ChangeColumn, draft: MetadataDraft) -> MetadataDraft:
    """Change a column's type, comment, default, nullability or position.

    SET NOT NULL adds a proof to the draft. Raises `NoSuchColumn`, the errors of `promote_type`, and
    `UnsupportedFeature` for a comment or default of a list element or map value, and for SET NOT NULL inside a list or
    map.
    """
    found = find_field(draft.schema, change.path)
    column, path = found.field, found.path
    if change.type is not None:
        column = _change_type(column, iceberg_type(change.type), path, draft)
    if change.doc is not KEPT:
        _check_member(found, "a comment")
        column = replace(column, doc=change.doc)
    if change.default is not KEPT:
        _check_member(found, "a default")
        exact = None if change.default is None else set_default(column, _default_value(column.name, change.default))
        column = replace(column, write_default=None if exact is None else exact.write_default)
    if change.required is not None and change.required != column.required:
        draft = _prove_no_nulls(draft, found, column) if change.required else draft
        column = replace(column, required=change.required)
    draft = _replace_column(draft, column.id, column)
    return draft if change.place is None else _move_field(draft, find_field(draft.schema, change.path), change.place)


def _change_type(column: t.Field, kind: t.Type, path: str, draft: MetadataDraft) -> t.Field:
    if _strip_ids(column.type) == _strip_ids(kind):
        return column
    fields = [each for spec in draft.base.specs.values() for each in spec.fields]
    return promote_type(column, kind, path, draft.version, (*fields, *draft.partition_fields))


def _strip_ids(kind: t.Type) -> t.Type:
    """Return a type with all field ids set to 0, to compare types by names and types only."""
    bare = [t.Field(0, each.name, _strip_ids(each.type), each.required) for each in t.children(kind)]
    match kind:
        case t.Struct():
            return t.Struct(tuple(bare))
        case t.ListOf():
            return t.ListOf(bare[0])
        case t.MapOf():
            return t.MapOf(bare[0], bare[1])
    return kind


def _check_member(found: ColumnPath, what: str) -> None:
    if found.around and not isinstance(found.around[-1].type, t.Struct):
        raise UnsupportedFeature(f"{what} of {found.path}", "Only the list or map as a whole can have it.")


def _prove_no_nulls(draft: MetadataDraft, found: ColumnPath, column: t.Field) -> MetadataDraft:
    """Return the draft with the proof, for SET NOT NULL, that no row has a null in the column.

    Raises `UnsupportedFeature` for a field inside a list or map.
    """
    if found.is_in_collection:
        raise UnsupportedFeature(
            f"NOT NULL of {found.path}, which is in a list or a map of existing rows",
            "Add a column of that type, and fill it.",
        )
    if column.id in draft.base.schema.by_id:
        return draft.add_proof(NoNulls(column.id))
    return _require_no_rows(draft, replace(column, required=True), found.path)


def _move_field(draft: MetadataDraft, found: ColumnPath, place: ColumnPosition) -> MetadataDraft:
    """Move a field before its siblings, or after the sibling `place.after`; raises `NoSuchColumn` if it is missing."""
    struct = found.struct

    def reorder(fields: Fields) -> Fields:
        others = _other_fields(fields, found.field)
        if place.after is None:
            return (found.field, *others)
        behind = find_by_name(others, place.after)
        if len(behind) != 1:
            why = (
                "itself" if find_by_name((found.field,), place.after) else f"{place.after!r}, which is not its sibling"
            )
            raise NoSuchColumn(
                f"{found.path} cannot be placed after {why}.{nearest(place.after, [each.name for each in others])}"
            )
        at = others.index(behind[0]) + 1
        return (*others[:at], found.field, *others[at:])

    return draft.with_columns(with_members(draft.schema.fields, struct, reorder))


def replace_columns(change: ReplaceColumns, draft: MetadataDraft) -> MetadataDraft:
    """Replace all columns with new ones, as Spark does, which get new field ids.

    Existing rows have nulls or the defaults in them, even in columns with an old name. Raises `InvalidOption` without
    columns and for duplicate names.
    """
    if not change.columns:
        raise InvalidOption("REPLACE COLUMNS needs at least one column: give the new columns")
    columns = tuple(_new_columns(change, draft))
    numbered, last = _assign_ids(columns, draft.last_column_id)
    check_names(numbered, "the table")
    for each in numbered:
        draft = _require_no_rows(draft, each, each.name)
    return replace(draft.with_columns(numbered), last_column_id=last)


def _new_columns(change: ReplaceColumns, draft: MetadataDraft) -> Iterator[t.Field]:
    for each in change.columns:
        yield _set_default(replace(each, type=iceberg_type(each.type)), change.defaults.get(each.name))


def set_key(change: SetKey, draft: MetadataDraft) -> MetadataDraft:
    """Replace the identifier fields with the columns of the change; raises `NoSuchColumn`."""
    ids = tuple(find_field(draft.schema, parse_reference(name)).field.id for name in change.columns)
    return replace(draft, schema=replace(draft.schema, identifier_ids=ids))


def drop_key(change: DropKey, draft: MetadataDraft) -> MetadataDraft:
    """Drop identifier fields.

    Raises `NoSuchColumn`, and `InvalidOption` for a column that is not an identifier field.
    """
    kept = list(draft.schema.identifier_ids)
    for name in change.columns:
        found = find_field(draft.schema, parse_reference(name))
        if found.field.id not in kept:
            key = ", ".join(draft.schema.path_of.get(each, "?") for each in kept)
            has = f"its key is {key}" if key else "the table has no key"
            raise InvalidOption(f"{found.path} is not in the key of the table: {has}")
        kept.remove(found.field.id)
    return replace(draft, schema=replace(draft.schema, identifier_ids=tuple(kept)))


_NARROW = (t.BYTE, t.SHORT)  # Iceberg has no integer types narrower than INT
_WIDER: dict[t.Type, str] = {
    t.INT: "long",
    t.FLOAT: "double",
    t.DATE: "timestamp without a zone (format version 3)",
}
_SAME_DAYS = ("year", "month", "day", "void")  # transforms with the same value for a date and its midnight


def iceberg_type(kind: t.Type) -> t.Type:
    """Return the Iceberg type for a type's values: integers of 8 and 16 bits become INT, at any depth."""
    match kind:
        case t.Struct(fields):
            return t.Struct(tuple(_iceberg_field(each) for each in fields))
        case t.ListOf(element):
            return t.ListOf(_iceberg_field(element))
        case t.MapOf(key, value):
            return t.MapOf(_iceberg_field(key), _iceberg_field(value))
    return t.INT if kind in _NARROW else kind


def _iceberg_field(of: t.Field) -> t.Field:
    return replace(of, type=iceberg_type(of.type))


def promote_type(
    column: t.Field, kind: t.Type, path: str, version: int, partitions: Iterable[PartitionField]
) -> t.Field:
    """Return a field with another type, and its default converted from date to timestamp if needed.

    `path` is the field's name in messages, `version` the format version, and `partitions` are the partition fields of
    all specs. Raises `InvalidOption` for nested types, for a type that cannot hold all values of the old one or needs a
    later format version, and `UnsupportedFeature` if existing partition values would change.
    """
    if isinstance(column.type, t.Struct | t.ListOf | t.MapOf) or isinstance(kind, t.Struct | t.ListOf | t.MapOf):
        raise InvalidOption(
            f"the type of {path}, {column.type}, cannot become {kind}: change members one by one, such as "
            f"{path}.{'element' if isinstance(column.type, t.ListOf) else 'name'}"
        )
    if not can_promote(column.type, kind):
        raise InvalidOption(
            f"the type of {path}, {column.type}, cannot become {kind}: existing rows would lose values, or could not "
            f"be read. {_type_advice(column.type)}"
        )
    if (column.type == t.UNKNOWN or kind in FROM_DATE) and version < 3:
        raise InvalidOption(
            f"the type of {path}, {column.type}, cannot become {kind} before format version 3: set 'format-version'='3'"
        )
    if column.type == t.DATE:
        changed = [each for each in partitions if each.source_id == column.id and each.transform.name not in _SAME_DAYS]
        if changed:
            raise UnsupportedFeature(
                f"the type {kind} of {path}, which files are partitioned by ({changed[0].name})",
                f"Its values of {changed[0].transform} would differ. Add a column of that type, and fill it.",
            )
        return replace(
            column,
            type=kind,
            default=_midnight(column.default, kind),
            write_default=_midnight(column.write_default, kind),
        )
    return replace(column, type=kind)


def _type_advice(old: t.Type) -> str:
    if isinstance(old, t.Decimal):
        return f"It can become a decimal of more digits, with the scale {old.scale}."
    wider = _WIDER.get(old)
    return f"It can become {wider}." if wider else "Add a column of that type, and fill it."


def _midnight(value: object, kind: t.Type) -> object:
    """Return a date default as midnight in the timestamp type `kind`; None stays None.

    For nanoseconds it is a number since 1970, because Python's datetime has only microseconds.
    """
    if value is None:
        return None
    midnight = datetime.combine(value, time())  # type: ignore[arg-type]
    if kind == t.Timestamp("ns", zoned=False):
        return (midnight.replace(tzinfo=UTC) - EPOCH).days * 86_400 * 10**9
    return midnight
