"""The settings of jobs for the JARs: catalogs, packages, extensions, and settings of both libraries."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from lakescan.spark.drop_in import settings as module
from lakescan.spark.drop_in.run import clean_settings, clean_submit_arguments
from lakescan.spark.drop_in.settings import Meaning, meaning_of, read_jar_settings

ICEBERG = "org.apache.iceberg.spark.SparkCatalog"
RUNTIME = "org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.10.0"
POSTGRES = "org.postgresql:postgresql:42.7.3"


def properties(own: dict[str, str], others: dict[str, str] | None = None) -> dict[str, str]:
    """Return the properties of the catalog `lake` with these settings."""
    named = {f"spark.sql.catalog.lake.{name}": value for name, value in own.items()}
    return read_jar_settings({"spark.sql.catalog.lake": ICEBERG, **named, **(others or {})}).catalogs["lake"]


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        ({"type": "hadoop", "warehouse": "/wh"}, {"type": "hadoop", "warehouse": "/wh"}),
        ({"type": "HIVE", "uri": "thrift://h:9083"}, {"type": "hive", "uri": "thrift://h:9083"}),
        ({"uri": "thrift://h:9083"}, {"type": "hive", "uri": "thrift://h:9083"}),
        (
            {
                "type": "rest",
                "uri": "http://h",
                "credential": "a:b",
                "scope": "s",
                "header.X": "1",
                "oauth2-server-uri": "http://o",
            },
            {
                "type": "rest",
                "uri": "http://h",
                "credential": "a:b",
                "scope": "s",
                "header.X": "1",
                "oauth2-server-uri": "http://o",
            },
        ),
        (
            {
                "catalog-impl": "org.apache.iceberg.aws.glue.GlueCatalog",
                "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
                "client.region": "r",
            },
            {"type": "glue", "client.region": "r"},
        ),
        (
            {"catalog-impl": "org.apache.iceberg.inmemory.InMemoryCatalog", "warehouse": "/wh"},
            {"type": "in-memory", "warehouse": "/wh"},
        ),
        (
            {"type": "jdbc", "uri": "jdbc:postgresql://h:5432/db?ssl=true", "jdbc.user": "u", "jdbc.password": "p@s"},
            {"type": "sql", "uri": "postgresql+psycopg2://u:p%40s@h:5432/db?sslmode=require"},
        ),
        ({"type": "jdbc", "uri": "jdbc:sqlite:file:/tmp/c.db"}, {"type": "sql", "uri": "sqlite:////tmp/c.db"}),
        (
            {"type": "jdbc", "uri": "jdbc:mysql://u:p@h/db?useSSL=false"},
            {"type": "sql", "uri": "mysql+pymysql://u:p@h/db"},
        ),
        (
            {
                "type": "nessie",
                "uri": "http://h:19120/api/v2",
                "ref": "dev",
                "authentication.type": "BEARER",
                "authentication.token": "t",
            },
            {"type": "rest", "uri": "http://h:19120/iceberg/dev", "token": "t"},
        ),
        (
            {"type": "rest", "uri": "http://h", "rest.auth.type": "sigv4"},
            {"type": "rest", "uri": "http://h", "rest.sigv4-enabled": "true"},
        ),
        (
            {"type": "hadoop", "warehouse": "/wh", "cache-enabled": "false", "default-namespace": "db"},
            {"type": "hadoop", "warehouse": "/wh"},
        ),
        ({"catalog-impl": "com.example.Own"}, {"type": "com.example.Own"}),
        (
            {"type": "rest", "uri": "http://h", "client.assume-role.arn": "arn:x", "table-default.a": "1"},
            {"type": "rest", "uri": "http://h", "client.role-arn": "arn:x", "table-default.a": "1"},
        ),
    ],
)
def test_catalogs_of_each_type_are_understood(own: dict[str, str], expected: dict[str, str]) -> None:
    assert properties(own) == expected


def test_hadoops_settings_reach_catalogs_without_settings_of_that_store() -> None:
    hadoop = {"spark.hadoop.fs.s3a.endpoint": "http://e", "spark.hadoop.fs.s3a.fast.upload": "true"}
    found = properties({"type": "hadoop", "warehouse": "s3a://b/wh"}, hadoop)
    assert found == {"type": "hadoop", "warehouse": "s3a://b/wh", "s3.endpoint": "http://e"}
    own = {"type": "rest", "uri": "http://h", "s3.endpoint": "http://own"}
    assert properties(own, hadoop) == own
    of_catalog = {"type": "hadoop", "warehouse": "s3a://b/wh", "hadoop.fs.s3a.endpoint": "http://two"}
    assert properties(of_catalog, hadoop)["s3.endpoint"] == "http://two"


def test_a_hive_catalog_uses_the_metastore_of_hadoops_settings() -> None:
    found = properties({"type": "hive"}, {"spark.hadoop.hive.metastore.uris": "thrift://a:1,thrift://b:1"})
    assert found == {"type": "hive", "uri": "thrift://a:1,thrift://b:1"}


def test_the_default_catalog_has_its_default_namespace() -> None:
    given = {
        "spark.sql.catalog.lake": ICEBERG,
        "spark.sql.catalog.lake.type": "hadoop",
        "spark.sql.catalog.lake.default-namespace": "a.b",
        "spark.sql.defaultCatalog": "lake",
    }
    found = read_jar_settings(given)
    assert found.default_catalog == "lake\0a\0b"
    assert found.removed["spark.sql.defaultCatalog"] == "lake"
    assert read_jar_settings({**given, "spark.sql.defaultCatalog": "other"}).default_catalog is None


@pytest.mark.parametrize(
    ("implementation", "session_catalog"),
    [
        ("org.apache.spark.sql.delta.catalog.DeltaCatalog", "delta"),
        ("org.apache.iceberg.spark.SparkSessionCatalog", "iceberg"),
    ],
)
def test_sparks_own_catalog_may_have_tables_of_one_format(implementation: str, session_catalog: str) -> None:
    found = read_jar_settings({"spark.sql.catalog.spark_catalog": implementation})
    assert (found.session_catalog, found.removed) == (
        session_catalog,
        {"spark.sql.catalog.spark_catalog": implementation},
    )


def test_a_catalog_of_another_library_is_left_alone() -> None:
    found = read_jar_settings(
        {"spark.sql.catalog.pg": "org.apache.spark.sql.execution.datasources.v2.jdbc.JDBCTableCatalog"}
    )
    assert (found.catalogs, found.removed) == ({}, {})


def test_packages_and_extensions_of_the_jars_are_left_out_and_others_stay() -> None:
    given = {
        "spark.jars.packages": f"{RUNTIME},{POSTGRES},io.delta:delta-spark_2.13:4.0.0",
        "spark.jars": "/jars/iceberg-spark-runtime-4.0_2.13-1.10.0.jar,/jars/own.jar",
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.driver.extraClassPath": "/jars/delta-spark_2.13-4.0.0.jar:/etc/conf",
    }
    assert clean_settings(given) == {
        "spark.jars.packages": POSTGRES,
        "spark.jars": "/jars/own.jar",
        "spark.sql.extensions": "",
        "spark.driver.extraClassPath": "/etc/conf",
    }
    assert clean_settings({"spark.jars.packages": POSTGRES}) == {}


def test_submit_arguments_lose_the_jars_only() -> None:
    given = (
        f"--master 'local[2]' --packages {RUNTIME},{POSTGRES} --jars=/jars/delta-spark_2.13-4.0.0.jar "
        "--conf spark.sql.extensions=io.delta.sql.DeltaSparkSessionExtension "
        "--conf 'spark.app.name=my job' pyspark-shell"
    )
    cleaned = clean_submit_arguments(given)
    assert cleaned == f"--master 'local[2]' --packages {POSTGRES} --conf 'spark.app.name=my job' pyspark-shell"


def test_each_setting_has_a_meaning_or_is_named_in_the_log(caplog: pytest.LogCaptureFixture, monkeypatch: Any) -> None:
    monkeypatch.setattr(module, "_reported", set())
    assert meaning_of("spark.databricks.delta.schema.autoMerge.enabled", "true") is Meaning.APPLIED
    assert meaning_of("spark.databricks.delta.properties.defaults.enableChangeDataFeed", "true") is Meaning.APPLIED
    assert meaning_of("spark.databricks.delta.replaceWhere.dataColumns.enabled", "false") is Meaning.UNSUPPORTED
    assert meaning_of("spark.sql.shuffle.partitions", "2") is None
    given = {
        "spark.databricks.delta.snapshotPartitions": "2",
        "spark.databricks.delta.replaceWhere.constraintCheck.enabled": "false",
        "spark.sql.iceberg.check-ordering": "true",
    }
    with caplog.at_level(logging.INFO, "lakescan"):
        read_jar_settings(given)
        read_jar_settings(given)
    lines = {record.levelname: record.getMessage() for record in caplog.records}
    assert len(caplog.records) == 2
    assert "snapshotPartitions, spark.sql.iceberg.check-ordering" in lines["INFO"]
    assert "replaceWhere.constraintCheck.enabled is not supported" in lines["WARNING"]
