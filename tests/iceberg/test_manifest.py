"""Manifests and manifest lists written by pyiceberg are read as pyiceberg reads them, with inheritance."""

from __future__ import annotations

import io
import json
import uuid
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from samples.iceberg_deletes import _manifest_schema

from lakescan.common import types as t
from lakescan.errors import CorruptMetadata
from lakescan.iceberg.manifests.avro_decode import FILE, _decode_columns, open_container, read_avro
from lakescan.iceberg.manifests.bounds import decode_values, recorded_stats
from lakescan.iceberg.manifests.manifest_file import ManifestFile, manifest_files
from lakescan.iceberg.manifests.manifest_list import _NAMES as LIST_NAMES
from lakescan.iceberg.manifests.manifest_list import read_manifest_list
from lakescan.iceberg.manifests.manifest_reader import _NAMES, STATS, read_manifests
from lakescan.iceberg.metadata.partition_spec import PartitionField, PartitionSpec, Transform
from lakescan.iceberg.metadata.table_metadata_parser import parse_metadata
from lakescan.storage import Storage
from tests.conftest import corpus_folder

SPEC = PartitionSpec(0, (PartitionField(1000, "p", 2, Transform("identity"), t.INT),))


class Memory(Storage):
    """A storage that holds one file."""

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
    row = ManifestFile("m.avro", sequence_number=sequence)
    return read_manifests([row], SPEC, manifest(entries), with_stats=True)


def test_deleted_entries_are_not_live() -> None:
    assert read([entry("a"), entry("b", status=2), entry("c", status=0)])["file_path"].to_pylist() == ["a", "c"]


def test_a_missing_sequence_number_is_inherited_from_the_manifest() -> None:
    assert read([entry(), entry(sequence=7)], sequence=42)["sequence_number"].to_pylist() == [42, 7]


def test_partition_values_keep_their_type_and_nulls() -> None:
    found = read([entry(partition={"p": 3}), entry(partition={"p": None})])["partition"].combine_chunks()
    assert found.field(0).to_pylist() == [3, None]
    assert found.field(0).type == pa.int32()


def test_a_file_that_is_not_avro_is_refused_by_name() -> None:
    with pytest.raises(CorruptMetadata, match="not a valid Avro file"):
        read_manifests([ManifestFile("m.avro")], SPEC, Memory(b"junk"), with_stats=False)


def test_another_avro_file_is_refused() -> None:
    out = io.BytesIO()
    fastavro.writer(out, {"type": "record", "name": "r", "fields": [{"name": "x", "type": "int"}]}, [{"x": 1}])
    with pytest.raises(CorruptMetadata, match="not a manifest"):
        read_manifests([ManifestFile("m")], SPEC, Memory(out.getvalue()), with_stats=False)


def test_columns_are_identified_by_their_field_ids() -> None:
    out = io.BytesIO()
    schema = {"type": "record", "name": "r", "fields": [{"name": "odd", "type": "int", "field-id": 7}]}
    fastavro.writer(out, schema, [{"odd": 1}])
    assert read_avro([open_container(out.getvalue(), "x")], {7: "known"}).select(["known"]).to_pylist() == [
        {"known": 1}
    ]


KEY_VALUES = st.none() | st.dictionaries(st.integers(1, 4), st.integers(-(2**31), 2**31 - 1), max_size=3)


@settings(max_examples=100)
@given(st.lists(KEY_VALUES, min_size=1, max_size=6))
def test_the_bounds_of_a_column_are_read_from_the_key_value_lists(files: list[dict[int, int] | None]) -> None:
    def packed(bounds: dict[int, int] | None) -> list[dict[str, Any]] | None:
        if bounds is None:
            return None
        return [{"key": k, "value": v.to_bytes(4, "little", signed=True)} for k, v in bounds.items()]

    entries = [entry(lower_bounds=packed(f), upper_bounds=packed(f)) for f in files]
    table = read(entries)
    stats = recorded_stats(table, t.Field(2, "x", t.INT))
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
        read_manifests([row], metadata.specs[row.partition_spec_id], Storage(), with_stats=False)
        for row in manifest_files(manifests)
    ]
    ours = {
        (p, n) for e in entries for p, n in zip(e["file_path"].to_pylist(), e["record_count"].to_pylist(), strict=True)
    }
    theirs = StaticTable.from_metadata(shop.orders).inspect.files()
    assert ours == set(zip(theirs["file_path"].to_pylist(), theirs["record_count"].to_pylist(), strict=True))


def every_manifest() -> list[Path]:
    """Return the manifests of the corpus of other projects' tables."""
    folder = corpus_folder()
    if folder is None:
        pytest.skip("the corpus of other projects' tables is not here (LAKESCAN_CORPUS)")
    return sorted(p for p in folder.glob("iceberg/**/*.avro") if "/metadata/" in str(p))


def plain(table: pa.Table) -> list[Any]:
    """Convert rows for comparison: key-value lists to dictionaries and times to text, whichever decoder made them."""

    def simple(value: Any) -> Any:
        if isinstance(value, dict):
            return {k: simple(v) for k, v in value.items() if v != {}}  # a partition without fields
        if isinstance(value, list) and value and isinstance(value[0], dict) and set(value[0]) == {"key", "value"}:
            return {v["key"]: v["value"] for v in value}
        if isinstance(value, list):
            return dict(value) if value and isinstance(value[0], tuple) else [simple(v) for v in value]
        if isinstance(value, datetime | date):
            return value.isoformat().replace("+00:00", "")
        return value

    return [simple(row) for row in table.to_pylist()]


