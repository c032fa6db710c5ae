"""What a path can say beside where the table is: a version or time after an `@`, partitions below the table's folder.

Both are Delta's own spellings: `/t@v3`, `/t@20260131120000000` and `/t/date=2026-01-31`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, tzinfo
from urllib.parse import unquote

from lakescan.delta.log.segment import LOG_FOLDER
from lakescan.delta.scan.partition_values import NULL_PARTITION
from lakescan.errors import InvalidOption
from lakescan.formats.table_format import SnapshotSelector
from lakescan.storage.storage import Storage, join

_VERSION = re.compile(r"(.+)@[vV](\d{1,19})")
_TIME = re.compile(r"(.+)@(\d{17})")  # yyyyMMddHHmmssSSS
_PARTITION = re.compile(r"(.+)/([^/=]+)=([^/]*)")


@dataclass(frozen=True)
class DeltaPath:
    """A table's folder, the state that the path asks for, and the partition values (None: null) that it names.

    `is_table` says whether there is a log.
    """

    location: str
    is_table: bool
    selector: SnapshotSelector | None = None
    partitions: tuple[tuple[str, str | None], ...] = ()


def resolve_path(path: str, storage: Storage, zone: tzinfo) -> DeltaPath:
    """Take a path apart, times in `zone`; one that is a table as it stands is left alone, whatever its name.

    Each folder that might be the table is looked for once.
    """
    path = path.rstrip("/") or path
    if _is_table(path, storage):
        return DeltaPath(path, is_table=True)
    location, selector = _as_of(path, zone)
    partitions: list[tuple[str, str | None]] = []
    while True:
        if location != path and _is_table(location, storage):
            return DeltaPath(location, True, selector, tuple(partitions))
        if (part := _PARTITION.fullmatch(location)) is None:
            return DeltaPath(path, is_table=False)
        location, value = part[1], unquote(part[3])
        partitions.insert(0, (unquote(part[2]), None if value in (NULL_PARTITION, "") else value))


def _is_table(path: str, storage: Storage) -> bool:
    return storage.exists(join(path, LOG_FOLDER))


def _as_of(path: str, zone: tzinfo) -> tuple[str, SnapshotSelector | None]:
    if found := _VERSION.fullmatch(path):
        return found[1], SnapshotSelector(version=int(found[2]))
    if found := _TIME.fullmatch(path):
        try:
            moment = datetime.strptime(found[2][:14], "%Y%m%d%H%M%S").replace(tzinfo=zone)
        except ValueError as error:
            raise InvalidOption(f"{path}: {found[2]} is not a time, which is written yyyyMMddHHmmssSSS") from error
        return found[1], SnapshotSelector(timestamp=moment.replace(microsecond=int(found[2][14:]) * 1000))
    return path, None
