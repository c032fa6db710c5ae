"""Small tables to save, and functions that inspect the result."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

import lakescan

NAME = "local.db.t"
Row = tuple[int, str | None]
Make = Callable[..., lakescan.Table]


def maker(kind: str, local: lakescan.Catalog) -> Make:
    """Return a function that makes the table of a format: `delta`, `iceberg`, `iceberg version 3`."""
    format, _, version = kind.partition(" version ")
    own = {"format-version": version} if version else {}

    def make(columns: str = "id BIGINT, part STRING", partition_by: tuple[str, ...] = ("part",), **more: Any) -> Any:
        properties = {**own, **(more.pop("properties", None) or {})}
        return local.create_table(
            "db.t", columns, format=format, partition_by=partition_by, properties=properties, **more
        )

    return make


def rows(*pairs: tuple[int, str | None]) -> pa.Table:
    return pa.table({"id": [i for i, _ in pairs], "part": pa.array([p for _, p in pairs], pa.string())})


def now() -> lakescan.Table:
    return lakescan.table(NAME)


def pairs() -> list[tuple[int, str | None]]:
    found = now().scan().to_arrow().to_pylist()
    return sorted(((row["id"], row["part"]) for row in found), key=lambda pair: (pair[0], pair[1] or ""))


def data_files(folder: Path) -> int:
    """Count all Parquet files under a folder, referenced or not."""
    return sum(1 for file in folder.rglob("*.parquet") if "_delta_log" not in file.parts)
