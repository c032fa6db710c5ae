"""Read on Spark, against Spark's own Parquet reader on the same rows, and against both JVM readers.

The tasks are all rows, a sum of one column by another, and one row by its key. `table` is `lakescan.spark.table`, and
`format` is `spark.read.format`. Spark's Parquet reader always reads all rows, also those that the other readers drop as
deleted. The JVM readers run on PySpark 4.1 in their own process.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from examples.demo import session

import lakescan.spark
from benchmarks.data import delta_with_vectors, for_java, six_columns, with_deletes
from benchmarks.harness import Result, side_by_side
from benchmarks.jvm import jvm_readers

_TASKS = {"all columns": "all", "sum by kind": "sum", "one row": "point"}
_AIMS = {
    ("all columns", "clean"): (0.95, None),
    ("all columns", "deleted"): (1.1, None),
    ("sum by kind", "clean"): (0.8, None),
    ("sum by kind", "deleted"): (1.15, None),
    ("one row", "clean"): (None, 1.0),
    ("one row", "deleted"): (None, 1.0),
}


def run(rows: int, runs: int) -> list[Result]:
    """Read Iceberg and Delta, clean and with 10% of the rows deleted."""
    data = six_columns(rows)
    tables = [("iceberg", "clean", data.iceberg), ("delta", "clean", data.delta)]
    for kind in ("positions", "vectors"):
        tables.append(("iceberg", f"10% deleted by {kind}", with_deletes(data.iceberg, 0.1, kind)))
    tables.append(("delta", "10% deleted by vectors", delta_with_vectors(data.delta, 0.1)))
    spark = session()
    lakescan.spark.register(spark)
    with jvm_readers() as jvm:
        try:
            return [
                result
                for name, state, location in tables
                for result in _against(spark, jvm, name, state, location, data.parquet, rows, runs)
            ]
        finally:
            spark.stop()


def _against(
    spark: Any,
    jvm: Callable[..., Any],
    name: str,
    state: str,
    location: str,
    parquet: str,
    rows: int,
    runs: int,
) -> list[Result]:
    """Run the tasks on one table: lakescan's two ways and both peers take turns."""
    java = for_java(location) if name == "iceberg" else location
    key = rows * 5 // 8 + 12_345
    results = []
    for task, what in _TASKS.items():

        def read(frame: Any, what: str = what) -> None:
            work(frame, what, key)

        seconds = side_by_side(
            {
                "table": lambda read=read: read(lakescan.spark.table(spark, location)),
                "format": lambda read=read: read(spark.read.format(name).load(location)),
                "Spark Parquet": lambda read=read: read(spark.read.parquet(parquet)),
                f"Java, {name}": lambda what=what: jvm(name, java, what, key),
            },
            runs=runs,
        )
        to_parquet, to_java = _AIMS[task, state.split()[0] if state == "clean" else "deleted"]
        for way in ("table", "format"):
            for peer, aim in (("Spark Parquet", to_parquet), (f"Java, {name}", to_java)):
                title = f"{state}: {task}"
                results.append(Result(title, f"{way}, {name}", seconds[way], peer, seconds[peer], aim))
    return results


def work(frame: Any, what: str, key: int) -> None:
    """Read and discard `all` rows and columns, compute a `sum` of one column by another, or read the row of a key."""
    if what == "all":
        frame.write.format("noop").mode("overwrite").save()
    elif what == "sum":
        frame.groupBy("kind").sum("amount").collect()
    else:
        frame.where(f"id = {key}").collect()
