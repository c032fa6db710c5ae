"""Load the engine when a job first uses a table of ours, and enable all its Spark sessions.

Until then, a few methods of PySpark have a small wrapper that looks at names and formats only. It is replaced by the
interceptions of `lakescan.spark.drop_in` at the first sign of Iceberg or Delta: a setting, a format, a name such as
``delta.`/path` ``, or a statement. PySpark itself is imported by the job only.
"""

from __future__ import annotations

import functools
import importlib
import importlib.abc
import os
import re
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

CALLS = "_lakescan_calls"  # as in `lakescan.spark.drop_in.interception`
_WORDS = re.compile(r"iceberg|delta", re.IGNORECASE)
_NAME = re.compile(r"\s*`?(?:delta|iceberg)`?\s*\.", re.IGNORECASE)
_TEXT = re.compile(
    r"\b(?:delta|iceberg|table_changes(?:_by_path)?)\b|spark\.sql\.catalog\.|\A\s*(?:optimize|vacuum|restore|reorg)\b",
    re.IGNORECASE,
)
_KEYS = (
    "spark.sql.",
    "spark.jars",
    "spark.databricks.",
    "spark.driver.extraClassPath",
    "spark.executor.extraClassPath",
)
_CATALOGS = "spark.sql.catalog."
Originals = list[tuple[type, str, Any]]

_lock = threading.RLock()
_originals: Originals = []
_is_loading = _is_loaded = False
_has_jar_settings = False  # a session's settings name the JARs
_starts_server = False  # the session that is being made is a Connect server's own


def prepare() -> None:
    """Wrap PySpark's methods once the job imports PySpark, and provide the module `delta` if it is not installed."""
    for name in _PATCHES:
        if name in sys.modules:
            _PATCHES[name](sys.modules[name])
    sys.meta_path.insert(0, _Wrapping())
    sys.meta_path.append(_Delta())


def load_engine() -> None:
    """Replace the wrappers by the interceptions of the engine, once."""
    global _is_loading, _is_loaded
    with _lock:
        if _is_loading:
            return
        _is_loading = True  # modules of PySpark that the engine imports are not wrapped any more
        for owner, name, original in _originals:
            setattr(owner, name, original)
        from lakescan.spark.drop_in.run import prepare as enable_every_session

        enable_every_session()
        _is_loaded = True


def names_jars(settings: Mapping[str, Any]) -> bool:
    """Return whether settings may name catalogs, classes or packages of Iceberg or Delta."""
    return any(
        key.startswith(_CATALOGS) or (key.startswith(_KEYS) and _WORDS.search(f"{key}={value}"))
        for key, value in settings.items()
    )


def _wrap(owner: type, name: str, concerns_us: Callable[..., bool]) -> None:
    """Wrap a method: if `concerns_us` returns true for its arguments, the engine is loaded first."""
    original = owner.__dict__.get(name)
    if original is None:
        return

    @functools.wraps(original)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not _is_loaded and concerns_us(*args, **kwargs):
            load_engine()
        if _is_loaded:
            return getattr(self, name)(*args, **kwargs)
        return original(self, *args, **kwargs)

    _replace(owner, name, call)


def _record(owner: type, names: Sequence[str]) -> None:
    """Record the calls of configuring methods, as the engine does once it is loaded."""

    def wrap(original: Any) -> Any:
        @functools.wraps(original)
        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            if not _is_loaded and original.__name__ == "format" and _is_format(*args, **kwargs):
                load_engine()
            if _is_loaded:
                return getattr(self, original.__name__)(*args, **kwargs)
            found = original(self, *args, **kwargs)
            self.__dict__.setdefault(CALLS, []).append((original.__name__, args, kwargs))
            return found

        return call

    for name in names:
        if name in owner.__dict__:
            _replace(owner, name, wrap(owner.__dict__[name]))


def _replace(owner: type, name: str, replacement: Any) -> None:
    if not _is_loading:
        _originals.append((owner, name, owner.__dict__[name]))
        setattr(owner, name, replacement)


def _is_format(source: Any = None, *_: Any, **__: Any) -> bool:
    return isinstance(source, str) and source.lower() in ("iceberg", "delta")


def _has_format(*args: Any, **kwargs: Any) -> bool:
    return any(_is_format(each) for each in (*args, kwargs.get("format")))


