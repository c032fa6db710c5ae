"""The methods of `Table` that report its health, maintain it, and write statistics or relocated metadata."""

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
    """The members of `Table` that `TableMaintenance` uses."""

    @property
    def name(self) -> Identifier | None:
        """The table's name in a catalog; None without a catalog."""

    @property
    def location(self) -> str:
        """The folder or metadata file that the table was opened by."""

    @property
    def format(self) -> str:
        """'iceberg' or 'delta'."""

    def scan(self) -> Scan:
        """Return a scan of all rows."""

    @property
    def health(self) -> Callable[..., TableHealth]:
        """Measure the health; see `Table.health`."""

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
    """The methods of `Table` that report its health and maintain it."""

    def health(self: MaintainableTable, *, orphans: bool = False, missing: bool | None = None) -> TableHealth:
        """Report the cost of the table's files and metadata to readers, and the problems worth fixing.

        Reports small files, deletes, skewed partitions, manifests or the log, and files that only older snapshots or
        versions need. Each finding has the cost of fixing it, and the commands that do so. Only metadata is read, no
        data file. The result prints as sentences, notebooks show it as a page, and its method `to_html` returns that
        page.

        Args:
            orphans: Also list the table's folders, to find unreferenced files. This takes long for many files.
            missing: Check that all data and delete files exist, and report missing ones. In an object store this takes
                one request per file. By default, up to 10,000 files are checked in a local filesystem, and none
                elsewhere.

        Returns:
            The figures, and the findings in the order in which `maintain` fixes them.

        Raises:
            UnsupportedFeature: `orphans` is given for a table whose `gc.enabled` is not true, or for an Iceberg table
                that was opened by its location.

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
        """Run the maintenance that the table needs, according to its health and its properties.

        The steps run in this order, each only if there is something to do: `convert_equality_deletes`, `compact` (with
        Iceberg's defaults: at least 5 files or 30% deleted rows; a clustered table is clustered along its columns),
        `rewrite_position_deletes`, `rewrite_manifests`, `checkpoint`, `expire_snapshots` (by the properties
        `history.expire.*`, including the files of expired snapshots), and `remove_orphans` (with the format's default
        age). If a step fails, the next steps still run: `failed` of the result lists failures. Running it again does
        the remaining steps.

        Args:
            dry_run: Change nothing; only report what would be done.
            skip: Names of steps to leave out.
            executor: The executor that rewrites and compares files, such as `lakescan.spark.SparkExecutor(spark)`. By
                default threads of this process.

        Returns:
            For each step, its result or its error.

        Raises:
            InvalidOption: `skip` has the name of an unknown step.

        Example:
            >>> print(orders.maintain(skip=["remove_orphans"]))
            compact: compacted 40 files into 1 (12.1 MB into 11.8 MB)
            expire snapshots: 12 snapshots expired
        """
        return run_maintenance(self, dry_run=dry_run, skip=skip, executor=executor)


def _compact_files(table: MaintainableTable, executor: PlanningExecutor | None, options: Mapping[str, Any]) -> Any:
    """Compact the small files of a table, by its method `compact` with `options`, and return the result.

    In a clustered table, the rows of the files to compact are sorted along the clustering columns; large files stay.
    """
    columns = table.health().clustering
    if not columns:
        return table.compact(executor=executor, **options)
    sorting = executor if isinstance(executor, ExchangingExecutor) else None  # else sorting takes one process's memory
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
    """Run the steps of `Table.maintain`, calling `report` with the name of each step as it begins."""
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
    """The methods of `Table` that write statistics files, and relocated copies of its metadata."""

    @abstractmethod
    def written_by(self, options: Mapping[str, Any], write: Callable[[Target, WriteOptions], Any]) -> Any:
        """Call a function that writes to the current table; see `Table.written_by`."""

    def compute_statistics(
        self,
        columns: Sequence[str] | None = None,
        *,
        version: int | None = None,
        executor: PlanningExecutor | None = None,
    ) -> StatisticsResult:
        """Estimate the number of distinct values (NDV) of columns of an Iceberg table.

        Engines use the estimates to plan joins. All rows are read. Each column gets a Theta sketch in a Puffin file,
        which is added to the table's metadata. Up to 4,096 distinct values are counted exactly.

        Args:
            columns: The columns' names; `a.b` for members of structs. By default all columns of primitive types.
            version: The id of the snapshot to read. By default the current one.
            executor: The executor that reads rows, such as `lakescan.spark.SparkExecutor(spark)`. By default threads of
                this process.

        Returns:
            The statistics file's location, and the number of distinct values by column.

        Raises:
            NoSuchSnapshot: The table has no such snapshot.
            NoSuchColumn: The snapshot has no such column.
            UnsupportedFeature: A column is not of a primitive type, or is inside a list or map; or the table is a Delta
                table.
            CommitConflict: Every attempt conflicted with a concurrent commit, or another writer expired the snapshot.
            CommitStateUnknown: The answer to the commit was lost, and lakescan could not find out whether it succeeded.

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
        """Count the rows and files of each partition of an Iceberg table, and add the counts to its metadata as a file.

        Only metadata is read. If an earlier snapshot has partition statistics, only later commits are read.

        Args:
            version: The id of the snapshot. By default the current one. If it already has partition statistics, these
                are returned.
            executor: The executor that reads manifests. By default threads of this process.

        Returns:
            The statistics file's location.

        Raises:
            NoSuchSnapshot: The table has no such snapshot.
            UnsupportedFeature: The table is not partitioned, or is a Delta table.
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
        """Write a copy of an Iceberg table's metadata with other paths, to move or copy the table to another location.

        Paths in Iceberg's metadata are absolute. Metadata files, manifest lists, manifests and position deletes are
        written to a staging folder with rewritten paths. The table itself does not change, and no file is copied: copy
        the files of the list, then register the copy by its last metadata file (`Catalog.register_table`).

        Args:
            source_prefix: The prefix of all paths of the table, as its metadata has them.
            target_prefix: The prefix of the copy's paths.
            start_version: The name of a metadata file. Files up to it are already copied; only newer ones are rewritten
                and listed.
            end_version: The name of the last metadata file to copy. By default the current one.
            staging_location: The folder to write to. By default a new folder next to the table's metadata.
            create_file_list: Whether to write the list of files to copy.
            executor: The executor that rewrites manifests and delete files. By default threads of this process.

        Returns:
            The name of the last metadata file, the location of the list, and the number of files rewritten.

        Raises:
            InvalidOption: A path does not begin with `source_prefix`, or a version does not exist.
            UnsupportedFeature: The table has position deletes in ORC or Avro files, or encrypted metadata, or is a
                Delta table.
            MissingFile: An earlier metadata file was deleted: see `start_version`.

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
