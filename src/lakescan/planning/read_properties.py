"""The table properties that plans obey, under Iceberg's names."""

from __future__ import annotations

from lakescan.common.option_values import boolean, planning_mode, positive, whole
from lakescan.common.properties import Properties, Property, is_true
from lakescan.planning.pack import LOOKBACK, OPEN_COST
from lakescan.planning.split import TARGET_SIZE


class ReadProperties(Properties):
    """How a table is split into tasks; options of a scan take precedence."""

    split_size: Property[int] = Property(
        "read.split.target-size", TARGET_SIZE, positive, "target size of a task in bytes"
    )
    lookback: Property[int] = Property(
        "read.split.planning-lookback", LOOKBACK, positive, "how many tasks are filled at once"
    )
    open_cost: Property[int] = Property(
        "read.split.open-file-cost", OPEN_COST, whole, "bytes that opening a file counts as"
    )
    is_adaptive: Property[bool] = Property(
        "read.split.adaptive-size.enabled", True, is_true, "whether splits adapt to the parallelism", check=str
    )
    batch_size: Property[int | None] = Property(
        "read.parquet.vectorization.batch-size", None, positive, "the most rows of a record batch; else 65536"
    )
    is_vectorized: Property[bool] = Property(
        "read.parquet.vectorization.enabled",
        True,
        is_true,
        "whether Spark's vectorized Parquet reader may read files; else Arrow does",
        check=boolean,
    )
    data_planning_mode: Property[str] = Property(
        "read.data-planning-mode", "auto", planning_mode, "where data manifests are read", check=str
    )
    delete_planning_mode: Property[str] = Property(
        "read.delete-planning-mode", "auto", planning_mode, "where delete manifests are read", check=str
    )
