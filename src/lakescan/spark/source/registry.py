"""The data sources that are registered with a session, and their renewal when the properties of a catalog change."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from lakescan.catalogs.registry import all_configurations, watch
from lakescan.spark.session import activate_session, is_connect, parallelism, zone_name
from lakescan.spark.source.data_source import source_class
from lakescan.spark.wap import settings_of_session
from lakescan.storage.errors import error_text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOG = logging.getLogger("lakescan")
_NO_SOURCES: Mapping[str, dict[str, Any]] = {}
_SOURCES: WeakKeyDictionary[SparkSession, dict[str, dict[str, Any]]] = WeakKeyDictionary()  # by format
# A child of a fork shares the sockets of its parent, and must not send anything to the parent's sessions.
if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_SOURCES.clear)


def formats_of(spark: SparkSession) -> Mapping[str, Mapping[str, Any]]:
    """Return the formats that are registered with a session, each with the settings of its data source.

    Empty if none.
    """
    return _SOURCES.get(spark, _NO_SOURCES)


def register_sources(spark: SparkSession, names: Sequence[str], *, pushdown: bool = False) -> None:
    """Register the data sources of the formats `names` with a session, with the settings that the session has now.

    When a catalog gets new properties later, the data sources are registered again with these.
    """
    settings: dict[str, Any] = {
        "pushdown": pushdown,
        "parallelism": parallelism(spark),
        "time_zone": zone_name(spark),
        "session": settings_of_session(spark),
    }
    sources = dict.fromkeys(names, settings)
    _send_sources(spark, sources)
    _SOURCES[spark] = {**_SOURCES.get(spark, {}), **sources}
    watch(_send_catalogs)


def _send_sources(spark: SparkSession, sources: Mapping[str, dict[str, Any]]) -> None:
    """Register a data source class for each format with a session, with its settings and this process's catalogs."""
    with activate_session(spark):
        for name, settings in sources.items():
            spark.dataSource.register(source_class(name, **settings, catalogs=all_configurations()))


def _has_ended(spark: SparkSession) -> bool:
    if is_connect(spark):
        return bool(getattr(spark, "is_stopped", False))
    session: Any = spark
    return bool(session._jsparkSession.sparkContext().isStopped())


def _send_catalogs() -> None:
    """Register the formats again with the sessions that have them, as data sources are pickled with the known catalogs.

    Sessions that have ended are forgotten. If a registration fails, a warning is logged.
    """
    for spark, sources in list(_SOURCES.items()):
        try:
            if _has_ended(spark):
                del _SOURCES[spark]
                continue
            _send_sources(spark, sources)
        except Exception as error:  # the session has ended, or its server does not answer
            del _SOURCES[spark]
            _LOG.warning(
                "a Spark session did not get the new properties of a catalog, and reads and writes with the earlier "
                "ones. If it goes on, call lakescan.spark.register for it: %s",
                error_text(error),
            )
