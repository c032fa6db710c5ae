"""The command line: its output, and one line instead of a traceback for an error."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

import lakescan

pytestmark = pytest.mark.slow  # each test starts processes


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from lakescan.cli import main; main()", *arguments]
    environment = {"COLUMNS": "200", "PATH": "/usr/bin", "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


def test_head_shows_rows(shop) -> None:
    found = run("head", shop.customers, "-n", "2", "-w", "country = 'FR'", "-s", "customer_id,country")
    assert found.returncode == 0, found.stderr
    assert found.stdout.count("FR") == 2


def test_explain_draws_the_plan_and_writes_the_page(shop, tmp_path: Path) -> None:
    found = run("explain", shop.orders, "-w", "price > 20", "--html", str(tmp_path / "p.html"))
    assert found.returncode == 0, found.stderr
    assert "files by statistics" in found.stdout
    assert (tmp_path / "p.html").exists()


def test_history_lists_the_commits(shop) -> None:
    assert "UPDATE" in run("history", shop.customers).stdout


def test_inspect_shows_a_metadata_table(shop) -> None:
    found = run("inspect", shop.orders, "refs", "-s", "name,type")
    assert found.returncode == 0, found.stderr
    assert "BRANCH" in found.stdout


def test_options_are_given_as_name_and_value(shop) -> None:
    assert run("head", shop.customers, "-o", "versionAsOf=0").returncode == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["head", "/nowhere"], "NotATable: /nowhere does not exist"),
        (["head", "SHOP", "-o", "versionAsOf"], "InvalidOption: options are written name=value"),
        (["head", "SHOP", "-w", "contry = 'FR'"], "Did you mean 'country'"),
        (["--catalog", "local", "tables", "local"], "InvalidOption: catalogs are written name=folder"),
        (["tables", "nowhere"], "NoSuchCatalog: no catalog 'nowhere' is known"),
        (["expire-snapshots", "SHOP", "--older-than", "2026-01-31"], "UnsupportedFeature"),
        (
            ["expire-snapshots", "SHOP", "--older-than", "2100-01-01"],
            "--older-than 2100-01-01 is in the future",
        ),
        (["remove-orphans", "SHOP", "--older-than", "2100-01-01"], "list the files with a dry run"),
        (
            ["inspect", "SHOP", "history", "-s", "versoin"],
            "NoSuchColumn: history has no column 'versoin'. Did you mean",
        ),
        (["head", "SHOP", "--relocate", "{old"], "--relocate '{old' is not a JSON object"),
        (["head", "SHOP", "-w", "country = '[/red]' and [bold]x = 1"], "InvalidFilter"),
        (["--catalog", "a=/proc/nowhere", "tables", "a"], "StorageError: /proc/nowhere cannot be created"),
    ],
)
def test_an_error_is_one_line_with_advice(shop, arguments: list[str], message: str) -> None:
    found = run(*(shop.customers if a == "SHOP" else a for a in arguments))
    assert found.returncode == 1
    assert message in found.stderr
    assert "Traceback" not in found.stderr


def test_tables_are_created_listed_and_maintained(tmp_path: Path) -> None:
    def run_here(*arguments: str) -> str:
        found = run("--catalog", f"local={tmp_path}/lake", *arguments)
        assert found.returncode == 0, found.stderr
        return found.stdout.strip()

    run_here("sql", "CREATE NAMESPACE local.db")
    assert run_here("sql", "CREATE TABLE local.db.t (id BIGINT, part STRING)") == "local.db.t: id, part"
    run_here("sql", "CREATE TABLE local.db.d (id BIGINT) USING delta")
    assert run_here("tables", "local").split() == ["local.db.d", "local.db.t"]
    assert run_here("compact", "local.db.t") == "nothing to compact"
    local = lakescan.catalog("local", warehouse=tmp_path / "lake")
    for number in range(3):
        local.load_table("db.t").append(pa.table({"id": [number], "part": ["a"]}))
        local.load_table("db.d").append(pa.table({"id": [number]}))
    assert run_here("compact", "local.db.t", "-o", "min-input-files=4") == "nothing to compact"
    assert run_here("compact", "local.db.t", "--purge") == "nothing to compact"
    assert run_here("compact", "local.db.t").startswith("compacted 3 files into 1")
    assert run_here("compact", "local.db.t", "--sort-order", "id DESC").startswith("compacted 1 file into 1")
    assert run_here("compact", "local.db.d", "--zorder-by", "id").startswith("compacted 3 files into 1")
    assert run_here("rewrite-position-deletes", "local.db.t") == "no position deletes to rewrite"
    now = datetime.now(UTC).isoformat()
    expire = ("expire-snapshots", "local.db.t", "--older-than", now)
    assert run_here(*expire, "--retain-last", "2", "--dry-run") == "3 snapshots would be expired"
    assert run_here(*expire, "--no-clean-expired-files") == "4 snapshots expired"
    orphans = run_here("remove-orphans", "local.db.t", "--older-than", "2100-01-01", "--dry-run").split("\n")
    assert sum(line.endswith(".parquet") for line in orphans) == 4
    assert orphans[-1].endswith("files would be removed")
    assert run_here("checkpoint", "local.db.d") == "wrote a checkpoint of version 4"
    assert len(list(Path(tmp_path, "lake").rglob("*.checkpoint.parquet"))) == 1
    assert "2" in run_here("head", "local.db.t", "-s", "id", "-w", "id = 2")


def test_brackets_and_colons_of_tables_are_not_markup(tmp_path: Path) -> None:
    text = "[/red] [bold]x[/bold] :smile:"
    place = f"{tmp_path}/t[b]"
    lakescan.save(pa.table({"a[b]": [text]}), place, format="delta", userMetadata=text)
    head = run("head", place)
    assert head.returncode == 0, head.stderr
    assert text in head.stdout
    assert "a[b]" in head.stdout
    assert text in run("explain", place, "-w", f"`a[b]` = '{text}'").stdout
    assert "t[b]" in run("explain", place).stdout
    assert text in run("inspect", place, "history", "-s", "userMetadata").stdout


def test_the_doctor_prints_advice_with_its_brackets(tmp_path: Path) -> None:
    """The advice contains brackets: pip install 'lakescan[spark]'."""
    program = (
        "import importlib.metadata as m, sys; old = m.version\n"
        "m.version = lambda name: '3.5.0' if name == 'pyspark' else old(name)\n"
        "sys.argv = ['lakescan', 'doctor']; from lakescan.cli import main; main()"
    )
    environment = {**os.environ, "COLUMNS": "250"}
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=False
    )
    assert found.returncode == 1
    assert "lakescan[spark]" in found.stdout
