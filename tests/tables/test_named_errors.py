"""Errors of writes to a Delta table contain the name that the user opened it by, or its folder."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import lakescan
from lakescan.api.rows import as_rows
from lakescan.errors import LakescanError, MissingFile, UnsupportedFeature
from lakescan.options.write import WriteOptions
from lakescan.tables.error_names import name_table_in_errors
from lakescan.tables.write_rows import overwrite_rows
from tests.tables.support import NAME, now, rows

A = (1, "a")
NO_OPTIONS = WriteOptions()
CALLS: dict[str, Callable[[lakescan.Table], Any]] = {
    "alter": lambda table: table.alter().change_column("id", type="int").commit(),
    "constraint": lambda table: table.alter().drop_constraint("none").commit(),
    "overwriteSchema": lambda table: table.overwrite(pa.table({"id": [1]}), overwriteSchema=True),
    "overwrite": lambda table: table.overwrite(pa.table({"id": [1], "other": ["a"]})),
    "manifests": lambda table: table.generate("symlink_format_manifest"),
}


@pytest.fixture
def table(local: lakescan.Catalog) -> lakescan.Table:
    properties = {"delta.appendOnly": "true", "delta.columnMapping.mode": "name"}
    made = local.create_table("db.t", "id BIGINT, part STRING", format="delta", properties=properties)
    made.append(rows(A))
    made.alter().rename_column("part", "other").commit()
    return now()


@pytest.mark.parametrize("call", CALLS)
def test_errors_contain_the_name_used_to_open_the_table(table: lakescan.Table, call: str) -> None:
    folder = table.location
    with pytest.raises(LakescanError) as by_name:
        CALLS[call](table)
    with pytest.raises(LakescanError) as by_folder:
        CALLS[call](lakescan.table(folder))
    assert NAME in str(by_name.value)
    assert folder not in str(by_name.value)
    assert str(by_folder.value).replace(folder, NAME) == str(by_name.value)


def test_conflicts_contain_the_name_of_the_table(local: lakescan.Catalog) -> None:
    local.create_table("db.t", "id BIGINT, part STRING", format="delta").append(rows(A))
    before = now()._target(NO_OPTIONS)
    now().alter().add_column("more", "int").commit()
    with pytest.raises(lakescan.CommitConflict, match=r"^local\.db\.t: another writer changed its columns"):
        overwrite_rows(before, as_rows(rows(A)), NO_OPTIONS, None)


def test_locations_of_files_are_not_replaced_by_the_name() -> None:
    text = (
        "file:///lake/t: the file file:///lake/t/part-1.parquet is missing, and file:///lake/t.old; see file:///lake/t."
    )
    with pytest.raises(MissingFile) as failed, name_table_in_errors("c.n.t", "file:///lake/t"):
        raise MissingFile(text)
    expected = "c.n.t: the file file:///lake/t/part-1.parquet is missing, and file:///lake/t.old; see c.n.t."
    assert str(failed.value) == expected
    with pytest.raises(UnsupportedFeature) as refused, name_table_in_errors("c.n.t", "/lake/t"):
        raise UnsupportedFeature("cutting /lake/t", "Drop /lake/t.")
    assert str(refused.value) == "unsupported feature: cutting c.n.t. Drop c.n.t."
