"""Damaged tables give a lakescan error or their original rows: never a crash, a hang or other rows."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz import child, reading
from tests.fuzz.__main__ import main
from tests.fuzz.damage import KINDS, ROWS, SAME, Case, Damage, NothingToDamage
from tests.fuzz.tables import SAMPLES

ROOT = Path(__file__).parents[2]
CASES = 2 * len(KINDS) * len(SAMPLES)
SEED = 1


@pytest.mark.slow
def test_no_damage_crashes_the_process_or_changes_rows_unnoticed() -> None:
    """Runs in a separate process, which forks: this process may have threads."""
    command = [sys.executable, "-m", "tests.fuzz", "--seed", str(SEED), "--cases", str(CASES)]
    ended = subprocess.run(command, cwd=ROOT, env=os.environ, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_seed_draws_the_same_damage_each_time(tmp_path: Path, kind: str) -> None:
    def contents(folder: Path) -> dict[str, bytes]:
        return {
            str(p.relative_to(folder)): b"" if p.is_symlink() or p.stat().st_size > 2**26 else p.read_bytes()
            for p in sorted(folder.rglob("*"))
            if p.is_file()
        }

    for sample in SAMPLES:
        found = []
        for time in ("first", "second"):
            folder = tmp_path / sample.name / time
            sample.make(folder)
            try:
                told = KINDS[kind](Case(sample, folder, random.Random(f"5/{kind}")))
            except NothingToDamage:
                told = None
            found.append((told and (told.told.replace(time, ""), told.allows), contents(folder)))
        if kind != "paths":  # the pipe's path is the table's location
            assert found[0] == found[1]


def test_rows_that_are_missing_are_noticed() -> None:
    before = {"rows": {"rows": 3, "digest": "a"}, "count": {"rows": 3}}
    other = {"rows": {"rows": 2, "digest": "b"}, "count": {"rows": 2}}
    assert len(reading.failures(Damage("x", SAME), before, other)) == 2
    assert len(reading.failures(Damage("x", ROWS), before, other)) == 2
    assert reading.failures(Damage("x"), before, other) == []
    assert reading.failures(Damage("x"), before, {"rows": {"rows": 2}, "count": {"rows": 3}}) != []


def test_errors_are_lakescan_errors_with_a_message() -> None:
    ours = {"error": "CorruptData", "ours": True, "storage": False, "words": "x is damaged", "at": ""}
    assert reading.failures(Damage("x", SAME), {}, {"rows": ours}) == []
    for wrong in ({"ours": False}, {"words": ""}, {"words": "x" * 4000}):
        assert reading.failures(Damage("x", SAME), {}, {"rows": ours | wrong}) != []
    assert reading.failures(Damage("x", SAME, {"place": "read"}), {}, {"rows": ours}) != []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("work", "how"),
    [
        ("send({'a': 1})", "done"),
        ("import time; time.sleep(60)", "hang"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "crash SIGSEGV"),
        ("x = bytearray(child.RESIDENT + 2**20)\nx[:] = b'1' * len(x)", "memory"),
    ],
)
def test_a_child_reports_how_it_ended(work: str, how: str) -> None:
    script = f"from tests.fuzz import child\ndef work(send):\n    exec({work!r})\nprint(child.run(work, 6).how)"
    ended = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == how, child.MEMORY


@pytest.mark.parametrize(
    ("option", "words"), [("--tables", "no table with 'nothing' in its name"), ("--kinds", "--kinds nothing")]
)
def test_a_run_without_cases_is_refused(
    option: str, words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["fuzz", option, "nothing", "--cases", "1"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert words in capsys.readouterr().err
