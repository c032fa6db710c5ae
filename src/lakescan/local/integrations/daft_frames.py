"""A scan as a Daft data frame: each scan task is a task of a Daft data source."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from lakescan.errors import missing_dependency
from lakescan.local.scan_tasks import ScanTask, scan_tasks
from lakescan.tables.scan_spec import ScanSpec

if TYPE_CHECKING:
    import daft


def daft_frame(spec: ScanSpec, parallelism: int | None) -> daft.DataFrame:
    """Return the rows of a scan as a Daft data frame; see `Scan.to_daft`."""
    try:
        from daft import Schema
        from daft.io.source import DataSource, DataSourceTask
        from daft.recordbatch import RecordBatch
    except ImportError as error:
        raise missing_dependency("daft", "daft", "to_daft()") from error

    schema = Schema.from_pyarrow_schema(spec.output.arrow())

    class LakescanTask(DataSourceTask):
        """A Daft task that reads one scan task."""

        def __init__(self, task: ScanTask) -> None:
            self._task = task

        @property
        def schema(self) -> Any:
            """The Daft schema of the columns that the task returns."""
            return Schema.from_pyarrow_schema(self._task.schema)

        async def read(self) -> AsyncIterator[Any]:
            """Yield the rows as Daft record batches."""
            for batch in self._task.to_batches():
                yield RecordBatch.from_arrow_record_batches([batch], self._task.schema)

    class LakescanSource(DataSource):
        """A Daft data source for the scan, which is planned when Daft runs the query."""

        @property
        def name(self) -> str:
            """The source's name in Daft's plans."""
            return "lakescan"

        @property
        def schema(self) -> Any:
            """The Daft schema of all columns of the scan."""
            return schema

        async def get_tasks(self, pushdowns: Any) -> AsyncIterator[Any]:
            """Plan the scan and yield its tasks with the columns that the query needs.

            Daft applies filters and limits itself.
            """
            wanted = spec if pushdowns.columns is None else spec.narrow_columns(_needed_columns(spec, pushdowns))
            for task in scan_tasks(wanted, parallelism):
                yield LakescanTask(task)

    return LakescanSource().read()


def _needed_columns(spec: ScanSpec, pushdowns: Any) -> list[str]:
    """Return the names of the columns that the query returns or filters by, in the order of the scan."""
    wanted = {*pushdowns.columns, *pushdowns.filter_required_column_names()}
    return [name for name in spec.output.names if name in wanted]
