"""A lakehouse on one laptop: bronze, silver and gold tables in a folder, in one process, without a JVM.

    python lakehouse.py [--folder ./lakehouse-data] [--days 5] [--orders 2000]

Each run continues where the last one ended, and can be killed at any point: a repeated step counts once.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

import lakescan

FIRST_DAY = date(2026, 1, 1)
COUNTRIES = ("DE", "FR", "IN", "JP", "US")
ORDERS = pa.schema(
    [
        ("order_id", pa.int64()),
        ("day", pa.date32()),
        ("country", pa.string()),
        ("amount", pa.decimal128(12, 2)),
        ("state", pa.string()),
        ("changed_at", pa.timestamp("us", "UTC")),
    ]
)


def main(arguments: list[str] | None = None) -> dict[str, Any]:
    """Land raw files, load them, compare the result with the raw files, and return a summary of the run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path("lakehouse-data"))
    parser.add_argument("--days", type=int, default=5)
    parser.add_argument("--orders", type=int, default=2000, help="a day")
    given = parser.parse_args(arguments)
    raw = given.folder / "raw"
    land(raw, given.days, given.orders)

    lake = open_lake(given.folder)
    done = {"bronze": load_bronze(lake, raw), "silver": load_silver(lake, given.folder / "silver.offset")}
    done["gold"] = load_gold(lake)
    check(lake, raw)
    maintain(lake)
    lakescan.sql("SELECT * FROM lake.gold.revenue WHERE country = 'FR' ORDER BY day").show()
    return done


def land(raw: Path, days: int, orders: int) -> None:
    """Write the files of other systems: one JSON lines file per day, with changes to earlier orders, and bad lines."""
    raw.mkdir(parents=True, exist_ok=True)
    for number in range(days):
        file = raw / f"{FIRST_DAY + timedelta(number)}.jsonl"
        if not file.exists():
            lines = "\n".join(_lines(number, orders)) + "\n"
            file.with_suffix(".tmp").write_text(lines)
            file.with_suffix(".tmp").rename(file)  # a reader sees the whole file or none of it


