"""The health of tables and their maintenance as a whole: what `Table` offers to look at it and to do it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from lakescan.api.scan import Scan
from lakescan.common.executors import ExchangingExecutor, PlanningExecutor
from lakescan.common.identifiers import Identifier, location_of
from lakescan.options.write import WriteOptions
from lakescan.storage.locations import absolute
from lakescan.tables.base import Target
from lakescan.tables.capabilities import MetadataFileActions, require
from lakescan.tables.metadata_actions import PathRewrite
from lakescan.tables.results import OrphanResult, PathsResult, StatisticsResult

if TYPE_CHECKING:
    from lakescan.maintenance.health import MaintainResult, TableHealth


class MaintainableTable(Protocol):
    """What maintenance needs of a table: its methods."""

    @property
    def name(self) -> Identifier | None:
        """The table's name in a catalog."""

    @property
    def location(self) -> str:
        """The folder or metadata file that the table was opened by."""

    @property
    def format(self) -> str:
        """'iceberg' or 'delta'."""

    def scan(self) -> Scan:
        """A scan of all rows."""

    @property
    def health(self) -> Callable[..., TableHealth]:
        """The table's health."""

    @property
    def compact(self) -> Callable[..., Any]:
        """Rewrite small files and files with deletes."""

    @property
    def convert_equality_deletes(self) -> Callable[..., Any]:
        """Replace equality deletes."""

    @property
    def rewrite_position_deletes(self) -> Callable[..., Any]:
        """Rewrite files of position deletes."""

    @property
    def rewrite_manifests(self) -> Callable[..., Any]:
        """Rewrite manifests."""

    @property
    def checkpoint(self) -> Callable[..., Any]:
        """Write a checkpoint."""

    @property
    def expire_snapshots(self) -> Callable[..., Any]:
        """Expire snapshots."""

    @property
    def remove_orphans(self) -> Callable[..., OrphanResult]:
        """Remove orphan files."""


class TableMaintenance:
    """The methods of `Table` that are about its health."""

    def health(self: MaintainableTable, *, orphans: bool = False, missing: bool | None = None) -> TableHealth:
        """What the table's files and metadata cost its readers, and what is worth mending, from its metadata.

        Small files, deletes, skew of partitions, manifests or the log, and what older states keep; each finding with
        what it would cost to mend it, and the commands that do so. No data file is opened. The result prints as
        sentences; notebooks show it as a page, and `to_html` returns that.

        Args:
            orphans: Also list the table's folders for files that nothing references, which takes long for many files.
            missing: Look up all data and delete files in storage, and name those that do not exist. In an object store
                that takes one request a file. By default, up to 10,000 files of a local filesystem are looked up.

        Returns:
            The figures, and the findings in the order in which `maintain` mends them.

        Raises:
            UnsupportedFeature: With `orphans`, a table whose `gc.enabled` is not true, or an Iceberg table that was
                opened by its location.

        Example:
            >>> print(orders.health())
            >>> orders.health(orphans=True, missing=True).to_html("health.html")
        """
        from lakescan.maintenance.health import measure_health

        found = self.remove_orphans(dry_run=True) if orphans else None
        return measure_health(str(self.name or self.location), self.scan().spec, found, missing=missing)

    def maintain(
        self: MaintainableTable,
        *,
        dry_run: bool = False,
        skip: Sequence[str] = (),
        executor: PlanningExecutor | None = None,
    ) -> MaintainResult:
        """Do the maintenance that the table needs by its health and its properties.

        In this order, each only if there is something to do: `convert_equality_deletes`, `compact` (with Iceberg's
        defaults: 5 files or 30% deleted rows at least; along the columns that a table is clustered by),
        `rewrite_position_deletes`, `rewrite_manifests`, `checkpoint`, `expire_snapshots` by the properties
        `history.expire.*`, with the files that only expired snapshots had, and `remove_orphans` of the format's default
        age. A step that fails does not keep the others from running: look at `failed` of the result. Running it again
        does what is left.

        Args:
            dry_run: Only say what would be done.
            skip: Steps to leave out, by the names of the methods.
            executor: Where files are rewritten and compared, such as `lakescan.spark.SparkExecutor(spark)`; threads by
                default.

        Returns:
            What each step did, or why it failed.

        Raises:
            InvalidOption: There is no step of a name to skip.

        Example:
            >>> print(orders.maintain(skip=["remove_orphans"]))
            compact: compacted 40 files into 1 (12.1 MB into 11.8 MB)
            expire snapshots: 12 snapshots expired
        """
        return run_maintenance(self, dry_run=dry_run, skip=skip, executor=executor)


def _compact_files(table: MaintainableTable, executor: PlanningExecutor | None, options: Mapping[str, Any]) -> Any:
    """Compact small files; of a clustered table, their rows along its columns. Files that are large enough stay."""
    columns = table.health().clustering
    if not columns:
        return table.compact(executor=executor, **options)
    sorting = executor if isinstance(executor, ExchangingExecutor) else None  # others would share memory
    clustered = {"strategy": "zorder", "zorder_by": list(columns), "rewrite_all": False}
    return table.compact(executor=sorting, **options, **clustered)


