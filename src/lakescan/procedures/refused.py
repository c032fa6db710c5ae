"""Procedures that are refused by name, and what to do instead."""

from __future__ import annotations

import pyarrow as pa

from lakescan.procedures.declaration import Parameter, Procedure, columns
from lakescan.procedures.values import BOOLEAN, INT, OPTIONS, STRING, STRINGS

_TABLE = Parameter("table", STRING, required=True)
_ADD_FILES = (
    "Tables of Hive and Spark are not read here: create an Iceberg table with their columns and partitions "
    "(Catalog.create_table), and add the Parquet files of their folder with add_files(table => 'db.t', source_table => "
    "'`parquet`.`/path/to/table`')."
)

PROCEDURES = (
    Procedure(
        "snapshot",
        (
            Parameter("source_table", STRING, required=True),
            _TABLE,
            Parameter("location", STRING),
            Parameter("properties", OPTIONS),
            Parameter("parallelism", INT),
            Parameter("ignore_missing_files", BOOLEAN),
        ),
        columns(imported_files_count=pa.int64()),
        instead=f"{_ADD_FILES} With the table property 'gc.enabled'='false', no file of it is ever removed.",
    ),
    Procedure(
        "migrate",
        (
            _TABLE,
            Parameter("properties", OPTIONS),
            Parameter("drop_backup", BOOLEAN),
            Parameter("backup_table_name", STRING),
            Parameter("parallelism", INT),
            Parameter("ignore_missing_files", BOOLEAN),
        ),
        columns(migrated_files_count=pa.int64()),
        instead=_ADD_FILES,
    ),
    Procedure(
        "compute_table_stats",
        (_TABLE, Parameter("snapshot_id", STRING), Parameter("columns", STRINGS)),
        pa.schema([pa.field("statistics_file", pa.string())]),
        instead="Numbers of distinct values are not written as Puffin sketches here, and plans here do not need them: "
        "run it with Iceberg's JARs for engines that do.",
    ),
    Procedure(
        "compute_partition_stats",
        (_TABLE, Parameter("snapshot_id", STRING)),
        pa.schema([pa.field("partition_statistics_file", pa.string())]),
        instead="Table.inspect('partitions') computes the same from manifests each time.",
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
        columns(
            latest_version=pa.string(),
            file_list_location=pa.string(),
            rewritten_manifest_file_paths_count=pa.int32(),
            rewritten_delete_file_paths_count=pa.int32(),
        ),
        instead="A copy of the table's folder elsewhere is read with the option relocate, which maps old prefixes to "
        "new ones. To write to it, write its rows to a new table (lakescan.save).",
    ),
)