def test_both_decoders_read_every_manifest_alike() -> None:
    fast = total = 0
    for path in every_manifest():
        try:
            file = open_container(path.read_bytes(), str(path))
            names = _NAMES | STATS if b'"data_file"' in file.schema else LIST_NAMES
            slow = read_avro([file], names, fast=False)
        except CorruptMetadata:
            continue
        total += 1
        found = _decode_columns([file], json.loads(file.schema), names)
        if found is not None:
            fast += 1
            assert plain(found) == plain(slow.drop_columns([FILE])), path
    assert fast > 0.95 * total, f"the columnar decoder took {fast} of {total}"


@given(counts=st.lists(st.integers(0, 3), min_size=1, max_size=5))
def test_files_that_are_decoded_together_keep_their_rows_apart(counts: list[int]) -> None:
    files = []
    for number, count in enumerate(counts):
        made = manifest([entry(f"{number}-{n}") for n in range(count)])
        files.append(open_container(made.data, f"m{number}"))
    assert [f.rows for f in files] == counts
    for fast in (True, False):
        found = read_avro(files, _NAMES, fast=fast)
        expected = [(number, f"{number}-{n}") for number, count in enumerate(counts) for n in range(count)]
        paths = [f["file_path"] for f in found["data_file"].to_pylist()]
        assert list(zip(found[FILE].to_pylist(), paths, strict=True)) == expected


@given(place=st.integers(0, 400))
def test_a_file_that_breaks_off_or_is_damaged_is_noticed(place: int) -> None:
    data = manifest([entry(str(n)) for n in range(20)]).data
    cut = data[: max(5, len(data) - 1 - place)]
    with pytest.raises(CorruptMetadata, match=r"^m "):
        read_avro([open_container(cut, "m")], _NAMES)


PARTITION_TYPES: list[tuple[t.Type, Any, list[Any]]] = [
    (t.BOOLEAN, "boolean", [True, False]),
    (t.INT, "int", [1, -1]),
    (t.LONG, "long", [2**40, -1]),
    (t.FLOAT, "float", [1.5, float("inf")]),
    (t.DOUBLE, "double", [-1.5, 0.0]),
    (t.STRING, "string", ["", "é"]),
    (t.BINARY, "bytes", [b"", b"\x00\xff"]),
    (t.Fixed(3), {"type": "fixed", "name": "f3", "size": 3}, [b"abc", b"\x00\x01\x02"]),
    (t.DATE, {"type": "int", "logicalType": "date"}, [date(1969, 12, 31), date(2026, 1, 31)]),
    (t.DATE, "int", [-1, 20_000]),
    (t.TIME, {"type": "long", "logicalType": "time-micros"}, [time(0), time(23, 59, 59, 999_999)]),
    (
        t.Timestamp("us", zoned=True),
        {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": True},
        [datetime(1969, 12, 31, 23, 59, 59, 1, tzinfo=UTC), datetime(2026, 1, 31, tzinfo=UTC)],
    ),
    (
        t.Timestamp("us", zoned=False),
        {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": False},
        [datetime(1969, 12, 31, 23, 59, 59, 1, tzinfo=UTC), datetime(2026, 1, 31, tzinfo=UTC)],
    ),
    (
        t.Decimal(9, 2),
        {"type": "fixed", "name": "d", "size": 4, "logicalType": "decimal", "precision": 9, "scale": 2},
        [Decimal("-14.20"), Decimal("0.01")],
    ),
    (
        t.Decimal(38, 10),
        {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 10},
        [Decimal("-1.5"), Decimal("1234567890123456789.0123456789")],
    ),
    (
        t.UUID,
        {"type": "fixed", "name": "u", "size": 16, "logicalType": "uuid"},
        [uuid.UUID(int=0).bytes, uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7").bytes],
    ),
]


@pytest.mark.parametrize(("kind", "avro", "values"), PARTITION_TYPES, ids=lambda v: str(v)[:30])
def test_partition_values_of_every_type_are_the_same_by_both_decoders(
    kind: t.Type, avro: Any, values: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = {"fields": [{"id": 1, "type": "long"}, {"id": 2, "type": "int"}]}
    fields = [{"name": "p", "transform": "identity", "source-id": 2, "field-id": 1000}]
    written = _manifest_schema(fields, schema)
    data_file = next(f for f in written["fields"] if f["name"] == "data_file")
    partition = next(f for f in data_file["type"]["fields"] if f["name"] == "partition")
    partition["type"]["fields"][0]["type"] = ["null", avro]
    out = io.BytesIO()
    fastavro.writer(out, fastavro.parse_schema(written), [entry(partition={"p": v}) for v in [*values, None]])
    spec = PartitionSpec(0, (PartitionField(1000, "p", 2, Transform("identity"), kind),))
    assert _decode_columns([open_container(out.getvalue(), "m")], written, _NAMES) is not None
    found = []
    for many in (0, 1 << 30):
        monkeypatch.setattr("lakescan.iceberg.manifests.avro_decode._MANY_ROWS", many)
        rows = read_manifests([ManifestFile("m", sequence_number=1)], spec, Memory(out.getvalue()), with_stats=False)
        found.append(rows["partition"].combine_chunks().field(0))
    assert found[0].equals(found[1])
    assert found[0].null_count == 1


def test_results_of_both_decoders_can_be_combined() -> None:
    """A few rows are decoded record by record, many rows by column: one plan combines both."""
    bounds = [{"key": 2, "value": b"\x01\x00\x00\x00"}]
    few, many = (read([entry(f"f{n}", lower_bounds=bounds) for n in range(count)]) for count in (2, 600))
    assert few["stats"].type == many["stats"].type
    assert pa.concat_tables([few, many]).num_rows == 602
