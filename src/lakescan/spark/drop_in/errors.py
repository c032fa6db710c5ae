"""The classes of lakescan's errors in enabled sessions: those that jobs for the JARs catch, with lakescan's messages."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

from lakescan.errors import (
    AmbiguousMerge,
    CommitConflict,
    CommitStateUnknown,
    InvalidFilter,
    InvalidOption,
    InvalidStatement,
    IsAView,
    LakescanError,
    NoSuchCatalog,
    NoSuchColumn,
    NoSuchNamespace,
    NoSuchSnapshot,
    NoSuchTable,
    NotATable,
    QueryFailed,
    SchemaMismatch,
    TableExists,
    UnsupportedFeature,
)

ANALYSIS, ILLEGAL, RUNTIME = "AnalysisException", "IllegalArgumentException", "SparkRuntimeException"
UNSUPPORTED, JAVA = "UnsupportedOperationException", "Py4JJavaError"
_SPARK, _INVARIANT = (
    "org.apache.spark.SparkException",
    "org.apache.spark.sql.delta.schema.DeltaInvariantViolationException",
)
_TOO_MANY = "INSERT_COLUMN_ARITY_MISMATCH.TOO_MANY_DATA_COLUMNS"
_TOO_FEW = "INSERT_COLUMN_ARITY_MISMATCH.NOT_ENOUGH_DATA_COLUMNS"
_UNSAFE = "INCOMPATIBLE_DATA_FOR_TABLE.CANNOT_SAFELY_CAST"
_UNRESOLVED = "UNRESOLVED_COLUMN.WITH_SUGGESTION"


@dataclass(frozen=True)
class _Rule:
    """How Spark and the JVM libraries raise an error.

    - `kind`: lakescan's class.
    - `name`: the class of PySpark, or `JAVA` for an error that PySpark does not classify.
    - `condition`: Spark's error condition; None for an error without one, as Java's own classes.
    - `pattern`: only messages that this expression is found in. Its named groups are the message's parameters.
    - `format`: only for tables of this format.
    - `java`: Java's class of an error that PySpark does not classify.
    """

    kind: type[LakescanError]
    name: str
    condition: str | None = None
    pattern: str | None = None
    format: str | None = None
    java: str = _SPARK

    def match(self, error: LakescanError, format: str | None) -> dict[str, str] | None:
        """Return the message's parameters if the rule applies to an error, else None."""
        if not isinstance(error, self.kind) or self.format not in (None, format):
            return None
        if self.pattern is None:
            return {}
        found = re.search(self.pattern, str(error))
        return None if found is None else {key: value for key, value in found.groupdict().items() if value is not None}


