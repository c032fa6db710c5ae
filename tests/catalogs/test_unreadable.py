"""Metadata files and answers that pyiceberg cannot read raise lakescan errors; such tables are not listed."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest

import lakescan
from lakescan.errors import CorruptMetadata

Document = dict[str, Any]
ROWS = pa.table({"id": pa.array([1], pa.int64())})


@pytest.fixture
def document(local: lakescan.Catalog) -> Document:
    """Return the metadata of a version 1 table with one snapshot."""
    table = local.create_table("db.t", "id BIGINT", properties={"format-version": "1"})
    table.append(ROWS)
    return json.loads(_file().read_bytes())


def _file() -> Path:
    return Path(lakescan.table("local.db.t").scan().to_options()["path"].removeprefix("file://"))


def _legacy(document: Document) -> None:
    """Change the metadata to the form that the first version 1 writers wrote."""
    for name in ("schemas", "current-schema-id", "partition-specs", "default-spec-id", "last-partition-id", "refs"):
        document.pop(name, None)
    for name in ("sort-orders", "default-sort-order-id", "table-uuid", "snapshot-log", "metadata-log", "properties"):
        document.pop(name, None)


def _with_manifests(document: Document) -> None:
    """Let snapshots name their manifests instead of a manifest list, as version 1 allows."""
    _legacy(document)
    for each in document["snapshots"]:
        del each["manifest-list"]
        each["manifests"] = []


@pytest.mark.parametrize("name", ["00007-a.metadata.json", "00007-a.gz.metadata.json"])
def test_a_legacy_table_is_registered(local: lakescan.Catalog, document: Document, tmp_path: Path, name: str) -> None:
    _legacy(document)
    text = json.dumps(document).encode()
    file = tmp_path / name
    file.write_bytes(gzip.compress(text) if ".gz" in name else text)
    assert local.register_table("db.old", file).to_arrow() == ROWS


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_with_manifests, "manifest-list: Field required"),
        (lambda d: d.pop("last-column-id"), "last-column-id: Field required"),
        (lambda d: d.pop("schema"), "schema: Field required"),
        (lambda d: d.update({"properties": None}), "cannot be registered"),
        (lambda d: d.pop("location"), "lacks the required field 'location'"),
    ],
    ids=["manifests", "column id", "schema", "properties", "location"],
)
def test_a_table_that_cannot_be_opened_is_not_registered(
    local: lakescan.Catalog, document: Document, tmp_path: Path, change: Callable[[Document], Any], message: str
) -> None:
    change(document)
    file = tmp_path / "00007-a.metadata.json"
    file.write_text(json.dumps(document))
    with pytest.raises(CorruptMetadata, match=message):
        local.register_table("db.old", file)
    with pytest.raises(CorruptMetadata, match=message):
        lakescan.sql(f"CALL local.system.register_table('db.old', '{file}')")
    assert not local.table_exists("db.old")


CALLS: dict[str, Callable[[lakescan.Catalog, lakescan.Table], Any]] = {
    "load": lambda lake, _: lake.load_table("db.t"),
    "exists": lambda lake, _: lake.table_exists("db.t"),
    "append": lambda _, table: table.append(ROWS),
    "alter": lambda _, table: table.alter().set_comment("x").commit(),
    "branch": lambda _, table: table.create_branch("b"),
    "save": lambda _, table: lakescan.save(ROWS, "local.db.t", mode="append"),
    "replace": lambda lake, _: lake.create_table("db.t", "id BIGINT", replace=True),
    "purge": lambda lake, _: lake.drop_table("db.t", purge=True),
    "sql": lambda _, table: lakescan.sql("SELECT * FROM local.db.t").to_arrow(),
}


@pytest.mark.parametrize("text", [b"{", b"\xff\xfe", b"[]", b"{}"], ids=["cut off", "no text", "list", "empty"])
@pytest.mark.parametrize("call", CALLS)
def test_a_damaged_metadata_file_is_named(local: lakescan.Catalog, document: Document, call: str, text: bytes) -> None:
    table, file = local.load_table("db.t"), _file()
    file.write_bytes(text)
    with pytest.raises(CorruptMetadata, match=r"local.*db\.t") as found:
        CALLS[call](local, table)
    assert "For further information" not in str(found.value)
    assert local.list_tables("db") == ["db.t"]


def test_an_unreadable_answer_of_a_server_is_an_error(local: lakescan.Catalog, document: Document) -> None:
    from pyiceberg.catalog.rest import TableResponse
    from pyiceberg.catalog.sql import SqlCatalog

    def answer(*_: Any, **__: Any) -> Any:
        return TableResponse.model_validate_json('{"metadata-location": "x"}')

    with patch.object(SqlCatalog, "load_table", answer), pytest.raises(CorruptMetadata, match="metadata: Field req"):
        local.load_table("db.t")
    page = patch.object(SqlCatalog, "load_table", lambda *_: json.loads("<html>"))
    with page, pytest.raises(CorruptMetadata, match="it is not JSON"):
        local.load_table("db.t")
