"""Changes of table properties, and what properties say of columns when these change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from lakescan.definition.table_changes import SetComment, SetLocation, UnsetProperties
from lakescan.errors import InvalidOption, nearest
from lakescan.iceberg.alter.draft import FilesHaveIds, MetadataDraft
from lakescan.iceberg.alter.name_mapping import lost_names, update_name_mapping
from lakescan.iceberg.metadata.format_versions import PROPERTY as FORMAT_VERSION
from lakescan.iceberg.metadata.format_versions import chosen_version
from lakescan.iceberg.metadata.table_properties import IcebergProperties, check_properties
from lakescan.storage.locations import split_location

_COMMENT = "comment"
_KEY = IcebergProperties.encryption_key.name
# What Java's Spark catalog keeps for statements of their own.
_STATEMENTS = {
    "sort-order": "WRITE ORDERED BY, or Table.alter().set_sort_order",
    "identifier-fields": "SET IDENTIFIER FIELDS, or Table.alter().set_key",
    "location": "SET LOCATION, or Table.alter().set_location",
    "provider": "CREATE TABLE ... USING: a table keeps its format",
}
# Properties about one column, whose name follows: they go where the column goes.
_OF_COLUMNS = (
    "write.metadata.metrics.column.",
    "write.parquet.bloom-filter-enabled.column.",
    "write.parquet.stats-enabled.column.",
)


def set_properties(properties: Mapping[str, str], draft: MetadataDraft) -> MetadataDraft:
    """Set properties; `format-version` upgrades the table, and is none of them."""
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
            f"'{FORMAT_VERSION}'='{number}': the table has version {draft.version}, and versions only go up: copy its "
            "rows into a new table"
        )
    return replace(draft, version=number)


def unset_properties(change: UnsetProperties, draft: MetadataDraft) -> MetadataDraft:
    """Remove properties; raises `InvalidOption` for one that is not set, unless the change says IF EXISTS."""
    missing = [name for name in change.names if name not in draft.properties]
    if missing and not change.if_exists:
        raise InvalidOption(
            f"the table has no property {missing[0]!r}.{nearest(missing[0], draft.properties)} UNSET TBLPROPERTIES IF "
            "EXISTS passes over those that are not set."
        )
    _check_same_key(None if _KEY in change.names else draft.properties.get(_KEY), draft)
    return replace(draft, properties={n: v for n, v in draft.properties.items() if n not in change.names})


def _check_same_key(key: str | None, draft: MetadataDraft) -> None:
    """Raise `InvalidOption` for another table key, as Java does: the keys of all files depend on this one."""
    if key != draft.properties.get(_KEY):
        raise InvalidOption(
            f"'{_KEY}' cannot be set, changed or removed: a table is encrypted from its creation on, by one key. "
            "Create another table, and copy the rows"
        )


def set_comment(change: SetComment, draft: MetadataDraft) -> MetadataDraft:
    """Set the property `comment`, or remove it."""
    rest = {name: value for name, value in draft.properties.items() if name != _COMMENT}
    return replace(draft, properties=rest if change.comment is None else {**rest, _COMMENT: change.comment})


def set_location(change: SetLocation, draft: MetadataDraft) -> MetadataDraft:
    """Set the folder of new files."""
    location = change.location.strip()
    scheme, _, path = split_location(location)
    if not location or (scheme == "file" and not path.startswith("/")):
        raise InvalidOption(
            f"the location {change.location!r} is not a folder's: give an absolute path, or one with a scheme"
        )
    return replace(draft, location=location.rstrip("/") or location)


def update_column_properties(draft: MetadataDraft) -> MetadataDraft:
    """The draft with properties about columns as these are now called, and with the name mapping of new columns."""
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
