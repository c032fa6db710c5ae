"""The Python interpreter of a session's workers: choose it, and check which packages it has."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from lakescan import errors
from lakescan.errors import LakescanError, MissingDependency, UnsupportedFeature
from lakescan.spark.session import conf, is_connect

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_RAISED = re.compile(r"^lakescan\.errors\.(\w+): (.*?)(?=\n\s*\n|\n\s+at |\nTraceback |\Z)", re.DOTALL | re.MULTILINE)
_UNSUPPORTED = "unsupported feature: "
_NEEDED = ("pyarrow", "lakescan")
_TASKS = "tasks"  # the probe's entry for task numbers, next to those of packages
_seen: dict[str, bool] = {}  # id of a Connect session that can read tables -> is its server Apache Spark?


def use_this_python(spark: SparkSession) -> None:
    """Make the workers of a local session run this interpreter, unless PYSPARK_PYTHON is set.

    Spark's default is the `python3` on the path, which has no pyarrow outside an activated environment. The workers of
    a cluster are not changed, since this interpreter's path does not exist there. The Python of a Connect server cannot
    be changed, so it is checked instead, once per session.

    Raises `MissingDependency` if a Connect server's Python cannot read tables.
    """
    if is_connect(spark):
        _check_server(spark)
        return
    if "PYSPARK_PYTHON" in os.environ or not (conf(spark, "spark.master") or "").startswith("local"):
        return
    os.environ["PYSPARK_PYTHON"] = sys.executable
    context = getattr(spark, "_sc", None)  # only in classic sessions, and created before the variable was set
    if context is not None:
        context.pythonExec = sys.executable


def _check_server(spark: SparkSession) -> None:
    session: str = spark.session_id
    if session in _seen:
        return
    try:
        versions = versions_on_workers(spark)
        problem = next((f"it has no {name}" for name in _NEEDED if name not in versions), None)
    except Exception as error:  # any failure of a Python job means that tables cannot be read
        problem = first_reason(error)
    if problem is not None:
        raise MissingDependency(
            f"the Spark Connect server's Python cannot read tables ({problem}): {how_to_start(spark)}"
        )
    _seen[session] = _TASKS in versions


def is_spark(spark: SparkSession) -> bool:
    """Return whether the session's server is Apache Spark, and not another server of its protocol such as Sail.

    Only Spark's Python workers have task numbers. The first call for a Connect session runs
    a small job, and raises `MissingDependency` if the server's Python cannot read tables.
    """
    if not is_connect(spark):
        return True
    _check_server(spark)
    return _seen[spark.session_id]


def how_to_start(spark: SparkSession) -> str:
    """Return advice, in one line, on how to make the workers run a Python that can read tables."""
    is_local = (conf(spark, "spark.master") or "").startswith("local")
    python = sys.executable if is_local else "a Python of the driver's version with pyarrow and lakescan"
    if is_connect(spark):
        return f"start the server with PYSPARK_PYTHON={python} (a local one: set it before the session is created)"
    return f"set PYSPARK_PYTHON={python} before the session is started"


def first_reason(error: Exception) -> str:
    """Return why a Python job failed: the first line of Spark's message that names an error, at most 200 characters."""
    lines = [line.strip() for line in str(error).splitlines()]
    return next((t for t in lines if "Error: " in t or "PYTHON_VERSION_MISMATCH" in t), lines[0] if lines else "")[:200]


def versions_on_workers(spark: SparkSession) -> dict[str, str]:
    """Run a small job and return the versions of Python, pyarrow and lakescan on the workers, without missing packages.

    The entry `tasks` exists if the workers have task numbers, as those of Apache Spark do.
    """
    rows = spark.range(1).mapInArrow(_probe(), "name string, version string").collect()
    return {row["name"]: row["version"] for row in rows}


def is_on_this_machine(spark: SparkSession) -> bool:
    """Run a small job and return whether the session's worker has the same machine and file system as this process.

    A container has other files than its host, so mount namespaces are compared where they exist.
    """
    look = _machine()
    rows = spark.range(1).mapInArrow(look, "machine string").collect()
    here = next(iter(look(iter([None])))).column(0)[0].as_py()
    return [row["machine"] for row in rows] == [here]


def _machine() -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return a `mapInArrow` function that identifies the worker's machine and file system by a text.

    It imports all that it needs, as it is pickled by value.
    """

    def machine(batches):  # type: ignore[no-untyped-def]
        import os
        import platform

        import pyarrow as pa

        parts = [platform.node()]
        try:
            with open("/proc/sys/kernel/random/boot_id") as file:
                parts.append(file.read().strip())
        except OSError:
            pass
        for path in ("/", "/proc/self/ns/mnt"):
            try:
                found = os.stat(path)
                parts.append(f"{found.st_dev}-{found.st_ino}")
            except OSError:
                pass
        for _ in batches:
            yield pa.RecordBatch.from_arrays([pa.array([" ".join(parts)])], names=["machine"])

    return machine


def _probe() -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return a `mapInArrow` function that lists the worker's packages with versions.

    It imports all that it needs, as it is pickled by value: lakescan may be missing there.
    """

    def probe(batches):  # type: ignore[no-untyped-def]
        import platform
        from importlib.metadata import PackageNotFoundError, version

        import pyarrow as pa

        for _ in batches:
            names, versions = ["Python"], [platform.python_version()]
            for library in ("pyarrow", "lakescan"):
                try:
                    versions.append(version(library))
                    names.append(library)
                except PackageNotFoundError:
                    pass
            try:
                from pyspark import TaskContext

                numbered = TaskContext.get() is not None
            except ImportError:
                numbered = False
            if numbered:
                names.append("tasks")
                versions.append("numbered")
            yield pa.RecordBatch.from_arrays([pa.array(names), pa.array(versions)], names=["name", "version"])

    return probe


def use_one_task(spark: SparkSession, frame: DataFrame) -> DataFrame:
    """Return the frame for work that needs task numbers: unchanged on Spark, else coalesced to one task."""
    return frame if is_spark(spark) else frame.coalesce(1)


def check_task_numbers(work: str) -> None:
    """Raise `UnsupportedFeature` if tasks have no numbers, as on Sail; the message names the `work` that needs them."""
    from pyspark import TaskContext

    if TaskContext.get() is None:
        raise UnsupportedFeature(f"{work} by a data source of Sail", "Its tasks have no numbers: use Table.append.")


def task_number() -> int:
    """Return the partition number of the Spark task that this worker runs; 0 outside of tasks.

    A task that is retried keeps its number.
    """
    from pyspark import TaskContext

    context = TaskContext.get()
    return 0 if context is None else int(context.partitionId())


@contextmanager
def translate_worker_errors() -> Iterator[None]:
    """Context manager: re-raise lakescan errors of Python workers, which Spark reports as text, in their classes."""
    from pyspark.errors import PySparkException

    try:
        yield
    except PySparkException as error:
        found = _RAISED.findall(str(error))
        kind = getattr(errors, found[-1][0], None) if found else None
        if kind is None or not issubclass(kind, LakescanError):
            raise
        text = found[-1][1].strip()
        raise kind(text.removeprefix(_UNSUPPORTED) if kind is UnsupportedFeature else text) from error
