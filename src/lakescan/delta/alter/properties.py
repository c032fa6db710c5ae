"""Set and unset table properties; a property that needs a table feature adds the feature to the protocol."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import replace

from lakescan.definition.table_changes import SetComment, SetProperties, UnsetProperties
from lakescan.delta.alter.protocol_upgrade import with_dependencies, with_feature, with_versions
from lakescan.delta.alter.table_state import TableState, all_fields, schema_text
from lakescan.delta.commit.actions import json_text
from lakescan.delta.metadata.features import property_feature
from lakescan.delta.metadata.table_properties import CONSTRAINT, FEATURE, DeltaProperties, canonical_name, checked_value
from lakescan.errors import InvalidOption, UnsupportedFeature, nearest

_MAPPING, _LAST_ID = DeltaProperties.column_mapping.name, DeltaProperties.max_column_id.name
_ID, _PHYSICAL = "delta.columnMapping.id", "delta.columnMapping.physicalName"
_ROW_TRACKING, _SUSPENDED = DeltaProperties.row_tracking.name, DeltaProperties.suspends_row_tracking.name
_ROW_IDS, _ROW_VERSIONS = DeltaProperties.row_id_column.name, DeltaProperties.row_version_column.name
_READER, _WRITER = DeltaProperties.reader_version.name, DeltaProperties.writer_version.name
_UNMAP = "ALTER TABLE ... DROP FEATURE columnMapping rewrites them"
_COMMENT = "comment"  # Spark's property for the description of a table
# Spark's reserved properties, which record the format and location of a table.
_NOT_SET = {
    "location": "A Delta table is its folder: copy it, or open the other folder.",
    "provider": "A table keeps its format: write it to a new table.",
}


def set_properties(state: TableState, change: SetProperties) -> TableState:
    """Set properties; those that name protocol versions and features upgrade the protocol and are not stored.

    Raises `InvalidOption` for an unknown Delta property or an invalid value, and `UnsupportedFeature`.
    """
    after, set_, checked = state, dict(change.properties), {}
    versions = {each.lower(): each for each in set_}
    reader, writer = (set_.pop(versions.get(each.lower(), ""), None) for each in (_READER, _WRITER))
    if reader is not None or writer is not None:
        after = with_versions(after, reader, writer)
    for name, value in set_.items():
        if name.lower().startswith(FEATURE):
            after = with_feature(after, name[len(FEATURE) :], value)
        elif name.lower().startswith(CONSTRAINT):
            raise InvalidOption(
                f"{name!r} is not set as a property: ALTER TABLE ... ADD CONSTRAINT checks the rows first"
            )
        elif name in _NOT_SET:
            raise UnsupportedFeature(f"the property {name!r} of {state.location}", _NOT_SET[name])
        elif name == _COMMENT:
            after = replace(after, metadata=replace(after.metadata, description=value))
        elif not name.lower().startswith("delta."):
            checked[name] = value
        else:
            known = canonical_name(name)
            checked[known] = checked_value(known, value, f"of {state.location}")
    after = _apply_properties(after, checked)
    logged = {n.lower() if n.lower().startswith(FEATURE) else n: v for n, v in change.properties.items()}  # as Delta
    return after.with_step("SET TBLPROPERTIES", properties=json_text(logged))


def unset_properties(state: TableState, change: UnsetProperties) -> TableState:
    """Remove properties.

    Raises `InvalidOption` for a property that is not set, unless the change has `if_exists`, and `UnsupportedFeature`
    for properties that files or columns depend on.
    """
    configuration, comment = dict(state.metadata.configuration), state.metadata.description
    names = [_as_recorded(name, configuration) for name in change.names]
    for name in names:
        if name == _COMMENT:
            comment = None
            continue
        if name not in configuration:
            if not change.if_exists:
                raise InvalidOption(f"{state.location} has no property {name!r}.{nearest(name, configuration)}")
            continue
        _check_removable(state, name)
        del configuration[name]
    after = state.with_configuration(configuration)
    after = replace(after, metadata=replace(after.metadata, description=comment))
    parameters = {
        "properties": json_text(names),
        "ifExists": change.if_exists,
    }
    return after.with_step("UNSET TBLPROPERTIES", **parameters)


def set_comment(state: TableState, change: SetComment) -> TableState:
    """Set or remove the table's description, as Delta does for COMMENT ON TABLE."""
    if change.comment is None:
        return unset_properties(state, UnsetProperties((_COMMENT,), if_exists=True))
    return set_properties(state, SetProperties({_COMMENT: change.comment}))