# The first rule that applies is used.
_RULES = (
    _Rule(TableExists, ANALYSIS, "DELTA_PATH_EXISTS", r"^(?P<path>(?:\w+:)?/\S*)", "delta"),
    _Rule(TableExists, ANALYSIS, "SCHEMA_ALREADY_EXISTS", r"namespace|schema"),
    _Rule(TableExists, ANALYSIS, "TABLE_OR_VIEW_ALREADY_EXISTS"),
    _Rule(IsAView, ANALYSIS, "EXPECT_TABLE_NOT_VIEW.NO_ALTERNATIVE"),
    _Rule(NoSuchTable, ANALYSIS, "TABLE_OR_VIEW_NOT_FOUND"),
    _Rule(NotATable, ANALYSIS, "DELTA_PATH_DOES_NOT_EXIST", r"does not exist", "delta"),
    _Rule(NotATable, ANALYSIS, "DELTA_MISSING_DELTA_TABLE", None, "delta"),
    _Rule(NotATable, ANALYSIS, "PATH_NOT_FOUND"),
    _Rule(NoSuchNamespace, ANALYSIS, "SCHEMA_NOT_FOUND"),
    _Rule(NoSuchCatalog, ANALYSIS, "CATALOG_NOT_FOUND"),
    _Rule(NoSuchColumn, ANALYSIS, _UNRESOLVED),
    _Rule(AmbiguousMerge, UNSUPPORTED, "DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE", None, "delta"),
    _Rule(AmbiguousMerge, RUNTIME, "MERGE_CARDINALITY_VIOLATION", None, "iceberg"),
    _Rule(AmbiguousMerge, UNSUPPORTED, "DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE"),
    # Rows that violate rules of a table
    _Rule(SchemaMismatch, JAVA, "DELTA_VIOLATE_CONSTRAINT_WITH_VALUES", r"violate|generated column", None, _INVARIANT),
    _Rule(SchemaMismatch, JAVA, "DELTA_NOT_NULL_CONSTRAINT_VIOLATED", r"is required, but is null", "delta", _INVARIANT),
    _Rule(
        SchemaMismatch, RUNTIME, "NOT_NULL_ASSERT_VIOLATION", r"column '(?P<walkedTypePath>[^']+)' is required, but is"
    ),
    _Rule(SchemaMismatch, RUNTIME, "EXCEED_LIMIT_LENGTH", r"is (?:var)?char\((?P<limit>\d+)\), and .* longer"),
    # Columns that do not fit a table
    _Rule(
        SchemaMismatch,
        ANALYSIS,
        "DELTA_REPLACE_WHERE_MISMATCH",
        r"replaceWhere|do(?:es)? not match the (?:filter|cond)",
    ),
    _Rule(
        SchemaMismatch,
        ANALYSIS,
        "_LEGACY_ERROR_TEMP_DELTA_0007",
        r"table lacks|does not have|not in the table",
        "delta",
    ),
    _Rule(SchemaMismatch, ANALYSIS, "DELTA_FAILED_TO_MERGE_FIELDS", None, "delta"),
    _Rule(
        SchemaMismatch,
        ANALYSIS,
        "INCOMPATIBLE_DATA_FOR_TABLE.CANNOT_FIND_DATA",
        r"column '?(?P<colName>\w+)'? is missing",
    ),
    _Rule(SchemaMismatch, ANALYSIS, _UNSAFE),
    _Rule(QueryFailed, "ArithmeticException", "CAST_OVERFLOW_IN_TABLE_INSERT", r"overflow"),
    _Rule(QueryFailed, RUNTIME),
    _Rule(InvalidStatement, ANALYSIS, _UNRESOLVED, r"[Nn]o column|cannot be resolved|has no column"),
    _Rule(InvalidStatement, "ParseException", "PARSE_SYNTAX_ERROR"),
    _Rule(InvalidFilter, ANALYSIS, _UNRESOLVED),
    _Rule(
        NoSuchSnapshot,
        ANALYSIS,
        "DELTA_TIMESTAMP_GREATER_THAN_COMMIT",
        r"(?i)timestamp.*(?:after|latest|newest)",
        "delta",
    ),
    _Rule(NoSuchSnapshot, ANALYSIS, "DELTA_TIMESTAMP_EARLIER_THAN_COMMIT_RETENTION", r"(?i)timestamp|before", "delta"),
    _Rule(NoSuchSnapshot, ANALYSIS, "DELTA_VERSION_NOT_FOUND", None, "delta"),
    _Rule(NoSuchSnapshot, ILLEGAL),
    _Rule(InvalidOption, ILLEGAL),
    _Rule(UnsupportedFeature, UNSUPPORTED),
    _Rule(CommitStateUnknown, JAVA, None, None, None, "org.apache.iceberg.exceptions.CommitStateUnknownException"),
    _Rule(CommitConflict, JAVA, None, None, None, "org.apache.iceberg.exceptions.ValidationException"),
    _Rule(LakescanError, JAVA),
)

_STATES = {
    "CAST_OVERFLOW_IN_TABLE_INSERT": "22003",
    "CATALOG_NOT_FOUND": "42P08",
    "COLUMN_ALREADY_EXISTS": "42711",
    "DELTA_FAILED_TO_MERGE_FIELDS": "22005",
    "DELTA_MISSING_DELTA_TABLE": "42P01",
    "DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE": "21506",
    "DELTA_NOT_NULL_CONSTRAINT_VIOLATED": "23502",
    "DELTA_PATH_DOES_NOT_EXIST": "42K03",
    "DELTA_PATH_EXISTS": "42K04",
    "DELTA_REPLACE_WHERE_MISMATCH": "44000",
    "DELTA_TIMESTAMP_EARLIER_THAN_COMMIT_RETENTION": "42816",
    "DELTA_TIMESTAMP_GREATER_THAN_COMMIT": "42816",
    "DELTA_VERSION_NOT_FOUND": "22003",
    "DELTA_VIOLATE_CONSTRAINT_WITH_VALUES": "23001",
    "EXCEED_LIMIT_LENGTH": "54006",
    "EXPECT_TABLE_NOT_VIEW": "42809",
    "INCOMPATIBLE_DATA_FOR_TABLE": "KD000",
    "INSERT_COLUMN_ARITY_MISMATCH": "21S01",
    "INVALID_SAVE_MODE": "42000",
    "MERGE_CARDINALITY_VIOLATION": "23K01",
    "NOT_NULL_ASSERT_VIOLATION": "42000",
    "NO_MERGE_ACTION_SPECIFIED": "42K0E",
    "PARSE_SYNTAX_ERROR": "42601",
    "PATH_NOT_FOUND": "42K03",
    "SCHEMA_ALREADY_EXISTS": "42P06",
    "SCHEMA_NOT_FOUND": "42704",
    "SORT_BY_WITHOUT_BUCKETING": "42601",
    "TABLE_OR_VIEW_ALREADY_EXISTS": "42P07",
    "TABLE_OR_VIEW_NOT_FOUND": "42P01",
    "UNRESOLVED_COLUMN": "42703",
}


