"""`spark.table`, `spark.read.table` and `spark.read.load` of lakescan's tables."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lakescan.common.identifiers import split_name
from lakescan.errors import InvalidOption
from lakescan.options.declaration import OptionSet, normalise_name
from lakescan.options.read import ReadOptions
from lakescan.spark.drop_in.calls import Calls
from lakescan.spark.drop_in.errors import UNSUPPORTED, errors_of_format, with_class
from lakescan.spark.drop_in.interception import NOT_OURS
from lakescan.spark.drop_in.names import FORMATS, table_parts
from lakescan.spark.drop_in.sessions import EnabledSession
from lakescan.spark.statements.queries import frame_of_name
from lakescan.storage.locations import absolute

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_LOG = logging.getLogger("lakescan")
_noted: set[tuple[str, str]] = set()  # options of which the log says that they have no effect


def session_of_reader(reader: Any) -> Any:
    """Return the session of a reader of batches or streams, classic or Connect."""
    return getattr(reader, "_spark", None) or getattr(reader, "_client", None)


def table(session: EnabledSession, spark: Any, tableName: str) -> Any:
    """Run `spark.table`."""
    parts = table_parts(session, tableName)
    return NOT_OURS if parts is None else read_name(session, parts, {})


def reader_table(session: EnabledSession, reader: Any, tableName: str) -> Any:
    """Run `spark.read.table`."""
    parts = table_parts(session, tableName)
    return NOT_OURS if parts is None else read_name(session, parts, Calls.of(reader).options)


def load(
    session: EnabledSession,
    reader: Any,
    path: str | list[str] | None = None,
    format: str | None = None,
    schema: Any = None,
    **options: Any,
) -> Any:
    """Run `spark.read.load`."""
    calls = Calls.of(reader).given(options, format=format, schema=schema)
    name = calls.our_format(session.spark)
    if name is None:
        return NOT_OURS
    place = calls.take_place("load", name, path)
    if isinstance(place, list | tuple) and len(place) == 1:
        place = place[0]
    if not isinstance(place, str):
        raise InvalidOption(f"load of format {name} takes one path, not {place!r}")
    if calls.schema is not None:
        raise with_class(
            InvalidOption(f"format {name} takes no schema: a table has its own. Leave schema(...) out"),
            *(UNSUPPORTED, "_LEGACY_ERROR_TEMP_2242"),
        )
    with errors_of_format(name):
        return read_name(session, parts_of_place(session, name, place), calls.options)


def parts_of_place(session: EnabledSession, format: str, place: str) -> tuple[str, ...]:
    """Return the parts of the name in `load(place)` of a format: a table of a catalog, or a format and a path."""
    if format == "iceberg" and "/" not in place and split_name(place) is not None:
        parts = table_parts(session, place)
        if parts is not None:
            return parts
    return (format, absolute(place))


def read_name(session: EnabledSession, parts: tuple[str, ...], options: Mapping[str, Any]) -> DataFrame:
    """Return the frame of a table, metadata table, branch or view, by its full name, or a format and a path."""
    return frame_of_name(session.spark, parts, effective_options(options), with_metadata=True)


def effective_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that reads of tables have; the log names the others once.

    Spark and the JVM libraries ignore options that they do not have. Options that lakescan knows and does not implement
    are kept, so that the read raises an error.
    """
    found: dict[str, Any] = {}
    for name, value in options.items():
        if name.lower() == "path":
            continue
        if any(ReadOptions.has_option(name, each) for each in FORMATS) or is_unsupported(ReadOptions, name):
            found[name] = value
        else:
            note_option(name, "reads")
    return found


def is_unsupported(kind: type[OptionSet], name: str) -> bool:
    """Return whether an option is one that lakescan knows, and does not implement."""
    wanted = normalise_name(name)
    return any(normalise_name(each) == wanted for names in kind.UNSUPPORTED.values() for each in names)


def note_option(name: str, action: str) -> None:
    """Log once that an option has no effect on `action`, such as "reads"."""
    if (name, action) not in _noted:
        _noted.add((name, action))
        _LOG.info("the option %s has no effect on %s", name, action)
