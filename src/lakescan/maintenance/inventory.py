"""Files that may be orphans without a listing of the table's folder: those of an inventory, or of the table's log."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common.arrays import as_array
from lakescan.errors import InvalidOption, nearest
from lakescan.storage.listed import LISTED
from lakescan.storage.locations import below
from lakescan.tables.base import FileRules, Target

_COLUMNS = ("path", "length", "isDir", "modificationTime")  # Delta's, of VACUUM ... USING INVENTORY
_ABSOLUTE = r"^(?:/|[a-zA-Z][a-zA-Z0-9+.-]*:/)"
_STEPS_BACK = r"(?:^|/)\.\.(?:/|$)"
_AT_ONCE = 10_000  # files that are looked up in one call


def inventory_files(inventory: Any, location: str) -> pa.Table:
    """The files of an inventory that are in the table's folder (`listed.LISTED`).

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
    if not pa.types.is_timestamp(times.type):
        times = times.cast(pa.int64()).cast(pa.timestamp("ms"))
    paths = as_array(files["path"].cast(pa.string()))
    inside = pc.binary_join_element_wise(location.rstrip("/"), paths, "/")
    places = pc.if_else(pc.match_substring_regex(paths, _ABSOLUTE), paths, inside)
    found = pa.table(
        [places, files["length"].cast(pa.int64()), times.cast(pa.timestamp("us", "UTC"), safe=False)], schema=LISTED
    )
    return found.filter(pc.and_not(below(places, [location]), pc.match_substring_regex(places, _STEPS_BACK)))


def removed_files(target: Target, rules: FileRules) -> pa.Table:
    """The files that the table's log says were removed (`LISTED`), as far as they are in the table's folder yet."""
    parts = [each.cast(pa.string()) for each in target.files_removed()]
    inside = pc.unique(pa.concat_arrays([pa.array([], pa.string()), *parts]))
    inside = inside.filter(below(inside, [rules.location]))
    found = [LISTED.empty_table()]
    for start in range(0, len(inside), _AT_ONCE):
        some = target.storage.look_up(inside.slice(start, _AT_ONCE).to_pylist())
        there = [each for each in some if each is not None]
        columns = [[each.location for each in there], [each.size for each in there], [each.modified for each in there]]
        found.append(pa.table(columns, schema=LISTED))
    return pa.concat_tables(found)
