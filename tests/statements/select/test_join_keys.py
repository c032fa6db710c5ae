"""Pruning by join keys: the values of a small side select the files of the other side."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lakescan

_DAYS = [date(2026, 1, 1) + timedelta(days=n) for n in range(40)]
_SALES = pa.table(
    {
        "id": pa.array(range(400), pa.int64()),
        "day": [_DAYS[n // 10] for n in range(400)],
        "item": pa.array([n % 37 for n in range(400)], pa.int64()),
        "shop": [f"shop-{n // 100}" for n in range(400)],
        "price": [n / 4 for n in range(400)],
    }
)
_ITEMS = pa.table(
    {
        "item": pa.array(range(37), pa.int32()),
        "kind": ["toy" if n in (3, 5) else "book" for n in range(37)],
        "maker": pa.array([n % 4 for n in range(37)], pa.int64()),
    }
)
_CALENDAR = pa.table({"day": _DAYS, "week": [n // 7 for n in range(40)]})
_MAKERS = pa.table({"maker": pa.array(range(4), pa.int64()), "name": ["A", "B", "C", "D"]})
_WHOLE = {"sales": _SALES, "items": _ITEMS, "calendar": _CALENDAR, "makers": _MAKERS}


def _lake(kind: str, folder: Path) -> str:
    """Make a namespace with sales in four files by shop; on Iceberg also by months and by buckets of items."""
    name = f"keys_{kind}"
    catalog = lakescan.catalog(name, warehouse=str(folder))
    catalog.create_namespace("db")
    layouts = {"sales": "shop", "bucketed": "bucket(16, item)", "monthly": "months(day)"}
    columns = "(id BIGINT, day DATE, item BIGINT, shop STRING, price DOUBLE)"
    for table, layout in layouts.items():
        if kind == "iceberg" or "(" not in layout:
            lakescan.sql(f"CREATE TABLE {name}.db.{table} {columns} USING {kind} PARTITIONED BY ({layout})")
            lakescan.table(f"{name}.db.{table}").append(_SALES)
    for table in ("items", "calendar", "makers"):
        catalog.create_table(f"db.{table}", _WHOLE[table].schema, format=kind).append(_WHOLE[table])
    return f"{name}.db"


@pytest.fixture(scope="module")
def iceberg(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The lake of Iceberg tables."""
    return _lake("iceberg", tmp_path_factory.mktemp("lake"))


