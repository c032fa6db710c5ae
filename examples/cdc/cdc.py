"""A table that follows a database: its log of changes becomes upserts and deletes, in order, each once.

    python cdc.py [--folder ./cdc-data] [--changes 300] [--batch 100]

The database is SQLite; triggers keep the log, as a tool for change data capture would. Each run changes the database,
follows the log from where the last run ended, and compares the table with the database. It can be killed at any point.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa

import lakescan

APPLICATION = "cdc-customers"
DATABASE = """
CREATE TABLE IF NOT EXISTS customers (id INTEGER PRIMARY KEY, name TEXT NOT NULL, city TEXT);
CREATE TABLE IF NOT EXISTS log (position INTEGER PRIMARY KEY AUTOINCREMENT, change TEXT NOT NULL);
CREATE TRIGGER IF NOT EXISTS inserted AFTER INSERT ON customers BEGIN
    INSERT INTO log (change) VALUES (json_object('op', 'c', 'id', new.id, 'name', new.name, 'city', new.city)); END;
CREATE TRIGGER IF NOT EXISTS updated AFTER UPDATE ON customers BEGIN
    INSERT INTO log (change) VALUES (json_object('op', 'u', 'id', new.id, 'name', new.name, 'city', new.city)); END;
CREATE TRIGGER IF NOT EXISTS deleted AFTER DELETE ON customers BEGIN
    INSERT INTO log (change) VALUES (json_object('op', 'd', 'id', old.id)); END;
"""
CHANGES = pa.schema(
    [("id", pa.int64()), ("name", pa.string()), ("city", pa.string()), pa.field("gone", pa.bool_(), nullable=False)]
)


def open_database(folder: Path) -> sqlite3.Connection:
    """Open the database, with triggers that keep a log of its changes."""
    folder.mkdir(parents=True, exist_ok=True)
    database = sqlite3.connect(folder / "shop.db")
    database.executescript(DATABASE)
    return database


def work(database: sqlite3.Connection, changes: int, seed: int) -> None:
    """Act as the application: customers come, move and leave, some more than once."""
    chance = random.Random(seed)
    with database:
        for _ in range(changes):
            number, city = chance.randrange(1, 60), chance.choice(("Delhi", "Lyon", "Osaka", None))
            if not database.execute("UPDATE customers SET city = ? WHERE id = ?", (city, number)).rowcount:
                database.execute("INSERT INTO customers VALUES (?, ?, ?)", (number, f"customer {number}", city))
            elif chance.random() < 0.3:
                database.execute("DELETE FROM customers WHERE id = ?", (number,))


def open_table(folder: Path) -> lakescan.Table:
    """Open the table that follows the database; create it if it does not exist."""
    lake = lakescan.catalog("cdc", warehouse=folder / "lake")
    lake.create_namespace("shop", exist_ok=True)
    lake.create_table_if_not_exists("shop.customers", "id BIGINT NOT NULL, name STRING, city STRING, PRIMARY KEY (id)")
    return lake.load_table("shop.customers")


def follow(database: sqlite3.Connection, table: lakescan.Table, offset: Path, batch: int) -> int:
    """Apply the changes since the offset to the table, one commit per batch; return the number of batches read.

    Before a batch is committed, the offset's file records its end as `next`, and after the commit as `done`. A run that
    finds a `next` reads the same batch again. The commit records the batch (`txn_version`), so a batch that is already
    in the table changes nothing.
    """
    count = 0
    while True:
        kept = json.loads(offset.read_text()) if offset.exists() else {"done": 0, "next": None}
        done, end = kept["done"], kept["next"]
        if end is None:
            text = "SELECT max(position) FROM (SELECT position FROM log WHERE position > ? ORDER BY position LIMIT ?)"
            (end,) = database.execute(text, (done, batch)).fetchone()
            if end is None:
                return count
            keep(offset, {"done": done, "next": end})
        text = "SELECT change FROM log WHERE position > ? AND position <= ? ORDER BY position"
        lines = [line for (line,) in database.execute(text, (done, end))]
        print(f"changes {done + 1} to {end}:", apply(table, lines, end))
        keep(offset, {"done": end, "next": None})
        count += 1


def apply(table: lakescan.Table, lines: list[str], version: int) -> lakescan.ChangeResult:
    """Apply changes in one commit. For each row only the last change counts, because it overwrites the earlier ones."""
    last = {change["id"]: change for change in map(json.loads, lines)}
    rows = [{**change, "gone": change["op"] == "d"} for change in last.values()]
    source = pa.Table.from_pylist(rows, CHANGES)
    merge = table.merge(source, on="t.id = s.id", txn_app_id=APPLICATION, txn_version=version)
    merge = merge.when_matched_delete(condition="s.gone").when_matched_update({"name": "s.name", "city": "s.city"})
    return merge.when_not_matched_insert(
        {"id": "s.id", "name": "s.name", "city": "s.city"}, condition="NOT s.gone"
    ).execute()


def keep(offset: Path, value: dict[str, Any]) -> None:
    """Write the offset atomically, even if the power fails."""
    new = offset.with_suffix(".tmp")
    with new.open("w") as file:
        json.dump(value, file)
        file.flush()
        os.fsync(file.fileno())
    new.replace(offset)
    folder = os.open(offset.parent, os.O_RDONLY)
    try:
        os.fsync(folder)  # the new name
    finally:
        os.close(folder)


def check(database: sqlite3.Connection, table: lakescan.Table) -> int:
    """Compare the table with the database; return the number of rows."""
    expected = database.execute("SELECT id, name, city FROM customers ORDER BY id").fetchall()
    found = sorted((row["id"], row["name"], row["city"]) for row in table.refresh().to_arrow().to_pylist())
    assert found == expected, "the table differs from the database"
    return len(found)


def main(arguments: list[str] | None = None) -> int:
    """Change the database, follow it, and compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path("cdc-data"))
    parser.add_argument("--changes", type=int, default=300, help="how many the application makes before")
    parser.add_argument("--batch", type=int, default=100, help="changes a commit, at most")
    given = parser.parse_args(arguments)
    with closing(open_database(given.folder)) as database:
        (seed,) = database.execute("SELECT count(*) FROM log").fetchone()
        work(database, given.changes, seed)
        table = open_table(given.folder)
        follow(database, table, given.folder / "offset.json", given.batch)
        rows = check(database, table)
    print(f"check: the table has the {rows} rows of the database")
    return rows


if __name__ == "__main__":
    main()
