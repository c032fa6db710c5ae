"""The keywords of functions that take options, for editors and type checkers.

This module is made from the declarations by `scripts/options_doc.py`. An option whose own name is in camel case has
that name, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, tzinfo
from typing import Any, TypedDict

from lakescan.expressions.predicate import Predicate
from lakescan.storage.encryption import KeyManager


class ReadKeywords(TypedDict, total=False):
    """Options of a read or a stream."""

    starting_strategy: str
    """Where a stream begins. Takes TABLE_SCAN_THEN_INCREMENTAL, INCREMENTAL_FROM_LATEST_SNAPSHOT,
    INCREMENTAL_FROM_LATEST_SNAPSHOT_EXCLUSIVE, INCREMENTAL_FROM_EARLIEST_SNAPSHOT, INCREMENTAL_FROM_SNAPSHOT_ID or
    INCREMENTAL_FROM_SNAPSHOT_TIMESTAMP. By default: TABLE_SCAN_THEN_INCREMENTAL, or the start that another option
    gives. (Iceberg)"""
    start_snapshot_timestamp: int | str
    """Begin at the first snapshot committed at or after this time. Takes milliseconds since 1970. (Iceberg)"""
    stream_from_timestamp: int | str
    """Begin at the first snapshot committed at or after this time. Takes milliseconds since 1970. (Iceberg)"""
    on_change: str
    """What a stream does with commits that remove or rewrite rows: fail, skip them, read the rows that they add, or
    read all commits as changes of rows. Takes error, skip, added-rows or changelog. By default: error."""
    streaming_skip_delete_snapshots: bool | str
    """Skip snapshots that delete rows. Takes true or false. By default: false. (Iceberg)"""
    streaming_skip_overwrite_snapshots: bool | str
    """Skip snapshots that overwrite rows. Takes true or false. By default: false. (Iceberg)"""
    ignore_deletes: bool | str
    """Skip commits that only remove files. Takes true or false. By default: false. (Delta)"""
    ignoreDeletes: bool | str
    """Skip commits that only remove files. Takes true or false. By default: false. (Delta)"""
    ignore_changes: bool | str
    """Read the files that rewriting commits add, which repeats rows. Skip commits that only remove files. Takes true or
    false. By default: false. (Delta)"""
    ignoreChanges: bool | str
    """Read the files that rewriting commits add, which repeats rows. Skip commits that only remove files. Takes true or
    false. By default: false. (Delta)"""
    ignoreFileDeletion: bool | str
    """Read the files that rewriting commits add, which repeats rows. Skip commits that only remove files. Takes true or
    false. By default: false. (Delta)"""
    skip_change_commits: bool | str
    """Skip commits that remove or rewrite rows. Takes true or false. By default: false. (Delta)"""
    skipChangeCommits: bool | str
    """Skip commits that remove or rewrite rows. Takes true or false. By default: false. (Delta)"""
    skip_operations: Sequence[str] | str
    """Skip commits of these operations. Takes a list: a, b, c, or JSON. By default: none."""
    fail_on_data_loss: bool | str
    """Fail if commits are missing, rather than read on after them. Takes true or false. By default: true. (Delta)"""
    failOnDataLoss: bool | str
    """Fail if commits are missing, rather than read on after them. Takes true or false. By default: true. (Delta)"""
    exclude_regex: str
    """Skip files whose path contains a match. Takes a regular expression. (Delta)"""
    excludeRegex: str
    """Skip files whose path contains a match. Takes a regular expression. (Delta)"""
    max_files_per_trigger: int | str
    """The maximum number of files of a batch. Takes a whole number above 0. By default: Delta: 1000, if there is no
    other limit."""
    maxFilesPerTrigger: int | str
    """The maximum number of files of a batch. Takes a whole number above 0. By default: Delta: 1000, if there is no
    other limit."""
    max_bytes_per_trigger: int | str
    """The maximum size of a batch, in bytes. Takes bytes, or a size such as 128m."""
    maxBytesPerTrigger: int | str
    """The maximum size of a batch, in bytes. Takes bytes, or a size such as 128m."""
    max_rows_per_trigger: int | str
    """The maximum number of rows of a batch. Takes a whole number above 0."""
    maxRowsPerTrigger: int | str
    """The maximum number of rows of a batch. Takes a whole number above 0."""
    streaming_max_files_per_micro_batch: int | str
    """The maximum number of files of a batch. Takes a whole number above 0. (Iceberg)"""
    streaming_max_rows_per_micro_batch: int | str
    """The maximum number of rows of a batch. Takes a whole number above 0. (Iceberg)"""
    max_planning_snapshot_count: int | str
    """The maximum number of snapshots of a batch. Takes a whole number above 0. (Iceberg)"""
    watermark_column: str
    """Read the files of a commit in the order of this column's lower bounds. Takes a column."""
    max_allowed_planning_failures: int | str
    """How many times in a row `Table.stream` may fail to look for new commits before it raises; -1 for no limit. It
    retries after the monitor interval. Takes a number of failures, or -1 for any number. By default: 0; Flink's default
    is 3."""
    streaming: bool | str
    """Whether the table is streamed, as in Flink's hints: true is for `Table.stream` and `spark.readStream`, false for
    reads. Takes true or false. (Iceberg)"""
    monitor_interval: float | str
    """How often `Table.stream` looks for new commits. Takes seconds, or a duration such as 500ms, 10s or 5m. By
    default: 1s."""
    version_as_of: int | str
    """Read this version (Delta), or this snapshot, branch or tag (Iceberg). Takes a version, snapshot id, branch or
    tag. By default: the current state."""
    versionAsOf: int | str
    """Read this version (Delta), or this snapshot, branch or tag (Iceberg). Takes a version, snapshot id, branch or
    tag. By default: the current state."""
    timestamp_as_of: date | str
    """Read the table as it was at this time. Takes a date or timestamp."""
    timestampAsOf: date | str
    """Read the table as it was at this time. Takes a date or timestamp."""
    snapshot_id: int | str
    """Read this snapshot. Takes a snapshot id. (Iceberg)"""
    as_of_timestamp: int | str
    """Read the table as it was at this time. Takes milliseconds since 1970. (Iceberg)"""
    branch: str
    """Read or stream this branch. Takes a branch. By default: main. (Iceberg)"""
    tag: str
    """Read this tag. Takes a tag. (Iceberg)"""
    wap_branch: str
    """Read this branch of a table with `write.wap.enabled` if it exists, else the current state. Writes with this
    option write to it. Reads and streams of Spark also take the session's setting `spark.wap.branch`. Takes a branch.
    (Iceberg)"""
    time_zone: tzinfo | str
    """The time zone of times without an offset in other options, but not in filters. Takes a time zone, such as
    Europe/Paris or +02:00. By default: UTC; on Spark, the session's."""
    start_snapshot_id: int | str
    """Read, or stream, the rows appended after this snapshot. With the strategy `INCREMENTAL_FROM_SNAPSHOT_ID`, a
    stream also reads the rows of the snapshot itself, as in Flink. Takes a snapshot id. (Iceberg)"""
    start_timestamp: int | str
    """Read, or stream, the rows appended after the snapshot that was current at this time. Takes milliseconds since
    1970. (Iceberg)"""
    start_tag: str
    """Read, or stream, the rows appended after this tag's snapshot. Takes a tag. (Iceberg)"""
    end_snapshot_id: int | str
    """Read the rows appended up to this snapshot, including it. Takes a snapshot id. By default: the current snapshot.
    (Iceberg)"""
    end_timestamp: int | str
    """Read the rows appended up to the snapshot that was current at this time, including it. Takes milliseconds since
    1970. (Iceberg)"""
    end_tag: str
    """Read the rows appended up to this tag's snapshot, including it. Takes a tag. (Iceberg)"""
    read_change_feed: bool | str
    """Read the recorded changes of rows (inserts, updates, deletes) instead of the rows. Takes true or false. By
    default: false. (Delta)"""
    readChangeFeed: bool | str
    """Read the recorded changes of rows (inserts, updates, deletes) instead of the rows. Takes true or false. By
    default: false. (Delta)"""
    readChangeData: bool | str
    """Read the recorded changes of rows (inserts, updates, deletes) instead of the rows. Takes true or false. By
    default: false. (Delta)"""
    starting_version: int | str
    """The first version of a change feed or stream. Takes a version, or latest. (Delta)"""
    startingVersion: int | str
    """The first version of a change feed or stream. Takes a version, or latest. (Delta)"""
    starting_timestamp: date | str
    """The earliest time of a change feed or stream. Takes a date or timestamp. (Delta)"""
    startingTimestamp: date | str
    """The earliest time of a change feed or stream. Takes a date or timestamp. (Delta)"""
    ending_version: int | str
    """The last version of a change feed. Takes a version. By default: the current version. (Delta)"""
    endingVersion: int | str
    """The last version of a change feed. Takes a version. By default: the current version. (Delta)"""
    ending_timestamp: date | str
    """The latest time of a change feed. Takes a date or timestamp. (Delta)"""
    endingTimestamp: date | str
    """The latest time of a change feed. Takes a date or timestamp. (Delta)"""
    columns: Sequence[str] | str
    """The columns and members to read, as in `select`. Takes a list, or JSON: a, b.c, d as e. By default: all."""
    filter: Predicate | str
    """As `where`; if both are given, rows must match both. Takes SQL, or an expression as JSON."""
    limit: int | str
    """The maximum number of rows. Not for streams. Takes a whole number, 0 or more."""
    case_sensitive: bool | str
    """Whether the case of column names matters. If not, a name matches in any case, unless it is ambiguous. Takes true
    or false. By default: false."""
    nanos_as_long: bool | str
    """Read timestamps in nanoseconds as BIGINT, on Spark. Takes true or false. By default: false."""
    nanosAsLong: bool | str
    """Read timestamps in nanoseconds as BIGINT, on Spark. Takes true or false. By default: false."""
    split_size: int | str
    """The target size of a split, in bytes. Takes bytes, or a size such as 128m. By default: table property
    `read.split.target-size`, else 128m."""
    lookback: int | str
    """How many bins are kept open while splits are packed into tasks. Takes a whole number above 0. By default: table
    property `read.split.planning-lookback`, else 10."""
    file_open_cost: int | str
    """The minimum weight of a file while splits are packed, in bytes. Takes bytes, or a size such as 128m. By default:
    table property `read.split.open-file-cost`, else 4m."""
    parallelism: int | str
    """How many readers the splits should keep busy. Takes a whole number above 0. By default: the number of cores; on
    Spark, its default parallelism."""
    infer_source_parallelism: bool | str
    """Whether the number of splits determines the number of readers (Flink). If true, splits have the target size, even
    if more cores could read smaller ones. Takes true or false. By default: by table property `read.split.adaptive-
    size.enabled`. (Iceberg)"""
    infer_source_parallelism_max: int | str
    """The maximum number of readers that the splits should keep busy. Takes a whole number above 0. By default: no
    limit. (Iceberg)"""
    worker_pool_size: int | str
    """How many threads of this process read manifests and logs while a scan is planned. Takes a whole number above 0.
    By default: the number of cores, from 2 to 8."""
    data_planning_mode: str
    """Where the metadata of data files is read. Takes auto, local or distributed. By default: table property
    `read.data-planning-mode`, else auto."""
    delete_planning_mode: str
    """Where the metadata of delete files is read. Takes auto, local or distributed. By default: table property
    `read.delete-planning-mode`, else auto. (Iceberg)"""
    scan_planning_mode: str
    """Whether this process or the catalog's server plans the scan of a table in a REST catalog. Takes client or server.
    By default: the table's mode in the catalog, else the catalog's property `scan-planning-mode`, else client.
    (Iceberg)"""
    include_column_stats: bool | str
    """Keep the statistics of all columns in plans. Takes true or false. By default: false."""
    locality: bool | str
    """Schedule tasks on the hosts of file blocks; not implemented. Takes false. By default: false. (Iceberg)"""
    lane: str
    """How Spark reads data files: by its own Parquet reader (native), by Arrow, or the better one for each read. Takes
    auto, native or arrow. By default: auto."""
    batch_size: int | str
    """The maximum number of rows of a record batch. Takes a whole number above 0. By default: table property
    `read.parquet.vectorization.batch-size`, else 65536."""
    verify: bool | str
    """Verify the checksums of the Parquet pages that lakescan decodes. Takes true or false. By default: false."""
    vectorization_enabled: bool | str
    """Whether Spark's vectorized Parquet reader may read files. If not, the lane is `arrow`. In process, Arrow always
    decodes. Takes true or false. By default: table property `read.parquet.vectorization.enabled`, else true.
    (Iceberg)"""


