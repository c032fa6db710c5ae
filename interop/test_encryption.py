"""Encrypted tables: lakescan reads tables that Iceberg's Java implementation writes, and Java reads lakescan's.

Java encrypts only tables of Hive catalogs. The Hive catalog of these tests has its metastore in the JVM itself. Its key
management service is a class compiled for the test, with the keys of Iceberg's own tests.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.support.key_managers import NAME, OtherKeys, TestKeys
from tests.support.rows import differences

import lakescan

pytestmark = pytest.mark.skipif(shutil.which("javac") is None, reason="the key management service needs javac")

INTERFACE = """package org.apache.iceberg.encryption;
public interface KeyManagementClient extends java.io.Serializable, java.io.Closeable {
  java.nio.ByteBuffer wrapKey(java.nio.ByteBuffer key, String id);
  java.nio.ByteBuffer unwrapKey(java.nio.ByteBuffer key, String id);
  void initialize(java.util.Map<String, String> properties);
  @Override default void close() {}
}
"""
SERVICE = """package lakescan.interop;
import java.nio.ByteBuffer;
import java.util.Map;
import javax.crypto.Cipher;
import javax.crypto.spec.GCMParameterSpec;
import javax.crypto.spec.SecretKeySpec;
public class Keys implements org.apache.iceberg.encryption.KeyManagementClient {
  static final Map<String, String> MASTER = Map.of("keyA", "0123456789012345", "keyB", "1123456789012345");
  private static byte[] bytes(ByteBuffer buffer) {
    byte[] found = new byte[buffer.remaining()];
    buffer.duplicate().get(found);
    return found;
  }
  private static Cipher cipher(int mode, String id, byte[] nonce) throws Exception {
    Cipher cipher = Cipher.getInstance("AES/GCM/NoPadding");
    cipher.init(mode, new SecretKeySpec(MASTER.get(id).getBytes("UTF-8"), "AES"), new GCMParameterSpec(128, nonce));
    return cipher;
  }
  public ByteBuffer wrapKey(ByteBuffer key, String id) {
    try {
      byte[] nonce = new byte[12];
      new java.security.SecureRandom().nextBytes(nonce);
      byte[] done = cipher(Cipher.ENCRYPT_MODE, id, nonce).doFinal(bytes(key));
      ByteBuffer all = ByteBuffer.allocate(12 + done.length).put(nonce).put(done);
      all.flip();
      return all;
    } catch (Exception error) {
      throw new RuntimeException(error);
    }
  }
  public ByteBuffer unwrapKey(ByteBuffer wrapped, String id) {
    try {
      byte[] all = bytes(wrapped);
      byte[] nonce = java.util.Arrays.copyOf(all, 12);
      return ByteBuffer.wrap(cipher(Cipher.DECRYPT_MODE, id, nonce).doFinal(all, 12, all.length - 12));
    } catch (Exception error) {
      throw new RuntimeException(error);
    }
  }
  public void initialize(Map<String, String> properties) {}
}
"""
ROWS = "SELECT id, cast(id % 7 as int) AS k, concat('n', id % 5) AS name, id * 1.5 AS price FROM range(200)"
PROPERTIES = "'format-version'='3', 'encryption.key-id'='keyA'"


@pytest.fixture(scope="module")
def encrypted(jvm: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The session with a Hive catalog `enc` whose tables may be encrypted."""
    folder = tmp_path_factory.mktemp("hive")
    classes, interface = folder / "classes", folder / "interface"
    for path, text in (
        (interface / "org/apache/iceberg/encryption/KeyManagementClient.java", INTERFACE),
        (folder / "src/lakescan/interop/Keys.java", SERVICE),
    ):
        path.parent.mkdir(parents=True)
        path.write_text(text)
    sources = [str(interface / "org/apache/iceberg/encryption/KeyManagementClient.java")]
    subprocess.run(["javac", "-d", str(interface), *sources], check=True)
    service = str(folder / "src/lakescan/interop/Keys.java")
    subprocess.run(["javac", "-cp", str(interface), "-d", str(classes), service], check=True)
    java = jvm._jvm.java
    loader = java.lang.Thread.currentThread().getContextClassLoader()
    loader.addURL(java.io.File(str(classes)).toURI().toURL())
    at = "spark.sql.catalog.enc"
    settings = {
        at: "org.apache.iceberg.spark.SparkCatalog",
        f"{at}.type": "hive",
        f"{at}.warehouse": f"{folder}/warehouse",
        f"{at}.cache-enabled": "false",
        f"{at}.encryption.kms-impl": "lakescan.interop.Keys",
        f"{at}.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={folder}/metastore;create=true",
        f"{at}.hadoop.datanucleus.schema.autoCreateAll": "true",
        f"{at}.hadoop.hive.metastore.schema.verification": "false",
        f"{at}.hadoop.hive.metastore.warehouse.dir": f"{folder}/warehouse",
        f"{at}.hadoop.datanucleus.connectionPoolingType": "None",
        f"{at}.hadoop.iceberg.engine.hive.lock-enabled": "false",
    }
    for name, value in settings.items():
        jvm.conf.set(name, value)
    jvm.sql("CREATE NAMESPACE IF NOT EXISTS enc.db")
    return jvm


