"""The health of tables and their maintenance as a whole: what `Table` offers to look at it and to do it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from lakescan.api.scan import Scan
from lakescan.common.executors import ExchangingExecutor, PlanningExecutor
from lakescan.common.identifiers import Identifier
from lakescan.tables.results import OrphanResult

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
    from lakescan.maintenance.health.findings import COMPACTION

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
