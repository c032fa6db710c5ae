"""Join an Iceberg and a Delta table on Spark, check the result with DuckDB, and draw the scan plans.

Run with `make demo`, or `python -m examples.demo [--rows N] [--output FOLDER]`.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table as Grid
from samples.shop import Shop, make_shop

import lakescan
from lakescan.api.scan import Scan
from lakescan.planning.explain import plan_for_terminal, write_html

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

console = Console()
SINCE = "ordered_at >= '2026-03-01' and ordered_at < '2026-05-15' and price > 20"
EUROPE = "country in ('FR', 'DE')"
QUERY = """
    select c.country, c.segment, count(*) as orders, sum(o.quantity) as items,
           round(sum(o.quantity * o.price), 2) as revenue
    from orders o join customers c on o.customer_id = c.customer_id
    where o.{since} and c.{europe}
    group by c.country, c.segment order by c.country, c.segment
""".replace("{since}", SINCE.replace(" and ", " and o.")).replace("{europe}", EUROPE)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--output", type=Path, default=Path("demo-output"))
    arguments = parser.parse_args()
    output = arguments.output.absolute()
    shutil.rmtree(output, ignore_errors=True)

    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(24), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        step = progress.add_task(f"creating two tables of {arguments.rows:,} rows", total=4)
        shop = make_shop(output / "tables", arguments.rows)
        progress.update(step, advance=1, description="planning both scans")
        orders = lakescan.table(shop.orders).scan().where(SINCE)
        customers = lakescan.table(shop.customers).scan().where(EUROPE).select("customer_id", "country", "segment")
        plans = [orders.plan(), customers.plan()]
        progress.update(step, advance=1, description="joining and aggregating on Spark")
        answer = run_on_spark(orders, customers)
        progress.update(step, advance=1, description="checking the result with DuckDB")
        expected = run_on_duckdb(shop)
        progress.update(step, advance=1, description="done")

    for plan in plans:
        console.print(plan_for_terminal(plan))
    show(answer)
    report = write_html(plans, output / "report.html", "lakescan demo: orders and customers")
    console.print(f"The plans are drawn in {report}")
    if not agree(answer, expected):
        console.print("[red]The result differs from DuckDB's result on the plain data:[/red]")
        show(expected)
        sys.exit(1)
    console.print("[green]DuckDB computes the same result from the plain data.[/green]")


def run_on_spark(orders: Scan, customers: Scan) -> pa.Table:
    """Run the query on Spark, which reads both tables through lakescan."""
    spark = session()
    try:
        orders.to_spark(spark).createOrReplaceTempView("orders")
        customers.to_spark(spark).createOrReplaceTempView("customers")
        return spark.sql(QUERY).toArrow()
    finally:
        spark.stop()


def session(memory: str = "1g") -> SparkSession:
    """Start a local session with little log output; `memory` is the JVM's memory if this process starts it."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").appName("lakescan demo")
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.driver.memory": memory,
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.session.timeZone": "UTC",
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def run_on_duckdb(shop: Shop) -> pa.Table:
    """Run the same query on plain Parquet files with the expected rows of both tables."""
    connection = duckdb.connect()
    connection.sql(f"create view orders as from '{shop.expected_orders}'")
    connection.sql(f"create view customers as from '{shop.expected_customers}'")
    return connection.sql(QUERY).to_arrow_table()


def agree(answer: pa.Table, expected: pa.Table) -> bool:
    """Return whether both results have the same rows; sums of floats may differ in the last digits."""
    ours, theirs = answer.to_pylist(), expected.to_pylist()
    return len(ours) == len(theirs) and all(
        {k: v for k, v in a.items() if k != "revenue"} == {k: v for k, v in b.items() if k != "revenue"}
        and abs(a["revenue"] - b["revenue"]) < 0.02
        for a, b in zip(ours, theirs, strict=True)
    )


def show(table: pa.Table) -> None:
    """Print a small table."""
    grid = Grid(header_style="bold")
    for name in table.column_names:
        grid.add_column(name, justify="left" if name in ("country", "segment") else "right")
    for row in table.to_pylist():
        grid.add_row(*(f"{v:,}" if isinstance(v, int | float) else str(v) for v in row.values()))
    console.print(grid)


if __name__ == "__main__":
    main()
