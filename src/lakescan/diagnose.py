"""The doctor: what is installed, on the driver and on the executors, and what to do about what is wrong."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from lakescan.errors import LakescanError
from lakescan.filesystems import HADOOP_ADVICE
from lakescan.storage import Storage

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

_OLDEST_SPARK, _NEWEST_SPARK = (4, 1), (4, 3)
_OLDEST_JAVA = 17


@dataclass(frozen=True)
class Check:
    """One line of a diagnosis: what was looked at, what was found, and what to do where it is wrong."""

    subject: str
    found: str
    ok: bool
    advice: str = ""


@dataclass(frozen=True)
class Diagnosis:
    """All checks. Its text form is a table, one line a check."""

    checks: tuple[Check, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return all(c.ok for c in self.checks)

    def __str__(self) -> str:
        width = max(len(c.subject) for c in self.checks)
        found = max(len(c.found) for c in self.checks)
        lines = [
            f"{'ok   ' if c.ok else 'WRONG'}  {c.subject:<{width}}  {c.found:<{found}}  {c.advice}".rstrip()
            for c in self.checks
        ]
        return "\n".join(lines)


def doctor(
    spark: SparkSession | None = None, path: str | None = None, *, storage_options: dict[str, Any] | None = None
) -> Diagnosis:
    """Check this machine, and a Spark session and a storage location if given.

    Nothing is changed; with a session one small job is run, to see Python and its libraries on the executors.
    """
    checks = [*_driver_checks()]
    if spark is not None:
        checks += _session_checks(spark)
    if path is not None:
        checks += [_hadoop_check()] if path.startswith("hdfs:") else []
        checks.append(_storage_check(path, storage_options or {}))
    return Diagnosis(tuple(checks))


def _driver_checks() -> Iterator[Check]:
    python = platform.python_version()
    yield Check("Python", python, sys.version_info >= (3, 11), "lakescan needs Python 3.11 or newer")
    yield _library("pyarrow", (21,), None, "pip install 'pyarrow>=21'")
    yield _library("pyspark", _OLDEST_SPARK, _NEWEST_SPARK, "pip install 'lakescan[spark]'; needed for Spark only")
    yield _library("pandas", (2, 2), (2, 99), "PySpark 4 needs pandas below 3: pip install 'pandas<3'")
    yield _java_check()
    worker = os.environ.get("PYSPARK_PYTHON")
    same = worker is None or shutil.which(worker) == shutil.which(sys.executable)
    advice = f"workers would run another Python: set PYSPARK_PYTHON={sys.executable}"
    yield Check("PYSPARK_PYTHON", worker or "unset: set when the formats are registered", same, "" if same else advice)


def _library(name: str, oldest: tuple[int, ...], newest: tuple[int, ...] | None, advice: str) -> Check:
    try:
        found = version(name)
    except PackageNotFoundError:
        return Check(name, "not installed", False, advice)
    numbers = tuple(int(n) for n in re.findall(r"\d+", found)[:2])
    ok = numbers >= oldest and (newest is None or numbers[: len(newest)] <= newest)
    supported = f"{_dotted(oldest)} or newer" if newest is None else f"{_dotted(oldest)} to {_dotted(newest)}"
    return Check(name, found, ok, "" if ok else f"supported: {supported}. {advice}")


def _dotted(numbers: tuple[int, ...]) -> str:
    return ".".join(map(str, numbers))


def _java_check() -> Check:
    home = os.environ.get("JAVA_HOME")
    command = os.path.join(home, "bin", "java") if home else "java"
    advice = "install Java 17 or newer, e.g. apt-get install openjdk-17-jre-headless; needed for Spark only"
    try:
        output = subprocess.run([command, "-version"], capture_output=True, text=True, check=False, timeout=30).stderr
    except (OSError, subprocess.TimeoutExpired):
        return Check("Java", "not found", False, advice)
    found = re.search(r'version "(\d+)[^"]*"', output)
    if found is None:
        return Check("Java", output.strip()[:60] or "unknown", False, advice)
    ok = int(found[1]) >= _OLDEST_JAVA
    return Check("Java", found[0].removeprefix("version ").strip('"'), ok, "" if ok else advice)


def _session_checks(spark: SparkSession) -> Iterator[Check]:
    from lakescan.spark.session import PUSHDOWN

    kind = "Connect" if "connect" in type(spark).__module__ else "classic"
    server = spark.version
    numbers = tuple(int(n) for n in re.findall(r"\d+", server)[:2])
    known = _OLDEST_SPARK <= numbers <= _NEWEST_SPARK
    yield Check("Spark session", f"{kind}, {server}", known, "" if known else "Spark 4.1 to 4.3 are supported")
    pushdown = spark.conf.get(PUSHDOWN, "unknown")
    on = pushdown == "true"
    advice = (
        "" if on else f"filters of queries do not prune files: lakescan.spark.register(spark), or set {PUSHDOWN}=true"
    )
    yield Check("filter pushdown", str(pushdown), on, advice)
    yield from _executor_checks(spark)


def _executor_checks(spark: SparkSession) -> Iterator[Check]:
    try:
        rows = spark.range(1).mapInArrow(_probe(), "name string, found string").collect()
    except Exception as error:  # whatever stops a Python job is the finding
        reason = next((t for t in reversed(str(error).splitlines()) if "Error" in t), str(error))[:200].strip()
        yield Check("executors", "a Python job failed", False, f"{reason}: see that PYSPARK_PYTHON has pyarrow there")
        return
    here = {"Python": platform.python_version(), "pyarrow": version("pyarrow"), "lakescan": version("lakescan")}
    for row in rows:
        expected = here[row["name"]]
        same = _minor(row["found"]) == _minor(expected) if row["name"] == "Python" else row["found"] == expected
        wrong = f"the driver has {expected}: install the same on the executors"
        yield Check(f"executors: {row['name']}", row["found"], same, "" if same else wrong)


def _probe() -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What runs on an executor. Made here, so that it is sent as it is: lakescan itself may be missing there."""

    def look_around(batches):  # type: ignore[no-untyped-def]
        import platform
        from importlib.metadata import PackageNotFoundError, version

        import pyarrow as pa

        for _ in batches:
            names, found = ["Python"], [platform.python_version()]
            for library in ("pyarrow", "lakescan"):
                names.append(library)
                try:
                    found.append(version(library))
                except PackageNotFoundError:
                    found.append("not installed")
            yield pa.RecordBatch.from_arrays([pa.array(names), pa.array(found)], names=["name", "found"])

    return look_around


def _minor(text: str) -> str:
    return ".".join(text.split(".")[:2])


def _hadoop_check() -> Check:
    """What pyarrow's client of HDFS finds Java and Hadoop by."""
    unset = [name for name in ("JAVA_HOME", "HADOOP_HOME", "CLASSPATH") if not os.environ.get(name)]
    found = f"{' and '.join(unset)} not set" if unset else "JAVA_HOME, HADOOP_HOME and CLASSPATH are set"
    return Check("Hadoop client", found, not unset, HADOOP_ADVICE if unset else "")


def _storage_check(path: str, options: dict[str, Any]) -> Check:
    try:
        found = Storage(options).exists(path)
    except (LakescanError, OSError, TypeError) as error:
        return Check("storage", path, False, f"cannot be reached: {error}")
    return Check("storage", path, found, "" if found else "reached, but nothing is at that path")
