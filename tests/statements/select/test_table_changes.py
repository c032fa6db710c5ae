"""`table_changes(...)` in SQL returns the rows of `Table.changes`, with the arguments of Delta's function."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakescan
from lakescan.errors import InvalidOption, InvalidStatement, NoSuchSnapshot, NoSuchTable, UnsupportedFeature
from lakescan.statements.select.namespace import _CURRENT

TABLES = ("feed.db.delta", "feed.db.iceberg")


@pytest.fixture(scope="module", autouse=True)
def _feed(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Make the catalog `feed` with a Delta and an Iceberg table of the same history.

    The first commit with rows adds six, the next removes one and moves another to a new file, the last adds two.
    `states(table)` returns the three commits.
    """
    make_feed(str(tmp_path_factory.mktemp("lake")), "feed")


def make_feed(folder: str, name: str) -> None:
    catalog = lakescan.catalog(name, warehouse=folder)
    catalog.create_namespace("db")
    columns = "id BIGINT, country STRING"
    properties = {"delta.enableChangeDataFeed": "true"}
    catalog.create_table("db.delta", columns, format="delta", properties=properties, partition_by="country")
    catalog.create_table("db.iceberg", columns, partition_by="country")
    for table in map(lakescan.table, (f"{name}.db.delta", f"{name}.db.iceberg")):
        table.append(pa.table({"id": range(6), "country": ["FR", "DE"] * 3}))
        table.overwrite(pa.table({"id": [2], "country": ["FR"]}), where="country = 'FR' and id in (0, 2)")
        table.append(pa.table({"id": [6, 7], "country": ["FR", "NL"]}))


@pytest.fixture(autouse=True)
def _no_namespace() -> Iterator[None]:
    token = _CURRENT.set(())
    yield
    _CURRENT.reset(token)


def states(table: str) -> list[int]:
    """Return the ids of the commits that changed rows."""
    history = lakescan.table(table).history()
    return history["version" if table.endswith("delta") else "snapshot_id"].to_pylist()[-3:]


def times(table: str) -> list[datetime]:
    history = lakescan.table(table).history()
    return history["timestamp" if table.endswith("delta") else "made_current_at"].to_pylist()[-3:]


def rows(text: str, args: object = None, **frames: object) -> Counter[tuple[object, ...]]:
    return Counter(tuple(row.values()) for row in lakescan.sql(text, args, **frames).to_arrow().to_pylist())


def ids(text: str, args: object = None, **frames: object) -> list[Any]:
    return sorted(row[0] for row in rows(text, args, **frames).elements())


def test_a_range_of_delta_has_the_recorded_changes_with_their_commits() -> None:
    _, second, third = states("feed.db.delta")
    found = lakescan.sql(f"SELECT * FROM table_changes('feed.db.delta', {second}, {third})").to_arrow()
    assert found.schema.names == ["id", "country", "_change_type", "_commit_version", "_commit_timestamp"]
    expected = lakescan.table("feed.db.delta").changes(start=second - 1).to_arrow()
    assert Counter(map(str, found.to_pylist())) == Counter(map(str, expected.to_pylist()))
    assert found.num_rows == 5


def test_a_range_of_iceberg_has_the_net_changes_with_their_snapshots() -> None:
    first, second, third = states("feed.db.iceberg")
    found = lakescan.sql(f"SELECT * FROM table_changes('feed.db.iceberg', {second}, {third})").to_arrow()
    assert found.schema.names == ["id", "country", "_change_type", "_change_ordinal", "_commit_snapshot_id"]
    expected = lakescan.table("feed.db.iceberg").changes(start=first).to_arrow()
    assert Counter(map(str, found.to_pylist())) == Counter(map(str, expected.to_pylist()))
    assert found.num_rows == 3  # the row that was only moved is no change


@pytest.mark.parametrize("table", TABLES)
def test_both_ends_are_included(table: str) -> None:
    first, second, third = states(table)
    call = f"SELECT id FROM table_changes('{table}', :start, :end)"
    assert ids(call, {"start": first, "end": first}) == [0, 1, 2, 3, 4, 5]
    assert ids(call, {"start": third, "end": third}) == [6, 7]
    assert ids(f"SELECT id FROM table_changes('{table}', {third})") == [6, 7]
    assert len(ids(call, {"start": first, "end": third})) == 8 + len(ids(call, {"start": second, "end": second}))


@pytest.mark.parametrize("table", TABLES)
def test_ranges_can_be_given_by_time(table: str) -> None:
    first, _, third = times(table)
    call = f"SELECT id FROM table_changes('{table}', :start, :end)"
    assert ids(call, {"start": third, "end": third}) == [6, 7]
    assert ids(f"SELECT id FROM table_changes('{table}', '{third}')") == [6, 7]
    assert ids(call, {"start": "2020-01-01", "end": str(first)}) == [0, 1, 2, 3, 4, 5]
    everything = (
        f"SELECT id FROM table_changes('{table}', TIMESTAMP '2020-01-01', current_timestamp() + INTERVAL 1 DAY)"
    )
    assert ids(everything) == ids(f"SELECT id FROM table_changes('{table}', {states(table)[0]})")


