"""A Hive metastore for tests, from PySpark's JARs, over an embedded Derby database."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyspark
import pytest

import lakescan
from lakescan.catalogs.registry import connection

_SETTINGS = {
    "derby.stream.error.file": "{folder}/derby.log",
    "datanucleus.schema.autoCreateAll": "true",
    "datanucleus.connectionPoolingType": "none",
    "hive.metastore.schema.verification": "false",
    "hive.metastore.warehouse.dir": "file://{folder}/hive",
    "hive.async.log.enabled": "false",
    "java.io.tmpdir": "{folder}",
}


@contextmanager
def hive_server(jvm: Any, folder: Path) -> Iterator[str]:
    """Start a metastore and yield its URI. A JVM with Hive's classes first makes the tables of its locks."""
    java = shutil.which("java")
    if java is None:
        pytest.skip("no java on the path to run a Hive metastore")
    url = f"jdbc:derby:;databaseName={folder}/metastore;create=true"
    _make_lock_tables(jvm, url)
    with socket.socket() as some:
        some.bind(("127.0.0.1", 0))
        port = some.getsockname()[1]
    settings = [f"-D{name}={value.format(folder=folder)}" for name, value in _SETTINGS.items()]
    jars = f"{Path(pyspark.__file__).parent}/jars/*"
    command = [java, "-cp", jars, f"-Djavax.jdo.option.ConnectionURL={url}", *settings]
    with (folder / "hive.out").open("w") as out:
        process = subprocess.Popen(
            [*command, "org.apache.hadoop.hive.metastore.HiveMetaStore", "-p", str(port)], stdout=out, stderr=out
        )
    try:
        _wait(port, process, folder / "hive.out")
        yield f"thrift://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(30)


def _make_lock_tables(jvm: Any, url: str) -> None:
    conf = jvm.org.apache.hadoop.hive.conf.HiveConf()
    conf.set("javax.jdo.option.ConnectionURL", url)
    jvm.org.apache.hadoop.hive.metastore.txn.TxnDbUtil.prepDb(conf)
    closed = "jdbc:derby:;shutdown=true"  # Derby always answers this with an error
    with pytest.raises(Exception, match="Derby system shutdown"):
        jvm.java.sql.DriverManager.getConnection(closed)


def _wait(port: int, process: subprocess.Popen[bytes], out: Path) -> None:
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline and process.poll() is None:
        with socket.socket() as some:
            some.settimeout(1)
            if some.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.3)
    raise RuntimeError(f"the metastore did not start: {out.read_text()[-2000:]}")


@contextmanager
def hive_catalog(uri: str, folder: Path) -> Iterator[lakescan.Catalog]:
    """The catalog `hive` of a metastore, with the database `db` in the folder; new databases are dropped afterwards."""
    found = lakescan.catalog("hive", type="hive", uri=uri, warehouse=f"file://{folder}")
    before = set(found.list_namespaces())
    found.create_namespace("db", properties={"location": f"file://{folder}/db"})
    try:
        yield found
    finally:
        with client(found) as metastore:
            for database in set(metastore.get_all_databases()) - before:
                metastore.drop_database(database, deleteData=False, cascade=True)


def client(catalog: lakescan.Catalog) -> Any:
    """Connect to the metastore of a catalog, in a `with` block."""
    opened: Any = connection(catalog.name)
    return opened._client


def entry(catalog: lakescan.Catalog, name: str) -> Any:
    """Return the metastore's entry of a table, as a Thrift object."""
    with client(catalog) as metastore:
        return metastore.get_table(*name.split("."))


def put_entry(
    catalog: lakescan.Catalog,
    name: str,
    parameters: dict[str, str],
    *,
    location: str | None = None,
    path: str | None = None,
    kind: str = "EXTERNAL_TABLE",
) -> None:
    """Register a table or view as another engine does, with a column and an owner."""
    from hive_metastore.ttypes import FieldSchema, SerDeInfo, StorageDescriptor, Table

    folder = "org.apache.hadoop.hive.ql.io.parquet"
    serde = SerDeInfo(
        serializationLib=f"{folder}.serde.ParquetHiveSerDe", parameters={} if path is None else {"path": path}
    )
    storage = StorageDescriptor(
        cols=[FieldSchema("id", "bigint", "the key")],
        location=location,
        inputFormat=f"{folder}.MapredParquetInputFormat",
        outputFormat=f"{folder}.MapredParquetOutputFormat",
        serdeInfo=serde,
    )
    database, table = name.split(".")
    external = {"EXTERNAL": "TRUE"} if kind == "EXTERNAL_TABLE" else {}
    query = "SELECT 1 AS id" if kind == "VIRTUAL_VIEW" else None
    with client(catalog) as metastore:
        metastore.create_table(
            Table(
                dbName=database,
                tableName=table,
                owner="ann",
                sd=storage,
                partitionKeys=[],
                parameters={**parameters, **external},
                tableType=kind,
                viewOriginalText=query,
                viewExpandedText=query,
            )
        )