class ScanKeywords(ReadKeywords, total=False):
    """Options of a scan."""

    where: Predicate | str
    """Read only the rows that match. Takes SQL, or an expression as JSON."""


class TableKeywords(ScanKeywords, total=False):
    """Options of `lakescan.table`."""

    allowed_locations: Sequence[str] | str
    """The only location prefixes that the table's metadata may refer to, besides its own folder. By default: all,
    except local files for a table in a remote store, and cloud metadata servers."""
    cache_folder: str
    """Where decoded metadata is cached for other processes. Takes a local folder. By default: in memory only."""


class OpenKeywords(TableKeywords, total=False):
    """Arguments and options of `lakescan.table`."""

    format: str | None
    """The table's format. Takes iceberg or delta. By default: detected."""
    storage_options: Mapping[str, Any] | None
    """Settings of the filesystem. Takes a JSON object."""
    relocate: Mapping[str, str] | None
    """Old location prefixes with their replacements, for a table whose files were moved or copied. Takes a JSON object
    of texts."""
    key_manager: KeyManager | str | None
    """The key manager for encrypted files. Takes package.module:attribute."""


class WriteKeywords(TypedDict, total=False):
    """Options of a write."""

    overwrite_mode: str
    """What an overwrite replaces: all rows (static), or the partitions of the new rows (dynamic). Takes static or
    dynamic. By default: static."""
    partitionOverwriteMode: str
    """What an overwrite replaces: all rows (static), or the partitions of the new rows (dynamic). Takes static or
    dynamic. By default: static."""
    replace_where: str
    """Overwrite only the rows that match this filter. All new rows must match it. Takes a filter, a string."""
    replaceWhere: str
    """Overwrite only the rows that match this filter. All new rows must match it. Takes a filter, a string."""
    merge_schema: bool | str
    """Add the columns and members of structs that the table lacks, and widen types. Takes true or false. By default:
    false."""
    mergeSchema: bool | str
    """Add the columns and members of structs that the table lacks, and widen types. Takes true or false. By default:
    false."""
    overwrite_schema: bool | str
    """Replace the table's schema by that of the rows, and its partitions by `partition-by`. Takes true or false. By
    default: false."""
    overwriteSchema: bool | str
    """Replace the table's schema by that of the rows, and its partitions by `partition-by`. Takes true or false. By
    default: false."""
    data_change: bool | str
    """Whether an append or overwrite changes rows. `false` is for writes that only move rows to other files: streams
    and change feeds skip the commit. Streaming writes ignore the option. Takes true or false. By default: true.
    (Delta)"""
    dataChange: bool | str
    """Whether an append or overwrite changes rows. `false` is for writes that only move rows to other files: streams
    and change feeds skip the commit. Streaming writes ignore the option. Takes true or false. By default: true.
    (Delta)"""
    branch: str
    """The branch to commit to. Takes the name of a branch, a string. By default: main. (Iceberg)"""
    wap_id: str
    """Stage the rows of a table with `write.wap.enabled` under this id: nobody reads them before `Table.publish`.
    Writes from Spark also take the session's setting `spark.wap.id`. Takes an id, a string. (Iceberg)"""
    wap_branch: str
    """The branch to commit to instead of `main`, in a table with `write.wap.enabled`, until `Table.fast_forward`.
    Writes from Spark also take the session's setting `spark.wap.branch`. Takes the name of a branch, a string.
    (Iceberg)"""
    isolation_level: str
    """Whether a concurrent commit conflicts (serializable) or not (snapshot) if it adds rows to the data that an
    overwrite replaces, or that a DELETE, UPDATE or MERGE reads. Takes serializable or snapshot. By default:
    serializable; for row changes the table property `write.delete.isolation-level`, `write.update.isolation-level` or
    `write.merge.isolation-level`. (Iceberg)"""
    row_change_mode: str
    """How DELETE, UPDATE and MERGE change rows: by delete files and deletion vectors (merge-on-read), or by writing the
    files of changed rows again (copy-on-write). Takes merge-on-read or copy-on-write. By default: Iceberg: table
    property `write.delete.mode`, `write.update.mode` or `write.merge.mode`, else copy-on-write; Delta: merge-on-read if
    `delta.enableDeletionVectors` is true, else copy-on-write."""
    memory_limit: int | str
    """The memory, in bytes, that the query of a DELETE, UPDATE or MERGE takes in this process. Rows beyond it wait in
    files in the temporary directory. Takes bytes, or a size such as 128m. By default: 80% of the machine's memory."""
    upsert_mode: str
    """How rows are upserted: by reading the table's keys (merge), or without reading, by equality delete files
    (equality), which readers apply until `Table.convert_equality_deletes` or `Table.compact`. Takes merge or equality.
    By default: merge; for streams without a table sequence column, equality if table property `write.upsert.enabled` is
    true. (Iceberg)"""
    validate_from_snapshot_id: int | str
    """The snapshot from which the new rows of an overwrite or a row change were derived. The write is checked for
    conflicts with all later commits. Takes a snapshot id. By default: the snapshot that is current when the write
    begins. (Iceberg)"""
    target_file_size_bytes: int | str
    """The target size of a data file, in bytes. Takes bytes, or a size such as 128m. By default: Iceberg: table
    property `write.target-file-size-bytes`, else 512m; Delta: table property `delta.targetFileSize`, else 128m."""
    max_records_per_file: int | str
    """The maximum number of rows of a data file. Takes a whole number above 0."""
    maxRecordsPerFile: int | str
    """The maximum number of rows of a data file. Takes a whole number above 0."""
    compression_codec: str
    """The codec of data files. Takes zstd, snappy, gzip, brotli, lz4, uncompressed or none. By default: Iceberg: table
    property `write.parquet.compression-codec`, else zstd; Delta: table property `delta.parquet.compression.codec`, else
    snappy."""
    compression: str
    """The codec of data files. Takes zstd, snappy, gzip, brotli, lz4, uncompressed or none. By default: Iceberg: table
    property `write.parquet.compression-codec`, else zstd; Delta: table property `delta.parquet.compression.codec`, else
    snappy."""
    compression_level: int | str
    """The codec's level. Takes a whole number. By default: table property `write.parquet.compression-level`, else the
    codec's own. (Iceberg)"""
    write_format: str
    """The format of data files. Takes parquet. By default: table property `write.format.default`, else parquet.
    (Iceberg)"""
    fanout_enabled: bool | str
    """Keep the files of many partitions open, so that rows may arrive in any order. Takes true or false. By default:
    true."""
    distribution_mode: str
    """Whether the rows of a Spark frame are shuffled by partition before they are written (hash). Takes none or hash.
    By default: table property `write.distribution-mode`, else hash. (Iceberg)"""
    optimize_write: bool | str
    """Whether the rows of a Spark frame are shuffled by partition before they are written. It has no effect on
    `df.write`, since Spark does not shuffle for Python data sources; `Table.append` shuffles. Takes true or false. By
    default: table property `delta.autoOptimize.optimizeWrite`, else false. (Delta)"""
    optimizeWrite: bool | str
    """Whether the rows of a Spark frame are shuffled by partition before they are written. It has no effect on
    `df.write`, since Spark does not shuffle for Python data sources; `Table.append` shuffles. Takes true or false. By
    default: table property `delta.autoOptimize.optimizeWrite`, else false. (Delta)"""
    user_metadata: str
    """Text to store with the commit. Takes a string."""
    userMetadata: str
    """Text to store with the commit. Takes a string."""
    txn_app_id: str
    """The id of an application, of which each transaction (`txnVersion`) is committed only once. Takes a string."""
    txnAppId: str
    """The id of an application, of which each transaction (`txnVersion`) is committed only once. Takes a string."""
    txn_version: int | str
    """The number of the application's transaction; must increase. Takes a whole number, 0 or more."""
    txnVersion: int | str
    """The number of the application's transaction; must increase. Takes a whole number, 0 or more."""
    checkpoint_location: str
    """The stream's checkpoint, which identifies the stream. Takes a location."""
    checkpointLocation: str
    """The stream's checkpoint, which identifies the stream. Takes a location."""
    query_name: str
    """The stream's name. Takes a string."""
    queryName: str
    """The stream's name. Takes a string."""


