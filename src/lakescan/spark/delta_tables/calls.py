"""Run the methods of `DeltaTable`: lakescan's own calls of PySpark are not intercepted, and errors are Spark's."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, TypeVar

from pyspark.errors import AnalysisException

from lakescan.errors import InvalidStatement
from lakescan.spark.drop_in.errors import error_of_class, raise_as_spark
from lakescan.spark.drop_in.interception import running
from lakescan.spark.drop_in.sessions import find_session, in_use

_Function = TypeVar("_Function", bound=Callable[..., Any])


def delta_call(method: _Function) -> _Function:
    """Decorate a method that reads or changes tables.

    Errors have the classes that Delta's own interface raises. The object's session is in its attribute `_spark`; a
    class method gets it as its first argument.
    """

    @functools.wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        spark = next(iter((*args, *kwargs.values())), None) if isinstance(self, type) else self._spark
        with raise_as_spark(), running(), ExitStack() as stack:
            if (session := find_session(spark)) is not None:
                stack.enter_context(in_use(session))
            try:
                return method(self, *args, **kwargs)
            except InvalidStatement as error:  # the parser has accepted the text: a name or a type is wrong
                raise analysis_error(error) from error

    found: Any = call
    return found


def analysis_error(error: InvalidStatement) -> Exception:
    """Return an invalid statement as an `AnalysisException`."""
    is_empty = str(error).startswith("the MERGE has no clause")
    condition = "DELTA_MERGE_MISSING_WHEN" if is_empty else "DELTA_MERGE_UNRESOLVED_EXPRESSION"
    return error_of_class(error, AnalysisException, condition)
