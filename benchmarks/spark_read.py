"""Reading on Spark: `Scan.to_spark` against Spark's own Parquet reader on the same rows, and against both JVM readers.

Spark's Parquet reader always reads all rows, including those that the other readers drop as deleted. The JVM readers
run on PySpark 4.1, in their own process.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from examples.demo import session

import lakescan
from benchmarks.data import delta_with_vectors, for_java, six_columns, with_deletes
from benchmarks.harness import Result, compare
from benchmarks.jvm import jvm_readers

_SHARES = (0.01, 0.1)


def run(rows: int, runs: int) -> list[Result]:
    """Full scans and a two-column aggregate, Iceberg and Delta, clean and with deletes."""
    data = six_columns(rows)
    spark = session()
    with jvm_readers() as jvm:
        try:
            tables = [("iceberg", "clean", data.iceberg), ("delta", "clean", data.delta)]
            for share in _SHARES:
                for kind in ("positions", "vectors"):
                    found = with_deletes(data.iceberg, share, kind)
                    tables.append(("iceberg", f"{share:.0%} deleted by {kind}", found))
                tables.append(("delta", f"{share:.0%} deleted by vectors", delta_with_vectors(data.delta, share)))
            results = []
            for name, state, location in tables:
                java = for_java(location) if name == "iceberg" else location
                results += _against(spark, jvm, name, state, location, (data.parquet, java), runs)
            return results
        finally:
            spark.stop()


def _against(
    spark: Any,
    jvm: Callable[[str, str, str], Any],
    name: str,
    state: str,
    location: str,
    peers: tuple[str, str],
    runs: int,
) -> list[Result]:
    """One table, read whole and added up, in the native lane; clean ones in the Arrow lane, too."""
    scan, (parquet, java) = lakescan.table(location).scan(), peers
    aim = 1.1 if state == "clean" else 1.3
    results = []
    tasks = {"all": (_drain, ()), "sum": (_total, ("kind", "amount"))}
    for task, (use, columns) in tasks.items():
        asked = scan.select(*columns) if columns else scan
        ours = (f"to_spark, {name}", lambda asked=asked, use=use: use(asked.to_spark(spark)))
        title = f"{state}: {'all columns' if task == 'all' else 'sum by kind'}"
        plain = ("Spark Parquet", lambda use=use: use(spark.read.parquet(parquet)))
        results.append(compare(title, ours, plain, runs=runs, aim=aim))
        theirs = (f"Java, {name}", lambda task=task: jvm(name, java, task))
        results.append(compare(title, ours, theirs, runs=runs, aim=1.2 if name == "iceberg" else 1))
    if state == "clean":
        arrow = (f"lane=arrow, {name}", lambda: _drain(scan.options(lane="arrow").to_spark(spark)))
        results.append(compare("clean: all columns", arrow, plain_all(spark, parquet), runs=runs, aim=2.5))
    return results


def plain_all(spark: Any, parquet: str) -> tuple[str, Callable[[], None]]:
    """Spark's own reader on all columns."""
    return "Spark Parquet", lambda: _drain(spark.read.parquet(parquet))


def _drain(frame: Any) -> None:
    """Read every row and column, and throw them away."""
    frame.write.format("noop").mode("overwrite").save()


def _total(frame: Any) -> None:
    frame.groupBy("kind").sum("amount").collect()
