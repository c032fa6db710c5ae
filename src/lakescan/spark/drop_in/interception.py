"""Intercept methods of PySpark's classes in enabled sessions, and pass all other calls on unchanged.

A method is replaced in its class, once per process. The replacement asks a handler only if the call's session is
enabled. The handler returns `NOT_OURS` for a call that does not concern lakescan's tables: then the original method
runs with the same arguments. Calls that lakescan itself makes while a handler runs are never intercepted.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from lakescan.spark.drop_in.errors import raise_as_spark
from lakescan.spark.drop_in.sessions import find_session, in_use
from lakescan.spark.session import is_connect

NOT_OURS: Any = object()
CALLS = "_lakescan_calls"  # the attribute of a reader or writer with the calls that configured it
Handler = Callable[..., Any]

_BEFORE: dict[tuple[type, str, str], Any] = {}  # methods before their replacement, by class, name and purpose
_LOCK = threading.Lock()
_RUNNING = threading.local()


def intercept(owner: type, name: str, session_of: Callable[[Any], Any], handler: Handler) -> None:
    """Replace a method: in enabled sessions, `handler(session, self, *args, **kwargs)` runs first.

    Args:
        owner: A class of PySpark.
        name: The method's name. A class without this method is left as it is.
        session_of: Returns the Spark session of an instance; None if it has none.
        handler: Returns the method's result, or `NOT_OURS` to run the original method.
    """

    def make(original: Any) -> Any:
        @functools.wraps(original)
        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            if is_running() or (session := find_session(session_of(self))) is None:
                return original(self, *args, **kwargs)
            with raise_as_spark(connect=is_connect(session.spark)), running(), in_use(session):
                found = handler(session, self, *args, **kwargs)
            return original(self, *args, **kwargs) if found is NOT_OURS else found

        return call

    intercept_function(owner, name, make)


def record(owner: type, names: Sequence[str]) -> None:
    """Record the calls of configuring methods, such as `format` and `option`, on each instance of a class.

    PySpark keeps this state where Python cannot read it. `recorded_calls` returns the calls.
    """

    def make(original: Any) -> Any:
        @functools.wraps(original)
        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            found = original(self, *args, **kwargs)
            self.__dict__.setdefault(CALLS, []).append((original.__name__, args, kwargs))
            return found

        return call

    for name in names:
        intercept_function(owner, name, make)


def recorded_calls(builder: Any) -> list[tuple[str, tuple[Any, ...], dict[str, Any]]]:
    """Return the recorded calls of a reader or writer, each as name, arguments and keyword arguments."""
    found: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = builder.__dict__.get(CALLS, [])
    return found


def intercept_function(owner: type, name: str, make: Callable[[Any], Any], purpose: str = "") -> None:
    """Replace a method of a class by `make(original)`, once for each purpose.

    A class without this method is left as it is.
    """
    with _LOCK:
        before = owner.__dict__.get(name)
        if before is None or (owner, name, purpose) in _BEFORE:
            return
        _BEFORE[owner, name, purpose] = before
        setattr(owner, name, make(before))


def restore_all() -> None:
    """Put all original methods back."""
    with _LOCK:
        for (owner, name, _), before in reversed(_BEFORE.items()):
            setattr(owner, name, before)
        _BEFORE.clear()


def is_running() -> bool:
    """Return whether this thread runs a handler, whose own calls of PySpark are not intercepted."""
    return getattr(_RUNNING, "depth", 0) > 0


@contextmanager
def running() -> Iterator[None]:
    """Context manager: calls of PySpark in this thread are lakescan's own, and are not intercepted."""
    _RUNNING.depth = getattr(_RUNNING, "depth", 0) + 1
    try:
        yield
    finally:
        _RUNNING.depth -= 1


@contextmanager
def not_running() -> Iterator[None]:
    """Context manager: calls of PySpark in this thread are the user's again, as in a function that the user passed."""
    depth, _RUNNING.depth = getattr(_RUNNING, "depth", 0), 0
    try:
        yield
    finally:
        _RUNNING.depth = depth
