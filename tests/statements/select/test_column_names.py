"""Result columns have Spark 4.3's names if a statement gives none."""

from __future__ import annotations

import pyarrow as pa
import pytest

import lakescan
from lakescan.errors import InvalidStatement, UnsupportedFeature
from tests.statements.select.recorded import NAMED, recorded

pytestmark = pytest.mark.usefixtures("no_other_catalogs")
# Statements that the in-process parser does not support yet, or reads differently.
UNREAD = ("i >>> 1", "PLACING", "dateadd(DAY", "date_add(MONTH", "timestampadd(HOUR", "DISTINCT *")
# Statements with another name: intervals of several units, and functions to which Spark adds arguments.
UNREAD += ("INTERVAL 1 HOUR 30 MINUTES", "INTERVAL 1 YEAR 2 MONTHS", "raise_error('x')", "lpad(bin, 5)")
NAMES = [(text, names) for text, names in recorded("column_names") if not any(each in text for each in UNREAD)]


def _names(text: str) -> list[str] | None:
    """Return the names of a result; None for a statement with a function that is not supported in process."""
    try:
        return lakescan.sql(text, t=NAMED).schema.names
    except UnsupportedFeature:
        return None


@pytest.mark.slow
@pytest.mark.parametrize("start", range(0, len(NAMES), 50))
def test_column_names_equal_those_of_spark(start: int) -> None:
    wrong = {}
    for text, expected in NAMES[start : start + 50]:
        if (found := _names(text)) not in (None, expected):
            wrong[text] = (found, expected)
    assert not wrong


@pytest.mark.slow
def test_most_of_the_recorded_statements_are_answered() -> None:
    assert sum(_names(text) is not None for text, _ in NAMES) > 400


def test_a_cast_of_a_column_keeps_its_name_in_queries_around_it_and_in_new_tables(local: lakescan.Catalog) -> None:
    rows = pa.table({"price": ["1.5", "0.5"], "k": [1, 2]})
    found = lakescan.sql("SELECT price FROM (SELECT CAST(price AS DOUBLE) FROM t) WHERE price > 1", t=rows).to_arrow()
    assert found.to_pylist() == [{"price": 1.5}]
    local.create_namespace("db", exist_ok=True)
    lakescan.sql("CREATE TABLE local.db.c AS SELECT CAST(price AS DOUBLE), k FROM t", t=rows)
    assert lakescan.table("local.db.c").scan().to_arrow().schema.names == ["price", "k"]


def test_a_generated_name_hides_no_column() -> None:
    rows = pa.table({"k": [1, 2, 2]})
    text = "SELECT CAST(k AS STRING), count(*) FROM t GROUP BY k HAVING k > 1"
    assert lakescan.sql(text, t=rows).to_arrow().to_pylist() == [{"k": "2", "count(1)": 2}]


def test_parameter_values_appear_in_names() -> None:
    assert lakescan.sql("SELECT :a + 1, :b", args={"a": 5, "b": "x"}).schema.names == ["(5 + 1)", "x"]


JOINED = {
    "a": pa.table({"id": [1, 2, 3], "dt": [1, 1, 2]}),
    "b": pa.table({"id": [1, 2, 9], "dt": [5, 5, 6]}),
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT a.dt, count(*) AS n FROM a JOIN b ON a.id = b.id GROUP BY a.dt", [{"dt": 1, "n": 2}]),
        ("SELECT a.dt + 1 AS d FROM a JOIN b ON a.id = b.id GROUP BY a.dt + 1", [{"d": 2}]),
        ("SELECT a.dt AS d, b.dt AS e FROM a JOIN b ON a.id = b.id GROUP BY a.dt, b.dt", [{"d": 1, "e": 5}]),
        ("SELECT a.dt FROM a JOIN b USING (id) GROUP BY ROLLUP (a.dt) ORDER BY dt", [{"dt": None}, {"dt": 1}]),
        ("SELECT a.dt, max(a.id) AS n FROM a JOIN b ON a.id = b.id GROUP BY 1 HAVING dt > 0", [{"dt": 1, "n": 2}]),
        (
            "WITH RECURSIVE r(id, n) AS (SELECT 1L, 0L UNION ALL SELECT a.id, r.n + 1 FROM a JOIN r ON a.id = r.id + 1 "
            "GROUP BY a.id, r.n) SELECT max(id) AS id, max(n) AS n FROM r",
            [{"id": 3, "n": 2}],
        ),
    ],
)
def test_a_key_is_the_column_of_the_table_that_it_names(text: str, expected: list[object]) -> None:
    assert lakescan.sql(text, **JOINED).to_arrow().to_pylist() == expected


def test_a_key_in_two_tables_is_ambiguous() -> None:
    with pytest.raises(InvalidStatement, match="'dt' is ambiguous"):
        lakescan.sql("SELECT count(*) FROM a JOIN b ON a.id = b.id GROUP BY dt", **JOINED).to_arrow()


def test_a_recursive_query_has_the_types_of_its_first_part() -> None:
    text = "WITH RECURSIVE r(n) AS (SELECT 1L UNION ALL SELECT CAST(n AS INT) + 1 FROM r WHERE n < 3) SELECT n FROM r"
    found = lakescan.sql(text).to_arrow()
    assert (found.schema.field("n").type, found["n"].to_pylist()) == (pa.int64(), [1, 2, 3])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT st.* FROM t", [{"x": 1, "y": "z"}]),
        ("SELECT i, q.st.* EXCEPT (y) FROM t AS q", [{"i": 1, "x": 1}]),
        ("SELECT st.*, count(*) AS n FROM t GROUP BY st", [{"x": 1, "y": "z", "n": 1}]),
        ("SELECT count(*) AS n FROM t GROUP BY st ORDER BY st.x", [{"n": 1}]),
        ("SELECT st.* FROM (SELECT i AS st FROM t) AS st", [{"st": 1}]),  # a table comes before a column
        ("SELECT ast.x, mp.x AS m FROM t", [{"x": [1], "m": 1}]),
    ],
)
def test_members_of_structs_lists_and_maps_are_named_as_in_spark(text: str, expected: list[object]) -> None:
    assert lakescan.sql(text, t=NAMED).to_arrow().to_pylist() == expected
