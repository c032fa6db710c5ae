"""Delta tables for tests that damage them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Make a table of two commits with three rows each, in two partitions."""
    for start in (0, 3):
        rows = pa.table({"n": pa.array(range(start, start + 3)), "p": ["x", "x", "y"]})
        write_deltalake(tmp_path / "t", rows, partition_by=["p"], mode="append")
    return tmp_path / "t"


@pytest.fixture
def checkpointed(table: Path) -> Path:
    """Give the table a checkpoint and return its file."""
    DeltaTable(table).create_checkpoint()
    return next((table / "_delta_log").glob("*.checkpoint.parquet"))
