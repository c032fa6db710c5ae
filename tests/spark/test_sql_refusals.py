"""The errors of `lakescan.spark.sql` for unsupported statements and unknown names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakescan
import lakescan.spark
from lakescan.errors import InvalidOption, NoSuchTable, UnsupportedFeature


@pytest.fixture(scope="module", autouse=True)
def _lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The catalog `refusing` with the table `db.t` of the columns amount, country and flag."""
    folder = tmp_path_factory.mktemp("lake")
    lakescan.catalog("refusing", warehouse=str(folder)).create_namespace("db")
    lakescan.sql("CREATE TABLE refusing.db.t (amount BIGINT, country STRING, flag BOOLEAN)")
    lakescan.table("refusing.db.t").append(pa.table({"amount": [1], "country": ["FR"], "flag": [True]}))
    return folder


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "INSERT INTO of_spark SELECT * FROM refusing.db.t",
            "INSERT with tables of lakescan's catalog 'refusing'.*write",
        ),
        ("DELETE FROM of_spark WHERE a IN (SELECT amount FROM `refusing`.db.t)", "DELETE .*create_view"),
        (
            "MERGE INTO of_spark o USING refusing.db.t t ON o.a = t.amount WHEN MATCHED THEN DELETE",
            "MERGE .*create_view",
        ),
        ("SHOW FUNCTIONS IN refusing.db", "SHOW with tables"),
        ("-- a comment\nSHOW TABLE EXTENDED IN refusing.db LIKE 't'", "SHOW with tables"),
        ("CACHE TABLE refusing.db.t", "CACHE .*cache"),
        ("CREATE TEMP VIEW v AS SELECT * FROM refusing.db.t", "create_view"),
        ("CREATE TABLE of_spark AS SELECT * FROM refusing.db.t", "saveAsTable"),
        ("CREATE TABLE IF NOT EXISTS refusing.db.x (a INTERVAL DAY)", "column of an interval type"),
        ("ALTER TABLE refusing.db.t ADD PARTITION (country = 'FR')", "single partitions"),
        ("ANALYZE TABLE refusing.db.t COMPUTE STATISTICS", "ANALYZE with tables"),
    ],
)
def test_statements_that_spark_would_look_up_in_its_own_catalogs_are_refused_by_name(
    spark: Any, text: str, message: str
) -> None:
    with pytest.raises(UnsupportedFeature, match=message):
        lakescan.spark.sql(spark, text)


def test_texts_that_look_like_names_are_not_names(spark: Any) -> None:
    assert lakescan.spark.sql(spark, "SET refusing_key = 'refusing.db.t'").first()["value"] == "'refusing.db.t'"
    assert lakescan.spark.sql(spark, "SET refusing.db.t = 1").first()["value"] == "1"
    spark.conf.unset("refusing_key")
    spark.conf.unset("refusing.db.t")


def test_a_catalog_that_spark_has_is_left_to_it(spark: Any) -> None:
    spark.conf.set("spark.sql.catalog.refusing", "no.such.Catalog")
    try:
        with pytest.raises(Exception, match="CATALOG"):
            lakescan.spark.sql(spark, "INSERT INTO refusing.db.t SELECT 1")
    finally:
        spark.conf.unset("spark.sql.catalog.refusing")


def test_an_unknown_catalog_is_reported(spark: Any) -> None:
    with pytest.raises(NoSuchTable, match=r"there is no table 'refusin.db.t'.*Did you mean 'refusing"):
        lakescan.spark.sql(spark, "SELECT * FROM refusin.db.t")


def test_all_columns_are_suggested_not_only_those_that_are_read(spark: Any) -> None:
    with pytest.raises(Exception, match=r"Did you mean.*`amount`"):
        lakescan.spark.sql(spark, "SELECT amonut FROM refusing.db.t").collect()


def test_none_is_not_accepted_as_a_frame(spark: Any) -> None:
    with pytest.raises(InvalidOption, match="w=None holds no rows"):
        lakescan.spark.sql(spark, "SELECT * FROM w", w=None)
