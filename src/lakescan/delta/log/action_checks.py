"""Check that file actions are complete: members that the protocol requires are present and well-formed.

Checks work on whole columns. `where` gives the file and line of a row of the checked actions, for messages.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common.arrays import struct_member
from lakescan.delta.log.text import ADVICE, parse_json, short_json
from lakescan.errors import CorruptMetadata

Where = Callable[[int], str]
_STORAGE_TYPES = ("u", "i", "p")
_UUID_LENGTH = 20  # Base85 characters
_FILE_ACTIONS = ("add", "remove", "cdc")
# The partition values of a line, if without braces and escapes: then every quoted text before a colon is a name.
_PLAIN_VALUES = r'"partitionValues"\s*:\s*(?P<values>\{[^{}\\]*\})'


def check_one_action(rows: pa.Table, names: Sequence[str], where: Where) -> None:
    """Refuse a line with two file actions: they could contradict each other, such as an add and a remove."""
    present = sum(rows[name].is_valid().to_numpy().astype(np.int8) for name in names)
    if (several := np.flatnonzero(present > 1)).size:
        raise CorruptMetadata(f"{where(int(several[0]))} has more than one file action. {ADVICE}")


def check_paths(paths: pa.Array, name: str, where: Where) -> None:
    """Refuse an action without a path."""
    wrong = pc.fill_null(pc.equal(paths, ""), True)
    if (row := _first(wrong)) is not None:
        fault = "is empty" if paths[row].is_valid else "is missing"
        raise CorruptMetadata(f"{where(row)}: {name}.path {fault}: the action names no file. {ADVICE}")


def check_descriptors(vectors: pa.StructArray, present: pa.Array, where: Where) -> None:
    """Refuse a deletion vector descriptor with missing or invalid members: its deletes would be lost."""
    if not pc.any(present).as_py():
        return
    kind, path, offset, size, count = (vectors.field(f.name) for f in vectors.type)
    short = pc.and_(pc.equal(kind, "u"), pc.less(pc.utf8_length(path), _UUID_LENGTH))
    wrong = [
        pc.invert(pc.is_in(kind, value_set=pa.array(_STORAGE_TYPES, kind.type))),
        short,
        pc.is_null(path),
        pc.less(size, 0),
        pc.less(count, 0),
        pc.fill_null(pc.less(offset, 0), False),
    ]
    for mask in wrong:
        if (row := _first(pc.and_(present, pc.fill_null(mask, True)))) is not None:
            raise CorruptMetadata(
                f"{where(row)}: the deletion vector's descriptor is {short_json(vectors[row].as_py())}. It needs "
                "storageType u, i or p, a matching pathOrInlineDv, sizeInBytes and cardinality. "
                f"{ADVICE}"
            )


def names_in_lines(actions: pa.StructArray, columns: Sequence[str], raw: Callable[[np.ndarray], pa.Array]) -> pa.Array:
    """Whether each action, read from a JSON line, has a value, possibly null, for every partition column.

    `raw` returns the text of the lines of given rows: only that tells a null value from a missing one.
    """
    if not columns:
        return pa.repeat(pa.scalar(True), len(actions))
    values = pc.struct_field(actions, "partitionValues")
    complete = values.is_valid().to_numpy(zero_copy_only=False).copy()
    rows = _with_null([struct_member(values, name) for name in columns], complete)
    if rows.size:
        complete[rows] = _all_named(raw(rows), columns)
    return pa.array(complete)


def _all_named(lines: pa.Array, columns: Sequence[str]) -> np.ndarray:
    values = pc.struct_field(pc.extract_regex(lines, _PLAIN_VALUES), "values")
    named = np.ones(len(lines), dtype=bool)
    for name in columns:
        pattern = f'"{re.escape(name)}"\\s*:'
        named &= pc.fill_null(pc.match_substring_regex(values, pattern), False).to_numpy(zero_copy_only=False)
    is_plain = not any(set('"\\') & set(name) or not name.isprintable() for name in columns)
    unsure = np.flatnonzero(values.is_null().to_numpy(zero_copy_only=False)) if is_plain else np.arange(len(lines))
    for row in unsure.tolist():  # names or values with braces or escapes, which are rare: parse the line
        named[row] = set(columns) <= set(_partition_values(lines[row].as_py()))
    return named


def _partition_values(line: str) -> dict[str, object]:
    node = parse_json(line, "")
    actions = (node.get(name) for name in _FILE_ACTIONS)
    return next((action.get("partitionValues") or {} for action in actions if action is not None), {})


def names_in_maps(actions: pa.StructArray, columns: Sequence[str]) -> pa.Array:
    """Whether each action of a checkpoint has a value, possibly null, for every partition column."""
    index = actions.type.get_field_index("partitionValues")
    if not columns or index < 0:
        return pa.repeat(pa.scalar(not columns), len(actions))
    values = pc.struct_field(actions, [index])
    complete = values.is_valid().to_numpy(zero_copy_only=False).copy()
    if not pa.types.is_map(values.type):
        return pa.array(complete)
    rows = _with_null([pc.map_lookup(values, pa.scalar(name), "first") for name in columns], complete)
    if rows.size:
        maps = values.take(pa.array(rows))
        owner = np.repeat(np.arange(len(rows)), np.diff(maps.offsets.to_numpy()))
        keys = maps.keys.slice(int(maps.offsets[0].as_py()), len(owner))
        for name in columns:
            has_name = owner[pc.equal(keys, name).to_numpy(zero_copy_only=False)]
            complete[rows] &= np.bincount(has_name, minlength=len(rows)) > 0
    return pa.array(complete)


def _with_null(members: Sequence[pa.Array], among: np.ndarray) -> np.ndarray:
    """The rows, among those of the mask, in which a member is null."""
    null = np.zeros(len(among), dtype=bool)
    for member in members:
        if member.null_count:
            null |= member.is_null().to_numpy(zero_copy_only=False)
    return np.flatnonzero(null & among)


def _first(mask: pa.Array) -> int | None:
    row = pc.index(mask, True).as_py()
    return None if row < 0 else row
