"""Provide the modules `delta`, `delta.tables`, `delta.exceptions` and `delta.pip_utils` where delta-spark is missing.

A finder at the end of `sys.meta_path` makes them, so that an installed `delta` is found first.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

_VERSION = "4.4.0"  # the version whose interface the modules have
_NAMES = ("delta", "delta.tables", "delta.exceptions", "delta.pip_utils", "delta.version")


class _Finder(MetaPathFinder, Loader):
    """Finds and makes the modules."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of one of the modules; None for any other name, and within an installed `delta`."""
        if fullname not in _NAMES or (fullname != "delta" and not _is_ours(sys.modules.get("delta"))):
            return None
        return ModuleSpec(fullname, self, is_package=fullname == "delta")

    def exec_module(self, module: ModuleType) -> None:
        """Fill a module."""
        module.__dict__.update(_members(module.__name__))


_FINDER = _Finder()


def provide_delta_module() -> None:
    """Make `import delta` work in this process, unless delta-spark is installed."""
    if _FINDER not in sys.meta_path:
        sys.meta_path.append(_FINDER)


def remove_delta_module() -> None:
    """Undo `provide_delta_module`; names that were imported before stay."""
    if _FINDER in sys.meta_path:
        sys.meta_path.remove(_FINDER)
    for name in _NAMES:
        if _is_ours(sys.modules.get(name)):
            del sys.modules[name]


def _is_ours(module: ModuleType | None) -> bool:
    return module is not None and module.__spec__ is not None and module.__spec__.loader is _FINDER


def _members(name: str) -> dict[str, Any]:
    match name:
        case "delta":
            tables = importlib.import_module("delta.tables")
            return {
                "DeltaTable": tables.DeltaTable,
                "configure_spark_with_delta_pip": configure_spark_with_delta_pip,
                "__version__": _VERSION,
                "__all__": ["DeltaTable", "configure_spark_with_delta_pip", "__version__"],
            }
        case "delta.tables":
            found = importlib.import_module("lakescan.delta.tables")
            return {**_imported_names(), **{each: getattr(found, each) for each in found.__all__}}
        case "delta.exceptions":
            found = importlib.import_module("lakescan.delta.exceptions")
            return {"__all__": found.__all__, **{each: getattr(found, each) for each in found.__all__}}
        case "delta.pip_utils":
            return {"configure_spark_with_delta_pip": configure_spark_with_delta_pip}
    return {"__version__": _VERSION}


def _imported_names() -> dict[str, Any]:
    """Return the names of PySpark that `from delta.tables import *` also imports from Delta's own module."""
    from pyspark.sql import Column, DataFrame, SparkSession, functions
    from pyspark.sql.types import DataType, StructField, StructType

    given = (Column, DataFrame, SparkSession, DataType, StructField, StructType)
    return {each.__name__: each for each in given} | {"functions": functions}


def configure_spark_with_delta_pip(spark_session_builder: Any, extra_packages: list[str] | None = None) -> Any:
    """Return the session builder, with the extra packages: no package is needed for Delta tables.

    Args:
        spark_session_builder: A builder of a Spark session.
        extra_packages: Maven coordinates of other packages.

    Raises:
        TypeError: The first argument is not a session builder.
    """
    from pyspark.sql import SparkSession

    if not isinstance(spark_session_builder, SparkSession.Builder):
        raise TypeError(
            f"configure_spark_with_delta_pip takes the builder of a SparkSession, not {type(spark_session_builder)}"
        )
    if not extra_packages:
        return spark_session_builder
    return spark_session_builder.config("spark.jars.packages", ",".join(extra_packages))
