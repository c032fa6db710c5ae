from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import lakescan
from lakescan.catalogs import configured


@pytest.fixture(autouse=True)
def no_other_catalogs(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Each test knows the catalogs that it makes."""
    monkeypatch.setattr(configured, "_GIVEN", {})
    monkeypatch.setattr(configured, "_OPEN", {})
    return


@pytest.fixture
def local(tmp_path: Path) -> lakescan.Catalog:
    """An embedded catalog with the namespace `db`."""
    found = lakescan.catalog("local", warehouse=tmp_path / "lake")
    found.create_namespace("db")
    return found


@pytest.fixture(params=["iceberg", "delta"])
def made(request: pytest.FixtureRequest, local: lakescan.Catalog) -> Callable[..., lakescan.Table]:
    """Makes the table `local.db.t` of each format in turn."""

    def make(columns: str = "id BIGINT, part STRING", partition_by: tuple[str, ...] = ("part",), **more: Any) -> Any:
        return local.create_table("db.t", columns, format=request.param, partition_by=partition_by, **more)

    return make
