"""Files that may be orphans without a listing of the table's folder: those of an inventory, or of the table's log."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common.timestamps import from_millis
from lakescan.errors import InvalidOption, nearest
from lakescan.storage import FileEntry, join
from lakescan.storage.locations import is_in, normal
from lakescan.transaction.base import FileRules, Target

_COLUMNS = ("path", "length", "isDir", "modificationTime")  # Delta's, of VACUUM ... USING INVENTORY
_ABSOLUTE = re.compile(r"/|[a-zA-Z][a-zA-Z0-9+.-]*:/")
_AT_ONCE = 10_000  # files that are looked up in one call


def inventory_entries(inventory: Any, location: str) -> Sequence[FileEntry]:
    """The files of an inventory that are in the table's folder.

    It is a table (Arrow, or anything with an Arrow stream) with the columns `path` (absolute, or within the table's
    folder), `length` in bytes, `isDir` and `modificationTime` in milliseconds since 1970. Raises `InvalidOption`.
    """
    try:
        table = inventory if isinstance(inventory, pa.Table) else pa.table(inventory)
    except (TypeError, ValueError, pa.ArrowException) as error:
        raise InvalidOption(f"the inventory is no table but {type(inventory).__name__}") from error
    if missing := [name for name in _COLUMNS if name not in table.column_names]:
        raise InvalidOption(
            f"the inventory has no column {missing[0]!r}: it takes {', '.join(_COLUMNS)}."
            f"{nearest(missing[0], table.column_names)}"
        )
    files = table.select(_COLUMNS).filter(pc.invert(pc.fill_null(table["isDir"], False)))
    if any(column.null_count for column in files.columns):
        raise InvalidOption("the inventory has files without a path, a length or a modificationTime")
    times = files["modificationTime"]
    if pa.types.is_timestamp(times.type):
        times = times.cast(pa.timestamp("ms", times.type.tz), safe=False).cast(pa.int64())
    rows = zip(files["path"].to_pylist(), files["length"].to_pylist(), times.to_pylist(), strict=True)
    home, found = normal(location), []
    for path, size, at in rows:
        place = path if _ABSOLUTE.match(path) else join(location, path)
        if is_in(normal(place), home) and ".." not in place.split("/"):
            found.append(FileEntry(place.rpartition("/")[2], place, int(size), from_millis(int(at))))
    return found


def removed_entries(target: Target, rules: FileRules) -> Sequence[FileEntry]:
    """The files that the table's log says were removed, as far as they are still in the table's folder."""
    locations = list(dict.fromkeys(each for part in target.files_removed() for each in part.to_pylist()))
    home = normal(rules.location)
    inside = [each for each in locations if is_in(normal(each), home)]
    found: list[FileEntry] = []
    for start in range(0, len(inside), _AT_ONCE):
        found += [each for each in target.storage.look_up(inside[start : start + _AT_ONCE]) if each is not None]
    return found
