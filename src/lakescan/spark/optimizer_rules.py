"""Spark optimizer rules that call back into Python: compile their Java source, and install them in a classic session.

Spark ships Janino, which compiles the source on the driver. A rule has the constructor `(java.util.function.Function,
String)`. The function answers the rule's requests. The string identifies the Python process that owns the rule, which
the rule's method `owner` returns.
"""

from __future__ import annotations

import os
import re
from collections import OrderedDict
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote
from uuid import uuid4
from weakref import WeakKeyDictionary

from lakescan.errors import LakescanError, MissingFile
from lakescan.storage.locations import normal

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PROCESS = uuid4().hex
INTERRUPTED = "the query was interrupted while lakescan planned a read"
_MOST_RAISED = 64
_NOT_THERE = re.compile(
    r"\[FAILED_READ_FILE\.FILE_NOT_EXIST\] Encountered error while reading file (.*?)\.\s+File does not"
)
_LOADERS: WeakKeyDictionary[Any, dict[Path, Any]] = WeakKeyDictionary()  # by gateway, which is one JVM


def install_rule(spark: SparkSession, java: Path, name: str, answering: Callable[[], Any]) -> None:
    """Install a rule in a session, once. Other rules stay installed; an instance of another process is replaced.

    Args:
        spark: A classic session; py4j's errors are raised for other sessions.
        java: The file with the rule's Java source.
        name: The name of the rule's class.
        answering: Makes the object that answers the rule, which implements `java.util.function.Function` for py4j.
    """
    from pyspark.java_gateway import ensure_callback_server_started

    context: Any = spark.sparkContext
    session: Any = spark
    owner = _owner()
    experimental = session._jsparkSession.experimental()
    if has_rule(spark, name):
        return
    rules = list(elements(experimental.extraOptimizations()))
    ensure_callback_server_started(context._gateway)
    arguments, wanted = context._jvm.java.util.ArrayList(), context._jvm.java.util.ArrayList()
    arguments.add(answering())
    arguments.add(owner)
    rule = class_loader(spark, java).loadClass(name).getConstructors()[0].newInstance(arguments.toArray())
    for each in [*(other for other in rules if other.getClass().getName() != name), rule]:
        wanted.add(each)
    in_scala = context._jvm.scala.jdk.javaapi.CollectionConverters.asScala(wanted).toSeq()
    getattr(experimental, "extraOptimizations_$eq")(in_scala)


def has_rule(spark: SparkSession, name: str) -> bool:
    """Return whether this process has installed the rule whose class has the name `name` in a classic session."""
    session: Any = spark
    rules = elements(session._jsparkSession.experimental().extraOptimizations())
    return any(each.getClass().getName() == name and each.owner() == _owner() for each in rules)


def _owner() -> str:
    return f"{os.getpid()} {_PROCESS}"


def class_loader(spark: SparkSession, java: Path) -> Any:
    """Return the Java class loader of a compiled source file; each file is compiled once per JVM."""
    context: Any = spark.sparkContext
    gateway, jvm = context._gateway, context._jvm
    known = _LOADERS.setdefault(gateway, {})
    if java not in known:
        compiler = jvm.org.codehaus.janino.SimpleCompiler()
        compiler.setParentClassLoader(jvm.java.lang.Thread.currentThread().getContextClassLoader())
        compiler.cook(java.read_text(encoding="utf-8"))
        known[java] = compiler.getClassLoader()
    return known[java]


def elements(found: Any) -> Iterator[Any]:
    """Yield the elements of a Scala sequence that py4j returned."""
    iterator = found.iterator()
    while iterator.hasNext():
        yield iterator.next()


class RuleErrors:
    """Errors of lakescan in a rule's answers: Spark carries their text, and PySpark raises them with their own class.

    The raised errors also have PySpark's class (`AnalysisException`) and text, like errors of Python data sources.
    """

    def __init__(self) -> None:
        self._known: OrderedDict[str, tuple[type[LakescanError], tuple[Any, ...], dict[str, Any]]] = OrderedDict()
        self._tables: OrderedDict[str, None] = OrderedDict()
        self._lock = Lock()

    def text(self, error: LakescanError) -> str:
        """Return the text of an error for Spark, and record the error's class and attributes under this text."""
        found = f"{type(error).__module__}.{type(error).__name__}: {error}"
        with self._lock:
            self._known[found] = type(error), error.args, dict(error.__dict__)
            self._known.move_to_end(found)
            while len(self._known) > _MOST_RAISED:
                self._known.popitem(last=False)
        return found

    def note_table(self, location: str) -> None:
        """Record that Spark reads data files of a table, so that a missing data file is raised as `MissingFile`."""
        with self._lock:
            self._tables[normal(location)] = None
            self._tables.move_to_end(normal(location))
            while len(self._tables) > _MOST_RAISED:
                self._tables.popitem(last=False)

    def install(self) -> None:
        """Make PySpark raise the errors, once; raises `AttributeError` if this PySpark converts errors elsewhere."""
        from pyspark.errors.exceptions import captured

        convert = captured.convert_exception
        if hasattr(convert, "_of_lakescan"):
            return

        def convert_exception(error: Any) -> Any:
            return self._convert_error(convert(error))

        convert_exception._of_lakescan = True  # type: ignore[attr-defined]
        captured.convert_exception = convert_exception

    def _convert_error(self, converted: Any) -> Any:
        """Return a PySpark error with the lakescan class of the error, or missing data file, that its text reports.

        An interrupt becomes `KeyboardInterrupt`. Other errors are returned unchanged.
        """
        text = getattr(converted, "_desc", None)
        if isinstance(text, str) and (missing := _NOT_THERE.search(text)) is not None:
            path = unquote(missing[1])
            with self._lock:
                is_ours = any(normal(path).startswith(f"{table}/") for table in self._tables)
            message = f"{path} is listed in the table's metadata but does not exist"
            return _add_class(converted, MissingFile, (message,), {}, f"{message}\n\n") if is_ours else converted
        if not isinstance(text, str) or "PYTHON_DATA_SOURCE_ERROR" not in text:
            return converted
        if INTERRUPTED in text:  # py4j may run the callback in the thread that waits for the query
            return KeyboardInterrupt()
        with self._lock:
            found = next((each for name, each in reversed(self._known.items()) if name in text), None)
        return converted if found is None else _add_class(converted, *found)


def _add_class(
    converted: Any, kind: type[LakescanError], arguments: tuple[Any, ...], members: dict[str, Any], text: str = ""
) -> Any:
    """Return a PySpark error that is also of the lakescan class `kind`, with its `arguments` and `members`.

    `members` are attributes of the error. `text` is put before its message.
    """
    from pyspark.errors import UnknownException
    from pyspark.errors.exceptions.captured import CapturedException

    # For an error class unknown to PySpark, it raises py4j's error instead.
    base: Any = CapturedException if isinstance(converted, UnknownException) else type(converted)
    names = {"__module__": kind.__module__, "__doc__": kind.__doc__, "__str__": lambda self: text + base.__str__(self)}
    own: Any = type(kind.__name__, (kind, base), names)
    result = own.__new__(own)
    result.args = arguments
    result.__dict__.update({**converted.__dict__, **members})
    return result


RAISED = RuleErrors()
