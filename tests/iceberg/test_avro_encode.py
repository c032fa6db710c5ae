"""Arrow columns are encoded as the Avro records that other decoders read back."""

from __future__ import annotations

import io
from decimal import Decimal
from typing import Any
from unittest.mock import patch

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakescan.common import types as t
from lakescan.errors import UnsupportedFeature
from lakescan.iceberg.manifests import avro_encode
from lakescan.iceberg.manifests.avro_encode import avro_file

INTS = st.integers(-(2**31), 2**31 - 1)
LONGS = st.integers(-(2**63), 2**63 - 1)
TEXTS = st.text(max_size=20)


def _optional(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | values


COLUMNS: list[tuple[t.Field, st.SearchStrategy[Any]]] = [
    (t.Field(1, "required", t.INT, required=True), INTS),
    (t.Field(2, "number", t.LONG), _optional(LONGS)),
    (t.Field(3, "text", t.STRING), _optional(TEXTS)),
    (t.Field(4, "bytes", t.BINARY), _optional(st.binary(max_size=300))),
    (t.Field(5, "flag", t.BOOLEAN), _optional(st.booleans())),
    (t.Field(6, "double", t.DOUBLE), _optional(st.floats(allow_nan=False))),
    (t.Field(7, "float", t.FLOAT), _optional(st.floats(width=32, allow_nan=False))),
    (t.Field(8, "fixed", t.Fixed(3)), _optional(st.binary(min_size=3, max_size=3))),
    (
        t.Field(9, "decimal", t.Decimal(38, 4)),
        _optional(st.integers(-(10**38) + 1, 10**38 - 1).map(lambda n: Decimal(f"{n}E-4"))),
    ),
    (
        t.Field(10, "list", t.ListOf(t.Field(11, "element", t.LONG, required=True))),
        _optional(st.lists(LONGS, max_size=5)),
    ),
    (
        t.Field(
            12,
            "map",
            t.MapOf(t.Field(13, "key", t.INT, required=True), t.Field(14, "value", t.BINARY, required=True)),
        ),
        _optional(st.lists(st.tuples(INTS, st.binary(max_size=4)), max_size=4, unique_by=lambda pair: pair[0])),
    ),
    (
        t.Field(15, "struct", t.Struct((t.Field(16, "x", t.INT, required=True), t.Field(17, "y", t.STRING)))),
        _optional(st.fixed_dictionaries({"x": INTS, "y": _optional(TEXTS)})),
    ),
    (t.Field(18, "empty", t.Struct(()), required=True), st.just({})),
]
FIELDS = t.Struct(tuple(field for field, _ in COLUMNS))
ROWS = st.lists(st.fixed_dictionaries({field.name: values for field, values in COLUMNS}), max_size=12)


def _table(rows: list[dict[str, Any]]) -> pa.Table:
    return pa.table({f.name: pa.array([row[f.name] for row in rows], f.type.arrow()) for f in FIELDS.fields})


def _expected(row: dict[str, Any]) -> dict[str, Any]:
    pairs = row["map"]
    return {**row, "map": None if pairs is None else [{"key": key, "value": value} for key, value in pairs]}


@pytest.mark.parametrize("few", [0, 16], ids=["in columns", "value by value"])
@settings(max_examples=60)
@given(rows=ROWS, skip=st.integers(0, 3))
def test_fastavro_reads_every_value_back(few: int, rows: list[dict[str, Any]], skip: int) -> None:
    table = _table(rows).slice(skip)
    with patch.object(avro_encode, "_FEW_ROWS", few):
        file = io.BytesIO(avro_file(table, FIELDS, "row", {"origin": "test"}))
    reader = fastavro.reader(file)
    assert list(reader) == [_expected(row) for row in rows[skip:]]
    assert reader.metadata["origin"] == "test"


@settings(max_examples=60)
@given(rows=ROWS, skip=st.integers(0, 3))
def test_a_few_records_are_encoded_to_the_same_bytes_as_columns(rows: list[dict[str, Any]], skip: int) -> None:
    table = _table(rows).slice(skip)
    files = []
    for few in (0, 16):
        with patch.object(avro_encode, "_FEW_ROWS", few), patch("os.urandom", bytes):
            files.append(avro_file(table, FIELDS, "row", {}))
    assert files[0] == files[1]


def test_many_rows_are_several_blocks_that_hold_all_rows_in_order() -> None:
    fields = t.Struct((t.Field(1, "n", t.LONG, required=True),))
    numbers = [n * n for n in range(10_000)]
    file = io.BytesIO(avro_file(pa.table({"n": numbers}), fields, "row", {}))
    assert [row["n"] for row in fastavro.reader(file)] == numbers
    file.seek(0)
    assert len(list(fastavro.block_reader(file))) > 1


def test_a_null_in_a_required_field_is_an_error() -> None:
    fields = t.Struct((t.Field(1, "n", t.LONG, required=True),))
    with pytest.raises(ValueError, match="'n' has 1 nulls"):
        avro_file(pa.table({"n": pa.array([1, None])}), fields, "row", {})


def test_a_type_that_avro_lacks_is_refused_by_name() -> None:
    fields = t.Struct((t.Field(1, "v", t.VARIANT),))
    with pytest.raises(UnsupportedFeature, match="variant"):
        avro_file(pa.table({"v": pa.nulls(1, t.VARIANT.arrow())}), fields, "row", {})
