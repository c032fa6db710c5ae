"""`df.write`: `save`, `saveAsTable` and `insertInto` of lakescan's tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from lakescan.api.catalog import Catalog
from lakescan.api.save import save_with_options
from lakescan.catalogs.formats import format_named
from lakescan.common import types as t
from lakescan.common.identifiers import Identifier, dotted_name
from lakescan.common.references import backquote, parse_reference
from lakescan.definition.table_definition import TableDefinition, Term
from lakescan.errors import (
    InvalidOption,
    NoSuchNamespace,
    NoSuchTable,
    NotATable,
    SchemaMismatch,
    TableExists,
    UnsupportedFeature,
    nearest,
)
from lakescan.options.declaration import normalise_name
from lakescan.options.session_defaults import evolution_of_session
from lakescan.options.session_settings import SessionSettings
from lakescan.options.write import WriteOptions
from lakescan.spark.drop_in.calls import Calls
from lakescan.spark.drop_in.errors import ANALYSIS, ILLEGAL, branch_errors, errors_of_format, with_class
from lakescan.spark.drop_in.interception import NOT_OURS, recorded_calls
from lakescan.spark.drop_in.names import FORMATS, new_table_parts, table_parts
from lakescan.spark.drop_in.read import is_unsupported, note_option, parts_of_place
from lakescan.spark.drop_in.session_catalog import check_saved_format
from lakescan.spark.drop_in.sessions import EnabledSession
from lakescan.spark.drop_in.settings import delta_defaults
from lakescan.spark.session import conf
from lakescan.spark.statements.sql import run_sql
from lakescan.spark.types import schema_of_rows
from lakescan.spark.wap import settings_of_session
from lakescan.spark.writing.write import SparkRows
from lakescan.statements.duckdb.types import spark_type
from lakescan.statements.rows.store_assignment import cast_to_column, differs_inside
from lakescan.statements.rows.target import ChangedTable, changed_table
from lakescan.statements.syntax.text import TableName
from lakescan.statements.syntax.types import text_literal
from lakescan.tables.base import Target
from lakescan.tables.results import WriteResult
from lakescan.tables.write_rows import append_rows, overwrite_rows

_MODES = {"error": "ErrorIfExists", "append": "Append", "overwrite": "Overwrite", "ignore": "Ignore"}
_SAME = {"errorifexists": "error", "default": "error"}
_FILE_FORMATS = ("parquet", "avro", "orc")
_LOCATIONS = ("path", "location")
_WIDTHS = (("int8", "int16", "int32", "int64"), ("float", "double"))
_MAPPING, _NOT_IN_NAMES = "delta.columnMapping.mode", " ,;{}()\n\t="
_OVERWRITE_MODE = "spark.sql.sources.partitionOverwriteMode"
_HARMLESS = ("checkordering", "checknullability")  # lakescan matches columns by name, and checks nulls by value


class NullableRows(SparkRows):
    """The rows of a data frame, all of whose columns may be null: Spark makes tables of queries with such columns."""

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema, with nullable columns and members."""
        found = super().schema
        return pa.schema([_nullable(each) for each in found], found.metadata)


def _nullable(field: pa.Field) -> pa.Field:
    return pa.field(field.name, _nullable_type(field.type), True, field.metadata)


def _nullable_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct([_nullable(kind.field(n)) for n in range(kind.num_fields)])
    if pa.types.is_list(kind):
        return pa.list_(_nullable(kind.value_field))
    if pa.types.is_large_list(kind):
        return pa.large_list(_nullable(kind.value_field))
    if pa.types.is_map(kind):
        key = pa.field(kind.key_field.name, _nullable_type(kind.key_type), False, kind.key_field.metadata)
        return pa.map_(key, _nullable(kind.item_field))
    return kind


def session_of_writer(writer: Any) -> Any:
    """Return the session of a writer of batches, classic or Connect."""
    return writer._spark