def _is_name(name: Any = None, *args: Any, **kwargs: Any) -> bool:
    names = [name, *(kwargs.get(each) for each in ("tableName", "name", "table"))]
    return any(isinstance(each, str) and _NAME.match(each) for each in names) or _has_format(*args, **kwargs)


def _is_text(text: Any = None, *_: Any, **kwargs: Any) -> bool:
    found = text if text is not None else kwargs.get("sqlQuery")
    return isinstance(found, str) and _TEXT.search(found) is not None


def _is_setting(key: Any = None, value: Any = None, *_: Any, **__: Any) -> bool:
    return isinstance(key, str) and names_jars({key: value})


def _wrap_session(module: ModuleType) -> None:
    session = module.SparkSession
    _wrap(session, "sql", _is_text)
    _wrap(session, "table", _is_name)
    if hasattr(session, "Builder"):
        _wrap_builder(session.Builder)
    _wrap_start(session, is_connect="connect" in module.__name__)


def _wrap_builder(builder: type) -> None:
    """Leave the JARs' classes out of the settings of a builder, and enable its session."""

    def make(original: Any, name: str) -> None:
        @functools.wraps(original)
        def call(self: Any) -> Any:
            given = {str(key): str(value) for key, value in self._options.items()}
            if not names_jars(given):
                session = original(self)
                if _has_jar_settings and not _starts_server:
                    _enable(session)
                return session
            _found_jar_settings()
            from lakescan.spark.drop_in.run import clean_settings

            self._options.update(clean_settings(given))
            session = original(self)
            _enable(session)
            return session

        setattr(builder, name, call)

    for name in ("getOrCreate", "create"):
        if name in builder.__dict__:
            make(builder.__dict__[name], name)


