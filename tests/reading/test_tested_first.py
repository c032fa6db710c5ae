"""Late materialization: columns of a filter are decoded first, with the same result as a full scan and then the filter.

The test data has small row groups, pieces of any size, and any share of matching rows, with and without deleted rows.
"""

from __future__ import annotations

import datetime
import random
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from samples.delta_deletes import commit_vectors, stored_vector

import lakescan
from lakescan.expressions.bind import bind
from lakescan.expressions.evaluate import column_getter, matching_rows
from lakescan.expressions.sql import parse_filter
from lakescan.reading import late_materialization as tested_first
from lakescan.reading.data_file import TaskRows
from lakescan.reading.parquet import file as parquet_file

ROWS, GROUP = 600, 40
NAN = float("nan")
STRUCT = pa.struct({"a": pa.int64(), "b": pa.string()})
COLUMNS = ("n", "sorted", "x", "word", "flag", "day", "price", "raw", "person", "many")
TESTS = (
    "n < 3",
    "n = 7",
    "n is null",
    "n in (1, 5)",
    "sorted between 90 and 130",
    "sorted = 333",
    "sorted > 550",
    "x = 0",
    "x > 1.5",
    "x < 0.5",
    "isnan(x)",
    "x is not null",
    "word = 'w3'",
    "word like 'w1%'",
    "word is null",
    "word != 'w2'",
    "flag",
    "day >= '2026-01-20'",
    "price < 0.50",
    "person.a = 4",
    "person.b = 'p2'",
    "person.a is null",
    "_pos between 100 and 110",
    "length(word) > 2",
)
SELECTED = (*COLUMNS, "_pos", "person.a as member", "person.b as other")


def rows() -> pa.Table:
    some = random.Random(0)

    def values(*of: object) -> list[object]:
        return [some.choice(of) for _ in range(ROWS)]

    days = [datetime.date(2026, 1, day) for day in range(1, 31)]
    people = [{"a": a, "b": b} for a in (None, 1, 4) for b in (None, "p1", "p2")]
    return pa.table(
        {
            "n": pa.array(values(None, *range(10)), pa.int64()),
            "sorted": pa.array(range(ROWS), pa.int64()),
            "x": pa.array(values(None, NAN, 0.0, -0.0, 1.0, 2.0), pa.float64()),
            "word": pa.array(values(None, "", *(f"w{i}" for i in range(15))), pa.string()),
            "flag": pa.array(values(None, True, False), pa.bool_()),
            "day": pa.array(values(None, *days), pa.date32()),
            "price": pa.array(values(None, Decimal("0.25"), Decimal("1.00")), pa.decimal128(9, 2)),
            "raw": pa.array(values(None, b"", b"\0\1"), pa.binary()),
            "person": pa.array(values(None, *people), STRUCT),
            "many": pa.array(values(None, [], [1, None], [3]), pa.list_(pa.int64())),
        }
    )


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[bool, bool], tuple[str, pa.RecordBatch]]:
    """Tables by whether columns have dictionaries and whether rows are deleted: their locations, and all rows."""
    from deltalake import ColumnProperties, WriterProperties, write_deltalake

    found = {}
    for has_dictionaries in (False, True):
        for has_deletes in (False, True):
            folder = tmp_path_factory.mktemp("tested") / "table"
            properties = WriterProperties(
                max_row_group_size=GROUP,
                default_column_properties=ColumnProperties(dictionary_enabled=has_dictionaries),
            )
            write_deltalake(str(folder), rows(), writer_properties=properties)
            (data,) = folder.glob("*.parquet")
            assert pq.ParquetFile(data).num_row_groups == ROWS // GROUP
            if has_deletes:
                gone = sorted({*range(0, ROWS, 7), *range(90, 110)})
                commit_vectors(folder, {data.name: stored_vector(folder, gone)})
            whole = lakescan.table(folder).scan().select(*COLUMNS, "_pos").to_arrow()
            found[has_dictionaries, has_deletes] = (str(folder), whole.combine_chunks().to_batches()[0])
    return found


@contextmanager
def limits(piece: int, few: int) -> Iterator[None]:
    """Set the smallest piece size, and the number of pieces that are kept before a filter counts as not selective."""
    with (
        mock.patch.object(tested_first, "PIECE", piece),
        mock.patch.object(tested_first, "FEW", few),
        mock.patch.object(parquet_file, "_WORTH_DICTIONARIES", 0),
    ):
        yield


def expected(path: str, whole: pa.RecordBatch, condition: str, selected: list[str]) -> pa.Table:
    """Evaluate the filter on all rows, then select the columns."""
    schema = lakescan.table(path).scan().select(*COLUMNS, "_pos").spec.output
    mask = matching_rows(bind(parse_filter(condition), schema), column_getter(whole, schema), whole.num_rows)
    left = pa.table(whole.filter(mask))
    members = {"person.a as member": "a", "person.b as other": "b"}
    columns = [
        pa.chunked_array([pa.compute.struct_field(c, members[name]) for c in left["person"].chunks], STRUCT[0].type)
        if name == "person.a as member"
        else pa.chunked_array([pa.compute.struct_field(c, "b") for c in left["person"].chunks], pa.string())
        if name in members
        else left[name]
        for name in selected
    ]
    return pa.table(columns, names=[name.rpartition(" as ")[2] for name in selected])


