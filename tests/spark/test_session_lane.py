"""Whether Spark's own reader serves a session, and the reason in `doctor` and `explain`."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

import lakescan
import lakescan.spark
from lakescan.spark import registration, session_lane


class Session:
    """A classic session of a platform: a version and settings."""

    def __init__(self, version: str, **settings: str) -> None:
        self.version = version
        self.conf = SimpleNamespace(get=lambda name, default: settings.get(name.replace(".", "_"), default))


@pytest.fixture(autouse=True)
def _no_lane_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LAKESCAN_SPARK_LANE", raising=False)


@pytest.mark.parametrize("version", ["4.1.0", "4.1.4", "4.2.1", "4.3.0"])
def test_releases_of_apache_spark_that_were_tried_read_by_themselves(version: str) -> None:
    assert session_lane.why_arrow_session(Session(version)) is None  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("session", "reason"),
    [
        (Session("4.0.1"), "Spark 4.0.1 is not one of the tested versions 4.1, 4.2, 4.3"),
        (Session("4.4.0"), "Spark 4.4.0 is not one of the tested versions"),
        (Session("4.4.0-SNAPSHOT"), "Spark 4.4.0-SNAPSHOT is not a release of Apache Spark"),
        (Session("4.1.1.2.20261001"), "Spark 4.1.1.2.20261001 is not a release of Apache Spark, or is a vendor's"),
        (Session("4.1.0-amzn-1"), "the Spark 4.1.0-amzn-1 is Amazon's"),
        (Session("4.1.0", spark_databricks_clusterUsageTags_sparkVersion="18.1"), "the platform is Databricks"),
    ],
)
def test_other_versions_and_vendors_use_the_arrow_lane_with_the_reason(
    session: Any, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = session_lane.why_arrow_session(session)
    assert found is not None
    assert found.startswith(reason)
    assert found.endswith("Spark's own reader is untested with it (LAKESCAN_SPARK_LANE=native uses it)")
    assert reason in registration.describe_reads(session)
    monkeypatch.setenv("LAKESCAN_SPARK_LANE", "native")
    assert session_lane.why_arrow_session(session) is None


def test_on_the_driver_of_databricks_the_variable_of_its_runtime_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABRICKS_RUNTIME_VERSION", "18.1")
    found = session_lane.why_arrow_session(Session("4.1.0"))  # type: ignore[arg-type]
    assert found is not None
    assert "Databricks" in found


def test_an_unknown_lane_of_the_environment_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKESCAN_SPARK_LANE", "arow")
    with pytest.raises(lakescan.InvalidOption, match=r"LAKESCAN_SPARK_LANE has to be .*'arow'.* Did you mean 'arrow'"):
        session_lane.why_arrow_session(Session("4.3.0"))  # type: ignore[arg-type]


@pytest.fixture
def table(tmp_path: Path) -> str:
    lakescan.save(pa.table({"id": range(10)}), f"{tmp_path}/t", format="delta")
    return f"{tmp_path}/t"


def plan_of(frame: Any) -> str:
    return str(frame._jdf.queryExecution().toString())


def line_of(spark: Any) -> str:
    """Return `doctor`'s finding about reads."""
    (line,) = [each.found for each in lakescan.doctor(spark).checks if each.subject == "reads"]
    return line


@pytest.mark.spark
def test_the_environment_chooses_the_lane_and_an_option_wins(
    spark: Any, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lakescan.spark.register(spark)
    scan = lakescan.table(table).scan()
    assert line_of(spark) == "replaced by scans of Spark's Parquet reader, by an optimizer rule"
    assert "1 files in the native lane" in lakescan.spark.explain(scan)
    monkeypatch.setenv("LAKESCAN_SPARK_LANE", "arrow")
    reason = "in the Arrow lane: the environment variable LAKESCAN_SPARK_LANE is arrow"
    assert line_of(spark) == reason
    assert f"1 files {reason}" in lakescan.spark.explain(scan)
    read = spark.read.format("delta").load(table)
    for frame in (read, scan.to_spark(spark), lakescan.spark.table(spark, table)):
        assert "FileScan" not in plan_of(frame)
        assert frame.count() == 10
    native = spark.read.format("delta").option("lane", "native").load(table)
    for frame in (native, scan.options(lane="native").to_spark(spark)):
        assert "FileScan parquet" in plan_of(frame)
        assert frame.count() == 10


@pytest.mark.spark
def test_a_rule_that_cannot_be_installed_is_named_and_reads_continue(
    spark: Any, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = spark.newSession()
    assert line_of(other) == "not replaced yet: lakescan.spark.register(spark) was not called"

    def fails(session: Any) -> None:
        raise TypeError("no such constructor\nat line 5")

    monkeypatch.setattr("lakescan.spark.native.read_rule.install", fails)
    lakescan.spark.register(other)
    assert line_of(other) == "in the Arrow lane: the replacement cannot be installed (TypeError: no such constructor)"
    frame = other.read.format("delta").load(table)
    assert "FileScan" not in plan_of(frame)
    assert frame.count() == 10
    monkeypatch.undo()
    lakescan.spark.register(other)
    assert line_of(other) == "replaced by scans of Spark's Parquet reader, by an optimizer rule"
