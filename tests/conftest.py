"""Shared by all tests: sample tables made once a run, and one Spark session."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings
from samples.shop import Shop, make_shop

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)

# Tests time nothing: the first example may import a library, or wait for a busy machine.
settings.register_profile("lakescan", deadline=None)
settings.load_profile("lakescan")


@pytest.fixture(scope="session")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Shop:
    """The demo's tables, small: renamed column, month partitions, position deletes, vectors; a checkpoint, updates."""
    return make_shop(tmp_path_factory.mktemp("shop"), rows=6_000)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[object]:
    """One classic session for the run, with the formats registered and pushdown on."""
    from pyspark.sql import SparkSession

    import lakescan.spark

    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.driver.memory": "4g",
        "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
    }
    builder = SparkSession.builder.master("local[2]").appName("lakescan tests")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    lakescan.spark.register(session)
    yield session
    session.stop()


def corpus_folder() -> Path | None:
    """Where other projects' tables are: LAKESCAN_CORPUS, or a folder beside the checkout; None where absent."""
    named = os.environ.get("LAKESCAN_CORPUS")
    folder = Path(named) if named else Path(__file__).parents[2] / "shared" / "corpus"
    return folder if (folder / "delta" / "cases.json").exists() else None
