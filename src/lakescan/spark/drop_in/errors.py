"""The classes of lakescan's errors in enabled sessions: those that jobs for the JARs catch, with lakescan's messages."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from lakescan.errors import (
    AmbiguousMerge,
    CommitConflict,
    IsAView,
    InvalidFilter,
    InvalidOption,
    InvalidStatement,
    LakescanError,
    NoSuchCatalog,
    NoSuchColumn,
    NoSuchNamespace,
    NoSuchTable,
    NotATable,
    SchemaMismatch,
    TableExists,
    UnsupportedFeature,
)

# PySpark's class and error condition for each of lakescan's classes; the first that matches is used.
_CLASSES: tuple[tuple[type[LakescanError], str, str], ...] = (
    (TableExists, "AnalysisException", "TABLE_OR_VIEW_ALREADY_EXISTS"),
    (IsAView, "AnalysisException", "EXPECT_TABLE_NOT_VIEW.NO_ALTERNATIVE"),
    (NoSuchTable, "AnalysisException", "TABLE_OR_VIEW_NOT_FOUND"),
    (NotATable, "AnalysisException", "PATH_NOT_FOUND"),
    (NoSuchNamespace, "AnalysisException", "SCHEMA_NOT_FOUND"),
    (NoSuchCatalog, "AnalysisException", "CATALOG_NOT_FOUND"),
    (NoSuchColumn, "AnalysisException", "UNRESOLVED_COLUMN.WITH_SUGGESTION"),
    (SchemaMismatch, "AnalysisException", "INCOMPATIBLE_DATA_FOR_TABLE.CANNOT_SAFELY_CAST"),
    (InvalidStatement, "ParseException", "PARSE_SYNTAX_ERROR"),
    (InvalidFilter, "AnalysisException", "UNRESOLVED_COLUMN.WITH_SUGGESTION"),
    (InvalidOption, "IllegalArgumentException", "INVALID_PARAMETER_VALUE"),
    (UnsupportedFeature, "UnsupportedOperationException", "UNSUPPORTED_FEATURE"),
    (AmbiguousMerge, "UnsupportedOperationException", "DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE"),
)


@contextmanager
def raise_as_spark() -> Iterator[None]:
    """Context manager: raise lakescan's errors as errors that are also of the class that PySpark would raise."""
    try:
        yield
    except LakescanError as error:
        raise spark_error(error) from error


def spark_error(error: LakescanError) -> Exception:
    """Return an error of both lakescan's class and PySpark's, with the same message; the error itself without one."""
    from pyspark import errors

    from lakescan.spark.drop_in.delta_exceptions import conflict_class

    if isinstance(error, errors.PySparkException):
        return error
    if isinstance(error, CommitConflict) and (conflict := conflict_class(error)) is not None:
        return error_of_class(error, *conflict)
    for kind, name, condition in _CLASSES:
        if isinstance(error, kind):
            return error_of_class(error, getattr(errors, name), condition)
    return error


def error_of_class(error: LakescanError, base: type, condition: str) -> Exception:
    """Return an error of both lakescan's class and `base`, with the same message.

    Args:
        error: The error.
        base: A class of PySpark's errors.
        condition: The error condition, as `getCondition` returns it.
    """
    found: Any = _class_of(type(error), base)
    new = found.__new__(found)
    new.__dict__.update(error.__dict__)
    new.args = error.args
    new._fill(str(error), condition)
    result: Exception = new
    return result


@cache
def _class_of(kind: type[LakescanError], base: type) -> type:
    """Return the class that extends PySpark's class `base`, whose name it has, and lakescan's."""

    def fill(self: Any, message: str, condition: str) -> None:
        self._message, self._errorClass, self._messageParameters = message, condition, {}
        self._contexts, self._sqlState, self._breaking_change_info = [], None, None
        self._text, self._condition = message, condition

    return type(
        base.__name__,
        (base, kind),
        {
            "_fill": fill,
            "__module__": "lakescan.spark.drop_in.errors",
            "__str__": lambda self: self._text,
            "__init__": lambda self, *arguments: Exception.__init__(self, *arguments),
            "getCondition": lambda self: self._condition,
            "getErrorClass": lambda self: self._condition,
            "getMessage": lambda self: self._text,
            "getMessageParameters": lambda self: {},
            "getSqlState": lambda self: None,
        },
    )
