"""One read of each format on Spark: the minimum for every supported PySpark."""

from __future__ import annotations

from pathlib import Path

import pytest

import lakescan
from tests.api.streams.support import Growing

pytestmark = pytest.mark.spark


def test_both_formats_are_read_filtered_and_joined(spark, shop) -> None:
    orders = spark.read.format("iceberg").load(shop.orders).where("quantity > 5")
    customers = spark.read.format("delta").load(shop.customers).where("country = 'FR'")
    joined = orders.join(customers, "customer_id")
    expected = lakescan.table(shop.orders).scan().where("quantity > 5").to_arrow().num_rows
    assert orders.count() == expected
    assert joined.select("country").distinct().count() <= 1


def test_a_scan_becomes_a_data_frame(spark, shop) -> None:
    scan = lakescan.table(shop.customers).scan().where("country in ('FR', 'DE')").select("customer_id")
    assert scan.to_spark(spark).count() == scan.to_arrow().num_rows


@pytest.mark.parametrize("name", ["iceberg", "delta"])
def test_a_stream_resumes_where_it_ended(spark, tmp_path: Path, name: str) -> None:
    growing = Growing(name, tmp_path)
    target = str(tmp_path / "target")
    for some in ((1, 2), (3,), ()):
        if some:
            growing.append(*some)
        frame = spark.readStream.format(name).option("maxFilesPerTrigger", 1).load(growing.path)
        writer = frame.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
        writer.trigger(availableNow=True).start(target).awaitTermination(120)
    assert sorted(row["id"] for row in spark.read.parquet(target).collect()) == [1, 2, 3]
