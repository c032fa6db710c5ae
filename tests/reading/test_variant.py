"""Shredded variants are reassembled into the values that were written."""

from __future__ import annotations

import json
from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.types import VariantVal
from pyspark.sql.variant_utils import VariantUtils

from lakescan.common import types as t
from lakescan.errors import CorruptMetadata
from lakescan.reading.type_promotion import cast_leaf
from tests.conftest import corpus_folder

METADATA = b"\x01\x02\x00\x01\x02ab"  # the dictionary a, b


def member(kind: pa.DataType) -> pa.DataType:
    return pa.struct([("value", pa.binary()), ("typed_value", kind)])


def column(typed: pa.DataType, rows: list[Any]) -> pa.Array:
    kind = pa.struct([("metadata", pa.binary()), ("value", pa.binary()), ("typed_value", typed)])
    return pa.array([None if r is None else {"metadata": METADATA, **r} for r in rows], kind)


def values(array: pa.Array) -> list[Any]:
    found = cast_leaf(array, t.VARIANT, "v").to_pylist()
    return [None if v is None else VariantUtils.to_python(v["value"], v["metadata"]) for v in found]


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pa.int8(), -1),
        (pa.int64(), 2**40),
        (pa.float64(), 0.5),
        (pa.bool_(), True),
        (pa.string(), "short"),
        (pa.string(), "long" * 50),
        (pa.binary(), b"\x00\x01"),
        (pa.date32(), date(2026, 1, 31)),
        (pa.decimal128(9, 2), Decimal("-1.50")),
        (pa.decimal128(38, 2), Decimal("12345678901234567890.12")),
    ],
    ids=str,
)
def test_a_typed_value_of_every_kind_is_encoded(kind: pa.DataType, value: Any) -> None:
    assert values(column(kind, [{"typed_value": value}])) == [value]


def test_rows_that_were_not_shredded_keep_their_value() -> None:
    assert values(column(pa.int64(), [{"typed_value": 1}, {"value": b"\x05x"}, None])) == [1, "x", None]


def test_objects_are_merged_from_shredded_and_other_fields() -> None:
    typed = pa.struct([("a", member(pa.int64()))])
    other = b"\x02\x01\x01\x00\x02\x05x"  # {"b": "x"}
    rows = [
        {"typed_value": {"a": {"typed_value": 1}}},
        {"typed_value": {"a": {"typed_value": 1}}, "value": other},
        {"typed_value": {"a": {}}, "value": other},
        {"typed_value": {"a": {"value": b"\x05y"}}},
        {"value": b"\x05z"},
    ]
    assert values(column(typed, rows)) == [{"a": 1}, {"a": 1, "b": "x"}, {"b": "x"}, {"a": "y"}, "z"]


def test_arrays_are_reassembled_from_their_elements() -> None:
    rows = [{"typed_value": [{"typed_value": 1}, {"value": b"\x05x"}]}, {"typed_value": []}, {"value": b"\x00"}]
    assert values(column(pa.list_(member(pa.int64())), rows)) == [[1, "x"], [], None]


def test_large_objects_and_arrays_count_in_four_bytes() -> None:
    rows = [{"typed_value": [{"typed_value": n} for n in range(300)]}]
    assert values(column(pa.list_(member(pa.int64())), rows)) == [list(range(300))]


def test_a_shredded_object_next_to_a_non_object_value_is_refused() -> None:
    typed = pa.struct([("a", member(pa.int64()))])
    with pytest.raises(CorruptMetadata, match="not an object"):
        values(column(typed, [{"typed_value": {"a": {"typed_value": 1}}, "value": b"\x05x"}]))


def test_variants_that_spark_parses_survive() -> None:
    text = json.dumps({"b": [1, "x", None], "a": {"b": 2}})
    parsed = VariantVal.parseJson(text)
    array = pa.array([{"metadata": parsed.metadata, "value": parsed.value}])
    assert json.loads(json.dumps(values(array)[0])) == json.loads(text)


@pytest.mark.skipif(corpus_folder() is None, reason="no corpus: set LAKESCAN_CORPUS to its folder")
def test_other_projects_shredded_files_give_the_bytes_they_expect() -> None:
    folder = corpus_folder()
    assert folder is not None
    cases = sorted((folder / "iceberg" / "documents" / "iceberg-go" / "shredded_variant").glob("*.variant.bin"))
    assert len(cases) > 10
    for expected in cases:
        name, row = expected.name.removesuffix(".variant.bin").split("_row-")
        table = pq.ParquetFile(expected.with_name(f"{name}.parquet"), arrow_extensions_enabled=False).read()
        found = cast_leaf(table.column("var").combine_chunks(), t.VARIANT, "var")[int(row)].as_py()
        assert found["metadata"] + found["value"] == expected.read_bytes(), expected.name
