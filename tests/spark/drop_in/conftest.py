"""An enabled session with the settings of a job for the JARs: catalog `lake`, and Delta tables in `spark_catalog`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import lakescan.spark

ICEBERG = "org.apache.iceberg.spark.SparkCatalog"
DELTA = "org.apache.spark.sql.delta.catalog.DeltaCatalog"


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the tables of the catalog `lake`."""
    return tmp_path_factory.mktemp("warehouse")


@pytest.fixture(scope="module")
def enabled(spark: Any, warehouse: Path) -> Iterator[Any]:
    """The session, enabled with settings as of a job for the JARs."""
    settings = {
        "spark.sql.catalog.lake": ICEBERG,
        "spark.sql.catalog.lake.type": "hadoop",
        "spark.sql.catalog.lake.warehouse": str(warehouse),
        "spark.sql.catalog.spark_catalog": DELTA,
    }
    for name, value in settings.items():
        spark.conf.set(name, value)
    lakescan.spark.enable(spark)
    yield spark
    lakescan.spark.disable(spark)
    for name in settings:
        spark.conf.unset(name)
