"""`spark.readStream` and `df.writeStream` of lakescan's tables."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from lakescan.api.catalog import Catalog
from lakescan.api.open import table as open_table
from lakescan.catalogs.formats import DEFAULT, exists
from lakescan.common.references import backquote
from lakescan.errors import NoSuchTable, SchemaMismatch
from lakescan.spark.drop_in.calls import Calls
from lakescan.spark.drop_in.interception import CALLS, NOT_OURS, recorded_calls
from lakescan.spark.drop_in.names import FORMATS, new_table_parts, table_parts
from lakescan.spark.drop_in.read import parts_of_place
from lakescan.spark.drop_in.session_catalog import SPARK
from lakescan.spark.drop_in.sessions import EnabledSession, check_streams
from lakescan.spark.drop_in.settings import delta_defaults
from lakescan.spark.drop_in.write import with_evolution
from lakescan.spark.session import conf, is_connect
from lakescan.spark.wap import settings_of_session
from lakescan.spark.writing.table_writer import to_table as start_to_table

_CHECKPOINTS = "spark.sql.streaming.checkpointLocation"  # session setting: the folder of checkpoints


def session_of_writer(writer: Any) -> Any:
    """Return the session of a stream's writer, classic or Connect."""
    return getattr(writer, "_spark", None) or getattr(writer, "_session", None)


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
    place = calls.take_place("load", name, path)
    frame = _read(session, parts_of_place(session, name, place), calls.options)
    _check_schema(frame, calls.schema, place)
    return frame


def _check_schema(frame: Any, schema: Any, place: str) -> None:
    """Raise `SchemaMismatch` if the user gives a schema other than the table's."""
    from pyspark.sql.types import StructType

    if schema is None:
        return
    given, own = (StructType.fromDDL(schema) if isinstance(schema, str) else schema), frame.schema
    if given.toNullable().simpleString() != own.toNullable().simpleString():
        raise SchemaMismatch(
            f"the schema given for the stream of {place} is {given.simpleString()}, but the table has "
            f"{own.simpleString()}: leave the schema out"
        )


def table(session: EnabledSession, reader: Any, tableName: str) -> Any:
    """Run `spark.readStream.table`."""
    parts = table_parts(session, tableName)
    return NOT_OURS if parts is None else _read(session, parts, Calls.of(reader).options)


def _read(session: EnabledSession, parts: tuple[str, ...], options: dict[str, Any]) -> Any:
    source, place = _source_of(session, parts)
    return session.spark.readStream.format(source).options(**options).load(place)


def _is_path(session: EnabledSession, parts: tuple[str, ...]) -> bool:
    """Return whether a name is a format and a folder, rather than a table of a catalog."""
    return len(parts) == 2 and parts[0].lower() in FORMATS and parts[0] not in session.catalogs


def _source_of(session: EnabledSession, parts: tuple[str, ...]) -> tuple[str, str]:
    """Return the data source of a table and its path there: a folder, or a name of a catalog that workers know."""
    if _is_path(session, parts):
        return parts[0].lower(), parts[1]
    name = ".".join(map(backquote, parts))
    if parts[0] == SPARK and SPARK not in session.catalogs:  # workers cannot ask the session for its tables
        table = open_table(name)
        return table.format, table.location
    check_streams(session)
    return "lakescan", name


def start(
    session: EnabledSession,
    writer: Any,
    path: str | None = None,
    format: str | None = None,
    outputMode: str | None = None,
    partitionBy: str | list[str] | None = None,
    queryName: str | None = None,
    **options: Any,
) -> Any:
    """Run `df.writeStream.start`."""
    calls = _calls(writer, options, format, outputMode, partitionBy, queryName)
    name = calls.our_format(session.spark)
    if name is None or (format is None and _runs_a_function(writer)):
        return NOT_OURS
    place = calls.take_place("start", name, path)
    parts = parts_of_place(session, name, place)
    if name == "iceberg" and not exists(parts[1] if _is_path(session, parts) else ".".join(map(backquote, parts)), {}):
        raise NoSuchTable(f"there is no table {place}: start of format iceberg needs one, toTable creates it")
    return _start(session, writer, parts, calls)


def to_table(
    session: EnabledSession,
    writer: Any,
    tableName: str,
    format: str | None = None,
    outputMode: str | None = None,
    partitionBy: str | list[str] | None = None,
    queryName: str | None = None,
    **options: Any,
) -> Any:
    """Run `df.writeStream.toTable`, which creates a table that does not exist."""
    calls = _calls(writer, options, format, outputMode, partitionBy, queryName)
    parts = new_table_parts(session, tableName, calls.our_format(session.spark))
    if parts is None:
        return NOT_OURS
    if not _is_path(session, parts):
        _create_missing(writer, parts, calls)
    return _start(session, writer, parts, calls)


