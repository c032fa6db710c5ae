"""Procedures that compute statistics files, and that rewrite metadata for a copy of a table elsewhere."""

from __future__ import annotations

import pyarrow as pa

from lakescan.statements.procedures.declaration import (
    BOOLEAN,
    LONG,
    STRING,
    STRINGS,
    Parameter,
    Procedure,
    ProcedureCall,
    Row,
)
from lakescan.tables.results import StatisticsResult

_TABLE = Parameter("table", STRING, required=True)
_SNAPSHOT = Parameter("snapshot_id", LONG)
_NOT_LISTED = "N/A"  # Iceberg's documented value for a file list that was not requested


def _compute_table_stats(call: ProcedureCall) -> list[Row]:
    return _location_rows(
        call.table.compute_statistics(call["columns"], version=call["snapshot_id"], executor=call.executor)
    )


def _compute_partition_stats(call: ProcedureCall) -> list[Row]:
    return _location_rows(call.table.compute_partition_statistics(version=call["snapshot_id"], executor=call.executor))


def _location_rows(result: StatisticsResult) -> list[Row]:
    """Return one row with the location of the statistics file, or no row if nothing was computed."""
    return [] if result.location is None else [(result.location,)]


def _rewrite_table_path(call: ProcedureCall) -> list[Row]:
    done = call.table.rewrite_paths(
        call["source_prefix"],
        call["target_prefix"],
        start_version=call["start_version"],
        end_version=call["end_version"],
        staging_location=call["staging_location"],
        create_file_list=call["create_file_list"] is not False,
        executor=call.executor,
    )
    return [(done.latest_version, done.file_list or _NOT_LISTED, done.manifests, done.delete_files)]


PROCEDURES = (
    Procedure(
        "compute_table_stats",
        (_TABLE, _SNAPSHOT, Parameter("columns", STRINGS)),
        pa.schema([pa.field("statistics_file", pa.string())]),
        _compute_table_stats,
    ),
    Procedure(
        "compute_partition_stats",
        (_TABLE, _SNAPSHOT),
        pa.schema([pa.field("partition_statistics_file", pa.string())]),
        _compute_partition_stats,
    ),
    Procedure(
        "rewrite_table_path",
        (
            _TABLE,
            Parameter("source_prefix", STRING, required=True),
            Parameter("target_prefix", STRING, required=True),
            Parameter("start_version", STRING),
            Parameter("end_version", STRING),
            Parameter("staging_location", STRING),
            Parameter("create_file_list", BOOLEAN),
        ),
        pa.schema(
            [
                pa.field("latest_version", pa.string()),
                pa.field("file_list_location", pa.string()),
                pa.field("rewritten_manifest_file_paths_count", pa.int32()),
                pa.field("rewritten_delete_file_paths_count", pa.int32()),
            ]
        ),
        _rewrite_table_path,
    ),
)
