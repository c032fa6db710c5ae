"""Values on which an in-process statement fails: the message describes the problem plainly, and nothing is changed."""

from __future__ import annotations

import pyarrow as pa
import pytest

import lakescan
from lakescan.errors import QueryFailed
from lakescan.statements.duckdb.errors import spark_error_message

pytestmark = pytest.mark.usefixtures("no_other_catalogs")
BY_ZERO = "DIVIDE_BY_ZERO: division by zero. try_divide returns null for it"
TOO_MUCH = "ARITHMETIC_OVERFLOW: addition of INT (2147483647 + 1) is out of range. CAST an operand to a wider type"
TOO_LONG = "CAST_OVERFLOW: 3000000001 (BIGINT) is out of range for INT. try_cast returns null for it"


@pytest.fixture(params=["iceberg", "delta"])
def table(request: pytest.FixtureRequest, local: lakescan.Catalog) -> lakescan.Table:
    made = local.create_table("db.t", "id INT, n INT", format=request.param)
    schema = pa.schema({"id": pa.int32(), "n": pa.int32()})
    made.append(pa.table({"id": [1, 2], "n": [0, 0]}, schema))
    return made


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("CAST(id / n AS INT)", BY_ZERO),
        ("2147483647 + id", TOO_MUCH),
        ("CAST(3000000000 + id AS INT)", TOO_LONG),
        ("CAST(concat('x', id) AS INT)", "CAST_INVALID_INPUT: the text 'x1' is no INT"),
    ],
)
@pytest.mark.parametrize(
    "statement",
    [
        "SELECT {} AS x FROM local.db.t",
        "CREATE TABLE local.db.new AS SELECT {} AS x FROM local.db.t",
        "CREATE TABLE local.db.new USING delta AS SELECT {} AS x FROM local.db.t",
        "CREATE OR REPLACE TABLE local.db.t USING {format} AS SELECT {} AS x FROM local.db.t",
        "INSERT INTO local.db.t SELECT id, {} FROM local.db.t",
        "INSERT OVERWRITE local.db.t SELECT id, {} FROM local.db.t",
        "UPDATE local.db.t SET n = {}",
        "DELETE FROM local.db.t WHERE coalesce({}, 0) > 5",
        "MERGE INTO local.db.t USING (SELECT 1 AS k) AS s ON id = s.k WHEN MATCHED THEN UPDATE SET n = {}",
    ],
)
def test_an_invalid_value_is_described_plainly(
    table: lakescan.Table, local: lakescan.Catalog, statement: str, value: str, message: str
) -> None:
    before = table.history().num_rows
    with pytest.raises(QueryFailed) as failed:
        lakescan.sql(statement.format(value, format=table.format)).to_arrow()
    assert str(failed.value).startswith(message)
    assert "Traceback" not in str(failed.value)
    assert failed.value.__cause__ is None
    assert failed.value.__suppress_context__
    assert lakescan.table("local.db.t").history().num_rows == before
    assert local.list_tables("db") == ["db.t"]


def test_rows_of_a_query_that_fails_are_not_saved(table: lakescan.Table) -> None:
    query = lakescan.sql("SELECT id, CAST(id / n AS INT) AS n FROM local.db.t")
    for save in (table.append, table.overwrite, lambda rows: lakescan.save(rows, "local.db.t", mode="append")):
        with pytest.raises(QueryFailed, match=r"^DIVIDE_BY_ZERO"):
            save(query)
    assert lakescan.table("local.db.t").history().num_rows == table.history().num_rows


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (
            "Out of Range Error: Overflow in multiplication of DECIMAL(18) (99 * 100). You might want to add a cast.",
            "ARITHMETIC_OVERFLOW: multiplication of DECIMAL(18) (99 * 100) is out of range.",
        ),
        ("Out of Range Error: Overflow on abs(-128)", "ARITHMETIC_OVERFLOW: abs(-128) is out of range"),
        ("Conversion Error: Could not cast value 12345 to DECIMAL(3,1)", "CAST_OVERFLOW: 12345 is out of range for"),
        (
            'Conversion Error: Casting value "12345.50" to type DECIMAL(3,1) failed: value is out of range!',
            "CAST_OVERFLOW: 12345.50 is out of range for DECIMAL(3,1).",
        ),
        ("Conversion Error: Could not convert string 'x' to INT32", "CAST_INVALID_INPUT: the text 'x' is no INT."),
        ("IO Error: nothing to do with values", None),
    ],
)
def test_duckdb_messages_are_translated_to_sparks_terms(said: str, expected: str | None) -> None:
    found = spark_error_message(f"{said}\n\nLINE 1: SELECT\n ^")
    assert (found is None) == (expected is None)
    assert (found or "").startswith(expected or "")


@pytest.mark.parametrize("call", ["no_such_sum(x)", "no_such_mode(x, 0.5)", "1 + no_such_sum(x)"])
@pytest.mark.parametrize("tail", ["", " GROUP BY g", " GROUP BY g HAVING {} > 0"])
def test_an_unknown_function_is_named_in_an_aggregation_too(call: str, tail: str) -> None:
    rows = pa.table({"g": [1, 2], "x": [1.0, 2.0]})
    with pytest.raises(lakescan.UnsupportedFeature, match=r"the function no_such_(sum|mode)\(\)"):
        lakescan.sql(f"SELECT count(*), {call} FROM t{tail.format(call)}", t=rows).to_arrow()


def test_an_ungrouped_column_is_named() -> None:
    rows = pa.table({"g": [1, 2], "x": [1.0, 2.0]})
    with pytest.raises(lakescan.InvalidStatement, match="the column 'x' is neither in GROUP BY"):
        lakescan.sql("SELECT abs(x) FROM t GROUP BY g", t=rows).to_arrow()
