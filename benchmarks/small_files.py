"""Query 100,000 files of ten rows on Spark: find one row by its key, count all rows, add them up.

The JVM readers run on PySpark 4.1 in their own process. Sessions are warm, except for the first query of a new session,
which also opens the table. Connect is compared with the JVM readers in a classic session.
"""

from __future__ import annotations

import math
from typing import Any

from examples.demo import session

import lakescan.spark
from benchmarks.data import small_files
from benchmarks.harness import Result, as_markdown, in_own_process, side_by_side
from benchmarks.jvm import jvm_readers

FILES = 100_000
_KEY = 123_456
_TASKS = {"one row": "point", "count and sum": "total"}
_AIMS = {"count and sum": 1.0}
_IN_OWN_PROCESS = """
import json, os, resource, statistics, sys, time
path, key, kind = sys.argv[1:]
from pyspark.sql import SparkSession
import lakescan.spark
os.environ["PYSPARK_PYTHON"] = sys.executable
builder = SparkSession.builder
spark = (builder.remote("local[2]") if kind == "connect" else builder.master("local[2]")).getOrCreate()
spark.range(10).count()
lakescan.spark.register(spark)
tasks = {
    "point": lambda: lakescan.spark.table(spark, path).where(f"id = {key}").collect(),
    "total": lambda: lakescan.spark.table(spark, path).agg({"*": "count", "amount": "sum"}).collect(),
}
found = {}
for name, task in tasks.items():
    seconds = []
    for turn in range(6 if name == "point" else 3 if kind == "classic" else 1):
        started = time.perf_counter()
        task()
        seconds.append(time.perf_counter() - started)
    found[f"{name} first"] = seconds[0]
    if len(seconds) > 1:
        found[f"{name} warm"] = statistics.median(seconds[1:])
    found[f"{name} MB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print()
print(json.dumps(found))
"""


def run(rows: int, runs: int) -> str:
    """Query both formats: warm on classic and Connect, and in fresh sessions; `rows` is ignored."""
    data = small_files(FILES)
    tables = {"iceberg": data.iceberg, "delta": data.delta}
    results, java = [], {}
    spark = session()
    lakescan.spark.register(spark)
    with jvm_readers() as jvm:
        try:
            for name, path in tables.items():
                for task, what in _TASKS.items():
                    found = _warm(spark, jvm, name, path, what, runs)
                    java[name, what] = found["java"]
                    for way in ("table", "format"):
                        title = f"{task}: classic, warm"
                        result = Result(
                            title, f"{way}, {name}", found[way], f"Java, {name}", found["java"], _AIMS.get(task)
                        )
                        results.append(result)
        finally:
            spark.stop()
    memory = []
    for name, path in tables.items():
        for kind in ("classic", "connect"):
            found = in_own_process(_IN_OWN_PROCESS, path, str(_KEY), kind)
            memory.append(f"{kind}, {name}: {found['point MB']:.0f} and {found['total MB']:.0f}")
            for task, what in _TASKS.items():
                first = Result(f"{task}: {kind}, first", f"table, {name}", found[f"{what} first"], "", math.nan)
                results.append(first)
                if kind == "connect" and what == "point":
                    warm, peer = found[f"{what} warm"], java[name, what]
                    results.append(Result(f"{task}: {kind}, warm", f"table, {name}", warm, f"Java, {name}", peer))
    about = f"Peak memory of the driver's Python in MB, after one row and after all: {'; '.join(memory)}."
    return f"{as_markdown(results)}\n\n{about}"


def _warm(spark: Any, jvm: Any, name: str, path: str, what: str, runs: int) -> dict[str, float]:
    """Return the seconds of lakescan's two ways and of the JVM's, which take turns."""
    return side_by_side(
        {
            "table": lambda: _work(lakescan.spark.table(spark, path), what),
            "format": lambda: _work(spark.read.format(name).load(path), what),
            "java": lambda: jvm(name, path, what, _KEY),
        },
        runs=runs,
    )


def _work(frame: Any, what: str) -> None:
    """Read the row of the key, or count all rows and add up one column."""
    if what == "point":
        frame.where(f"id = {_KEY}").collect()
    else:
        frame.agg({"*": "count", "amount": "sum"}).collect()
