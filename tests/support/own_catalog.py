"""Fixtures for tests that see only the catalogs that they make."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import lakescan
from lakescan.catalogs import registry as configured


@pytest.fixture(autouse=True)
def no_other_catalogs(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Start each test without registered catalogs."""
    monkeypatch.setattr(configured, "_GIVEN", {})
    monkeypatch.setattr(configured, "_OPEN", {})
    return


@pytest.fixture
def local(tmp_path: Path) -> lakescan.Catalog:
    """An embedded catalog with the namespace `db`."""
    found = lakescan.catalog("local", warehouse=tmp_path / "lake")
    found.create_namespace("db")
    return found
