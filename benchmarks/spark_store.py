"""Read on Spark from an object store: the native lane, the Arrow lane, and Spark's own Parquet reader.

The store speaks S3, serves a folder from its own process, and takes 5 ms for each answer. Spark has Hadoop's S3
client from Maven. Spark's Parquet reader lists the folder, and always reads all rows.
"""

from __future__ import annotations

from typing import Any

from tests.support.s3a import s3a_session

import lakescan
from benchmarks.data import FOLDER, delta_with_vectors, six_columns, with_deletes
from benchmarks.harness import side_by_side
from benchmarks.slow_store import BUCKET, slow_store

_DELAY = 0.005
_WIDE = {"spark.driver.memory": "4g", "spark.driver.extraJavaOptions": "-XX:+UseParallelGC"}


def run(rows: int, runs: int) -> str:
    """Run full scans and a two-column aggregate, on tables with and without deletes."""
    data = six_columns(rows)
    tables = {
        "Iceberg": data.iceberg,
        "Iceberg, 10% deleted by vectors": with_deletes(data.iceberg, 0.1, "vectors"),
        "Delta": data.delta,
        "Delta, 10% deleted by vectors": delta_with_vectors(data.delta, 0.1),
    }
    lines = [
        "| table | task | native lane, s | Arrow lane, s | Spark Parquet, s | native / Parquet | native / Arrow |",
        "|---|---|---|---|---|---|---|",
    ]
    with (
        slow_store(FOLDER, _DELAY) as store,
        s3a_session(store.endpoint, "some-key", "some-secret", _WIDE) as spark,
    ):
        parquet = _there(data.parquet).replace("s3://", "s3a://")
        moved = {f"file://{FOLDER}": f"s3://{BUCKET}", str(FOLDER): f"s3://{BUCKET}"}
        for name, location in tables.items():
            for task, (use, columns) in {
                "all columns": (_drain, ()),
                "sum by kind": (_total, ("kind", "amount")),
            }.items():

                def ours(lane: str, use: Any = use, columns: Any = columns, location: str = location) -> None:
                    table = lakescan.table(_there(location), storage_options=store.options, relocate=moved)
                    scan = table.scan().options(lane=lane)
                    use((scan.select(*columns) if columns else scan).to_spark(spark))

                contenders = {
                    "native": lambda ours=ours: ours("native"),
                    "arrow": lambda ours=ours: ours("arrow"),
                    "parquet": lambda use=use: use(spark.read.parquet(parquet)),
                }
                found = side_by_side(contenders, runs=runs)
                native, arrow, plain = (found[each] for each in contenders)
                lines.append(
                    f"| {name} | {task} | {native:.2f} | {arrow:.2f} | {plain:.2f} | {native / plain:.2f} | "
                    f"{native / arrow:.2f} |"
                )
    return "\n".join(lines)


def _there(path: str) -> str:
    """Return the location in the store of a path in the benchmarks' folder."""
    return path.removeprefix("file://").replace(str(FOLDER), f"s3://{BUCKET}", 1)


def _drain(frame: Any) -> None:
    """Read all rows and columns and discard them."""
    frame.write.format("noop").mode("overwrite").save()


def _total(frame: Any) -> None:
    frame.groupBy("kind").sum("amount").collect()