def run_maintenance(
    table: MaintainableTable,
    *,
    dry_run: bool = False,
    skip: Sequence[str] = (),
    executor: PlanningExecutor | None = None,
    report: Callable[[str], None] = lambda name: None,
) -> MaintainResult:
    """`Table.maintain`, which reports the name of each step as it begins."""
    from lakescan.maintenance.health import MaintenanceAction, maintain
    from lakescan.maintenance.health.measure import COMPACTION

    options: dict[str, Any] = {
        "min_input_files": COMPACTION.min_input_files,
        "delete_ratio_threshold": COMPACTION.delete_ratio_threshold,
    }
    steps = (
        MaintenanceAction("convert_equality_deletes", partial(table.convert_equality_deletes, executor=executor)),
        MaintenanceAction("compact", partial(_compact_files, table, executor, options)),
        MaintenanceAction("rewrite_position_deletes", table.rewrite_position_deletes),
        MaintenanceAction("rewrite_manifests", table.rewrite_manifests),
        MaintenanceAction("checkpoint", table.checkpoint),
        MaintenanceAction(
            "expire_snapshots",
            partial(table.expire_snapshots, executor=executor),
            partial(table.expire_snapshots, dry_run=True),
        ),
        MaintenanceAction(
            "remove_orphans",
            partial(table.remove_orphans, executor=executor),
            partial(table.remove_orphans, dry_run=True, executor=executor),
            always=True,
        ),
    )
    name = str(table.name or table.location)
    return maintain(name, table.health, steps, skip, dry_run=dry_run, report=report)


class TableMetadataFiles(ABC):
    """The methods of `Table` that make statistics files, and copies of its metadata."""

    @abstractmethod
    def written_by(self, options: Mapping[str, Any], write: Callable[[Target, WriteOptions], Any]) -> Any:
        """Write to the table as it is now by a function."""

    def compute_statistics(
        self,
        columns: Sequence[str] | None = None,
        *,
        version: int | None = None,
        executor: PlanningExecutor | None = None,
    ) -> StatisticsResult:
        """Estimate how many distinct values columns of an Iceberg table have, for engines that plan joins by that.

        The rows are read, and each column gets a Theta sketch in a Puffin file, which the table's metadata names. Up to
        4,096 distinct values are counted exactly.

        Args:
            columns: Their names, `a.b` for members of structs; all columns of primitive types by default.
            version: The id of the snapshot; the current one by default.
            executor: Where rows are read, such as `lakescan.spark.SparkExecutor(spark)`; threads by default.

        Returns:
            The file, and the number of each column.

        Raises:
            NoSuchSnapshot: The table has no such snapshot.
            NoSuchColumn: The snapshot has no such column.
            UnsupportedFeature: A column that is no primitive type, or is inside a list or map; a Delta table.
            CommitConflict: Other writers committed during every attempt, or expired the snapshot.
            CommitStateUnknown: The answer to the commit was lost, and looking it up failed.

        Example:
            >>> orders.compute_statistics(["customer"]).distinct_values
            {'customer': 3120}
        """
        result: StatisticsResult = self.written_by(
            {},
            lambda target, _: require(target, MetadataFileActions).metadata_files.compute_statistics(
                columns, version, executor
            ),
        )
        return result

    def compute_partition_statistics(
        self, *, version: int | None = None, executor: PlanningExecutor | None = None
    ) -> StatisticsResult:
        """Count the rows and files of each partition of an Iceberg table, in a file that its metadata names.

        Only metadata is read; where an earlier snapshot has such a file, only what was committed since.

        Args:
            version: The id of the snapshot; the current one by default. Its file is returned if it has one.
            executor: Where manifests are read; threads by default.

        Returns:
            The file.

        Raises:
            NoSuchSnapshot: The table has no such snapshot.
            UnsupportedFeature: A table without partitions; a Delta table.
            CommitConflict, CommitStateUnknown: As for `compute_statistics`.

        Example:
            >>> print(orders.compute_partition_statistics())
            statistics in s3://lake/orders/metadata/partition-stats-4712-....parquet
        """
        result: StatisticsResult = self.written_by(
            {},
            lambda target, _: require(target, MetadataFileActions).metadata_files.compute_partition_statistics(
                version, executor
            ),
        )
        return result

    def rewrite_paths(
        self,
        source_prefix: str,
        target_prefix: str,
        *,
        start_version: str | None = None,
        end_version: str | None = None,
        staging_location: str | None = None,
        create_file_list: bool = True,
        executor: PlanningExecutor | None = None,
    ) -> PathsResult:
        """Write the metadata of an Iceberg table again for a copy of it elsewhere: the paths in it are absolute.

        Metadata files, manifest lists, manifests and position deletes are written to a staging folder, with other
        paths. Nothing is copied, and the table stays as it is: copy the files of the list, then register the copy by
        its last metadata file (`Catalog.register_table`).

        Args:
            source_prefix: What all paths of the table begin with, as they are in its metadata.
            target_prefix: What takes its place.
            start_version: The name of a metadata file up to which everything is copied already: only what came after
                it is rewritten and listed.
            end_version: The name of the last metadata file to copy; the current one by default.
            staging_location: The folder of the files that are written; by default a new one beside the metadata.
            create_file_list: Whether to write the list of files to copy.
            executor: Where manifests and delete files are rewritten; threads by default.

        Returns:
            The name of the last metadata file, where the list is, and how many files were rewritten.

        Raises:
            InvalidOption: A path does not begin with the prefix, or there is no such version.
            UnsupportedFeature: Position deletes in ORC or Avro files; encrypted metadata; a Delta table.
            MissingFile: An earlier metadata file is gone: see `start_version`.

        Example:
            >>> done = orders.rewrite_paths("s3://lake/orders", "s3://other/orders")
            >>> for source, target in csv.reader(open_file(done.file_list)):
            ...     copy(source, target)
            >>> other.register_table("shop.orders", f"s3://other/orders/metadata/{done.latest_version}")
        """
        staging = None if staging_location is None else absolute(location_of(staging_location))
        wanted = PathRewrite(
            source_prefix, target_prefix, start_version, end_version, staging, lists_files=create_file_list
        )
        result: PathsResult = self.written_by(
            {}, lambda target, _: require(target, MetadataFileActions).metadata_files.rewrite_paths(wanted, executor)
        )
        return result
