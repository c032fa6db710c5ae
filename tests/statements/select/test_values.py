"""Values in in-process SQL: texts and other unusual values give Spark's answers."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakescan

_TIMES = [datetime(2024, 1, 1, 22, tzinfo=UTC), datetime(2024, 1, 2, tzinfo=UTC), datetime(2024, 1, 4, tzinfo=UTC)]
ROWS = pa.table({"id": [1, 2, 3], "ts": pa.array(_TIMES, pa.timestamp("us", "UTC")), "l": [[1, 2], None, []]})


def _values(text: str, rows: pa.Table = ROWS) -> list[Any]:
    return list(lakescan.sql(text, t=rows).to_arrow()[0].to_pylist())


@pytest.mark.parametrize(
    ("condition", "ids"),
    [
        ("ts = '2024-01-02 00:00:00Z'", [2]),
        ("ts = '2024-01-02 00:00:00+02:00'", [1]),
        ("ts = '2024-01-01 23:00:00 Europe/Berlin'", [1]),
        ("ts = '2024-01-01 23:00:00+1:00'", [1]),
        ("ts > TIMESTAMP '2024-01-02 00:00:00-01:00'", [3]),
        ("ts IN ('2024-1-2', '2024-01-04T02:00:00.000+02:00')", [2, 3]),
        ("ts BETWEEN '2024' AND CAST('2024-01-02 00:00:00UTC+2' AS TIMESTAMP)", [1]),
        ("id = ' 2 '", [2]),
    ],
)
def test_a_text_compared_with_a_value_is_cast_to_its_type(condition: str, ids: list[int]) -> None:
    assert _values(f"SELECT id FROM t WHERE {condition} ORDER BY id") == ids


def test_texts_with_zones_are_written_as_instants(tmp_path: Path) -> None:
    lakescan.catalog("zones", warehouse=str(tmp_path)).create_namespace("db")
    lakescan.sql("CREATE TABLE zones.db.t (id INT, ts TIMESTAMP) USING delta")
    lakescan.sql("INSERT INTO zones.db.t VALUES (1, TIMESTAMP '2024-01-02 00:00:00+02:00'), (2, NULL)")
    lakescan.sql("UPDATE zones.db.t SET ts = CAST('2024-01-02 00:00:00Z' AS TIMESTAMP) WHERE id = 2")
    assert _values("SELECT ts FROM zones.db.t ORDER BY id") == _TIMES[:2]


@pytest.mark.parametrize(
    ("expression", "texts", "values"),
    [
        ("try_cast(s AS INT)", ["12", " 7\t", "n/a", "1e2", "12,5", "9999999999", None], [12, 7] + [None] * 5),
        ("try_cast(s AS DOUBLE)", ["1e2", "0x1p3", "1d", "x", "Infinity"], [100.0, 8.0, 1.0, None, float("inf")]),
        (
            "try_cast(s AS DATE)",
            ["2024-2-9", "2024", "29.2.2024", "unknown"],
            [date(2024, 2, 9), date(2024, 1, 1), None, None],
        ),
        ("try_cast(s AS BOOLEAN)", ["T", " no ", "maybe"], [True, False, None]),
        ("lower(s)", ["E\u0301clair", "STRASSE"], ["e\u0301clair", "strasse"]),
        ("upper(s)", ["\u0130stanbul", "straße"], ["\u0130STANBUL", "STRASSE"]),
        ("initcap(s)", ["o'neil jean-luc", "2024-02-29"], ["O'neil Jean-luc", "2024-02-29"]),
        ("CAST(CAST(s AS DOUBLE) AS STRING)", ["1e10", "0.00001", "1.5", "nan"], ["1.0E10", "1.0E-5", "1.5", "NaN"]),
        ("space(try_cast(s AS INT))", ["2", "x", "-1"], ["  ", None, ""]),
        ("repeat('a', try_cast(s AS INT))", ["2", "x", "-1"], ["aa", None, ""]),
        ("ltrim('ab', s)", ["abc", "cab"], ["c", "cab"]),
        ("btrim(s, 'ab')", ["abc", "cab"], ["c", "c"]),
        ("s ILIKE 'A%'", ["abc", "ABC", "b", "É"], [True, True, False, False]),
    ],
)
def test_an_invalid_value_does_not_fail_the_other_rows(expression: str, texts: list[Any], values: list[Any]) -> None:
    rows = pa.table({"s": pa.array(texts, pa.string())})
    assert repr(_values(f"SELECT {expression} FROM t", rows)) == repr(values)


def test_a_cast_that_fails_names_the_value() -> None:
    with pytest.raises(
        lakescan.QueryFailed, match=r"CAST_INVALID_INPUT: the text '1e2' is no INT\. try_cast returns null"
    ):
        _values("SELECT CAST(s AS INT) FROM t", pa.table({"s": ["1", "1e2"]}))


@pytest.mark.parametrize(
    ("frame", "sums"),
    [
        ("RANGE BETWEEN INTERVAL 1 DAY PRECEDING AND CURRENT ROW", [1, 3, 3]),
        ("RANGE BETWEEN INTERVAL '1 02:00:00' DAY TO SECOND PRECEDING AND INTERVAL 2 HOURS FOLLOWING", [3, 3, 3]),
        ("RANGE BETWEEN INTERVAL 1 MONTH PRECEDING AND CURRENT ROW", [1, 3, 6]),
    ],
)
def test_interval_window_frames_contain_the_rows_within_them(frame: str, sums: list[int]) -> None:
    assert sorted(_values(f"SELECT sum(id) OVER (ORDER BY ts {frame}) FROM t")) == sorted(sums)


def test_lambda_functions_can_use_columns_of_the_row() -> None:
    assert _values("SELECT transform(l, x -> x * id) FROM t ORDER BY id") == [[1, 2], None, []]
    assert _values("SELECT aggregate(l, id, (total, x) -> total + CAST(x AS INT)) FROM t ORDER BY id") == [4, None, 3]
    assert _values("SELECT filter(l, id -> id > 1) FROM t ORDER BY ts") == [[2], None, []]


@pytest.mark.parametrize(
    ("call", "value"),
    [
        ("format_number(1e30, 2)", f"1{',000' * 10}.00"),
        ("format_string('%.1f', CAST('999999999999999999999999999999' AS DECIMAL(38, 0)))", f"{'9' * 30}.0"),
    ],
)
def test_numbers_of_more_than_28_digits_are_formatted(call: str, value: str) -> None:
    assert lakescan.sql(f"SELECT {call}").to_arrow()[0].to_pylist() == [value]


def test_timestamp_seconds_refuses_digits_beyond_the_default_precision_of_decimals() -> None:
    with pytest.raises(lakescan.QueryFailed, match="ROUNDING_NECESSARY"):
        lakescan.sql(
            "SELECT timestamp_seconds(CAST('1.1000000000000000000000000000001' AS DECIMAL(38, 31)))"
        ).to_arrow()


def test_json_that_is_nested_too_deeply_has_no_schema() -> None:
    with pytest.raises(lakescan.QueryFailed, match="not valid JSON"):
        lakescan.sql(f"SELECT schema_of_json('{'[' * 50_000}')").to_arrow()
