"""Numbers are stored in other numeric types as Spark stores them in its own tables, or are refused likewise."""

from __future__ import annotations

import contextlib
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakescan
from lakescan.errors import QueryFailed

_UNEQUAL = "Spark may compute another value than this process"

_F, _D = 3.4028234663852886e38, 1.7976931348623157e308
_BYTE, _SHORT, _INT, _LONG = (2**n - 1 for n in (7, 15, 31, 63))
_WHOLE = [
    0,
    1,
    -1,
    _BYTE,
    _BYTE + 1,
    -_BYTE - 1,
    -_BYTE - 2,
    _SHORT,
    _SHORT + 1,
    -_SHORT - 1,
    -_SHORT - 2,
    99_999,
    100_000,
]
_WIDE = [
    2**24 + 1,
    _INT,
    _INT + 1,
    -_INT - 1,
    -_INT - 2,
    2**53 + 1,
    _LONG - 512,
    _LONG,
    -_LONG - 1,
    33554435,
    2**40 + 2**16,
]
_PARTS = [0.5, -0.5, 0.1, 1.9999999, -128.9, 127.99, 32767.5, 32768.0, 2147483647.0, 2147483648.0, -2147483648.5]
_REAL = [
    *(0.0, -0.0, float("nan"), float("inf"), float("-inf"), 2.0**63, -(2.0**63), 2.0**63 + 4096),
    *(
        99999.995,
        99999.994,
        99999999.994,
        1e19,
        1e20,
        1.5e37,
        1e38,
        1e-10,
        5e-324,
        1.4e-45,
        7e-46,
        0.000005,
        0.99999,
        0.999995,
    ),
    *(_F, -_F, 3.4028235677973360e38, 3.4028235677973366e38, -3.4028235677973366e38, _D, -_D, 16777217.0, 1 + 2.0**-24),
]
# By SQL type: the Arrow type, and values at its limits and at those of the other types.
TYPES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "TINYINT": (pa.int8(), [0, 1, -1, 127, -128]),
    "SMALLINT": (pa.int16(), [n for n in _WHOLE if abs(n) <= _SHORT]),
    "INT": (pa.int32(), [*_WHOLE, 2**24 + 1, 33554435, _INT, -_INT - 1]),
    "BIGINT": (pa.int64(), [*_WHOLE, *_WIDE]),
    "FLOAT": (pa.float32(), [*_PARTS, *_REAL]),
    "DOUBLE": (pa.float64(), [*_PARTS, *_REAL]),
    "DECIMAL(5, 5)": (
        pa.decimal128(5, 5),
        [Decimal(v) for v in ("0.00000", "0.99999", "-0.99999", "0.12345", "-0.50000")],
    ),
    "DECIMAL(10, 2)": (
        pa.decimal128(10, 2),
        [Decimal(v) for v in ("127.99", "128.00", "-128.99", "99999999.99", "0.10", "16777217.00", "-0.50")],
    ),
    "DECIMAL(20, 10)": (
        pa.decimal128(20, 10),
        [
            Decimal(v)
            for v in (
                "2147483647.9999990000",
                "2147483648.0000000000",
                "-2147483648.5000000000",
                "0.1000000000",
                "0.0000000001",
                "9999999999.9999999999",
                "99999999.9949999999",
                "99999999.9950000000",
            )
        ],
    ),
    "DECIMAL(38, 0)": (
        pa.decimal128(38, 0),
        [Decimal(v) for v in (*_WHOLE, *_WIDE, 2**63, -(2**63) - 1, 2**64, 10**38 - 1, 1 - 10**38)],
    ),
    "DECIMAL(38, 30)": (
        pa.decimal128(38, 30),
        [
            Decimal(v)
            for v in (
                "0.5",
                "-1.5",
                "0.1",
                "99999999.999999999999",
                "0.000000000000000000000000000001",
                "1.000000059604644775390625",
                "1.00000017881393432617187501",
            )
        ],
    ),
}


def _name(kind: str) -> str:
    return "c_" + "".join(c for c in kind.lower() if c.isalnum())


def _rows(kind: str) -> pa.Array:
    arrow, values = TYPES[kind]
    return pa.array(values, pa.float64()).cast(arrow, safe=False) if kind == "FLOAT" else pa.array(values, arrow)


@pytest.fixture(scope="module")
def stored(spark: Any) -> dict[str, list[dict[str, str | None]]]:
    """By type and value, the value in columns of all types of Spark's own table; None if Spark refuses it."""
    columns = ", ".join(f"{_name(kind)} {kind}" for kind in TYPES)
    spark.sql(f"CREATE TABLE store_plain (source STRING, n INT, {columns}) USING parquet")
    found: dict[str, list[dict[str, str | None]]] = {}
    fits = ", ".join(f"CASE WHEN try_cast(v AS {kind}) IS NOT NULL THEN v END" for kind in TYPES)
    try:
        for source in TYPES:
            values = _rows(source)
            rows = pa.table({"n": pa.array(range(len(values)), pa.int32()), "v": values})
            spark.createDataFrame(rows).createOrReplaceTempView("store_rows")
            spark.sql(f"INSERT INTO store_plain SELECT '{source}', n, {fits} FROM store_rows")
        for row in spark.table("store_plain").orderBy("n").toArrow().to_pylist():
            texts = {kind: None if row[_name(kind)] is None else repr(row[_name(kind)]) for kind in TYPES}
            found.setdefault(row["source"], []).append(texts)
    finally:
        spark.sql("DROP TABLE store_plain")
        spark.catalog.dropTempView("store_rows")
    return found


@pytest.mark.parametrize("source", TYPES)
def test_numbers_are_stored_as_in_spark_or_refused(
    tmp_path: Path, stored: dict[str, list[dict[str, str | None]]], source: str
) -> None:
    table = f"delta.`{tmp_path}/t`"
    lakescan.sql(f"CREATE TABLE {table} (n INT, {', '.join(f'{_name(k)} {k}' for k in TYPES)}) USING delta")
    expected, values, wrong = stored[source], _rows(source), []
    numbers = pa.array(range(len(values)), pa.int32())
    for kind in TYPES:
        valid = [n for n, row in enumerate(expected) if row[kind] is not None]
        rows = pa.table({"n": numbers, "v": values}).take(pa.array(valid, pa.int32()))
        source_table = f"{tmp_path}/{_name(kind)}"  # floats of a table; floats of a frame may be rounded integers
        lakescan.save(rows, source_table, format="delta")
        try:
            lakescan.sql(f"INSERT INTO {table} (n, {_name(kind)}) SELECT n, v FROM delta.`{source_table}`")
        except QueryFailed as error:
            if _UNEQUAL not in str(error):
                wrong.append((kind, "refused", str(error)[:300]))
        for n in set(range(len(values))).difference(valid):
            one = pa.table({"v": values.slice(n, 1)})
            with contextlib.suppress(QueryFailed):  # an INSERT casts so
                [made] = lakescan.sql(f"SELECT CAST(v AS {kind}) AS v FROM one", one=one).to_arrow()["v"].to_pylist()
                wrong += [(kind, values[n].as_py(), "fails in Spark", made)] if made is not None else []
    for row in lakescan.table(f"{tmp_path}/t").to_arrow().to_pylist():
        for kind in TYPES:
            if row[_name(kind)] is not None and repr(row[_name(kind)]) != expected[row["n"]][kind]:
                wrong.append((kind, values[row["n"]].as_py(), expected[row["n"]][kind], row[_name(kind)]))
    assert not wrong, "\n".join(map(str, wrong))
