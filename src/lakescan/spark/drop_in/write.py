"""`df.write`: `save`, `saveAsTable` and `insertInto` of lakescan's tables."""

from __future__ import annotations

from typing import Any

from lakescan.api.save import save as save_rows
from lakescan.common.references import backquote
from lakescan.errors import InvalidOption
from lakescan.spark.drop_in.calls import Calls
from lakescan.spark.drop_in.interception import NOT_OURS
from lakescan.spark.drop_in.names import FORMATS, table_parts
from lakescan.spark.drop_in.read import parts_of_place
from lakescan.spark.drop_in.sessions import EnabledSession
from lakescan.spark.statements.sql import run_sql
from lakescan.spark.writing.table_writer import save_as_table as save_named


def session_of_writer(writer: Any) -> Any:
    """Return the session of a writer of batches, classic or Connect."""
    return writer._df.sparkSession


def save(
    session: EnabledSession,
    writer: Any,
    path: str | None = None,
    format: str | None = None,
    mode: str | None = None,
    partitionBy: str | list[str] | None = None,
    **options: Any,
) -> Any:
    """Run `df.write.save`."""
    calls = _calls(writer, options, format, mode, partitionBy)
    name = calls.our_format(session.spark)
    if name is None:
        return NOT_OURS
    _check_buckets(calls)
    place = path if path is not None else calls.options.pop("path", None)
    if place is None:
        raise InvalidOption(f"save of format {name} needs a path or a table's name")
    parts = parts_of_place(session, name, place)
    where = parts[1] if parts[0] in FORMATS and len(parts) == 2 else ".".join(map(backquote, parts))
    mode_name = {"errorifexists": "error", "default": "error"}.get((calls.mode or "error").lower(), calls.mode)
    save_rows(writer._df, where, mode=mode_name or "error", format=name, partition_by=calls.partition_by, **calls.options)
    return None


def save_as_table(
    session: EnabledSession,
    writer: Any,
    name: str,
    format: str | None = None,
    mode: str | None = None,
    partitionBy: str | list[str] | None = None,
    **options: Any,
) -> Any:
    """Run `df.write.saveAsTable`."""
    parts = table_parts(session, name)
    if parts is None:
        return NOT_OURS
    calls = _calls(writer, options, format, mode, partitionBy)
    _check_buckets(calls)
    text = ".".join(map(backquote, parts))
    save_named(writer._df, text, calls.format, calls.mode, calls.partition_by, (), calls.options)
    return None


def insert_into(session: EnabledSession, writer: Any, tableName: str, overwrite: bool | None = None) -> Any:
    """Run `df.write.insertInto`, which matches columns by position."""
    parts = table_parts(session, tableName)
    if parts is None:
        return NOT_OURS
    is_overwrite = overwrite if overwrite is not None else (Calls.of(writer).mode or "").lower() == "overwrite"
    how, name = ("OVERWRITE" if is_overwrite else "INTO"), ".".join(map(backquote, parts))
    run_sql(session.spark, f"INSERT {how} {name} SELECT * FROM lakescan_rows", lakescan_rows=writer._df)
    return None


def _calls(
    writer: Any, options: dict[str, Any], format: str | None, mode: str | None, columns: str | list[str] | None
) -> Calls:
    calls = Calls.of(writer).given(options, format=format, mode=mode)
    if columns is not None:
        calls.partition_by = [columns] if isinstance(columns, str) else list(columns)
    return calls


def _check_buckets(calls: Calls) -> None:
    if calls.bucket_by is not None:
        raise InvalidOption("bucketBy is for Spark's own tables: partition by bucket(n, column) with df.writeTo")
