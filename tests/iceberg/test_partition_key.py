"""Two partitions have the same key text exactly if they are equal."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from lakescan.iceberg.metadata.partition_spec import add_partition_key

PIECES = st.one_of(st.none(), st.text("\x00\x01:,0129null", max_size=4))
PARTITIONS = st.lists(st.tuples(PIECES, PIECES, st.one_of(st.none(), st.integers(-9, 99))), min_size=1, max_size=12)


def keys(partitions: list[tuple[Any, ...]]) -> list[str]:
    kinds = [pa.string(), pa.string(), pa.int32()]
    columns = [pa.array(values, kind) for values, kind in zip(zip(*partitions, strict=True), kinds, strict=True)]
    found = add_partition_key(pa.table({"partition": pa.StructArray.from_arrays(columns, ["a", "b", "c"])}))
    return found["partition_key"].to_pylist()


@settings(max_examples=300, deadline=None)
@given(PARTITIONS)
def test_partitions_have_the_same_key_exactly_if_they_are_equal(partitions: list[tuple[Any, ...]]) -> None:
    assert (
        len(set(zip(partitions, keys(partitions), strict=True))) == len(set(partitions)) == len(set(keys(partitions)))
    )


def test_separators_in_values_do_not_confuse_keys() -> None:
    assert len(set(keys([("a\x00", "b", 1), ("a", "\x00b", 1), ("\x01", None, 1), (None, "\x01", 1)]))) == 4
