from __future__ import annotations

import pytest

import lakescan
from tests.tables.support import Make, maker


@pytest.fixture(params=["iceberg", "iceberg version 3", "delta"])
def made(request: pytest.FixtureRequest, local: lakescan.Catalog) -> Make:
    """Return a function that makes the table `local.db.t`, for each format in turn."""
    return maker(request.param, local)


@pytest.fixture(autouse=True)
def _only_own_catalogs(no_other_catalogs: None) -> None:
    """Tests of this folder see only the catalogs that they register."""