def _frame_of(writer: Any) -> Any:
    """Return the frame of a writer; on Connect, the writer only has the frame's plan."""
    if hasattr(writer._df, "sparkSession"):
        return writer._df
    from pyspark.sql.connect.dataframe import DataFrame

    return DataFrame(writer._df, writer._spark)


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
    _refuse_buckets(calls, "save")
    place = calls.take_place("save", name, path)
    with errors_of_format(name):
        parts = parts_of_place(session, name, place)
        how = _mode_of(calls)
        if name == "delta":
            save_delta(_frame_of(writer), parts[1], how, calls.partition_by, calls.options, cluster_by=calls.cluster_by)
        else:
            _save_iceberg(_frame_of(writer), parts, how, calls)
    return None


def save_delta(
    frame: Any,
    folder: str,
    mode: str,
    partition_by: Sequence[str] | None,
    options: Mapping[str, Any],
    *,
    cluster_by: Sequence[str] | None = None,
) -> None:
    """Write a data frame to the Delta table in a folder, and create the table if it does not exist.

    Args:
        frame: The data frame.
        folder: The table's folder.
        mode: `error`, `append`, `overwrite` or `ignore`.
        partition_by: Partition columns, which an existing table must have; None for those of the table.
        options: Options of the write; those that begin with `delta.` are properties of a new table.
        cluster_by: Clustering columns of a new table.
    """
    if cluster_by:
        raise UnsupportedFeature("clusterBy of a table without a name", "Create it with CREATE TABLE ... CLUSTER BY.")
    given = with_evolution(effective_options(options, "delta"), settings_of_session(frame.sparkSession), "delta")
    if mode == "overwrite" and _is_dynamic(frame.sparkSession, given):
        given["overwrite-mode"] = "dynamic"
    if partition_by is not None:
        given["partition-by"] = ", ".join(_quoted(each) for each in partition_by)
    if "replaceWhere" in given and mode != "overwrite":
        del given["replaceWhere"]
    properties = {key: value for key, value in options.items() if key.lower().startswith("delta.")}
    existing = find_table(("delta", folder))
    if existing is None:
        properties = {**delta_defaults(frame.sparkSession), **properties}
        _check_delta_names(frame, properties)
    elif not WriteOptions.parse(given, "delta").overwrite_schema:
        _check_widths(frame, existing.table.schema)
    given |= {f"table-property.{key}": str(value) for key, value in properties.items()}
    checked = replace(WriteOptions.parse({**given, "format": "delta"}), save_mode=_MODES[mode])
    save_with_options(NullableRows(frame), folder, mode, checked)


def _save_iceberg(frame: Any, parts: tuple[str, ...], mode: str, calls: Calls) -> None:
    """Write a data frame to an Iceberg table by name or path; only the modes `error` and `ignore` create a table."""
    if mode == "append":
        append_named(frame, parts, calls.options)
    elif mode == "overwrite":
        overwrite_named(frame, parts, None, calls.options)
    elif not has_table(parts):
        create_named(frame, parts, _terms(calls.partition_by), (), {}, calls.options, None)
    elif mode == "error":
        raise TableExists(
            f"{dotted_name(parts)} already exists: mode 'append' adds to it, 'overwrite' replaces its rows"
        )


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
    calls = _calls(writer, options, format, mode, partitionBy)
    parts = new_table_parts(session, name, calls.our_format(session.spark))
    if parts is None:
        return NOT_OURS
    how = _mode_of(calls)
    if is_path(parts):
        with errors_of_format(parts[0]):
            save_delta(_frame_of(writer), parts[1], how, calls.partition_by, calls.options, cluster_by=calls.cluster_by)
        return None
    check_saved_format(session, parts, calls.format)
    existing = find_table(parts)
    format_name = existing.table.format if existing is not None else _table_format(parts, calls.format)
    with errors_of_format(format_name):
        _save_named(_frame_of(writer), parts, how, calls, _bucket_terms(calls, format_name), existing)
    return None


