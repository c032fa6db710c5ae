"""Which state of a table the options of a read select: a version, a time, a branch, a tag, or changes of rows."""

from __future__ import annotations

import json
from datetime import UTC

from lakescan.errors import InvalidOption
from lakescan.moments import as_moment, from_millis
from lakescan.options import Options
from lakescan.planning.table_format import ChangeRange, SnapshotSelector

SELECTING = ("versionAsOf", "timestampAsOf", "snapshot-id", "as-of-timestamp", "branch", "tag")
_CHANGES = ("startingVersion", "startingTimestamp", "endingVersion", "endingTimestamp")
_FEED = ("readChangeFeed", "readChangeData")
_REPLACED = (*SELECTING, *_CHANGES, *_FEED, "time-zone", "path", "format", "filter", "relocate", "storage-options")


def selector_from(options: Options) -> SnapshotSelector | None:
    """The state that options select; None where they select none. Raises `InvalidOption` where they contradict."""
    given = [name for name in SELECTING if name in options]
    if any(options.get(name) for name in _FEED):
        if given:
            raise InvalidOption(f"a change feed reads a range of versions: leave option {given[0]!r} out")
        return SnapshotSelector(changes=_change_range(options))
    if alone := [name for name in _CHANGES if name in options]:
        raise InvalidOption(f"option {alone[0]!r} is for change feeds: set readChangeFeed to true as well")
    if not given:
        return None
    if len(given) > 1:
        raise InvalidOption(f"options {' and '.join(map(repr, given))} both say which state to read: give one")
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


def _change_range(options: Options) -> ChangeRange:
    for version, timestamp in (_CHANGES[:2], _CHANGES[2:]):
        if version in options and timestamp in options:
            raise InvalidOption(f"options {version!r} and {timestamp!r} say the same: give one")
    start, start_at, end, end_at = (options.get(name) for name in _CHANGES)
    zone = options.get("time-zone", UTC)
    moments = [None if at is None else as_moment(at, zone) for at in (start_at, end_at)]
    return ChangeRange(start, moments[0], end, moments[1])


def as_text(options: Options, selector: SnapshotSelector) -> dict[str, str]:
    """Options as text, with a selector in the place of those that select a state, so that they select it again.

    What a scan says in other ways (path, filter, ...) is left out.
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
    return texts | {name: str(value) for name, value in chosen.items() if value is not None}


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return json.dumps(value) if isinstance(value, tuple | dict) else str(value)
