"""Compactions that sort rows: new files cover disjoint ranges, so that filters read fewer of them."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lakescan
from lakescan.maintenance import external_sort
from lakescan.maintenance.external_sort import sorted_rows
from lakescan.maintenance.zorder import CompactionOrder, interleave_bits
from lakescan.writing.sort_keys import SortKey, ranks_of, sort_order
from tests.tables.support import Make, maker, now

ROWS = 4_000
FILES = 8


@pytest.fixture(params=["iceberg", "delta"])
def shuffled(request: pytest.FixtureRequest, local: lakescan.Catalog) -> str:
    """Make eight files of an unpartitioned table, each with rows from the full range of its columns."""
    maker(request.param, local)("id BIGINT, x INT, y DOUBLE, name STRING", ())
    random = np.random.default_rng(7)
    ids = random.permutation(ROWS)
    for part in np.array_split(ids, FILES):
        x = random.integers(0, 100, len(part))
        y = random.random(len(part)) * 1e9
        now().append(pa.table({"id": part, "x": x.astype(np.int32), "y": y, "name": [f"n{n:05}" for n in part]}))
    return str(request.param)


def small_files(**options: Any) -> lakescan.CompactResult:
    return now().compact(max_records_per_file=ROWS // 16, **options)


def planned(where: str) -> int:
    return int(now().scan().where(where).plan().files.num_rows)


def rows_now() -> list[dict[str, Any]]:
    return sorted(now().scan().to_arrow().to_pylist(), key=lambda row: row["id"])


@pytest.mark.parametrize("by", ["id", "name DESC"])
def test_a_point_is_in_one_file_after_sorting(shuffled: str, by: str) -> None:
    before = rows_now()
    assert planned("id = 1234 and name = 'n01234'") == FILES
    done = small_files(strategy="sort", sort_order=by)
    assert done.removed_files == FILES
    assert done.files > 3
    assert planned("id = 1234 and name = 'n01234'") == 1
    assert rows_now() == before


def test_a_curve_prunes_by_each_of_its_columns(shuffled: str) -> None:
    before = rows_now()
    done = small_files(strategy="zorder", zorder_by=["x", "y"])
    assert done.files >= 8
    assert planned("x < 10") <= 0.7 * done.files
    assert planned("y < 1e8") <= 0.7 * done.files
    assert rows_now() == before
    small_files(strategy="sort", sort_order="x")
    assert planned("y < 1e8") == now().scan().plan().files.num_rows  # sorting by one column does nothing for the other


def test_the_syntax_of_icebergs_procedure_is_supported(shuffled: str) -> None:
    done = small_files(strategy="sort", sort_order="zorder(x, y)")
    assert planned("x < 10") <= 0.7 * done.files


def test_sorting_is_recorded_in_the_history_of_a_delta_table(local: lakescan.Catalog) -> None:
    maker("delta", local)()
    now().append(pa.table({"id": [2, 1], "part": ["a", "a"]}))
    now().compact(strategy="zorder", zorder_by="id")
    last = now().history().to_pylist()[-1]
    assert last["operation"] == "OPTIMIZE"
    assert dict(last["operationParameters"])["zOrderBy"] == '["id"]'


@pytest.mark.parametrize(
    ("by", "claimed"), [(None, True), ("part, id DESC NULLS LAST", True), ("id", False), ("part", False)]
)
def test_files_claim_the_tables_order_only_if_they_have_it(
    local: lakescan.Catalog, by: str | None, claimed: bool
) -> None:
    local.create_table("db.t", "id BIGINT, part STRING", sort_by=["part", "id DESC"])
    now().append(pa.table({"id": [1, 2, None, 3], "part": ["a", "b", "b", "a"]}))
    own = now().inspect("files")["sort_order_id"].to_pylist()
    assert own in ([None], [0])
    more = {} if by is None else {"sort_order": by}
    now().compact(strategy="sort", **more)
    assert now().inspect("files")["sort_order_id"].to_pylist() == ([1] if claimed else own)
    if claimed:
        found = [(row["part"], row["id"]) for row in now().scan().to_arrow().to_pylist()]
        assert found == [("a", 3), ("a", 1), ("b", 2), ("b", None)]


def test_an_executor_sorts_each_partition_separately(made: Make) -> None:
    made()
    for n in range(6):
        now().append(pa.table({"id": [10 - n, n], "part": ["a", "b"]}))
    with ThreadPoolExecutor(2) as executor:
        done = now().compact(strategy="sort", sort_order="id", executor=executor)
    assert (done.files, done.removed_files) == (2, 12)
    for part, ids in (("a", list(range(5, 11))), ("b", list(range(6)))):
        assert now().scan().where(f"part = '{part}'").to_arrow()["id"].to_pylist() == ids


def test_columns_that_cannot_be_sorted_by_are_refused(local: lakescan.Catalog) -> None:
    local.create_table("db.t", "id BIGINT, tags ARRAY<STRING>", format="delta")
    with pytest.raises(lakescan.InvalidOption, match="has no sort order: give one, such as"):
        now().compact(strategy="sort")
    with pytest.raises(lakescan.InvalidOption, match=r"'tags': values of type .* have no order"):
        now().compact(strategy="sort", sort_order="tags")
    with pytest.raises(lakescan.NoSuchColumn, match="'idd'"):
        now().compact(strategy="zorder", zorder_by=["idd"])
    with pytest.raises(lakescan.UnsupportedFeature, match="sorting a Delta table by bucket"):
        now().compact(strategy="sort", sort_order="bucket(4, id)")


def test_an_iceberg_table_is_sorted_by_transforms(local: lakescan.Catalog) -> None:
    local.create_table("db.t", "id BIGINT, part STRING")
    now().append(pa.table({"id": [11, 2, 19, 5], "part": ["d", "c", "b", "a"]}))
    now().compact(strategy="sort", sort_order="truncate(10, id), part")
    assert now().scan().to_arrow()["part"].to_pylist() == ["a", "c", "b", "d"]


# External sorting gives the rows and the order of sorting in memory.

KEYS = st.lists(
    st.tuples(st.one_of(st.none(), st.integers(-3, 3)), st.one_of(st.none(), st.floats(width=32), st.just(-0.0))),
    max_size=200,
)


@settings(max_examples=60, deadline=None)
@given(rows=KEYS, size=st.integers(1, 50), descending=st.booleans(), nulls_first=st.booleans())
def test_ranges_on_disk_give_the_order_of_memory(
    rows: list[tuple[int | None, float | None]], size: int, descending: bool, nulls_first: bool
) -> None:
    table = pa.table(
        {
            "a": pa.array([a for a, _ in rows], pa.int64()),
            "b": pa.array([b for _, b in rows], pa.float64()),
            "n": pa.array(range(len(rows)), pa.int64()),
        }
    )
    keys = [SortKey("a", descending=descending), SortKey("b", nulls_first=nulls_first)]

    def read(columns: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
        return iter((table if columns is None else table.select(columns)).to_batches(max_chunksize=size))

    def numbers(memory: int) -> list[int]:
        found = sorted_rows(read, ["a", "b"], lambda _: lambda some: [key.ranks(some) for key in keys], memory)
        return [n for batch in found for n in batch["n"].to_pylist()]

    assert numbers(100) == numbers(1 << 30)
    assert sorted(numbers(100)) == list(range(len(rows)))


def test_a_large_group_is_sorted_on_disk(shuffled: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(external_sort.sorted_rows, "__defaults__", (20_000,))
    before = rows_now()
    now().compact(strategy="sort", sort_order="id")
    assert now().scan().to_arrow()["id"].to_pylist() == list(range(ROWS))
    assert rows_now() == before


def as_bits(value: float | None) -> tuple[int, int]:
    """Return a key for Iceberg's order of doubles: null, then by sign and magnitude, NaN last."""
    if value is None:
        return (0, 0)
    if math.isnan(value):
        return (2, 0)
    (bits,) = struct.unpack(">q", struct.pack(">d", value))
    return (1, bits if bits >= 0 else bits ^ (2**63 - 1))


