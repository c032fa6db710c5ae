"""The life of a table in a store: concurrent writes, row changes, compaction, clean-up, time travel."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa

import lakescan
from lakescan.storage import Storage

# Partition values that a store, a URI or a listing may misread.
NAMES = ["a b", "p%20c", "100%", "ü", "plus+", "hash#x", "q?x", "10:30", "sl/ash", ".dot", "_u", "k=v", "[x]{y}", 'q"t']
WRITERS, EACH = 4, 3


def make_table(format: str, root: str, options: Mapping[str, Any], folder: Path) -> Callable[[], lakescan.Table]:
    """Make a table partitioned by `part`; return a function that opens it, by its path or by name in a SQL catalog."""
    rows = pa.schema([("id", pa.int64()), ("part", pa.string())]).empty_table()
    if format == "delta":
        path = f"{root}/{folder.name} delta"
        lakescan.save(rows, path, format="delta", partition_by=["part"], storage_options=options)
        return lambda: lakescan.table(path, storage_options=options)
    where = {"type": "sql", "uri": f"sqlite:///{folder}/c.db", "warehouse": f"{root}/{folder.name} wh"}
    catalog = lakescan.catalog({"name": "stored", **where, **options})
    catalog.create_namespace("db")
    catalog.create_table("db.t", rows.schema, format="iceberg", partition_by=("part",))
    return lambda: catalog.load_table("db.t")


def ids(table: lakescan.Table) -> list[int]:
    return sorted(table.scan().to_arrow()["id"].to_pylist())


def run_life(now: Callable[[], lakescan.Table], storage: Storage, folder: str, read: Callable[[], list[int]]) -> None:
    """Run the life; `folder` is the table's folder, `read` reads the ids with another engine."""
    named = pa.table({"id": range(len(NAMES)), "part": NAMES})
    now().append(named)
    first = now().version if now().format == "delta" else now().snapshot_id

    def write(writer: int) -> None:
        for n in range(EACH):
            now().append(pa.table({"id": [100 + writer * EACH + n], "part": [f"w {n}"]}))

    with ThreadPoolExecutor(WRITERS) as pool:
        list(pool.map(write, range(WRITERS)))
    own, theirs = list(range(len(NAMES))), list(range(100, 100 + WRITERS * EACH))
    assert ids(now()) == read() == own + theirs
    for id, part in enumerate(NAMES):
        assert ids_of(now(), part) == [id]
    check_orphans(now(), storage, folder)

    now().update({"id": "id + 1000"}, "id >= 100 AND part = 'w 0'")
    now().delete("part = 'p%20c' OR id = 2")
    source = pa.table({"id": [0, 500], "part": ["a b", "50% ü"]})
    merge = now().merge(source, "t.id = s.id").when_matched_update({"part": "'m+1'"})
    merge.when_not_matched_insert_all().execute()
    own = [id for id in own if id not in (1, 2)]
    theirs = sorted([id + 1000 if (id - 100) % EACH == 0 else id for id in theirs] + [500])
    assert ids(now()) == read() == own + theirs
    assert ids_of(now(), "m+1") == [0]
    check_orphans(now(), storage, folder)

    now().compact()
    assert ids(now()) == read() == own + theirs
    check_orphans(now(), storage, folder)
    back = now().scan().as_of(version=first)
    assert sorted(back.to_arrow()["id"].to_pylist()) == list(range(len(NAMES)))


def ids_of(table: lakescan.Table, part: str) -> list[int]:
    quoted = part.replace("'", "''")
    found: list[int] = table.scan().where(f"part = '{quoted}'").to_arrow()["id"].to_pylist()
    return found


def check_orphans(table: lakescan.Table, storage: Storage, folder: str) -> None:
    """Check that the orphans are a stray file and the data files that no state of the table needs."""
    stray = f"{folder}/data/part=st%20ray/f {table.format}.parquet"
    with storage.writing(stray) as file:
        file.write(b"stray")
    live = table.scan().plan().files["path"].to_pylist()
    assert all(storage.exists(each) for each in live)
    found = list(table.remove_orphans(older_than="2100-01-01", dry_run=True))
    assert stray in found
    if table.format == "iceberg":  # its snapshots need all data files; commits that lost a race leave metadata
        assert [each for each in found if each.endswith(".parquet")] == [stray]
        return
    data = {each.location for each in storage.walk(folder) if each.name.endswith(".parquet")}
    data = {each for each in data if "/_" not in each[len(folder) :].replace("/part=_", "/")}
    assert set(found) == data - set(live)
