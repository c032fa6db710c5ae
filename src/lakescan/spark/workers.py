"""The Python that a session's workers run: what is installed there, and how to have them run the right one."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from lakescan.errors import MissingDependency
from lakescan.spark.session import conf, is_connect

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

_NEEDED = ("pyarrow", "lakescan")
_seen: set[str] = set()


def use_this_python(spark: SparkSession) -> None:
    """Have a local session's workers run this interpreter, unless PYSPARK_PYTHON says which.

    Spark's own default is the `python3` on the path, which outside an activated environment has no pyarrow.
    A cluster's workers are left alone: this interpreter's path means nothing there. A Connect server is running
    already, and cannot be told: its Python is looked at, once a session. Raises `MissingDependency` where that cannot
    read tables.
    """
    if is_connect(spark):
        _check_server(spark)
        return
    if "PYSPARK_PYTHON" in os.environ or not (conf(spark, "spark.master") or "").startswith("local"):
        return
    os.environ["PYSPARK_PYTHON"] = sys.executable
    context = getattr(spark, "_sc", None)  # a classic session has one, and read the variable when it started
    if context is not None:
        context.pythonExec = sys.executable


def _check_server(spark: SparkSession) -> None:
    session: str = spark.session_id
    if session in _seen:
        return
    try:
        found = versions_on_workers(spark)
        wrong = next((f"it has no {name}" for name in _NEEDED if name not in found), None)
    except Exception as error:  # whatever stops a Python job there is the reason
        wrong = first_reason(error)
    if wrong is not None:
        raise MissingDependency(
            f"the Spark Connect server's Python cannot read tables ({wrong}): {how_to_start(spark)}"
        )
    _seen.add(session)


def how_to_start(spark: SparkSession) -> str:
    """One line that says how workers come to run a Python that can read tables."""
    is_local = (conf(spark, "spark.master") or "").startswith("local")
    python = sys.executable if is_local else "a Python of the driver's version with pyarrow and lakescan"
    if is_connect(spark):
        return f"start the server with PYSPARK_PYTHON={python} (a local one: set it before the session is made)"
    return f"set PYSPARK_PYTHON={python} before the session is started"


def first_reason(error: Exception) -> str:
    """What stopped a Python job: the line of Spark's message, which may have hundreds, that names an error."""
    lines = [line.strip() for line in str(error).splitlines()]
    return next((t for t in lines if "Error: " in t or "PYTHON_VERSION_MISMATCH" in t), lines[0] if lines else "")[:200]


def versions_on_workers(spark: SparkSession) -> dict[str, str]:
    """The versions of Python and of what reading needs, as one small job finds them; what is missing is left out."""
    rows = spark.range(1).mapInArrow(_probe(), "name string, found string").collect()
    return {row["name"]: row["found"] for row in rows}


def _probe() -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What runs on a worker. Made here, so that it is sent as it is: lakescan itself may be missing there."""

    def look_around(batches):  # type: ignore[no-untyped-def]
        import platform
        from importlib.metadata import PackageNotFoundError, version

        import pyarrow as pa

        for _ in batches:
            names, found = ["Python"], [platform.python_version()]
            for library in ("pyarrow", "lakescan"):
                try:
                    found.append(version(library))
                    names.append(library)
                except PackageNotFoundError:
                    pass
            yield pa.RecordBatch.from_arrays([pa.array(names), pa.array(found)], names=["name", "found"])

    return look_around
