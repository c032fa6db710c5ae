"""Upsert keys are compared in stored form, so that no upsert adds a second row with an existing key."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakescan
from lakescan.errors import AmbiguousMerge, LakescanError, QueryFailed, SchemaMismatch
from tests.support.delta_rules import table_with_rules

pytestmark = pytest.mark.usefixtures("no_other_catalogs")
CHAR, VARCHAR = ({"__CHAR_VARCHAR_TYPE_STRING": text} for text in ("char(5)", "varchar(3)"))


def of_delta(folder: Path, kind: str, own: dict[str, Any], stored: Any) -> lakescan.Table:
    table = table_with_rules(folder, {"k": kind, "v": "string"}, {"k": own})
    table.append(pa.table({"k": pa.array([stored], table.scan().schema.field("k").type), "v": ["old"]}))
    return lakescan.table(folder)


@pytest.mark.parametrize(
    ("kind", "own", "stored", "given"),
    [
        ("long", {}, 5, 5.0),
        ("long", {}, 5, "5"),
        ("decimal(10,2)", {}, Decimal("2.00"), Decimal("2.0000")),
        ("string", CHAR, "ab   ", "ab"),
        ("string", CHAR, "ab   ", "ab         "),
        ("string", VARCHAR, "ab", "ab"),
        ("string", {}, "5", 5),
        ("date", {}, date(2024, 1, 1), datetime(2024, 1, 1)),
        ("date", {}, date(2024, 1, 1), "2024-01-01"),
    ],
)
def test_a_key_stored_equal_to_an_existing_one_updates_its_row(
    tmp_path: Path, kind: str, own: dict[str, Any], stored: Any, given: Any
) -> None:
    table = of_delta(tmp_path, kind, own, stored)
    assert table.upsert(pa.table({"k": [given], "v": ["new"]}), "k").updated == 1
    assert table.to_arrow().to_pylist() == [{"k": stored, "v": "new"}]
    two = pa.table({"k": [given, given], "v": ["new", "newer"]})
    with pytest.raises(AmbiguousMerge, match="2 of the new rows have k = "):
        table.upsert(two, "k")


@pytest.mark.parametrize(
    ("kind", "own", "stored", "given", "message"),
    [
        ("long", {}, 5, 5.5, r"k = 5.5, which the key column 'k' \(long\) would store as another value"),
        ("long", {}, 5, "five", "the key 'k' is long: CAST_INVALID_INPUT: the text 'five' is no BIGINT"),
        ("long", {}, 1, True, "column 'k' is long, and its value boolean"),
        ("decimal(10,2)", {}, Decimal("2.00"), Decimal("2.0001"), r"the key column 'k' \(decimal\(10, 2\)\)"),
        ("decimal(10,2)", {}, Decimal("2.00"), "2.0001", r"the key column 'k' \(decimal\(10, 2\)\)"),
        ("string", CHAR, "abcde", "abcdef", r"the key column 'k' \(CHAR\(5\)\)"),
        ("string", VARCHAR, "ab ", "ab    ", r"the key column 'k' \(VARCHAR\(3\)\)"),
        ("date", {}, date(2024, 1, 1), datetime(2024, 1, 1, 12), r"the key column 'k' \(date\)"),
    ],
)
def test_a_key_that_would_be_stored_with_another_value_is_refused(
    tmp_path: Path, kind: str, own: dict[str, Any], stored: Any, given: Any, message: str
) -> None:
    table = of_delta(tmp_path, kind, own, stored)
    with pytest.raises((SchemaMismatch, QueryFailed), match=message):
        table.upsert(pa.table({"k": [given], "v": ["new"]}), "k")
    assert lakescan.table(tmp_path).to_arrow().to_pylist() == [{"k": stored, "v": "old"}]


@pytest.mark.parametrize("mode", ["merge", "equality"])
def test_uuids_and_rounded_numbers_are_handled_in_both_upsert_modes(local: lakescan.Catalog, mode: str) -> None:
    low, high = "f79c3e09-677c-4bbd-a479-3f349cb785e7", "F79C3E09-677C-4BBD-A479-3F349CB785E7"
    table = local.create_table("db.u", "k UUID NOT NULL, v STRING, PRIMARY KEY (k)")
    table.append(pa.table({"k": [low], "v": ["old"]}))
    with pytest.raises(AmbiguousMerge):
        table.upsert(pa.table({"k": [low, high], "v": ["a", "b"]}), upsert_mode=mode)
    table.upsert(pa.table({"k": [high], "v": ["new"]}), upsert_mode=mode)
    assert lakescan.sql("SELECT k, v FROM local.db.u").to_arrow().to_pylist() == [{"k": low, "v": "new"}]
    table = local.create_table("db.n", "k BIGINT NOT NULL, v STRING, PRIMARY KEY (k)")
    table.append(pa.table({"k": [5], "v": ["old"]}))
    with pytest.raises(LakescanError, match="'k'"):
        table.upsert(pa.table({"k": [5.5], "v": ["new"]}), upsert_mode=mode)
    assert table.to_arrow().to_pylist() == [{"k": 5, "v": "old"}]
