"""Convert read options to a snapshot selector: a version, timestamp, branch or tag, or a range of commits."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import date, datetime
from numbers import Integral
from typing import Any

from lakescan.common.timestamps import as_moment, from_millis
from lakescan.errors import InvalidOption
from lakescan.formats.table_format import AppendRange, ChangeRange, SnapshotSelector
from lakescan.options.declaration import Group
from lakescan.options.read import ReadOptions

_End = int | str | datetime  # an end of a range: a snapshot id, a tag or a time


def as_version(version: Any) -> int | str:
    """Return a version, snapshot id or name as int or str; NumPy integers are accepted.

    Raises `InvalidOption` for other types, which would otherwise select nothing.
    """
    if isinstance(version, str):
        return str(version)
    if isinstance(version, Integral) and not isinstance(version, bool):
        return int(version)
    raise InvalidOption(f"{version!r} is not a version: give a number, or the name of a branch or tag as text")


def as_end_of_changes(state: Any) -> int | str | datetime | None:
    """Return a start or end of `Table.changes`: a version, snapshot id or tag, or a time in UTC; None stays None.

    Raises `InvalidOption` for other values.
    """
    if state is None:
        return None
    return as_moment(state) if isinstance(state, date) else as_version(state)


def check_one_state(source: str, options: ReadOptions) -> None:
    """Raise `InvalidOption` if options select a snapshot or changes although `source` already does.

    `source` describes the other selection, for the message.
    """
    if both := (*options.states, *options.names_of_groups(Group.RANGE), *options.changes):
        raise InvalidOption(f"{source} and option {both[0]!r} both select what to read: give only one")


def check_no_range(source: str, given: Mapping[str, object]) -> None:
    """Raise `InvalidOption` if the options `given` select a snapshot, version or range although `source` already does.

    `source` is for the message. `readChangeFeed` and `readChangeData` are allowed.
    """
    options = ReadOptions.parse(given)
    for name in (*options.states, *options.names_of_groups(Group.RANGE), *options.changes):
        if name not in ("readChangeFeed", "readChangeData"):
            raise InvalidOption(f"{source}: remove option {name!r}, which would select something else")


def selector_from(options: ReadOptions) -> SnapshotSelector | None:
    """Return the selector that options specify, None without one; raises `InvalidOption` if options contradict."""
    if alone := options.stream_options:
        raise InvalidOption(f"option {alone[0]!r} is for streams: spark.readStream, or Table.stream")
    given = options.states
    if options.names_of_groups(Group.RANGE):
        if others := [name for name in given if name != "branch"]:
            raise InvalidOption(f"a range of snapshots cannot be combined with option {others[0]!r}: remove it")
        return SnapshotSelector(appends=_append_range(options))
    if options.read_change_feed:
        if given:
            raise InvalidOption(f"a change feed reads a range of versions: remove option {given[0]!r}")
        return SnapshotSelector(changes=_change_range(options))
    if alone := options.changes:
        raise InvalidOption(f"option {alone[0]!r} is for change feeds: set readChangeFeed to true as well")
    if len(given) > 1:
        raise InvalidOption(f"options {' and '.join(map(repr, given))} all select what to read: give only one")
    return _state_selector(options) if given else None


def _state_selector(options: ReadOptions) -> SnapshotSelector:
    """Return the selector of options among which exactly one selects a snapshot or version."""
    timestamp = None
    if options.timestamp_as_of is not None:
        timestamp = as_moment(options.timestamp_as_of, options.time_zone)
    elif options.as_of_timestamp is not None:
        timestamp = from_millis(options.as_of_timestamp)
    version = options.version_as_of if options.snapshot_id is None else options.snapshot_id
    return SnapshotSelector(version, timestamp, options.branch, options.wap_branch, options.tag)


def _append_range(options: ReadOptions) -> AppendRange:
    found = _range_of(options)
    if found.after is None:
        raise InvalidOption("a range of snapshots needs a start: start-snapshot-id, start-tag or start-timestamp")
    return found


def narrow_changelog(selector: SnapshotSelector, options: ReadOptions) -> SnapshotSelector:
    """Return the selector of the commits of a changelog that options select by their ends, which may both be open.

    Args:
        selector: The selector of the changelog of all commits, or another one, which is returned unchanged.
        options: Read options, such as `start-snapshot-id`, which is exclusive as in reads of appended rows.
    """
    if selector.appends != AppendRange(changes=True) or not options.names_of_groups(Group.RANGE):
        return selector
    return SnapshotSelector(appends=replace(_range_of(options.exclude(("branch",))), changes=True))


def _range_of(options: ReadOptions) -> AppendRange:
    starts = {
        "start-snapshot-id": options.start_snapshot_id,
        "start-timestamp": _moment(options.start_timestamp),
        "start-tag": options.start_tag,
    }
    ends = {
        "end-snapshot-id": options.end_snapshot_id,
        "end-timestamp": _moment(options.end_timestamp),
        "end-tag": options.end_tag,
    }
    return AppendRange(_single_end(starts), _single_end(ends), options.branch)


def _single_end(ends: Mapping[str, _End | None]) -> _End | None:
    """Return the given end of a range, by option name; None if no end is given; raises `InvalidOption` for two."""
    given = [name for name, end in ends.items() if end is not None]
    if len(given) > 1:
        raise InvalidOption(f"options {given[0]!r} and {given[1]!r} set the same end of the range: give only one")
    return ends[given[0]] if given else None


def _moment(milliseconds: int | None) -> datetime | None:
    return None if milliseconds is None else from_millis(milliseconds)


def _change_range(options: ReadOptions) -> ChangeRange:
    start, start_at = options.starting_version, options.starting_timestamp
    end, end_at = options.ending_version, options.ending_timestamp
    for side, version, time in (("starting", start, start_at), ("ending", end, end_at)):
        if version is not None and time is not None:
            raise InvalidOption(
                f"options '{side}Version' and '{side}Timestamp' set the same end of the range: give only one"
            )
    if isinstance(start, str):
        raise InvalidOption("startingVersion 'latest' is for streams only: give a version number")
    timestamps = [None if at is None else as_moment(at, options.time_zone) for at in (start_at, end_at)]
    return ChangeRange(start, timestamps[0], end, timestamps[1])


def as_text(options: ReadOptions, selector: SnapshotSelector) -> dict[str, str]:
    """Return options as text, with the time travel options for `selector` instead of their own.

    The conditions (`where`, `filter`) are left out, since a scan writes them separately.
    """
    selecting = options.names_of_groups(Group.STATE, Group.RANGE, Group.FEED)
    texts = {name: _text(value) for name, value in options.exclude((*selecting, "where", "filter")).values().items()}
    chosen: dict[str, object] = {
        "versionAsOf": selector.version,
        "timestampAsOf": selector.timestamp,
        "branch": selector.branch,
        "wap-branch": selector.wap_branch,
        "tag": selector.tag,
    }
    if (changes := selector.changes) is not None:
        chosen |= {
            "readChangeFeed": "true",
            "startingVersion": changes.start_version,
            "endingVersion": changes.end_version,
        }
    if selector.appends is not None:
        values = options.values()
        texts |= {
            name: str(values[name]) for name in (*options.names_of_groups(Group.RANGE), "branch") if name in values
        }
    return texts | {name: str(value) for name, value in chosen.items() if value is not None}


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return json.dumps(value) if isinstance(value, tuple | dict) else str(value)