def _wrap_start(session: Any, *, is_connect: bool) -> None:
    if is_connect:
        start = session._start_connect_server

        @functools.wraps(start)
        def start_server(*args: Any, **kwargs: Any) -> Any:
            global _starts_server
            _starts_server = True
            try:
                return start(*args, **kwargs)
            finally:
                _starts_server = False

        session._start_connect_server = staticmethod(start_server)
        return
    original = session.__init__

    @functools.wraps(original)
    def make_session(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        if _has_jar_settings and not _starts_server:
            _enable(self)

    session.__init__ = make_session


def _wrap_context(module: ModuleType) -> None:
    """Leave the JARs' packages and classes out of the settings with which Spark starts."""
    import inspect

    context, signature = module.SparkContext, inspect.signature(module.SparkContext.__init__)
    original = context.__init__

    @functools.wraps(original)
    def make_context(self: Any, *args: Any, **kwargs: Any) -> None:
        given = signature.bind(self, *args, **kwargs)
        conf = given.arguments.get("conf")
        own = {} if conf is None else {str(key): str(value) for key, value in conf.getAll()}
        text, defaults = os.environ.get("PYSPARK_SUBMIT_ARGS", ""), _spark_defaults()
        if names_jars({**defaults, **own}) or _WORDS.search(text) or _CATALOGS in text:
            _found_jar_settings()
            from lakescan.spark.drop_in.run import clean_settings, clean_submit_arguments

            os.environ.update({"PYSPARK_SUBMIT_ARGS": clean_submit_arguments(text)} if text else {})
            changed = clean_settings({**defaults, **own})
            if changed:
                given.arguments["conf"] = _copy_conf({**own, **changed})
        original(*given.args, **given.kwargs)

    context.__init__ = make_context


def _copy_conf(settings: Mapping[str, str]) -> Any:
    from pyspark import SparkConf

    return SparkConf(loadDefaults=False).setAll(list(settings.items()))


def _spark_defaults() -> dict[str, str]:
    """Return the settings in the file `spark-defaults.conf`, which Spark reads when it starts."""
    if "PYSPARK_GATEWAY_PORT" in os.environ:  # Spark runs already
        return {}
    import pyspark

    home = os.environ.get("SPARK_HOME") or os.path.dirname(pyspark.__file__)
    path = os.path.join(os.environ.get("SPARK_CONF_DIR") or os.path.join(home, "conf"), "spark-defaults.conf")
    try:
        with open(path, encoding="utf-8") as file:
            lines = [line.strip() for line in file]
    except OSError:
        return {}
    pairs = [re.split(r"[\s=:]+", line, maxsplit=1) for line in lines if line and not line.startswith(("#", "!"))]
    return {pair[0]: pair[1].strip() for pair in pairs if len(pair) == 2}


def _found_jar_settings() -> None:
    global _has_jar_settings
    if not _has_jar_settings:
        _has_jar_settings = True
        # Spark takes seconds to start: meanwhile, another thread imports the engine.
        threading.Thread(target=importlib.import_module, args=("lakescan.spark.drop_in.run",), daemon=True).start()


def _enable(session: Any) -> None:
    load_engine()
    from lakescan.spark.drop_in.run import enable_session

    enable_session(session)


def _wrap_frame(module: ModuleType) -> None:
    _wrap(module.DataFrame, "writeTo", _is_name)
    _wrap(module.DataFrame, "mergeInto", _is_name)


def _wrap_readers(module: ModuleType) -> None:
    reader, writer = module.DataFrameReader, module.DataFrameWriter
    _record(reader, ("format", "schema", "option", "options"))
    _wrap(reader, "load", _has_format)
    _wrap(reader, "table", _is_name)
    _record(writer, ("format", "mode", "option", "options", "partitionBy", "bucketBy", "sortBy", "clusterBy"))
    for name, concerns_us in (("save", _has_format), ("saveAsTable", _is_name), ("insertInto", _is_name)):
        _wrap(writer, name, concerns_us)


def _wrap_streams(module: ModuleType) -> None:
    reader, writer = module.DataStreamReader, module.DataStreamWriter
    _record(reader, ("format", "schema", "option", "options"))
    _wrap(reader, "load", _has_format)
    _wrap(reader, "table", _is_name)
    names = ("format", "outputMode", "option", "options", "partitionBy", "clusterBy", "queryName", "trigger")
    _record(writer, names)
    _wrap(writer, "start", _has_format)
    _wrap(writer, "toTable", _is_name)


def _wrap_conf(module: ModuleType) -> None:
    _wrap(getattr(module, "RuntimeConfig", None) or module.RuntimeConf, "set", _is_setting)


def _wrap_catalog(module: ModuleType) -> None:
    for name in ("tableExists", "getTable", "listColumns", "refreshTable", "cacheTable", "uncacheTable"):
        _wrap(module.Catalog, name, _is_name)


_PATCHES: dict[str, Callable[[ModuleType], None]] = {
    "pyspark.core.context": _wrap_context,
    "pyspark.sql.session": _wrap_session,
    "pyspark.sql.classic.dataframe": _wrap_frame,
    "pyspark.sql.readwriter": _wrap_readers,
    "pyspark.sql.streaming.readwriter": _wrap_streams,
    "pyspark.sql.conf": _wrap_conf,
    "pyspark.sql.catalog": _wrap_catalog,
    "pyspark.sql.connect.session": _wrap_session,
    "pyspark.sql.connect.dataframe": _wrap_frame,
    "pyspark.sql.connect.readwriter": _wrap_readers,
    "pyspark.sql.connect.streaming.readwriter": _wrap_streams,
    "pyspark.sql.connect.conf": _wrap_conf,
    "pyspark.sql.connect.catalog": _wrap_catalog,
}


class _Wrapping(importlib.abc.MetaPathFinder):
    """Wraps the methods of PySpark's modules as soon as they are imported."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> ModuleSpec | None:
        """Find one of PySpark's modules, and give it a loader that wraps its methods; None for other modules."""
        if name not in _PATCHES:
            return None
        for finder in sys.meta_path:
            if finder is not self and (spec := finder.find_spec(name, path, target)) is not None:
                if spec.loader is not None:
                    _wrap_after(spec.loader, _PATCHES[name])
                return spec
        return None


def _wrap_after(loader: Any, wrap: Callable[[ModuleType], None]) -> None:
    run = loader.exec_module

    def exec_module(module: ModuleType) -> None:
        run(module)
        wrap(module)

    loader.exec_module = exec_module


class _Delta(importlib.abc.MetaPathFinder):
    """Provides the module `delta` by `lakescan.delta`'s compatible modules, if no other `delta` is installed."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> ModuleSpec | None:
        """Find `delta` once the engine is loaded, whose own finder provides it; None for other modules."""
        if name != "delta" or _is_loaded:
            return None
        load_engine()
        others = (each for each in sys.meta_path if not isinstance(each, _Delta | _Wrapping))
        found = (each.find_spec(name, path, target) for each in others)
        return next((spec for spec in found if spec is not None), None)
