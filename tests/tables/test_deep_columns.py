"""Columns nested more deeply than Parquet readers support."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakescan
from lakescan.errors import LimitExceeded, UnsupportedFeature


def nested(depth: int, *, in_lists: bool) -> pa.Table:
    kind: pa.DataType = pa.int32()
    value: Any = 1
    for _ in range(depth):
        kind, value = (pa.list_(kind), [value]) if in_lists else (pa.struct([("a", kind)]), {"a": value})
    return pa.table({"c": pa.array([value], kind)})


@pytest.mark.parametrize(("most", "in_lists"), [(98, False), (49, True)])
def test_every_column_that_is_written_can_be_read(tmp_path: Path, most: int, in_lists: bool) -> None:
    rows = nested(most, in_lists=in_lists)
    lakescan.save(rows, str(tmp_path / "t"), format="delta")
    assert lakescan.table(str(tmp_path / "t")).to_arrow().to_pylist() == rows.to_pylist()
    with pytest.raises(UnsupportedFeature, match=r"levels in Parquet.* Readers accept at most 99"):
        lakescan.save(nested(most + 1, in_lists=in_lists), str(tmp_path / "deeper"), format="delta")


def test_a_file_with_deeper_columns_is_not_called_damaged(tmp_path: Path) -> None:
    lakescan.save(nested(60, in_lists=False), str(tmp_path / "t"), format="delta")
    (file,) = (tmp_path / "t").glob("*.parquet")
    pq.write_table(nested(60, in_lists=True), file)
    with pytest.raises(LimitExceeded, match=r"nested too deeply\. A Parquet schema of at most 100 levels"):
        lakescan.table(str(tmp_path / "t")).to_arrow()
