"""The demo's data: orders in an Iceberg table, customers in a Delta table, about a million rows each, seeded.

Beside each table is a plain Parquet file of the rows that should be left: the answer to check against.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from samples.iceberg_deletes import commit_deletes, write_deletion_vectors, write_position_deletes

COUNTRIES = ["BR", "DE", "FR", "IN", "JP", "US"]
_FIRST_DAY = np.datetime64("2026-01-01")


@dataclass(frozen=True)
class Shop:
    """Where the tables and their expected rows are."""

    orders: str
    customers: str
    expected_orders: Path
    expected_customers: Path


def make_shop(folder: Path, rows: int = 1_000_000, seed: int = 7) -> Shop:
    """Make both tables under `folder`, which must be empty or absent."""
    folder.mkdir(parents=True, exist_ok=True)
    orders = folder / "expected" / "orders.parquet"
    customers = folder / "expected" / "customers.parquet"
    orders.parent.mkdir(exist_ok=True)
    return Shop(
        make_orders(folder / "iceberg", rows, seed, orders),
        make_customers(folder / "delta" / "customers", rows, seed, customers),
        orders,
        customers,
    )


def make_orders(folder: Path, rows: int, seed: int, expected: Path) -> str:
    """An Iceberg table partitioned by month of order: appends, a renamed column, position deletes, deletion vectors.

    Returns the newest metadata file.
    """
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.transforms import MonthTransform

    folder.mkdir(parents=True, exist_ok=True)
    catalog = SqlCatalog("local", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}")
    catalog.create_namespace("shop")
    first = _orders(rows // 2, 0, seed)
    table = catalog.create_table("shop.orders", first.schema, properties={"write.parquet.row-group-limit": "65536"})
    with table.update_spec() as spec:
        spec.add_field("ordered_at", MonthTransform(), "month")
    table.append(first)
    with table.update_schema() as update:
        update.rename_column("amount", "price")
    later = _orders(rows - rows // 2, rows // 2, seed + 1).rename_columns(
        ["order_id", "customer_id", "ordered_at", "quantity", "price"]
    )
    for part in np.array_split(np.arange(later.num_rows), 3):
        table.append(later.slice(int(part[0]), len(part)))

    files = sorted(table.inspect.files().to_pylist(), key=lambda f: f["file_path"])
    generator = np.random.default_rng(seed)
    position_deleted = _some_positions(files[: len(files) // 2], generator)
    vector_deleted = _some_positions(files[len(files) // 2 :], generator)
    location = table.metadata_location
    by_spec = [
        write_position_deletes(
            f"{table.location()}/data/deletes-{i}.parquet",
            [(path, int(p)) for p in positions],
            partition={"month": _month_of(files, path)},
            spec_id=table.spec().spec_id,
        )
        for i, (path, positions) in enumerate(position_deleted.items())
    ]
    location = commit_deletes(location, by_spec)
    vectors = [
        each
        for i, (path, positions) in enumerate(vector_deleted.items())
        for each in write_deletion_vectors(
            f"{table.location()}/data/vectors-{i}.puffin",
            {path: positions.tolist()},
            partition={"month": _month_of(files, path)},
            spec_id=table.spec().spec_id,
        )
    ]
    location = commit_deletes(location, vectors, format_version=3)
    _write_expected_orders(files, position_deleted | vector_deleted, expected)
    return location


def _orders(rows: int, first_id: int, seed: int) -> pa.Table:
    generator = np.random.default_rng(seed)
    minutes = np.sort(generator.integers(0, 180 * 24 * 60, rows))
    return pa.table(
        {
            "order_id": np.arange(first_id, first_id + rows),
            "customer_id": generator.integers(0, 1_000_000, rows),
            "ordered_at": pa.array(_FIRST_DAY.astype("datetime64[us]") + minutes.astype("timedelta64[m]")),
            "quantity": generator.integers(1, 10, rows).astype(np.int32),
            "amount": np.round(generator.gamma(2.0, 25.0, rows), 2),
        }
    )


def _some_positions(files: list[dict], generator: np.random.Generator) -> dict[str, np.ndarray]:
    return {
        f["file_path"]: np.sort(generator.choice(f["record_count"], f["record_count"] // 20, replace=False))
        for f in files
    }


def _month_of(files: list[dict], path: str) -> int:
    return next(f["partition"]["month"] for f in files if f["file_path"] == path)


def _write_expected_orders(files: list[dict], deleted: dict[str, np.ndarray], expected: Path) -> None:
    parts = []
    for file in files:
        data = pq.ParquetFile(file["file_path"].removeprefix("file://")).read()
        keep = np.ones(data.num_rows, dtype=bool)
        keep[deleted.get(file["file_path"], np.empty(0, np.int64))] = False
        parts.append(
            data.filter(pa.array(keep)).rename_columns(["order_id", "customer_id", "ordered_at", "quantity", "price"])
        )
    pq.write_table(pa.concat_tables([p.replace_schema_metadata(None).cast(_plain(p.schema)) for p in parts]), expected)


def _plain(schema: pa.Schema) -> pa.Schema:
    return pa.schema([pa.field(f.name, f.type) for f in schema])


def make_customers(folder: Path, rows: int, seed: int, expected: Path) -> str:
    """A Delta table partitioned by country: appends, an update, a checkpoint, a delete after it."""
    from deltalake import DeltaTable, write_deltalake

    generator = np.random.default_rng(seed + 100)
    data = pa.table(
        {
            "customer_id": np.arange(rows),
            "country": pa.array(np.array(COUNTRIES)[generator.integers(0, len(COUNTRIES), rows)].tolist()),
            "segment": pa.array(np.array(["home", "office", "public"])[generator.integers(0, 3, rows)].tolist()),
            "credit": np.round(generator.normal(1000, 300, rows), 2),
        }
    )
    location = str(folder)
    for part in np.array_split(np.arange(rows), 4):
        write_deltalake(location, data.slice(int(part[0]), len(part)), mode="append", partition_by=["country"])
    table = DeltaTable(location)
    table.update(predicate="segment = 'public' and country = 'FR'", updates={"credit": "credit + 500"})
    table.create_checkpoint()
    table.delete("country = 'JP' and credit < 400")

    updated = pc.and_(pc.equal(data["segment"], "public"), pc.equal(data["country"], "FR"))
    credit = pc.if_else(updated, pc.add(data["credit"], 500), data["credit"])
    final = data.set_column(3, "credit", credit)
    gone = pc.and_(pc.equal(final["country"], "JP"), pc.less(final["credit"], 400))
    pq.write_table(final.filter(pc.invert(gone)), expected)
    return location
