"""Parse Delta paths: a table's folder, optionally with a version or timestamp after `@`, or with partitions below it.

The syntax is Delta's own: `/t@v3`, `/t@20260131120000000` and `/t/date=2026-01-31`.
"""

from __future__ import annotations

import re
from datetime import datetime, tzinfo
from urllib.parse import unquote

from lakescan.delta.log.segment import LOG_FOLDER
from lakescan.delta.scan.partition_values import NULL_PARTITION
from lakescan.errors import InvalidOption
from lakescan.formats.table_format import SnapshotSelector
from lakescan.formats.table_path import TablePath
from lakescan.storage import Storage, join

_VERSION = re.compile(r"(.+)@[vV](\d{1,19})")
_TIME = re.compile(r"(.+)@(\d{17})")  # yyyyMMddHHmmssSSS
_PARTITION = re.compile(r"(.+)/([^/=]+)=([^/]*)")


def resolve_path(path: str, storage: Storage, zone: tzinfo) -> TablePath | None:
    """Parse a path, with timestamps in `zone`; a path that is a table's folder as it stands is not parsed further.

    Returns None if no folder in the path has a log; checks each one once. Raises `InvalidOption` for a malformed
    timestamp.
    """
    path = path.rstrip("/") or path
    if _is_table(path, storage):
        return TablePath(path)
    location, selector = _as_of(path, zone)
    partitions: list[tuple[str, str | None]] = []
    while True:
        if location != path and _is_table(location, storage):
            return TablePath(location, selector, tuple(partitions))
        if (part := _PARTITION.fullmatch(location)) is None:
            return None
        location, value = part[1], unquote(part[3])
        partitions.insert(0, (unquote(part[2]), None if value in (NULL_PARTITION, "") else value))


def _is_table(path: str, storage: Storage) -> bool:
    return storage.exists(join(path, LOG_FOLDER))


def _as_of(path: str, zone: tzinfo) -> tuple[str, SnapshotSelector | None]:
    if match := _VERSION.fullmatch(path):
        return match[1], SnapshotSelector(version=int(match[2]))
    if match := _TIME.fullmatch(path):
        try:
            timestamp = datetime.strptime(match[2][:14], "%Y%m%d%H%M%S").replace(tzinfo=zone)
        except ValueError as error:
            raise InvalidOption(f"{path}: {match[2]} is not a timestamp; write it as yyyyMMddHHmmssSSS") from error
        return match[1], SnapshotSelector(timestamp=timestamp.replace(microsecond=int(match[2][14:]) * 1000))
    return path, None
