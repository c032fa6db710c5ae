"""`make bench-quick`: a few minutes of in-process work against the peers, compared with the committed ratios.

Fails if a ratio is 20% worse than in `benchmarks/quick.json`. Contenders take turns, and the fastest run of each
counts: other work on the machine only ever slows a run down. Before a task fails, it is measured twice more, with more
runs. `--write` commits new ratios to the file.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pyarrow as pa
from rich.console import Console
from rich.table import Table as Printed

import lakescan
from benchmarks.data import FOLDER, delta_log, delta_with_vectors, six_columns, with_deletes
from benchmarks.local_read import contenders, import_all
from benchmarks.planning_table import planning_table
from lakescan.common.cache import DEFAULT_LIMIT

COMMITTED = Path(__file__).with_name("quick.json")
WORSE = 1.2  # a ratio of this many times the committed one is worse
_ROWS, _FILES, _ADDS, _CHANGED = 2_000_000, 20_000, 20_000, 500_000
_RUNS, _MORE_RUNS = 5, (10, 20)

Contender = Callable[[], object]
Prepare = Callable[[], Contender]


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.quick", description=__doc__)
    parser.add_argument("--write", action="store_true", help="commit the ratios to benchmarks/quick.json")
    write = parser.parse_args().write
    committed: dict[str, float] = json.loads(COMMITTED.read_text()) if COMMITTED.exists() else {}
    import_all()
    ratios, console = {}, Console()
    for name, pair in tasks():
        with console.status(name):
            ratios[name] = _ratio(pair, None if write else committed.get(name))
    console.print(_as_table(ratios, committed))
    if write:
        COMMITTED.write_text(json.dumps({name: round(ratio, 3) for name, ratio in ratios.items()}, indent=1) + "\n")
        return
    if failed := worse(ratios, committed):
        sys.exit(f"at least 20% worse than the committed ratios: {', '.join(failed)}")


def worse(ratios: Mapping[str, float], committed: Mapping[str, float]) -> list[str]:
    """Return the tasks whose ratio is at least 20% worse than the committed one; tasks without one are new."""
    return [name for name, ratio in ratios.items() if ratio >= WORSE * committed.get(name, ratio)]


def tasks() -> Iterator[tuple[str, tuple[Prepare, Prepare]]]:
    """Yield each task's name, and the preparations of lakescan and the peer, which are not timed."""
    yield from _reads()
    yield from _plans()
    with _new_folder() as folder:
        yield from _writes(folder)


def _reads() -> Iterator[tuple[str, tuple[Prepare, Prepare]]]:
    data = six_columns(_ROWS)
    tables = {
        "Iceberg": data.iceberg,
        "Delta": data.delta,
        "Iceberg, 10% deleted": with_deletes(data.iceberg, 0.1, "vectors"),
        "Delta, 10% deleted": delta_with_vectors(data.delta, 0.1),
    }
    asked = {"all columns": "to_arrow", "sum by kind": "to_polars(lazy=True)"}
    asked |= dict.fromkeys(("user < 100", "id: rows / 10,000"), "to_arrow")
    for task, ours in asked.items():
        for label, path in tables.items():
            found = contenders(task, path, _ROWS)
            yield (
                f"read, {task}: {label} / Polars",
                (partial(_ready, found[ours]), partial(_ready, found["polars, files"])),
            )
    found = contenders("sum by kind", data.delta, _ROWS)
    yield (
        "read, sum by kind: SQL over Delta / DuckDB",
        (
            partial(_ready, found["sql"]),
            partial(_ready, found["duckdb, files"]),
        ),
    )


