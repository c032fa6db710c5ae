"""The doctor: every finding includes the fix."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import lakescan
from lakescan.cli.doctor import _library


def test_a_working_installation_has_no_findings(tmp_path: Path) -> None:
    found = lakescan.doctor(path=str(tmp_path))
    assert found.ok, str(found)
    assert {"Python", "pyarrow", "pyspark", "pandas", "Java", "storage"} <= {c.subject for c in found.checks}


def test_a_missing_or_too_new_library_is_reported_with_advice() -> None:
    missing = _library("surely-not-installed", (1,), None, "install it")
    assert (missing.ok, missing.found, missing.advice) == (False, "not installed", "install it")
    too_new = _library("pyarrow", (1,), (2,), "use an older one")
    assert not too_new.ok
    assert "supported: 1 to 2" in too_new.advice


def test_without_spark_there_are_no_findings_about_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["lakescan.cli.doctor"], "find_spec", lambda name: None)  # the function's name
    found = lakescan.doctor()
    assert found.ok, str(found)
    assert "to use Spark: pip install" in str(found)
    assert {"pandas", "Java"}.isdisjoint(c.subject for c in found.checks)


def test_no_java_is_one_clear_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    (line,) = [c for c in lakescan.doctor().checks if c.subject == "Java"]
    assert not line.ok
    assert "install Java 17 or newer" in line.advice


def test_missing_storage_is_distinguished_from_unreachable_storage(tmp_path: Path) -> None:
    (line,) = [c for c in lakescan.doctor(path=str(tmp_path / "x")).checks if c.subject == "storage"]
    assert "the path does not exist" in line.advice
    (line,) = [c for c in lakescan.doctor(path="dbfs:/x").checks if c.subject == "storage"]
    assert "cannot be reached" in line.advice


def test_hdfs_without_a_hadoop_client_is_explained(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("HADOOP_HOME", raising=False)
    monkeypatch.setenv("CLASSPATH", "x.jar")
    found = {c.subject: c for c in lakescan.doctor(path="hdfs://host/x").checks}
    assert "HADOOP_HOME" in found["Hadoop client"].found
    assert "hadoop classpath" in found["Hadoop client"].advice
    assert not found["storage"].ok


@pytest.mark.spark
def test_with_a_session_the_executors_are_checked(spark) -> None:
    found = lakescan.doctor(spark)
    assert found.ok, str(found)
    assert {"executors: Python", "executors: pyarrow", "executors: lakescan"} <= {c.subject for c in found.checks}
    assert "classic" in str(found)
