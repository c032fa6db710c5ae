"""Which table features can be dropped; and those that writers alone must know, dropped in one commit.

Nothing of the table may use them any more. Older versions stay readable without them. A feature that readers must know
stays in the table's history: it is dropped in steps (`lakescan.delta.alter.drop_feature`).
"""

from __future__ import annotations

from dataclasses import replace

from lakescan.definition.table_changes import DropFeature, TableChange
from lakescan.delta.alter.schema_tree import all_fields
from lakescan.delta.alter.state import TableState
from lakescan.delta.metadata.features import FEATURES, dependent_features
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
    """Whether a change drops a feature that takes several commits: one of readers, or what protects its history."""
    return isinstance(change, DropFeature) and change.name.lower() in {each.lower() for each in _IN_STEPS}


def checked_feature(state: TableState, change: DropFeature) -> str:
    """The name of the feature to drop; raises `InvalidOption` and `UnsupportedFeature` if it cannot be dropped."""
    doing = f"dropping the feature {change.name!r} of {state.location}"
    known = {each.lower(): each for each in (*FEATURES, *state.protocol.features)}.get(change.name.lower())
    if known is None or known not in state.protocol.features:
        names = sorted(state.protocol.features)
        raise InvalidOption(
            f"{state.location} has no feature {change.name!r}: it has {', '.join(names)}.{nearest(change.name, names)}"
        )
    if known not in (*_WRITERS, *_IN_STEPS):
        names = sorted((*_WRITERS, *_IN_STEPS))
        raise UnsupportedFeature(doing, f"As in Delta on Spark, it stays. These can be dropped: {', '.join(names)}.")
    if change.truncate_history and known in _WRITERS:
        raise InvalidOption(f"{doing}: TRUNCATE HISTORY is for features that readers must know")
    if known == PROTECTION and not change.truncate_history:
        raise InvalidOption(
            f"{doing}: it protects versions that use features which the table has no more. It goes once these versions "
            f"do: DROP FEATURE {known} TRUNCATE HISTORY"
        )
    if needed := [each for each in dependent_features(known) if each in state.protocol.features]:
        raise UnsupportedFeature(doing, f"The feature {needed[0]!r} needs it: drop that first.")
    return known


def drop_writer_feature(state: TableState, change: DropFeature, domains: frozenset[str]) -> TableState:
    """Drop a feature and what the table has of it, in one commit; `domains` are those that have metadata.

    Raises what `checked_feature` raises, and `UnsupportedFeature` for a feature that takes several commits.
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
