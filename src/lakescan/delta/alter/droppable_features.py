"""The table features that can be dropped, and the removal of writer features, which takes one commit.

The table must not use the feature. Older versions stay readable without it. A reader feature also remains in the
history, so it is dropped in several commits (`lakescan.delta.alter.drop_feature`).
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from lakescan.common.references import dotted_path
from lakescan.definition.table_changes import DropFeature, TableChange
from lakescan.delta.alter.clustering import logical_path
from lakescan.delta.alter.columns import FORBIDDEN, as_logged
from lakescan.delta.alter.table_state import Node, TableState, all_fields, parse_schema_tree, schema_text
from lakescan.delta.alter.type_widening import CHANGES
from lakescan.delta.commit.actions import json_text
from lakescan.delta.metadata.features import FEATURES, dependent_features
from lakescan.delta.metadata.protocol import CLUSTERING, Metadata
from lakescan.delta.metadata.table_properties import DeltaProperties
from lakescan.errors import InvalidOption, UnsupportedFeature, nearest

_IDENTITY = ("delta.identity.start", "delta.identity.step", "delta.identity.highWaterMark")
_EXPLICIT = "delta.identity.allowExplicitInsert"
_TIMES = (DeltaProperties.in_commit_timestamps, DeltaProperties.in_commit_since, DeltaProperties.in_commit_since_time)
_ROWS = (
    DeltaProperties.row_tracking,
    DeltaProperties.suspends_row_tracking,
    DeltaProperties.row_id_column,
    DeltaProperties.row_version_column,
)
_ROW_TRACKING = "delta.rowTracking"
PROTECTION = "checkpointProtection"
_WRITERS = ("checkConstraints", "domainMetadata", "identityColumns", "inCommitTimestamp", "rowTracking")
_IN_STEPS = (
    PROTECTION,
    "columnMapping",
    "deletionVectors",
    "typeWidening",
    "typeWidening-preview",
    "v2Checkpoint",
    "vacuumProtocolCheck",
)


def takes_several_commits(change: TableChange) -> bool:
    """Return whether a change drops a reader feature or `checkpointProtection`, which takes several commits."""
    return isinstance(change, DropFeature) and change.name.lower() in {each.lower() for each in _IN_STEPS}


def checked_feature(state: TableState, change: DropFeature) -> str:
    """Return the canonical name of the feature to drop.

    Raises `InvalidOption` if the table does not have it or TRUNCATE HISTORY does not fit it, and `UnsupportedFeature`
    if it cannot be dropped or another feature depends on it.
    """
    doing = f"dropping the feature {change.name!r} of {state.location}"
    known = {each.lower(): each for each in (*FEATURES, *state.protocol.features)}.get(change.name.lower())
    if known is None or known not in state.protocol.features:
        names = sorted(state.protocol.features)
        raise InvalidOption(
            f"{state.location} has no feature {change.name!r}: it has {', '.join(names)}.{nearest(change.name, names)}"
        )
    if known not in (*_WRITERS, *_IN_STEPS):
        names = sorted((*_WRITERS, *_IN_STEPS))
        raise UnsupportedFeature(doing, f"As in Delta on Spark, it cannot be dropped. These can: {', '.join(names)}.")
    if change.truncate_history and known in _WRITERS:
        raise InvalidOption(f"{doing}: TRUNCATE HISTORY is only for features that readers must support")
    if known == PROTECTION and not change.truncate_history:
        raise InvalidOption(
            f"{doing}: it protects versions that use features which the table no longer has. Remove it together with "
            f"these versions: DROP FEATURE {known} TRUNCATE HISTORY"
        )
    if needed := [each for each in dependent_features(known) if each in state.protocol.features]:
        raise UnsupportedFeature(doing, f"The feature {needed[0]!r} needs it: drop that first.")
    return known


def drop_writer_feature(state: TableState, change: DropFeature, domains: frozenset[str]) -> TableState:
    """Drop a writer feature and its properties, column metadata and domains from the table state, for one commit.

    `domains` are the names of the table's metadata domains. Raises the errors of `checked_feature`, and
    `UnsupportedFeature` for a feature whose removal takes several commits.
    """
    known = checked_feature(state, change)
    if known in _IN_STEPS:
        raise UnsupportedFeature(
            f"dropping the feature {known!r} of {state.location} together with other changes",
            "It takes several commits: make it a statement of its own.",
        )
    after = _remove_traces(state, known, domains)
    after = replace(after, protocol=after.protocol.remove_features({known}))
    return after.with_step("DROP FEATURE", featureName=known, truncateHistory=False)


def _remove_traces(state: TableState, feature: str, domains: frozenset[str]) -> TableState:
    configuration = dict(state.metadata.configuration)
    match feature:
        case "checkConstraints":
            if constraints := state.metadata.properties.constraints:
                raise UnsupportedFeature(
                    f"dropping the feature {feature!r} of {state.location}",
                    f"Drop its constraints first: {', '.join(constraints)}.",
                )
        case "identityColumns":
            schema = state.schema
            for _, field in all_fields(schema):
                for name in (*_IDENTITY, _EXPLICIT):
                    (field.get("metadata") or {}).pop(name, None)
            return state.with_schema(schema)
        case "domainMetadata":
            return replace(state, domains={**state.domains, **dict.fromkeys(domains)})
        case "inCommitTimestamp":
            for each in _TIMES:
                configuration.pop(each.name, None)
        case "rowTracking":
            for each in _ROWS:
                configuration.pop(each.name, None)
            after = replace(state, strips=True, backfills=False, domains={**state.domains, _ROW_TRACKING: None})
            return after.with_configuration(configuration)
    return state.with_configuration(configuration)


# Per reader feature, the property that enables it and the value that disables it; None if the property is removed.
SWITCHES: dict[str, tuple[str, str | None]] = {
    "deletionVectors": (DeltaProperties.deletion_vectors.name, None),
    "typeWidening": (DeltaProperties.type_widening.name, None),
    "typeWidening-preview": (DeltaProperties.type_widening.name, None),
    "v2Checkpoint": (DeltaProperties.checkpoint_policy.name, "classic"),
}
_WIDENING = ("typeWidening", "typeWidening-preview")
_MAPPING = (DeltaProperties.column_mapping.name, DeltaProperties.max_column_id.name)
_OF_MAPPING = ("delta.columnMapping.id", "delta.columnMapping.physicalName", "delta.columnMapping.nested.ids")


def is_used(feature: str, metadata: Metadata) -> bool:
    """Return whether metadata uses a reader feature, or allows writers to use it; False for all other features.

    Files may use the feature regardless of the metadata: they may have deletion vectors.
    """
    properties = metadata.properties
    if feature == "deletionVectors":
        return properties.deletion_vectors
    if feature == "v2Checkpoint":
        return properties.checkpoint_policy == "v2"
    if feature == "columnMapping":
        return properties.column_mapping != "none" or _has_any(metadata, _OF_MAPPING)
    return feature in _WIDENING and (properties.type_widening or has_type_changes(metadata))


def needs_feature(feature: str, metadata: Metadata) -> bool:
    """Return whether reading a version with this metadata needs support for a feature.

    Unlike in `is_used`, enabled type widening and leftover column mapping metadata do not count.
    """
    if feature == "columnMapping":
        return metadata.column_mapping_mode != "none"
    return has_type_changes(metadata) if feature in _WIDENING else is_used(feature, metadata)


def has_type_changes(metadata: Metadata) -> bool:
    """Return whether the schema records type changes: files may store columns in earlier types."""
    return _has_any(metadata, (CHANGES,))


def remove_type_changes(state: TableState) -> TableState:
    """Return the table without recorded type changes; all files must have the current types."""
    schema, logged = state.schema, []
    for path, node in all_fields(schema):
        if CHANGES in (node.get("metadata") or {}):
            del node["metadata"][CHANGES]
            logged.append({"column": as_logged(path[:-1], node)})
    return state.with_schema(schema).with_step("DROP FEATURE", columns=json_text(logged))


def remove_mapping(state: TableState) -> TableState:
    """Return the table without column mapping; files must store the columns under their logical names.

    Clustering columns, which are recorded by their physical paths, change too. Raises `UnsupportedFeature` for names
    that files cannot store.
    """
    schema = state.schema
    names = [(path, node["name"]) for path, node in all_fields(schema)]
    if wrong := [path for path, name in names if set(name) & set(FORBIDDEN)]:
        raise UnsupportedFeature(
            f"dropping the feature 'columnMapping' of {state.location}",
            f"Data files cannot have the column {dotted_path(wrong[0])} under its own name: names without column "
            "mapping have no spaces, and none of ,;{}()=. Rename it first.",
        )
    clustering, domains = state.clustering, dict(state.domains)
    if clustering:
        clustering = tuple(logical_path(schema, path) for path in clustering)
        columns = [list(path) for path in clustering]
        domains[CLUSTERING] = json.dumps({"clusteringColumns": columns, "domainName": CLUSTERING})
    for _, node in all_fields(schema):
        for name in _OF_MAPPING:
            (node.get("metadata") or {}).pop(name, None)
    kept = {name: value for name, value in state.metadata.configuration.items() if name not in _MAPPING}
    metadata = replace(state.metadata, schema_string=schema_text(schema), configuration=kept)
    return replace(state, metadata=metadata, clustering=clustering, domains=domains).with_step("REMOVE COLUMN MAPPING")


def changed_columns(metadata: Metadata) -> set[str]:
    """Return the names of columns that have recorded type changes, in themselves or their fields."""
    schema: Node = parse_schema_tree(metadata.schema_string)
    return {path[0] for path, node in all_fields(schema) if CHANGES in (node.get("metadata") or {})}


def _has_any(metadata: Metadata, names: tuple[str, ...]) -> bool:
    schema: Any = parse_schema_tree(metadata.schema_string)
    return any(name in (node.get("metadata") or {}) for _, node in all_fields(schema) for name in names)
