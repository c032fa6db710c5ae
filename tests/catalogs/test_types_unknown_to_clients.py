"""Catalog tables of other engines with column types that pyiceberg does not support."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

import lakescan
from lakescan.errors import UnsupportedFeature


@pytest.fixture(params=["variant", "geography(srid:4326)"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Make a table with `made_with` and return its name."""
    return made_with(request.param, tmp_path)


def made_with(kind: str, tmp_path: Path) -> str:
    """Make a table with the rows 1 and 2, add a column of an unsupported type as another engine; return the name."""
    catalog = lakescan.catalog("known", warehouse=str(tmp_path))
    catalog.create_namespace("db")
    made = catalog.create_table("db.t", "id BIGINT", properties={"format-version": "3"})
    made.append(pa.table({"id": [1, 2]}))
    newest = max(tmp_path.rglob("*.metadata.json"), key=lambda file: file.name)
    metadata = json.loads(newest.read_text())
    for schema in metadata["schemas"]:
        schema["fields"].append({"id": 9, "name": "v", "required": False, "type": kind})
    newest.write_text(json.dumps(metadata | {"last-column-id": 9}))
    return "known.db.t"


def test_columns_of_unknown_types_are_read_by_name(table: str) -> None:
    assert lakescan.table(table).scan().select("id").to_arrow()["id"].to_pylist() == [1, 2]
    assert lakescan.sql(f"SELECT id FROM {table} WHERE id > 1").to_arrow()["id"].to_pylist() == [2]
    assert lakescan.table(table).schema.names == ["id", "v"]


@pytest.mark.parametrize("change", ["DELETE FROM {} WHERE id = 1", "ALTER TABLE {} ADD COLUMN x INT"])
def test_changes_of_columns_of_unknown_types_are_refused_with_the_type(table: str, change: str) -> None:
    with pytest.raises(UnsupportedFeature, match=r"the type (variant|geography.*), which a column of known.db.t has"):
        lakescan.sql(change.format(table))
    assert lakescan.table(table).scan().count() == 2


@pytest.mark.parametrize("kind", ["geometry", "geography"])
def test_columns_are_added_next_to_geometries_of_the_default_crs(kind: str, tmp_path: Path) -> None:
    name = made_with(kind, tmp_path)
    lakescan.sql(f"ALTER TABLE {name} ADD COLUMN x INT")
    newest = max(tmp_path.rglob("*.metadata.json"), key=lambda file: file.name)
    fields = json.loads(newest.read_text())["schemas"][-1]["fields"]
    assert [(each["name"], each["type"]) for each in fields] == [("id", "long"), ("v", kind), ("x", "int")]
