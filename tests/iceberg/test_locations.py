"""New data files have the locations that the reference implementation derives from a table's properties."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakescan.iceberg.data_files.location_provider import DataLocations
from lakescan.iceberg.metadata.table_properties import IcebergProperties

TABLE = "s3://lake/shop/orders"
HASHED = {"write.object-storage.enabled": "true"}
FLAT = {**HASHED, "write.object-storage.partitioned-paths": "false"}


def located(properties: dict[str, str], name: str, partition: str | None = None, table: str = TABLE) -> str:
    return DataLocations.create(table, IcebergProperties(properties, table)).new(name, partition)


@pytest.mark.parametrize(
    ("properties", "partition", "expected"),
    [
        ({}, None, f"{TABLE}/data/a"),
        ({}, "day=1/part=x", f"{TABLE}/data/day=1/part=x/a"),
        ({"write.data.path": "s3://other/place/"}, "day=1", "s3://other/place/day=1/a"),
        ({"write.folder-storage.path": "s3://old"}, None, "s3://old/a"),
        ({"write.folder-storage.path": "s3://old", "write.data.path": "s3://new"}, None, "s3://new/a"),
        ({"write.object-storage.path": "s3://old"}, None, f"{TABLE}/data/a"),
        (HASHED, None, f"{TABLE}/data/0101/0110/1001/10110010/a"),
        (FLAT, "day=1", f"{TABLE}/data/0101/0110/1001/10110010-a"),
        ({**HASHED, "write.data.path": "s3://o"}, None, "s3://o/0101/0110/1001/10110010/shop/orders/a"),
        ({**FLAT, "write.data.path": "s3://o"}, "day=1", "s3://o/0101/0110/1001/10110010/shop/orders/a"),
        (
            {**HASHED, "write.object-storage.path": "s3://o", "write.folder-storage.path": "s3://f"},
            None,
            "s3://o/0101/0110/1001/10110010/shop/orders/a",
        ),
    ],
)
def test_properties_choose_the_location(properties: dict[str, str], partition: str | None, expected: str) -> None:
    assert located(properties, "a", partition) == expected


@pytest.mark.parametrize(
    ("name", "entropy"),
    [("b", "1110/0111/1110/00000011"), ("c", "0010/1101/0110/01011111"), ("d", "1001/0001/0100/01110011")],
)
def test_the_hash_equals_the_reference_implementation(name: str, entropy: str) -> None:
    """The expected values are those of the reference's own tests."""
    assert located(HASHED, name) == f"{TABLE}/data/{entropy}/{name}"


@given(st.text("abcXYZ019-_.=å", min_size=1), st.none() | st.text("abc=1", min_size=1), st.booleans())
def test_within_the_tables_folder_pyiceberg_chooses_the_same(name: str, partition: str | None, flat: bool) -> None:
    from pyiceberg.partitioning import PartitionKey, PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.table.locations import load_location_provider

    class Key(PartitionKey):
        def to_path(self) -> str:
            return str(partition)

    properties = FLAT if flat else HASHED
    key = None if partition is None else Key([], PartitionSpec(), Schema())
    theirs = load_location_provider(TABLE, properties).new_data_location(name, key)
    assert located(properties, name, partition) == theirs


@pytest.mark.parametrize(("table", "context"), [("s3://lake/orders", "orders"), ("/lake/shop/orders/", "shop/orders")])
def test_files_outside_of_the_table_folder_contain_the_table_name(table: str, context: str) -> None:
    properties = {**HASHED, "write.data.path": "s3://o"}
    assert located(properties, "a", table=table) == f"s3://o/0101/0110/1001/10110010/{context}/a"
