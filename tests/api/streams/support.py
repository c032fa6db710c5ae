"""Growing tables of numbers, in both formats, for stream tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

import lakescan
from tests.support.catalog import local_catalog

SCHEMA = pa.schema({"id": pa.int64(), "part": pa.int64()})


def numbers(*ids: int) -> pa.Table:
    return pa.table([ids, ids], schema=SCHEMA)


class Growing:
    """A table of numbers in one format, with a writer that adds one file per number in each commit."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name, self.path = name, str(folder / "t")
        if name == "delta":
            DeltaTable.create(self.path, SCHEMA, partition_by=["part"])
            return
        self.table = local_catalog(folder).create_table("n.t", SCHEMA, location=f"file://{self.path}")
        with self.table.update_spec() as update:
            update.add_identity("part")

    def append(self, *ids: int) -> None:
        if self.name == "iceberg":
            self.table.append(numbers(*ids))
        else:
            write_deltalake(self.path, numbers(*ids), mode="append")

    def delete(self, *ids: int) -> None:
        for number in ids:
            if self.name == "iceberg":
                self.table.delete(f"part = {number}")
            else:
                DeltaTable(self.path).delete(f"part = {number}")

    def follow(self, start: dict[str, Any] | None = None, **options: Any) -> lakescan.BatchStream:
        return lakescan.table(self.path).stream(start=start, wait=False, **options)

    def rows(self, start: dict[str, Any] | None = None, **options: Any) -> list[int]:
        return rows_of(self.follow(start, **options))


def rows_of(follower: lakescan.BatchStream) -> list[int]:
    """Return all numbers that a follower yields."""
    return [n for batch in follower for n in batch["id"].to_pylist()]