def _create_missing(writer: Any, parts: tuple[str, ...], calls: Calls) -> None:
    """Create a table that does not exist, with the nullable columns of the stream, before its first micro-batch."""
    catalog, name = Catalog(parts[0]), ".".join(map(backquote, parts[1:]))
    if catalog.table_exists(name):
        return
    format = (calls.format or "").lower()
    chosen = format if format in FORMATS else DEFAULT
    catalog.create_table_if_not_exists(  # another stream may create it meanwhile
        name,
        _frame_of(writer).schema.toNullable(),
        format=chosen,
        properties=delta_defaults(_frame_of(writer).sparkSession) if chosen == "delta" else None,
        partition_by=calls.partition_by,
        location=next((value for key, value in calls.options.items() if key.lower() == "path"), None),
    )


def _frame_of(writer: Any) -> Any:
    """Return the data frame of a stream's writer, classic or Connect."""
    if (found := getattr(writer, "_df", None)) is not None:
        return found
    from pyspark.sql.connect.dataframe import DataFrame

    return DataFrame(writer._write_stream._child, writer._session)


def _calls(
    writer: Any,
    options: dict[str, Any],
    format: str | None,
    mode: str | None,
    columns: str | list[str] | None,
    name: str | None,
) -> Calls:
    calls = Calls.of(writer).given(options, format=format, output_mode=mode, query_name=name)
    if columns is not None:
        calls.partition_by = [columns] if isinstance(columns, str) else list(columns)
    return calls


def _runs_a_function(writer: Any) -> bool:
    """Return whether the last call that set the destination is `foreachBatch` or `foreach`, rather than `format`."""
    names = [each[0] for each in recorded_calls(writer) if each[0] in ("foreachBatch", "foreach", "format")]
    return bool(names) and names[-1] != "format"


def _start(session: EnabledSession, writer: Any, parts: tuple[str, ...], calls: Calls) -> Any:
    source, place = _source_of(session, parts)
    options = {key: value for key, value in calls.options.items() if key.lower() != "path"}
    is_new = _is_path(session, parts) and source == "delta"  # others exist: then Spark ignores format and partitions
    if is_new and (defaults := delta_defaults(session.spark)) and not exists(place, {}):
        options |= {f"table-property.{name}": value for name, value in defaults.items()}
    return start_to_table(
        writer,
        place if source == "lakescan" else f"{source}.{backquote(place)}",
        None,
        calls.output_mode,
        calls.partition_by if is_new else None,
        calls.query_name,
        (),
        {**with_evolution(options, settings_of_session(session.spark), source), **_checkpoint(session, calls)},
    )


def _checkpoint(session: EnabledSession, calls: Calls) -> dict[str, str]:
    """Return the checkpoint as an option, if it is in the folder of the session's setting.

    The sink reads the query's id there, and Spark passes only options to it.
    """
    if any(each.lower() == "checkpointlocation" for each in calls.options):
        return {}
    folder = conf(session.spark, _CHECKPOINTS)
    return {"checkpointLocation": f"{folder.rstrip('/')}/{calls.query_name or uuid4()}"} if folder else {}


def foreach_batch(session: EnabledSession, writer: Any, func: Any) -> Any:
    """Run `df.writeStream.foreachBatch`: the session of the batches is enabled, too."""
    if not callable(func):
        return NOT_OURS
    found = writer.foreachBatch(EnabledBatch(func))
    writer.__dict__.setdefault(CALLS, []).append(("foreachBatch", (func,), {}))
    return found


class EnabledBatch:
    """A function of `foreachBatch` whose batches have an enabled session.

    On Connect, it is pickled, and runs in a process of the server.
    """

    def __init__(self, function: Any) -> None:
        self._function = function

    def __call__(self, frame: Any, batch_id: int) -> Any:
        """Run the user's function for a batch."""
        spark = frame.sparkSession
        if is_connect(spark):
            from lakescan.spark import enable  # the process of the server has not enabled anything yet

            enable(spark)
        else:
            _reach_java(frame)
        return self._function(frame, batch_id)


def _reach_java(frame: Any) -> None:
    """Let `frame._jdf.sparkSession().sql(...)`, a habit from before `frame.sparkSession`, reach lakescan's tables."""
    java_frame, spark = frame._jdf, frame.sparkSession
    get_session = java_frame.sparkSession

    def session() -> Any:
        found = get_session()
        run_on_java = found.sql

        def sql(text: str, *args: Any) -> Any:
            return spark.sql(text)._jdf if not args else run_on_java(text, *args)

        found.sql = sql
        return found

    java_frame.sparkSession = session
