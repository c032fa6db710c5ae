"""Metadata columns in in-process SQL: selected by name, as in Spark, and not by `*`."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import lakescan
from lakescan.errors import InvalidStatement

pytestmark = pytest.mark.usefixtures("no_other_catalogs")
PROPERTIES = {
    "iceberg": "TBLPROPERTIES ('format-version' = '3')",
    "delta": "TBLPROPERTIES ('delta.enableRowTracking' = 'true')",
}


@pytest.fixture(params=PROPERTIES)
def table(request: pytest.FixtureRequest, local: lakescan.Catalog) -> str:
    """The format of the table `local.db.t`, which has row ids and two partitions."""
    more = f"USING {request.param} PARTITIONED BY (p) {PROPERTIES[request.param]}"
    lakescan.sql(f"CREATE TABLE local.db.t (id INT, p STRING) {more}")
    lakescan.sql("INSERT INTO local.db.t VALUES (1, 'a'), (2, 'b'), (3, 'b')")
    return str(request.param)


def _rows(text: str, **frames: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = lakescan.sql(text, **frames).to_arrow().to_pylist()
    return found


def test_each_metadata_column_is_read_by_name(table: str) -> None:
    assert _rows("SELECT id, _pos FROM local.db.t ORDER BY id") == [
        {"id": 1, "_pos": 0},
        {"id": 2, "_pos": 0},
        {"id": 3, "_pos": 1},
    ]
    assert _rows("SELECT count(DISTINCT t._file) AS n, count(DISTINCT _row_id) AS ids FROM local.db.t AS t") == [
        {"n": 2, "ids": 3}
    ]
    assert _rows("SELECT id FROM local.db.t WHERE _pos = 1") == [{"id": 3}]
    assert _rows("SELECT id FROM (SELECT id, _pos AS at FROM local.db.t) WHERE at = 1") == [{"id": 3}]
    if table == "iceberg":
        text = "SELECT _spec_id, _partition.p AS p, _deleted, _last_updated_sequence_number AS n FROM local.db.t"
        assert _rows(f"{text} WHERE id = 1") == [{"_spec_id": 0, "p": "a", "_deleted": False, "n": 1}]


def test_a_star_omits_metadata_columns(table: str) -> None:
    assert _rows("SELECT * FROM local.db.t WHERE _pos = 1") == [{"id": 3, "p": "b"}]
    assert _rows("SELECT t._pos, t.* FROM local.db.t AS t WHERE id = 3") == [{"_pos": 1, "id": 3, "p": "b"}]
    assert _rows("SELECT x FROM local.db.t AS t(x, y) WHERE _pos = 1") == [{"x": 3}]
    joined = _rows("SELECT * FROM local.db.t NATURAL JOIN new WHERE _pos = 0", new=pa.table({"id": [1, 3]}))
    assert joined == [{"id": 1, "p": "a"}]


def test_metadata_columns_of_two_tables_are_ambiguous_and_subqueries_have_none(table: str) -> None:
    with pytest.raises(InvalidStatement, match="'_pos' is ambiguous"):
        _rows("SELECT _pos FROM local.db.t AS a JOIN local.db.t AS b ON a.id = b.id")
    with pytest.raises(InvalidStatement, match=r"there is no column '_pos'\. There are: id, p"):
        _rows("SELECT _pos FROM (SELECT * FROM local.db.t)")


def test_a_table_column_takes_precedence_over_a_metadata_column(local: lakescan.Catalog) -> None:
    local.create_table("db.own", "id INT, _spec_id INT").append(pa.table({"id": [1], "_spec_id": [7]}))
    assert _rows("SELECT * FROM local.db.own WHERE _spec_id = 7") == [{"id": 1, "_spec_id": 7}]
