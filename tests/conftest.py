"""Fixtures and hooks for all tests: sample tables made once per run, and one Spark session."""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Generator, Iterator
from contextvars import copy_context
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, settings
from samples.shop import Shop, make_shop

import lakescan
from tests.support.failed_tables import describe_tables
from tests.support.session import local_session

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)

# No deadline: the first example may import a library or wait for a busy machine.
settings.register_profile("lakescan", deadline=None, suppress_health_check=[HealthCheck.too_slow])
# CI tries the same examples each time, so that its result does not depend on chance. Other runs try new examples.
settings.register_profile("ci", settings.get_profile("lakescan"), derandomize=True)
# `make differential`: new examples, more of them by default, and a blob to reproduce each failure.
settings.register_profile("differential", settings.get_profile("lakescan"), max_examples=300, print_blob=True)
settings.load_profile("lakescan")


@pytest.fixture(autouse=True)
def _no_namespace_of_use() -> Iterator[None]:
    """Reset the namespace that a test set with USE."""
    yield
    for variable in copy_context():
        if variable.name == "lakescan_namespace":
            variable.set(())


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait a tenth as long between attempts: tests of retries would mostly sleep."""
    from lakescan.common import retries

    hurried = SimpleNamespace(sleep=lambda seconds: time.sleep(seconds / 10), monotonic=time.monotonic)
    monkeypatch.setattr(retries, "time", hurried)


@pytest.fixture(autouse=True)
def _no_catalogs_of_other_tests() -> Iterator[None]:
    """Unregister the catalogs that a test registered."""
    from lakescan.catalogs import registry

    before = dict(registry._GIVEN)
    yield
    registry._GIVEN.clear()
    registry._CONFIGURED.clear()
    registry._GIVEN.update(before)


@pytest.fixture
def no_other_catalogs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test sees only the catalogs that it registers, not those of fixtures for several tests."""
    from lakescan.catalogs import registry

    monkeypatch.setattr(registry, "_GIVEN", {})
    monkeypatch.setattr(registry, "_OPEN", {})


@pytest.fixture
def local(tmp_path: Path, no_other_catalogs: None) -> lakescan.Catalog:
    """An embedded catalog with the namespace `db`, the only one."""
    found = lakescan.catalog("local", warehouse=tmp_path / "lake")
    found.create_namespace("db")
    return found


@pytest.fixture(scope="session")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Shop:
    """The demo's tables, small: renamed column, month partitions, position deletes, vectors; a checkpoint, updates."""
    return make_shop(tmp_path_factory.mktemp("shop"), rows=6_000)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[object]:
    """One classic Spark session for the run, with the formats registered and pushdown on."""
    import lakescan.spark

    warehouse = {"spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse"))}
    session = local_session("lakescan tests", warehouse)
    lakescan.spark.register(session)
    yield session
    session.stop()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark tests that take the Spark session as `spark`, and order the tests.

    With LAKESCAN_SPARK_LANE=arrow, Spark tests use only the Arrow lane, and tests marked `replaced` are left out
    because they test Spark's own reader. Files with Spark tests or slow tests come first, so that processes that share
    the files end at about the same time.
    """
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)
    if os.environ.get("LAKESCAN_SPARK_LANE") == "arrow":
        others = [item for item in items if item.get_closest_marker("replaced") is not None]
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if item not in others]
    weights = Counter(item.path for item in items if {"spark", "slow"} & {mark.name for mark in item.iter_markers()})
    items.sort(key=lambda item: (-weights[item.path], str(item.path)))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, object, object]:
    """Print the tables that a failed test made below its `tmp_path`."""
    report = yield
    folder = getattr(item, "funcargs", {}).get("tmp_path")
    if call.when == "call" and report.failed and isinstance(folder, Path) and (tables := describe_tables(folder)):
        report.sections.append(("Tables that the test made", tables))
    return report


def corpus_folder() -> Path | None:
    """Return the folder of other projects' tables: LAKESCAN_CORPUS, or one next to the checkout; None if absent."""
    named = os.environ.get("LAKESCAN_CORPUS")
    folder = Path(named) if named else Path(__file__).parents[2] / "shared" / "corpus"
    return folder if (folder / "delta" / "cases.json").exists() else None
