"""The options of reads, under the names that Iceberg, Delta and Spark use; those of streams are in `streaming`.

A declaration here adds an option to `lakescan.table`, `Scan.options`, `Table.stream`, `spark.read` and
`spark.readStream`. `scripts/options_doc.py` generates the keywords and the documentation from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, tzinfo
from typing import Any, ClassVar

from lakescan.common.option_values import (
    ValueParser,
    any_text,
    boolean,
    mapping,
    milliseconds,
    moment,
    names,
    no_locality,
    one_of,
    parse_size,
    planning_mode,
    positive,
    secrets,
    snapshot,
    text,
    version,
    version_or_reference,
    whole,
    zone,
)
from lakescan.expressions.json_codec import to_json
from lakescan.expressions.predicate import Predicate
from lakescan.options.declaration import BOTH, DELTA, ICEBERG, Group, OptionSet, option
from lakescan.options.streaming import StreamOptions

STATE, RANGE, FEED, ROWS = Group.STATE, Group.RANGE, Group.FEED, Group.ROWS
PLANNING, READING, STREAM, OPENING = Group.PLANNING, Group.READING, Group.STREAM, Group.OPENING
_LANES = one_of("auto", "native", "arrow")


def _condition(value: Any) -> str:
    return to_json(value) if isinstance(value, Predicate) else text(value)


_CONDITION = ValueParser(_condition, "SQL, or an expression as JSON", "Predicate | str")


@dataclass(frozen=True, repr=False, kw_only=True)
class ReadOptions(StreamOptions):
    """The parsed options of a read or a stream; None for an option that was not passed and has no default."""

    # The prefixes of Flink's session settings, in earlier and later versions.
    PREFIXES: ClassVar[tuple[str, ...]] = ("table.exec.iceberg.", "connector.iceberg.")
    UNSUPPORTED: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "iceberg": (
            "watermark-column-time-unit",
            "async-micro-batch-planning-enabled",
            "streaming-snapshot-polling-interval-ms",
            "async-queue-preload-file-limit",
            "async-queue-preload-row-limit",
            "aggregate-push-down-enabled",
        ),
        "delta": (
            "schemaTrackingLocation",
            "schemaLocation",
            "streamingSourceTrackingId",
            "withEventTimeOrder",
            "allowSourceColumnDrop",
            "allowSourceColumnRename",
            "allowSourceColumnTypeChange",
        ),
    }

    @classmethod
    def _other_side(cls) -> type[OptionSet]:
        from lakescan.options.write import WriteOptions

        return WriteOptions

    ELSEWHERE: ClassVar[Mapping[str, str]] = {
        "dataChange": "it marks writes that only rearrange rows; a stream skips such commits with skip-operations",
        "queryName": "it names a streaming query: spark.readStream, then writeStream.queryName(...)",
        "checkpointLocation": "it stores the state of a streaming query: give it to writeStream, or to Table.stream",
    }

    # Which state to read
    version_as_of: str | None = option(
        "versionAsOf",
        version_or_reference,
        "Read this version (Delta), or this snapshot, branch or tag (Iceberg).",
        STATE,
        unset="the current state",
    )
    timestamp_as_of: str | None = option("timestampAsOf", moment, "Read the table as it was at this time.", STATE)
    snapshot_id: int | None = option("snapshot-id", snapshot, "Read this snapshot.", STATE, ICEBERG)
    as_of_timestamp: int | None = option(
        "as-of-timestamp", milliseconds, "Read the table as it was at this time.", STATE, ICEBERG
    )
    branch: str | None = option(
        "branch", any_text.describe("a branch"), "Read or stream this branch.", STATE, ICEBERG, unset="main"
    )
    tag: str | None = option("tag", any_text.describe("a tag"), "Read this tag.", STATE, ICEBERG)
    wap_branch: str | None = option(
        "wap-branch",
        any_text.describe("a branch"),
        "Read this branch of a table with `write.wap.enabled` if it exists, else the current state. Writes with this "
        "option write to it. Reads and streams of Spark also take the session's setting `spark.wap.branch`.",
        STATE,
        ICEBERG,
    )
    time_zone: tzinfo = option(  # noqa: RUF009  a dataclass field like the others
        "time-zone",
        zone,
        "The time zone of times without an offset in other options, but not in filters.",
        STATE,
        default=UTC,
        unset="UTC; on Spark, the session's",
    )

    # A range of snapshots
    start_snapshot_id: int | None = option(
        "start-snapshot-id",
        snapshot,
        "Read, or stream, the rows appended after this snapshot. With the strategy `INCREMENTAL_FROM_SNAPSHOT_ID`, a "
        "stream also reads the rows of the snapshot itself, as in Flink.",
        RANGE,
        ICEBERG,
    )
    start_timestamp: int | None = option(
        "start-timestamp",
        milliseconds,
        "Read, or stream, the rows appended after the snapshot that was current at this time.",
        RANGE,
        ICEBERG,
    )
    start_tag: str | None = option(
        "start-tag",
        any_text.describe("a tag"),
        "Read, or stream, the rows appended after this tag's snapshot.",
        RANGE,
        ICEBERG,
    )
    end_snapshot_id: int | None = option(
        "end-snapshot-id",
        snapshot,
        "Read the rows appended up to this snapshot, including it.",
        RANGE,
        ICEBERG,
        unset="the current snapshot",
    )
    end_timestamp: int | None = option(
        "end-timestamp",
        milliseconds,
        "Read the rows appended up to the snapshot that was current at this time, including it.",
        RANGE,
        ICEBERG,
    )
    end_tag: str | None = option(
        "end-tag",
        any_text.describe("a tag"),
        "Read the rows appended up to this tag's snapshot, including it.",
        RANGE,
        ICEBERG,
    )

    # Changes of Delta tables
    read_change_feed: bool = option(
        "readChangeFeed",
        boolean,
        "Read the recorded changes of rows (inserts, updates, deletes) instead of the rows.",
        FEED,
        DELTA,
        default=False,
        aliases={"readChangeData": DELTA},
    )
    starting_version: int | str | None = option(
        "startingVersion", version, "The first version of a change feed or stream.", FEED, DELTA
    )
    starting_timestamp: str | None = option(
        "startingTimestamp", moment, "The earliest time of a change feed or stream.", FEED, DELTA
    )
    ending_version: int | None = option(
        "endingVersion",
        whole.describe("a version"),
        "The last version of a change feed.",
        FEED,
        DELTA,
        unset="the current version",
    )
    ending_timestamp: str | None = option("endingTimestamp", moment, "The latest time of a change feed.", FEED, DELTA)

    # Which rows and columns
    columns: tuple[str, ...] | None = option(
        "columns",
        names.describe("a list, or JSON: a, b.c, d as e"),
        "The columns and members to read, as in `select`.",
        ROWS,
        unset="all",
    )
    where: str | None = option("where", _CONDITION, "Read only the rows that match.", ROWS)
    filter: str | None = option(
        "filter",
        _CONDITION,
        "As `where`; if both are given, rows must match both.",
        ROWS,
    )
    limit: int | None = option("limit", whole, "The maximum number of rows. Not for streams.", ROWS)
    case_sensitive: bool = option(
        "case-sensitive",
        boolean,
        "Whether the case of column names matters. If not, a name matches in any case, unless it is ambiguous.",
        ROWS,
        default=False,
    )
    nanos_as_long: bool = option(
        "nanosAsLong", boolean, "Read timestamps in nanoseconds as BIGINT, on Spark.", ROWS, default=False
    )

    # How reads are planned
    split_size: int | None = option(
        "split-size",
        parse_size,
        "The target size of a split, in bytes.",
        PLANNING,
        unset="table property `read.split.target-size`, else 128m",
        aliases={"read.split.target-size": BOTH},
    )
    lookback: int | None = option(
        "lookback",
        positive,
        "How many bins are kept open while splits are packed into tasks.",
        PLANNING,
        unset="table property `read.split.planning-lookback`, else 10",
        aliases={"split-lookback": ICEBERG, "read.split.planning-lookback": BOTH},
    )
    file_open_cost: int | None = option(
        "file-open-cost",
        parse_size,
        "The minimum weight of a file while splits are packed, in bytes.",
        PLANNING,
        unset="table property `read.split.open-file-cost`, else 4m",
        aliases={"split-file-open-cost": ICEBERG, "read.split.open-file-cost": BOTH},
    )
    parallelism: int | None = option(
        "parallelism",
        positive,
        "How many readers the splits should keep busy.",
        PLANNING,
        unset="the number of cores; on Spark, its default parallelism",
    )
    infer_source_parallelism: bool | None = option(
        "infer-source-parallelism",
        boolean,
        "Whether the number of splits determines the number of readers (Flink). If true, splits have the target size, "
        "even if more cores could read smaller ones.",
        PLANNING,
        ICEBERG,
        unset="by table property `read.split.adaptive-size.enabled`",
    )
    infer_source_parallelism_max: int | None = option(
        "infer-source-parallelism.max",
        positive,
        "The maximum number of readers that the splits should keep busy.",
        PLANNING,
        ICEBERG,
        unset="no limit",
    )
    worker_pool_size: int | None = option(
        "worker-pool-size",
        positive,
        "How many threads of this process read manifests and logs while a scan is planned.",
        PLANNING,
        unset="the number of cores, from 2 to 8",
    )
    data_planning_mode: str | None = option(
        "data-planning-mode",
        planning_mode,
        "Where the metadata of data files is read.",
        PLANNING,
        unset="table property `read.data-planning-mode`, else auto",
        aliases={"read.data-planning-mode": BOTH},
    )
    delete_planning_mode: str | None = option(
        "delete-planning-mode",
        planning_mode,
        "Where the metadata of delete files is read.",
        PLANNING,
        ICEBERG,
        unset="table property `read.delete-planning-mode`, else auto",
        aliases={"read.delete-planning-mode": ICEBERG},
    )
    scan_planning_mode: str | None = option(
        "scan-planning-mode",
        one_of("client", "server"),
        "Whether this process or the catalog's server plans the scan of a table in a REST catalog.",
        PLANNING,
        ICEBERG,
        unset="the table's mode in the catalog, else the catalog's property `scan-planning-mode`, else client",
    )
    include_column_stats: bool = option(
        "include-column-stats", boolean, "Keep the statistics of all columns in plans.", PLANNING, default=False
    )
    locality: bool = option(
        "locality",
        no_locality,
        "Schedule tasks on the hosts of file blocks; not implemented.",
        PLANNING,
        ICEBERG,
        default=False,
        aliases={"expose-split-locality-info": ICEBERG},
    )

    # How files are read
    lane: str = option(
        "lane",
        _LANES,
        "How Spark reads data files: by its own Parquet reader (native), by Arrow, or the better one for each read.",
        READING,
        default="auto",
    )
    batch_size: int | None = option(
        "batch-size",
        positive,
        "The maximum number of rows of a record batch.",
        READING,
        unset="table property `read.parquet.vectorization.batch-size`, else 65536",
        aliases={"read.parquet.vectorization.batch-size": BOTH},
    )
    verify: bool = option(
        "verify", boolean, "Verify the checksums of the Parquet pages that lakescan decodes.", READING, default=False
    )
    vectorization_enabled: bool | None = option(
        "vectorization-enabled",
        boolean,
        "Whether Spark's vectorized Parquet reader may read files. If not, the lane is `arrow`. In process, Arrow "
        "always decodes.",
        READING,
        ICEBERG,
        unset="table property `read.parquet.vectorization.enabled`, else true",
        aliases={"read.parquet.vectorization.enabled": BOTH},
    )

    # Where the table is
    path: str | None = option("path", any_text.describe("a location or a name"), "The table to read.", OPENING)
    format: str | None = option(
        "format", any_text.describe("iceberg or delta"), "The table's format.", OPENING, unset="detected"
    )
    storage_options: Mapping[str, Any] | None = option(
        "storage-options", secrets, "Settings of the filesystem.", OPENING
    )
    relocate: Mapping[str, Any] | None = option(
        "relocate",
        mapping.describe("a JSON object of texts"),
        "Old location prefixes with their replacements, for a table whose files were moved or copied.",
        OPENING,
    )
    allowed_locations: tuple[str, ...] | None = option(
        "allowed-locations",
        names.describe("prefixes"),
        "The only location prefixes that the table's metadata may refer to, besides its own folder.",
        OPENING,
        unset="all, except local files for a table in a remote store, and cloud metadata servers",
    )
    key_manager: str | None = option(
        "key-manager",
        any_text.describe("package.module:attribute"),
        "The key manager for encrypted files.",
        OPENING,
    )
    cache_folder: str | None = option(
        "cache-folder",
        any_text.describe("a local folder"),
        "Where decoded metadata is cached for other processes.",
        OPENING,
        unset="in memory only",
    )

    @property
    def states(self) -> tuple[str, ...]:
        """The names of the options in use that select a snapshot or version to read; empty for the current one."""
        return tuple(name for name in self.names_of_groups(STATE) if name != "time-zone")

    @property
    def stream_options(self) -> tuple[str, ...]:
        """The names of the options in use that only streams take, without `streaming=false`."""
        return tuple(name for name in self.names_of_groups(STREAM) if name != "streaming" or self.streaming)

    @property
    def changes(self) -> tuple[str, ...]:
        """The names of the options in use that select changes of a Delta table, without `readChangeFeed=false`."""
        off = None if self.read_change_feed else self.given.get("read_change_feed")
        return tuple(name for name in self.names_of_groups(FEED) if name != off)