@contextmanager
def raise_as_spark(*, connect: bool | None = None) -> Iterator[None]:
    """Context manager: raise lakescan's errors as errors that are also of the class that PySpark would raise.

    Args:
        connect: Whether the session is one of Connect; None to find out. It matters for errors that PySpark does not
            classify: `Py4JJavaError` in a classic session.
    """
    try:
        yield
    except LakescanError as error:
        found = spark_error(error, connect=connect)
        if found is error:
            raise
        raise found.with_traceback(error.__traceback__) from error.__cause__


@contextmanager
def errors_of_format(name: str) -> Iterator[None]:
    """Context manager: errors are about a table of this format, whose library decides about their classes."""
    try:
        yield
    except LakescanError as error:
        error.__dict__.setdefault("table_format", name)
        raise


def spark_error(error: LakescanError, *, connect: bool | None = None) -> Exception:
    """Return an error of both lakescan's class and PySpark's, with the same message.

    An error whose cause is an error of Spark about the user's query keeps Spark's class and condition. For `connect`
    see `raise_as_spark`.
    """
    from pyspark import errors

    from lakescan.spark.drop_in.delta_exceptions import conflict_class

    if isinstance(error, errors.PySparkException) or hasattr(error, "_lakescan_text"):
        return error
    if isinstance(error, CommitConflict) and (conflict := conflict_class(error)) is not None:
        return error_of_class(error, *conflict)
    wanted = error.__dict__.get("spark_error")
    if wanted is not None:
        return error_of_class(error, getattr(errors, wanted[0]), wanted[1])
    if (cause := _cause_of_spark(error)) is not None:
        return error_of_class(
            error, _plain_class(cause), cause.getCondition(), cause.getMessageParameters(), cause.getSqlState()
        )
    format = error.__dict__.get("table_format")
    for rule in _RULES:
        parameters = rule.match(error, format)
        if parameters is None:
            continue
        if rule.name == JAVA:
            return _java_error(error, rule, parameters, _is_connect() if connect is None else connect)
        return error_of_class(error, getattr(errors, rule.name), rule.condition, parameters)
    return error


def with_class(error: LakescanError, name: str, condition: str | None) -> LakescanError:
    """Return the error with the name of PySpark's class and the error condition that `spark_error` gives it.

    Example:
        >>> raise with_class(InvalidOption("mode 'upsert' is unknown"), "AnalysisException", "INVALID_SAVE_MODE")
    """
    error.__dict__["spark_error"] = (name, condition)
    return error


def error_of_class(
    error: LakescanError,
    base: type,
    condition: str | None,
    parameters: Mapping[str, str] | None = None,
    state: str | None = None,
) -> Exception:
    """Return an error of both lakescan's class and `base`, with the same message.

    Args:
        error: The error.
        base: A class of PySpark's errors.
        condition: The error condition, as `getCondition` returns it; None for an error without one.
        parameters: The parameters of the message.
        state: The SQLSTATE; None for that of the condition.
    """
    known = state if state is not None or condition is None else _STATES.get(condition.partition(".")[0])
    kept = {key: value for key, value in error.__dict__.items() if key not in ("spark_error", "table_format")}
    return _rebuild(type(error), base, error.args, kept, (str(error), condition, dict(parameters or {}), known))


def _rebuild(
    kind: type[LakescanError],
    base: type,
    arguments: tuple[Any, ...],
    state: Mapping[str, Any],
    about: tuple[str, str | None, dict[str, str], str | None],
) -> Exception:
    """Return an error of lakescan's class `kind` and of `base`, as `error_of_class` and pickle make it."""
    found: Any = _class_of(kind, base)
    new: Any = found.__new__(found, *arguments)
    new.__dict__.update(state)
    new.args = arguments
    message, condition, parameters, sql_state = about
    shown = condition is not None and not condition.startswith("_LEGACY")
    new._lakescan_text = f"[{condition}] {message}" if shown else message
    new._lakescan_about = about
    new._message, new._desc, new._errorClass = message, new._lakescan_text, condition
    new._messageParameters, new._contexts, new._sqlState = parameters, [], sql_state
    result: Exception = new
    return result


