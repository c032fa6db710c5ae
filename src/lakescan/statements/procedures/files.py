"""Procedures that add existing files or metadata: `add_files` and `register_table`."""

from __future__ import annotations

import pyarrow as pa

from lakescan.api.table import Table
from lakescan.errors import InvalidOption
from lakescan.statements.procedures.declaration import (
    BOOLEAN,
    INT,
    OPTIONS,
    STRING,
    Parameter,
    Procedure,
    ProcedureCall,
    Row,
)
from lakescan.statements.procedures.imports import find_source_table, parquet_folder
from lakescan.tables.capabilities import FileImports, require

_TABLE = Parameter("table", STRING, required=True)


def _add_files(call: ProcedureCall) -> list[Row]:
    threads = call["parallelism"]
    if threads is not None and threads < 1:
        raise InvalidOption(f"add_files: parallelism={threads}: expected a number above 0")
    partitions, files = call["partition_filter"] or {}, None
    folder = parquet_folder(call["source_table"], "add_files of")
    if folder is None:
        source = find_source_table(call, call["source_table"])
        folder, files = source.location, source.files
        if not files:
            return [(0, None)]
    check = call["check_duplicate_files"] is not False
    table = call.table
    summary = table.written_by(
        {},
        lambda target, _: require(target, FileImports).add_files(
            folder, partitions, check_duplicates=check, files=files
        ),
    )
    changed = summary.get("changed-partition-count") if _counts_partitions(table) else None
    return [(int(summary.get("added-data-files", 0)), None if changed is None else int(changed))]


def _counts_partitions(table: Table) -> bool:
    """Return whether the result of `add_files` has the number of changed partitions.

    Iceberg returns it only for tables of format version 1 without snapshot id inheritance.
    """
    inherits = table.properties.get("compatibility.snapshot-id-inheritance.enabled", "false")
    return table.format_version == "1" and inherits.lower() != "true"


def _register_table(call: ProcedureCall) -> list[Row]:
    table = call.catalog.register_table(call["table"], call["metadata_file"])
    snapshots = table.inspect("snapshots").select(["snapshot_id", "summary"]).to_pylist()
    summaries = {each["snapshot_id"]: dict(each["summary"]) for each in snapshots}
    if table.version is None:
        return [(None, None, None)]
    totals = (summaries[table.version].get(name) for name in ("total-records", "total-data-files"))
    return [(table.version, *(None if each is None else int(each) for each in totals))]


PROCEDURES = (
    Procedure(
        "add_files",
        (
            _TABLE,
            Parameter("source_table", STRING, required=True),
            Parameter("partition_filter", OPTIONS),
            Parameter("check_duplicate_files", BOOLEAN),
            Parameter("parallelism", INT),
        ),
        pa.schema(
            [pa.field("added_files_count", pa.int64(), nullable=False), pa.field("changed_partition_count", pa.int64())]
        ),
        _add_files,
    ),
    Procedure(
        "register_table",
        (_TABLE, Parameter("metadata_file", STRING, required=True)),
        pa.schema(
            [
                pa.field("current_snapshot_id", pa.int64()),
                pa.field("total_records_count", pa.int64()),
                pa.field("total_data_files_count", pa.int64()),
            ]
        ),
        _register_table,
    ),
)
