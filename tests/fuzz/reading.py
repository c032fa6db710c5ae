"""The answers of a table to each call, and the failures among them."""

from __future__ import annotations

import collections
import hashlib
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

import lakescan
from tests.fuzz.damage import ROWS, SAME, Damage
from tests.fuzz.tables import Sample

_MOST_WORDS = 3000  # maximum length of a message


def answers(sample: Sample, folder: Path) -> dict[str, Any]:
    """Return the answer to each call: a count and a digest of rows, or the text of an error."""
    return {name: answer(sample, folder, name) for name in CALLS}


def answer(sample: Sample, folder: Path, name: str) -> dict[str, Any]:
    """Open the table again and return the answer to one call."""
    try:
        table = lakescan.table(str(folder / sample.opened), relocate=sample.relocate(folder))
        return CALLS[name](table)
    except BaseException as error:
        frames = [f for f in traceback.extract_tb(error.__traceback__) if "lakescan" in f.filename]
        return {
            "error": type(error).__name__,
            "ours": isinstance(error, lakescan.LakescanError),
            "storage": isinstance(error, lakescan.StorageError),
            "words": str(error)[: _MOST_WORDS + 1].encode(errors="backslashreplace").decode(),
            "at": f"{frames[-1].filename.rpartition('lakescan/')[2]}:{frames[-1].lineno}" if frames else "",
        }


def _rows(table: lakescan.Table) -> dict[str, Any]:
    return _digest(table.scan().to_arrow())


def _count(table: lakescan.Table) -> dict[str, Any]:
    return {"rows": table.scan().count()}


def _filter(table: lakescan.Table) -> dict[str, Any]:
    name = table.schema.names[0]
    return _digest(table.scan().where(~lakescan.col(name).is_null()).select(name).to_arrow())


def _files(table: lakescan.Table) -> dict[str, Any]:
    return {"rows": table.inspect("files").num_rows}


def _history(table: lakescan.Table) -> dict[str, Any]:
    return {"rows": table.history().num_rows}


CALLS: dict[str, Callable[[lakescan.Table], dict[str, Any]]] = {
    "rows": _rows,
    "count": _count,
    "filter": _filter,
    "files": _files,
    "history": _history,
}


def _digest(table: pa.Table) -> dict[str, Any]:
    """Return the number of rows and a digest that does not depend on their order."""
    if table.num_rows > 10_000:
        return {"rows": table.num_rows, "digest": ""}
    columns = [_plain(c).to_pylist() for c in table.columns]
    counted = collections.Counter(repr(row) for row in zip(*columns, strict=True))
    return {"rows": table.num_rows, "digest": hashlib.sha256(repr(sorted(counted.items())).encode()).hexdigest()}


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Convert dates and times to numbers, because Python cannot represent all of them."""
    if pa.types.is_timestamp(column.type) or pa.types.is_time64(column.type):
        return column.cast(pa.int64())
    return column.cast(pa.int32()) if pa.types.is_date32(column.type) else column


def failures(damage: Damage, before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Compare the answers of a damaged table with those of the original; return descriptions of the failures."""
    found = []
    for call, given in now.items():
        if "error" in given:
            found += [f"{call}: {problem}" for problem in _wrong_error(damage, given)]
        elif call in ("rows", "count", "filter") and _is_other(damage.allows, call, before[call], given):
            found.append(f"{call}: other rows and no error: {given['rows']} where {before[call].get('rows')} were")
    counts = [now[call].get("rows") for call in ("rows", "count") if call in now]
    if len(counts) == 2 and None not in counts and counts[0] != counts[1] and not damage.faults:
        found.append(f"count: {counts[1]} where {counts[0]} are read")
    return found


def _wrong_error(damage: Damage, given: Mapping[str, Any]) -> list[str]:
    if not given["ours"]:
        what = "memory" if given["error"] in ("MemoryError", "ArrowMemoryError") else "foreign exception"
        return [f"{what} {given['error']} at {given['at']}: {given['words'][:200]}"]
    if damage.faults and not given["storage"]:
        return [f"a fault of storage is taken for {given['error']}: {given['words'][:200]}"]
    if not given["words"] or len(given["words"]) > _MOST_WORDS:
        return [f"{given['error']} of {len(given['words'])} characters"]
    return []


def _is_other(allows: str, call: str, before: Mapping[str, Any], given: Mapping[str, Any]) -> bool:
    if allows == SAME:
        return bool(before != given)
    return allows == ROWS and call != "filter" and bool(before.get("rows") != given["rows"])
