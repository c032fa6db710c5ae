"""The life cycle of an Iceberg table without JARs: create, stream into, query, correct, time travel, maintain.

Run with `make demo`, or `python -m examples.pipeline [--rows N] [--output FOLDER]`.
"""

from __future__ import annotations

import argparse
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
from rich.console import Console
from samples.shop import make_shop

import lakescan
import lakescan.spark
from examples.demo import session

console = Console()
BATCHES = 6
CREATE = """
    CREATE TABLE local.shop.orders (
        order_id BIGINT NOT NULL COMMENT 'from the shop',
        customer_id BIGINT,
        ordered_at TIMESTAMP_NTZ,
        price DOUBLE,
        quantity INT,
        PRIMARY KEY (order_id) NOT ENFORCED
    ) USING iceberg
    PARTITIONED BY (months(ordered_at))
    TBLPROPERTIES ('write.parquet.compression-codec' = 'zstd')
"""
COLUMNS = "order_id, customer_id, ordered_at, price, quantity"
NAME = "local.shop.orders"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--output", type=Path, default=Path("demo-output/pipeline"))
    arguments = parser.parse_args()
    output = arguments.output.absolute()
    shutil.rmtree(output, ignore_errors=True)
    source = make_shop(output / "source", arguments.rows).orders

    catalog = lakescan.catalog("local", warehouse=output / "lake")
    catalog.create_namespace("shop")
    lakescan.sql(None, CREATE)
    say("created", f"{NAME}, partitioned by {catalog.load_table('shop.orders').partitioning}")
    spark = session()
    try:
        lakescan.spark.register(spark)
        live(spark, source, output)
    finally:
        spark.stop()


def live(spark: Any, source: str, output: Path) -> None:
    """Run all steps after the creation of the table; each one is checked."""
    expected = lakescan.table(source).scan().count()
    files = lakescan.table(source).scan().plan().files.num_rows
    stream = spark.readStream.format("lakescan").option("maxFilesPerTrigger", max(1, files // BATCHES)).load(source)
    writer = stream.selectExpr(*COLUMNS.split(", ")).writeStream.format("iceberg")
    writer = writer.option("checkpointLocation", str(output / "checkpoint"))
    for _ in range(2):  # the second run has nothing left to read
        writer.trigger(availableNow=True).start(NAME).awaitTermination()
    orders = lakescan.table(NAME)
    check(orders.scan().count() == expected, "the table has each row of the source once")
    say("streamed in", f"{expected:,} rows in {orders.history().num_rows} micro-batches")

    revenue = total(spark)
    say("queried", f"revenue {revenue:,.2f}, computed on Spark")

    before = orders.history()["snapshot_id"].to_pylist()[-1]
    march = orders.scan().where("ordered_at >= '2026-03-01' and ordered_at < '2026-04-01'").to_arrow()
    cheaper = march.set_column(march.schema.get_field_index("price"), "price", pa.compute.multiply(march["price"], 0.5))
    saved = orders.overwrite(cheaper, where="ordered_at >= '2026-03-01' and ordered_at < '2026-04-01'")
    say("corrected", f"{saved.rows:,} rows of March, replacing {saved.removed_files} files")
    check(total(spark) < revenue, "the revenue is lower now")
    check(abs(total(spark, versionAsOf=before) - revenue) < 0.01, "time travel still returns the revenue from before")
    changed = lakescan.table(NAME).changes(before, identity=["order_id"]).to_arrow()
    say("changelog", f"{changed.num_rows:,} rows, before and after their update")

    revenue, count = total(spark), lakescan.table(NAME).scan().plan().files.num_rows
    compacted = lakescan.table(NAME).compact()
    expired = lakescan.table(NAME).expire_snapshots(datetime.now(UTC) + timedelta(seconds=1))
    orphans = lakescan.table(NAME).remove_orphans(datetime.now(UTC) + timedelta(seconds=1), dry_run=True)
    say(
        "maintained",
        f"{count} files: {compacted}; {expired}; {len(orphans)} orphan files",
    )
    check(abs(total(spark) - revenue) < 0.01, "the rows are unchanged")


def total(spark: Any, **options: Any) -> float:
    """Compute the revenue on Spark."""
    frame = spark.read.format("iceberg").options(**options).load(NAME)
    return float(frame.selectExpr("sum(price * quantity) AS revenue").first()["revenue"])


def check(holds: bool, what: str) -> None:
    """Exit if a check fails."""
    if not holds:
        raise SystemExit(f"check failed: {what}")
    console.print(f"  [green]checked[/green] {what}")


def say(step: str, what: str) -> None:
    """Report a finished step."""
    console.print(f"[bold]{step:>14}[/bold]  {what}")


if __name__ == "__main__":
    main()
