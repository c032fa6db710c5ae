"""A scan as a Ray data set: each scan task is a read task."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakescan.common.arrays import empty_table
from lakescan.errors import missing_dependency
from lakescan.local.scan_tasks import ScanTask, scan_tasks
from lakescan.tables.scan_spec import ScanSpec

if TYPE_CHECKING:
    import ray.data


def ray_dataset(spec: ScanSpec, parallelism: int | None, arguments: dict[str, Any]) -> ray.data.Dataset:
    """Return the rows of a scan as a Ray data set; see `Scan.to_ray`.

    `arguments` are passed to Ray's `read_datasource`.
    """
    try:
        from ray.data import Datasource, ReadTask, read_datasource
        from ray.data.block import BlockMetadata
    except ImportError as error:
        raise missing_dependency("ray", "ray", "to_ray()") from error

    tasks = scan_tasks(spec, parallelism)

    class LakescanDatasource(Datasource):
        """A Ray data source for the scan's tasks, which are already planned."""

        def estimate_inmemory_data_size(self) -> int | None:
            """Return the stored size of the files in bytes, usually less than the size in memory."""
            return sum(task.num_bytes for task in tasks)

        def get_read_tasks(self, parallelism: int, *args: Any, **more: Any) -> list[Any]:
            """Return one read task per scan task; the number that Ray requests is ignored."""
            return [
                ReadTask(partial(_blocks, task), BlockMetadata(None, task.num_bytes, task.paths, None), task.schema)
                for task in tasks
            ]

    return read_datasource(LakescanDatasource(), **arguments)


def _blocks(task: ScanTask) -> Iterator[pa.Table]:
    """Yield the rows of a task as Arrow tables.

    A task without rows yields one empty table, so that Ray has its columns.
    """
    is_empty = True
    for batch in task.to_batches():
        is_empty = False
        yield pa.Table.from_batches([batch])
    if is_empty:
        yield empty_table(task.schema)
