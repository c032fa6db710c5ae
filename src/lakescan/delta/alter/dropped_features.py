"""Drop table features, as Delta does: nothing of the table may use them any more.

Writers alone must know the features that are dropped here, so older versions stay readable. A feature that readers
must know stays in the table's history: dropping it needs versions removed, or protected by checkpoints.
"""

from __future__ import annotations

from dataclasses import replace

from lakescan.definition.table_changes import DropFeature
from lakescan.delta.alter.features import without_features
from lakescan.delta.alter.schema_tree import all_fields
from lakescan.delta.alter.state import TableState
from lakescan.delta.metadata.features import FEATURES, is_for_readers
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
_DEPEND = {"domainMetadata": ("rowTracking", "clustering")}  # on a feature
_REMOVABLE = ("checkConstraints", "domainMetadata", "identityColumns", "inCommitTimestamp", "rowTracking")
_READERS = {
    "deletionVectors": "Set 'delta.enableDeletionVectors'='false'; compact(purge=True) applies the vectors.",
    "columnMapping": "Write the table to a new one.",
    "typeWidening": "Set 'delta.enableTypeWidening'='false' to widen no more types.",
    "v2Checkpoint": "Set 'delta.checkpointPolicy'='classic': the next checkpoints are classic.",
}


def drop_feature(state: TableState, change: DropFeature, domains: frozenset[str]) -> TableState:
    """Drop a feature and what the table has of it; `domains` are those that have metadata."""
    doing = f"dropping the feature {change.name!r} of {state.location}"
    known = {each.lower(): each for each in (*FEATURES, *state.protocol.features)}.get(change.name.lower())
    if known is None or known not in state.protocol.features:
        names = sorted(state.protocol.features)
        raise InvalidOption(
            f"{state.location} has no feature {change.name!r}: it has {', '.join(names)}.{nearest(change.name, names)}"
        )
    if is_for_readers(known) or known not in FEATURES:
        more = _READERS.get(known, "")
        raise UnsupportedFeature(
            doing,
            f"{more + ' ' if more else ''}The feature itself is in the table's history, which readers then could not "
            "read: drop it with Delta on Spark, or write the table to a new one.",
        )
    if known not in _REMOVABLE:
        raise UnsupportedFeature(doing, f"Delta removes {', '.join(_REMOVABLE)} alone.")
    if change.truncate_history:
        raise InvalidOption(f"{doing}: TRUNCATE HISTORY is for features that readers must know")
    if needing := [each for each in _DEPEND.get(known, ()) if each in state.protocol.features]:
        raise UnsupportedFeature(doing, f"The feature {needing[0]!r} needs it: drop that first.")
    after = _without_traces(state, known, domains)
    after = replace(after, protocol=without_features(after.protocol, {known}))
    return after.with_step("DROP FEATURE", featureName=known, truncateHistory=False)


def _without_traces(state: TableState, feature: str, domains: frozenset[str]) -> TableState:
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
