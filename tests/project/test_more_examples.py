"""Examples that follow a database, are scheduled, or run on Connect stay correct when killed or repeated."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from datetime import date
from pathlib import Path

import pytest
from examples.cdc import cdc
from examples.orchestrated import steps

import lakescan

pytestmark = pytest.mark.usefixtures("no_other_catalogs")

ROOT = Path(__file__).parents[2]
# Ends the process as a power cut would, before or after its nth call of one kind: the catalog's commit
# (`commit`), or the storing of the offset (`keep`).
KILLED = """
import os, signal, sys
from examples.cdc import cdc
from pyiceberg.catalog.sql import SqlCatalog
folder, kind, number, moment = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
owner, name = (SqlCatalog, "commit_table") if kind == "commit" else (cdc, "keep")
call, count = getattr(owner, name), 0
def counted(*values, **named):
    global count
    count += 1
    if (count, moment) == (number, "before"):
        os.kill(os.getpid(), signal.SIGKILL)
    result = call(*values, **named)
    if (count, moment) == (number, "after"):
        os.kill(os.getpid(), signal.SIGKILL)
    return result
setattr(owner, name, counted)
cdc.main(["--folder", folder, "--changes", "0", "--batch", "20"])
"""


def run(arguments: list[str], folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(ROOT), *sys.path])
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("SPARK_", "PYSPARK_"))}
    environment |= {"PYTHONPATH": path, **variables}
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=900)


def check_each_commit(database: sqlite3.Connection, table: lakescan.Table) -> list[int]:
    """Check that each state of the table equals the log up to the end of its batch; return these ends, oldest first."""
    ends: list[int] = []
    for commit in table.refresh().history().to_pylist():
        ends.append(int(dict(commit["summary"])["spark.sql.streaming.epochId"]))
        expected: dict[int, dict[str, object]] = {}
        for (line,) in database.execute("SELECT change FROM log WHERE position <= ? ORDER BY position", ends[-1:]):
            change = json.loads(line)
            expected.pop(change["id"], None)
            if change["op"] != "d":
                expected[change["id"]] = {name: change[name] for name in ("id", "name", "city")}
        found = table.scan().as_of(version=commit["snapshot_id"]).to_arrow().to_pylist()
        assert sorted(found, key=lambda row: row["id"]) == [expected[number] for number in sorted(expected)]
    return ends


# Where each run is killed, and the offset that it leaves. Each run resumes where the previous one was killed.
KILLS = [
    ("keep", 1, "before", None),  # nothing is planned
    ("commit", 1, "before", {"done": 0, "next": 20}),  # files are written, but not committed
    ("commit", 1, "after", {"done": 0, "next": 20}),  # committed, but not recorded as done
    ("keep", 1, "before", {"done": 0, "next": 20}),  # the batch was found in the table, but is not recorded as done
    ("keep", 1, "after", {"done": 20, "next": None}),
    ("keep", 1, "after", {"done": 20, "next": 40}),  # planned
    ("keep", 3, "before", {"done": 40, "next": 60}),  # after the second commit: the third record marks it as done
]


@pytest.mark.slow
def test_a_table_follows_a_database_although_it_is_killed_at_each_step(tmp_path: Path) -> None:
    offset = tmp_path / "offset.json"
    with closing(cdc.open_database(tmp_path)) as database:
        cdc.work(database, 70, seed=1)
        for kind, number, moment, left in KILLS:
            done = run(["-c", KILLED, str(tmp_path), kind, str(number), moment], tmp_path)
            assert done.returncode == -signal.SIGKILL, done.stderr
            assert (json.loads(offset.read_text()) if offset.exists() else None) == left
        cdc.work(database, 5, seed=2)  # concurrent changes belong to later batches
        (last,) = database.execute("SELECT max(position) FROM log").fetchone()
        table = cdc.open_table(tmp_path)
        cdc.follow(database, table, offset, 50)
        cdc.check(database, table)
        assert check_each_commit(database, table) == [20, 40, *range(60, last, 50), last]


def test_a_batch_that_is_repeated_changes_nothing_and_the_last_change_of_a_row_counts(tmp_path: Path) -> None:
    with closing(cdc.open_database(tmp_path)) as database, database:
        database.execute("INSERT INTO customers VALUES (1, 'Ada', 'Lyon'), (2, 'Ben', NULL), (3, 'Cleo', 'Osaka')")
        database.execute("DELETE FROM customers WHERE id IN (1, 3)")
        database.execute("INSERT INTO customers VALUES (1, 'Ada', 'Delhi')")
        lines = [line for (line,) in database.execute("SELECT change FROM log ORDER BY position")]
        table = cdc.open_table(tmp_path)
        assert cdc.apply(table, lines, 6).inserted == 2
        again = cdc.apply(table, lines, 6)
        assert (again.inserted, again.updated, again.deleted) == (0, 0, 0)
        assert cdc.check(database, table) == 2


def test_a_scheduled_day_that_runs_again_is_loaded_once(tmp_path: Path) -> None:
    days = [date(2026, 1, 1), date(2026, 1, 2)]
    for day in (*days, days[0]):
        assert steps.load(tmp_path, day)["rows"] == 200
        expected = sum(steps.extract(day)["amount"].to_pylist())
        assert steps.total(tmp_path, day) == {"rows": 3, "amount": expected}
    lake = steps.open_lake(tmp_path)
    assert lake.load_table("shop.sales").count() == 400
    assert lake.load_table("shop.totals").count() == 6
    assert set(steps.mend(tmp_path)) == {"shop.sales", "shop.totals"}


def test_days_are_loaded_concurrently_into_a_new_lake(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    days = [date(2026, 1, day) for day in (1, 2, 3)]
    with context.Pool(3) as pool:
        loaded = pool.starmap(steps.load, [(tmp_path / "lake", day) for day in days])
    assert [each["rows"] for each in loaded] == [200] * 3
    assert steps.open_lake(tmp_path / "lake").load_table("shop.sales").count() == 600


def test_a_scheduled_maintenance_fails_if_a_step_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise lakescan.StorageError("the store does not answer")

    steps.open_lake(tmp_path)
    monkeypatch.setattr(lakescan.Table, "remove_orphans", fails)
    with pytest.raises(RuntimeError, match=r"shop\.sales: remove orphans: failed: .*does not answer"):
        steps.mend(tmp_path)


def test_the_assets_of_dagster_load_a_day(tmp_path: Path) -> None:
    pytest.importorskip("dagster", reason="dagster is not installed")
    code = (
        "import dagster, dagster_jobs as jobs\n"
        "assert dagster.materialize([jobs.sales, jobs.totals], partition_key='2026-01-01').success\n"
        "assert dagster.materialize([jobs.maintenance]).success\n"
        "daily, mend = (jobs.definitions.resolve_job_def(name) for name in ('daily', 'mend'))\n"
        "assert daily.execute_in_process(partition_key='2026-01-02').success\n"
        "assert mend.execute_in_process().success\n"
        "assert {each.name for each in jobs.definitions.schedules} == {'daily_schedule', 'weekly'}\n"
    )
    folder = ROOT / "examples" / "orchestrated"
    done = run(["-c", code], folder, LAKE_FOLDER=str(tmp_path / "lake"), DAGSTER_HOME=str(tmp_path))
    assert done.returncode == 0, done.stderr[-3000:]
    assert steps.open_lake(tmp_path / "lake").load_table("shop.sales").count() == 400


def test_the_tasks_of_airflow_load_a_day(tmp_path: Path) -> None:
    pytest.importorskip("airflow", reason="apache-airflow is not installed")
    folder = ROOT / "examples" / "orchestrated"
    variables = {"LAKE_FOLDER": str(tmp_path / "lake"), "AIRFLOW_HOME": str(tmp_path)}
    variables |= {"AIRFLOW__CORE__DAGS_FOLDER": str(folder), "AIRFLOW__CORE__LOAD_EXAMPLES": "False"}
    for command in (["db", "migrate"], ["dags", "test", "daily_sales", "2026-01-01"]):
        done = run(["-m", "airflow", *command], folder, **variables)
        assert done.returncode == 0, done.stderr[-3000:]
    days = steps.open_lake(tmp_path / "lake").load_table("shop.sales").to_arrow()["day"].to_pylist()
    assert days == [date(2026, 1, 1)] * 200


@pytest.mark.parametrize(
    ("example", "arguments", "end"),
    [
        ("cdc/cdc.py", ["--changes", "40"], "rows of the database"),
        ("orchestrated/steps.py", [], "mend: {"),
    ],
)
def test_one_command_runs_an_example_in_an_empty_folder(
    tmp_path: Path, example: str, arguments: list[str], end: str
) -> None:
    done = run([str(ROOT / "examples" / example), *arguments], tmp_path)
    assert done.returncode == 0, done.stderr
    assert end in done.stdout


@pytest.mark.spark
def test_one_command_runs_the_client_of_connect(tmp_path: Path) -> None:
    pytest.importorskip("grpc", reason="grpcio, which pyspark[connect] brings, is not installed")
    client = str(ROOT / "examples" / "connect" / "client.py")
    done = run([client], tmp_path, PYSPARK_PYTHON=sys.executable)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "check: 5 rows are there" in done.stdout
