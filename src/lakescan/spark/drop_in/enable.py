"""`lakescan.spark.enable`: PySpark's own methods and SQL reach lakescan's tables in a session, as with the JARs."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from weakref import ref

from lakescan.spark.drop_in import catalog, read, statements, stream, write, write_to
from lakescan.spark.drop_in.interception import intercept, is_running, record, restore_all, running
from lakescan.spark.drop_in.sessions import (
    EnabledSession,
    add_session,
    enable_all,
    find_session,
    has_sessions,
    remove_session,
)
from lakescan.spark.drop_in.settings import DEFAULT_CATALOG, PREFIX, read_jar_settings
from lakescan.spark.registration import register
from lakescan.spark.session import is_connect
from lakescan.spark.statements.names import NAMESPACE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOG = logging.getLogger("lakescan")


@dataclass(frozen=True)
class Enabled:
    """What `lakescan.spark.enable` found in a session.

    - `catalogs`: the warehouse (or else the address) of each catalog, by the catalog's name.
    - `session_catalog`: "delta" or "iceberg" if Spark's own catalog has tables of that format, else None.
    """

    catalogs: Mapping[str, str | None] = field(default_factory=dict)
    session_catalog: str | None = None


def enable(spark: SparkSession) -> Enabled:
    """Enable a session; see `lakescan.spark.enable`."""
    install()
    with running():
        state = find_session(spark) or _enable(spark)
    places = {name: own.get("warehouse") or own.get("uri") for name, own in state.catalogs.items()}
    return Enabled(places, state.session_catalog)


def disable(spark: SparkSession) -> None:
    """Disable a session; see `lakescan.spark.disable`."""
    with running():
        state = find_session(spark)
        if state is None:
            return
        for name, value in state.removed.items():
            spark.conf.set(name, value)
        spark.conf.unset(NAMESPACE)
        remove_session(spark)
    if not has_sessions():
        restore_all()


def enable_every_session() -> None:
    """Enable each session of this process when it is first used, as `lakescan run` does."""
    install()

    def hook(spark: SparkSession) -> EnabledSession:
        with running():
            return _enable(spark)

    enable_all(hook)


def _enable(spark: SparkSession) -> EnabledSession:
    settings = _settings(spark)
    found = read_jar_settings(settings)
    removable = {name: value for name, value in found.removed.items() if name.startswith((PREFIX, DEFAULT_CATALOG))}
    for name in removable:
        spark.conf.unset(name)
    state = EnabledSession(ref(spark), found.catalogs, found.session_catalog, removable)
    state.register_catalogs()
    register(spark)
    if found.default_catalog is not None:
        spark.conf.set(NAMESPACE, found.default_catalog)
    add_session(spark, state)
    return state


def _settings(spark: SparkSession) -> dict[str, str]:
    own: Any = spark.conf.getAll
    return {str(key): str(value) for key, value in dict(own).items()}


def install() -> None:
    """Intercept the methods of PySpark's classes, classic and Connect, once per process."""
    from pyspark.sql import classic, readwriter, session
    from pyspark.sql import catalog as catalogs
    from pyspark.sql.classic import dataframe
    from pyspark.sql.streaming import readwriter as streams

    classes = [
        _Classes(
            session.SparkSession,
            dataframe.DataFrame,
            readwriter.DataFrameReader,
            readwriter.DataFrameWriter,
            streams.DataStreamReader,
            streams.DataStreamWriter,
            catalogs.Catalog,
        )
    ]
    del classic
    try:
        from pyspark.sql.connect import catalog as connect_catalogs
        from pyspark.sql.connect import dataframe as connect_dataframe
        from pyspark.sql.connect import readwriter as connect_readwriter
        from pyspark.sql.connect import session as connect_session
        from pyspark.sql.connect.streaming import readwriter as connect_streams
    except ImportError:  # Connect's libraries are not installed
        pass
    else:
        classes.append(
            _Classes(
                connect_session.SparkSession,
                connect_dataframe.DataFrame,
                connect_readwriter.DataFrameReader,
                connect_readwriter.DataFrameWriter,
                connect_streams.DataStreamReader,
                connect_streams.DataStreamWriter,
                connect_catalogs.Catalog,
            )
        )
    for each in classes:
        each.intercept()


@dataclass(frozen=True)
class _Classes:
    """PySpark's classes, classic or Connect."""

    session: type
    frame: type
    reader: type
    writer: type
    stream_reader: type
    stream_writer: type
    catalog: type

    def intercept(self) -> None:
        """Intercept the methods that may name tables."""
        own = lambda each: each  # noqa: E731
        intercept(self.session, "sql", own, statements.sql)
        intercept(self.session, "table", own, read.table)
        record(self.reader, ("format", "schema", "option", "options"))
        for name, handler in (("load", read.load), ("table", read.reader_table)):
            intercept(self.reader, name, read.session_of_reader, handler)
        record(self.writer, ("format", "mode", "option", "options", "partitionBy", "bucketBy", "sortBy", "clusterBy"))
        for name, handler in (("save", write.save), ("saveAsTable", write.save_as_table), ("insertInto", write.insert_into)):
            intercept(self.writer, name, write.session_of_writer, handler)
        intercept(self.frame, "writeTo", lambda frame: frame.sparkSession, write_to.write_to)
        record(self.stream_reader, ("format", "schema", "option", "options"))
        for name, handler in (("load", stream.load), ("table", stream.table)):
            intercept(self.stream_reader, name, read.session_of_reader, handler)
        record(
            self.stream_writer,
            ("format", "outputMode", "option", "options", "partitionBy", "clusterBy", "queryName", "trigger"),
        )
        for name, handler in (("start", stream.start), ("toTable", stream.to_table), ("foreachBatch", stream.foreach_batch)):
            intercept(self.stream_writer, name, stream.session_of_writer, handler)
        catalog.intercept_catalog(self.catalog)


__all__ = ["Enabled", "disable", "enable", "enable_every_session", "is_connect", "is_running"]
