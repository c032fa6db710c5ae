"""A commit writes nothing where a table must not lead, also where pyiceberg writes and not lakescan."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakescan
from lakescan.errors import LocationRefused

CHANGES: dict[str, Callable[[lakescan.Table], Any]] = {
    "rows": lambda table: table.append(pa.table({"id": [2]})),
    "rows deleted": lambda table: table.delete("id = 1"),
    "a property": lambda table: table.alter().set_properties({"a": "b"}).commit(),
    "a column": lambda table: table.alter().add_column("c", "INT").commit(),
    "a branch": lambda table: table.create_branch("b"),
    "statistics": lambda table: table.compute_statistics(),
}


@pytest.fixture
def leading_out(tmp_path: Path) -> Callable[[str], str]:
    """The name of a table of a catalog with limits, whose metadata says in one of two ways to write to `outside`."""
    lake = tmp_path / "lake"
    settings = {"type": "sql", "warehouse": str(lake)}
    free = lakescan.catalog("free", uri=f"sqlite:///{tmp_path}/free.db", **settings)
    limits = {"allowed-locations": str(lake)}
    lakescan.catalog("limited", uri=f"sqlite:///{tmp_path}/limited.db", **settings, **limits)

    def made(how: str) -> str:
        free.create_namespace("db", exist_ok=True)
        table = free.create_table("db.t", "id BIGINT")
        table.append(pa.table({"id": [1]}))
        file = max((lake / "db" / "t" / "metadata").glob("*.metadata.json"))
        said = json.loads(file.read_text())
        outside = str(tmp_path / "outside")
        if how == "location":
            said["location"] = outside
        else:
            said["properties"]["write.metadata.path"] = outside
        hostile = file.with_name("00009-hostile.metadata.json")
        hostile.write_text(json.dumps(said))
        limited = lakescan.catalog("limited")
        limited.create_namespace("db", exist_ok=True)
        limited.register_table("db.t", str(hostile))
        return "limited.db.t"

    return made


@pytest.mark.parametrize("how", ["location", "write.metadata.path"])
@pytest.mark.parametrize("change", CHANGES)
def test_no_change_writes_outside_of_allowed_locations(
    leading_out: Callable[[str], str], tmp_path: Path, how: str, change: str, caplog: pytest.LogCaptureFixture
) -> None:
    name = leading_out(how)
    with caplog.at_level(logging.WARNING), pytest.raises(LocationRefused, match="allowed-locations"):
        CHANGES[change](lakescan.table(name))
    assert not (tmp_path / "outside").exists()
    assert lakescan.table(name).scan().to_arrow()["id"].to_pylist() == [1]
    assert "not removed" not in caplog.text


def test_a_change_that_moves_a_table_out_is_refused_before_it_is_made(
    leading_out: Callable[[str], str], tmp_path: Path
) -> None:
    name = leading_out("write.metadata.path")
    inside, outside = str(tmp_path / "lake" / "m"), str(tmp_path / "elsewhere")
    lakescan.table(name).alter().set_properties({"write.metadata.path": inside}).commit()
    with pytest.raises(LocationRefused):
        lakescan.table(name).alter().set_properties({"write.metadata.path": outside}).commit()
    assert not Path(outside).exists()
    assert lakescan.table(name).count() == 1
