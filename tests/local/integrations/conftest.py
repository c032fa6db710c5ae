"""Tables whose files have every kind of delete, for engines that read them by scan tasks."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pyarrow as pa
import pytest

import lakescan

ROWS = 400


@pytest.fixture(scope="package", params=["delta vectors", "iceberg vectors", "iceberg positions", "iceberg equality"])
def table(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> lakescan.Table:
    """Make eight files with nulls, nested values and times; rows with an id below 50 are deleted or changed."""
    folder = tmp_path_factory.mktemp("engines")
    kind, _, deletes = request.param.partition(" ")
    if kind == "delta":
        lakescan.save(rows(0), folder / "t", format="delta", properties={"delta.enableDeletionVectors": "true"})
        made = lakescan.table(folder / "t")
    else:
        lake = lakescan.catalog(f"engines_{deletes}", warehouse=folder)
        lake.create_namespace("n")
        properties = {"format-version": "3" if deletes == "vectors" else "2", "write.delete.mode": "merge-on-read"}
        made = lake.create_table("n.t", rows(0).schema, properties=properties)
        made.append(rows(0))
    for number in range(1, 8):
        made.append(rows(number))
    if deletes == "equality":
        made.upsert(rows(0).slice(0, 25), keys="id", upsert_mode="equality")
    else:
        made.delete("id < 50")
    return made


@pytest.fixture(scope="package")
def ray_session() -> Iterator[object]:
    ray = pytest.importorskip("ray")
    os.environ.setdefault("RAY_DATA_DISABLE_PROGRESS_BARS", "1")
    ray.init(num_cpus=2, include_dashboard=False, logging_level="error")
    yield ray
    ray.shutdown()


def rows(number: int) -> pa.Table:
    ids = range(number * ROWS // 8, (number + 1) * ROWS // 8)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "name": [None if i % 5 == 0 else f"n{i % 7}" for i in ids],
            "price": [None if i % 3 == 0 else i / 4 for i in ids],
            "count": pa.array([None if number == 2 else i for i in ids], pa.int32()),
            "at": pa.array([i * 1_000_000 for i in ids], pa.timestamp("us", "UTC")),
            "tags": [[f"t{i % 2}"] * (i % 3) for i in ids],
            "place": [{"city": f"c{i % 4}", "zip": i} for i in ids],
        }
    )
