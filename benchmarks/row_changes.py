"""Change 4M rows of six columns in eight files: delete 1%, update 1%, merge 200,000 keys, half of them new.

On Spark the peers are both JVM writers, in process deltalake. Each run has a new copy of the table, and copying is not
timed. The last row merges 1,000,000 keys, half of them new, into 16M rows in process.
"""

from __future__ import annotations

import itertools
import resource
import shutil
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

import lakescan
import lakescan.spark
from benchmarks.data import FOLDER, six_columns
from benchmarks.harness import Result
from benchmarks.jvm import PYTHON, jvm

_ROWS, _KEYS = 4_000_000, 200_000
_WHERE = "id % 100 = 7"
_STATEMENTS = {
    "delete 1%": f"DELETE FROM {{table}} WHERE {_WHERE}",
    "update 1%": f"UPDATE {{table}} SET amount = amount * 1.1 WHERE {_WHERE}",
    "merge 200,000 keys": "MERGE INTO {table} t USING changes s ON t.id = s.id "
    "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
}
_KINDS = {
    "iceberg 3, merge-on-read": ("iceberg", "3", "merge-on-read"),
    "iceberg 2, merge-on-read": ("iceberg", "2", "merge-on-read"),
    "iceberg 2, copy-on-write": ("iceberg", "2", "copy-on-write"),
    "delta, vectors": ("delta", "", "merge-on-read"),
    "delta, copy-on-write": ("delta", "", "copy-on-write"),
}
_AIMS = {"iceberg merge-on-read": 1.2, "delta merge-on-read": 0.5}
_NUMBERS = itertools.count()

Prepare = Callable[[], Callable[[], object]]


def run(rows: int, runs: int) -> list[Result]:
    """Run each contender once before it is measured; `rows` is ignored."""
    data = six_columns(_ROWS)
    folder = (FOLDER / "row_changes").absolute()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    pq.write_table(changes(_ROWS, _KEYS), folder / "changes.parquet")
    catalog = lakescan.catalog("changed", warehouse=folder / "lake")
    catalog.create_namespace("n")
    results = [*_in_process(catalog, data, folder, runs), *_on_spark(catalog, data, folder, min(runs, 3))]
    shutil.rmtree(folder, ignore_errors=True)
    return [*results, _large(runs)]


