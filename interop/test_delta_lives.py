"""Delta on Spark reads each version of tables with random histories made by lakescan, and continues them."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from tests.support.delta_life import Life
from tests.support.delta_state import newest_version
from tests.support.rows import differences

import lakescan
from interop.test_delta_commits import checked, forget


@pytest.mark.parametrize("seed", range(6))
def test_delta_reads_every_version_of_a_random_history(jvm: Any, warehouse: Path, seed: int) -> None:
    life = Life(warehouse / "delta" / f"life{seed}", seed)
    for _ in range(30):
        life.step()
    forget(jvm)
    table = f"delta.`{life.folder}`"
    assert differences(jvm.sql(f"SELECT * FROM {table}").toArrow(), life.table.to_arrow()) == ""
    assert checked(jvm, str(life.folder))
    log, yesterday = life.folder / "_delta_log", time.time() - 86400
    # Delta on Spark refuses versions older than the retention of removed files; VACUUM steps made some.
    recent = [each for each in life.known() if (log / f"{each:020d}.json").stat().st_mtime > yesterday]
    for version in recent[::5]:
        expected = life.table.scan().as_of(version=version).to_arrow()
        assert differences(jvm.sql(f"SELECT * FROM {table} VERSION AS OF {version}").toArrow(), expected) == ""
    jvm.sql(f"DELETE FROM {table} WHERE id % 2 = 0")
    jvm.sql(f"INSERT INTO {table} (id) VALUES (1000)")
    found = lakescan.table(life.folder).to_arrow()
    assert differences(found, jvm.sql(f"SELECT * FROM {table}").toArrow()) == ""
    assert newest_version(life.folder) > max(life.known())
