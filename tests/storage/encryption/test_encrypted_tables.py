"""Encrypted Iceberg tables: all files are encrypted, readers resolve the chain of keys, and writers extend it."""

from __future__ import annotations

import io
import json
import logging
import pickle
import sys
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

import lakescan
from lakescan.common.schema import FieldMatching
from lakescan.reading.data_file import open_data_file
from lakescan.reading.field_ids import read_fields
from lakescan.reading.projection import Projection
from lakescan.storage import Storage
from lakescan.storage.encryption import FileKey, KeyManager
from lakescan.storage.encryption.gcm_stream import encrypt_stream
from lakescan.storage.encryption.table_keys import TIMESTAMP, NewKey
from tests.support.key_managers import NAME, OtherKeys, TestKeys

KEYED = "'format-version'='3', 'encryption.key-id'='keyA'"
_NUMBERS = count()
ROWS = pa.table({"id": [1, 2, 3, 4], "k": ["a", "a", "b", "b"], "v": [1.0, 2.0, 3.0, 4.0]})
VECTORS = (
    ", 'write.delete.mode'='merge-on-read', 'write.update.mode'='merge-on-read', 'write.merge.mode'='merge-on-read'"
)


class Lake:
    """An embedded catalog with a key manager, in a separate folder."""

    def __init__(self, folder: Path, **properties: str) -> None:
        self.folder, self.name = folder, f"enc{next(_NUMBERS)}"
        self.catalog = lakescan.catalog(self.name, warehouse=str(folder), **({"key_manager": NAME} | properties))
        self.catalog.create_namespace("db")

    def created(self, more: str = "", partition: str = "", rows: pa.Table | None = ROWS) -> lakescan.Table:
        lakescan.sql(
            f"CREATE TABLE {self.name}.db.t (id bigint, k string, v double) {partition} TBLPROPERTIES ({KEYED}{more})"
        )
        if rows is not None:
            self.table.append(rows)
        return self.table

    def without_key_manager(self) -> None:
        """Register the same catalog without its key manager."""
        lakescan.catalog(self.name, warehouse=str(self.folder))

    @property
    def table(self) -> lakescan.Table:
        return lakescan.table(f"{self.name}.db.t")

    def sql(self, text: str) -> Any:
        return lakescan.sql(text.format(t=f"{self.name}.db.t", c=self.name))

    @property
    def ids(self) -> list[int]:
        return sorted(self.table.scan().to_arrow()["id"].to_pylist())

    @property
    def metadata(self) -> Path:
        return max((self.folder / "db/t/metadata").glob("*.metadata.json"), key=lambda path: path.name)

    @property
    def document(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.metadata.read_text())
        return found

    @property
    def files(self) -> dict[Path, bytes]:
        """Return all files except the table's metadata, with their first bytes."""
        paths = (path for path in (self.folder / "db/t").rglob("*") if path.is_file())
        return {path: path.read_bytes()[:4] for path in paths if not path.name.endswith(".metadata.json")}


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path)


def changed(document: dict[str, Any], folder: Path) -> str:
    location = folder / "v99.metadata.json"
    location.write_text(json.dumps(document))
    return str(location)


