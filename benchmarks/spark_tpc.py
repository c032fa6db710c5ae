"""Run TPC-H's queries and TPC-DS's first thirty on Spark, over tables with 10% deleted rows, against Parquet files.

The Parquet files have the live rows in the same order. `sql` is `lakescan.spark.sql`. `views` are views of
`spark.read.format` that Spark's own `sql` queries. Seconds are those of a whole query, from its text to its rows.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from examples.demo import session
from samples.tpc import Layout, Tpc, tpc, write_tables

import lakescan
import lakescan.spark
from benchmarks.data import FOLDER
from benchmarks.harness import side_by_side
from benchmarks.tpch import Queries

SCALE = float(os.environ.get("TPC_SCALE", "1"))
_CATALOG = "tpcdeleted"
_KEYS = {
    "tpch": {"lineitem": "l_orderkey", "orders": "o_orderkey", "partsupp": "ps_partkey", "customer": "c_custkey"},
    "tpcds": {
        "store_sales": "ss_ticket_number",
        "store_returns": "sr_ticket_number",
        "catalog_sales": "cs_order_number",
        "catalog_returns": "cr_order_number",
        "web_sales": "ws_order_number",
        "web_returns": "wr_order_number",
        "inventory": "inv_item_sk",
        "customer": "c_customer_sk",
    },
}
_LARGE = {"lineitem": 8, "orders": 4, "store_sales": 4, "catalog_sales": 2, "inventory": 4}
_MOST = 30  # of TPC-DS's queries


def run(rows: int, runs: int) -> str:
    """Run both benchmarks, whatever `rows` is."""
    parts = []
    spark = session("4g")  # with 1 GB, Spark sometimes cannot broadcast a table, even of Parquet files
    lakescan.spark.register(spark)
    try:
        for name in _KEYS:
            data = tpc(name, SCALE)
            with _contenders(spark, data) as queries:
                parts.append(f"{name}, scale {SCALE:g}:\n\n{_measured(data, queries, runs)}")
    finally:
        spark.stop()
    return "\n\n".join(parts)


@contextmanager
def _contenders(spark: Any, data: Tpc) -> Iterator[Queries]:
    folder = FOLDER / f"{data.name}_deleted_{SCALE:g}"
    catalog = lakescan.catalog(_CATALOG, warehouse=str(folder))
    namespace = f"{data.name}_iceberg"
    keys: Mapping[str, str] = _KEYS[data.name]
    if not (folder / "done").exists():
        layouts = {name: Layout(_LARGE.get(name, 1), None, "", "deletes", key, 9) for name, key in keys.items()}
        write_tables(data, "iceberg", catalog, layouts)
        _write_parquet(data, folder)
        (folder / "done").touch()
    plain, views = spark.newSession(), spark.newSession()
    lakescan.spark.register(views)
    for name in data.tables:
        plain.read.parquet(str(folder / "parquet" / name)).createOrReplaceTempView(name)
        views.read.format("iceberg").load(f"{_CATALOG}.{namespace}.{name}").createOrReplaceTempView(name)

    def ours(text: str) -> object:
        lakescan.spark.sql(spark, f"USE {_CATALOG}.{namespace}")
        frame: Any = lakescan.spark.sql(spark, text)
        return frame.collect()

    yield {
        "sql": ours,
        "views": lambda text: views.sql(text).collect(),
        "Spark Parquet": lambda text: plain.sql(text).collect(),
    }


def _write_parquet(data: Tpc, folder: Any) -> None:
    """Write the rows as Parquet files with the tables' number of files and compression."""
    import pyarrow.parquet as pq

    for name, file in data.tables.items():
        rows, count = pq.read_table(file), _LARGE.get(name, 1)
        (folder / "parquet" / name).mkdir(parents=True)
        for n in range(count):
            start, stop = rows.num_rows * n // count, rows.num_rows * (n + 1) // count
            pq.write_table(
                rows.slice(start, stop - start),
                folder / "parquet" / name / f"part-{n}.parquet",
                compression="zstd",
                row_group_size=1_000_000,
            )


def _measured(data: Tpc, queries: Queries, runs: int) -> str:
    """Return the medians, a row per query, and the ratios of sums."""
    lines = ["| query | sql | views | Spark Parquet | sql / Parquet | views / Parquet |", "|---|---|---|---|---|---|"]
    sums = dict.fromkeys(queries, 0.0)
    for number, text in list(data.queries.items())[:_MOST]:
        found = side_by_side(
            {name: lambda each=each, text=text: each(text) for name, each in queries.items()}, runs=runs
        )
        lines.append(_row(str(number), found))
        sums = {name: sums[name] + found[name] for name in queries}
    return "\n".join([*lines, _row("all", sums)])


def _row(title: str, seconds: Mapping[str, float]) -> str:
    sql, views, plain = seconds.values()
    return f"| {title} | {sql:.2f} | {views:.2f} | {plain:.2f} | {sql / plain:.2f} | {views / plain:.2f} |"
