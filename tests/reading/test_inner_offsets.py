"""Structs in structs, lists and maps reach engines without slice offsets, which DuckDB ignores."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import WriterProperties, write_deltalake

import lakescan
from lakescan.common.arrays import remove_inner_offsets
from lakescan.expressions.scalar.expression import evaluate_sql
from lakescan.reading.record_batches import decode_dictionaries

duckdb = pytest.importorskip("duckdb")

_ROWS = 90
_INNER = pa.array([{"q": n} for n in range(_ROWS)])
_KEYS, _ENDS = pa.array([str(n) for n in range(_ROWS)]), pa.array(range(_ROWS + 1), pa.int32())
_NESTED = pa.StructArray.from_arrays([_INNER], ["s"])
COLUMNS = {
    "struct": _NESTED,
    "list": pa.ListArray.from_arrays(_ENDS, _INNER),
    "map": pa.MapArray.from_arrays(_ENDS, _KEYS, _INNER),
    "deep": pa.StructArray.from_arrays([pa.ListArray.from_arrays(_ENDS, _INNER)], ["l"]),
    "part": pa.ListArray.from_arrays(_ENDS.slice(0, _ROWS - 2), _INNER.slice(3)),
}


def read_by_duckdb(column: pa.Array) -> list[object]:
    return [row[0] for row in duckdb.from_arrow(pa.table({"c": column})).fetchall()]


@pytest.mark.parametrize("name", COLUMNS)
def test_duckdb_reads_the_rows_of_a_slice(name: str) -> None:
    part = COLUMNS[name].slice(3, 5)
    whole = remove_inner_offsets(part)
    assert whole.equals(part)
    alone = pa.array(part.to_pylist(), part.type)
    assert read_by_duckdb(whole) == read_by_duckdb(alone)


@pytest.mark.parametrize("name", COLUMNS)
def test_columns_in_chunks_are_copied_chunk_by_chunk(name: str) -> None:
    column = pa.chunked_array([COLUMNS[name].slice(3, 5), COLUMNS[name].slice(0, 2)])
    whole = remove_inner_offsets(column)
    assert whole.equals(column)
    alone = pa.array(column.to_pylist(), column.type)
    assert read_by_duckdb(whole) == read_by_duckdb(alone)
    values = evaluate_sql("c0 IS NULL", [column], len(column), pa.bool_())
    assert values.to_pylist() == [False] * 7


def test_only_arrays_with_an_offset_and_a_nested_struct_are_copied() -> None:
    for column in (_NESTED, _INNER.slice(3, 2), _KEYS.slice(3, 2), pa.array([[n] for n in range(9)]).slice(3, 2)):
        assert remove_inner_offsets(column) is column


def test_a_slice_of_a_batch_is_passed_on_with_its_own_rows() -> None:
    batch = pa.record_batch({"c": _NESTED}).slice(80)
    assert read_by_duckdb(decode_dictionaries(batch, batch.schema).column("c")) == [
        {"s": {"q": n}} for n in range(80, _ROWS)
    ]


def test_a_filter_whose_columns_are_decoded_first_gives_duckdb_the_rows_that_match(tmp_path: Path) -> None:
    """Batches of the filtered column start at other rows than the remaining columns' batches."""
    matching = [n for n in range(41, _ROWS) if n % 10 == 3]
    words = ["x" if n in matching else "y" for n in range(_ROWS)]
    table = pa.table({"n": range(_ROWS), "word": words, "struct": _NESTED})
    write_deltalake(str(tmp_path), table, writer_properties=WriterProperties(max_row_group_size=15))
    scan = lakescan.table(tmp_path).scan().where("word like '%x'").select("n", "struct").options(batch_size=20)
    assert scan.to_duckdb().fetchall() == [(n, {"s": {"q": n}}) for n in matching]


def test_frames_of_statements_and_columns_of_expressions_may_be_slices() -> None:
    frame = pa.table({"c": _NESTED}).slice(80)
    assert lakescan.sql("SELECT c.s.q FROM f", f=frame).to_arrow()["q"].to_pylist() == list(range(80, _ROWS))
    values = evaluate_sql("c0.s.q", [_NESTED.slice(80)], 10, pa.int64())
    assert values.to_pylist() == list(range(80, _ROWS))