def _save_named(
    frame: Any,
    parts: tuple[str, ...],
    mode: str,
    calls: Calls,
    buckets: tuple[Term, ...],
    existing: ChangedTable | None,
) -> None:
    """Save a data frame as a table of a catalog; `existing` is the table if it exists."""
    if existing is not None and mode == "ignore":
        return
    if existing is not None and mode == "error":
        raise TableExists(f"{dotted_name(parts)} already exists: mode 'append' adds to it, 'overwrite' replaces it")
    by = (*_terms(calls.partition_by), *buckets)
    if existing is not None and mode == "append":
        if by and ", ".join(map(str, by)) != existing.table.partitioning:
            raise with_class(_other_partitioning(parts, by, existing), *_other_partitioning_class(existing))
        append_named(frame, parts, calls.options)
        return
    if existing is not None and existing.table.format == "delta":
        given = dict(calls.options)
        if by:
            given["partition-by"] = ", ".join(map(str, by))
        overwrite_named(frame, parts, None, given)
        return
    cluster_by = tuple(parse_reference(each) for each in calls.cluster_by or ())
    create_named(
        *(frame, parts, by, cluster_by, {}, calls.options, calls.format),
        command="CREATE OR REPLACE TABLE" if mode == "overwrite" else "CREATE TABLE",
    )


def _other_partitioning(parts: tuple[str, ...], by: Sequence[Term], existing: ChangedTable) -> InvalidOption:
    return InvalidOption(
        f"{dotted_name(parts)} is partitioned by {existing.table.partitioning or 'nothing'}, not by "
        f"{', '.join(map(str, by))}: leave partitionBy out, or overwrite the table"
    )


def _other_partitioning_class(existing: ChangedTable) -> tuple[str, str | None]:
    return (ANALYSIS, "DELTA_METADATA_MISMATCH") if existing.table.format == "delta" else (ILLEGAL, None)


def insert_into(session: EnabledSession, writer: Any, tableName: str, overwrite: bool | None = None) -> Any:
    """Run `df.write.insertInto`, which matches columns by position."""
    parts = table_parts(session, tableName)
    if parts is None:
        return NOT_OURS
    calls = Calls.of(writer)
    _refuse_buckets(calls, "insertInto")
    if calls.partition_by:
        raise with_class(
            InvalidOption("insertInto() can't be used together with partitionBy(): the table defines its partitions"),
            *(ANALYSIS, "_LEGACY_ERROR_TEMP_1309"),
        )
    is_overwrite = overwrite if overwrite is not None else (calls.mode or "").lower() == "overwrite"
    existing = changed_table(TableName(parts), (), {})
    given = effective_options(calls.options, existing.table.format)
    options = ", ".join(f"{text_literal(key)} = {text_literal(str(value))}" for key, value in given.items())
    text = (
        f"INSERT {'OVERWRITE' if is_overwrite else 'INTO'} {'.'.join(map(backquote, parts))} "
        f"{f'WITH ({options}) ' if options else ''}SELECT * FROM lakescan_rows"
    )
    with errors_of_format(existing.table.format):
        run_sql(session.spark, text, lakescan_rows=_frame_of(writer))
    return None


def is_path(parts: tuple[str, ...]) -> bool:
    """Return whether a name is a format and a path, such as ``delta.`/data/t` ``."""
    return len(parts) == 2 and parts[0].lower() in FORMATS


def find_table(parts: tuple[str, ...]) -> ChangedTable | None:
    """Return the table or branch of a full name; None if it does not exist."""
    try:
        return changed_table(TableName(parts), (), {})
    except (NoSuchTable, NoSuchNamespace):
        return None
    except NotATable:
        if is_path(parts):
            return None
        raise


def has_table(parts: tuple[str, ...]) -> bool:
    """Return whether a table of a full name exists."""
    return find_table(parts) is not None


def append_named(frame: Any, parts: tuple[str, ...], options: Mapping[str, Any]) -> None:
    """Append a data frame to a table or branch, matching columns by name; raises `NoSuchTable`."""
    found = _open(frame, parts)
    with errors_of_format(found.table.format):
        given = with_evolution(effective_options(options, found.table.format), found.session, found.table.format)
        given.pop("replaceWhere", None)
        with branch_errors():
            found.run(
                given,
                lambda target, checked: append_rows(target, _rows(frame, target, checked, found.table.format), checked),
            )


