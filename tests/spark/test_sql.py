"""SQL on Spark: `lakescan.spark.sql`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakescan
import lakescan.spark
from lakescan.errors import InvalidStatement, NoSuchTable


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The catalog `sqlshop` with orders (Iceberg, two countries) and customers (Delta)."""
    folder = tmp_path_factory.mktemp("shop")
    lakescan.catalog("sqlshop", warehouse=str(folder)).create_namespace("db")
    lakescan.sql("CREATE TABLE sqlshop.db.orders (id BIGINT, country STRING) USING iceberg PARTITIONED BY (country)")
    lakescan.sql("CREATE TABLE sqlshop.db.customers (id BIGINT, name STRING) USING delta")
    for country in ("FR", "DE"):
        lakescan.table("sqlshop.db.orders").append(pa.table({"id": range(4), "country": [country] * 4}))
    lakescan.table("sqlshop.db.customers").append(pa.table({"id": [0, 1], "name": ["Ann", "{Bob}"]}))
    return folder


@pytest.fixture(autouse=True)
def _namespace(spark: Any) -> Any:
    yield
    spark.conf.unset("spark.lakescan.namespace")


def rows(spark: Any, text: str, args: Any = None, **frames: Any) -> list[tuple[object, ...]]:
    return sorted(map(tuple, lakescan.spark.sql(spark, text, args, **frames).collect()), key=str)


def test_spark_runs_the_text_over_narrowed_scans(spark: Any, shop: Path) -> None:
    text = """
        WITH o AS (SELECT id k, country FROM sqlshop.db.orders)
        SELECT /*+ BROADCAST(c) */ o.country, c.name, '{x}' AS braces
        FROM o LEFT JOIN sqlshop.db.customers c ON o.k = c.id
        WHERE country = 'FR' AND k < 2
    """
    assert rows(spark, text) == [("FR", "Ann", "{x}"), ("FR", "{Bob}", "{x}")]
    [(plan,)] = rows(spark, f"EXPLAIN {text}")
    assert "sqlshop.db.orders: columns id, country, where (country = 'FR' and k < 2)".replace("k <", "id <") in plan
    assert "== Physical Plan ==" in plan


def test_counts_and_ends_come_from_metadata_with_the_columns_of_spark(spark: Any, shop: Path) -> None:
    text = "SELECT count(*), min(id) low, max(country), max(id), max(id) FROM sqlshop.db.orders WHERE country = 'DE'"
    found = lakescan.spark.sql(spark, text)
    assert found.dtypes == [
        ("count(1)", "bigint"),
        ("low", "bigint"),
        ("max(country)", "string"),
        ("max(id)", "bigint"),
        ("max(id)", "bigint"),
    ]
    assert [tuple(row) for row in found.collect()] == [(4, 0, "DE", 3, 3)]
    assert "answered from metadata" in rows(spark, f"EXPLAIN {text}")[0][0]
    assert rows(spark, text.replace("'DE'", ":c"), {"c": "FR"}) == [(4, 0, "FR", 3, 3)]


def test_keys_of_a_small_side_prune_the_files_of_the_other(spark: Any, shop: Path) -> None:
    text = "SELECT o.id FROM sqlshop.db.orders o JOIN w ON o.country = w.country"
    wanted = pa.table({"country": ["DE"]})
    assert rows(spark, text, w=wanted) == [(n,) for n in range(4)]
    [(plan,)] = rows(spark, f"EXPLAIN {text}", w=wanted)
    assert "country among the 1 value of w.country" in plan
    assert "manifests                       1   (skipped 1" in plan
    frame = spark.createDataFrame([("DE",)], "country string")
    assert rows(spark, text, w=frame) == [(n,) for n in range(4)]


def test_spark_only_functions_work(spark: Any, shop: Path) -> None:
    lakescan.spark.sql(spark, "USE sqlshop.db")
    text = (
        "SELECT o.id, e FROM orders o LATERAL VIEW explode(array('{', '}')) x AS e WHERE o.id = :id AND country = 'DE'"
    )
    assert rows(spark, text, {"id": 1}) == [(1, "{"), (1, "}")]
    assert rows(spark, "SELECT orders.id FROM orders TABLESAMPLE (100 PERCENT) WHERE db.orders.id = ?", [3]) == [
        (3,),
        (3,),
    ]
    assert rows(spark, "SELECT regexp_extract(name, 'A(n)', 1) FROM customers WHERE levenshtein(name, 'Ann') = 0") == [
        ("n",)
    ]
    assert rows(spark, "SELECT count(*) FROM orders.snapshots") == [(2,)]
    assert rows(spark, "SELECT count(*) FROM customers VERSION AS OF 0") == [(0,)]


def test_frames_and_views_keep_their_names(spark: Any, shop: Path) -> None:
    spark.range(1, 3).createOrReplaceTempView("sql_ids")
    text = "SELECT v.id, f.k FROM sql_ids v JOIN {given} f ON f.k = v.id JOIN sqlshop.db.customers c ON c.id = v.id"
    assert rows(spark, text, given=spark.range(1, 9).toDF("k")) == [(1, 1)]
    assert rows(spark, "SELECT k FROM given", given=pa.table({"k": [5]})) == [(5,)]
    scan = lakescan.table("sqlshop.db.orders").scan().where("country = 'FR'")
    assert rows(spark, "SELECT count(*) FROM given", given=scan) == [(4,)]
    spark.catalog.dropTempView("sql_ids")


def test_other_statements_run_on_spark_or_create_tables(spark: Any, shop: Path) -> None:
    assert lakescan.spark.sql(spark, "SELECT 1 AS one").first()["one"] == 1
    assert lakescan.spark.sql(spark, "SHOW TABLES").columns
    made = lakescan.spark.sql(spark, "CREATE OR REPLACE TABLE sqlshop.db.made AS SELECT id FROM range(3)")
    assert made.to_arrow().num_rows == 3
    assert lakescan.spark.table(spark, "sqlshop.db.made").count() == 3


def test_a_flink_create_table_with_a_primary_key_runs_on_spark(spark: Any, shop: Path) -> None:
    text = (
        "CREATE TABLE IF NOT EXISTS sqlshop.db.sink6 (order_id INTEGER COMMENT 'unique id', order_date DATE, "
        "order_time TIMESTAMP(3), quantity INT, product_id INT, purchaser STRING, PRIMARY KEY (order_id) NOT ENFORCED) "
        "WITH ('format-version' = '2')"
    )
    lakescan.spark.sql(spark, text)
    lakescan.spark.sql(spark, "INSERT INTO sqlshop.db.sink6 (order_id, purchaser) VALUES (1, 'a')")
    assert lakescan.spark.sql(spark, text).count() == 1
    assert (
        lakescan.spark.table(spark, "sqlshop.db.sink6").schema["order_time"].dataType.simpleString() == "timestamp_ntz"
    )
    assert not lakescan.table("sqlshop.db.sink6").schema.field("order_id").nullable
    assert rows(spark, "SELECT order_id, purchaser FROM sqlshop.db.sink6") == [(1, "a")]


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("SELECT * FRM t", InvalidStatement, "line 1, column 14"),
        ("SELECT * FROM sqlshop.db.ordes", NoSuchTable, "Did you mean 'orders'"),
        ("SELECT * FROM not_there", NoSuchTable, "there is no table 'not_there'"),
    ],
)
def test_errors_show_the_place_and_the_nearest_name(
    spark: Any, shop: Path, text: str, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        lakescan.spark.sql(spark, text)
