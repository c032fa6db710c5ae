"""Run TPC-H's 22 queries: SQL on Spark against Parquet and the JVM readers, SQL in process against other engines.

All engines read files with the same rows in the same order. Seconds are those of a whole query, planning included.
Polars runs the queries that its SQL supports, and a dash is a refused query. The ratio of geometric means is over the
queries that both run.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from examples.demo import session
from samples.tpc import Layout, Tpc, tpc, write_tables

import lakescan
import lakescan.spark
from benchmarks.data import FOLDER
from benchmarks.harness import side_by_side
from benchmarks.jvm import PYTHON, jvm
from lakescan.errors import QueryFailed, UnsupportedFeature

SCALE = float(os.environ.get("TPCH_SCALE", "1"))
_CATALOG = "tpchbench"
_LAYOUTS = {"lineitem": Layout(8), "orders": Layout(4), "partsupp": Layout(2)}
_FORMATS = ("iceberg", "delta")

Queries = dict[str, Callable[[str], object]]


def run(rows: int, runs: int) -> str:
    """Return two tables of seconds, by query: on Spark, and in one process."""
    data = tpc("tpch", SCALE)
    folder = FOLDER / f"tpch_{SCALE:g}"
    catalog = lakescan.catalog(_CATALOG, warehouse=str(folder))
    for name in _FORMATS:
        if not (folder / f"{name}.done").exists():
            write_tables(data, name, catalog, _LAYOUTS)
            (folder / f"{name}.done").touch()
    files = {name: sorted(map(str, (folder / "tpch_delta" / name).glob("*.parquet"))) for name in data.tables}
    parts = []
    for title, contenders in (("On Spark", _on_spark), ("In process", _in_process)):
        with contenders(files, folder) as queries:
            parts.append(f"{title}, scale {SCALE:g}:\n\n{_measured(data, queries, runs)}")
    return "\n\n".join(parts)


@contextmanager
def _on_spark(files: Mapping[str, list[str]], folder: Path) -> Iterator[Queries]:
    spark = session()
    plain = spark.newSession()
    for name, paths in files.items():
        plain.read.parquet(*paths).createOrReplaceTempView(name)
    queries: Queries = {}
    for each in _FORMATS:
        queries[f"lakescan, {each}"] = lambda text, each=each: _with_spark(spark, each, text)
    queries["Spark Parquet"] = lambda text: plain.sql(text).collect()
    with ExitStack() as stack:
        stack.callback(spark.stop)
        if PYTHON.exists():
            ask = stack.enter_context(jvm())
            for each in _FORMATS:
                places = {name: _for_jvm(each, name, folder) for name in files}
                queries[f"Java, {each}"] = lambda text, each=each, places=places: ask(
                    {"sql": text, "format": each, "views": places}
                )
        yield queries


def _for_jvm(format_name: str, table: str, folder: Path) -> str:
    place = folder / f"tpch_{format_name}" / table
    if format_name == "delta":
        return str(place)
    from benchmarks.data import for_java

    return for_java(str(max((place / "metadata").glob("*.metadata.json"))))


def _with_spark(spark: Any, format_name: str, text: str) -> object:
    lakescan.spark.sql(spark, f"USE {_CATALOG}.tpch_{format_name}")
    frame: Any = lakescan.spark.sql(spark, text)
    return frame.collect()


@contextmanager
def _in_process(files: Mapping[str, list[str]], folder: Path) -> Iterator[Queries]:
    import duckdb
    import polars

    def ours(text: str, format_name: str) -> object:
        lakescan.sql(f"USE {_CATALOG}.tpch_{format_name}")
        return lakescan.sql(text).to_arrow()

    queries: Queries = {f"lakescan, {each}": lambda text, each=each: ours(text, each) for each in _FORMATS}
    with duckdb.connect() as connection:
        for name, paths in files.items():
            connection.execute(f"CREATE VIEW {name} AS SELECT * FROM read_parquet({paths})")
        queries["DuckDB Parquet"] = lambda text: connection.sql(text).to_arrow_table()
        context = polars.SQLContext({name: polars.scan_parquet(paths) for name, paths in files.items()})
        queries["Polars Parquet"] = lambda text: _with_polars(context, text)
        yield queries


def _with_polars(context: Any, text: str) -> object:
    """Run a query in Polars, except for `FROM a, b`: Polars makes the cross product first, which takes all memory."""
    from sqlglot import exp, parse_one

    if any(not (join.args.get("on") or join.args.get("using")) for join in parse_one(text).find_all(exp.Join)):
        raise UnsupportedFeature("FROM a, b")
    return context.execute(text).collect()


def _measured(data: Tpc, queries: Queries, runs: int) -> str:
    """Return a table of the medians, a row per query, and the geometric means of ratios to the first peer."""
    refused = (UnsupportedFeature, QueryFailed, *_errors_of_polars())
    seconds: dict[int, dict[str, float]] = {}
    for number, text in data.queries.items():
        able = {}
        for name, each in queries.items():
            try:
                each(text)
            except refused:
                continue
            able[name] = lambda each=each, text=text: each(text)
        seconds[number] = side_by_side(able, runs=runs)
    lines = [f"| query | {' | '.join(queries)} |", "|---" * (len(queries) + 1) + "|"]
    for number, found in seconds.items():
        cells = (f"{found[name]:.2f}" if name in found else "-" for name in queries)
        lines.append(f"| {number} | {' | '.join(cells)} |")
    ours = [name for name in queries if name.startswith("lakescan")]
    for name in ours:
        ratios = {peer: _geometric_mean(seconds, name, peer) for peer in queries if peer not in ours}
        ratio = (f"{ratios[peer]:.2f}" if peer in ratios else "1.00" if peer == name else "" for peer in queries)
        lines.append(f"| {name}, over the others | {' | '.join(ratio)} |")
    return "\n".join(lines)


def _errors_of_polars() -> tuple[type[Exception], ...]:
    from polars.exceptions import PolarsError

    return (PolarsError,)


def _geometric_mean(seconds: Mapping[int, Mapping[str, float]], name: str, peer: str) -> float:
    ratios = [math.log(found[name] / found[peer]) for found in seconds.values() if name in found and peer in found]
    return math.exp(sum(ratios) / len(ratios)) if ratios else math.nan
