"""Enabled sessions read and write lakescan's tables by Spark's own methods. All others are as without lakescan."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import lakescan.spark

pytestmark = pytest.mark.slow

ICEBERG = "org.apache.iceberg.spark.SparkCatalog"


@pytest.fixture
def session(spark: Any) -> Iterator[Any]:
    """Another session of the same Spark, which a test enables."""
    found = spark.newSession()
    yield found
    lakescan.spark.disable(found)


@pytest.fixture
def base(spark: Any) -> Iterator[Any]:
    """The first session, which `getOrCreate` returns, enabled."""
    lakescan.spark.enable(spark)
    yield spark
    lakescan.spark.disable(spark)


def methods() -> dict[tuple[type, str], Any]:
    """All attributes of PySpark's classes whose methods may be intercepted."""
    from pyspark.sql import DataFrame, DataFrameReader, DataFrameWriter, SparkSession
    from pyspark.sql.catalog import Catalog
    from pyspark.sql.classic import dataframe
    from pyspark.sql.conf import RuntimeConfig
    from pyspark.sql.streaming import DataStreamReader, DataStreamWriter

    classes = (
        *(DataFrame, dataframe.DataFrame, DataFrameReader, DataFrameWriter, DataStreamReader, DataStreamWriter),
        *(Catalog, RuntimeConfig, SparkSession, SparkSession.Builder),
    )
    return {(owner, name): value for owner in classes for name, value in vars(owner).items()}


def configure(spark: Any, name: str, warehouse: Path) -> None:
    """Set the settings of an Iceberg catalog as jobs for the JARs do."""
    spark.conf.set(f"spark.sql.catalog.{name}", ICEBERG)
    spark.conf.set(f"spark.sql.catalog.{name}.type", "hadoop")
    spark.conf.set(f"spark.sql.catalog.{name}.warehouse", str(warehouse))


def fill(spark: Any, name: str, rows: int) -> None:
    """Create a table with the numbers below `rows`."""
    spark.range(rows).writeTo(name).create()


def test_sql_of_an_enabled_session_reaches_its_catalogs(session: Any, tmp_path: Path) -> None:
    configure(session, "lake", tmp_path)
    lakescan.spark.enable(session)
    session.sql("CREATE TABLE lake.db.numbers (n BIGINT)")
    session.sql("INSERT INTO lake.db.numbers VALUES (1), (2)")
    assert session.table("lake.db.numbers").count() == 2


