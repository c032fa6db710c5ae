"""The benchmarks' tables: made once under build/bench and kept."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

FOLDER = Path("build/bench").absolute()
_CHUNK = 1_000_000
_FILES = 8


@dataclass(frozen=True)
class Wide:
    """One set of rows as plain Parquet, as an Iceberg table and as a Delta table."""

    parquet: str
    iceberg: str
    delta: str


def six_columns(rows: int) -> Wide:
    """`rows` rows of six columns (two longs, an int, a double, a short text, a timestamp) in eight files."""
    folder = FOLDER / f"six_columns_{rows}"
    if not (folder / "done").exists():
        _make(folder, rows)
    metadata = max((folder / "iceberg" / "bench" / "rows" / "metadata").glob("*.metadata.json"))
    return Wide(str(folder / "parquet"), str(metadata), str(folder / "delta"))


def _make(folder: Path, rows: int) -> None:
    from deltalake import write_deltalake
    from pyiceberg.catalog.sql import SqlCatalog

    (folder / "parquet").mkdir(parents=True, exist_ok=True)
    (folder / "iceberg").mkdir(exist_ok=True)
    catalog = SqlCatalog("bench", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}/iceberg")
    catalog.create_namespace_if_not_exists("bench")
    table = None
    for number, start in enumerate(range(0, rows, max(1, rows // _FILES))):
        part = _rows(start, min(start + max(1, rows // _FILES), rows), number)
        pq.write_table(part, folder / "parquet" / f"part-{number:02d}.parquet", row_group_size=_CHUNK)
        if table is None:
            table = catalog.create_table("bench.rows", part.schema)
        table.append(part)
        write_deltalake(str(folder / "delta"), part, mode="append")
    (folder / "done").touch()


def _rows(start: int, stop: int, seed: int) -> pa.Table:
    generator, count = np.random.default_rng(seed), stop - start
    words = np.array([f"word-{i:04d}" for i in range(1000)])
    return pa.table(
        {
            "id": np.arange(start, stop),
            "user": generator.integers(0, 1_000_000, count),
            "kind": generator.integers(0, 50, count).astype(np.int32),
            "amount": generator.normal(100, 25, count),
            "word": pa.array(words[generator.integers(0, 1000, count)].tolist()),
            "at": pa.array((np.arange(start, stop) * 1_000_000).astype("datetime64[us]")),
        }
    )
