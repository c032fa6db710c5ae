from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import lakescan
from tests.support import own_catalog

local, no_other_catalogs = own_catalog.local, own_catalog.no_other_catalogs


@pytest.fixture(params=["iceberg", "delta"])
def made(request: pytest.FixtureRequest, local: lakescan.Catalog) -> Callable[..., lakescan.Table]:
    """Makes the table `local.db.t` of each format in turn."""

    def make(columns: str = "id BIGINT, part STRING", partition_by: tuple[str, ...] = ("part",), **more: Any) -> Any:
        return local.create_table("db.t", columns, format=request.param, partition_by=partition_by, **more)

    return make
