"""Hadoop's settings of an enabled Spark session, for tables by path without storage options of their own."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from lakescan.storage.settings.option_names import find_settings

_VALID_FOR = 2  # seconds, after which the settings are read again
_source: list[Callable[[], Mapping[str, str]]] = []
_read: list[tuple[float, Mapping[str, str]]] = []


def use_hadoop_defaults(source: Callable[[], Mapping[str, str]] | None) -> None:
    """Set the function that returns Hadoop's settings by name, such as `fs.s3a.endpoint`; None for no defaults."""
    _source[:] = [] if source is None else [source]
    _read.clear()


def hadoop_defaults() -> Mapping[str, str]:
    """Return those of Hadoop's settings that configure the access to a store; empty without an enabled session."""
    if not _source:
        return {}
    if not _read or time.monotonic() - _read[0][0] > _VALID_FOR:
        found = {name: value for name, value in _source[0]().items() if name.startswith("fs.") and find_settings(name)}
        _read[:] = [(time.monotonic(), found)]
    return _read[0][1]
