"""Procedures that create Iceberg tables from files of other tables: `snapshot`, and the unsupported `migrate`."""

from __future__ import annotations

import re

import pyarrow as pa

from lakescan.common.identifiers import split_name
from lakescan.errors import InvalidOption, UnsupportedFeature
from lakescan.statements.procedures.declaration import (
    BOOLEAN,
    INT,
    OPTIONS,
    STRING,
    Parameter,
    Procedure,
    ProcedureCall,
    Row,
    SourceTable,
    columns,
)

_SOURCE = re.compile(r"\s*`?(parquet|orc|avro|delta|iceberg)`?\s*\.\s*`(.+)`\s*", re.IGNORECASE | re.DOTALL)
_TABLE = Parameter("table", STRING, required=True)
# Properties that a snapshot of a table always gets, because its files belong to another table.
_MARKS = {"gc.enabled": "false", "snapshot": "true"}
# Properties that are not copied: those that Spark and Hive set themselves, and the locations of the source.
_OWN = (
    *("path", "location", "provider", "transient_lastDdlTime", "serialization.format"),
    *("write.metadata.path", "write.folder-storage.path", "write.object-storage.path", "write.data.path"),
)


def parquet_folder(source: str, what: str) -> str | None:
    """Return the folder of a source `parquet`.`path`; None for the name of a table.

    Raises `UnsupportedFeature` for a folder of another format. `what` describes the call in the message.
    """
    found = _SOURCE.fullmatch(source)
    parts = split_name(source)
    kind, path = (found[1], found[2].replace("``", "`")) if found else (None, None)
    if found is None and parts is not None and len(parts) == 2 and parts[0].lower() == "parquet":
        kind, path = parts
    if kind is not None and kind.lower() != "parquet":
        raise UnsupportedFeature(
            f"{what} {kind.lower()} files", "Only Parquet files are supported: read other files and append their rows."
        )
    return path


def _snapshot(call: ProcedureCall) -> list[Row]:
    if call["parallelism"] is not None and call["parallelism"] < 1:
        raise InvalidOption(f"snapshot: parallelism={call['parallelism']}: expected a number above 0")
    source, given = call["source_table"], call["properties"] or {}
    folder = parquet_folder(source, "a snapshot of")
    if folder is not None:
        made = call.catalog.create_from_files(
            call["table"], folder, location=call["location"], properties={**given, **_MARKS}
        )
        return [(made.files,)]
    table = find_source_table(call, source)
    kept = {name: value for name, value in table.properties.items() if name not in _OWN}
    made = call.catalog.create_from_files(
        call["table"],
        table.location,
        columns=table.columns,
        partition_by=table.partition_by,
        files=table.files,
        location=call["location"],
        properties={**kept, **given, **_MARKS},
    )
    return [(made.files,)]


def find_source_table(call: ProcedureCall, name: str) -> SourceTable:
    """Return the description of a table of Spark's own catalog whose files a call imports.

    Raises `UnsupportedFeature` without Spark and for other files than Parquet, and `NoSuchTable`.
    """
    if call.source_table is None:
        raise UnsupportedFeature(
            f"{call.procedure} from the table {name} in process",
            "Only Spark can read Spark's own catalog: CALL it with lakescan.spark.sql, or pass the folder of the "
            "files, source_table => '`parquet`.`/path/to/files`'.",
        )
    table = call.source_table(name)
    if table.format != "parquet":
        raise UnsupportedFeature(
            f"{call.procedure} from {table.name}, a table of {table.format} files",
            "Only Parquet files are supported: copy the rows of other tables with CREATE TABLE ... AS SELECT.",
        )
    return table


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
        _snapshot,
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
        instead="Spark's own catalog cannot hold Iceberg tables without Iceberg's JARs, so the table cannot be "
        "replaced there. Create an Iceberg table from its files in another catalog: snapshot(source_table => 'db.t', "
        "table => 'db.t'), or add_files to an existing table. Write to it from then on, and drop the old table's "
        "name, not its files.",
    ),
)
