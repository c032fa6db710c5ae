"""Run CALL of Iceberg's procedures, and Delta's commands: OPTIMIZE, VACUUM, RESTORE, CONVERT TO DELTA, REORG."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from lakescan.api.catalog import Catalog
from lakescan.api.convert import convert_to_delta
from lakescan.api.table import Table
from lakescan.catalogs.registry import catalog_names, is_known
from lakescan.errors import InvalidOption, InvalidStatement, NoSuchCatalog, UnsupportedFeature, nearest
from lakescan.expressions.sql_condition import references
from lakescan.maintenance.zorder import check_zorder_columns
from lakescan.statements.procedures import bind_arguments, changes_of, find_procedure
from lakescan.statements.procedures import call as call_procedure
from lakescan.statements.syntax.commands import (
    Call,
    ConstantExpression,
    Convert,
    Generate,
    Optimize,
    Refresh,
    Reorg,
    Restore,
    Vacuum,
)
from lakescan.statements.syntax.types import name_text, type_text
from lakescan.statements.tables.context import StatementContext, find_table
from lakescan.tables.results import CompactResult

_LEAST_HOURS = 24  # younger files may be in use by current readers or writers
_SIZES = pa.struct({"totalFiles": pa.int64(), "totalSize": pa.int64()})
_METRICS = pa.struct(
    {"numFilesAdded": pa.int64(), "numFilesRemoved": pa.int64(), "filesAdded": _SIZES, "filesRemoved": _SIZES}
)
_RESTORED = (
    "table_size_after_restore",
    "num_of_files_after_restore",
    "num_removed_files",
    "num_restored_files",
    "removed_files_size",
    "restored_files_size",
)


def call(wanted: Call, context: StatementContext) -> pa.Table:
    """Run CALL and return the procedure's result.

    Raises `NoSuchCatalog` if the name has no known catalog, and the errors of `procedures.call`.
    """
    *where, name = wanted.name
    if where and where[-1].lower() == "system":
        where.pop()
    names = tuple(where) or context.within[:1]
    if len(names) != 1 or not is_known(names[0]):
        shown = ".".join(wanted.name)
        first = wanted.name[0]
        raise NoSuchCatalog(
            f"CALL {shown}: write CALL catalog.system.{name}(...).{nearest(first, catalog_names())} Known catalogs: "
            f"{', '.join(catalog_names()) or 'none'}"
        )
    catalog = Catalog(names[0])
    positional = [_value_of(each, context) for each in wanted.positional]
    named = {each: _value_of(value, context) for each, value in wanted.named.items()}
    if name.lower() == "create_changelog_view" and context.make_view is not None:
        arguments = bind_arguments(find_procedure(name), positional, named)
        view, changes = changes_of(catalog, arguments)
        context.make_view(view, changes)
        return pa.table({"changelog_view": [view]})
    return call_procedure(catalog, name, positional, named, context.executor, context.source_table)


def _value_of(argument: Any, context: StatementContext) -> Any:
    """Return the value of an argument; the engine computes that of an expression.

    A date, or a time without a zone, is one in the zone of the engine, as in Spark.
    """
    if not isinstance(argument, ConstantExpression):
        return argument
    found = _compute(argument.text, context)
    is_local = pa.types.is_date(found.type) or (pa.types.is_timestamp(found.type) and found.type.tz is None)
    return (_compute(f"CAST({argument.text} AS TIMESTAMP)", context) if is_local else found).as_py()


def _compute(text: str, context: StatementContext) -> pa.Scalar:
    found: Any = context.rows(f"SELECT {text} AS value")
    return (found.toArrow() if hasattr(found, "toArrow") else found.to_arrow()).column(0)[0]


def optimize(wanted: Optimize, context: StatementContext) -> pa.Table:
    """Run OPTIMIZE, which merges small files, and return one row with the path and Delta's metrics.

    Rows are sorted along a Z-order curve if the statement or the table's clustering names columns. Raises
    `InvalidStatement` for WHERE and ZORDER BY of a clustered table, for FULL of another table, and for WHERE with
    columns that are not partition columns of a Delta table.
    """
    table = find_table(wanted.table, context)
    where = None if wanted.where is None else wanted.where.text
    clustered = _clustering(table)
    _check_partition_filter(table, where, "OPTIMIZE")
    if clustered and wanted.zorder_by:
        raise InvalidStatement(
            f"OPTIMIZE ... ZORDER BY of a table that is clustered by {', '.join(clustered)}: leave ZORDER BY out"
        )
    if wanted.full and not clustered:
        raise InvalidStatement(
            f"OPTIMIZE {table.name or table.location} FULL: FULL is for clustered tables. Run ALTER TABLE ... CLUSTER "
            "BY first, or leave FULL out"
        )
    options: dict[str, Any] = {}
    if wanted.zorder_by:
        check_zorder_columns(wanted.zorder_by, _detail(table).get("partitionColumns") or ())
    if columns := list(wanted.zorder_by) or clustered:
        options = {"strategy": "zorder", "zorder_by": columns}
    if wanted.full:
        options["rewrite_all"] = True
    return _compaction_metrics(table, table.compact(where=where, executor=context.executor, **options))


def _clustering(table: Table) -> list[str]:
    return list(_detail(table).get("clusteringColumns") or [])


def _detail(table: Table) -> dict[str, Any]:
    """Return the row of DESCRIBE DETAIL of a Delta table; empty for other tables."""
    return dict(table.inspect("detail").to_pylist()[0]) if "detail" in table.metadata_tables else {}


def _check_partition_filter(table: Table, where: str | None, command: str) -> None:
    """Raise `InvalidStatement` if the WHERE of a Delta command names other columns than partition columns.

    It is raised for any WHERE if the table is clustered. Delta on Spark requires this too. A filter on rows would be
    misleading, because whole files are rewritten.
    """
    if where is None or not (detail := _detail(table)):
        return
    if clustered := _clustering(table):
        raise InvalidStatement(
            f"{command} ... WHERE of a table that is clustered by {', '.join(clustered)}: leave WHERE out"
        )
    partitions = list(detail["partitionColumns"] or [])
    known = {each.lower() for each in partitions}
    for reference in references(where):
        name = ".".join(reference.names)
        if name.lower() not in known:
            raise InvalidStatement(
                f"{command} ... WHERE refers to {name!r}, which is not a partition column. Partition columns: "
                f"{', '.join(partitions) or 'none'}. Leave WHERE out, or call Table.compact(where=...), which rewrites "
                "all files that may have matching rows."
            )


def _compaction_metrics(table: Table, result: CompactResult) -> pa.Table:
    metrics = {
        "numFilesAdded": result.files,
        "numFilesRemoved": result.removed_files,
        "filesAdded": {"totalFiles": result.files, "totalSize": result.bytes},
        "filesRemoved": {"totalFiles": result.removed_files, "totalSize": result.removed_bytes},
    }
    return pa.table({"path": [table.folder], "metrics": pa.array([metrics], _METRICS)})


def reorg(wanted: Reorg, context: StatementContext) -> pa.Table:
    """Run REORG TABLE ... APPLY (PURGE), which rewrites files with deleted rows without these rows.

    Returns one row with the path and the metrics of OPTIMIZE.
    """
    table = find_table(wanted.table, context)
    where = None if wanted.where is None else wanted.where.text
    _check_partition_filter(table, where, "REORG")
    return _compaction_metrics(table, table.compact(where=where, executor=context.executor, purge=True))


def vacuum(wanted: Vacuum, context: StatementContext) -> pa.Table:
    """Run VACUUM. Returns the files that would be deleted for DRY RUN, and otherwise the table's folder.

    Raises `InvalidOption` for RETAIN of less than 24 hours, unless a setting of the session allows it.
    """
    table = find_table(wanted.table, context)
    reason = context.ignore_retention()
    if wanted.hours is not None and wanted.hours < _LEAST_HOURS and reason is None:
        raise InvalidOption(
            f"VACUUM ... RETAIN {wanted.hours:g} HOURS: older files may still be in use by readers and writers. Retain "
            f"at least {_LEAST_HOURS} hours."
        )
    older = None if wanted.hours is None else datetime.now(UTC) - timedelta(hours=wanted.hours)
    inventory = None if wanted.inventory is None else context.rows(_inventory_query(wanted.inventory.text))
    result = table.remove_orphans(
        older,
        dry_run=wanted.dry_run,
        lite=wanted.lite,
        inventory=inventory,
        ignore_retention=reason,
        executor=context.executor,
        in_history=True,
    )
    return pa.table({"path": pa.array(list(result) if wanted.dry_run else [table.folder], pa.string())})


def _inventory_query(text: str) -> str:
    """Return the SQL query of an inventory, which is a query or the name of a table."""
    return text if re.match(r"\s*(select|with|from|values|table)\b", text, re.IGNORECASE) else f"SELECT * FROM {text}"


def generate(wanted: Generate, context: StatementContext) -> None:
    """Run GENERATE symlink_format_manifest, which writes the files that other engines need to read a Delta table."""
    find_table(wanted.table, context).generate(wanted.mode)


def refresh(wanted: Refresh, context: StatementContext) -> None:
    """Run REFRESH TABLE. Tables are not cached, so it only raises `NoSuchTable` if the table does not exist."""
    find_table(wanted.table, context)


def restore(wanted: Restore, context: StatementContext) -> pa.Table:
    """Run RESTORE TABLE. Returns one row with the numbers and sizes of files, as Delta does."""
    version, timestamp = restored_state(wanted)
    result = find_table(wanted.table, context).restore(version, timestamp=timestamp)
    return pa.table({name: pa.array([getattr(result, name)], pa.int64()) for name in _RESTORED})


def restored_state(wanted: Restore) -> tuple[int | str | None, Any]:
    """Return the version and the timestamp in a RESTORE; one of them is None."""
    version = wanted.state.version
    if isinstance(version, str) and version.isdecimal():
        version = int(version)
    return version, wanted.state.timestamp


def convert(wanted: Convert, context: StatementContext) -> Table:
    """Run CONVERT TO DELTA parquet.`folder`, and open the table.

    Raises `UnsupportedFeature` for the name of a table.
    """
    parts = wanted.table.parts
    if len(parts) != 2 or parts[0].lower() != "parquet":
        raise UnsupportedFeature(
            f"CONVERT TO DELTA {'.'.join(parts)}",
            "Name the folder of Parquet files: parquet.`folder`.",
        )
    columns = ", ".join(f"{name_text(each.name)} {type_text(each.type)}" for each in wanted.partition_columns)
    return convert_to_delta(parts[1], partition_by=columns, statistics=wanted.statistics)
