"""A client of Spark Connect: read, change and write tables in a session without JARs.

    python client.py [--remote local[2]] [--folder ./connect-data]

`local[2]` starts a server on this machine, which needs Java 17 or later. Give `sc://host:15002` for your own server; it
must have access to the folder, and its Python workers need lakescan.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

import lakescan
import lakescan.spark


def main(arguments: list[str] | None = None) -> None:
    """Write with and without Spark, read on Spark, change by SQL, and compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--remote", default="local[2]")
    parser.add_argument("--folder", type=Path, default=Path("connect-data"))
    given = parser.parse_args(arguments)
    spark = SparkSession.builder.remote(given.remote).getOrCreate()
    try:
        run(spark, given.folder.absolute())
    finally:
        spark.stop()


def run(spark: SparkSession, folder: Path) -> None:
    """Run all steps on a Connect session."""
    lake = lakescan.catalog("lake", warehouse=folder)
    lake.create_namespace("shop", exist_ok=True)
    lake.create_table_if_not_exists("shop.orders", "id BIGINT NOT NULL, country STRING, price DOUBLE")
    orders = lake.load_table("shop.orders")
    orders.overwrite(pa.table({"id": [1, 2, 3], "country": ["FR", "DE", "FR"], "price": [5.0, 7.5, 2.5]}))
    lakescan.spark.register(spark)  # after the catalogs are registered, so that the workers get them, too

    # A frame of one state: lakescan plans in this process, the server's Python workers read.
    frame = orders.scan().where("price > 3").to_spark(spark)
    print("read:", sorted((row["id"], row["country"]) for row in frame.collect()))

    # SQL with Spark's functions, over the files and columns that it needs.
    text = "SELECT country, sum(price) AS total FROM lake.shop.orders GROUP BY country ORDER BY country"
    print("SQL:", [tuple(row) for row in lakescan.spark.sql(spark, text).collect()])

    # Frames are written by the workers, in one commit.
    more = spark.range(10, 13).selectExpr("id", "'JP' AS country", "1.0D AS price")
    more.write.format("iceberg").mode("append").save("lake.shop.orders")
    lakescan.spark.sql(spark, "DELETE FROM lake.shop.orders WHERE id = 11")
    found = sorted(orders.refresh().to_arrow()["id"].to_pylist())
    assert found == [1, 2, 3, 10, 12], found
    print(f"check: {len(found)} rows are there, as this process reads them without Spark")


if __name__ == "__main__":
    main()
