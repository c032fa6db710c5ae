"""Stream 1,000 small commits on Spark, 100 files per micro-batch, against the JVM implementations' own sources.

Each query reads all available commits into a sink that discards the rows. Seconds are those of the whole query.
"""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import lakescan
import lakescan.spark
from benchmarks.data import FOLDER, for_java
from benchmarks.harness import Result, compare
from benchmarks.jvm import jvm

_COMMITS, _ROWS, _FILES = 1_000, 1_000, 100
_LIMIT = {"iceberg": "streaming-max-files-per-micro-batch", "delta": "maxFilesPerTrigger"}


def run(rows: int, runs: int) -> list[Result]:
    """Stream Iceberg and Delta; the number of commits is fixed."""
    from examples.demo import session

    results = []
    spark = session()
    try:
        lakescan.spark.register(spark)
        with jvm() as ask:
            for name, (location, java) in {"iceberg": _iceberg(), "delta": _delta()}.items():
                said = {_LIMIT[name]: str(_FILES), **({"startingVersion": "0"} if name == "delta" else {})}
                begin = {"starting-strategy": "INCREMENTAL_FROM_EARLIEST_SNAPSHOT"} if name == "iceberg" else {}
                ours = partial(_stream, spark, name, location, said | begin)
                theirs = partial(ask, {"format": name, "path": java, "stream": said})
                assert ours() == _COMMITS // _FILES
                title = f"{_COMMITS:,} commits of {_ROWS:,} rows"
                results.append(compare(title, (name, ours), (f"Java, {name}", theirs), runs=min(runs, 3), aim=1))
    finally:
        spark.stop()
    return results


def _stream(spark: Any, name: str, path: str, options: dict[str, str]) -> int:
    """Stream all available rows and return the number of micro-batches."""
    with tempfile.TemporaryDirectory() as checkpoint:
        writer = spark.readStream.format(name).options(**options).load(path).writeStream.format("noop")
        query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
        query.awaitTermination()
        return len(list((Path(checkpoint) / "commits").glob("[0-9]*")))


def _rows(number: int) -> pa.Table:
    ids = np.arange(number * _ROWS, (number + 1) * _ROWS)
    return pa.table({"id": ids, "amount": ids * 0.5})


def _iceberg() -> tuple[str, str]:
    """Return the metadata file, and the folder for Java."""
    from pyiceberg.catalog.sql import SqlCatalog

    folder = FOLDER / f"commits_{_COMMITS}_iceberg"
    kept = folder / "table"
    if not kept.exists():
        folder.mkdir(parents=True, exist_ok=True)
        catalog = SqlCatalog("bench", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}")
        catalog.create_namespace_if_not_exists("n")
        table = catalog.create_table("n.t", _rows(0).schema)
        for number in range(_COMMITS):
            table.append(_rows(number))
        kept.write_text(table.metadata_location)
    return kept.read_text(), for_java(kept.read_text())


def _delta() -> tuple[str, str]:
    """Return the table's folder, for both readers."""
    from deltalake import write_deltalake

    folder = FOLDER / f"commits_{_COMMITS}_delta"
    if not (folder / "done").exists():
        for number in range(_COMMITS):
            write_deltalake(str(folder), _rows(number), mode="append")
        (folder / "done").touch()
    return str(folder), str(folder)
