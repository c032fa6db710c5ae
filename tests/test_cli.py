"""The command line: what it prints, and one line instead of a traceback where something is wrong."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from lakescan.cli import main; main()", *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, env={"COLUMNS": "200", "PATH": "/usr/bin"}
    )


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
    ],
)
def test_an_error_is_one_line_that_says_what_to_do(shop, arguments: list[str], message: str) -> None:
    found = run(*(shop.customers if a == "SHOP" else a for a in arguments))
    assert found.returncode == 1
    assert message in found.stderr
    assert "Traceback" not in found.stderr
