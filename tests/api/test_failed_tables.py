"""A failing test prints the tables that it made below its `tmp_path`."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import lakescan
from tests.support.failed_tables import ROWS, describe_tables

pytestmark = pytest.mark.usefixtures("no_other_catalogs")


@pytest.mark.parametrize("format", ["delta", "iceberg"])
def test_a_table_is_described_by_its_columns_history_files_and_first_rows(
    tmp_path: Path, local: lakescan.Catalog, format: str
) -> None:
    lakescan.save(pa.table({"city": ["Oslo"] * (ROWS + 1)}), "local.db.towns", format=format)
    text = describe_tables(tmp_path)
    assert f"towns: {format}" in text
    assert "city: string" in text
    assert ".parquet (" in text
    assert "append" in text.lower() or "write" in text.lower()
    assert text.count("{'city': 'Oslo'}") == ROWS


def test_a_table_that_cannot_be_read_is_described_by_its_files_and_the_error(tmp_path: Path) -> None:
    lakescan.save(pa.table({"city": ["Oslo"]}), str(tmp_path / "towns"), format="delta")
    (tmp_path / "towns" / "_delta_log" / "00000000000000000000.json").unlink()
    text = describe_tables(tmp_path)
    assert "cannot be" in text
    assert ".parquet (" in text


def test_a_folder_without_tables_needs_no_description(tmp_path: Path) -> None:
    assert describe_tables(tmp_path) == ""
