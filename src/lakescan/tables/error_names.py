"""Show tables in error messages under the name that the user opened them by, not by their location."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from lakescan.errors import LakescanError, UnsupportedFeature

_Given = ParamSpec("_Given")
_Result = TypeVar("_Result")


class LocatedTable(Protocol):
    """A table with a location, and with a name for messages, which may be the location."""

    @property
    def name(self) -> str:
        """The table's name for messages."""

    @property
    def location(self) -> str:
        """The table's location."""


_Table = TypeVar("_Table", bound=LocatedTable)


@contextmanager
def name_table_in_errors(name: str, location: str) -> Iterator[None]:
    """Context manager: replace a table's location by its name in messages of lakescan errors.

    Locations of files in the table's folder stay. Nothing changes if the name is the location.
    """
    try:
        yield
    except LakescanError as error:
        if name != location:
            alone = re.compile(re.escape(location.rstrip("/")) + r"/?(?![\w/-]|\.\w)")
            texts = [alone.sub(lambda _: name, each) if isinstance(each, str) else each for each in error.args]
            error.args = tuple(texts)
            if isinstance(error, UnsupportedFeature):
                error.feature, error.detail = texts
        raise


def errors_name_table(
    method: Callable[Concatenate[_Table, _Given], _Result],
) -> Callable[Concatenate[_Table, _Given], _Result]:
    """Decorate a method of a table, so that its errors name the table; see `name_table_in_errors`."""

    @wraps(method)
    def call_method(table: _Table, /, *given: _Given.args, **named: _Given.kwargs) -> _Result:
        with name_table_in_errors(table.name, table.location):
            return method(table, *given, **named)

    return call_method