def overwrite_named(
    frame: Any, parts: tuple[str, ...], where: Any, options: Mapping[str, Any], *, dynamic: bool = False
) -> None:
    """Replace rows of a table or branch by those of a data frame; raises `NoSuchTable`.

    Args:
        frame: The data frame.
        parts: The table's full name, or a format and a path.
        where: The condition of the rows to replace; None for all rows. As in the library of each format, the new rows
            of a Delta table must match it.
        options: Options of the write.
        dynamic: Whether only the partitions of the new rows are replaced.
    """
    found = _open(frame, parts)
    format_name = found.table.format
    with errors_of_format(format_name):
        given = with_evolution(effective_options(options, format_name), found.session, format_name)
        is_dynamic = dynamic or (format_name == "delta" and where is None and _is_dynamic(frame.sparkSession, given))
        if is_dynamic:
            given["overwrite-mode"] = "dynamic"
        checks = format_name == "delta" or where is None

        def write(target: Target, checked: WriteOptions) -> WriteResult:
            return overwrite_rows(
                target, _rows(frame, target, checked, format_name), checked, where, checks_rows=checks
            )

        with branch_errors():
            found.run(given, write)


def create_named(
    frame: Any,
    parts: tuple[str, ...],
    by: tuple[Term, ...],
    cluster_by: tuple[tuple[str, ...], ...],
    properties: Mapping[str, str],
    options: Mapping[str, Any],
    provider: str | None,
    *,
    command: str = "CREATE TABLE",
) -> None:
    """Create or replace a table of a catalog with the columns and rows of a data frame, in one commit.

    Args:
        frame: The data frame.
        parts: The table's full name.
        by: The partitioning.
        cluster_by: Clustering columns (Delta).
        properties: Table properties.
        options: Options of the write.
        provider: A format of tables, or of the files of an Iceberg table; None for the catalog's format.
        command: CREATE TABLE, REPLACE TABLE or CREATE OR REPLACE TABLE.
    """
    format_name = _table_format(parts, provider)
    whole = dict(properties)
    if provider is not None and provider.lower() in _FILE_FORMATS:
        whole.setdefault("write.format.default", provider.lower())
    locations = [value for key, value in {**whole, **options}.items() if key.lower() in _LOCATIONS]
    given = effective_options(options, format_name)
    if format_name == "delta":
        own = {key: str(value) for key, value in options.items() if key.lower().startswith("delta.")}
        whole = {**delta_defaults(frame.sparkSession), **whole, **own}
        _check_delta_names(frame, whole)
    else:
        _refuse_clustering(cluster_by)
    definition = TableDefinition(
        (),
        partition_by=by,
        properties={key: value for key, value in whole.items() if key.lower() not in _LOCATIONS},
        location=str(locations[0]) if locations else None,
        cluster_by=cluster_by,
        command=command,
    )
    replaces = command != "CREATE TABLE"
    for name in ("mergeSchema", "overwriteSchema", "replaceWhere", "overwrite-mode", "partitionOverwriteMode"):
        given.pop(name, None)  # a table that is created has the columns of the rows
    catalog, within = Catalog(parts[0]), str(Identifier(parts[1], parts[2:-1], parts[-1]))
    with errors_of_format(format_name):
        catalog.create_with(
            within,
            definition,
            NullableRows(frame),
            format=format_name,
            replace=replaces,
            options=given,
            save_mode="Overwrite" if replaces and format_name == "iceberg" else None,
        )


def _refuse_clustering(cluster_by: Sequence[object]) -> None:
    if cluster_by:
        raise UnsupportedFeature("clusterBy of an Iceberg table", "Set a sort order: ALTER TABLE ... WRITE ORDERED BY.")


