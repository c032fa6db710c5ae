"""`lakescan.spark.enable`: PySpark's own methods and SQL reach lakescan's tables in a session, as with the JARs."""

from __future__ import annotations

import functools
import logging
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakescan.options.session_settings import ENABLED
from lakescan.spark.drop_in import catalog, merge_into, read, statements, stream, write, write_to
from lakescan.spark.drop_in.delta_module import provide_delta_module, remove_delta_module
from lakescan.spark.drop_in.interception import (
    Handler,
    intercept,
    intercept_function,
    is_running,
    record,
    restore_all,
    running,
)
from lakescan.spark.drop_in.sessions import (
    EnabledSession,
    add_session,
    enable_all,
    find_session,
    forget_removed,
    has_sessions,
    in_use,
    note_change,
    on_refresh,
    remove_session,
    removed_setting,
)
from lakescan.spark.drop_in.settings import DEFAULT_CATALOG, PREFIX, Enabled, JarSettings, read_jar_settings
from lakescan.spark.drop_in.storage_settings import use_hadoop_settings
from lakescan.spark.registration import register
from lakescan.spark.session import conf, is_connect
from lakescan.spark.statements.names import NAMESPACE
from lakescan.storage.settings.hadoop_defaults import use_hadoop_defaults

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOG = logging.getLogger("lakescan")
_SETS = re.compile(r"\s*(?:set|reset)\b", re.IGNORECASE)


def enable(spark: SparkSession) -> Enabled:
    """Enable a session; see `lakescan.spark.enable`."""
    install(is_connect(spark))
    with running():
        state = find_session(spark) or _enable(spark, strict=True)
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
        use_hadoop_defaults(None)
        remove_delta_module()


def enable_every_session() -> None:
    """Enable each session of this process when it is first used, as `lakescan run` does."""
    install("pyspark.sql.connect.session" in sys.modules)

    def hook(spark: SparkSession) -> EnabledSession:
        with running():
            return _enable(spark)

    enable_all(hook)


def _enable(spark: SparkSession, *, strict: bool = False) -> EnabledSession:
    settings = _settings(spark)
    found = read_jar_settings(settings)
    state = EnabledSession(spark, found.catalogs, found.session_catalog, _removable(found))
    with in_use(state, strict=strict):
        register(spark)
    use_hadoop_settings(spark)
    _apply(spark, found, settings)
    add_session(spark, state)
    return state


def _refresh(state: EnabledSession) -> None:
    """Read a session's settings again after a change: catalogs that are new, and those with other properties."""
    with running():
        spark = state.spark
        settings = _settings(spark)
        found = read_jar_settings({**state.removed, **settings})
        state.update(found.catalogs, found.session_catalog, {**state.removed, **_removable(found)})
        _apply(spark, found, settings)
        spark.conf.set(ENABLED, state.to_json())


def _removable(found: JarSettings) -> dict[str, str]:
    return {name: value for name, value in found.removed.items() if name.startswith((PREFIX, DEFAULT_CATALOG))}


def _apply(spark: SparkSession, found: JarSettings, settings: Mapping[str, str]) -> None:
    """Remove settings that Spark cannot load, and use the default catalog unless `USE` named another one.

    `settings` are the session's settings.
    """
    for name in _removable(found):
        if name in settings:
            spark.conf.unset(name)
    if found.default_catalog is not None and DEFAULT_CATALOG in settings and conf(spark, NAMESPACE) is None:
        spark.conf.set(NAMESPACE, found.default_catalog)


def _settings(spark: SparkSession) -> dict[str, str]:
    own: Any = spark.conf.getAll
    return {str(key): str(value) for key, value in dict(own).items()}


def install(connect: bool = False) -> None:
    """Intercept the methods of PySpark's classes, once per process.

    Args:
        connect: Also those of Connect's classes. Importing these takes long, so classic jobs do without.
    """
    provide_delta_module()
    on_refresh(_refresh)
    for each in (_classic_classes(), _connect_classes() if connect else None):
        if each is not None:
            each.intercept()


def _classic_classes() -> _Classes | None:
    try:
        from pyspark.sql import catalog as catalogs
        from pyspark.sql import conf as settings
        from pyspark.sql import readwriter, session
        from pyspark.sql.classic import dataframe
        from pyspark.sql.streaming import readwriter as streams
    except ImportError:  # a client of Connect without Java's libraries
        return None
    return _Classes(
        session.SparkSession,
        dataframe.DataFrame,
        readwriter.DataFrameReader,
        readwriter.DataFrameWriter,
        streams.DataStreamReader,
        streams.DataStreamWriter,
        catalogs.Catalog,
        settings.RuntimeConfig,
    )