@pytest.fixture(scope="module", params=["iceberg", "delta"])
def lake(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The lake of each format."""
    if request.param == "iceberg":
        return str(request.getfixturevalue("iceberg"))
    return _lake("delta", tmp_path_factory.mktemp("lake"))


def files_read(query: lakescan.Query) -> list[int]:
    """Return the number of files read from each table, in the order of the query's text."""
    scans = sorted(query._found.scans.items(), key=lambda each: each[0].start)
    return [len(spec.plan().table) for _, spec in scans]


def same_rows(lake: str, text: str) -> None:
    """Check that a statement returns the same rows over the tables as over plain frames."""
    found = lakescan.sql(text.format(db=lake)).to_arrow().to_pylist()
    plain = lakescan.sql(text.replace("{db}.", ""), **_WHOLE | {"bucketed": _SALES, "monthly": _SALES})
    assert sorted(map(str, found)) == sorted(map(str, plain.to_arrow().to_pylist()))
    assert found


@pytest.mark.parametrize(
    ("text", "files"),
    [
        ("SELECT s.id FROM {db}.sales s JOIN {db}.calendar c ON s.day = c.day WHERE c.week = 2", [2, 1]),
        ("SELECT s.id FROM {db}.sales s JOIN {db}.calendar c USING (day) WHERE week = 0 AND price > 1", [1, 1]),
        ("SELECT id FROM {db}.sales WHERE day IN (SELECT day FROM {db}.calendar WHERE week = 5)", [1, 1]),
        (
            "SELECT id FROM {db}.sales s WHERE EXISTS (SELECT 1 FROM {db}.calendar c WHERE c.day = s.day AND week = 5)",
            [1, 1],
        ),
        ("SELECT c.week, s.id FROM {db}.calendar c LEFT JOIN {db}.sales s ON s.day = c.day WHERE c.week = 0", [1, 1]),
        ("SELECT c.week, s.id FROM {db}.calendar c RIGHT JOIN {db}.sales s ON s.day = c.day AND c.week = 0", [1, 4]),
        (
            "SELECT c.week, q.n FROM {db}.calendar c JOIN (SELECT day, count(*) AS n FROM {db}.sales GROUP BY day) q "
            "ON q.day = c.day WHERE c.week = 1",
            [1, 2],
        ),
    ],
)
def test_files_of_the_large_side_are_pruned_by_keys_of_the_small_side(lake: str, text: str, files: list[int]) -> None:
    assert files_read(lakescan.sql(text.format(db=lake))) == files
    same_rows(lake, text)


def test_partition_transforms_are_pruned_by_keys(iceberg: str) -> None:
    text = "SELECT b.id FROM {db}.bucketed b JOIN {db}.items i ON b.item = i.item WHERE i.kind = 'toy'"
    whole, _ = files_read(lakescan.sql(f"SELECT 1 FROM {iceberg}.bucketed, {iceberg}.items"))
    assert whole > 8
    assert files_read(lakescan.sql(text.format(db=iceberg)))[0] <= 2
    same_rows(iceberg, text)
    text = "SELECT b.id FROM {db}.monthly b JOIN {db}.calendar c ON b.day = c.day WHERE c.week = 0"
    assert files_read(lakescan.sql(text.format(db=iceberg)))[0] == 1
    same_rows(iceberg, text)


def test_a_filter_reaches_the_last_of_a_chain_of_tables(iceberg: str) -> None:
    text = (
        "SELECT b.id FROM {db}.bucketed b, {db}.items i, {db}.makers m "
        "WHERE b.item = i.item AND i.maker = m.maker AND m.name = 'A' AND i.kind = 'toy'"
    )
    query = lakescan.sql(text.format(db=iceberg))
    assert query.to_arrow().num_rows == 0  # the makers of the toys 3 and 5 are D and B
    assert files_read(query)[0] == 0
    assert "item among the 0 values of i.item" in query.explain()


def test_keys_of_given_frames_prune(lake: str) -> None:
    text = f"SELECT s.id FROM {lake}.sales s JOIN wanted w ON s.day = w.day"
    wanted = pa.table({"day": [_DAYS[3], None]})
    query = lakescan.sql(text, wanted=wanted)
    assert files_read(query) == [1]
    assert sorted(query.to_arrow()["id"].to_pylist()) == list(range(30, 40))


def test_many_keys_prune_individually_and_very_many_by_their_range(tmp_path: Path) -> None:
    for start in range(0, 100_000, 10_000):
        rows = pa.table({"k": pa.array(range(start, start + 10_000), pa.int64())})
        lakescan.save(rows, str(tmp_path / "t"), format="delta", mode="append")
    text = "SELECT count(*) AS n FROM t JOIN w ON t.k = w.k"
    for wanted, files in (
        ([*range(1_000), *range(95_000, 96_000)], 2),
        ([*range(12_000), 99_999], 10),
        (list(range(12_000)), 2),
    ):
        query = lakescan.sql(text, t=lakescan.table(str(tmp_path / "t")), w=pa.table({"k": wanted}))
        assert files_read(query) == [files]
        assert query.to_arrow()["n"].to_pylist() == [len(wanted)]


@pytest.mark.parametrize(
    "keys",
    [
        pa.array([2.0, float("nan")]),
        pa.array(["2", "3"]),
        pa.array([2, 3], pa.uint64()),
        pa.array([True, False]),
    ],
)
def test_keys_of_other_types_prune_nothing(lake: str, keys: pa.Array) -> None:
    query = lakescan.sql(f"SELECT 1 FROM {lake}.sales s JOIN wanted w ON s.id = w.k", wanted=pa.table({"k": keys}))
    assert files_read(query) == [4]


def test_a_table_without_a_filter_prunes_only_if_it_is_tiny(lake: str) -> None:
    assert files_read(lakescan.sql(f"SELECT 1 FROM {lake}.sales s JOIN {lake}.sales t ON s.id = t.id")) == [4, 4]
    some = pa.table({"id": pa.array([1, 2], pa.int64())})
    assert files_read(lakescan.sql(f"SELECT 1 FROM {lake}.sales s JOIN some t ON s.id = t.id", some=some)) == [1]


def test_limits_are_not_pushed_together_with_keys(lake: str) -> None:
    text = f"SELECT id FROM {lake}.sales WHERE day IN (SELECT day FROM {lake}.calendar WHERE week = 5) LIMIT 3"
    found = lakescan.sql(text).to_arrow()["id"]
    assert len(found) == 3
    assert pc.all(pc.greater_equal(found, 350)).as_py()


def test_keys_are_not_read_if_no_file_can_be_skipped(lake: str) -> None:
    text = "SELECT i.kind FROM {db}.items i JOIN {db}.makers m ON i.maker = m.maker WHERE m.name = 'A'"
    assert "among" not in lakescan.sql(text.format(db=lake)).explain()
    same_rows(lake, text)


def test_dates_that_python_cannot_hold_are_keys(tmp_path: Path) -> None:
    far = pa.array([2_933_297, 10], pa.int32()).cast(pa.date32())  # the first is after the year 9999
    for n in range(2):
        lakescan.save(pa.table({"d": far.slice(n, 1)}), str(tmp_path / "t"), format="delta", mode="append")
    query = lakescan.sql(
        "SELECT t.d FROM t JOIN w ON t.d = w.d", t=lakescan.table(str(tmp_path / "t")), w=pa.table({"d": far})
    )
    assert query.to_arrow().num_rows == 2


def test_keys_do_not_narrow_net_changes(tmp_path: Path) -> None:
    catalog = lakescan.catalog("net_keys", warehouse=str(tmp_path))
    catalog.create_namespace("db")
    lakescan.sql("CREATE TABLE net_keys.db.t (id BIGINT, s STRING) USING iceberg")
    table = lakescan.table("net_keys.db.t")
    for n in range(3):
        table.append(pa.table({"id": pa.array([n, n + 10], pa.int64()), "s": ["a", "b"]}))
    table.overwrite(pa.table({"id": pa.array([1], pa.int64()), "s": ["z"]}), where="id = 1")  # moves the row 11
    second = table.history()["snapshot_id"][1].as_py()
    changes = f"SELECT c.id, c.s FROM table_changes('net_keys.db.t', {second}) c"
    kinds = pa.table({"kind": ["INSERT"]})
    by_key = lakescan.sql(f"{changes} JOIN w ON c._change_type = w.kind", w=kinds).to_arrow()
    by_filter = lakescan.sql(f"{changes} WHERE c._change_type = 'INSERT'").to_arrow()
    assert sorted(map(str, by_key.to_pylist())) == sorted(map(str, by_filter.to_pylist()))
    assert by_key.num_rows == 5