def test_tables_are_named_as_in_other_statements() -> None:
    place = lakescan.table("feed.db.delta").location
    _, _, third = states("feed.db.delta")
    names = [
        "'feed.db.delta'",
        "'feed.`db`.delta'",
        "feed.db.delta",
        f"'delta.`{place}`'",
        "'feed.' || 'db.delta'",
        ":name",
        "'given'",
    ]
    for name in names:
        text = f"SELECT id FROM table_changes({name}, {third})"
        args = {"name": "feed.db.delta"} if name == ":name" else None
        frames = {"given": lakescan.table("feed.db.delta")} if name == "'given'" else {}
        assert ids(text, args, **frames) == [6, 7], name
    assert ids(f"SELECT id FROM table_changes_by_path('{place}', {third})") == [6, 7]
    lakescan.sql("USE feed.db")
    assert ids(f"SELECT id FROM table_changes('delta', {third})") == [6, 7]


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize(
    "rest",
    [
        "WHERE id > 1",
        "WHERE _change_type IN ('delete', 'DELETE')",
        "WHERE country = 'FR' AND lower(_change_type) = 'insert'",
        "WHERE country = 'FR' AND _change_type = 'INSERT'",
        "c WHERE c.id % 2 = 0 AND c.country < 'G'",
        "WHERE country = 'none'",
    ],
)
def test_conditions_select_the_same_rows_as_from_all_changes(table: str, rest: str) -> None:
    start = states(table)[0]
    everything = lakescan.sql(f"SELECT * FROM table_changes('{table}', {start})").to_arrow()
    for columns in ("*", "id", "id, _change_type", "count(*)"):
        call = rows(f"SELECT {columns} FROM table_changes('{table}', {start}) {rest}")
        assert call == rows(f"SELECT {columns} FROM given {rest}", given=everything)


def test_only_conditions_on_table_columns_are_pushed_to_the_scan() -> None:
    first = states("feed.db.iceberg")[0]
    text = f"SELECT id FROM table_changes('feed.db.iceberg', {first}) WHERE country = 'FR' AND _change_type = 'DELETE'"
    [(occurrence, spec)] = lakescan.sql(text)._found.scans.items()
    assert occurrence.label == "table_changes(feed.db.iceberg)"
    assert str(spec.predicate) == "country = 'FR'"
    assert spec.output.names == ["id", "country", "_change_type"]


@pytest.mark.parametrize("table", TABLES)
def test_a_limit_counts_net_changes_after_all_conditions(table: str) -> None:
    start, _, _ = states(table)
    limited = f"SELECT id FROM table_changes('{table}', {start})"
    assert len(ids(f"{limited} LIMIT 4")) == 4
    assert len(ids(f"{limited} WHERE upper(_change_type) = 'DELETE' LIMIT 5")) == len(
        ids(f"{limited} WHERE upper(_change_type) = 'DELETE'")
    )
    assert len(ids(f"{limited} WHERE _change_type IN ('DELETE', 'delete') LIMIT 1")) == 1


@pytest.mark.parametrize("table", TABLES)
def test_changes_are_joined_with_their_table_and_with_themselves(table: str) -> None:
    third = states(table)[2]
    text = f"""
        WITH c AS (SELECT * FROM table_changes('{table}', {third}))
        SELECT t.id FROM {table} t JOIN c ON c.id = t.id JOIN table_changes('{table}', {third}) AS d ON d.id = c.id
    """
    assert ids(text) == [6, 7]


def _call(arguments: str) -> str:
    return f"SELECT * FROM table_changes({arguments}) x"


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        (_call("'feed.db.delta'"), InvalidStatement, "takes a table, a start and perhaps an end"),
        (_call("'feed.db.delta', 1, 2, 3"), InvalidStatement, "takes a table, a start and perhaps an end"),
        (_call("1, 1"), InvalidStatement, "takes the name of a table as a string, not 1"),
        (_call("'feed.db.delta', NULL"), InvalidStatement, "takes a version or a time, not NULL"),
        (_call("'feed.db.delta', :gone"), InvalidStatement, "parameter :gone has no value"),
        (_call("'feed.db.delta', -1"), InvalidStatement, "takes a version or a time, not -1"),
        (_call("'feed.db.delta', id + 1"), InvalidStatement, "takes a constant time"),
        (_call("'feed.db.delta', 'yesterday'"), InvalidOption, "'yesterday' is not a Delta version or timestamp"),
        (_call("'feed.db.iceberg', 'yesterday'"), NoSuchSnapshot, "yesterday"),
        (_call("'feed.db.delta', 99"), NoSuchSnapshot, "the newest version is 3"),
        (_call("'feed.db.delta', 2, 1"), InvalidOption, "before its start"),
        (_call("'feed.db.iceberg', 99"), NoSuchSnapshot, "no snapshot 99 among"),
        (_call("'feed.db.delta', '2999-01-01'"), NoSuchSnapshot, "no commit at or after"),
        (_call("'feed.db.iceberg', '2999-01-01'"), NoSuchSnapshot, "no snapshot at or after"),
        (_call("'feed.db.delto', 1"), NoSuchTable, "Did you mean 'delta'"),
        (_call("'feed.db.delta.history', 1"), InvalidStatement, "'history' has no changes"),
        (_call("'rows', 1"), InvalidStatement, "rows is a frame"),
        (_call("'feed.db.iceberg.branch_main', 1"), InvalidOption, "takes a whole table"),
    ],
)
def test_wrong_arguments_are_reported_with_their_position(text: str, error: type[Exception], message: str) -> None:
    frame = pa.table({"id": [1]})
    with pytest.raises(error, match=rf"(?s){message}.*\(line 1, column 15\)\n.*\n {{14}}\^+$"):
        lakescan.sql(text, {"other": 1}, rows=frame)


def test_a_table_without_recorded_changes_is_reported_with_its_position(tmp_path: Path) -> None:
    lakescan.save(pa.table({"id": [1]}), tmp_path / "t", format="delta")
    with pytest.raises(UnsupportedFeature, match=r"(?s)enableChangeDataFeed.*\n {14}\^+$"):
        lakescan.sql(f"SELECT * FROM table_changes('delta.`{tmp_path / 't'}`', 0)")