conditions = st.recursive(
    st.sampled_from(TESTS),
    lambda inner: (
        st.builds("({} and {})".format, inner, inner)
        | st.builds("({} or {})".format, inner, inner)
        | inner.map("not ({})".format)
    ),
    max_leaves=3,
)


@settings(max_examples=60, deadline=None)
@given(
    kind=st.tuples(st.booleans(), st.booleans()),
    condition=conditions,
    selected=st.lists(st.sampled_from(SELECTED), unique=True, min_size=1, max_size=5),
    piece=st.sampled_from((1, 50, 200, ROWS)),
    few=st.sampled_from((0, 5, 60, ROWS)),
    batch_size=st.sampled_from((7, 64, 10_000)),
)
def test_late_materialization_gives_the_rows_of_a_full_scan_and_then_the_filter(
    tables: dict[tuple[bool, bool], tuple[str, pa.RecordBatch]],
    kind: tuple[bool, bool],
    condition: str,
    selected: list[str],
    piece: int,
    few: int,
    batch_size: int,
) -> None:
    path, whole = tables[kind]
    with limits(piece, few):
        scan = lakescan.table(path).scan().where(condition).select(*selected).options(batch_size=batch_size)
        found = pa.Table.from_batches(scan.to_batches(), schema=scan.schema)
    assert repr(found.to_pylist()) == repr(expected(path, whole, condition, selected).to_pylist())  # NaN, -0.0


def read_of(path: str, condition: str) -> list[tuple[list[str], list[int]]]:
    """Return the columns and row groups that a scan of all columns decodes, in order."""
    reads = []
    own = TaskRows.batches

    def noted(self: TaskRows, columns: object, chunks: list[int] | None = None, **more: Any) -> object:
        reads.append(([f.name for f in columns.fields], self.chunks if chunks is None else chunks))  # type: ignore[attr-defined]
        return own(self, columns, chunks, **more)  # type: ignore[arg-type]

    with mock.patch.object(TaskRows, "batches", noted), limits(1, 10):
        lakescan.table(path).scan().where(condition).to_arrow()
    return reads


def test_other_columns_are_decoded_only_in_row_groups_with_a_match(
    tables: dict[tuple[bool, bool], tuple[str, pa.RecordBatch]],
) -> None:
    path, _ = tables[True, False]
    reads = read_of(path, "sorted % 100 = 57")  # statistics cannot decide it
    tested = [chunks for columns, chunks in reads if columns == ["sorted"]]
    others = [chunks for columns, chunks in reads if "word" in columns]
    assert tested == [[group] for group in range(ROWS // GROUP)]
    assert others == [[n // GROUP] for n in range(57, ROWS, 100)]
    assert all("sorted" not in columns for columns, _ in reads if "word" in columns)


def test_late_materialization_stops_for_a_filter_that_keeps_most_rows(
    tables: dict[tuple[bool, bool], tuple[str, pa.RecordBatch]],
) -> None:
    path, _ = tables[True, False]
    (tested, first), (together, rest) = read_of(path, "sorted % 100 != 57")
    assert (tested, first) == (["sorted"], [0])
    assert set(together) == set(COLUMNS)
    assert rest == list(range(ROWS // GROUP))


def test_row_groups_are_excluded_by_statistics_of_members(tmp_path: Path) -> None:
    from deltalake import WriterProperties, write_deltalake

    people = pa.array([{"name": {"id": n}, "n": n % 3} for n in range(100)])
    write_deltalake(
        str(tmp_path),
        pa.table({"before": people, "person": people}),
        writer_properties=WriterProperties(max_row_group_size=10),
    )
    reads = read_of(str(tmp_path), "person.name.id between 37 and 41")
    assert {group for _, chunks in reads for group in chunks} == {3, 4}


def test_other_columns_are_decoded_up_to_the_last_match(tmp_path: Path) -> None:
    from deltalake import write_deltalake

    write_deltalake(str(tmp_path), pa.table({"n": range(5_000), "m": range(5_000)}))
    decoded = []
    own = TaskRows.batches

    def noted(self: TaskRows, *arguments: Any, **more: Any) -> Iterator[tuple[int, pa.RecordBatch]]:
        for first, batch in own(self, *arguments, **more):
            decoded.append((batch.schema.names, first, batch.num_rows))
            yield first, batch

    with mock.patch.object(TaskRows, "batches", noted):
        found = lakescan.table(tmp_path).scan().where("n between 40 and 43").to_arrow()
    assert found["m"].to_pylist() == [40, 41, 42, 43]
    assert decoded == [(["n"], 0, 5_000), (["m"], 0, 44)]
