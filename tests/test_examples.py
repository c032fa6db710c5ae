"""The example projects do what their README says, run again, and go on where they ended."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from examples.lakehouse import lakehouse

import lakescan

EXAMPLES = Path(__file__).parents[1] / "examples"


def run(folder: Path, days: int) -> dict[str, int]:
    return lakehouse.main(["--folder", str(folder), "--days", str(days), "--orders", "40"])


def test_the_lakehouse_is_what_its_raw_files_say_and_a_run_without_new_files_changes_nothing(tmp_path: Path) -> None:
    assert run(tmp_path, 2) == {"bronze": 42 + 52, "silver": 40 + 50 - _repeated(tmp_path), "gold": 10}
    assert run(tmp_path, 2) == {"bronze": 0, "silver": 0, "gold": 0}
    later = run(tmp_path, 3)
    assert later["bronze"] == 52
    assert 40 <= later["silver"] <= 50
    assert lakescan.table(tmp_path / "lake" / "silver" / "refused").count() == 2 * 3


def _repeated(folder: Path) -> int:
    """How many of the second day's changes are of an order that the same file changes once more."""
    lines = (folder / "raw" / "2026-01-02.jsonl").read_text().splitlines()[:-2]
    numbers = [json.loads(line)["order_id"] for line in lines]
    return len(numbers) - len(set(numbers))


def test_the_lakehouse_loads_nothing_twice_if_a_run_ended_before_it_kept_its_offset(tmp_path: Path) -> None:
    run(tmp_path, 2)
    (tmp_path / "silver.offset").unlink()
    assert run(tmp_path, 2) == {"bronze": 0, "silver": 0, "gold": 0}


@pytest.mark.parametrize(
    ("example", "arguments", "end"),
    [
        ("lakehouse/lakehouse.py", ["--days", "2", "--orders", "20"], "10 rows of gold are what the raw files say"),
    ],
)
def test_one_command_runs_an_example_in_an_empty_folder(
    tmp_path: Path, example: str, arguments: list[str], end: str
) -> None:
    command = [sys.executable, str(EXAMPLES / example), *arguments]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert end in done.stdout
