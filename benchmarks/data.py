"""The benchmarks' tables: made once under build/bench and kept."""

from __future__ import annotations

import json
import os
import shutil
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

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
    """Make `rows` rows of six columns (two longs, an int, a double, a short text, a timestamp) in eight files."""
    folder = FOLDER / f"six_columns_{rows}"
    if not (folder / "done").exists():
        _make(folder, rows)
    metadata = max((folder / "iceberg" / "bench" / "rows" / "metadata").glob(f"{_FILES:05d}-*.metadata.json"))
    return Wide(str(folder / "parquet"), str(metadata), str(folder / "delta"))


def small_files(files: int, rows: int = 10) -> Wide:
    """Make `files` files of a few rows of the six columns each, as Parquet, Iceberg and Delta.

    Keys grow from file to file. `iceberg` is a folder for `HadoopTables`.
    """
    import lakescan

    folder = FOLDER / f"small_files_{files}"
    parquet, delta, warehouse = folder / "parquet", folder / "delta", folder / "lake"
    if not (folder / "done").exists():
        shutil.rmtree(folder, ignore_errors=True)
        parquet.mkdir(parents=True)
        starts = range(0, files, max(1, files // 64))
        with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
            list(pool.map(partial(_write_small, parquet, rows), ((n, min(n + starts.step, files)) for n in starts)))
        shutil.copytree(parquet, delta, copy_function=os.link)
        lakescan.convert_to_delta(str(delta))
        catalog = lakescan.catalog("smallfiles", warehouse=str(warehouse), type="hadoop")
        catalog.create_namespace("n")
        catalog.create_table("n.rows", rows_of(1).schema, format="iceberg")
        source = f"`parquet`.`{parquet}`"
        lakescan.sql(f"CALL smallfiles.system.add_files(table => 'n.rows', source_table => '{source}')").to_arrow()
        (folder / "done").touch()
    return Wide(str(parquet), str(warehouse / "n" / "rows"), str(delta))


def _write_small(folder: Path, rows: int, numbers: tuple[int, int]) -> None:
    """Write the files of a range of numbers."""
    ids = rows_of(1).schema
    for number in range(*numbers):
        part = _rows(number * rows, (number + 1) * rows, number).cast(ids)
        pq.write_table(part, folder / f"part-{number:06d}.parquet")


def with_deletes(metadata: str, share: float, kind: str) -> str:
    """Delete that share of each file's rows, by `vectors` or `positions`; return the new Iceberg metadata file."""
    from samples.iceberg_deletes import commit_deletes, write_deletion_vectors, write_position_deletes

    import lakescan

    kept = Path(metadata).with_name(f"with-{kind}-{share}.txt")
    if not kept.exists():
        files = lakescan.table(metadata).scan().plan().files
        deletes = []
        paths, counts = (files[name].to_pylist() for name in ("path", "record_count"))
        for number, (path, rows) in enumerate(zip(paths, counts, strict=True)):
            target = f"{path.rsplit('/', 1)[0]}/deleted-{share}-{number}"
            gone = _some(number, rows, share)
            if kind == "vectors":
                deletes += write_deletion_vectors(f"{target}.puffin", {path: gone})
            else:
                deletes.append(write_position_deletes(f"{target}.parquet", [(path, n) for n in gone]))
        kept.write_text(commit_deletes(f"file://{metadata}", deletes, format_version=3 if kind == "vectors" else 2))
    return kept.read_text()


def delta_with_vectors(table: str, share: float) -> str:
    """Copy the Delta table's log over the same data files, with that share of each file's rows deleted by vectors."""
    from samples.delta_deletes import commit_vectors, stored_vector

    folder = Path(f"{table}-with-{share}")
    if not (folder / "done").exists():
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(table, folder, copy_function=os.link)
        files = sorted(folder.glob("*.parquet"))
        gone = {f: _some(n, pq.read_metadata(f).num_rows, share) for n, f in enumerate(files)}
        commit_vectors(folder, {f.name: stored_vector(folder, rows) for f, rows in gone.items()})
        (folder / "done").touch()
    return str(folder)


def for_java(metadata: str) -> str:
    """Return a folder that Iceberg's `HadoopTables` opens as the table of a metadata file."""
    source = Path(metadata.removeprefix("file://"))
    folder = source.parents[1] / f"java-{source.stem}"
    (folder / "metadata").mkdir(parents=True, exist_ok=True)
    shutil.copy(source, folder / "metadata" / "v1.metadata.json")
    (folder / "metadata" / "version-hint.text").write_text("1")
    return str(folder)


def _some(seed: int, rows: int, share: float) -> list[int]:
    """Return that share of the numbers below `rows`."""
    found: list[int] = np.flatnonzero(np.random.default_rng(seed).random(rows) < share).tolist()
    return found


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


def rows_of(rows: int) -> pa.Table:
    """Return `rows` rows of the six columns, with field ids."""
    table = _rows(0, rows, 0)
    ids = [{"PARQUET:field_id": str(n)} for n in range(1, table.num_columns + 1)]
    schema = pa.schema([field.with_metadata(each) for field, each in zip(table.schema, ids, strict=True)])
    return table.cast(schema)


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


def delta_log(adds: int, columns: int = 10, per_commit: int = 1_000) -> str:
    """Make a Delta log of `adds` adds with statistics of ten columns; the data files do not exist."""
    folder = FOLDER / f"delta_log_{adds}"
    write_delta_log(folder, adds, columns, per_commit)
    return str(folder)


def write_delta_log(folder: Path, adds: int, columns: int, per_commit: int, checkpoint: int | None = None) -> None:
    """Write the log to a folder, once, with a checkpoint of one of its versions."""
    from deltalake import DeltaTable

    log = folder / "_delta_log"
    if not (folder / "done").exists():
        log.mkdir(parents=True, exist_ok=True)
        kinds = {f"c{i}": "string" if i % 2 else "long" for i in range(columns)}
        fields = [{"name": n, "type": kind, "nullable": True, "metadata": {}} for n, kind in kinds.items()]
        metadata = {"id": "bench", "format": {"provider": "parquet", "options": {}}, "partitionColumns": []}
        metadata |= {"schemaString": json.dumps({"type": "struct", "fields": fields}), "configuration": {}}
        _commit(log, 0, {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}, {"metaData": metadata})
        for version, start in enumerate(range(0, adds, per_commit), 1):
            _commit(log, version, *({"add": _add(n, kinds)} for n in range(start, start + per_commit)))
            if version == checkpoint:
                DeltaTable(folder).create_checkpoint()
        (folder / "done").touch()


def write_delta_commit(folder: Path, version: int, number: int, columns: int = 10) -> None:
    """Write one commit to the log of `write_delta_log`: it adds file `number`."""
    kinds = {f"c{i}": "string" if i % 2 else "long" for i in range(columns)}
    _commit(folder / "_delta_log", version, {"add": _add(number, kinds)})


def _commit(log: Path, version: int, *actions: dict[str, Any]) -> None:
    (log / f"{version:020d}.json").write_text("\n".join(json.dumps(a) for a in actions) + "\n")


def _add(number: int, kinds: dict[str, str]) -> dict[str, Any]:
    lower = {n: number * 10 if kind == "long" else f"v{number:08d}" for n, kind in kinds.items()}
    upper = {n: number * 10 + 9 if kind == "long" else f"v{number:08d}z" for n, kind in kinds.items()}
    stats = {"numRecords": 1000, "minValues": lower, "maxValues": upper, "nullCount": dict.fromkeys(kinds, 0)}
    add = {"path": f"part-{number:06d}.snappy.parquet", "partitionValues": {}, "size": 1_000_000}
    return add | {"modificationTime": 1, "dataChange": True, "stats": json.dumps(stats)}
