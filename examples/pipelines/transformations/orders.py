"""Copy orders from one lakescan table to another through a sink, each once; a materialized view counts them.

`LAKESCAN_PIPELINE` is the folder of the tables `orders` and `copied`, which must exist before the first run.
"""

from __future__ import annotations

import os

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

import lakescan.spark

FOLDER = os.environ["LAKESCAN_PIPELINE"]
spark = SparkSession.active()
lakescan.spark.register(spark, names=("lakescan",))


@dp.materialized_view
def orders_by_country() -> DataFrame:
    """A table in Spark's own catalog, recomputed by each run."""
    return spark.read.format("lakescan").load(f"{FOLDER}/orders").groupBy("country").count()


dp.create_sink("copied", "lakescan", {"path": f"{FOLDER}/copied"})


@dp.append_flow(target="copied", name="copy_orders")
def copy_orders() -> DataFrame:
    """The new commits since the last run."""
    return spark.readStream.format("lakescan").load(f"{FOLDER}/orders").where("quantity > 0")