def _connect_classes() -> _Classes:
    from pyspark.sql.connect import catalog as catalogs
    from pyspark.sql.connect import conf as settings
    from pyspark.sql.connect import dataframe, readwriter, session
    from pyspark.sql.connect.streaming import readwriter as streams

    return _Classes(
        session.SparkSession,
        dataframe.DataFrame,
        readwriter.DataFrameReader,
        readwriter.DataFrameWriter,
        streams.DataStreamReader,
        streams.DataStreamWriter,
        catalogs.Catalog,
        settings.RuntimeConf,
    )


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
    settings: type

    def intercept(self) -> None:
        """Intercept the methods that may name tables."""
        own = lambda each: each  # noqa: E731
        intercept(self.session, "sql", own, statements.sql)
        intercept(self.session, "table", own, read.table)
        record(self.reader, ("format", "schema", "option", "options"))
        self._intercept(self.reader, read.session_of_reader, load=read.load, table=read.reader_table)
        record(self.writer, ("format", "mode", "option", "options", "partitionBy", "bucketBy", "sortBy", "clusterBy"))
        actions: dict[str, Handler] = {"saveAsTable": write.save_as_table, "insertInto": write.insert_into}
        self._intercept(self.writer, write.session_of_writer, save=write.save, **actions)
        actions = {"writeTo": write_to.write_to, "mergeInto": merge_into.merge_into}
        self._intercept(self.frame, lambda frame: frame.sparkSession, **actions)
        record(self.stream_reader, ("format", "schema", "option", "options"))
        self._intercept(self.stream_reader, read.session_of_reader, load=stream.load, table=stream.table)
        settings = ("format", "outputMode", "option", "options", "partitionBy", "clusterBy", "queryName", "trigger")
        record(self.stream_writer, (*settings, "foreach"))
        actions = {"toTable": stream.to_table, "foreachBatch": stream.foreach_batch}
        self._intercept(self.stream_writer, stream.session_of_writer, start=stream.start, **actions)
        catalog.intercept_catalog(self.catalog)
        self._watch()

    @staticmethod
    def _intercept(owner: type, session_of: Callable[[Any], Any], **handlers: Handler) -> None:
        for name, handler in handlers.items():
            intercept(owner, name, session_of, handler)

    def _watch(self) -> None:
        """Notice changes of settings, and sessions that are derived from enabled ones."""
        intercept_function(self.session, "sql", _watch_sql, "settings")
        intercept_function(self.settings, "set", _watch_set, "settings")
        intercept_function(self.settings, "unset", _watch_unset, "settings")
        intercept_function(self.settings, "get", _restore_get, "settings")
        intercept_function(self.session.Builder, "getOrCreate", _watch_builder, "settings")  # type: ignore[attr-defined]
        for name in ("newSession", "cloneSession"):
            intercept_function(self.session, name, _enable_derived, "sessions")


def _watch_sql(original: Any) -> Any:
    @functools.wraps(original)
    def sql(self: Any, sqlQuery: Any, *args: Any, **kwargs: Any) -> Any:
        found = original(self, sqlQuery, *args, **kwargs)
        if not is_running() and isinstance(sqlQuery, str) and _SETS.match(sqlQuery):
            note_change(None)
        return found

    return sql


def _watch_set(original: Any) -> Any:
    @functools.wraps(original)
    def set(self: Any, key: str, *args: Any, **kwargs: Any) -> None:
        original(self, key, *args, **kwargs)
        if not is_running() or key == NAMESPACE:
            note_change(key)

    return set


def _watch_unset(original: Any) -> Any:
    @functools.wraps(original)
    def unset(self: Any, key: str) -> None:
        original(self, key)
        if not is_running():
            forget_removed(self, key)
        if not is_running() or key == NAMESPACE:
            note_change(key)

    return unset


def _restore_get(original: Any) -> Any:
    """Make `spark.conf.get` return settings that `enable` removed."""

    @functools.wraps(original)
    def get(self: Any, key: str, *args: Any, **kwargs: Any) -> Any:
        if not is_running() and str(key).startswith((PREFIX, DEFAULT_CATALOG)):
            value = removed_setting(self, key)
            if value is not None:
                return value
        return original(self, key, *args, **kwargs)

    return get


def _watch_builder(original: Any) -> Any:
    @functools.wraps(original)
    def getOrCreate(self: Any) -> Any:
        found = original(self)
        if any(str(key).startswith((PREFIX, DEFAULT_CATALOG)) for key in self._options):
            note_change(PREFIX)
        if is_connect(found):
            install(connect=True)
        return found

    return getOrCreate


def _enable_derived(original: Any) -> Any:
    @functools.wraps(original)
    def derive(self: Any, *args: Any, **kwargs: Any) -> Any:
        found = original(self, *args, **kwargs)
        if not is_running() and find_session(self) is not None:
            enable(found)
        return found

    return derive