def _apply_properties(state: TableState, properties: Mapping[str, str]) -> TableState:
    """Return the table with validated properties and the features, column ids and row tracking that they need."""
    before = state.metadata.properties
    after = state.with_configuration({**state.metadata.configuration, **properties})
    brought = [property_feature(name, value) for name, value in properties.items()]
    previews = {each.removesuffix("-preview") for each in state.protocol.features if each.endswith("-preview")}
    after = with_dependencies(after, *(name for name in brought if name is not None and name not in previews))
    if _MAPPING in properties and before.column_mapping != properties[_MAPPING]:
        after = _enable_mapping(after, before.column_mapping, properties[_MAPPING])
    if properties.get(_ROW_TRACKING) == "true" and not before.row_tracking:
        after = _enable_row_tracking(after)
    return after


def _enable_mapping(state: TableState, old: str, new: str) -> TableState:
    """Return the table with a column id for each column and its current name as the physical name.

    `old` and `new` are the column mapping modes; raises `UnsupportedFeature` for a change other than from none to name.
    """
    if (old, new) != ("none", "name"):
        raise UnsupportedFeature(
            f"changing '{_MAPPING}' of {state.location} from {old!r} to {new!r}",
            f"Files of the table store its columns under physical names: {_UNMAP}.",
        )
    schema, last = state.schema, state.metadata.properties.max_column_id
    fields = list(all_fields(schema))
    if any({_ID, _PHYSICAL} & set(field.get("metadata") or {}) for _, field in fields):
        raise UnsupportedFeature(
            f"column mapping for {state.location}, whose columns have ids of an earlier mapping",
            "Write the table to a new one.",
        )
    for _, field in fields:
        last += 1
        field["metadata"] = {**(field.get("metadata") or {}), _ID: last, _PHYSICAL: field["name"]}
    metadata = replace(state.metadata, schema_string=schema_text(schema))
    configuration = {**metadata.configuration, _LAST_ID: str(last)}
    return replace(state, metadata=replace(metadata, configuration=configuration))


def _enable_row_tracking(state: TableState) -> TableState:
    """Return the table with names for the file columns of materialized row ids and commit versions.

    Existing files get row ids in the same commit.
    """
    configuration = dict(state.metadata.configuration)
    configuration.pop(_SUSPENDED, None)
    configuration.setdefault(_ROW_IDS, f"_row-id-col-{uuid.uuid4()}")
    configuration.setdefault(_ROW_VERSIONS, f"_row-commit-version-col-{uuid.uuid4()}")
    return replace(state.with_configuration(configuration), backfills=True)


def _as_recorded(name: str, recorded: Iterable[str]) -> str:
    """Return a property's name as the table stores it; `delta.` properties match in any case."""
    if name in recorded or not name.lower().startswith("delta."):
        return name
    return next((each for each in recorded if each.lower() == name.lower()), name)


def _check_removable(state: TableState, name: str) -> None:
    declared = DeltaProperties.declarations().get(name)
    if name.lower().startswith(CONSTRAINT):
        raise InvalidOption(f"{name!r} is a constraint: ALTER TABLE ... DROP CONSTRAINT {name[len(CONSTRAINT) :]}")
    if name == _MAPPING and state.is_mapped:
        raise UnsupportedFeature(
            f"removing '{_MAPPING}' of {state.location}",
            f"Files of the table store its columns under physical names: {_UNMAP}.",
        )
    if declared is not None and declared.is_internal:
        raise UnsupportedFeature(f"removing the property {name!r} of {state.location}", "Delta's writers need it.")