@given(st.lists(st.one_of(st.none(), st.floats()), max_size=30), st.booleans())
def test_floats_have_icebergs_order(values: list[float | None], descending: bool) -> None:
    ranks = ranks_of(pa.array(values, pa.float64()), descending=descending)
    known = [as_bits(each) for each in values]
    for one, first in enumerate(known):
        for other, second in enumerate(known):
            if values[one] is None or values[other] is None or not descending:
                assert (ranks[one] < ranks[other]) == (first < second)
            else:
                assert (ranks[one] < ranks[other]) == (first > second)


ALIKE = st.one_of(
    st.lists(st.one_of(st.none(), st.floats())).map(lambda values: pa.array(values, pa.float64())),
    st.lists(st.one_of(st.none(), st.integers(-2, 2))).map(lambda values: pa.array(values, pa.int64())),
    st.lists(st.one_of(st.none(), st.sampled_from("abc"))).map(lambda values: pa.array(values, pa.string())),
    st.lists(st.one_of(st.none(), st.decimals(-2, 2, places=1))).map(lambda v: pa.array(v, pa.decimal128(9, 1))),
)


@given(ALIKE, st.booleans(), st.booleans())
def test_one_key_sorts_as_it_does_before_another_that_never_differs(
    values: pa.Array, descending: bool, nulls_first: bool
) -> None:
    """One key is sorted directly, several by their ranks; rows with equal keys keep their order."""
    rows = pa.table({"key": values, "same": pa.repeat(7, len(values))})
    key = SortKey("key", descending=descending, nulls_first=nulls_first)
    assert sort_order([key], rows).tolist() == sort_order([key, SortKey("same")], rows).tolist()


@given(st.lists(st.tuples(st.integers(0, 15), st.integers(0, 15)), min_size=1))
def test_bits_are_interleaved(places: list[tuple[int, int]]) -> None:
    x, y = (np.array(each) for each in zip(*places, strict=True))
    expected = [
        int("".join(f"{a}{b}" for a, b in zip(f"{one:04b}", f"{other:04b}", strict=True)), 2) for one, other in places
    ]
    assert interleave_bits([x, y], 4).tolist() == expected


def test_nulls_are_first_on_the_curve_and_columns_count_alike_whatever_their_range_is() -> None:
    class Writes:
        @staticmethod
        def sort_keys(terms: Any) -> list[SortKey]:
            return [SortKey("flag"), SortKey("wide")]

    rows = pa.table({"flag": [None, True, False, True, False], "wide": [None, 10**15, 10**15, -5, -5]})
    (curve,) = CompactionOrder((), ("flag", "wide")).ranking(Writes(), rows)(rows)  # type: ignore[arg-type]
    assert curve.argmin() == 0
    assert np.argsort(curve).tolist() == [0, 4, 2, 3, 1]
