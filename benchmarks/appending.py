"""Append rows to an empty table: from Spark against both JVM writers, in process against deltalake.

All writers read the same Parquet files and write the same rows. `df.write` is `frame.write.format(...)`, the others are
`Table.append`. Partitioned tables have 50 partitions, and both writers shuffle rows by them.
"""

from __future__ import annotations

import itertools
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds

import lakescan
import lakescan.spark
from benchmarks.data import FOLDER, six_columns
from benchmarks.harness import Result, compare
from benchmarks.jvm import jvm

_PLACES = itertools.count()
_CASES: tuple[tuple[str, str, bool, float, dict[str, str], dict[str, str]], ...] = (
    ("from Spark", "iceberg", False, 0.75, {}, {}),
    ("from Spark, df.write", "iceberg", True, 0.75, {}, {}),
    ("from Spark, partitioned", "iceberg", False, 1.0, {"partition_by": "kind"}, {"partition": "kind"}),
    ("from Spark", "delta", False, 0.6, {}, {}),
    ("from Spark, df.write", "delta", True, 0.6, {}, {}),
)


def run(rows: int, runs: int) -> list[Result]:
    """Append to Iceberg and Delta from Spark, and to Delta in process."""
    from examples.demo import session

    data = six_columns(rows)
    folder = (FOLDER / "appended").absolute()
    shutil.rmtree(folder, ignore_errors=True)
    catalog = lakescan.catalog("bench", warehouse=folder / "lake")
    catalog.create_namespace("n")
    results = []
    spark = session()
    try:
        lakescan.spark.register(spark)
        with jvm() as ask:
            for what, name, by_spark, aim, defined, said in _CASES:
                ours = partial(_append, spark, catalog, name, data.parquet, by_spark=by_spark, **defined)
                assert lakescan.table(ours()).scan().count() == rows
                asked = {"format": name, "write": data.parquet, "folder": str(folder / "java"), **said}
                theirs = partial(ask, asked)
                title = f"{rows:,} rows {what}"
                results.append(compare(title, (name, ours), (f"Java, {name}", theirs), runs=min(runs, 3), aim=aim))
                for files in (folder / "java", *(folder / "lake").glob("n/t*")):  # gigabytes
                    shutil.rmtree(files, ignore_errors=True)
    finally:
        spark.stop()
    local, peer = partial(_in_process, catalog, data.parquet), partial(_deltalake, folder, data.parquet)
    results.append(compare(f"{rows:,} rows in process", ("delta", local), ("deltalake", peer), runs=runs, aim=1.2))
    shutil.rmtree(folder, ignore_errors=True)
    return results


def _append(spark: Any, catalog: lakescan.Catalog, name: str, parquet: str, *, by_spark: bool, **defined: Any) -> str:
    """Make a table, append all rows, and return its name."""
    frame = spark.read.parquet(parquet)
    table = f"n.t{next(_PLACES)}"
    made = catalog.create_table(table, lakescan.table(_made_of(catalog, parquet)).schema, format=name, **defined)
    if by_spark:
        frame.write.format(name).mode("append").save(f"bench.{table}")
    else:
        made.append(frame)
    return f"bench.{table}"


def _made_of(catalog: lakescan.Catalog, parquet: str) -> str:
    """Make a table with the columns of the rows."""
    name = "n.columns"
    catalog.create_table(name, ds.dataset(parquet).schema.remove_metadata(), exist_ok=True)
    return f"bench.{name}"


def _in_process(catalog: lakescan.Catalog, parquet: str) -> None:
    scanner = ds.dataset(parquet).scanner()
    table = catalog.create_table(f"n.t{next(_PLACES)}", scanner.projected_schema.remove_metadata(), format="delta")
    table.append(scanner.to_reader())


def _deltalake(folder: Path, parquet: str) -> None:
    from deltalake import write_deltalake

    write_deltalake(str(folder / f"theirs{next(_PLACES)}"), ds.dataset(parquet).scanner().to_reader())
