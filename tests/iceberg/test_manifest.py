"""Manifests and manifest lists written by pyiceberg are read as pyiceberg reads them; inheritance works."""

from __future__ import annotations

import io
from datetime import datetime, timedelta
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from samples.iceberg_deletes import _manifest_schema

from lakescan import types as t
from lakescan.errors import CorruptMetadata
from lakescan.iceberg.avro import read_avro
from lakescan.iceberg.bounds import column_stats, decode_values
from lakescan.iceberg.manifest import read_manifest
from lakescan.iceberg.manifest_list import read_manifest_list
from lakescan.iceberg.metadata import parse_metadata
from lakescan.iceberg.partition_spec import PartitionField, PartitionSpec, Transform
from lakescan.storage import Storage

SPEC = PartitionSpec(0, (PartitionField(1000, "p", 2, Transform("identity"), t.INT),))


class Memory(Storage):
    """Storage that holds one file."""

    def __init__(self, data: bytes) -> None:
        super().__init__()
        self.data = data

    def read(self, location: str, offset: int = 0, length: int | None = None) -> bytes:
        return self.data


def manifest(entries: list[dict[str, Any]]) -> Memory:
    schema = {"fields": [{"id": 1, "type": "long"}, {"id": 2, "type": "int"}]}
    fields = [{"name": "p", "transform": "identity", "source-id": 2, "field-id": 1000}]
    out = io.BytesIO()
    fastavro.writer(out, fastavro.parse_schema(_manifest_schema(fields, schema)), entries)
    return Memory(out.getvalue())


def entry(path: str = "f", status: int = 1, sequence: int | None = None, **data_file: Any) -> dict[str, Any]:
    file = {"content": 0, "file_path": path, "file_format": "PARQUET", "partition": {"p": 1}, "record_count": 5}
    file |= {"file_size_in_bytes": 9, **data_file}
    return {
        "status": status,
        "snapshot_id": 1,
        "sequence_number": sequence,
        "file_sequence_number": None,
        "data_file": file,
    }


def read(entries: list[dict[str, Any]], sequence: int = 42) -> pa.Table:
    row = {"manifest_path": "m.avro", "sequence_number": sequence}
    return read_manifest(row, SPEC, manifest(entries), with_stats=True)


def test_deleted_entries_are_not_live() -> None:
    assert read([entry("a"), entry("b", status=2), entry("c", status=0)])["file_path"].to_pylist() == ["a", "c"]


def test_a_sequence_number_that_is_missing_is_the_manifests() -> None:
    assert read([entry(), entry(sequence=7)], sequence=42)["sequence_number"].to_pylist() == [42, 7]


def test_partition_values_keep_their_type_and_nulls() -> None:
    found = read([entry(partition={"p": 3}), entry(partition={"p": None})])["partition"].combine_chunks()
    assert found.field(0).to_pylist() == [3, None]
    assert found.field(0).type == pa.int32()


def test_what_is_not_avro_is_refused_with_its_name() -> None:
    with pytest.raises(CorruptMetadata, match="not an Avro file"):
        read_manifest({"manifest_path": "m.avro", "sequence_number": 0}, SPEC, Memory(b"junk"), with_stats=False)


def test_another_avro_file_is_refused() -> None:
    out = io.BytesIO()
    fastavro.writer(out, {"type": "record", "name": "r", "fields": [{"name": "x", "type": "int"}]}, [{"x": 1}])
    with pytest.raises(CorruptMetadata, match="not a manifest"):
        read_manifest({"manifest_path": "m", "sequence_number": 0}, SPEC, Memory(out.getvalue()), with_stats=False)


def test_columns_are_known_by_their_field_ids() -> None:
    out = io.BytesIO()
    schema = {"type": "record", "name": "r", "fields": [{"name": "odd", "type": "int", "field-id": 7}]}
    fastavro.writer(out, schema, [{"odd": 1}])
    assert read_avro(out.getvalue(), {7: "known"}, "x").to_pylist() == [{"known": 1}]


KEY_VALUES = st.none() | st.dictionaries(st.integers(1, 4), st.integers(-(2**31), 2**31 - 1), max_size=3)


@settings(max_examples=100, deadline=None)
@given(st.lists(KEY_VALUES, min_size=1, max_size=6))
def test_a_columns_bounds_are_picked_out_of_the_key_value_lists(files: list[dict[int, int] | None]) -> None:
    def packed(bounds: dict[int, int] | None) -> list[dict[str, Any]] | None:
        if bounds is None:
            return None
        return [{"key": k, "value": v.to_bytes(4, "little", signed=True)} for k, v in bounds.items()]

    entries = [entry(lower_bounds=packed(f), upper_bounds=packed(f)) for f in files]
    table = read(entries)
    stats = column_stats(
        table["stats"].combine_chunks(), t.Field(2, "x", t.INT), table["record_count"].combine_chunks()
    )
    assert stats.lower is not None
    assert stats.lower.to_pylist() == [None if f is None else f.get(2) for f in files]


def test_bounds_are_decoded_as_the_specification_serialises_them() -> None:
    def decoded(kind: t.Type, *values: bytes | None) -> list[Any]:
        found = decode_values(pa.array(values, pa.binary()), kind)
        assert found is not None
        return found.to_pylist()

    assert decoded(t.LONG, (7).to_bytes(8, "little"), (7).to_bytes(4, "little"), None) == [7, 7, None]
    days, micros = (3).to_bytes(4, "little"), (5).to_bytes(8, "little")
    start = datetime(1970, 1, 1)
    assert decoded(t.Timestamp("us", zoned=False), days, micros) == [
        start + timedelta(days=3),
        start + timedelta(microseconds=5),
    ]
    assert decoded(t.BOOLEAN, b"\x00", b"\x01") == [False, True]
    assert [str(v) for v in decoded(t.Decimal(9, 2), b"\x01\x00", b"\xff", b"\x00\x80")] == ["2.56", "-0.01", "1.28"]
    assert decoded(t.STRING, "é".encode(), b"") == ["é", ""]
    assert decode_values(pa.array([b"\xc3"], pa.binary()), t.STRING) is None
    assert decode_values(pa.array([bytes(16)], pa.binary()), t.UUID) is None


def test_pyicebergs_manifests_hold_the_files_that_pyiceberg_lists(shop) -> None:
    from pyiceberg.table import StaticTable

    location = shop.orders.removeprefix("file://")
    with open(location, "rb") as file:
        metadata = parse_metadata(file.read(), location)
    assert metadata.current_snapshot_id is not None
    snapshot = metadata.snapshots[metadata.current_snapshot_id]
    manifests = read_manifest_list(snapshot, Storage())
    entries = [
        read_manifest(row, metadata.specs[row["partition_spec_id"]], Storage(), with_stats=False)
        for row in manifests.drop_columns(["partitions"]).to_pylist()
    ]
    ours = {
        (p, n) for e in entries for p, n in zip(e["file_path"].to_pylist(), e["record_count"].to_pylist(), strict=True)
    }
    theirs = StaticTable.from_metadata(shop.orders).inspect.files()
    assert ours == set(zip(theirs["file_path"].to_pylist(), theirs["record_count"].to_pylist(), strict=True))
