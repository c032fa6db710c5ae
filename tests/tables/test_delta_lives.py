"""Delta tables through random histories: features on and off, columns, rows, restores, clones, VACUUM; with a model."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from lakescan.delta.commit import actions as file_changes
from tests.support.delta_life import Life

DAYS = 20 * 86400 * 1000


@pytest.fixture(autouse=True)
def files_were_removed_long_ago(monkeypatch: pytest.MonkeyPatch) -> None:
    """Age removed files, so that VACUUM finds files to delete."""
    monkeypatch.setattr(file_changes, "_current_millis", lambda: int(time.time() * 1000) - DAYS)


def live(folder: Path, seed: int, steps: int) -> None:
    life = Life(folder, seed)
    for _ in range(steps):
        life.step()


def test_a_short_random_history_equals_the_model(tmp_path: Path) -> None:
    live(tmp_path / "t", 7, 25)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 112))
def test_a_long_random_history_equals_the_model(tmp_path: Path, seed: int) -> None:
    live(tmp_path / "t", seed, 40)
