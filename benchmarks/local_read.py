"""Read in process, against Polars, DuckDB, deltalake and pyiceberg.

The tasks are full scans, sums of one column by another, and filters that one row in 10,000 passes: on an unsorted
column (`user < 100`) and on the sorted key (`id`). In some tables 10% of the rows are deleted. For `files`, the peer
reads the Parquet files alone, including deleted rows. For `table`, it uses its own reader of the format. Tasks of
more than four seconds run once. MB is the growth of a fresh process's peak memory.
"""

from __future__ import annotations

import math
import os
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial

import lakescan
from benchmarks.data import delta_with_vectors, six_columns, with_deletes
from benchmarks.harness import in_own_process, side_by_side

_FULL = ("all columns", "sum by kind")
_SLOW = 4.0  # tasks that take longer, in seconds, run once
_OURS = ("to_arrow", "to_polars(lazy=True)", "sql")
_MEMORY = """
import json, os, sys
from benchmarks.local_read import contenders, import_all

def peak():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")) / 1024

task, path, name, rows = sys.argv[1:]
import_all()
before = peak()
if name:
    contenders(task, path, int(rows))[name]()
print(json.dumps({"mb": peak() - before}), flush=True)
os._exit(0)  # some readers abort when the interpreter ends
"""


def run(rows: int, runs: int) -> str:
    """Return a row for each task, table and reader."""
    import_all()
    data = six_columns(rows)
    tables = {
        "clean Iceberg": data.iceberg,
        "clean Delta": data.delta,
        "10% deleted, Iceberg positions": with_deletes(data.iceberg, 0.1, "positions"),
        "10% deleted, Iceberg vectors": with_deletes(data.iceberg, 0.1, "vectors"),
        "10% deleted, Delta vectors": delta_with_vectors(data.delta, 0.1),
    }
    measured = {(task, path) for task in _FULL for label, path in tables.items() if "Delta" in label}
    lines = ["| task | table | reader | seconds | ratio to Polars, files | MB |", "|---|---|---|---|---|---|"]
    for task in (*_FULL, "user < 100", "id: rows / 10,000"):
        for label, path in tables.items():
            found = contenders(task, path, rows)
            once = {name: _seconds(each) for name, each in found.items()}
            seconds = {name: one for name, one in once.items() if _SLOW < one < math.inf}
            seconds |= side_by_side({name: found[name] for name, one in once.items() if one <= _SLOW}, runs=runs)
            for name, each in seconds.items():
                memory = (
                    in_own_process(_MEMORY, task, path, name, str(rows))["mb"] if (task, path) in measured else math.nan
                )
                shown = f"**{name}**" if name in _OURS else name
                ratio = each / seconds["polars, files"]
                mb = "" if math.isnan(memory) else f"{memory:,.0f}"
                lines.append(f"| {task} | {label} | {shown} | {each:.3f} | {ratio:.2f} | {mb} |")
    return "\n".join(lines)


def import_all() -> None:
    """Import the contenders' libraries, so that no first run does."""
    import deltalake  # noqa: F401
    import duckdb  # noqa: F401
    import polars
    import pyiceberg.table  # noqa: F401

    warnings.simplefilter("ignore")
    polars.DataFrame({"a": [1]}).lazy().collect()


def contenders(task: str, path: str, rows: int) -> dict[str, Callable[[], object]]:
    """Return the contenders that read a table for a task, by name."""
    return dict(_contenders(task, path, rows))


def _contenders(task: str, path: str, rows: int) -> Iterator[tuple[str, Callable[[], object]]]:
    import duckdb
    import polars as pl

    is_delta = os.path.isdir(path)
    table = lakescan.table(path)
    first = rows // 3
    where = {"user < 100": "user < 100", "id: rows / 10,000": f"id >= {first} and id < {first + rows // 10_000}"}.get(
        task
    )
    refine = {
        "all columns": lambda lazy: lazy,
        "sum by kind": lambda lazy: lazy.group_by("kind").agg(pl.col("amount").sum()),
        "user < 100": lambda lazy: lazy.filter(pl.col("user") < 100),
        "id: rows / 10,000": lambda lazy: lazy.filter(
            (pl.col("id") >= first) & (pl.col("id") < first + rows // 10_000)
        ),
    }[task]
    aggregate = "SELECT kind, sum(amount) FROM {0} GROUP BY kind"
    sql = aggregate if task == "sum by kind" else "SELECT * FROM {0}" + (f" WHERE {where}" if where else "")

    if task == "sum by kind":
        yield "to_polars(lazy=True)", lambda: refine(table.scan().to_polars(lazy=True)).collect()
        yield "sql", lambda: lakescan.sql(sql.format("t"), t=table).to_arrow()
    else:
        yield "to_arrow", lambda: (table.scan().where(where) if where else table.scan()).to_arrow()
        yield "to_polars(lazy=True)", lambda: refine(table.scan().to_polars(lazy=True)).collect()
    paths = [each.removeprefix("file://") for each in table.scan().plan().files["path"].to_pylist()]
    yield "polars, files", lambda: refine(pl.scan_parquet(paths)).collect()
    yield "duckdb, files", lambda: duckdb.sql(sql.format(f"read_parquet({paths})")).to_arrow_table()
    scan = pl.scan_delta if is_delta else pl.scan_iceberg
    yield "polars, table", lambda: refine(scan(path)).collect()
    if task == "all columns":
        yield ("deltalake", partial(_deltalake, path)) if is_delta else ("pyiceberg", partial(_pyiceberg, path))


def _deltalake(path: str) -> object:
    from deltalake import DeltaTable

    return DeltaTable(path).to_pyarrow_table()


def _pyiceberg(path: str) -> object:
    from pyiceberg.table import StaticTable

    return StaticTable.from_metadata(path).scan().to_arrow()


def _seconds(contender: Callable[[], object]) -> float:
    """Return the seconds of one run of a contender; infinity if it cannot read such a table."""
    started = time.perf_counter()
    try:
        contender()
    except Exception:
        return math.inf
    return time.perf_counter() - started
