"""A day's load as three functions, which any scheduler can call and repeat.

    python steps.py [--folder ./orchestrated-data] [--day 2026-01-01]

They depend on no scheduler: `dagster_jobs.py` uses them as assets of Dagster, `airflow_dags.py` as tasks of Airflow.
Each opens the tables' newest state and is safe to repeat. A load is one commit or none, and so are totals.
"""

from __future__ import annotations

import argparse
import random
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa

import lakescan

COUNTRIES = ("DE", "FR", "JP")


def open_lake(folder: Path) -> lakescan.Catalog:
    """Open the catalog and its tables."""
    lake = lakescan.catalog("orchestrated", warehouse=folder)
    lake.create_namespace("shop", exist_ok=True)
    lake.create_table_if_not_exists("shop.sales", "day DATE, country STRING, amount BIGINT", partition_by="day")
    lake.create_table_if_not_exists("shop.totals", "day DATE, country STRING, amount BIGINT", partition_by="day")
    return lake


def extract(day: date) -> pa.Table:
    """Return the sales of a day, as another system would supply them: the same on every call."""
    chance = random.Random(day.isoformat())
    count = 200
    return pa.table(
        {
            "day": pa.array([day] * count, pa.date32()),
            "country": [chance.choice(COUNTRIES) for _ in range(count)],
            "amount": pa.array([chance.randrange(1, 100) for _ in range(count)], pa.int64()),
        }
    )


def load(folder: Path, day: date) -> dict[str, Any]:
    """Replace the rows of a day by the extracted ones, so that a day loaded again is not duplicated."""
    sales = open_lake(folder).load_table("shop.sales")
    result = sales.overwrite(extract(day), where=f"day = DATE'{day}'")
    return {"rows": result.rows, "version": str(sales.version)}


def total(folder: Path, day: date) -> dict[str, Any]:
    """Replace the totals of a day by the sums of its sales."""
    lake = open_lake(folder)
    text = """SELECT day, country, sum(amount) AS amount FROM orchestrated.shop.sales
              WHERE day = :day GROUP BY day, country"""
    rows = lakescan.sql(text, {"day": day}).to_arrow()
    typed = rows.set_column(2, "amount", rows["amount"].cast(pa.int64()))
    result = lake.load_table("shop.totals").overwrite(typed, where=f"day = DATE'{day}'")
    return {"rows": result.rows, "amount": sum(typed["amount"].to_pylist())}


def mend(folder: Path) -> dict[str, Any]:
    """Maintain both tables. A failed step fails the task after the other steps ran."""
    lake = open_lake(folder)
    done = {name: lake.load_table(name).maintain() for name in ("shop.sales", "shop.totals")}
    failed = [f"{name}: {step}" for name, result in done.items() for step in result.failed]
    if failed:
        raise RuntimeError("; ".join(failed))
    return {name: str(result) for name, result in done.items()}


def main(arguments: list[str] | None = None) -> None:
    """Run the steps one after the other, as a scheduler would."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path("orchestrated-data"))
    parser.add_argument("--day", type=date.fromisoformat, default=date(2026, 1, 1))
    given = parser.parse_args(arguments)
    print("load:", load(given.folder, given.day))
    print("total:", total(given.folder, given.day))
    print("mend:", mend(given.folder))


if __name__ == "__main__":
    main()
