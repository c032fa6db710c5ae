"""One Flink for all tests of this folder, and the catalog that it shares with lakescan."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import lakescan

from .session import ROOT, FlinkSession


@pytest.fixture(scope="session")
def lake(tmp_path_factory: pytest.TempPathFactory) -> lakescan.Catalog:
    """The catalog `lake`, with the namespace `db`."""
    catalog = lakescan.catalog("lake", warehouse=tmp_path_factory.mktemp("flink") / "lake")
    catalog.create_namespace("db")
    return catalog


@pytest.fixture(scope="session")
def flink(lake: lakescan.Catalog, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FlinkSession]:
    """A Flink session with the same catalog."""
    subprocess.run([ROOT / "scripts" / "flink.sh"], check=True)
    (folder,) = (each / "lake" for each in tmp_path_factory.getbasetemp().glob("flink0"))
    session = FlinkSession(folder, Path(tmp_path_factory.mktemp("log")) / "flink.log")
    yield session
    session.close()
