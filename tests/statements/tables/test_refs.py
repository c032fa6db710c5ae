"""Branches and tags in SQL."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

import lakescan


@pytest.fixture
def orders(tmp_path: Path) -> lakescan.Table:
    lake = lakescan.catalog("lake", warehouse=tmp_path / "lake")
    lake.create_namespace("shop")
    made = lake.create_table("shop.orders", "id BIGINT")
    made.append(pa.table({"id": [1]}))
    made.append(pa.table({"id": [2]}))
    return made


def test_a_branch_is_made_written_to_and_dropped(orders: lakescan.Table) -> None:
    first = orders.history()["snapshot_id"][0].as_py()
    lakescan.sql(f"ALTER TABLE lake.shop.orders CREATE BRANCH audit AS OF VERSION {first} RETAIN 7 DAYS")
    lakescan.sql("INSERT INTO lake.shop.orders.branch_audit VALUES (3)")
    found = lakescan.sql("SELECT id FROM lake.shop.orders VERSION AS OF 'audit' ORDER BY id").to_arrow()
    assert found["id"].to_pylist() == [1, 3]
    assert orders.refresh().branches["audit"].max_ref_age == timedelta(days=7)
    assert lakescan.sql("SHOW BRANCHES FROM lake.shop.orders").to_arrow().num_rows == 2
    lakescan.sql("ALTER TABLE lake.shop.orders DROP BRANCH audit")
    lakescan.sql("ALTER TABLE lake.shop.orders DROP BRANCH IF EXISTS audit")
    assert sorted(orders.refresh().branches) == ["main"]


def test_a_tag_is_made_and_replaced(orders: lakescan.Table) -> None:
    first, second = orders.history()["snapshot_id"].to_pylist()
    lakescan.sql("ALTER TABLE lake.shop.orders CREATE TAG `EOY-2026`")
    assert orders.refresh().tags["EOY-2026"].snapshot_id == second
    lakescan.sql("ALTER TABLE lake.shop.orders CREATE TAG IF NOT EXISTS `EOY-2026`")
    with pytest.raises(lakescan.InvalidOption, match="EOY-2026"):
        lakescan.sql("ALTER TABLE lake.shop.orders CREATE TAG `EOY-2026`")
    lakescan.sql(f"ALTER TABLE lake.shop.orders REPLACE TAG `EOY-2026` AS OF VERSION {first}")
    assert orders.refresh().tags["EOY-2026"].snapshot_id == first
    with pytest.raises(lakescan.NoSuchSnapshot):
        lakescan.sql("ALTER TABLE lake.shop.orders REPLACE TAG nope")


def test_delta_tables_have_no_branches(tmp_path: Path) -> None:
    lakescan.sql(f"CREATE TABLE delta.`{tmp_path}/t` (id INT)")
    with pytest.raises(lakescan.UnsupportedFeature, match="branch"):
        lakescan.sql(f"ALTER TABLE delta.`{tmp_path}/t` CREATE BRANCH b")
