"""Options of one table in SQL: Spark's `t WITH (...)`, Flink's `t /*+ OPTIONS(...) */`, and other hints."""

from __future__ import annotations

import logging
from typing import Any

import pyarrow as pa
import pytest

import lakescan
from lakescan.errors import InvalidOption, InvalidStatement
from lakescan.statements.syntax.spark_syntax import options_behind

pytestmark = pytest.mark.usefixtures("no_other_catalogs")
# Each form of an option that selects the first snapshot.
FIRST = [
    "local.db.t /*+ OPTIONS('snapshot-id'='{id}') */",
    "local.db.t /*+ options ( 'snapshot-id' = '{id}', 'split-size'='64m' ) */ AS x",
    "local.db.t WITH ('snapshot-id' = '{id}')",
    "local.db.t WITH (`snapshot-id` = {id}, lane = 'arrow') x",
    "local.db.t with (snapshot-id {id})",
    "(SELECT * FROM local.db.t WITH ('snapshot-id' '{id}')) AS q",
]


@pytest.fixture
def first(local: lakescan.Catalog) -> int:
    """Return the id of the first of two snapshots of `local.db.t`, each of which adds one row."""
    table = local.create_table("db.t", "id INT, v INT")
    table.append(pa.table({"id": [1], "v": [1]}))
    found = lakescan.table("local.db.t").snapshot_id
    table.append(pa.table({"id": [2], "v": [2]}))
    assert isinstance(found, int)
    return found


def _count(source: str, **frames: Any) -> int:
    [[count]] = lakescan.sql(f"SELECT count(*) AS n FROM {source}", **frames).to_arrow().to_pydict().values()
    return int(count)


@pytest.mark.parametrize("source", FIRST)
def test_options_apply_to_the_preceding_table(first: int, source: str) -> None:
    assert _count(source.format(id=first)) == 1
    assert _count(f"{source.format(id=first)} CROSS JOIN local.db.t AS y") == 2


def test_options_and_time_travel_combine_unless_both_select_a_state(first: int) -> None:
    assert _count(f"local.db.t VERSION AS OF {first} WITH ('split-size' = 1000)") == 1
    with pytest.raises(InvalidOption, match="both select what to read"):
        _count(f"local.db.t VERSION AS OF {first} WITH ('snapshot-id' = {first})")


@pytest.mark.parametrize("clause", ["WITH ('split-sizes' = 1)", "/*+ OPTIONS('split-sizes'='1') */"])
def test_an_unknown_option_is_refused_with_the_nearest(first: int, clause: str) -> None:
    with pytest.raises(
        InvalidOption, match=r"(?s)unknown option 'split-sizes'. Did you mean 'split-size'.*local\.db\.t"
    ):
        _count(f"local.db.t {clause}")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SELECT /*+ OPTIONS('snapshot-id'='1') */ * FROM local.db.t", "OPTIONS must follow the name of a table"),
        ("SELECT * FROM local.db.t x /*+ OPTIONS('snapshot-id'='1') */", "OPTIONS must follow the name of a table"),
        ("SELECT * FROM local.db.t WITH ()", "options are written"),
        ("SELECT * FROM local.db.t WITH (a = 1 + 1)", "options are written"),
        ("SELECT * FROM local.db.t WITH (a = 1, a = 2)", "the option 'a' is given twice"),
        ("SELECT * FROM f WITH (a = 1)", "f is a frame: options are for Iceberg and Delta tables"),
        ("UPDATE local.db.t /*+ OPTIONS('a'='b') */ SET v = 1", "options are for tables that are read"),
        ("DELETE FROM local.db.t /*+ OPTIONS('a'='b') */", "options are for tables that are read"),
    ],
)
def test_options_without_effect_are_refused(first: int, text: str, message: str) -> None:
    with pytest.raises(InvalidStatement, match=message):
        lakescan.sql(text, f=pa.table({"a": [1]})).to_arrow()


def test_insert_takes_the_options_of_a_write(first: int) -> None:
    lakescan.sql("INSERT INTO local.db.t WITH ('snapshot-property.team' = 'a') (id) VALUES (3)")
    lakescan.sql("INSERT INTO local.db.t /*+ OPTIONS('snapshot-property.team'='b') */ VALUES (4, 4)")
    rows = lakescan.sql("SELECT summary['team'] AS team FROM local.db.t.snapshots ORDER BY committed_at").to_arrow()
    assert rows["team"].to_pylist() == [None, None, "a", "b"]
    with pytest.raises(InvalidOption, match="unknown write option 'nope'"):
        lakescan.sql("INSERT INTO local.db.t /*+ OPTIONS('nope'='1') */ VALUES (5, 5)")
    assert _count("local.db.t") == 4


def test_join_hints_change_nothing_and_unknown_ones_are_logged(first: int, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "lakescan.sql"):
        found = lakescan.sql("SELECT /*+ BROADCAST(t), REPARTITION(3, id) */ count(*) AS n FROM local.db.t").to_arrow()
        assert (found["n"].to_pylist(), caplog.messages) == ([2], [])
        lakescan.sql("SELECT /*+ FOO(t) */ count(*) AS n FROM local.db.t").to_arrow()
    assert caplog.messages == ["Unrecognized hint: FOO(t)"]


def test_texts_and_comments_are_not_hints(first: int) -> None:
    text = "SELECT '/*+ OPTIONS(1) */' AS s FROM local.db.t -- /*+ OPTIONS('a'='b') */"
    assert lakescan.sql(text).to_arrow()["s"].to_pylist() == ["/*+ OPTIONS(1) */"] * 2
    assert options_behind("t /* WITH (a = 1) */", 1) is None


def test_messages_quote_options_as_they_are_written() -> None:
    text = "SELECT nope FROM f WITH ('a' = 'b') AS x"
    with pytest.raises(InvalidStatement) as raised:
        lakescan.sql(text, f=pa.table({"a": [1]})).to_arrow()
    *_, shown, marks = str(raised.value).split("\n")
    assert (shown, text[marks.index("^") : len(marks)]) == (text, "f WITH ('a' = 'b')")
