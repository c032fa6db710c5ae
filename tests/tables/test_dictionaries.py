"""Columns of written files get a dictionary if their values repeat."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lakescan.writing.parquet_writer import dictionary_columns
from tests.tables.support import Make, now

ROWS = 300_000


def rows() -> pa.Table:
    numbers = np.arange(ROWS)
    members = [pa.array(numbers % 5), pa.array((numbers % 7).astype(str))]
    return pa.table(
        {
            "id": numbers,
            "amount": np.random.default_rng(3).normal(size=ROWS),
            "kind": numbers % 50,
            "sensor": numbers % 100_000,  # all different in the first rows, but not over all
            "word": pa.array((numbers % 1_000).astype(str)),
            "where": pa.StructArray.from_arrays(members, ["x", "y"]),
            "list": pa.ListArray.from_arrays(np.arange(ROWS + 1, dtype=np.int32), pa.array(numbers % 3)),
        }
    )


def test_columns_whose_values_hardly_repeat_have_no_dictionary(made: Make) -> None:
    given = rows()
    table = made(given.schema, ())
    table.append(given)
    table = now()
    (path,) = table.scan().plan().files["path"].to_pylist()
    group = pq.read_metadata(path.removeprefix("file://")).row_group(0)
    columns = [group.column(n) for n in range(group.num_columns)]
    without = {each.path_in_schema for each in columns if not each.has_dictionary_page}
    assert without == {"id", "amount"}
    assert table.to_arrow().sort_by("id").equals(given)


def test_few_rows_and_nested_columns_keep_their_dictionaries() -> None:
    assert dictionary_columns(rows().slice(0, 1_000)) is True
    assert dictionary_columns(rows().select(["where", "list"])) is True


def test_a_column_of_nulls_keeps_its_dictionary() -> None:
    mostly_null = pa.array([None] * (ROWS - 100) + list(range(100)), pa.int64())
    assert dictionary_columns(pa.table({"n": mostly_null, "m": pa.nulls(ROWS)})) is True
