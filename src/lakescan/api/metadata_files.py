"""Statistics files of tables, and copies of their metadata with other paths: what `Table` offers to make them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lakescan.common.executors import PlanningExecutor
from lakescan.common.identifiers import location_of
from lakescan.options.write import WriteOptions
from lakescan.storage.locations import absolute
from lakescan.tables.base import Target
from lakescan.tables.metadata_files import PathRewrite
from lakescan.tables.results import PathsResult, StatisticsResult


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
            {}, lambda target, _: target.metadata_files.compute_statistics(columns, version, executor)
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
            {}, lambda target, _: target.metadata_files.compute_partition_statistics(version, executor)
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
            {}, lambda target, _: target.metadata_files.rewrite_paths(wanted, executor)
        )
        return result
