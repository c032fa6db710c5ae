"""Check the installation on the driver and the executors, with advice for each problem."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from lakescan.common.html import grid
from lakescan.errors import LakescanError
from lakescan.storage import Storage
from lakescan.storage.hdfs import HADOOP_ADVICE, prepare

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_OLDEST_SPARK, _NEWEST_SPARK = (4, 1), (4, 3)  # see also `spark/session_lane.py`
_OLDEST_JAVA = 17


@dataclass(frozen=True)
class Check:
    """One line of a diagnosis.

    - `subject`: the setting or program that was checked. `found`: the result.
    - `ok`: whether it is as it should be; if not, `advice` is how to fix it.
    """

    subject: str
    found: str
    ok: bool
    advice: str = ""


@dataclass(frozen=True)
class Diagnosis:
    """All checks of `doctor`; `str()` gives a table with one line per check."""

    checks: tuple[Check, ...]

    @property
    def ok(self) -> bool:
        """Whether all checks passed."""
        return all(c.ok for c in self.checks)

    def __str__(self) -> str:
        width = max(len(c.subject) for c in self.checks)
        found = max(len(c.found) for c in self.checks)
        lines = [
            f"{'ok   ' if c.ok else 'WRONG'}  {c.subject:<{width}}  {c.found:<{found}}  {c.advice}".rstrip()
            for c in self.checks
        ]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """Render the checks for notebooks, one row per check."""
        rows = [("ok" if c.ok else "WRONG", c.subject, c.found, c.advice) for c in self.checks]
        return grid(("", "subject", "found", "advice"), rows)


def doctor(
    spark: SparkSession | None = None, path: str | None = None, *, storage_options: dict[str, Any] | None = None
) -> Diagnosis:
    """Check this machine and, if given, the Spark session and the storage location. Changes nothing.

    Args:
        spark: A session. A small job checks Python and its libraries on the executors.
        path: A location whose storage is checked for access.
        storage_options: Settings of that storage.

    Returns:
        The checks, each with its result and advice.

    Example:
        >>> print(lakescan.doctor(spark, "s3://lake"))
    """
    checks = [*_driver_checks(spark)]
    if spark is not None:
        checks += _session_checks(spark)
    if path is not None:
        checks += [_hadoop_check()] if path.startswith("hdfs:") else []
        checks.append(_storage_check(path, storage_options or {}))
    return Diagnosis(tuple(checks))


def _driver_checks(spark: SparkSession | None) -> Iterator[Check]:
    python = platform.python_version()
    known = sys.version_info >= (3, 11)
    yield Check("Python", python, known, "" if known else "lakescan needs Python 3.11 or newer")
    yield _library("pyarrow", (21,), None, "pip install 'pyarrow>=21'")
    if spark is None and find_spec("pyspark") is None:
        yield Check("pyspark", "not installed; to use Spark: pip install 'lakescan[spark]'", True)
        return
    yield _library("pyspark", _OLDEST_SPARK, _NEWEST_SPARK, "pip install 'lakescan[spark]'; needed for Spark only")
    yield _library("pandas", (2, 2), (2, 99), "PySpark 4 needs pandas below 3: pip install 'pandas<3'")
    yield _java_check()
    yield _worker_python_check(spark)


def _worker_python_check(spark: SparkSession | None) -> Check:
    """Check that the environment variable PYSPARK_PYTHON names this interpreter, if it is set.

    A Connect server chooses its Python at startup; another check, `executors`, concerns it.
    """
    subject, worker = "PYSPARK_PYTHON", os.environ.get("PYSPARK_PYTHON")
    if spark is not None and "connect" in type(spark).__module__:
        return Check(subject, "set by the server, see executors", True)
    if worker is None:
        return Check(subject, "not set: lakescan sets it when it registers its formats", True)
    same = shutil.which(worker) == shutil.which(sys.executable)
    return Check(
        subject, worker, same, "" if same else f"workers would run another Python: set PYSPARK_PYTHON={sys.executable}"
    )


def _library(name: str, oldest: tuple[int, ...], newest: tuple[int, ...] | None, advice: str) -> Check:
    try:
        installed = version(name)
    except PackageNotFoundError:
        return Check(name, "not installed", False, advice)
    numbers = tuple(int(n) for n in re.findall(r"\d+", installed)[:2])
    ok = numbers >= oldest and (newest is None or numbers[: len(newest)] <= newest)
    supported = (
        f"{_version_text(oldest)} or newer" if newest is None else f"{_version_text(oldest)} to {_version_text(newest)}"
    )
    return Check(name, installed, ok, "" if ok else f"supported: {supported}. {advice}")


def _version_text(numbers: tuple[int, ...]) -> str:
    return ".".join(map(str, numbers))


def _java_check() -> Check:
    home = os.environ.get("JAVA_HOME")
    command = os.path.join(home, "bin", "java") if home else "java"
    advice = "install Java 17 or newer, e.g. apt-get install openjdk-17-jre-headless; needed for Spark only"
    try:
        output = subprocess.run([command, "-version"], capture_output=True, text=True, check=False, timeout=30).stderr
    except (OSError, subprocess.TimeoutExpired):
        return Check("Java", "not found", False, advice)
    match = re.search(r'version "(\d+)[^"]*"', output)
    if match is None:
        return Check("Java", output.strip()[:60] or "unknown", False, advice)
    ok = int(match[1]) >= _OLDEST_JAVA
    return Check("Java", match[0].removeprefix("version ").strip('"'), ok, "" if ok else advice)


def _session_checks(spark: SparkSession) -> Iterator[Check]:
    from lakescan.spark.session import is_connect

    kind = "Connect" if is_connect(spark) else "classic"
    server = spark.version
    numbers = tuple(int(n) for n in re.findall(r"\d+", server)[:2])
    known = _OLDEST_SPARK <= numbers <= _NEWEST_SPARK
    yield Check("Spark session", f"{kind}, {server}", known, "" if known else "Spark 4.1 to 4.3 are supported")
    yield _pushdown_check(spark)
    yield from _executor_checks(spark)
    yield _read_lane_check(spark)


def _pushdown_check(spark: SparkSession) -> Check:
    """Check that filter pushdown into Python data sources is off in the session.

    lakescan's formats refuse filters, but other Python data sources may take them, and return wrong rows.
    """
    from lakescan.spark.session import PUSHDOWN, conf

    why = "Spark 4.1 to 4.3 reuse a pushed filter in later queries of the same frame or view"
    if conf(spark, PUSHDOWN) != "true":
        narrow = "with spark.read.format, select and filter by the options columns and where"
        return Check("filter pushdown", "off", True, f"{why}: {narrow}")
    return Check(
        "filter pushdown",
        "on in the session, off in lakescan's formats",
        False,
        f"{why}: other Python data sources may return wrong rows. Set {PUSHDOWN}=false",
    )


def _read_lane_check(spark: SparkSession) -> Check:
    """Describe whether Spark's own Parquet reader or the Arrow lane serves the session's reads.

    Both return the same rows.
    """
    from lakescan.spark.registration import describe_reads

    try:
        return Check("reads", describe_reads(spark), True)
    except LakescanError as error:
        return Check("reads", "unknown", False, str(error))


def _executor_checks(spark: SparkSession) -> Iterator[Check]:
    from lakescan.spark.workers import first_reason, how_to_start, versions_on_workers

    try:
        versions = versions_on_workers(spark)
    except Exception as error:  # any failure of a Python job is itself the result of the check
        yield Check("executors", "a Python job failed", False, f"{first_reason(error)}: {how_to_start(spark)}")
        return
    here = {"Python": platform.python_version(), "pyarrow": version("pyarrow"), "lakescan": version("lakescan")}
    for name, expected in here.items():
        there = versions.get(name, "not installed")
        same = _minor(there) == _minor(expected) if name == "Python" else there == expected
        wrong = f"the driver has {expected}: install the same version on the executors"
        yield Check(f"executors: {name}", there, same, "" if same else wrong)


def _minor(text: str) -> str:
    return ".".join(text.split(".")[:2])


def _hadoop_check() -> Check:
    """Check the environment variables that pyarrow's HDFS client needs, after setting those that can be found."""
    prepare()
    unset = [name for name in ("JAVA_HOME", "HADOOP_HOME", "CLASSPATH") if not os.environ.get(name)]
    status = f"{' and '.join(unset)} not set" if unset else "JAVA_HOME, HADOOP_HOME and CLASSPATH are set"
    return Check("Hadoop client", status, not unset, HADOOP_ADVICE if unset else "")


def _storage_check(path: str, options: dict[str, Any]) -> Check:
    try:
        exists = Storage(options).exists(path)
    except (LakescanError, OSError, TypeError) as error:
        return Check("storage", path, False, f"cannot be reached: {error}")
    return Check("storage", path, exists, "" if exists else "storage is reachable, but the path does not exist")
