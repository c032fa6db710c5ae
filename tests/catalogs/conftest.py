from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import lakescan
from tests.support.hive_server import hive_catalog, hive_server


@pytest.fixture(scope="session")
def hive_uri(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Start a Hive metastore for the whole test run and return its URI."""
    with hive_server(spark._jvm, tmp_path_factory.mktemp("hive")) as found:
        yield found


@pytest.fixture
def hive(hive_uri: str, tmp_path: Path) -> Iterator[lakescan.Catalog]:
    """The catalog `hive` with the namespace `db`."""
    with hive_catalog(hive_uri, tmp_path) as found:
        yield found


@pytest.fixture(autouse=True)
def _only_own_catalogs(no_other_catalogs: None) -> None:
    """Tests of this folder see only the catalogs that they register."""
