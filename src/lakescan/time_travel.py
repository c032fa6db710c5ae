"""Read options to snapshot selector: a version, timestamp, branch, tag, or a range of commits whose changes to read."""

from __future__ import annotations

import json
from datetime import UTC, datetime

from lakescan.common.timestamps import as_moment, from_millis
from lakescan.errors import InvalidOption
from lakescan.formats.table_format import AppendRange, ChangeRange, SnapshotSelector
from lakescan.options.read import Options
from lakescan.options.streaming import FEED, STREAM_ONLY

SELECTING = ("versionAsOf", "timestampAsOf", "snapshot-id", "as-of-timestamp", "branch", "tag")
_CHANGES = ("startingVersion", "startingTimestamp", "endingVersion", "endingTimestamp")
_APPENDS = tuple(f"{end}-{kind}" for end in ("start", "end") for kind in ("snapshot-id", "timestamp", "tag"))
_REPLACED = (
    *SELECTING,
    *_CHANGES,
    *_APPENDS,
    *FEED,
    "time-zone",
    "path",
    "format",
    "where",
    "filter",
    "relocate",
    "storage-options",
)


def check_one_state(source: str, options: Options) -> None:
    """Raise `InvalidOption` if options also select a snapshot or changes; `source` describes the earlier selection."""
    chosen = (*SELECTING, *_CHANGES, *_APPENDS, *FEED)
    if both := [name for name in chosen if options.get(name) not in (None, False)]:
        raise InvalidOption(f"{source} and option {both[0]!r} both select what to read: give only one")


def selector_from(options: Options) -> SnapshotSelector | None:
    """Return the selector given by options, None if there is none; raises `InvalidOption` if options contradict."""
    given = [name for name in SELECTING if name in options]
    if alone := [name for name in STREAM_ONLY if name in options]:
        raise InvalidOption(f"option {alone[0]!r} is for streams: spark.readStream, or Table.follow")
    if any(name in options for name in _APPENDS):
        if others := [name for name in given if name != "branch"]:
            raise InvalidOption(f"a range of snapshots cannot be combined with option {others[0]!r}: remove it")
        return SnapshotSelector(appends=_append_range(options))
    if any(options.get(name) for name in FEED):
        if given:
            raise InvalidOption(f"a change feed reads a range of versions: remove option {given[0]!r}")
        return SnapshotSelector(changes=_change_range(options))
    if alone := [name for name in _CHANGES if name in options]:
        raise InvalidOption(f"option {alone[0]!r} is for change feeds: set readChangeFeed to true as well")
    if not given:
        return None
    if len(given) > 1:
        raise InvalidOption(f"options {' and '.join(map(repr, given))} all select what to read: give only one")
    value = options[given[0]]
    match given[0]:
        case "versionAsOf" | "snapshot-id":
            return SnapshotSelector(version=value)
        case "timestampAsOf":
            return SnapshotSelector(timestamp=as_moment(value, options.get("time-zone", UTC)))
        case "as-of-timestamp":
            return SnapshotSelector(timestamp=from_millis(value))
        case "branch":
            return SnapshotSelector(branch=value)
    return SnapshotSelector(tag=value)


def _append_range(options: Options) -> AppendRange:
    ends = {end: [n for n in _APPENDS if n.startswith(end) and n in options] for end in ("start", "end")}
    for given in ends.values():
        if len(given) > 1:
            raise InvalidOption(f"options {given[0]!r} and {given[1]!r} set the same end of the range: give only one")
    if not ends["start"]:
        raise InvalidOption("a range of snapshots needs a start: start-snapshot-id, start-tag or start-timestamp")
    after, upto = (_range_end(given[0], options) if given else None for given in ends.values())
    return AppendRange(after, upto, options.get("branch"))


def _range_end(name: str, options: Options) -> int | str | datetime:
    value: int | str = options[name]
    return from_millis(int(value)) if name.endswith("timestamp") else value


def _change_range(options: Options) -> ChangeRange:
    for version, timestamp in (_CHANGES[:2], _CHANGES[2:]):
        if version in options and timestamp in options:
            raise InvalidOption(f"options {version!r} and {timestamp!r} set the same end of the range: give only one")
    start, start_at, end, end_at = (options.get(name) for name in _CHANGES)
    if start == "latest":
        raise InvalidOption("startingVersion 'latest' is for streams only: give a version number")
    zone = options.get("time-zone", UTC)
    timestamps = [None if at is None else as_moment(at, zone) for at in (start_at, end_at)]
    return ChangeRange(start, timestamps[0], end, timestamps[1])


def as_text(options: Options, selector: SnapshotSelector) -> dict[str, str]:
    """Return options as text, their time travel options replaced by those for `selector`.

    Options that a scan writes out separately (path, filter, ...) are left out.
    """
    texts = {name: _text(value) for name, value in options.without(_REPLACED).items()}
    chosen: dict[str, object] = {
        "versionAsOf": selector.version,
        "timestampAsOf": selector.timestamp,
        "branch": selector.branch,
        "tag": selector.tag,
    }
    if (changes := selector.changes) is not None:
        chosen |= {
            "readChangeFeed": "true",
            "startingVersion": changes.start_version,
            "endingVersion": changes.end_version,
        }
    if selector.appends is not None:
        texts |= {name: str(options[name]) for name in (*_APPENDS, "branch") if name in options}
    return texts | {name: str(value) for name, value in chosen.items() if value is not None}


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return json.dumps(value) if isinstance(value, tuple | dict) else str(value)