def effective_options(options: Mapping[str, Any], format_name: str) -> dict[str, Any]:
    """Return the options that a write to a table of a format has; the log names the others once.

    Spark and the JVM libraries ignore options that they do not have. Options that lakescan knows and does not implement
    are kept, so that the write raises an error.
    """
    found: dict[str, Any] = {}
    for name, value in options.items():
        lower = name.lower()
        if lower in _LOCATIONS or lower.startswith("delta."):
            continue
        if format_name == "delta" and lower == "compression":
            found["compression-codec"] = value
        elif lower in ("schema-evolution", "merge-schema", "mergeschema"):
            found["mergeSchema"] = value
        elif WriteOptions.has_option(name, format_name) or (
            is_unsupported(WriteOptions, name) and normalise_name(name) not in _HARMLESS
        ):
            found[name] = value
        else:
            note_option(name, f"writes to {format_name} tables")
    return found


def with_evolution(options: Mapping[str, Any], session: SessionSettings, format_name: str) -> dict[str, Any]:
    """Return the options with `mergeSchema` if the session sets it and they do not set the columns otherwise."""
    if {normalise_name(each) for each in options} & {"mergeschema", "overwriteschema"}:
        return dict(options)
    return {**options, **evolution_of_session(session, format_name)}


def _open(frame: Any, parts: tuple[str, ...]) -> ChangedTable:
    with branch_errors():
        found = changed_table(TableName(parts), (), {})
    return replace(found, session=settings_of_session(frame.sparkSession))


def _rows(frame: Any, target: Target, options: WriteOptions, format_name: str) -> SparkRows:
    """Return the rows of a data frame, cast to the columns of a table by Spark's rules of store assignment.

    Columns are not cast if the write may change the table's types. The writer matches members of structs itself, and
    refuses texts in columns of another type; Delta casts them.
    """
    names = [each.lower() for each in frame.columns]
    if options.merge_schema or options.overwrite_schema or len(set(names)) < len(names):
        return SparkRows(frame)
    fields = {each.name.lower(): each for each in target.writes.schema.fields}
    ansi = conf(frame.sparkSession, "spark.sql.ansi.enabled") == "true"
    texts, is_cast = [], False
    for column, arrow in zip(frame.columns, schema_of_rows(frame.schema), strict=True):
        value, kind, field = backquote(column), spark_type(arrow.type), fields.get(column.lower())
        text = value
        is_text = kind == t.STRING and format_name != "delta"
        is_nested = isinstance(kind, t.Struct | t.ListOf | t.MapOf)
        is_cast_here = field is not None and (not is_nested or differs_inside(kind, field.type, ansi=ansi))
        if field is not None and not is_text and is_cast_here:
            text = cast_to_column(value, kind, field, ansi=ansi)
        is_cast = is_cast or text != value
        texts.append(f"{text} AS {value}")
    return SparkRows(frame.selectExpr(*texts) if is_cast else frame)


def _check_delta_names(frame: Any, properties: Mapping[str, Any]) -> None:
    """Raise `InvalidOption` for column names that a Delta table without column mapping cannot have."""
    modes = [str(value) for key, value in properties.items() if key.lower() == _MAPPING.lower()]
    wrong = [each for each in frame.columns if set(each) & set(_NOT_IN_NAMES)]
    if wrong and (modes[-1] if modes else "none").lower() == "none":
        raise with_class(
            InvalidOption(
                f"a Delta table cannot have the column names {', '.join(map(repr, wrong))}, with spaces or one of "
                f",;{{}}()=: rename the columns, or set the option {_MAPPING} to name"
            ),
            *(ANALYSIS, "DELTA_INVALID_CHARACTERS_IN_COLUMN_NAMES"),
        )


def _check_widths(frame: Any, table: pa.Schema) -> None:
    """Raise `SchemaMismatch` for numbers that are wider than the table's column, as Delta does."""
    by_name = {each.name.lower(): each for each in table}
    for arrow in schema_of_rows(frame.schema):
        field = by_name.get(arrow.name.lower())
        if field is None:
            continue
        given, wanted = str(arrow.type), str(field.type)
        for order in _WIDTHS:
            if given in order and wanted in order and order.index(given) > order.index(wanted):
                raise SchemaMismatch(
                    f"column {field.name!r} is {wanted} in the table and {given} in the rows: cast it explicitly"
                )


