"""Read tables of many upserts, as Flink writes them: N commits of 2,000 rows, each with an equality delete file.

Each delete file applies to all earlier commits, so there are N(N-1)/2 pairs of files. The peer is Iceberg's own
reader on Spark. It is not measured for 2,000 upserts.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from samples.iceberg_deletes import (
    DeleteFile,
    local,
    manifest_entry,
    write_equality_deletes,
    write_manifest,
    write_manifest_list,
)
from samples.iceberg_table import SNAPSHOT, one_snapshot, table_metadata

from benchmarks.data import FOLDER
from benchmarks.harness import Result
from benchmarks.jvm import jvm_readers

_ROWS, _KEYS = 2_000, 200_000
_KINDS = {"id": ("long", pa.int64()), "v": ("double", pa.float64()), "s": ("string", pa.string())}
_FIELDS = [{"id": i, "name": n, "required": False, "type": k} for i, (n, (k, _)) in enumerate(_KINDS.items(), 1)]
_SCHEMA = pa.schema(
    [pa.field(n, k, metadata={"PARQUET:field_id": str(i)}) for i, (n, (_, k)) in enumerate(_KINDS.items(), 1)]
)


def run(rows: int, runs: int) -> list[Result]:
    """Read 50, 200, 500 and 2,000 commits, whatever `rows` is. The peer is measured once, and not for 2,000."""
    from examples.demo import session

    import lakescan

    results = []
    spark = session()
    try:
        with jvm_readers() as jvm:
            jvm("iceberg", upserts(50), "count")
            for commits in (50, 200, 500, 2000):
                path = upserts(commits)
                peer = _seconds(lambda path=path: jvm("iceberg", path, "count")) if commits <= 500 else float("nan")
                ways = {
                    "to_spark": lambda path=path: lakescan.table(path).scan().to_spark(spark).count(),
                    "to_arrow": lambda path=path: lakescan.table(path).scan().to_arrow(),
                }
                for (name, read), aim in zip(ways.items(), (0.1, 0.01), strict=True):
                    read()
                    mine = statistics.median(_seconds(read) for _ in range(2))
                    target = aim if commits == 500 else None
                    results.append(Result(f"{commits:,} upserts", name, mine, "Java 1.12 on Spark", peer, target))
    finally:
        spark.stop()
    return results


def _seconds(read: Callable[[], object]) -> float:
    started = time.perf_counter()
    read()
    return time.perf_counter() - started


def upserts(commits: int) -> str:
    """Make the table and return its folder."""
    folder = FOLDER / f"upserts_{commits}"
    if (folder / "done").exists():
        return str(folder)
    (folder / "data").mkdir(parents=True, exist_ok=True)
    (folder / "metadata").mkdir(exist_ok=True)
    location = f"file://{folder}"
    metadata = table_metadata(location, _FIELDS, None, 2, {})
    generator, listed = np.random.default_rng(0), []
    for n in range(commits):
        ids = generator.choice(_KEYS, _ROWS, replace=False)
        path = f"{location}/data/d{n}.parquet"
        values = [ids, generator.normal(size=_ROWS), [f"text {i}" for i in ids]]
        pq.write_table(pa.table(values, schema=_SCHEMA), local(path))
        data = DeleteFile(0, path, "PARQUET", _ROWS, local(path).stat().st_size)
        deletes = write_equality_deletes(f"{location}/data/e{n}.parquet", pa.table({"id": ids}), {"id": 1})
        for kind, file in (("m", data), ("e", deletes)):
            manifest = f"{location}/metadata/{kind}{n}.avro"
            length = write_manifest(manifest, metadata, 0, [file], SNAPSHOT)
            listed.append(manifest_entry(manifest, length, 0, n + 1, SNAPSHOT, [file]))
    write_manifest_list(f"{location}/metadata/snap.avro", listed[::-1])
    metadata |= one_snapshot({"manifest-list": f"{location}/metadata/snap.avro"})
    metadata["last-sequence-number"] = metadata["snapshots"][0]["sequence-number"] = commits
    (folder / "metadata" / "v1.metadata.json").write_text(json.dumps(metadata))
    (folder / "metadata" / "version-hint.text").write_text("1")
    (folder / "done").touch()
    return str(folder)
