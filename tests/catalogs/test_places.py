"""Locations that committing libraries would resolve differently are refused before anything is created."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import lakescan

ROWS = pa.table({"id": [1]})


@pytest.mark.parametrize("folder", ["a%20b", "a b", "ü", "g%", "a#b", "a?b", "[a]", "a+b"])
@pytest.mark.parametrize("scheme", ["", "file://"])
def test_folders_with_unusual_names_hold_delta_tables(tmp_path: Path, scheme: str, folder: str) -> None:
    path = f"{scheme}{tmp_path}/{folder}"
    for mode in ("error", "append"):
        lakescan.save(ROWS, path, format="delta", mode=mode)
    assert lakescan.table(path).compact().removed_files == 2
    assert lakescan.table(path).scan().count() == 2
    assert [each.name for each in tmp_path.iterdir()] == [folder]


def test_a_neighbouring_table_with_an_encoded_name_is_not_changed(tmp_path: Path) -> None:
    lakescan.save(ROWS, tmp_path / "a b", format="delta")
    (tmp_path / "a b").rename(tmp_path / "a%20b")
    lakescan.save(ROWS, tmp_path / "a b", format="delta")
    moved = lakescan.table(tmp_path / "a%20b")
    moved.append(ROWS.append_column("n", pa.array([1])), merge_schema=True)
    moved.compact()
    moved.checkpoint()
    assert lakescan.table(tmp_path / "a b").schema.names == ["id"]
    assert lakescan.table(tmp_path / "a%20b").scan().count() == 2


@pytest.mark.parametrize("name", ["db.t?x", "db.t#x", "db.`a b?`"])
def test_an_iceberg_table_is_not_made_where_pyiceberg_would_cut_its_name(
    local: lakescan.Catalog, tmp_path: Path, name: str
) -> None:
    with pytest.raises(lakescan.UnsupportedFeature, match="truncates locations at"):
        local.create_table(name, ROWS.schema)
    assert not list((tmp_path / "lake").rglob("*.json"))


@pytest.mark.parametrize("folder", ["a%20b", "a#b", "a?b"])
def test_an_embedded_catalog_in_an_unsupported_folder_is_refused(tmp_path: Path, folder: str) -> None:
    with pytest.raises(lakescan.InvalidOption, match="cannot be in"):
        lakescan.catalog("odd", warehouse=tmp_path / folder)
    assert not list(tmp_path.iterdir())


def test_the_error_for_an_unreachable_catalog_server_says_what_to_check() -> None:
    with pytest.raises(lakescan.StorageError, match=r"cannot be opened: .*Check its uri, and the network"):
        lakescan.catalog("odd", type="rest", uri="http://127.0.0.1:1")


def test_a_failing_catalog_database_is_a_storage_error(local: lakescan.Catalog, tmp_path: Path) -> None:
    with pytest.raises(lakescan.StorageError, match="cannot be opened: unable to open"):
        lakescan.catalog("odd", type="sql", uri=f"sqlite:///{tmp_path}/none/c.db", warehouse=str(tmp_path))
    (tmp_path / "lake" / "catalog.db").write_bytes(b"no database" * 1000)
    with pytest.raises(
        lakescan.StorageError, match=r"namespace local\.other ended with DatabaseError: file is not"
    ) as raised:
        local.create_namespace("other")
    assert "SELECT" not in str(raised.value)
    with pytest.raises(lakescan.StorageError, match=r"catalog 'local' failed for local\.db\.t"):
        local.load_table("db.t")


def test_missing_metadata_files_of_a_catalog_are_reported(local: lakescan.Catalog, tmp_path: Path) -> None:
    lakescan.save(ROWS, "local.db.t")
    for file in (tmp_path / "lake").rglob("*.metadata.json"):
        file.unlink()
    with pytest.raises(lakescan.MissingFile, match=r"refers to a file of local\.db\.t that does not exist"):
        lakescan.table("local.db.t")
