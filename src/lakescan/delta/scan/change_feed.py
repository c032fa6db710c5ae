"""The change data feed: find the files, and the rows in them, that hold the changes of a version range.

Protocol, "Add CDC File" and "Reader Requirements for AddCDCFile". If a version has cdc actions, only those count.
Otherwise added files are inserts and removed files are deletes. If one commit adds and removes the same file, its
deletion vectors are compared: rows only in the new vector were deleted, and rows only in the old vector were restored,
which makes them inserts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common import metadata_columns as m
from lakescan.common import types as t
from lakescan.common.schema import Schema
from lakescan.common.timestamps import from_millis, to_millis
from lakescan.delta.log.actions import VECTOR
from lakescan.delta.log.log_text import LogText
from lakescan.delta.log.replay import canonical_paths, check_partitions, resolve_paths
from lakescan.delta.log.time_travel import commit_info
from lakescan.delta.metadata.protocol import Metadata
from lakescan.delta.metadata.table_properties import DeltaProperties
from lakescan.errors import InvalidOption, NoSuchSnapshot, UnsupportedFeature
from lakescan.formats.table_format import ChangeRange

ENABLED: str = DeltaProperties.change_feed.name
COLUMNS = (m.CHANGE_TYPE, m.COMMIT_VERSION, m.COMMIT_TIMESTAMP)
_UNCHANGED = ("numTargetRowsInserted", "numTargetRowsUpdated", "numTargetRowsDeleted")


def range_after(start: int | str | datetime | None, end: int | str | datetime | None) -> ChangeRange:
    """Return the range of versions after `start`, up to and including `end`; raises `InvalidOption` for text.

    None stands for the start of the table, and for its newest version.
    """
    _check_no_names(start, end)
    after = start + timedelta(milliseconds=1) if isinstance(start, datetime) else None
    return ChangeRange(
        start_version=start + 1 if isinstance(start, int) else None if after else 0,
        start_timestamp=after,
        end_version=end if isinstance(end, int) else None,
        end_timestamp=end if isinstance(end, datetime) else None,
    )


def range_from(start: int | str | datetime, end: int | str | datetime | None) -> ChangeRange:
    """Return the range of versions from `start` to `end`, both inclusive; `end` None is the newest version.

    Raises `InvalidOption` for text and for negative versions.
    """
    _check_no_names(start, end)
    if lowest := [state for state in (start, end) if isinstance(state, int) and state < 0]:
        raise InvalidOption(f"{lowest[0]} is not a Delta version: they are 0 or more")
    return ChangeRange(
        start_version=start if isinstance(start, int) else None,
        start_timestamp=start if isinstance(start, datetime) else None,
        end_version=end if isinstance(end, int) else None,
        end_timestamp=end if isinstance(end, datetime) else None,
    )


def _check_no_names(*states: object) -> None:
    for state in states:
        if isinstance(state, str):
            raise InvalidOption(f"{state!r} is not a Delta version or timestamp: give a number or a datetime")


def resolve_range(
    wanted: ChangeRange, location: str, newest: int, times: Callable[[], Mapping[int, int]]
) -> tuple[int, int]:
    """Return the first and last version of a range; the last is before the first if the range has no commit.

    A start timestamp means the first commit at or after it, an end timestamp the last commit at or before it. An end
    beyond the newest version means the newest. `times` returns commit times in milliseconds since 1970, by version.
    Raises `InvalidOption` and `NoSuchSnapshot`.
    """
    start = wanted.start_version
    if wanted.start_timestamp is not None:
        start = first_since(times(), wanted.start_timestamp, location)
    if start is None:
        raise InvalidOption("a change feed needs a start: startingVersion or startingTimestamp")
    if start > newest:
        raise NoSuchSnapshot(f"{location} has no changes from version {start} on: the newest version is {newest}")
    end = newest if wanted.end_version is None else wanted.end_version
    if wanted.end_timestamp is not None:
        end = _last_until(times(), wanted.end_timestamp, location)
    between_commits = wanted.start_timestamp is not None and wanted.end_timestamp is not None and end == start - 1
    if end < start and not between_commits:
        raise InvalidOption(f"the change feed's end (version {end}) is before its start (version {start})")
    return start, min(end, newest)


def first_since(times: Mapping[int, int], timestamp: datetime, location: str) -> int:
    """Return the first version committed at or after `timestamp`; raises `NoSuchSnapshot` without one.

    `times` are commit times in milliseconds since 1970, by version.
    """
    later = [version for version, at in times.items() if at >= to_millis(timestamp)]
    if not later:
        newest = from_millis(max(times.values())) if times else "none"
        raise NoSuchSnapshot(f"{location}: no commit at or after {timestamp}; the newest is from {newest}")
    return min(later)


def _last_until(times: Mapping[int, int], timestamp: datetime, location: str) -> int:
    earlier = [version for version, at in times.items() if at <= to_millis(timestamp)]
    if not earlier:
        oldest = from_millis(min(times.values())) if times else "none"
        raise NoSuchSnapshot(f"{location}: no commit at or before {timestamp}; the oldest is from {oldest}")
    return max(earlier)


def check_recorded(start: int, end: int, metadata: Iterable[tuple[int, Metadata]], location: str) -> None:
    """Raise `UnsupportedFeature` if the table did not record changes in the whole range.

    `metadata` are (version, metadata) pairs in ascending order.
    """
    missing = None
    for version, each in metadata:
        if missing is None and not each.properties.change_feed:
            missing = version
        elif missing is not None and each.properties.change_feed:
            raise UnsupportedFeature(
                f"a change feed of versions {start} to {end}",
                f"{location} did not record changes at version {missing}: change data was not recorded before version "
                f"{version}. Start at {version} or later.",
            )
    if missing is not None:
        raise UnsupportedFeature(
            f"a change feed of versions {start} to {end}",
            f"{location} did not record changes at version {missing}: {ENABLED} must be true in all of them. Set it, "
            "and read changes from that version on.",
        )


def check_schemas(read: Schema, metadata: Iterable[tuple[int, Metadata]], location: str) -> None:
    """Raise `UnsupportedFeature` unless all versions can be read with the schema `read`.

    `metadata` are pairs of version and metadata. Earlier versions may only lack columns or have narrower types.
    """
    for version, each in metadata:
        if problem := difference(each.schema(), read):
            raise UnsupportedFeature(
                "a change feed across an incompatible schema change",
                f"{location} at version {version} has {problem}. Read the versions before and after it separately.",
            )


def difference(theirs: Schema, read: Schema) -> str | None:
    """Return why rows with the schema `theirs` cannot be read with the schema `read`, or None if they can.

    `read` may only have additional or wider columns.
    """
    return _incompatible(theirs.fields, read.fields, "")


def _incompatible(theirs: tuple[t.Field, ...], ours: tuple[t.Field, ...], path: str) -> str | None:
    by_name = {f.name: f for f in ours}
    for each in theirs:
        own = by_name.get(each.name)
        name = path + each.name
        if own is None or own.physical_name != each.physical_name:
            return f"a column {name!r} that the read schema lacks (it was added, renamed or dropped)"
        inner = t.children(each.type), t.children(own.type)
        if inner[0] and inner[1] and type(each.type) is type(own.type):
            if problem := _incompatible(*inner, f"{name}."):
                return problem
        elif each.type != own.type and not t.is_widening(each.type, own.type):
            return f"a column {name!r} of type {each.type}, which is {own.type} in the read schema"
    return None


def has_no_changes(commit: LogText) -> bool:
    """Return whether a commit is a MERGE whose metrics count no changed row; the files it rewrote are not changes."""
    info = commit_info(commit)
    metrics = info.get("operationMetrics")
    if info.get("operation") != "MERGE" or not isinstance(metrics, dict):
        return False
    return all(str(metrics.get(name)) == "0" for name in _UNCHANGED)


def changed_files(actions: pa.Table, unchanged: set[int], times: Mapping[int, int], location: str) -> pa.Table:
    """Return the files that hold the changes, as file actions with additional columns.

    These are `change_type` (null if the file has the column itself), `commit_timestamp`, and `kept_vector`, a deletion
    vector of the only rows to read (`vector` has the rows to leave out). The oldest commit comes first, and within a
    commit the deletes, so changes can be applied in this order.

    `actions` come from `ActionReader.changes`; adds and removes of `unchanged` versions are ignored. `times` are commit
    times in milliseconds since 1970, by version.
    """
    recorded = pc.is_in(actions["version"], value_set=pc.unique(_where(actions, "cdc")["version"]))
    counts = pc.and_not(actions["data_change"], pc.is_in(actions["version"], value_set=pa.array(unchanged, pa.int64())))
    is_cdc = pc.equal(actions["action"], "cdc")
    actions = actions.filter(pc.or_(is_cdc, pc.and_not(counts, recorded)))
    actions = resolve_paths(actions, location)
    adds, removes = _where(actions, "add"), _where(actions, "remove")
    old, new = _partner(adds, removes), _partner(removes, adds)
    both = adds.filter(pc.is_valid(old))
    before = removes.take(old.drop_null())
    files = pa.concat_tables(
        [
            _changes(_where(actions, "cdc"), None),
            _changes(removes.filter(pc.is_null(new)), "delete"),
            _differences(both, dropped=before, kept=both, change="delete"),
            _changes(adds.filter(pc.is_null(old)), "insert"),
            _differences(both, dropped=both, kept=before, change="insert"),
        ]
    ).sort_by("version")  # stable
    check_partitions(files)
    known = pa.array([times.get(v) for v in files["version"].to_pylist()], pa.int64())
    at = known.cast(pa.timestamp("ms", "UTC")).cast(pa.timestamp("us", "UTC"))
    return files.append_column("commit_timestamp", at)


def _where(actions: pa.Table, action: str) -> pa.Table:
    return actions.filter(pc.equal(actions["action"], action))


def _partner(files: pa.Table, others: pa.Table) -> pa.Array:
    """Return for each file the row number of the same path and version in `others`; null if missing."""
    keys, theirs = (
        pc.binary_join_element_wise(
            x["version"].cast(pa.string()), canonical_paths(x["path"].combine_chunks()), "/"
        ).combine_chunks()
        for x in (files, others)
    )
    return pc.index_in(keys, value_set=theirs)


def _changes(files: pa.Table, change: str | None) -> pa.Table:
    """Return files whose rows, except those in their deletion vector, are all changes of this type.

    `change` is insert or delete; None for cdc files, which store the type of each row.
    """
    files = files.append_column("change_type", pa.repeat(pa.scalar(change, pa.string()), files.num_rows))
    return files.append_column("kept_vector", pa.nulls(files.num_rows, VECTOR))


def _differences(files: pa.Table, *, dropped: pa.Table, kept: pa.Table, change: str) -> pa.Table:
    """Return files whose rows in the vector of `kept` but not in that of `dropped` are changes of this type.

    The three tables have the same files in the same order, with other vectors. Files without a vector in `kept` are
    left out.
    """
    place = files.schema.get_field_index("vector")
    paired = _changes(files.set_column(place, "vector", dropped["vector"]), change)
    place = paired.schema.get_field_index("kept_vector")
    paired = paired.set_column(place, "kept_vector", kept["vector"])
    return paired.filter(pc.is_valid(pc.struct_field(kept["vector"], "storageType")))
