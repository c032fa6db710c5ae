"""The data frames that `DeltaTable` returns, with the columns of Delta's results."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lakescan.api.table import Table
from lakescan.errors import InvalidFilter, NoSuchColumn
from lakescan.spark.session import create_frame, is_connect

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_RESTORED = (
    "table_size_after_restore",
    "num_of_files_after_restore",
    "num_removed_files",
    "num_restored_files",
    "removed_files_size",
    "restored_files_size",
)
_SIZES = "struct<min:bigint,max:bigint,avg:double,totalFiles:bigint,totalSize:bigint>"
_FILES, _CUBE_FILES = "struct<num:bigint,size:bigint>", "struct<numFiles:bigint,size:bigint>"
_METRICS = (
    f"struct<numFilesAdded:bigint,numFilesRemoved:bigint,filesAdded:{_SIZES},filesRemoved:{_SIZES},"
    "partitionsOptimized:bigint,"
    f"zOrderStats:struct<strategyName:string,inputCubeFiles:{_FILES},inputOtherFiles:{_FILES},inputNumCubes:bigint,"
    f"mergedFiles:{_FILES},numOutputCubes:bigint,mergedNumCubes:bigint>,"
    f"clusteringStats:struct<inputZCubeFiles:{_CUBE_FILES},inputOtherFiles:{_CUBE_FILES},inputNumZCubes:bigint,"
    f"mergedFiles:{_CUBE_FILES},numOutputZCubes:bigint>,"
    "numBins:bigint,numBatches:bigint,totalConsideredFiles:bigint,totalFilesSkipped:bigint,"
    "preserveInsertionOrder:boolean,numFilesSkippedToReduceWriteAmplification:bigint,"
    "numBytesSkippedToReduceWriteAmplification:bigint,startTimeMs:bigint,endTimeMs:bigint,"
    "totalClusterParallelism:bigint,totalScheduledTasks:bigint,"
    "autoCompactParallelismStats:struct<maxClusterActiveParallelism:bigint,minClusterActiveParallelism:bigint,"
    "maxSessionActiveParallelism:bigint,minSessionActiveParallelism:bigint>,"
    "deletionVectorStats:struct<numDeletionVectorsRemoved:bigint,numDeletionVectorRowsRemoved:bigint>,"
    "numTableColumns:bigint,numTableColumnsWithStats:bigint>"
)


def history_frame(spark: SparkSession, table: Table, limit: int | None) -> DataFrame:
    """Return the commits of a table, newest first.

    Args:
        spark: The session.
        table: The table.
        limit: The maximum number of commits; None for all.
    """
    rows = table.history()
    rows = rows.take(pa.array(range(rows.num_rows - 1, -1, -1), pa.int64()))
    return create_frame(spark, nullable(rows if limit is None else rows.slice(0, limit)))


def detail_frame(spark: SparkSession, table: Table, name: str | None) -> DataFrame:
    """Return the row of DESCRIBE DETAIL, with the table's full name; None for a table that is opened by its path."""
    rows = table.detail()
    values: dict[str, Any] = {"name": name, "location": hadoop_uri(table.folder)}
    for column, value in values.items():
        at = rows.schema.get_field_index(column)
        rows = rows.set_column(at, column, pa.array([value], pa.string()))
    return create_frame(spark, nullable(rows))


def hadoop_uri(location: str) -> str:
    """Return a location as Hadoop writes it: a local path becomes `file:/path`."""
    return f"file:{location}" if location.startswith("/") else location.replace("file:///", "file:/", 1)


def restore_frame(
    spark: SparkSession, table: Table, version: int | str | None, timestamp: datetime | None
) -> DataFrame:
    """Run RESTORE, and return its row; no row and no column if the version is the newest one, as Delta does."""
    result = table.restore(version, timestamp=timestamp)
    if result.version == table.version:
        from pyspark.sql.types import StructType

        return spark.createDataFrame([], StructType([]))
    return spark.createDataFrame(pa.table({name: pa.array([getattr(result, name)], pa.int64()) for name in _RESTORED}))


def nullable(rows: pa.Table) -> pa.Table:
    """Return rows whose columns may all be null, as those of Delta's results."""
    return rows.cast(pa.schema([pa.field(each.name, each.type) for each in rows.schema]))


