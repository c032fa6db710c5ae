"""Encrypted Parquet files are read with a key manager's keys, and refused without one."""

from __future__ import annotations

import io
import json
import pickle
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow.parquet import encryption
from samples.iceberg_deletes import commit_deletes, local, write_deletion_vectors, write_position_deletes

import lakescan
from lakescan.storage.encryption import FileKey, StandardKeyManager, named_key_manager
from tests.support.catalog import local_catalog

KEY, PREFIX = b"0123456789abcdef", b"the table"


def standard_metadata(key: bytes, prefix: bytes) -> bytes:
    """Version 1, then Avro: two byte strings, the second in a union, and no file length."""

    def text(value: bytes) -> bytes:
        return bytes([len(value) * 2]) + value

    return b"\x01" + text(key) + b"\x02" + text(prefix) + b"\x00"


class WrongKeys:
    def file_key(self, path: str, key_metadata: bytes) -> FileKey:
        return FileKey(b"fedcba9876543210", PREFIX)


@pytest.fixture(scope="module")
def location(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Make a table of three rows whose data file is encrypted, with the key metadata in the manifest."""
    folder = tmp_path_factory.mktemp("encrypted")
    catalog = local_catalog(folder)
    table = catalog.create_table("n.t", pa.schema([("id", pa.int64()), ("name", pa.string())]))
    table.append(pa.table({"id": [1, 2, 3], "name": ["a", "b", "c"]}))
    (file,) = table.inspect.files()["file_path"].to_pylist()
    plain = pq.read_table(local(file))
    properties = encryption.create_encryption_properties(KEY, aad_prefix=PREFIX, store_aad_prefix=False)
    pq.write_table(plain, local(file), encryption_properties=properties)
    (manifest,) = [m.manifest_path for m in table.current_snapshot().manifests(table.io)]
    with_key_metadata(local(manifest), standard_metadata(KEY, PREFIX))
    return table.metadata_location


def with_key_metadata(manifest: Path, key_metadata: bytes) -> None:
    reader = fastavro.reader(io.BytesIO(manifest.read_bytes()))
    entries: list[Any] = list(reader)
    for entry in entries:
        entry["data_file"]["key_metadata"] = key_metadata
    schema = json.loads(reader.metadata["avro.schema"])
    fields = next(f["type"]["fields"] for f in schema["fields"] if f["name"] == "data_file")
    if all(field["name"] != "key_metadata" for field in fields):
        fields.append({"name": "key_metadata", "type": ["null", "bytes"], "field-id": 131, "default": None})
    header = {k: v for k, v in reader.metadata.items() if not k.startswith("avro.")}
    with manifest.open("wb") as out:
        fastavro.writer(out, schema, entries, metadata=header)


def test_rows_are_read_with_the_right_key(location: str) -> None:
    scan = lakescan.table(location, key_manager=StandardKeyManager()).scan()
    assert scan.where("id > 1").select("name").to_arrow()["name"].to_pylist() == ["b", "c"]


def test_without_a_key_manager_an_encrypted_file_is_refused(location: str) -> None:
    with pytest.raises(lakescan.UnsupportedFeature, match="without a key manager"):
        lakescan.table(location).scan().to_arrow()


def test_planning_refuses_a_table_marked_as_encrypted(location: str, tmp_path: Path) -> None:
    metadata = json.loads(local(location).read_text())
    metadata["properties"]["encryption.key-id"] = "main"
    (tmp_path / "v1.metadata.json").write_text(json.dumps(metadata))
    with pytest.raises(lakescan.UnsupportedFeature, match="without a key manager"):
        lakescan.table(str(tmp_path / "v1.metadata.json")).scan().plan()


@pytest.fixture
def plain(tmp_path: Path) -> Any:
    """Make an unencrypted table of three rows."""
    table = local_catalog(tmp_path).create_table("n.t", pa.schema([("id", pa.int64()), ("name", pa.string())]))
    table.append(pa.table({"id": [1, 2, 3], "name": ["a", "b", "c"]}))
    return table


def test_key_metadata_of_plain_files_is_ignored(plain: Any) -> None:
    folder, (file,) = plain.location(), plain.inspect.files()["file_path"].to_pylist()
    made = write_position_deletes(f"{folder}/data/d.parquet", [(file, 1)])
    location = commit_deletes(plain.metadata_location, [made])
    for manifest in local(f"{folder}/metadata").glob("*-m*.avro"):
        with_key_metadata(manifest, b"anything")
    scan = lakescan.table(location).scan()
    assert scan.to_arrow()["id"].to_pylist() == [1, 3]
    assert scan.count() == 2
    positions = lakescan.table(location).inspect("position_deletes")
    assert positions["pos"].to_pylist() == [1]


def test_key_metadata_of_plain_vectors_is_ignored(plain: Any) -> None:
    (file,) = plain.inspect.files()["file_path"].to_pylist()
    made = write_deletion_vectors(f"{plain.location()}/data/v.puffin", {file: [0]})
    location = commit_deletes(plain.metadata_location, made, format_version=3)
    for manifest in local(f"{plain.location()}/metadata").glob("*-m*.avro"):
        with_key_metadata(manifest, b"anything")
    assert lakescan.table(location).scan().to_arrow()["id"].to_pylist() == [2, 3]


def test_vectors_that_are_encrypted_are_refused(plain: Any) -> None:
    (file,) = plain.inspect.files()["file_path"].to_pylist()
    made = write_deletion_vectors(f"{plain.location()}/data/v.puffin", {file: [0]})
    location = commit_deletes(plain.metadata_location, made, format_version=3)
    for manifest in local(f"{plain.location()}/metadata").glob("*-m*.avro"):
        with_key_metadata(manifest, b"anything")
    local(f"{plain.location()}/data/v.puffin").write_bytes(b"AGS1" + bytes(100))
    with pytest.raises(lakescan.UnsupportedFeature, match="encrypted deletion vectors"):
        lakescan.table(location).scan().to_arrow()


def test_columns_that_are_encrypted_under_a_plain_footer_are_refused(plain: Any) -> None:
    (file,) = plain.inspect.files()["file_path"].to_pylist()
    properties = encryption.create_encryption_properties(KEY, plaintext_footer=True)
    pq.write_table(pq.read_table(local(file)), local(file), encryption_properties=properties)
    with pytest.raises(lakescan.UnsupportedFeature, match="without a key manager"):
        lakescan.table(plain.metadata_location).scan().to_arrow()


def test_manifests_and_their_lists_that_are_encrypted_are_refused(plain: Any, tmp_path: Path) -> None:
    listed = local(plain.current_snapshot().manifest_list)
    metadata = json.loads(local(plain.metadata_location).read_text())
    metadata["snapshots"][0]["key-id"] = "k"
    location = tmp_path / "v9.metadata.json"
    location.write_text(json.dumps(metadata))
    assert lakescan.table(str(location)).scan().count() == 3
    listed.write_bytes(b"AGS1" + listed.read_bytes())
    with pytest.raises(lakescan.UnsupportedFeature, match="encrypted manifest lists"):
        lakescan.table(str(location)).scan().count()


def test_a_wrong_key_is_an_error_and_not_rows(location: str) -> None:
    with pytest.raises(lakescan.CorruptMetadata, match="its footer cannot be decoded"):
        lakescan.table(location, key_manager=WrongKeys()).scan().to_arrow()


def test_metadata_of_another_form_is_refused() -> None:
    for text in (b"", b"\x02abc", b"\x01"):
        with pytest.raises(lakescan.CorruptMetadata, match="standard"):
            StandardKeyManager().file_key("f", text)


def test_a_key_never_shows_in_text() -> None:
    assert repr(StandardKeyManager().file_key("f", standard_metadata(KEY, PREFIX))) == "FileKey(128 bits)"


def test_a_key_manager_can_be_named() -> None:
    name = "lakescan.storage.encryption:StandardKeyManager"
    assert isinstance(named_key_manager(name), StandardKeyManager)
    for wrong in ("nowhere:x", "lakescan.storage.encryption:Nothing", "lakescan.storage.encryption"):
        with pytest.raises(lakescan.InvalidOption, match=r"package\.module:attribute"):
            named_key_manager(wrong)


def test_on_spark_a_key_manager_must_be_named(location: str) -> None:
    with pytest.raises(lakescan.InvalidOption, match="given by name"):
        lakescan.table(location, key_manager=StandardKeyManager()).scan().to_options()
    opened = lakescan.table(location, key_manager="lakescan.storage.encryption:StandardKeyManager")
    assert opened.scan().to_options()["key-manager"] == "lakescan.storage.encryption:StandardKeyManager"
    assert pickle.loads(pickle.dumps(opened.scan().spec.storage)).key_manager is not None


@pytest.mark.spark
def test_spark_reads_encrypted_files(location: str, spark: Any) -> None:
    named = {"key-manager": "lakescan.storage.encryption:StandardKeyManager"}
    found = spark.read.format("iceberg").options(**named).load(location)
    assert sorted(r.name for r in found.collect()) == ["a", "b", "c"]
    scan = lakescan.table(location, **named).scan()
    assert "it may be encrypted" in lakescan.spark.explain(scan)
    assert sorted(r.name for r in scan.to_spark(spark).collect()) == ["a", "b", "c"]
    with pytest.raises(lakescan.InvalidOption, match="given by name"):
        lakescan.table(location, key_manager=StandardKeyManager()).scan().to_spark(spark)
