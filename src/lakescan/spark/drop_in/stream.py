"""`spark.readStream` and `df.writeStream` of lakescan's tables."""

from __future__ import annotations

from typing import Any

from lakescan.common.references import backquote
from lakescan.errors import InvalidOption
from lakescan.spark.drop_in.calls import Calls
from lakescan.spark.drop_in.interception import NOT_OURS, recorded_calls
from lakescan.spark.drop_in.names import FORMATS, table_parts
from lakescan.spark.drop_in.read import parts_of_place
from lakescan.spark.drop_in.sessions import EnabledSession, find_session
from lakescan.spark.writing.table_writer import to_table as start_to_table


def session_of_writer(writer: Any) -> Any:
    """Return the session of a stream's writer, classic or Connect."""
    found = getattr(writer, "_spark", None) or getattr(writer, "_session", None)
    return found


def load(
    session: EnabledSession,
    reader: Any,
    path: str | None = None,
    format: str | None = None,
    schema: Any = None,
    **options: Any,
) -> Any:
    """Run `spark.readStream.load`."""
    calls = Calls.of(reader).given(options, format=format, schema=schema)
    name = calls.our_format(session.spark)
    if name is None:
        return NOT_OURS
    place = path if path is not None else calls.options.pop("path", None)
    if place is None:
        raise InvalidOption(f"load of format {name} needs a path or a table's name")
    return _read(session, parts_of_place(session, name, place), calls.options)


def table(session: EnabledSession, reader: Any, tableName: str) -> Any:
    """Run `spark.readStream.table`."""
    parts = table_parts(session, tableName)
    return NOT_OURS if parts is None else _read(session, parts, Calls.of(reader).options)


def _read(session: EnabledSession, parts: tuple[str, ...], options: dict[str, Any]) -> Any:
    is_path = parts[0] in FORMATS and len(parts) == 2
    place = parts[1] if is_path else ".".join(map(backquote, parts))
    source = parts[0] if is_path else "lakescan"
    return session.spark.readStream.format(source).options(**options).load(place)


def start(
    session: EnabledSession,
    writer: Any,
    path: str | None = None,
    format: str | None = None,
    outputMode: str | None = None,
    partitionBy: Any = None,
    queryName: str | None = None,
    **options: Any,
) -> Any:
    """Run `df.writeStream.start`."""
    calls = Calls.of(writer).given(options, format=format, output_mode=outputMode, query_name=queryName)
    name = None if any(each[0] in ("foreachBatch", "foreach") for each in recorded_calls(writer)) else calls.our_format(session.spark)
    if name is None or (calls.format or "").lower() not in FORMATS:
        return NOT_OURS
    place = path if path is not None else calls.options.pop("path", None)
    if place is None:
        raise InvalidOption(f"start of format {name} needs a path")
    parts = parts_of_place(session, name, place)
    return _start(session, writer, parts, calls, partitionBy, options)


def to_table(
    session: EnabledSession,
    writer: Any,
    tableName: str,
    format: str | None = None,
    outputMode: str | None = None,
    partitionBy: Any = None,
    queryName: str | None = None,
    **options: Any,
) -> Any:
    """Run `df.writeStream.toTable`."""
    parts = table_parts(session, tableName)
    if parts is None:
        return NOT_OURS
    calls = Calls.of(writer).given(options, format=format, output_mode=outputMode, query_name=queryName)
    return _start(session, writer, parts, calls, partitionBy, options)


def _start(
    session: EnabledSession, writer: Any, parts: tuple[str, ...], calls: Calls, columns: Any, options: dict[str, Any]
) -> Any:
    by = [columns] if isinstance(columns, str) else columns or calls.partition_by
    text = ".".join(map(backquote, parts))
    name = None if calls.format is None or calls.format.lower() not in FORMATS else calls.format.lower()
    return start_to_table(writer, text, name, calls.output_mode, by, calls.query_name, (), options)


def foreach_batch(session: EnabledSession, writer: Any, func: Any) -> Any:
    """Run `df.writeStream.foreachBatch`: the session of the batches is enabled, too."""
    writer.__dict__.setdefault("_lakescan_calls", []).append(("foreachBatch", (func,), {}))
    find_session(session.spark)
    return NOT_OURS
