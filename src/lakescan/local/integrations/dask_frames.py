"""A scan as a Dask data frame: each scan task is a partition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakescan.common.arrays import empty_table
from lakescan.errors import missing_dependency
from lakescan.local.scan_tasks import ScanTask, scan_tasks
from lakescan.tables.scan_spec import ScanSpec

if TYPE_CHECKING:
    import dask.dataframe
    import pandas


def dask_frame(spec: ScanSpec, parallelism: int | None) -> dask.dataframe.DataFrame:
    """Return the rows of a scan as a Dask data frame; see `Scan.to_dask`."""
    try:
        import dask.dataframe as dd
    except ImportError as error:
        raise missing_dependency("dask", "dask", "to_dask()") from error

    tasks = scan_tasks(spec, parallelism)
    return dd.from_map(_partition, tasks, meta=_as_pandas(empty_table(tasks[0].schema)), label="lakescan")


def _partition(task: ScanTask, columns: list[str] | None = None) -> pandas.DataFrame:
    """Read a task into a pandas data frame; Dask's optimizer passes the columns that the query needs (None: all)."""
    return _as_pandas((task if columns is None else task.select(columns)).to_arrow())


def _as_pandas(table: pa.Table) -> pandas.DataFrame:
    """Convert to pandas with Arrow types in all columns, so that nulls do not change a partition's types."""
    import pandas as pd

    frame: Any = table.to_pandas(types_mapper=pd.ArrowDtype)
    return frame