def optimize_frame(
    spark: SparkSession, table: Table, compact: Callable[[], object], *, where: str | None = None, zorders: bool = False
) -> DataFrame:
    """Run OPTIMIZE or REORG of a table, and return its row.

    Args:
        spark: The session.
        table: The table.
        compact: Rewrites the table's files.
        where: The condition of the files that are considered; None for all files.
        zorders: Whether rows are sorted along a Z-order curve.
    """
    started, before = time.time_ns() // 1_000_000, table.inspect("files")
    considered = before.num_rows
    if where is not None:
        with suppress(NoSuchColumn, InvalidFilter):  # `compact` raises it, with the reason
            considered = len(table.scan().where(where).plan().table)
    compact()
    table = table.refresh()
    ended, after = time.time_ns() // 1_000_000, table.inspect("files")
    added = after.filter(pc.invert(pc.is_in(after["file_path"], value_set=before["file_path"].combine_chunks())))
    removed = before.filter(pc.invert(pc.is_in(before["file_path"], value_set=after["file_path"].combine_chunks())))
    partitions = _partitions(added)
    metrics: dict[str, Any] = {
        "numFilesAdded": added.num_rows,
        "numFilesRemoved": removed.num_rows,
        "filesAdded": _sizes(added),
        "filesRemoved": _sizes(removed),
        "partitionsOptimized": partitions if "partition" in before.column_names else 0,
        "numBins": partitions,
        "numBatches": 1,
        "totalConsideredFiles": considered,
        "totalFilesSkipped": considered - removed.num_rows,
        "preserveInsertionOrder": False,
        "numFilesSkippedToReduceWriteAmplification": 0,
        "numBytesSkippedToReduceWriteAmplification": 0,
        "startTimeMs": started,
        "endTimeMs": ended,
        "totalClusterParallelism": None if is_connect(spark) else spark.sparkContext.defaultParallelism,
        "totalScheduledTasks": 0,
        "deletionVectorStats": _deletes(removed),
        "numTableColumns": len(table.schema.names),
        "numTableColumnsWithStats": min(len(table.schema.names), 32),
    }
    size = pc.sum(removed["size_in_bytes"]).as_py() or 0
    if zorders:
        sizes, nothing = {"num": removed.num_rows, "size": size}, {"num": 0, "size": 0}
        metrics["zOrderStats"] = {
            "strategyName": "all",
            "inputCubeFiles": nothing,
            "inputOtherFiles": sizes,
            "inputNumCubes": 0,
            "mergedFiles": sizes,
            "numOutputCubes": partitions,
            "mergedNumCubes": None,
        }
    elif removed.num_rows and table.detail()["clusteringColumns"][0].as_py():
        sizes, nothing = {"numFiles": removed.num_rows, "size": size}, {"numFiles": 0, "size": 0}
        metrics["clusteringStats"] = {
            "inputZCubeFiles": nothing,
            "inputOtherFiles": sizes,
            "inputNumZCubes": 0,
            "mergedFiles": sizes,
            "numOutputZCubes": partitions,
        }
    return spark.createDataFrame([(hadoop_uri(table.folder), metrics)], f"path string, metrics {_METRICS}")


def _partitions(files: pa.Table) -> int:
    if not files.num_rows:
        return 0
    return len({repr(each) for each in files["partition"].to_pylist()}) if "partition" in files.column_names else 1


def _sizes(files: pa.Table) -> dict[str, Any]:
    column = files["size_in_bytes"]
    return {
        "min": pc.min(column).as_py(),
        "max": pc.max(column).as_py(),
        "avg": pc.mean(column).as_py() or 0.0,
        "totalFiles": files.num_rows,
        "totalSize": pc.sum(column).as_py() or 0,
    }


def _deletes(files: pa.Table) -> dict[str, int] | None:
    """Return how many deletion vectors, and rows that they delete, files have; None if they have none."""
    rows = pc.sum(files["deleted_record_count"]).as_py() or 0
    vectors = pc.sum(pc.greater(files["deleted_record_count"], 0)).as_py()
    return {"numDeletionVectorsRemoved": vectors, "numDeletionVectorRowsRemoved": rows} if rows else None
