"""Parquet, ORC and Avro files return the same rows, read by field id in batches that have their positions."""

from __future__ import annotations

import uuid
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import orc

from lakescan.common import types as t
from lakescan.common.schema import FieldMatching, Schema
from lakescan.errors import CorruptMetadata, MissingFile, UnsupportedFeature
from lakescan.planning.split import NO_END
from lakescan.reading.data_file import open_data_file
from lakescan.reading.field_ids import read_fields
from lakescan.reading.projection import resolve
from lakescan.storage import Storage

BY_ID = FieldMatching(by_id=True)
AVRO = {
    "type": "record",
    "name": "row",
    "fields": [
        {"name": "old_id", "type": "long", "field-id": 1},
        {"name": "text", "type": ["null", "string"], "field-id": 2},
        {"name": "list", "type": {"type": "array", "items": ["null", "int"], "element-id": 4}, "field-id": 3},
        {
            "name": "map",
            "type": {
                "type": "array",
                "logicalType": "map",
                "items": {
                    "type": "record",
                    "name": "k6_v7",
                    "fields": [
                        {"name": "key", "type": "int", "field-id": 6},
                        {"name": "value", "type": ["null", "string"], "field-id": 7},
                    ],
                },
            },
            "field-id": 5,
        },
        {"name": "n", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}, "field-id": 8},
        {"name": "d", "type": {"type": "int", "logicalType": "date"}, "field-id": 9},
        {
            "name": "at",
            "type": {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": True},
            "field-id": 10,
        },
        {
            "name": "wall",
            "type": {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": False},
            "field-id": 11,
        },
        {"name": "tod", "type": {"type": "long", "logicalType": "time-micros"}, "field-id": 12},
        {"name": "u", "type": {"type": "fixed", "size": 16, "name": "u", "logicalType": "uuid"}, "field-id": 13},
        {
            "name": "s",
            "type": [
                "null",
                {"type": "record", "name": "s", "fields": [{"name": "x", "type": "float", "field-id": 15}]},
            ],
            "field-id": 14,
        },
    ],
}
SCHEMA = Schema(
    (
        t.Field(1, "id", t.LONG),
        t.Field(2, "text", t.STRING),
        t.Field(3, "list", t.ListOf(t.Field(4, "element", t.LONG))),
        t.Field(5, "map", t.MapOf(t.Field(6, "key", t.INT, required=True), t.Field(7, "value", t.STRING))),
        t.Field(8, "n", t.Decimal(9, 2)),
        t.Field(9, "d", t.DATE),
        t.Field(10, "at", t.Timestamp()),
        t.Field(11, "wall", t.Timestamp("us", zoned=False)),
        t.Field(12, "tod", t.TIME),
        t.Field(13, "u", t.UUID),
        t.Field(14, "s", t.Struct((t.Field(15, "x", t.DOUBLE),))),
        t.Field(16, "added", t.STRING, default="later"),
    )
)
UUID = uuid.UUID(int=7)
ROW: dict[str, Any] = {
    "old_id": 1,
    "text": None,
    "list": [1, None],
    "map": [{"key": 1, "value": "one"}, {"key": 2, "value": None}],
    "n": Decimal("1.50"),
    "d": date(2026, 1, 31),
    "at": datetime(2026, 1, 31, 12, tzinfo=UTC),
    "wall": datetime(2026, 1, 31, 12, tzinfo=UTC),
    "tod": time(12, 30),
    "u": UUID.bytes,
    "s": {"x": 0.5},
}


def rows(
    path: Path, file_format: str, schema: Schema, batch_size: int = 1000
) -> tuple[list[int], list[dict[str, Any]]]:
    """Return the first position of each batch, and the rows."""
    positions, found = [], []
    with open_data_file(Storage(), str(path), file_format) as data:
        projection = resolve(read_fields(data.schema, BY_ID), schema, BY_ID, {})
        for first, batch in data.batches(data.chunks(0, NO_END), projection, batch_size):
            positions.append(first)
            found += pa.table(projection.apply(batch), schema=schema.arrow()).to_pylist()
    return positions, found


def test_avro_values_of_every_kind_are_read(tmp_path: Path) -> None:
    path = tmp_path / "f.avro"
    with path.open("wb") as out:
        fastavro.writer(out, AVRO, [ROW, {**ROW, "s": None, "list": [], "map": []}])
    _, (first, second) = rows(path, "avro", SCHEMA)
    assert first == {
        "id": 1,
        "text": None,
        "list": [1, None],
        "map": [(1, "one"), (2, None)],
        "n": Decimal("1.50"),
        "d": date(2026, 1, 31),
        "at": datetime(2026, 1, 31, 12, tzinfo=UTC),
        "wall": datetime(2026, 1, 31, 12),
        "tod": time(12, 30),
        "u": UUID,
        "s": {"x": 0.5},
        "added": "later",
    }
    assert (second["s"], second["list"], second["map"]) == (None, [], [])


NUMBERED = Schema((t.Field(1, "n", t.LONG), t.Field(2, "text", t.STRING)))
TABLES = st.lists(
    st.tuples(st.none() | st.integers(-(2**31), 2**31 - 1), st.none() | st.text("ab", max_size=3)), max_size=50
)


def write(path: Path, file_format: str, values: list[tuple[int | None, str | None]]) -> None:
    kinds = [("n", pa.int64()), ("text", pa.string())]
    fields = [pa.field(n, k, metadata={"PARQUET:field_id": str(i)}) for i, (n, k) in enumerate(kinds, 1)]
    table = pa.Table.from_pylist([{"n": n, "text": x} for n, x in values], schema=pa.schema(fields))
    if file_format == "parquet":
        pq.write_table(table, path, row_group_size=7)
    elif file_format == "orc":
        orc.write_table(table, path, stripe_size=64, batch_size=7)
    else:
        nodes = [
            {"name": n, "type": ["null", k], "field-id": i}
            for i, (n, k) in enumerate([("n", "long"), ("text", "string")], 1)
        ]
        with path.open("wb") as out:
            fastavro.writer(out, {"type": "record", "name": "r", "fields": nodes}, table.to_pylist(), sync_interval=64)


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
@settings(max_examples=30)
@given(values=TABLES, batch_size=st.integers(1, 20))
def test_batches_of_every_format_have_all_rows_and_their_positions(
    tmp_path_factory: pytest.TempPathFactory, file_format: str, values: list[Any], batch_size: int
) -> None:
    path = tmp_path_factory.mktemp("f") / "file"
    write(path, file_format, values)
    positions, found = rows(path, file_format, NUMBERED, batch_size)
    assert [(r["n"], r["text"]) for r in found] == values
    assert positions == sorted(positions)
    assert positions[:1] == ([0] if values else [])


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_a_file_that_is_damaged_or_missing_is_named(tmp_path: Path, file_format: str) -> None:
    path = tmp_path / "broken"
    path.write_bytes(b"PAR1 ORC Obj\x01 nothing of the kind")
    with pytest.raises(CorruptMetadata, match="broken"):
        rows(path, file_format, NUMBERED)
    with pytest.raises(MissingFile, match="gone"):
        rows(tmp_path / "gone", file_format, NUMBERED)


def test_a_truncated_avro_file_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "cut.avro"
    write(path, "avro", [(n, "x" * 20) for n in range(100)])
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(CorruptMetadata, match="a block cannot be decoded"):
        rows(path, "avro", NUMBERED)


def test_another_format_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedFeature, match="lance data files"):
        rows(tmp_path / "x", "lance", NUMBERED)
