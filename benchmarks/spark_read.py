"""Reading on Spark: `Scan.to_spark` against Spark's own Parquet reader on the same rows."""

from __future__ import annotations

from typing import Any

from examples.demo import session

import lakescan
from benchmarks.data import six_columns, with_vectors
from benchmarks.harness import Result, compare


def run(rows: int, runs: int) -> list[Result]:
    """Full scans and a two-column aggregate, Iceberg and Delta."""
    data = six_columns(rows)
    spark = session()
    try:
        found = []
        for name, location in (("Iceberg", data.iceberg), ("Delta", data.delta)):
            scan = lakescan.table(location).scan()
            full = (f"to_spark, {name}", lambda scan=scan: _drain(scan.to_spark(spark)))
            plain = ("Spark Parquet", lambda: _drain(spark.read.parquet(data.parquet)))
            found.append(compare(f"{rows // 1_000_000}M rows x 6, all", full, plain, runs=runs, aim=1.1))
            arrow = (f"lane=arrow, {name}", lambda scan=scan: _drain(scan.options(lane="arrow").to_spark(spark)))
            found.append(compare(f"{rows // 1_000_000}M rows x 6, all", arrow, plain, runs=runs, aim=2.5))
            narrow = scan.select("kind", "amount")
            total = (f"to_spark, {name}", lambda narrow=narrow: _total(narrow.to_spark(spark)))
            plain = ("Spark Parquet", lambda: _total(spark.read.parquet(data.parquet)))
            found.append(compare("sum by kind, 2 columns", total, plain, runs=runs, aim=1.1))
        for share in (0.01, 0.1):
            scan = lakescan.table(with_vectors(data.iceberg, share)).scan()
            task = f"{share:.0%} deleted by vectors"
            full = ("to_spark, Iceberg", lambda scan=scan: _drain(scan.to_spark(spark)))
            plain = ("Spark Parquet, nothing deleted", lambda: _drain(spark.read.parquet(data.parquet)))
            found.append(compare(f"{task}, all", full, plain, runs=runs, aim=1.3))
            narrow = scan.select("kind", "amount")
            total = ("to_spark, Iceberg", lambda narrow=narrow: _total(narrow.to_spark(spark)))
            plain = ("Spark Parquet, nothing deleted", lambda: _total(spark.read.parquet(data.parquet)))
            found.append(compare(f"{task}, sum by kind", total, plain, runs=runs, aim=1.3))
        return found
    finally:
        spark.stop()


def _drain(frame: Any) -> None:
    """Read every row and column, and throw them away."""
    frame.write.format("noop").mode("overwrite").save()


def _total(frame: Any) -> None:
    frame.groupBy("kind").sum("amount").collect()