def changes(rows: int, keys: int) -> pa.Table:
    """Return new rows in no order: half have existing keys, half have new ones."""
    generator = np.random.default_rng(11)
    known = generator.choice(rows, keys // 2, replace=False)
    ids = generator.permutation(np.concatenate([known, np.arange(rows, rows + keys - keys // 2)]))
    return pa.table(
        {
            "id": ids.astype(np.int64),
            "user": generator.integers(0, 1_000_000, keys),
            "kind": generator.integers(0, 50, keys).astype(np.int32),
            "amount": generator.normal(100, 25, keys),
            "word": pa.array([f"new-{n % 1000:04d}" for n in range(keys)]),
            "at": pa.array((np.arange(keys) * 1_000_000).astype("datetime64[us]")),
        }
    )


def _measured(contenders: dict[str, Prepare], runs: int) -> dict[str, float]:
    """Return the median seconds of each contender, taking turns, without its preparation."""
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for turn in range(runs + 1):
        for name, prepare in contenders.items():
            ready = prepare()
            started = time.perf_counter()
            found = ready()
            taken = time.perf_counter() - started
            if turn:
                seconds[name].append(found["seconds"] if isinstance(found, dict) and "seconds" in found else taken)
    return {name: statistics.median(some) for name, some in seconds.items()}


def _table(catalog: lakescan.Catalog, data: Any, kind: tuple[str, str, str]) -> lakescan.Table:
    """Make a new table with one file for each of the data's files."""
    form, version, mode = kind
    properties = {"format-version": version} | {f"write.{each}.mode": mode for each in ("delete", "update", "merge")}
    if form == "delta":
        properties = {"delta.enableDeletionVectors": "true"} if mode == "merge-on-read" else {}
    files = ds.dataset(data.parquet)
    name = f"n.t{next(_NUMBERS)}"
    table = catalog.create_table(name, files.schema.remove_metadata(), format=form, properties=properties)
    for fragment in files.get_fragments():
        table.append(fragment.scanner().to_reader())
    return table


def _in_process(catalog: lakescan.Catalog, data: Any, folder: Path, runs: int) -> list[Result]:
    from deltalake import DeltaTable

    source = pq.read_table(folder / "changes.parquet")
    ours: dict[str, Callable[[lakescan.Table], object]] = {
        "delete 1%": lambda table: table.delete(_WHERE),
        "update 1%": lambda table: table.update({"amount": "amount * 1.1"}, _WHERE),
        "merge 200,000 keys": lambda table: (
            table.merge(source, on="t.id = s.id").when_matched_update_all().when_not_matched_insert_all().execute()
        ),
    }
    theirs: dict[str, Callable[[Any], object]] = {
        "delete 1%": lambda table: table.delete(_WHERE),
        "update 1%": lambda table: table.update(updates={"amount": "amount * 1.1"}, predicate=_WHERE),
        "merge 200,000 keys": lambda table: (
            table.merge(source, "t.id = s.id", source_alias="s", target_alias="t")
            .when_matched_update_all()
            .when_not_matched_insert_all()
            .execute()
        ),
    }

    def peer(change: Callable[[Any], object]) -> Prepare:
        def prepare() -> Callable[[], object]:
            place = folder / f"theirs{next(_NUMBERS)}"
            shutil.copytree(data.delta, place)
            table = DeltaTable(str(place))
            return lambda: change(table)

        return prepare

    def mine(change: Callable[[lakescan.Table], object], kind: tuple[str, str, str]) -> Prepare:
        def prepare() -> Callable[[], object]:
            table = _table(catalog, data, kind)
            return lambda: change(table)

        return prepare

    results = []
    for what, change in ours.items():
        contenders = {name: mine(change, kind) for name, kind in _KINDS.items()} | {"deltalake": peer(theirs[what])}
        seconds = _measured(contenders, runs)
        results += [
            Result(f"in process: {what}", name, seconds[name], "deltalake", seconds["deltalake"], 1.0)
            for name in _KINDS
        ]
    return results


def _on_spark(catalog: lakescan.Catalog, data: Any, folder: Path, runs: int) -> list[Result]:
    from examples.demo import session

    results = []
    spark = session()
    spark.read.parquet(str(folder / "changes.parquet")).createOrReplaceTempView("changes")
    spark.conf.set("spark.lakescan.namespace", "\0".join(("changed", "n")))

    def mine(text: str, kind: tuple[str, str, str]) -> Prepare:
        def prepare() -> Callable[[], object]:
            name = str(_table(catalog, data, kind).name)
            return lambda: lakescan.spark.sql(spark, text.format(table=name))

        return prepare

    try:
        if not PYTHON.exists():
            return results
        with jvm() as ask:
            for name, kind in _KINDS.items():
                for what, text in _STATEMENTS.items():
                    question = {
                        "change": text,
                        "format": kind[0],
                        "version": kind[1],
                        "mode": kind[2],
                        "parquet": data.parquet,
                        "source": str(folder / "changes.parquet"),
                        "folder": str(folder / "java"),
                    }
                    asked = {"ours": mine(text, kind), "java": lambda question=question: lambda: ask(question)}
                    seconds = _measured(asked, runs)
                    aim = _AIMS.get(f"{kind[0]} {kind[2]}", 1.0)
                    results.append(Result(f"on Spark: {what}", name, seconds["ours"], "Java", seconds["java"], aim))
                    shutil.rmtree(folder / "java", ignore_errors=True)
    finally:
        spark.stop()
    return results


def _large(runs: int) -> Result:
    """Merge a million keys into 16M rows; pyiceberg takes some 18 minutes for a million keys."""
    rows, keys = 16_000_000, 1_000_000
    data = six_columns(rows)
    folder = (FOLDER / "row_changes_large").absolute()
    shutil.rmtree(folder, ignore_errors=True)
    catalog = lakescan.catalog("large", warehouse=folder / "lake")
    catalog.create_namespace("n")
    source = changes(rows, keys)
    prepare: Prepare = lambda: (lambda table: lambda: table.upsert(source, keys="id"))(  # noqa: E731
        _table(catalog, data, _KINDS["iceberg 3, merge-on-read"])
    )
    seconds = _measured({"ours": prepare}, 1)["ours"]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    shutil.rmtree(folder, ignore_errors=True)
    return Result(
        f"in process: 1,000,000 keys into 16M rows, {peak:.1f} GB at most", "iceberg 3", seconds, "", float("nan")
    )
