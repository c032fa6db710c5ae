"""Reading in process: `Scan.to_arrow` against pyiceberg and deltalake, on the same tables."""

from __future__ import annotations

import lakescan
from benchmarks.data import six_columns
from benchmarks.harness import Result, compare


def run(rows: int, runs: int) -> list[Result]:
    """Full scans and two columns of each format."""
    from deltalake import DeltaTable
    from pyiceberg.table import StaticTable

    data = six_columns(rows)
    task, two = f"{rows // 1_000_000}M rows x 6, all", ("kind", "amount")
    iceberg, delta = lakescan.table(data.iceberg).scan(), lakescan.table(data.delta).scan()
    static = StaticTable.from_metadata(data.iceberg)
    return [
        compare(
            task, ("to_arrow, Iceberg", iceberg.to_arrow), ("pyiceberg", lambda: static.scan().to_arrow()), runs=runs
        ),
        compare(
            "two columns",
            ("to_arrow, Iceberg", iceberg.select(*two).to_arrow),
            ("pyiceberg", lambda: static.scan(selected_fields=two).to_arrow()),
            runs=runs,
        ),
        compare(
            task,
            ("to_arrow, Delta", delta.to_arrow),
            ("deltalake", lambda: DeltaTable(data.delta).to_pyarrow_table()),
            runs=runs,
        ),
    ]