def _reduce(self: Any) -> Any:
    kind, base = type(self)._lakescan_classes
    hidden = ("_lakescan_text", "_lakescan_about", "_message", "_desc", "_errorClass")
    hidden += ("_messageParameters", "_contexts", "_sqlState", "java_exception")
    state = {key: value for key, value in self.__dict__.items() if key not in hidden}
    return _rebuild, (kind, base, self.args, state, self._lakescan_about)


def _error_class(self: Any) -> str | None:
    """Return the error condition, as `getCondition`."""
    import warnings

    warnings.warn("Deprecated in 4.0.0, use getCondition instead.", FutureWarning, stacklevel=2)
    condition: str | None = self.getCondition()
    return condition


@cache
def _class_of(kind: type[LakescanError], base: type) -> type:
    """Return the class that extends PySpark's class `base`, whose name it has, and lakescan's."""
    return type(
        base.__name__,
        (base, kind),
        {
            "__module__": base.__module__,
            "__doc__": kind.__doc__,
            "_lakescan_classes": (kind, base),
            "__init__": lambda self, *arguments: None,
            "__str__": lambda self: self._lakescan_text,
            "__reduce__": _reduce,
            "getCondition": lambda self: self._lakescan_about[1],
            "getErrorClass": _error_class,
            "getMessage": lambda self: self._lakescan_text,
            "getMessageParameters": lambda self: dict(self._lakescan_about[2]),
            "getSqlState": lambda self: self._lakescan_about[3],
            "getQueryContext": lambda self: [],
            "getBreakingChangeInfo": lambda self: None,
        },
    )


class JavaException:
    """What a job reads of the Java exception in a `Py4JJavaError`: its class and its message."""

    def __init__(self, name: str, message: str) -> None:
        self._name, self._message = name, message

    def getClass(self) -> JavaException:
        """Return the class, of which `getName` and `getSimpleName` can be read."""
        return self

    def getName(self) -> str:
        """Return the name of the class."""
        return self._name

    def getSimpleName(self) -> str:
        """Return the name of the class without its package."""
        return self._name.rpartition(".")[2]

    def getMessage(self) -> str:
        """Return the message."""
        return self._message

    getLocalizedMessage = getMessage

    def getCause(self) -> None:
        """Return None: there is no other exception."""

    def toString(self) -> str:
        """Return the class and the message."""
        return f"{self._name}: {self._message}"

    __str__ = toString


def _java_error(error: LakescanError, rule: _Rule, parameters: Mapping[str, str], connect: bool) -> Exception:
    """Return an error that PySpark does not classify."""
    if connect:
        from pyspark.errors.exceptions import connect as classes

        known = rule.java == _SPARK and hasattr(classes, "SparkException")
        base = (
            classes.SparkException if known else getattr(classes, "UnknownException", classes.SparkConnectGrpcException)
        )
        return error_of_class(error, base, rule.condition, parameters)
    try:
        from py4j.protocol import Py4JJavaError
    except ImportError:  # a client without Java's libraries
        return error
    found: Any = error_of_class(error, Py4JJavaError, rule.condition, parameters)
    found.java_exception = JavaException(rule.java, found._lakescan_text)
    found.errmsg = found._lakescan_text
    result: Exception = found
    return result


def _is_connect() -> bool:
    """Return whether this process has no classic session."""
    from pyspark import SparkContext

    return getattr(SparkContext, "_active_spark_context", None) is None


def _cause_of_spark(error: LakescanError) -> Any:
    """Return the error of Spark about the user's query or rows that an error was translated from; None without one."""
    from pyspark.errors import PySparkException, PythonException

    found: BaseException | None = error.__cause__
    while isinstance(found, LakescanError):
        found = found.__cause__
    if not isinstance(found, PySparkException) or isinstance(found, PythonException) or found.getCondition() is None:
        return None
    return found if isinstance(error, QueryFailed | InvalidStatement | NoSuchColumn | InvalidFilter) else None


def _plain_class(error: Exception) -> type:
    """Return the class of `pyspark.errors` that an error of Spark belongs to."""
    from pyspark import errors

    return next(
        each for each in type(error).__mro__ if getattr(errors, each.__name__, None) is each or each is Exception
    )
