"""The scan API: tables are opened and detected, scans are refined without changing, rows are returned in every form."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pyarrow as pa
import pytest

import lakescan
from lakescan.expressions.predicate import Comparison
from tests.support.rows import bag


@pytest.fixture(scope="module")
def orders(shop) -> lakescan.Table:
    return lakescan.table(shop.orders)


def test_the_format_is_detected(shop) -> None:
    assert lakescan.table(shop.orders).format == "iceberg"
    assert lakescan.table(Path(shop.customers)).format == "delta"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda folder: folder / "nowhere", "does not exist"),
        (lambda folder: folder, "neither _delta_log/ .Delta. nor metadata/"),
    ],
)
def test_a_location_that_is_not_a_table_is_refused_with_the_reason(tmp_path: Path, make, message: str) -> None:
    with pytest.raises(lakescan.NotATable, match=message):
        lakescan.table(make(tmp_path))


@pytest.mark.parametrize("path", [None, 5, ["a", "b"], ("db", "t")])
def test_an_impossible_path_is_refused(path) -> None:
    with pytest.raises(lakescan.InvalidOption, match="give a path, a URI or an identifier"):
        lakescan.table(path)
    with pytest.raises(lakescan.InvalidOption, match="give a path, a URI or an identifier"):
        lakescan.save(pa.table({"a": [1]}), path)


def test_a_folder_of_both_formats_needs_the_format_option(tmp_path: Path) -> None:
    (tmp_path / "_delta_log").mkdir()
    (tmp_path / "metadata").mkdir()
    with pytest.raises(lakescan.InvalidOption, match="both"):
        lakescan.table(tmp_path)


def test_an_unknown_format_is_refused(tmp_path: Path) -> None:
    with pytest.raises(lakescan.InvalidOption, match="'hudi' is unknown"):
        lakescan.table(tmp_path, format="hudi")


def test_options_are_checked_when_the_table_is_opened(shop) -> None:
    with pytest.raises(lakescan.InvalidOption, match="Did you mean 'versionAsOf'"):
        lakescan.table(shop.customers, versionAsof1=3)
    with pytest.raises(lakescan.InvalidOption, match="for iceberg tables"):
        lakescan.table(shop.customers, branch="main")


def test_a_scan_never_changes(orders: lakescan.Table) -> None:
    scan = orders.scan()
    narrowed = scan.where("quantity > 3").select("order_id").limit(5)
    assert scan.schema.names == ["order_id", "customer_id", "ordered_at", "quantity", "price"]
    assert narrowed.schema.names == ["order_id"]
    with pytest.raises(dataclasses.FrozenInstanceError):
        scan._limit = 3  # type: ignore[misc]


def test_a_table_shows_its_partitioning_and_sort_order(shop, orders: lakescan.Table) -> None:
    assert (orders.partitioning, orders.sort_order) == ("month(ordered_at)", "unsorted")
    assert lakescan.table(shop.customers).partitioning == "country"


def test_conditions_add_up(orders: lakescan.Table) -> None:
    one = orders.scan().where("quantity > 3 and price < 20").to_arrow()
    two = orders.scan().where("quantity > 3").where(Comparison("price", op="<", value=20)).to_arrow()
    assert bag(one) == bag(two)
    assert 0 < one.num_rows < 6000


def test_a_filter_on_a_column_that_is_not_selected_works(orders: lakescan.Table) -> None:
    full = orders.scan().where("price > 100").to_arrow()
    assert bag(orders.scan().where("price > 100").select("order_id").to_arrow()) == bag(full.select(["order_id"]))


def test_columns_are_in_the_selected_order(orders: lakescan.Table) -> None:
    found = orders.scan().select("price", "order_id").to_arrow()
    assert found.column_names == ["price", "order_id"]


def test_a_limit_is_exact_and_the_least_of_several_applies(orders: lakescan.Table) -> None:
    assert orders.scan().limit(17).to_arrow().num_rows == 17
    assert orders.scan().limit(17).limit(40).to_arrow().num_rows == 17
    assert orders.scan().limit(0).to_arrow().num_rows == 0
    assert orders.scan().where("quantity = 9").limit(3).to_arrow()["quantity"].to_pylist() == [9, 9, 9]


def test_a_negative_limit_is_refused(orders: lakescan.Table) -> None:
    with pytest.raises(lakescan.InvalidOption, match="0 or more"):
        orders.scan().limit(-1)


@pytest.mark.parametrize("rows", [None, "x", 1.5])
def test_a_limit_is_a_whole_number(orders: lakescan.Table, rows) -> None:
    with pytest.raises(lakescan.InvalidOption, match="limit takes 0 or more rows"):
        orders.scan().limit(rows)


def test_numbers_beyond_any_table_do_not_limit(orders: lakescan.Table) -> None:
    scan = orders.scan().options(**{"split-size": 2**70}).limit(2**70)
    assert scan.to_arrow().num_rows == orders.scan().count()


@pytest.mark.parametrize("moment", [0, -(2**63), float("nan"), object()])
def test_a_number_is_not_accepted_as_a_time(orders: lakescan.Table, moment) -> None:
    with pytest.raises(lakescan.InvalidOption, match="is not a timestamp: give a datetime"):
        orders.scan().as_of(timestamp=moment)


@pytest.mark.parametrize("name", [None, 5])
def test_the_name_of_a_metadata_table_is_a_text(orders: lakescan.Table, name) -> None:
    with pytest.raises(lakescan.InvalidOption):
        orders.inspect(name)


def test_options_select_exactly_one_state(orders: lakescan.Table) -> None:
    with pytest.raises(lakescan.InvalidOption, match="exactly one"):
        orders.scan().as_of()
    with pytest.raises(lakescan.InvalidOption, match="exactly one"):
        orders.scan().as_of(version=1, branch="main")


def test_an_invalid_time_is_refused_with_the_expected_form(orders: lakescan.Table) -> None:
    with pytest.raises(lakescan.InvalidOption, match="'2026-01-31 12:00:00'"):
        orders.scan().as_of(timestamp="yesterday")


@pytest.mark.parametrize(
    ("zone", "moment"),
    [(None, "12:00+00:00"), ("Asia/Tokyo", "03:00+00:00"), ("+02:00", "10:00+00:00"), ("UTC-5", "17:00+00:00")],
)
def test_a_time_without_an_offset_is_in_the_given_zone(shop, zone: str | None, moment: str) -> None:
    options = {} if zone is None else {"time-zone": zone}
    scan = lakescan.table(shop.orders, **options).scan().as_of(timestamp="2026-01-31 12:00")
    assert f"2026-01-31 {moment[:5]}" in repr(scan)


def test_an_invalid_zone_is_refused(shop) -> None:
    with pytest.raises(lakescan.InvalidOption, match="'time-zone' has the invalid value 'Mars/Base'"):
        lakescan.table(shop.orders, **{"time-zone": "Mars/Base"})


def test_an_unknown_column_is_refused_with_the_nearest(orders: lakescan.Table) -> None:
    with pytest.raises(lakescan.NoSuchColumn, match="Did you mean 'quantity'"):
        orders.scan().select("quantty").to_arrow()


def test_names_match_without_case_by_default(orders: lakescan.Table) -> None:
    scan = orders.scan().select("ORDER_ID").where("Price > 100")
    assert scan.to_arrow().column_names == ["ORDER_ID"]
    with pytest.raises(lakescan.NoSuchColumn, match="Did you mean 'order_id'"):
        scan.options(case_sensitive=True).to_arrow()


def test_rows_are_returned_in_every_form(orders: lakescan.Table) -> None:
    scan = orders.scan().where("quantity = 5").select("order_id", "ordered_at")
    expected = scan.to_arrow()
    assert bag(pa.Table.from_batches(scan.to_batches())) == bag(expected)
    assert bag(scan.to_reader().read_all()) == bag(expected)
    assert sorted(scan.to_pandas()["order_id"]) == sorted(expected["order_id"].to_pylist())
    assert sorted(scan.to_polars()["order_id"].to_list()) == sorted(expected["order_id"].to_pylist())
    total = scan.to_duckdb().aggregate("count(*), sum(order_id)").fetchall()
    assert total == [(expected.num_rows, sum(expected["order_id"].to_pylist()))]


def test_options_of_a_scan_override_table_properties(orders: lakescan.Table) -> None:
    small = orders.scan().options(split_size="20k", file_open_cost=1).plan()
    large = orders.scan().options(**{"split-size": "512m", "file-open-cost": 1}).plan()
    assert len(small.groups) > len(large.groups) == 1


def test_a_scan_survives_its_options(shop, orders: lakescan.Table) -> None:
    scan = orders.scan().where("price > 50 or quantity in (1, 2)").select("price", "order_id").limit(1000)
    options = dict(scan.to_options())
    path, name = options.pop("path"), options.pop("format")
    again = lakescan.table(path, format=name, **options).scan()
    assert again.schema == scan.schema
    assert bag(again.to_arrow()) == bag(scan.to_arrow())


def test_options_of_a_scan_pin_the_state_it_sees(tmp_path: Path) -> None:
    from deltalake import write_deltalake

    write_deltalake(str(tmp_path), pa.table({"n": [1]}))
    options = lakescan.table(tmp_path).scan().to_options()
    write_deltalake(str(tmp_path), pa.table({"n": [2]}), mode="append")
    assert options["versionAsOf"] == "0"


def test_all_errors_have_one_parent() -> None:
    for name in lakescan.errors.__dict__.values():
        if isinstance(name, type) and issubclass(name, Exception):
            assert issubclass(name, lakescan.LakescanError)
