"""A Spark session with the reference implementations' JARs, and tables written by their SQL."""

from __future__ import annotations

import fcntl
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.session import local_session

import lakescan

from .rest_server import rest_server

ICEBERG = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0"
DELTA = "io.delta:delta-spark_4.1_2.13:4.4.0"
SQLITE = "org.xerial:sqlite-jdbc:3.50.3.0"

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)


@pytest.fixture(scope="session")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of both catalogs' tables."""
    return tmp_path_factory.mktemp("warehouse")


@pytest.fixture(scope="session")
def jvm(warehouse: Path) -> Iterator[Any]:
    """PySpark 4.1 with Iceberg's and Delta's own runtimes: the catalogs `ice` and `spark_catalog`."""
    extensions = (
        "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions,io.delta.sql.DeltaSparkSessionExtension"
    )
    settings = {
        "spark.jars.packages": f"{ICEBERG},{DELTA},{SQLITE}",
        "spark.sql.extensions": extensions,
        "spark.sql.catalog.ice": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.ice.type": "hadoop",
        "spark.sql.catalog.ice.warehouse": f"{warehouse}/ice",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.warehouse.dir": f"{warehouse}/hive",
        "spark.databricks.delta.snapshotPartitions": "1",
    }
    with open(Path(tempfile.gettempdir()) / "lakescan-jars.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two processes that download the JARs at once damage Ivy's cache
        session = local_session("lakescan interop", settings)
    session.sql("CREATE NAMESPACE IF NOT EXISTS ice.db")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def rest_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the server's database and tables."""
    return tmp_path_factory.mktemp("rest")


@pytest.fixture(scope="session")
def rest_uri(rest_folder: Path) -> Iterator[str]:
    settings = {"warehouse": f"{rest_folder}/warehouse", "jdbc.schema-version": "V1"}
    with rest_server(rest_folder, settings) as found:
        yield found


@pytest.fixture(scope="session")
def rest(rest_uri: str, jvm: Any) -> lakescan.Catalog:
    """The REST catalog, registered in lakescan and in the JVM."""
    jvm.conf.set("spark.sql.catalog.rest", "org.apache.iceberg.spark.SparkCatalog")
    jvm.conf.set("spark.sql.catalog.rest.type", "rest")
    jvm.conf.set("spark.sql.catalog.rest.uri", rest_uri)
    jvm.conf.set("spark.sql.catalog.rest.cache-enabled", "false")
    catalog = lakescan.catalog("rest", type="rest", uri=rest_uri)
    catalog.create_namespace("db")
    return catalog
