from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import lakescan.spark
from tests.support.session import local_session

ICEBERG = "org.apache.iceberg.spark.SparkCatalog"
DELTA = "org.apache.spark.sql.delta.catalog.DeltaCatalog"


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the catalogs' tables."""
    return tmp_path_factory.mktemp("warehouse")