def _is_dynamic(spark: Any, options: Mapping[str, Any]) -> bool:
    """Return whether the session makes an overwrite of a Delta table replace only the partitions of its rows."""
    chosen = {normalise_name(key) for key in options} & {
        "overwritemode",
        "partitionoverwritemode",
        "replacewhere",
    }
    return not chosen and (conf(spark, _OVERWRITE_MODE) or "").lower() == "dynamic"


def _table_format(parts: tuple[str, ...], provider: str | None) -> str:
    """Return the format of a new table of a catalog; raises `InvalidOption` for a provider that it does not have."""
    if provider is None:
        return "delta" if parts[0] == "spark_catalog" else "iceberg"
    name = provider.lower()
    if name in FORMATS:
        return format_named(name).name
    if name in _FILE_FORMATS and parts[0] != "spark_catalog":
        return "iceberg"
    raise InvalidOption(f"Unsupported format in USING: {provider}.{nearest(provider, (*FORMATS, *_FILE_FORMATS))}")


def _mode_of(calls: Calls) -> str:
    """Return the save mode: error, append, overwrite or ignore; raises `InvalidOption` for another one."""
    lower = (calls.mode or "error").lower()
    found = _SAME.get(lower, lower)
    if found not in _MODES:
        raise with_class(
            InvalidOption(f"mode {calls.mode!r} is unknown.{nearest(lower, _MODES)} Valid: {', '.join(_MODES)}"),
            *(ANALYSIS, "INVALID_SAVE_MODE"),
        )
    return found


def _terms(columns: Sequence[str] | None) -> tuple[Term, ...]:
    return tuple(Term(_quoted(each)) for each in columns or ())


def _quoted(column: str) -> str:
    """Return a column that `partitionBy` names as a reference; a dot separates struct members, as in Spark."""
    return ".".join(part if part.isidentifier() else backquote(part) for part in parse_reference(column))


def _calls(
    writer: Any, options: dict[str, Any], format: str | None, mode: str | None, columns: str | list[str] | None
) -> Calls:
    calls = Calls.of(writer).given(options, format=format, mode=mode)
    if columns is not None:
        calls.partition_by = [columns] if isinstance(columns, str) else list(columns)
    if calls.bucket_by is None and any(name == "sortBy" for name, _, _ in recorded_calls(writer)):
        raise with_class(
            InvalidOption("sortBy must be used together with bucketBy"), ANALYSIS, "SORT_BY_WITHOUT_BUCKETING"
        )
    calls.is_sorted = any(name == "sortBy" for name, _, _ in recorded_calls(writer))
    return calls


def _refuse_buckets(calls: Calls, method: str) -> None:
    if calls.bucket_by is not None:
        raise with_class(
            InvalidOption(f"'{method}' does not support bucketBy: partition by bucket(n, column) with df.writeTo"),
            *(ANALYSIS, "_LEGACY_ERROR_TEMP_1312"),
        )


def _bucket_terms(calls: Calls, format_name: str) -> tuple[Term, ...]:
    """Return the partition transform that `bucketBy` means for an Iceberg table.

    Raises `InvalidOption` for several columns or `sortBy`, and for Delta, which has no buckets.
    """
    if calls.bucket_by is None:
        return ()
    if format_name == "delta":
        raise with_class(
            InvalidOption("bucketBy is not supported for Delta tables"),
            *(ANALYSIS, "DELTA_OPERATION_NOT_ALLOWED_DETAIL"),
        )
    number, first, *others = calls.bucket_by
    columns = [*(first if isinstance(first, list | tuple) else [first]), *others]
    if len(columns) > 1 or calls.is_sorted:
        raise InvalidOption(f"bucketBy of an Iceberg table takes one column and no sortBy, not {', '.join(columns)}")
    return (Term(_quoted(columns[0]), "bucket", int(number)),)