def location_of(jvm: Any, name: str) -> str:
    """Return the newest metadata file of a table in the Hive catalog."""
    rows = jvm.sql(f"SELECT file FROM {name}.metadata_log_entries ORDER BY timestamp DESC, file DESC LIMIT 1").collect()
    return str(rows[0].file)


def magics(folder: str) -> dict[str, set[bytes]]:
    """Return the first four bytes of a table's files, by file extension."""
    found: dict[str, set[bytes]] = {}
    for path in Path(folder.removeprefix("file:")).rglob("*"):
        if path.is_file() and not path.name.endswith((".crc", ".json")):
            found.setdefault(path.suffix, set()).add(path.read_bytes()[:4])
    return found


CASES: dict[str, list[str]] = {
    "parquet": [f"CREATE TABLE {{t}} USING iceberg TBLPROPERTIES ({PROPERTIES}) AS {ROWS}"],
    "long keys": [
        f"CREATE TABLE {{t}} USING iceberg TBLPROPERTIES ({PROPERTIES}, 'encryption.data-key-length'='32') AS {ROWS}"
    ],
    "avro": [
        f"CREATE TABLE {{t}} USING iceberg TBLPROPERTIES ({PROPERTIES}, 'write.format.default'='avro') AS {ROWS}",
        "INSERT INTO {t} SELECT id, 1, repeat(cast(rand() as string), 200), 2.5 FROM range(3000)",
    ],
    "partitions and several snapshots": [
        f"CREATE TABLE {{t}} USING iceberg PARTITIONED BY (k) TBLPROPERTIES ({PROPERTIES}) AS {ROWS}",
        f"INSERT INTO {{t}} {ROWS}",
        "DELETE FROM {t} WHERE k = 2",
        "UPDATE {t} SET name = 'u' WHERE id = 8",
    ],
    "vectors": [
        f"CREATE TABLE {{t}} USING iceberg TBLPROPERTIES ({PROPERTIES}, 'write.delete.mode'='merge-on-read', 'write.update.mode'='merge-on-read') AS {ROWS}",
        "DELETE FROM {t} WHERE id % 10 = 3",
        "UPDATE {t} SET price = -1 WHERE id % 10 = 4",
    ],
    "rewritten": [
        f"CREATE TABLE {{t}} USING iceberg TBLPROPERTIES ({PROPERTIES}) AS {ROWS}",
        f"INSERT INTO {{t}} {ROWS}",
        "CALL enc.system.rewrite_manifests('db.{name}')",
    ],
}


@pytest.mark.parametrize("case", CASES)
def test_lakescan_reads_the_rows_that_java_reads(encrypted: Any, case: str) -> None:
    name = case.replace(" ", "_")
    for statement in CASES[case]:
        encrypted.sql(statement.format(t=f"enc.db.{name}", name=name))
    expected = encrypted.table(f"enc.db.{name}").toArrow()
    location = location_of(encrypted, f"enc.db.{name}")
    table = lakescan.table(location, key_manager=TestKeys())
    assert differences(table.scan().to_arrow(), expected) == ""
    assert table.scan().count() == expected.num_rows
    with pytest.raises(lakescan.UnsupportedFeature, match="without a key manager"):
        lakescan.table(location).scan().to_arrow()
    with pytest.raises(ValueError, match="not wrapped by keyA"):
        lakescan.table(location, key_manager=OtherKeys()).scan().to_arrow()


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> lakescan.Catalog:
    """A lakescan catalog of encrypted tables."""
    made = lakescan.catalog("encrypted_lake", warehouse=str(tmp_path_factory.mktemp("lake")), key_manager=NAME)
    made.create_namespace("db")
    return made


