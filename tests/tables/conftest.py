from __future__ import annotations

import pytest

import lakescan
from tests.support import own_catalog
from tests.tables.support import Make, maker

local, no_other_catalogs = own_catalog.local, own_catalog.no_other_catalogs


@pytest.fixture(params=["iceberg", "iceberg version 3", "delta"])
def made(request: pytest.FixtureRequest, local: lakescan.Catalog) -> Make:
    """Return a function that makes the table `local.db.t`, for each format in turn."""
    return maker(request.param, local)
