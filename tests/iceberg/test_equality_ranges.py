"""A read of a file skips an equality delete only if none of its keys can be in the file."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakescan.common import types as t
from lakescan.iceberg.scan import equality_delete_pruning as equality_ranges
from lakescan.iceberg.scan.equality_delete_pruning import ComparedColumns, sharing_keys

FIELDS = {1: t.Field(1, "id", t.INT), 2: t.Field(2, "x", t.DOUBLE)}
COUNTS = pa.list_(pa.struct([("key", pa.int32()), ("value", pa.int64())]))
BOUNDS = pa.list_(pa.struct([("key", pa.int32()), ("value", pa.binary())]))
STATS = pa.struct(
    [
        ("value_counts", COUNTS),
        ("null_value_counts", COUNTS),
        ("nan_value_counts", COUNTS),
        ("lower_bounds", BOUNDS),
        ("upper_bounds", BOUNDS),
    ]
)
Row = tuple[int | None, float | None]


def recorded(rows: list[Row], *, counts: bool = True, ranges: bool = True) -> dict[str, Any]:
    """Return a file's statistics as a writer records them: bounds without nulls and NaN."""
    stats: dict[str, list[dict[str, Any]]] = {name: [] for name in (f.name for f in STATS)}
    for place, (field_id, form) in enumerate([(1, "<i"), (2, "<d")]):
        values = [r[place] for r in rows]
        present = [v for v in values if v is not None and v == v]
        if counts:
            stats["value_counts"].append({"key": field_id, "value": len(values)})
            stats["null_value_counts"].append({"key": field_id, "value": values.count(None)})
            nans = sum(v is not None and v != v for v in values)
            stats["nan_value_counts"] += [{"key": 2, "value": nans}] if field_id == 2 else []
        if ranges and present:
            stats["lower_bounds"].append({"key": field_id, "value": struct.pack(form, min(present))})
            stats["upper_bounds"].append({"key": field_id, "value": struct.pack(form, max(present))})
    return stats


def files(*stats: dict[str, Any], rows: int, ids: list[int]) -> pa.Table:
    count = len(stats)
    return pa.table(
        {
            "stats": pa.array(list(stats), STATS),
            "file_format": ["parquet"] * count,
            "record_count": pa.array([rows] * count, pa.int64()),
            "equality_ids": pa.array([ids] * count, pa.list_(pa.int32())),
        }
    )


def may_share(data: list[Row], deletes: list[Row], ids: list[int], **how: bool) -> bool:
    one = (np.array([0]), np.array([0]), np.array([1]))
    ours = files(recorded(data, **how), rows=len(data), ids=[])
    theirs = files(recorded(deletes, **how), rows=len(deletes), ids=ids)
    return len(sharing_keys(ours, ComparedColumns(theirs, FIELDS), one)[0]) > 0


NAN = float("nan")


@pytest.mark.parametrize(
    ("data", "deletes", "ids", "expected"),
    [
        ([(1, 0.0), (5, 0.0)], [(3, 0.0)], [1], True),
        ([(1, 0.0), (5, 0.0)], [(6, 0.0)], [1], False),
        ([(1, 0.0), (None, 0.0)], [(6, 0.0)], [1], False),
        ([(1, 0.0), (None, 0.0)], [(6, 0.0), (None, 0.0)], [1], True),
        ([(None, 0.0)], [(6, 0.0)], [1], False),
        ([(1, 0.0)], [(None, 0.0)], [1], False),
        ([(1, NAN)], [(1, 5.0), (2, NAN)], [2], True),
        ([(1, 1.0)], [(1, 5.0), (2, NAN)], [2], False),
        ([(1, -0.0)], [(1, 0.0)], [2], True),
        ([(1, 1.0)], [(1, 9.0)], [1, 2], False),
    ],
)
def test_ranges_and_nulls_exclude_deletes(data: list[Row], deletes: list[Row], ids: list[int], expected: bool) -> None:
    assert may_share(data, deletes, ids) is expected


def test_missing_statistics_exclude_no_delete() -> None:
    assert may_share([(1, 0.0)], [(6, 0.0)], [1], counts=False)
    assert may_share([(1, 0.0)], [(6, 0.0)], [1], ranges=False)
    assert may_share([(1, 0.0)], [(6, 0.0)], [1], counts=False, ranges=False)


ROW = st.tuples(st.none() | st.integers(-3, 3), st.none() | st.sampled_from([NAN, -0.0, 0.0, 1.0, 2.0]))
ROWS = st.lists(ROW, min_size=1, max_size=4)


@pytest.mark.slow
@settings(max_examples=300)
@given(data=ROWS, deletes=ROWS, ids=st.sampled_from([[1], [2], [1, 2]]), counts=st.booleans(), ranges=st.booleans())
def test_a_matching_delete_is_never_excluded(
    data: list[Row], deletes: list[Row], ids: list[int], counts: bool, ranges: bool
) -> None:
    def key(row: Row) -> tuple[Any, ...]:
        return tuple("NaN" if (v := row[i - 1]) is not None and v != v else v for i in ids)

    shared = {key(r) for r in data} & {key(r) for r in deletes}
    assert may_share(data, deletes, ids, counts=counts, ranges=ranges) or not shared


@settings(max_examples=60)
@given(
    data=st.lists(ROWS, min_size=1, max_size=6),
    deletes=st.lists(ROWS, min_size=1, max_size=40),
    ids=st.sampled_from([[1], [2], [1, 2]]),
    most=st.sampled_from([1, 8, 1 << 20]),
    at_once=st.sampled_from([3, 1 << 18]),
    seed=st.randoms(use_true_random=False),
)
def test_blocks_of_deletes_are_excluded_if_each_delete_is(
    data: list[list[Row]], deletes: list[list[Row]], ids: list[int], most: int, at_once: int, seed: Any
) -> None:
    ours = pa.concat_tables([files(recorded(rows), rows=len(rows), ids=[]) for rows in data])
    theirs = pa.concat_tables([files(recorded(rows), rows=len(rows), ids=ids) for rows in deletes])
    given = [(n, *sorted(seed.sample(range(len(deletes) + 1), 2))) for n in range(len(data))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(equality_ranges, "_MOST", most)
        patch.setattr(equality_ranges, "_AT_ONCE", at_once)
        ranges = tuple(np.array(each) for each in zip(*given, strict=True))
        found = sharing_keys(ours, ComparedColumns(theirs, FIELDS), ranges)
    pairs = [(f, d) for f, low, high in zip(*(each.tolist() for each in found), strict=True) for d in range(low, high)]
    inside = {(f, d) for f, low, high in given for d in range(low, high)}
    needed = {(f, d) for f, d in inside if may_share(data[f], deletes[d], ids)}
    assert len(set(pairs)) == len(pairs)
    assert needed <= set(pairs) <= inside
    assert most < 1 << 20 or set(pairs) == needed
