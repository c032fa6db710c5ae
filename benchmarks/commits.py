"""Commit in process: to Delta logs against deltalake, to Iceberg tables against Java's library.

One writer makes 200 small commits, or eight threads make 25 each. A large commit adds 100,000 files that exist in
name only. Java's tables are in a folder, lakescan's in a SQLite catalog. The time of an append should not grow with
the table: tables of 10,000 and 1,000,000 files are compared.
"""

from __future__ import annotations

import itertools
import json
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

import lakescan
from benchmarks.data import FOLDER
from benchmarks.harness import Result, compare
from benchmarks.jvm import jvm
from lakescan.options.write import WriteOptions
from lakescan.writing.table_writes import WrittenFile

_PLACES = itertools.count()
_COMMITS, _WRITERS, _FILES = 200, 8, 100_000
_FEW, _MANY = 10_000, 1_000_000
_ROWS = pa.table({"id": [1]})


def run(rows: int, runs: int) -> list[Result]:
    """Time small commits by one writer and by eight, and a commit of 100,000 files."""
    folder = (FOLDER / "commits").absolute()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    tasks: list[tuple[str, Callable[[str], None], Callable[[str], None], float]] = [
        (f"{_COMMITS} commits", partial(_small, writers=1), partial(_small_of_deltalake, writers=1), 1.5),
        (
            f"{_COMMITS} commits by {_WRITERS} threads",
            partial(_small, writers=_WRITERS),
            partial(_small_of_deltalake, writers=_WRITERS),
            1.5,
        ),
        (f"{_FILES:,} files in one commit", _large, _large_of_deltalake, 1.0),
    ]
    results = [
        compare(
            title,
            ("lakescan", partial(_in_new, folder, ours)),
            ("deltalake", partial(_in_new, folder, theirs)),
            runs=min(runs, 3),
            aim=aim,
        )
        for title, ours, theirs, aim in tasks
    ]
    results.append(_against_java(folder, runs))
    results += [_by_size(folder, format) for format in ("delta", "iceberg")]
    shutil.rmtree(folder, ignore_errors=True)
    return results


def _against_java(folder: Path, runs: int) -> Result:
    local = lakescan.catalog("commits", warehouse=folder / "warehouse")
    local.create_namespace("n")

    def ours() -> None:
        table = local.create_table(f"n.t{next(_PLACES)}", "id BIGINT")
        for _ in range(_COMMITS):
            lakescan.table(table.name).append(_ROWS)

    with jvm() as ask:
        theirs = partial(ask, {"commits": _COMMITS, "folder": str(folder)})
        title = f"{_COMMITS} commits to an Iceberg table"
        return compare(title, ("lakescan", ours), ("Iceberg (Java)", theirs), runs=min(runs, 3), aim=1.5)


def _by_size(folder: Path, format: str) -> Result:
    """Compare an append to a table of many files with one to a table of few files."""
    local = lakescan.catalog("commits", warehouse=folder / "warehouse")
    local.create_namespace("sized", exist_ok=True)

    def table_of(files: int) -> Callable[[], object]:
        table = local.create_table(f"sized.{format}{files}", "id BIGINT", format=format)
        for start in range(0, files, _FILES):
            _append_names(table, range(start, min(start + _FILES, files)), format)
        if format == "delta":
            table.checkpoint()
        return lambda: lakescan.table(table.name).append(_ROWS)

    few, many = table_of(_FEW), table_of(_MANY)
    title = f"append to {_MANY:,} files ({format})"
    return compare(title, (f"{_MANY:,} files", many), (f"{_FEW:,} files", few), runs=9, aim=1.1)


def _append_names(table: lakescan.Table, numbers: range, format: str) -> None:
    """Commit files that exist in name only."""
    details: dict[str, Any] = {"spec_id": 0} if format == "iceberg" else {}
    table._target(WriteOptions()).append(
        [WrittenFile(f"{table.location}/f{n}.parquet", (), 1, 500, details or {"stats": _stats(n)}) for n in numbers]
    )


def _in_new(folder: Path, write: Callable[[str], None]) -> None:
    path = str(folder / f"t{next(_PLACES)}")
    lakescan.save(_ROWS, path, format="delta")
    write(path)


def _by(writers: int, commit: Callable[[], Any]) -> None:
    def many(number: int) -> None:
        for _ in range(_COMMITS // writers):
            commit()

    with ThreadPoolExecutor(writers) as pool:
        list(pool.map(many, range(writers)))


def _small(path: str, writers: int) -> None:
    _by(writers, lambda: lakescan.table(path).append(_ROWS))


def _small_of_deltalake(path: str, writers: int) -> None:
    from deltalake import CommitProperties, write_deltalake

    often = CommitProperties(max_commit_retries=1_000)  # the default of 15 is too few for eight writers
    _by(writers, lambda: write_deltalake(path, _ROWS, mode="append", commit_properties=often))


def _stats(number: int) -> str:
    bound = {"id": number}
    return json.dumps({"numRecords": 1, "minValues": bound, "maxValues": bound, "nullCount": {"id": 0}})


def _large(path: str) -> None:
    _append_names(lakescan.table(path), range(_FILES), "delta")


def _large_of_deltalake(path: str) -> None:
    from deltalake import DeltaTable
    from deltalake.transaction import AddAction

    table = DeltaTable(path)
    files = [AddAction(f"f{n}.parquet", 500, {}, 0, True, _stats(n)) for n in range(_FILES)]
    table.create_write_transaction(files, "append", table.schema(), [])
