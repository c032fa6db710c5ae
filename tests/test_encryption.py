"""Encrypted Parquet files are read with the keys that a key manager has, and refused without one."""

from __future__ import annotations

import io
import pickle
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow.parquet import encryption
from samples.iceberg_deletes import local

import lakescan
from lakescan.encryption import FileKey, StandardKeyManager, named_key_manager
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
    """A table of three rows whose data file was encrypted, and whose manifest says with which key."""
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
    header = {k: v for k, v in reader.metadata.items() if not k.startswith("avro.")}
    with manifest.open("wb") as out:
        fastavro.writer(out, reader.writer_schema, entries, metadata=header)


def test_rows_are_read_with_the_right_key(location: str) -> None:
    scan = lakescan.table(location, key_manager=StandardKeyManager()).scan()
    assert scan.where("id > 1").select("name").to_arrow()["name"].to_pylist() == ["b", "c"]


def test_without_a_key_manager_planning_refuses(location: str) -> None:
    with pytest.raises(lakescan.UnsupportedFeature, match="without a key manager"):
        lakescan.table(location).scan().plan()


def test_a_wrong_key_is_an_error_and_not_rows(location: str) -> None:
    with pytest.raises(lakescan.CorruptMetadata, match="not a Parquet file that can be read"):
        lakescan.table(location, key_manager=WrongKeys()).scan().to_arrow()


def test_metadata_of_another_form_is_refused() -> None:
    for text in (b"", b"\x02abc", b"\x01"):
        with pytest.raises(lakescan.CorruptMetadata, match="standard"):
            StandardKeyManager().file_key("f", text)


def test_a_key_never_shows_in_text() -> None:
    assert repr(StandardKeyManager().file_key("f", standard_metadata(KEY, PREFIX))) == "FileKey(128 bits)"


def test_a_key_manager_can_be_named() -> None:
    name = "lakescan.encryption:StandardKeyManager"
    assert isinstance(named_key_manager(name), StandardKeyManager)
    for wrong in ("nowhere:x", "lakescan.encryption:Nothing", "lakescan.encryption"):
        with pytest.raises(lakescan.InvalidOption, match=r"package\.module:attribute"):
            named_key_manager(wrong)


def test_on_spark_it_must_be_named(location: str) -> None:
    with pytest.raises(lakescan.InvalidOption, match="is named"):
        lakescan.table(location, key_manager=StandardKeyManager()).scan().to_options()
    opened = lakescan.table(location, key_manager="lakescan.encryption:StandardKeyManager")
    assert opened.scan().to_options()["key-manager"] == "lakescan.encryption:StandardKeyManager"
    assert pickle.loads(pickle.dumps(opened._storage)).key_manager is not None


@pytest.mark.spark
def test_spark_reads_encrypted_files(location: str, spark: Any) -> None:
    named = {"key-manager": "lakescan.encryption:StandardKeyManager"}
    found = spark.read.format("iceberg").options(**named).load(location)
    assert sorted(r.name for r in found.collect()) == ["a", "b", "c"]
    scan = lakescan.table(location, **named).scan()
    assert "it is encrypted" in lakescan.spark.explain(scan)
    assert sorted(r.name for r in scan.to_spark(spark).collect()) == ["a", "b", "c"]
    with pytest.raises(lakescan.InvalidOption, match="is named"):
        lakescan.table(location, key_manager=StandardKeyManager()).scan().to_spark(spark)