CHANGES: dict[str, tuple[str, list[str], list[int]]] = {
    "insert": ("", ["INSERT INTO {t} VALUES (5, 'c', 5.0)"], [1, 2, 3, 4, 5]),
    "delete, copied": ("", ["DELETE FROM {t} WHERE id = 2"], [1, 3, 4]),
    "delete, with vectors": (
        VECTORS,
        ["DELETE FROM {t} WHERE id = 2", "DELETE FROM {t} WHERE id = 3"],
        [1, 4],
    ),
    "update, with vectors": (VECTORS, ["UPDATE {t} SET id = 10 * id WHERE id > 2"], [1, 2, 30, 40]),
    "merge": (
        VECTORS,
        [
            "MERGE INTO {t} USING (SELECT 3 AS id UNION ALL SELECT 9 AS id) s ON {t}.id = s.id "
            "WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (id, k, v) VALUES (s.id, 'n', 0.0)"
        ],
        [1, 2, 4, 9],
    ),
    "overwrite": ("", ["INSERT OVERWRITE {t} VALUES (7, 'c', 5.0)"], [7]),
    "compacted": (
        VECTORS,
        [
            "INSERT INTO {t} VALUES (5, 'c', 5.0)",
            "DELETE FROM {t} WHERE id = 2",
            "CALL {c}.system.rewrite_data_files('db.t')",
        ],
        [1, 3, 4, 5],
    ),
    "manifests rewritten": (
        "",
        ["INSERT INTO {t} VALUES (5, 'c', 5.0)", "CALL {c}.system.rewrite_manifests('db.t')"],
        [1, 2, 3, 4, 5],
    ),
    "manifests merged": (
        ", 'commit.manifest.min-count-to-merge'='2'",
        ["INSERT INTO {t} VALUES (5, 'c', 5.0)", "INSERT INTO {t} VALUES (6, 'c', 5.0)"],
        [1, 2, 3, 4, 5, 6],
    ),
    "columns changed": (
        "",
        ["ALTER TABLE {t} ADD COLUMN w int", "INSERT INTO {t} VALUES (5, 'c', 5.0, 1)"],
        [1, 2, 3, 4, 5],
    ),
    "rolled back": (
        "",
        [
            "ALTER TABLE {t} CREATE TAG kept",
            "DELETE FROM {t} WHERE id = 1",
            "CALL {c}.system.set_current_snapshot(table => 'db.t', ref => 'kept')",
            "INSERT INTO {t} VALUES (5, 'c', 5.0)",
        ],
        [1, 2, 3, 4, 5],
    ),
    "expired": (
        "",
        ["INSERT INTO {t} VALUES (5, 'c', 5.0)", "CALL {c}.system.expire_snapshots(table => 'db.t', retain_last => 1)"],
        [1, 2, 3, 4, 5],
    ),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("partition", ["", "PARTITIONED BY (k)"])
def test_all_written_files_are_encrypted_and_can_be_read(lake: Lake, change: str, partition: str) -> None:
    more, statements, ids = CHANGES[change]
    lake.created(more, partition)
    for statement in statements:
        lake.sql(statement)
    assert lake.ids == ids
    assert lake.table.scan().count() == len(ids)
    assert lake.table.scan().where("id >= 4").count() == len([each for each in ids if each >= 4])
    magics = {(path.suffix, magic) for path, magic in lake.files.items()}
    assert magics <= {(".parquet", b"PARE"), (".avro", b"AGS1"), (".puffin", b"AGS1")}


@pytest.mark.parametrize("length", [16, 24, 32])
def test_keys_have_the_length_set_by_the_table(lake: Lake, length: int) -> None:
    lake.created(f", 'encryption.data-key-length'='{length}'{VECTORS}")
    lake.sql("DELETE FROM {t} WHERE id = 2")
    assert lake.ids == [1, 3, 4]


def test_earlier_states_branches_and_tags_are_read(lake: Lake) -> None:
    lake.created()
    first = lake.document["current-snapshot-id"]
    lake.sql("ALTER TABLE {t} CREATE BRANCH b")
    lake.table.append(ROWS.slice(0, 1), branch="b")
    lake.sql("DELETE FROM {t} WHERE id > 1")
    assert lake.ids == [1]
    assert lakescan.table(f"{lake.name}.db.t", branch="b").scan().count() == 5
    assert lakescan.table(f"{lake.name}.db.t", snapshot_id=first).scan().count() == 4


def test_upserts_by_equality_deletes_are_encrypted(lake: Lake) -> None:
    table = lake.created()
    table.upsert(ROWS.slice(1, 2).set_column(2, "v", pa.array([9.0, 9.0])), "id", upsert_mode="equality")
    assert sorted(lake.table.scan().to_arrow()["v"].to_pylist()) == [1.0, 4.0, 9.0, 9.0]
    assert {magic for path, magic in lake.files.items() if path.suffix == ".parquet"} == {b"PARE"}


def test_a_table_is_created_with_its_rows(lake: Lake) -> None:
    lake.sql(f"CREATE TABLE {{t}} TBLPROPERTIES ({KEYED}) AS SELECT 1 AS id")
    assert lake.ids == [1]
    assert set(lake.files.values()) == {b"PARE", b"AGS1"}
    assert [key.get("encrypted-by-id") for key in lake.document["encryption-keys"]][:1] == ["keyA"]


def test_a_table_is_replaced_and_keeps_its_key(lake: Lake) -> None:
    lake.created()
    lake.sql("CREATE OR REPLACE TABLE {t} AS SELECT 8 AS id, 'x' AS other")
    assert lake.ids == [8]
    assert set(lake.files.values()) == {b"PARE", b"AGS1"}
    assert lake.document["properties"]["encryption.key-id"] == "keyA"
    with pytest.raises(lakescan.InvalidOption, match=r"another 'encryption\.key-id'"):
        lake.sql("CREATE OR REPLACE TABLE {t} TBLPROPERTIES ('encryption.key-id'='keyB') AS SELECT 9 AS id")
    assert lake.ids == [8]


def test_one_key_encryption_key_is_used_for_two_years(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    def keks() -> list[dict[str, Any]]:
        return [key for key in lake.document["encryption-keys"] if key["encrypted-by-id"] == "keyA"]

    lake.created()
    lake.table.append(ROWS)
    assert len(keks()) == 1
    assert len(lake.document["encryption-keys"]) == 3
    later, day = time.time(), 24 * 60 * 60
    monkeypatch.setattr(time, "time", lambda: later + 729 * day)
    lake.table.append(ROWS)
    assert len(keks()) == 1
    monkeypatch.setattr(time, "time", lambda: later + 731 * day)
    lake.table.append(ROWS)
    lake.table.append(ROWS)
    assert len(keks()) == 2
    assert lake.ids == sorted([1, 2, 3, 4] * 5)
    newest = max(keks(), key=lambda key: int(key["properties"][TIMESTAMP]))
    by_id = {key["key-id"]: key for key in lake.document["encryption-keys"]}
    assert by_id[lake.document["snapshots"][-1]["key-id"]]["encrypted-by-id"] == newest["key-id"]


def test_the_key_manager_is_asked_once_for_each_key(lake: Lake) -> None:
    lake.created()
    lake.table.append(ROWS)
    keys = TestKeys()
    table = lakescan.table(str(lake.metadata), key_manager=keys)
    assert table.scan().count() == 8
    table.scan().to_arrow()
    table.inspect("all_manifests")
    assert keys.calls == {"wrap": 0, "unwrap": 1}


def test_without_a_key_manager_nothing_is_read(lake: Lake) -> None:
    lake.created()
    with pytest.raises(lakescan.UnsupportedFeature, match="manifest lists without a key manager"):
        lakescan.table(str(lake.metadata)).scan().to_arrow()


def test_with_other_keys_nothing_is_read(lake: Lake) -> None:
    lake.created()
    with pytest.raises(
        lakescan.StorageError, match=r"snap-.*cannot unwrap key .* with 'keyA': ValueError: not wrapped by keyA"
    ):
        lakescan.table(str(lake.metadata), key_manager=OtherKeys()).scan().to_arrow()


def test_a_key_manager_for_files_cannot_read_manifest_lists(lake: Lake) -> None:
    class OfFiles:
        def file_key(self, path: str, key_metadata: bytes) -> FileKey:
            raise AssertionError

    lake.created()

    class Bare(KeyManager):
        pass

    for manager in (OfFiles(), Bare()):
        with pytest.raises(lakescan.UnsupportedFeature, match="unwrap"):
            lakescan.table(str(lake.metadata), key_manager=manager).scan().count()


@pytest.fixture
def damaged(lake: Lake, tmp_path: Path) -> Any:
    lake.created()

    def read(document: dict[str, Any]) -> pa.Table:
        return lakescan.table(changed(document, tmp_path), key_manager=TestKeys()).scan().to_arrow()

    return lake, read


def test_metadata_without_the_keys_is_refused(damaged: Any) -> None:
    lake, read = damaged
    for removed in range(2):
        document = lake.document
        del document["encryption-keys"][removed]
        with pytest.raises(lakescan.CorruptMetadata, match="the table's encryption-keys lack its key"):
            read(document)


def test_a_key_with_a_changed_timestamp_is_refused(damaged: Any) -> None:
    lake, read = damaged
    document = lake.document
    document["encryption-keys"][0]["properties"][TIMESTAMP] = "99"
    with pytest.raises(lakescan.CorruptMetadata, match="is not authentic"):
        read(document)


def test_a_key_that_is_not_base64_is_refused(damaged: Any) -> None:
    lake, read = damaged
    document = lake.document
    document["encryption-keys"][0]["encrypted-key-metadata"] = "?"
    with pytest.raises(lakescan.CorruptMetadata, match="not base64"):
        read(document)


@pytest.mark.parametrize("name", ["snap-", "-m0"])
@pytest.mark.parametrize("how", ["cut", "changed", "plain", "longer"])
def test_damaged_manifests_and_lists_are_refused(damaged: Any, name: str, how: str) -> None:
    lake, read = damaged
    (path,) = [each for each in lake.files if name in each.name]
    data = path.read_bytes()
    path.write_bytes(
        {
            "cut": data[:-5],
            "changed": data[:60] + b"??" + data[62:],
            "plain": b"Obj\x01" + data[4:],
            "longer": data + b"x",
        }[how]
    )
    with pytest.raises(lakescan.CorruptData, match=path.name):
        read(lake.document)


def test_damaged_vectors_are_refused(lake: Lake) -> None:
    lake.created(VECTORS)
    lake.sql("DELETE FROM {t} WHERE id = 2")
    (path,) = [each for each in lake.files if each.suffix == ".puffin"]
    data = path.read_bytes()
    path.write_bytes(data[:40] + b"??" + data[42:])
    with pytest.raises(lakescan.CorruptMetadata, match="not authentic"):
        lake.table.scan().to_arrow()


def test_files_of_two_manifests_cannot_be_exchanged(lake: Lake) -> None:
    lake.created()
    lake.table.append(ROWS)
    one, other = [each for each in lake.files if "-m0" in each.name]
    one_data, other_data = one.read_bytes(), other.read_bytes()
    one.write_bytes(other_data)
    other.write_bytes(one_data)
    with pytest.raises(lakescan.CorruptData):
        lake.table.scan().to_arrow()


def test_refused_writes_write_nothing(lake: Lake) -> None:
    table = lake.created()
    plain = lake.folder / "plain.parquet"
    pq.write_table(ROWS, plain)
    before = lake.files
    refused = {
        "adding plain files": f"CALL {{c}}.system.add_files(table => 'db.t', source_table => '`parquet`.`{plain}`')",
        "statistics files": "CALL {c}.system.compute_table_stats('db.t')",
        "statistics files of": "CALL {c}.system.compute_partition_stats('db.t')",
        "rewriting the paths": "CALL {c}.system.rewrite_table_path('db.t', 'file:///a', 'file:///b')",
    }
    for what, statement in refused.items():
        with pytest.raises(lakescan.LakescanError, match=what if "paths" not in what else "."):
            lake.sql(statement)
        assert lake.files == before
    lake.without_key_manager()
    for write in (
        lambda: lake.table.append(ROWS),
        lambda: lake.sql("INSERT INTO {t} VALUES (5, 'c', 5.0)"),
        lambda: lake.sql("CREATE OR REPLACE TABLE {t} AS SELECT 8 AS id"),
    ):
        with pytest.raises(lakescan.UnsupportedFeature, match="without a key manager"):
            write()
        assert lake.files == before
    assert table.scan().count() == 4


def test_without_the_library_an_extra_is_named(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    lake.created()
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.ciphers.aead", None)
    with pytest.raises(lakescan.MissingDependency, match=r"pip install 'lakescan\[encryption\]'"):
        lake.table.scan().count()


def test_catalogs_that_lose_keys_are_refused() -> None:
    from pyiceberg.catalog import MetastoreCatalog
    from pyiceberg.catalog.noop import NoopCatalog
    from pyiceberg.catalog.sql import SqlCatalog

    from lakescan.iceberg.data_files.encryption import check_catalog

    def of(kind: type) -> Any:
        made: Any = type("Some", (kind,), {"__init__": lambda self: None})
        made.__abstractmethods__ = frozenset()
        return made()

    check_catalog(of(SqlCatalog), "t")
    check_catalog(of(NoopCatalog), "t", keeps_snapshots=True)
    for catalog, keeps in ((of(MetastoreCatalog), True), (of(MetastoreCatalog), False), (of(NoopCatalog), False)):
        with pytest.raises(lakescan.UnsupportedFeature, match="encrypted Iceberg table t in a catalog of type Some"):
            check_catalog(catalog, "t", keeps_snapshots=keeps)


def test_the_key_of_a_table_cannot_change(lake: Lake) -> None:
    lake.created()
    for change in ("SET TBLPROPERTIES ('encryption.key-id'='keyB')", "UNSET TBLPROPERTIES ('encryption.key-id')"):
        with pytest.raises(lakescan.InvalidOption, match="from its creation on"):
            lake.sql(f"ALTER TABLE {{t}} {change}")
    lake.sql("ALTER TABLE {t} SET TBLPROPERTIES ('owner'='me', 'encryption.data-key-length'='32')")
    lake.table.append(ROWS)
    assert len(lake.ids) == 8


def test_a_plain_table_cannot_become_encrypted(lake: Lake) -> None:
    lake.sql("CREATE TABLE {t} (id bigint) TBLPROPERTIES ('format-version'='3')")
    with pytest.raises(lakescan.InvalidOption, match="from its creation on"):
        lake.sql("ALTER TABLE {t} SET TBLPROPERTIES ('encryption.key-id'='keyA')")


def test_a_table_that_lost_its_key_property_gets_no_plain_files(lake: Lake, tmp_path: Path) -> None:
    lake.created()
    document = lake.document
    del document["properties"]["encryption.key-id"]
    lake.metadata.write_text(json.dumps(document))
    with pytest.raises(lakescan.CorruptMetadata, match=r"no property encryption\.key-id"):
        lake.table.append(ROWS)


def test_encrypted_tables_need_version_3_a_key_manager_and_a_valid_length(lake: Lake, tmp_path: Path) -> None:
    with pytest.raises(lakescan.InvalidOption, match="needs format version 3"):
        lake.sql("CREATE TABLE {t} (id bigint) TBLPROPERTIES ('encryption.key-id'='keyA', 'format-version'='2')")
    with pytest.raises(lakescan.InvalidOption, match="16, 24 or 32 bytes"):
        lake.sql(f"CREATE TABLE {{t}} (id bigint) TBLPROPERTIES ({KEYED}, 'encryption.data-key-length'='17')")
    with pytest.raises(lakescan.UnsupportedFeature, match=r"'encryption\.kms-impl'"):
        lake.sql(f"CREATE TABLE {{t}} (id bigint) TBLPROPERTIES ({KEYED}, 'encryption.kms-impl'='x')")
    other = lakescan.catalog(f"{lake.name}none", warehouse=str(tmp_path / "none"))
    other.create_namespace("db")
    with pytest.raises(lakescan.UnsupportedFeature, match="without a key manager"):
        lakescan.sql(f"CREATE TABLE {lake.name}none.db.t (id bigint) TBLPROPERTIES ({KEYED})")
    assert not lake.catalog.table_exists("db.t")


def test_catalogs_take_key_managers_by_name(tmp_path: Path) -> None:
    with pytest.raises(lakescan.InvalidOption, match="must be a name that workers can import"):
        lakescan.catalog("wrong", warehouse=str(tmp_path), key_manager=TestKeys())


def secrets_of(lake: Lake, caplog: pytest.LogCaptureFixture) -> Iterator[str]:
    table = lake.table
    scan = table.scan()
    plan = scan.plan()
    yield repr(scan)
    yield repr(table)
    yield repr(plan)
    yield str(scan.explain()) if hasattr(scan, "explain") else ""
    yield repr([list(group.tasks()) for group in plan.groups])
    yield str(scan.to_options())
    yield caplog.text
    for name in ("files", "entries", "manifests", "all_manifests", "all_files", "snapshots", "delete_files"):
        yield str(table.inspect(name).to_pylist())


def test_keys_are_never_shown(lake: Lake, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    from lakescan.storage.encryption import table_keys

    made: list[bytes] = []
    monkeypatch.setattr(table_keys, "new_key", lambda length: made.append(bytes([len(made) + 65] * length)) or made[-1])
    caplog.set_level(logging.DEBUG)
    lake.created(VECTORS)
    lake.sql("DELETE FROM {t} WHERE id = 2")
    text = "".join(secrets_of(lake, caplog))
    assert len(made) > 8
    assert not [key for key in made if key.decode() in text]
    assert TestKeys.master["keyA"].decode() not in text
    assert not [key for key in made if key.decode() in lake.metadata.read_text()]


def test_decrypted_metadata_is_not_cached_on_disk(lake: Lake, tmp_path: Path) -> None:
    lake.created()
    cache = tmp_path / "cache"
    assert lakescan.table(f"{lake.name}.db.t", cache_folder=str(cache)).scan().count() == 4
    assert not [path for path in cache.rglob("*") if path.is_file()] if cache.exists() else True


def test_a_catalogs_key_manager_is_sent_to_workers_by_name(lake: Lake) -> None:
    lake.created()
    scan = lake.table.scan()
    assert scan.to_options()["key-manager"] == NAME
    assert isinstance(pickle.loads(pickle.dumps(scan.spec.storage)).key_manager, TestKeys)


def test_an_object_reads_and_writes_in_this_process(lake: Lake) -> None:
    lake.created()
    lake.without_key_manager()
    table = lakescan.table(f"{lake.name}.db.t", key_manager=TestKeys())
    table.append(ROWS)
    assert lakescan.table(f"{lake.name}.db.t", key_manager=TestKeys()).scan().count() == 8


def test_files_of_dropped_tables_are_found_through_encrypted_manifests(lake: Lake) -> None:
    lake.created()
    lake.catalog.drop_table("db.t", purge=True)
    assert not lake.files


def test_orphans_are_distinguished_from_files_of_encrypted_tables(lake: Lake) -> None:
    lake.created()
    before = lake.files
    lake.sql("CALL {c}.system.remove_orphan_files(table => 'db.t', older_than => TIMESTAMP '2000-01-01 00:00:00')")
    assert lake.files == before


def write_stream(path: Path, kind: str) -> bytes:
    """Write the rows as an encrypted stream; return its key metadata."""
    key, sink = NewKey.random(16), io.BytesIO()
    if kind == "orc":
        orc.write_table(ROWS, sink)
    else:
        kinds = {"id": "long", "k": "string", "v": "double"}
        fields = [{"name": name, "type": each, "field-id": n + 1} for n, (name, each) in enumerate(kinds.items())]
        fastavro.writer(sink, {"type": "record", "name": "r", "fields": fields}, ROWS.to_pylist())
    data = encrypt_stream(sink.getvalue(), key.file_key)
    path.write_bytes(data)
    return key.metadata(len(data))


@pytest.mark.parametrize("kind", ["avro", "orc"])
def test_avro_and_orc_files_that_are_streams_are_read(lake: Lake, kind: str) -> None:
    """Java writes such Avro files. It refuses ORC, but the specification does not."""
    path = lake.folder / f"rows.{kind}"
    whole = write_stream(path, kind)
    storage = Storage(key_manager=TestKeys())
    with open_data_file(storage, str(path), kind, whole) as file:
        projection = Projection((), read_fields(file.schema, FieldMatching(by_id=kind == "avro")), ())
        rows = pa.Table.from_batches([batch for _, batch in file.batches(file.chunks(0, 1 << 40), projection, 2)])
    assert rows["id"].to_pylist() == [1, 2, 3, 4]
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(lakescan.CorruptData, match="truncated"), open_data_file(storage, str(path), kind, whole):
        pass
    with pytest.raises(lakescan.UnsupportedFeature, match="files without a key manager"):
        open_data_file(Storage(), str(path), kind, whole)


def test_spark_reads_appends_and_changes_rows(lake: Lake, spark: Any) -> None:
    import lakescan.spark

    lake.created(VECTORS)
    lakescan.spark.register(spark)
    name = f"{lake.name}.db.t"
    new = spark.createDataFrame([(3, "z", 30.0), (7, "c", 70.0)], "id bigint, k string, v double")
    lakescan.spark.sql(spark, f"UPDATE {name} SET v = v + 1 WHERE id % 2 = 1")
    lakescan.spark.sql(spark, f"DELETE FROM {name} WHERE id = 2 OR k IS NULL")
    merge = f"MERGE INTO {name} t USING {{new}} s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = s.v"
    lakescan.spark.sql(spark, f"{merge} WHEN NOT MATCHED THEN INSERT *", new=new)
    lake.table.append(spark.createDataFrame([(8, "d", 80.0)], "id bigint, k string, v double"))
    expected = [(1, 2.0), (3, 30.0), (4, 4.0), (7, 70.0), (8, 80.0)]
    rows = lake.table.scan().to_spark(spark).collect()
    assert sorted((row.id, row.v) for row in rows) == expected
    assert sorted(zip(*(lake.table.scan().to_arrow()[n].to_pylist() for n in ("id", "v")), strict=True)) == expected
    assert b"PAR1" not in lake.files.values()
