"""Files without field ids: the table's name mapping gives the ids, where it agrees with the schema."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from samples.iceberg_deletes import local

import lakescan
from lakescan.common.schema import FieldMatching
from lakescan.reading.field_ids import read_fields
from tests.support.catalog import local_catalog

ROWS = pa.table(
    {
        "s": pa.array([{"l": [1, 2], "t": "x"}], pa.struct([("l", pa.list_(pa.int64())), ("t", pa.string())])),
        "n": pa.array([7], pa.int64()),
    }
)
# Each struct's members are numbered before the columns after it, whereas the schema numbers columns first.
IN_ANOTHER_ORDER = [
    {"field-id": 1, "names": ["s"], "fields": [
        {"field-id": 2, "names": ["l"], "fields": [{"field-id": 3, "names": ["element"]}]},
        {"field-id": 4, "names": ["t"]},
    ]},
    {"field-id": 5, "names": ["n"]},
]  # fmt: skip


def migrated(folder: Path, rows: pa.Table, mapping: list[dict[str, Any]], schemas: int = 1) -> str:
    """Make a table whose data file has no field ids, with that name mapping and number of schemas."""
    table = local_catalog(folder).create_table("n.t", rows.schema)
    table.append(rows)
    (file,) = table.inspect.files()["file_path"].to_pylist()
    pq.write_table(rows, local(file))
    metadata = json.loads(local(table.metadata_location).read_text())
    metadata["properties"]["schema.name-mapping.default"] = json.dumps(mapping)
    for number in range(1, schemas):
        metadata["schemas"].append({**metadata["schemas"][0], "schema-id": number})
    location = folder / "v9.metadata.json"
    location.write_text(json.dumps(metadata))
    return str(location)


def test_a_mapping_that_contradicts_the_only_schema_is_replaced_by_its_names(tmp_path: Path) -> None:
    assert lakescan.table(migrated(tmp_path, ROWS, IN_ANOTHER_ORDER)).scan().to_arrow().to_pylist() == ROWS.to_pylist()


def test_a_contradicting_mapping_with_several_schemas_is_refused(tmp_path: Path) -> None:
    with pytest.raises(lakescan.CorruptMetadata, match="ids of other fields"):
        lakescan.table(migrated(tmp_path, ROWS, IN_ANOTHER_ORDER, schemas=2)).scan().to_arrow()


def test_a_consistent_mapping_is_used(tmp_path: Path) -> None:
    rows = pa.table({"new": [1], "other": [2]})
    mapping = [{"field-id": 2, "names": ["new"]}, {"field-id": 1, "names": ["other"]}]
    assert lakescan.table(migrated(tmp_path, rows, mapping)).scan().to_arrow().to_pylist() == [{"new": 2, "other": 1}]


def test_columns_and_members_that_a_mapping_does_not_name_are_null(tmp_path: Path) -> None:
    none_of_the_file = [{"field-id": 1, "names": ["older"]}, {"field-id": 2, "names": ["oldest"]}]
    rows = pa.table({"a": [1], "b": [2]})
    (tmp_path / "columns").mkdir()
    found = lakescan.table(migrated(tmp_path / "columns", rows, none_of_the_file)).scan().to_arrow()
    assert found.to_pylist() == [{"a": None, "b": None}]
    rows = pa.table({"s": [{"t": "x"}], "n": [7]})
    mapping = [{"field-id": 1, "names": ["s"], "fields": []}, {"field-id": 2, "names": ["n"]}]
    (tmp_path / "members").mkdir()
    found = lakescan.table(migrated(tmp_path / "members", rows, mapping)).scan().to_arrow()
    assert found.to_pylist() == [{"s": {"t": None}, "n": 7}]


def test_a_column_with_a_dot_is_not_the_member_of_a_struct() -> None:
    kinds = pa.schema([("a", pa.struct([("b", pa.int64())])), ("a.b", pa.int64())])
    matching = FieldMatching(by_id=True, name_mapping={("a",): 1, ("a", "b"): 3, ("a.b",): 2})
    first, second = read_fields(kinds, matching)
    assert (first.id, first.children[0].id, second.id) == (1, 3, 2)
