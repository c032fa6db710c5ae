"""Examples that follow a database, are scheduled, and run on Connect: killed or repeated, they are right."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import closing
from datetime import date
from pathlib import Path

import pytest
from examples.cdc import cdc
from examples.orchestrated import steps

import lakescan
from tests.support import own_catalog

no_other_catalogs = own_catalog.no_other_catalogs

ROOT = Path(__file__).parents[1]
# Ends the process, as a power cut would, when it keeps the offset for the nth time: before it is kept, or after.
KILLED = """
import os, signal, sys
from pathlib import Path
from examples.cdc import cdc
kept, count = cdc.keep, 0
def keep(offset, value):
    global count
    count += 1
    if sys.argv[3] == "after":
        kept(offset, value)
    if count == int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)
    kept(offset, value)
cdc.keep = keep
cdc.main(["--folder", sys.argv[1], "--changes", "0", "--batch", "20"])
"""


def run(arguments: list[str], folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(ROOT), *sys.path])
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("SPARK_", "PYSPARK_"))}
    environment |= {"PYTHONPATH": path, **variables}
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=900)


def commits(table: lakescan.Table) -> list[str]:
    """The batches that the table's commits recorded, oldest first."""
    return [dict(summary)["spark.sql.streaming.epochId"] for summary in table.history()["summary"].to_pylist()]


def test_a_table_follows_a_database_though_it_is_killed_at_each_step(tmp_path: Path) -> None:
    with closing(cdc.open_database(tmp_path)) as database:
        cdc.work(database, 60, seed=1)
        (changes,) = database.execute("SELECT count(*) FROM log").fetchone()
        # 1: before the first batch is planned; 2: after its commit, before it is done; then the next batch, planned
        for step, moment in ((1, "before"), (2, "before"), (2, "after")):
            done = run(["-c", KILLED, str(tmp_path), str(step), moment], tmp_path)
            assert done.returncode == -signal.SIGKILL, done.stderr
        assert json.loads((tmp_path / "offset.json").read_text()) == {"done": 20, "next": 40}
        cdc.work(database, 5, seed=2)  # what came meanwhile is of later batches
        table = cdc.open_table(tmp_path)
        cdc.follow(database, table, tmp_path / "offset.json", 50)
        cdc.check(database, table)
        assert commits(table)[:2] == ["20", "40"]
        assert len(set(commits(table))) == len(commits(table))
        assert changes > 40


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


def test_a_scheduled_day_that_runs_again_is_there_once(tmp_path: Path) -> None:
    days = [date(2026, 1, 1), date(2026, 1, 2)]
    for day in (*days, days[0]):
        assert steps.load(tmp_path, day)["rows"] == 200
        expected = sum(steps.extract(day)["amount"].to_pylist())
        assert steps.total(tmp_path, day) == {"rows": 3, "amount": expected}
    lake = steps.open_lake(tmp_path)
    assert lake.load_table("shop.sales").count() == 400
    assert lake.load_table("shop.totals").count() == 6
    assert set(steps.mend(tmp_path)) == {"shop.sales", "shop.totals"}


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
        "assert jobs.definitions.resolve_job_def('daily') if hasattr(jobs.definitions, 'resolve_job_def') else True\n"
    )
    folder = ROOT / "examples" / "orchestrated"
    done = run(["-c", code], folder, LAKE_FOLDER=str(tmp_path / "lake"), DAGSTER_HOME=str(tmp_path))
    assert done.returncode == 0, done.stderr[-3000:]
    assert steps.open_lake(tmp_path / "lake").load_table("shop.sales").count() == 200


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