STATEMENTS: dict[str, list[str]] = {
    "appended": ["INSERT INTO {t} VALUES (1000, 1, 'x', 2.5)"],
    "changed, with vectors": [
        "ALTER TABLE {t} SET TBLPROPERTIES ('write.delete.mode'='merge-on-read', 'write.update.mode'='merge-on-read')",
        "DELETE FROM {t} WHERE id % 10 = 3",
        "UPDATE {t} SET name = 'u' WHERE id % 10 = 4",
        "DELETE FROM {t} WHERE id % 10 = 5",
    ],
    "changed, copied": ["DELETE FROM {t} WHERE id % 10 = 3", "UPDATE {t} SET name = 'u' WHERE id % 10 = 4"],
    "compacted": [
        "INSERT INTO {t} VALUES (1000, 1, 'x', 2.5)",
        "CALL encrypted_lake.system.rewrite_data_files('db.{name}')",
    ],
}


@pytest.mark.parametrize("case", STATEMENTS)
@pytest.mark.parametrize("key_length", [16, 32])
def test_java_reads_and_continues_tables_of_lakescan(
    encrypted: Any, lake: lakescan.Catalog, case: str, key_length: int
) -> None:
    name = "".join(c if c.isalnum() else "_" for c in f"{case} {key_length}")
    table = f"encrypted_lake.db.{name}"
    lakescan.sql(
        f"CREATE TABLE {table} (id bigint, k int, name string, price double) PARTITIONED BY (k) "
        f"TBLPROPERTIES ({PROPERTIES}, 'encryption.data-key-length'='{key_length}')"
    )
    rows = pa.table(
        {
            "id": pa.array(range(200)),
            "k": pa.array([i % 3 for i in range(200)], pa.int32()),
            "name": [f"n{i % 5}" for i in range(200)],
            "price": [i * 1.5 for i in range(200)],
        }
    )
    lakescan.table(table).append(rows)
    for statement in STATEMENTS[case]:
        lakescan.sql(statement.format(t=table, name=name))
    opened = lakescan.table(table)
    ours = opened.scan().to_arrow()
    folder = opened.scan().to_options()["path"]
    metadata = opened.inspect("metadata_log_entries")["file"].to_pylist()[-1]
    encrypted.sql(f"CALL enc.system.register_table(table => 'db.{name}', metadata_file => '{metadata}')")
    theirs = encrypted.table(f"enc.db.{name}").toArrow()
    assert differences(ours, theirs) == "", folder
    encrypted.sql(f"INSERT INTO enc.db.{name} VALUES (5000, 2, 'java', 0.5)")
    after = lakescan.table(location_of(encrypted, f"enc.db.{name}"), key_manager=TestKeys())
    assert after.scan().count() == ours.num_rows + 1
    assert differences(after.scan().to_arrow(), encrypted.table(f"enc.db.{name}").toArrow()) == ""


def test_files_of_java_are_encrypted_like_those_of_lakescan(encrypted: Any, lake: lakescan.Catalog) -> None:
    encrypted.sql(f"CREATE TABLE enc.db.theirs USING iceberg TBLPROPERTIES ({PROPERTIES}) AS {ROWS}")
    lakescan.sql(f"CREATE TABLE encrypted_lake.db.ours (id bigint) TBLPROPERTIES ({PROPERTIES})")
    lakescan.table("encrypted_lake.db.ours").append(pa.table({"id": [1]}))
    theirs = magics(os.path.dirname(os.path.dirname(location_of(encrypted, "enc.db.theirs"))))
    ours = lakescan.table("encrypted_lake.db.ours").inspect("metadata_log_entries")["file"].to_pylist()[-1]
    assert magics(os.path.dirname(os.path.dirname(ours))) == theirs