def _lines(number: int, orders: int) -> Iterator[str]:
    chance = random.Random(number)
    noon = datetime(2026, 1, 1, 12, tzinfo=UTC) + timedelta(number)
    for order in range(number * orders, (number + 1) * orders):
        yield _line(chance, order, noon - timedelta(hours=6), "new")
    for _ in range(orders // 4 if number else 0):  # orders of all earlier days are paid, or cancelled
        yield _line(chance, chance.randrange(number * orders), noon, chance.choice(("paid", "cancelled")))
    yield '{"order_id": 17, "amount": '  # a truncated line
    yield '{"order_id": null, "amount": "1.00"}'


def _line(chance: random.Random, order: int, at: datetime, state: str) -> str:
    about = random.Random(f"order {order}")  # the fields that do not change
    changed_at = at + timedelta(milliseconds=chance.randrange(3_600_000))
    return json.dumps(
        {
            "order_id": order,
            "country": about.choice(COUNTRIES),
            "amount": f"{about.randrange(100, 50_000) / 100:.2f}",
            "state": state,
            "changed_at": changed_at.isoformat(),
        }
    )


def open_lake(folder: Path) -> lakescan.Catalog:
    """Open the catalog, a folder with a SQLite file; create missing tables."""
    lake = lakescan.catalog("lake", warehouse=folder / "lake")
    for name in ("bronze", "silver", "gold"):
        lake.create_namespace(name, exist_ok=True)
    lake.create_table_if_not_exists("bronze.events", "line STRING, file STRING, loaded_at TIMESTAMP", format="delta")
    lake.create_table_if_not_exists(
        "silver.orders",
        """order_id BIGINT NOT NULL, day DATE, country STRING, amount DECIMAL(12, 2), state STRING,
           changed_at TIMESTAMP, PRIMARY KEY (order_id)""",
        partition_by="day",
    )
    lake.create_table_if_not_exists("silver.refused", "line STRING, file STRING, reason STRING")
    lake.create_table_if_not_exists(
        "gold.revenue", "day DATE, country STRING, orders BIGINT, cancelled BIGINT, revenue DECIMAL(22, 2)"
    )
    return lake


def load_bronze(lake: lakescan.Catalog, raw: Path) -> int:
    """Add the lines of new files unchanged, one commit per file; return the number of added rows.

    A file is new if no row comes from it. Because each file is one commit, none is loaded in part.
    """
    events = lake.load_table("bronze.events")
    known = set(lakescan.sql("SELECT DISTINCT file FROM lake.bronze.events").to_arrow()["file"].to_pylist())
    added = 0
    for file in sorted(raw.glob("*.jsonl")):
        if file.name not in known:
            lines = file.read_text().splitlines()
            now = pa.array([datetime.now(UTC)] * len(lines), pa.timestamp("us", "UTC"))
            rows = pa.table({"line": lines, "file": [file.name] * len(lines), "loaded_at": now})
            print("bronze:", file.name, events.append(rows))
            added += len(lines)
    return added


def load_silver(lake: lakescan.Catalog, offset_file: Path) -> int:
    """MERGE the new rows of bronze, one row per order in its newest state; return the number of changed rows.

    The offset is written after the commits. If the process ends before that, the next run merges the same rows again
    and changes nothing, because a row replaces only older ones.
    """
    orders, refused = lake.load_table("silver.orders"), lake.load_table("silver.refused")
    start = json.loads(offset_file.read_text()) if offset_file.exists() else None
    stream = lake.load_table("bronze.events").stream(start=start, wait=False)
    changed = 0
    for batch in stream:
        good, bad = _parsed(batch)
        merge = orders.merge(good, on="t.order_id = s.order_id")
        merge = merge.when_matched_update(
            {"state": "s.state", "changed_at": "s.changed_at"}, condition="s.changed_at > t.changed_at"
        )
        result = merge.when_not_matched_insert_all().execute()
        print("silver:", result)
        changed += result.inserted + result.updated
        missing = refused.merge(bad, on="t.line = s.line AND t.file = s.file").when_not_matched_insert_all()
        missing.execute()
    offset_file.write_text(json.dumps(stream.offset))
    return changed


def _parsed(batch: pa.RecordBatch) -> tuple[pa.Table, pa.Table]:
    """Return the newest line of each order as a row, and the invalid lines, each once, with the reason."""
    newest: dict[int, dict[str, Any]] = {}
    bad: dict[tuple[str, str], str] = {}
    for line, file in zip(batch["line"].to_pylist(), batch["file"].to_pylist(), strict=True):
        try:
            row = _row(json.loads(line))
        except (ValueError, KeyError, TypeError) as error:
            bad[line, file] = f"{type(error).__name__}: {error}"
            continue
        known = newest.get(row["order_id"])
        if known is None:
            newest[row["order_id"]] = row
        elif row["changed_at"] > known["changed_at"]:
            newest[row["order_id"]] = {**row, "day": min(row["day"], known["day"])}
        else:
            known["day"] = min(row["day"], known["day"])
    reasons = [{"line": line, "file": file, "reason": reason} for (line, file), reason in bad.items()]
    texts = pa.schema([("line", pa.string()), ("file", pa.string()), ("reason", pa.string())])
    return pa.Table.from_pylist(list(newest.values()), ORDERS), pa.Table.from_pylist(reasons, texts)


def _row(event: dict[str, Any]) -> dict[str, Any]:
    at = datetime.fromisoformat(event["changed_at"])
    return {
        "order_id": int(event["order_id"]),
        "day": at.date(),  # the day of an order's first line stays
        "country": str(event["country"]),
        "amount": Decimal(event["amount"]),
        "state": str(event["state"]),
        "changed_at": at,
    }


def load_gold(lake: lakescan.Catalog) -> int:
    """Update the revenue by day and country in one MERGE; return the number of changed rows.

    Unchanged rows are not rewritten: a run without new rows makes no commit.
    """
    result = lakescan.sql("""
        MERGE INTO lake.gold.revenue AS t
        USING (
            SELECT day, country, count(*) AS orders, count_if(state = 'cancelled') AS cancelled,
                   sum(CASE WHEN state = 'cancelled' THEN 0 ELSE amount END) AS revenue
            FROM lake.silver.orders GROUP BY day, country
        ) AS s
        ON t.day = s.day AND t.country = s.country
        WHEN MATCHED AND (t.orders <> s.orders OR t.cancelled <> s.cancelled OR t.revenue <> s.revenue)
            THEN UPDATE SET *
        WHEN NOT MATCHED THEN INSERT *
    """)
    print("gold:", result)
    return result.inserted + result.updated


def check(lake: lakescan.Catalog, raw: Path) -> None:
    """Compare gold with totals that plain Python computes from the raw files."""
    first: dict[int, datetime] = {}
    last: dict[int, dict[str, Any]] = {}
    for file in raw.glob("*.jsonl"):
        for line in file.read_text().splitlines():
            try:
                row = _row(json.loads(line))
            except (ValueError, KeyError, TypeError):
                continue
            number, at = row["order_id"], row["changed_at"]
            first[number] = min(first.get(number, at), at)
            if number not in last or at > last[number]["changed_at"]:
                last[number] = row
    expected: dict[tuple[date, str], list[Any]] = {}
    for number, row in last.items():
        totals = expected.setdefault((first[number].date(), row["country"]), [0, 0, 0])
        totals[0] += 1
        totals[1] += row["state"] == "cancelled"
        totals[2] += 0 if row["state"] == "cancelled" else row["amount"]
    found = {(each["day"], each["country"]): each for each in lake.load_table("gold.revenue").to_arrow().to_pylist()}
    assert found.keys() == expected.keys(), "gold has other days or countries than the raw files"
    for key, totals in expected.items():
        assert [found[key][name] for name in ("orders", "cancelled", "revenue")] == totals, f"gold differs for {key}"
    print(f"check: {len(found)} rows of gold are what the raw files say")


def maintain(lake: lakescan.Catalog) -> None:
    """Repair the effects of small commits: compact files, and expire old states as the tables' properties define."""
    for name in ("bronze.events", "silver.orders", "gold.revenue"):
        print(f"maintain {name}:", lake.load_table(name).maintain())


if __name__ == "__main__":
    main()
