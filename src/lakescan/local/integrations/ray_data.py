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
    """The rows of a scan as a Ray data set; see `Scan.to_ray`."""
    try:
        from ray.data import Datasource, ReadTask, read_datasource
        from ray.data.block import BlockMetadata
    except ImportError as error:
        raise missing_dependency("ray", "ray", "to_ray()") from error

    tasks = scan_tasks(spec, parallelism)

    class LakescanDatasource(Datasource):
        """The tasks of a scan, which were planned before."""

        def estimate_inmemory_data_size(self) -> int | None:
            """The bytes of the files; decoded, they are more."""
            return sum(task.num_bytes for task in tasks)

        def get_read_tasks(self, parallelism: int, *args: Any, **more: Any) -> list[Any]:
            """One read task for each scan task, whatever number Ray would like."""
            return [
                ReadTask(partial(_blocks, task), BlockMetadata(None, task.num_bytes, task.paths, None), task.schema)
                for task in tasks
            ]

    return read_datasource(LakescanDatasource(), **arguments)


def _blocks(task: ScanTask) -> Iterator[pa.Table]:
    """The rows of a task; a task without rows has one table, so that the data set knows its columns."""
    is_empty = True
    for batch in task.to_batches():
        is_empty = False
        yield pa.Table.from_batches([batch])
    if is_empty:
        yield empty_table(task.schema)