class CompactKeywords(WriteKeywords, total=False):
    """Options of a compaction."""

    strategy: str
    """How rows are arranged: in any order (binpack), or sorted over all files of a partition, by columns (sort) or
    along a curve through several columns (zorder). Given without it, `sort-order` and `zorder-by` imply theirs. Takes
    binpack, sort or zorder. By default: binpack."""
    sort_order: Sequence[str] | str
    """The sort order of the strategy `sort`. Takes a string, or a list of them: country, days(ts) DESC NULLS LAST. By
    default: the table's sort order."""
    zorder_by: Sequence[str] | str
    """The columns of the strategy `zorder`. Takes a list: a, b, c, or JSON. By default: none."""
    purge: bool | str
    """Rewrite all files that have deletes, and no others (REORG TABLE ... APPLY (PURGE)). Takes true or false. By
    default: false."""
    rewrite_all: bool | str
    """Rewrite all files, whatever their sizes and deletes. Takes true or false. By default: true for the strategies
    `sort` and `zorder`, else false."""
    min_input_files: int | str
    """The least number of files of wrong size in a partition for which they are rewritten. Takes a whole number above
    0. By default: 2."""
    min_file_size_bytes: int | str
    """Rewrite smaller files. Takes bytes, or a size such as 128m. By default: 75% of the target file size."""
    max_file_size_bytes: int | str
    """Rewrite larger files. Takes bytes, or a size such as 128m. By default: no maximum."""
    delete_file_threshold: int | str
    """Rewrite files that have at least as many delete files or deletion vectors. Takes a whole number above 0. By
    default: 1, unless `delete-ratio-threshold` is given."""
    delete_ratio_threshold: float | str
    """Rewrite files with at least this share of deleted rows, counting position deletes of only that file. Takes a
    number above 0, up to 1. By default: 0.3."""
    max_file_group_size_bytes: int | str
    """The maximum size of the files of a partition that are rewritten, and sorted, together, in bytes. Takes bytes, or
    a size such as 128m. By default: 100g."""
    partial_progress_enabled: bool | str
    """Commit each group of files when it is rewritten. Commits stay if a later group fails. Takes true or false. By
    default: false."""
    partial_progress_max_commits: int | str
    """The maximum number of commits of a compaction with `partial-progress.enabled`. Takes a whole number above 0. By
    default: 10."""
    use_starting_sequence_number: bool | str
    """Whether new files have the sequence number of the snapshot that was read, so that equality deletes of concurrent
    commits apply to them. If false, such deletes are conflicts. Takes true or false. By default: true if the table has
    equality deletes, else false. (Iceberg)"""
    remove_dangling_deletes: bool | str
    """Also remove deletes that apply to no data file. Deletes of only rewritten files are always removed. Takes true or
    false. By default: false. (Iceberg)"""