def test_enable_returns_the_catalogs_with_their_warehouses(session: Any, tmp_path: Path) -> None:
    configure(session, "lake", tmp_path)
    session.conf.set("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
    found = lakescan.spark.enable(session)
    assert found.catalogs == {"lake": str(tmp_path)}
    assert found.session_catalog == "delta"


def test_a_session_is_enabled_once_and_disabled_once(session: Any, tmp_path: Path) -> None:
    configure(session, "lake", tmp_path)
    assert lakescan.spark.enable(session) == lakescan.spark.enable(session)
    fill(session, "lake.db.t", 3)
    lakescan.spark.disable(session)
    lakescan.spark.disable(session)
    with pytest.raises(Exception, match="lake"):
        session.table("lake.db.t").count()
    lakescan.spark.enable(session)
    assert session.table("lake.db.t").count() == 3


def test_after_the_last_disable_every_method_of_pyspark_is_the_original(spark: Any, tmp_path: Path) -> None:
    sessions = [spark.newSession() for _ in range(2)]
    before = methods()
    for each in sessions:
        lakescan.spark.enable(each)
        lakescan.spark.enable(each)
    assert methods() != before
    lakescan.spark.disable(sessions[0])
    configure(sessions[1], "lake", tmp_path)
    fill(sessions[1], "lake.db.t", 1)  # still enabled
    lakescan.spark.disable(sessions[1])
    after = methods()
    assert after.keys() == before.keys()
    assert all(after[key] is value for key, value in before.items())


def test_disable_restores_the_settings(session: Any, tmp_path: Path) -> None:
    configure(session, "lake", tmp_path)
    session.conf.set("spark.sql.defaultCatalog", "lake")
    before = dict(session.conf.getAll)
    lakescan.spark.enable(session)
    session.sql("CREATE NAMESPACE lake.db")
    session.sql("USE lake.db")
    lakescan.spark.disable(session)
    after = dict(session.conf.getAll)
    assert {name: after.get(name) for name in before} == before
    assert not [name for name in after if name.startswith("spark.lakescan.") and name not in before]


def test_settings_of_catalogs_are_still_returned(session: Any, tmp_path: Path) -> None:
    configure(session, "lake", tmp_path)
    lakescan.spark.enable(session)
    assert session.conf.get("spark.sql.catalog.lake") == ICEBERG
    assert session.conf.get("spark.sql.catalog.lake.warehouse") == str(tmp_path)
    assert session.conf.get("spark.sql.catalog.other", "none") == "none"
    with pytest.raises(Exception, match=r"spark\.sql\.catalog\.other"):
        session.conf.get("spark.sql.catalog.other")


@pytest.mark.parametrize("way", ["conf", "sql", "builder"])
def test_a_catalog_that_is_configured_later_is_found_by_its_first_use(base: Any, tmp_path: Path, way: str) -> None:
    name = f"late_{way}"
    settings = {"": ICEBERG, ".type": "hadoop", ".warehouse": str(tmp_path)}
    if way == "builder":
        builder = type(base).builder
        for key, value in settings.items():
            builder = builder.config(f"spark.sql.catalog.{name}{key}", value)
        assert builder.getOrCreate() is base
    for key, value in settings.items():
        if way == "conf":
            base.conf.set(f"spark.sql.catalog.{name}{key}", value)
        elif way == "sql":
            base.sql(f"SET spark.sql.catalog.{name}{key}={value}")
    fill(base, f"{name}.db.t", 2)
    assert base.sql(f"SELECT count(*) FROM {name}.db.t").first()[0] == 2
    base.conf.unset(f"spark.sql.catalog.{name}")
    with pytest.raises(Exception, match=name):
        base.table(f"{name}.db.t").count()
    for key in settings:
        base.conf.unset(f"spark.sql.catalog.{name}{key}")


def test_the_default_catalog_is_followed_until_use_names_another(session: Any, tmp_path: Path) -> None:
    configure(session, "lake", tmp_path)
    lakescan.spark.enable(session)
    fill(session, "lake.db.t", 2)
    session.conf.set("spark.sql.defaultCatalog", "lake")
    assert session.table("db.t").count() == 2
    session.sql("USE spark_catalog.default")
    with pytest.raises(Exception, match="TABLE_OR_VIEW_NOT_FOUND"):
        session.table("db.t").count()


def test_a_new_session_is_enabled_with_its_own_settings(session: Any, tmp_path: Path) -> None:
    configure(session, "lake", tmp_path)
    lakescan.spark.enable(session)
    fill(session, "lake.db.t", 2)
    other = session.newSession()
    session.range(3).write.format("delta").save(f"{tmp_path}/delta")
    assert other.read.format("delta").load(f"{tmp_path}/delta").count() == 3
    with pytest.raises(Exception, match="lake"):  # settings of a session are not those of a new one
        other.table("lake.db.t").count()
    configure(other, "lake", tmp_path)
    assert other.table("lake.db.t").count() == 2
    lakescan.spark.disable(other)
    assert session.table("lake.db.t").count() == 2


def test_sessions_have_different_catalogs_of_the_same_name(spark: Any, tmp_path: Path) -> None:
    sessions = [spark.newSession() for _ in range(2)]
    for n, each in enumerate(sessions):
        configure(each, "lake", tmp_path / str(n))
        lakescan.spark.enable(each)
        fill(each, "lake.db.t", n + 1)
    wrong: list[Any] = []

    def work(n: int) -> None:
        for i in range(4):
            sessions[n].sql(f"INSERT INTO lake.db.t VALUES ({i})")
            found = sessions[n].table("lake.db.t").count()
            if found != n + 1 + i + 1:
                wrong.append((n, i, found))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(2)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert wrong == []
    for each in sessions:
        lakescan.spark.disable(each)


def test_a_session_that_is_not_enabled_goes_sparks_own_way(spark: Any, session: Any, tmp_path: Path) -> None:
    lakescan.spark.enable(session)
    other = spark.newSession()
    lakescan.spark.disable(other)
    with pytest.raises(Exception, match=r"UNSUPPORTED_DATASOURCE_FOR_DIRECT_QUERY|TABLE_OR_VIEW_NOT_FOUND"):
        other.table("delta.`/nowhere`").count()
    lakescan.spark.disable(other)


def test_tables_of_spark_have_the_same_plans_and_errors(spark: Any, session: Any, tmp_path: Path) -> None:
    spark.range(3).write.parquet(f"{tmp_path}/p")

    def of(each: Any) -> list[str]:
        found = []
        each.read.parquet(f"{tmp_path}/p").createOrReplaceTempView("p")
        for make in (
            lambda: each.sql("SELECT id + 1 AS n FROM p WHERE id > 0"),
            lambda: each.read.format("parquet").option("mergeSchema", "true").load(f"{tmp_path}/p"),
            lambda: each.table("p"),
        ):
            found.append(make()._jdf.queryExecution().analyzed().toString().split("#")[0])
        for fail in (
            lambda: each.sql("SELECT nope FROM p"),
            lambda: each.sql("SELEC 1"),
            lambda: each.table("no_such_table"),
            lambda: each.read.format("no_such_format").load("x"),
            lambda: each.range(1).write.mode("nope").save(f"{tmp_path}/q"),
            lambda: each.sql(7),
        ):
            with pytest.raises(Exception) as caught:
                fail()
            said = f"{type(caught.value)} {caught.value}".splitlines()[0]
            found.append(re.sub(r"\bo\d+\.", "", said))  # the number of an object in the JVM
        return found

    before = of(session)
    lakescan.spark.enable(session)
    assert of(session) == before