def _plans() -> Iterator[tuple[str, tuple[Prepare, Prepare]]]:
    from deltalake import DeltaTable
    from pyiceberg.table import StaticTable

    iceberg, delta = planning_table(_FILES, _FILES // 1000), delta_log(_ADDS)

    def ours(path: str, condition: str) -> object:
        lakescan.set_cache_limit(0)
        return lakescan.table(path).scan().where(condition).plan()

    def pyiceberg() -> object:
        scan = StaticTable.from_metadata(f"{iceberg}/metadata/v1.metadata.json").scan(row_filter="c0 = 1234567")
        return list(scan.plan_files())

    point = partial(ours, iceberg, "c0 = 1234567")
    yield f"plan, {_FILES:,} files: Iceberg / pyiceberg", (partial(_ready, point), partial(_ready, pyiceberg))
    point = partial(ours, delta, "c0 = 123450")
    yield (
        f"plan, {_ADDS:,} files: Delta / deltalake",
        (
            partial(_ready, point),
            partial(_ready, lambda: DeltaTable(delta).get_add_actions()),
        ),
    )
    lakescan.set_cache_limit(DEFAULT_LIMIT)


def _writes(folder: Path) -> Iterator[tuple[str, tuple[Prepare, Prepare]]]:
    from deltalake import DeltaTable, write_deltalake

    from benchmarks.row_changes import changes

    rows = lakescan.table(six_columns(_ROWS).delta).scan().to_arrow().slice(0, _CHANGED)
    source = changes(_CHANGED, _CHANGED // 20)
    catalog = lakescan.catalog("quick", warehouse=folder / "lake")
    catalog.create_namespace("n")

    def mine(change: Callable[[lakescan.Table], object], empty: bool = False) -> Contender:
        form = {"delta.enableDeletionVectors": "true"}
        table = catalog.create_table(f"n.t{time.time_ns()}", rows.schema, format="delta", properties=form)
        if not empty:
            table.append(rows)
        return lambda: change(table)

    def theirs(change: Callable[[DeltaTable], object], empty: bool = False) -> Contender:
        place = str(folder / f"theirs{time.time_ns()}")
        write_deltalake(place, rows.slice(0, 0) if empty else rows)
        table = DeltaTable(place)
        return lambda: change(table)

    changes_of: dict[str, tuple[Prepare, Prepare]] = {
        "append": (
            partial(mine, lambda table: table.append(rows), empty=True),
            partial(theirs, lambda table: write_deltalake(table, rows, mode="append"), empty=True),
        ),
        "delete 1%": (
            partial(mine, lambda table: table.delete("id % 100 = 7")),
            partial(theirs, lambda table: table.delete("id % 100 = 7")),
        ),
        "merge 5%": (partial(mine, partial(_merge_ours, source)), partial(theirs, partial(_merge_theirs, source))),
    }
    for what, pair in changes_of.items():
        yield f"{what} of {_CHANGED:,} rows: Delta / deltalake", pair


def _merge_ours(source: pa.Table, table: lakescan.Table) -> object:
    return table.merge(source, on="t.id = s.id").when_matched_update_all().when_not_matched_insert_all().execute()


def _merge_theirs(source: pa.Table, table: object) -> object:
    merge = table.merge(source, "t.id = s.id", source_alias="s", target_alias="t")  # type: ignore[attr-defined]
    return merge.when_matched_update_all().when_not_matched_insert_all().execute()


def _ready(contender: Contender) -> Contender:
    """Return a contender that needs no preparation."""
    return contender


@contextmanager
def _new_folder() -> Iterator[Path]:
    folder = FOLDER / "quick"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def _ratio(pair: tuple[Prepare, Prepare], committed: float | None) -> float:
    """Return the ratio of the fastest runs; measure again if it seems worse than the committed one."""
    ratio = _measured(pair, _RUNS)
    for runs in _MORE_RUNS:
        if committed is None or ratio < WORSE * committed:
            break
        ratio = min(ratio, _measured(pair, runs))
    return ratio


def _measured(pair: tuple[Prepare, Prepare], runs: int) -> float:
    for prepare in pair:
        prepare()()  # imports, and caches of files
    fastest = [float("inf")] * 2
    for _ in range(runs):
        for number, prepare in enumerate(pair):
            contender = prepare()
            started = time.perf_counter()
            contender()
            fastest[number] = min(fastest[number], time.perf_counter() - started)
    return fastest[0] / fastest[1]


def _as_table(ratios: Mapping[str, float], committed: Mapping[str, float]) -> Printed:
    table = Printed("task: ours / the rival", "ratio", "committed")
    failed = worse(ratios, committed)
    for name, ratio in ratios.items():
        known = f"{committed[name]:.2f}" if name in committed else ""
        table.add_row(name, f"{ratio:.2f}", known, style="red" if name in failed else None)
    return table


if __name__ == "__main__":
    main()
