"""Notebook output describes objects, escapes all text of tables, and stays within a page."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import fields, replace
from datetime import date, timedelta
from html import escape
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest

import lakescan
from lakescan.common.html import arrow_as_html, facts_table, grid, pre_block, section
from lakescan.maintenance.health.maintain import MaintenanceStep
from lakescan.tables import results
from tests.support.notebooks import Formatter
from tests.support.rest_server import rest_server

pytestmark = pytest.mark.usefixtures("no_other_catalogs")

HOSTILE = '<script>alert(1)</script><img src=x onerror="alert(2)">&amp;'
AS_TEXT = "&lt;script&gt;alert(1)&lt;/script&gt;&lt;img src=x onerror=&quot;alert(2)&quot;&gt;&amp;amp;"
OWN_TAGS = {"div", "b", "table", "tr", "th", "td", "pre"}


def markup(html: str) -> set[str]:
    """Return the names of all elements, with their attributes."""
    return set(re.findall(r"</?([^>]+)>", html))


def shown(value: object) -> str:
    """Return a notebook's output for a value, after checking that it has only plain elements without attributes."""
    html = value._repr_html_()  # type: ignore[attr-defined]
    assert markup(html) <= OWN_TAGS
    return html


KINDS = [
    kind
    for kind in vars(results).values()
    if isinstance(kind, type) and issubclass(kind, results._Result) and kind is not results._Result
]


def hostile(kind: type) -> object:
    """Make a result in which every text is hostile."""
    values: dict[str, object] = {}
    for each in fields(kind):
        text = str(each.type)
        if text == "bool":
            values[each.name] = True
        elif "Mapping" in text:
            values[each.name] = {HOSTILE: 1}
        elif "tuple" in text:
            values[each.name] = (HOSTILE, HOSTILE) if "str" in text else (1, 2)
        else:
            values[each.name] = HOSTILE if "str" in text else 1
    return kind(**values)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_result_is_shown_as_its_sentence_and_its_members_and_their_texts_are_text(kind: type) -> None:
    result = hostile(kind)
    html = shown(result)
    assert f"<b>{escape(str(result))}</b>" in html
    assert all(each.name.replace("_", " ") in html for each in fields(kind) if getattr(result, each.name) is not False)
    if any("str" in str(each.type) for each in fields(kind)):
        assert AS_TEXT in html


def test_results_of_all_kinds_are_shown() -> None:
    named = {name for name in lakescan.__all__ if name.endswith("Result")} - {"MaintainResult"}
    assert named <= {kind.__name__ for kind in KINDS}


def test_members_without_a_value_are_not_shown_and_long_lists_are_cut() -> None:
    assert "note" not in shown(lakescan.WriteResult(1, 2, 3_000))
    assert "<th>bytes</th><td>2.9 KB</td>" in shown(lakescan.WriteResult(1, 2, 3_000))
    html = shown(lakescan.OrphanResult(tuple(f"file-{number:03}" for number in range(100)), 5))
    assert "file-019, and 80 more" in html
    assert "file-020" not in html


def test_maintenance_is_shown_as_one_row_per_step() -> None:
    steps = (MaintenanceStep("compact", HOSTILE), MaintenanceStep("remove_orphans", "", HOSTILE))
    html = shown(lakescan.MaintainResult(HOSTILE, steps, True))
    assert f"<td>compact</td><td>{AS_TEXT}</td>" in html
    assert f"<td>remove orphans</td><td>failed: {AS_TEXT}</td>" in html
    assert html.count(AS_TEXT) == 3
    assert "nothing changed" in html
    assert "nothing to do" in shown(lakescan.MaintainResult("t"))


def test_changes_are_shown_with_their_columns_and_identity(local: lakescan.Catalog) -> None:
    table = local.create_table("db.t", pa.schema([("id", pa.int64()), (HOSTILE, pa.string())]))
    table.append(pa.table({"id": [1], HOSTILE: [HOSTILE]}))
    table.append(pa.table({"id": [2], HOSTILE: [HOSTILE]}))
    first = table.history()["snapshot_id"][0].as_py()
    html = shown(table.changes(start=first, identity=["id"]))
    assert AS_TEXT in html
    assert "<th>identity</th><td>id</td>" in html
    assert "_change_type" in html


def test_a_catalog_is_shown_as_its_namespaces_with_their_tables(local: lakescan.Catalog) -> None:
    local.create_table("db.orders", "id BIGINT")
    html = shown(local)
    assert "<td>db</td><td>db.orders</td>" in html
    local.create_namespace("`<img src=x>`")
    assert "&lt;img src=x&gt;" in shown(local)


def test_only_a_few_namespaces_of_a_large_catalog_are_listed(
    local: lakescan.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def tables(self: lakescan.Catalog, namespace: str) -> list[str]:
        asked.append(namespace)
        return [f"{namespace}.t{number:03}" for number in range(60)]

    names = [f"n{number:02}" for number in range(25)]
    monkeypatch.setattr(lakescan.Catalog, "list_namespaces", lambda self: names)
    monkeypatch.setattr(lakescan.Catalog, "list_tables", tables)
    html = shown(local)
    assert asked == names[:10]
    assert "and 15 more" in html
    assert "n00.t049, and 10 more" in html


def test_a_catalog_that_does_not_answer_is_shown_as_the_error(
    local: lakescan.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(self: lakescan.Catalog) -> list[str]:
        raise lakescan.StorageError(HOSTILE)

    monkeypatch.setattr(lakescan.Catalog, "list_namespaces", fails)
    assert AS_TEXT in shown(local)


def test_a_view_is_shown_with_its_query_comment_and_columns(local: lakescan.Catalog) -> None:
    view = local.create_view("db.v", "SELECT '<b onclick=alert(1)>' AS n", comment=HOSTILE)
    html = shown(view)
    assert "&lt;b onclick=alert(1)&gt;" in html
    assert AS_TEXT in html
    assert "<td>n</td><td>string</td>" in html


def test_a_version_of_a_view_is_shown_with_when_it_was_made_its_query_and_columns(local: lakescan.Catalog) -> None:
    local.create_view("db.v", "SELECT 1 AS old")
    lakescan.sql("CREATE OR REPLACE VIEW local.db.v AS SELECT '<b onclick=alert(1)>' AS `<i>`")
    first, second = local.load_view("db.v").versions
    assert "SELECT 1 AS old" in shown(first)
    assert "<td>old</td><td>int32</td>" in shown(first)
    html = shown(second)
    assert f"<b>View version {second.version_id}</b>" in html
    assert f"<th>created</th><td>{second.created:%Y-%m-%d %H:%M:%S} UTC</td>" in html
    assert "<th>default namespace</th><td>db</td>" in html
    assert "&lt;b onclick=alert(1)&gt;" in html
    assert "<td>&lt;i&gt;</td><td>string</td>" in html
    assert AS_TEXT in shown(replace(second, default_namespace=(HOSTILE,), queries={HOSTILE: HOSTILE}))


def test_a_stream_is_shown_with_its_offset_and_columns_and_reads_nothing_for_that(
    local: lakescan.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = local.create_table("db.t", pa.schema([("id", pa.int64()), (HOSTILE, pa.string())]))
    table.append(pa.table({"id": [1], HOSTILE: ["a"]}))
    stream = table.stream(wait=False, where="id < 5")
    monkeypatch.setattr(type(stream._stream), "_refresh", lambda self: pytest.fail("the table is read"))
    html = shown(stream)
    assert "<th>where</th><td>id &lt; 5</td>" in html
    assert f"<td>{AS_TEXT}</td><td>string</td>" in html
    assert "<th>state</th><td>ends with the newest commit</td>" in html
    assert f"<th>offset</th><td>snapshot-id: {stream.offset['snapshot-id']}, " in html
    assert "waits for new commits" in shown(table.stream())
    stream.close()
    assert "<th>state</th><td>closed</td>" in shown(stream)
    assert repr(stream) == f"BatchStream({table.location!r}, closed, at {stream.offset})"


def test_the_backlog_of_a_stream_is_shown_as_totals() -> None:
    html = shown(lakescan.Backlog(commits=2, files=3_000, rows=4, bytes=5_000_000))
    assert "<th>files</th><td>3,000</td>" in html
    assert "<th>bytes</th><td>5,000,000</td>" in html


def test_a_transaction_is_shown_with_its_state_and_what_it_does_to_each_table(tmp_path: Path) -> None:
    name = "`<img src=x>`"
    with rest_server(tmp_path) as (_, uri):
        lake = lakescan.catalog("lake", type="rest", uri=uri)
        lake.create_namespace("db")
        for each in ("db.one", f"db.{name}"):
            lake.create_table(each, "id BIGINT").append(pa.table({"id": [1, 2]}))
        transaction = lake.transaction()
        assert f"<th>state</th><td>open</td></tr><tr><th>name in SQL</th><td>{transaction.name}</td>" in shown(
            transaction
        )
        transaction.load_table("db.one").append(pa.table({"id": [3]}))
        transaction.load_table("db.one").alter().add_column("n", "int").commit()
        transaction.load_table(f"db.{name}").delete("id = 1")
        html = shown(transaction)
        assert "<td>db.one</td><td>append, alter</td>" in html
        assert "<td>db.&lt;img src=x&gt;</td><td>overwrite</td>" in html
        transaction.commit()
        assert "<th>state</th><td>committed</td></tr></table>" in shown(transaction)
        other = lake.transaction()
        other.rollback()
        assert "<th>state</th><td>rolled back</td></tr></table></div>" in shown(other)


@pytest.fixture
def formatter(monkeypatch: pytest.MonkeyPatch) -> Formatter:
    """Return the formatter of an IPython shell."""
    html = Formatter()
    monkeypatch.setitem(sys.modules, "IPython", html.as_module())
    return html


def rows_of(local: lakescan.Catalog) -> lakescan.Table:
    table = local.create_table("db.t", "id BIGINT")
    table.append(pa.table({"id": [1, 2]}))
    return table


ARROW: dict[str, Callable[[lakescan.Table], pa.Table]] = {
    "history": lambda table: table.history(),
    "inspect": lambda table: table.inspect("snapshots"),
    "ancestors": lambda table: table.ancestors(),
    "scan": lambda table: table.scan().to_arrow(),
    "changes": lambda table: table.changes(start=table.version).to_arrow(),
    "query": lambda table: lakescan.sql("SELECT * FROM t", t=table).to_arrow(),
}


@pytest.mark.parametrize("made", ARROW.values(), ids=ARROW)
def test_arrow_tables_that_lakescan_returns_are_shown_as_tables(
    local: lakescan.Catalog, formatter: Formatter, made: Callable[[lakescan.Table], pa.Table]
) -> None:
    found = made(rows_of(local))
    html = formatter(found)
    assert html == arrow_as_html(found)
    assert all(f"<th>{name}</th>" in html for name in found.column_names)


def test_other_arrow_tables_are_shown_as_before(local: lakescan.Catalog, formatter: Formatter) -> None:
    rows_of(local).history()
    assert formatter(pa.table({"id": [1]})) is None


def test_the_formatter_of_the_user_for_arrow_tables_is_kept(local: lakescan.Catalog, formatter: Formatter) -> None:
    formatter.for_type(pa.Table, lambda _: "the user's")
    assert formatter(rows_of(local).history()) == "the user's"


@pytest.mark.parametrize("module", [None, SimpleNamespace(get_ipython=lambda: None)], ids=["absent", "no shell"])
def test_without_ipython_arrow_tables_are_unchanged(
    local: lakescan.Catalog, monkeypatch: pytest.MonkeyPatch, module: object
) -> None:
    monkeypatch.setitem(sys.modules, "IPython", module)
    assert rows_of(local).history().num_rows == 1


def test_branches_and_tags_are_shown_as_one_row_each(local: lakescan.Catalog) -> None:
    table = rows_of(local)
    table.create_tag(HOSTILE, max_ref_age=timedelta(days=9))
    assert f"<td>{AS_TEXT}</td><td>{table.version}</td><td>9 days, 0:00:00</td>" in shown(table.tags)
    assert f"<td>main</td><td>{table.version}</td>" in shown(table.branches)
    assert f"<th>snapshot</th><td>{table.version}</td>" in shown(table.tags[HOSTILE])
    assert dict(table.tags) == table.tags


def test_a_diagnosis_is_shown_as_one_row_per_check() -> None:
    checks = (lakescan.Check(HOSTILE, "1", True), lakescan.Check("Java", "not found", False, HOSTILE))
    html = shown(lakescan.Diagnosis(checks))
    assert f"<td>ok</td><td>{AS_TEXT}</td>" in html
    assert f"<td>WRONG</td><td>Java</td><td>not found</td><td>{AS_TEXT}</td>" in html


def test_a_plan_shows_why_files_are_skipped(local: lakescan.Catalog) -> None:
    table = local.create_table("db.t", "id BIGINT, day DATE", partition_by="day")
    table.append(pa.table({"id": [1, 2], "day": [date(2026, 1, 1), date(2026, 1, 2)]}))
    assert "<td>1 (1 by partition)</td>" in shown(table.scan().where("day = '2026-01-01'").plan())
    assert "<td>1 (1 by statistics)</td>" in shown(table.scan().where("id = 1").plan())
    assert "<th>files skipped</th><td>0</td>" in shown(table.scan().plan())


def test_a_snapshot_is_shown(local: lakescan.Catalog) -> None:
    table = rows_of(local)
    html = shown(table.scan().snapshot)
    assert f"<th>id</th><td>{table.version}</td>" in html
    assert "<th>operation</th><td>append</td>" in html


def test_a_query_is_shown_as_its_first_rows_and_one_that_fails_as_its_error() -> None:
    def query(rows: int) -> lakescan.Query:
        return lakescan.sql("SELECT * FROM f", f=pa.table({"n": list(range(rows)), HOSTILE: [HOSTILE] * rows}))

    assert "<b>20 rows</b>" in shown(query(20))
    html = shown(query(1_000))
    assert "<b>The first 20 rows</b>" in html
    assert "<td>19</td>" in html
    assert "<td>20</td>" not in html
    assert html.count(AS_TEXT) == 21
    assert "&lt;b&gt;" in shown(lakescan.sql("SELECT CAST(s AS INT) FROM f", f=pa.table({"s": ["<b>"]})))


def test_a_long_table_shows_its_first_and_last_rows() -> None:
    html = arrow_as_html(pa.table({"n": list(range(10_000))}))
    assert "<b>10,000 rows</b>" in html
    assert re.findall(r"<td>(.*?)</td>", html) == [*map(str, range(10)), "…", *map(str, range(9_990, 10_000))]


def test_values_of_all_types_are_shown_even_if_python_cannot_represent_them() -> None:
    columns = {
        "null": pa.array([None], pa.int64()),
        "bool": pa.array([True]),
        "text": pa.array([HOSTILE]),
        "bytes": pa.array([b"<" * 100]),
        "view": pa.array([b"<" * 100], pa.binary_view()),
        "list": pa.array([[HOSTILE]]),
        "many": pa.array([list(range(10_000))]),
        "map": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64())),
        "struct": pa.array([{"a": None}]),
        "year 29349": pa.array([10_000_000], pa.int32()).cast(pa.date32()),
        "nested": pa.array([[10_000_000]], pa.list_(pa.date32())),
        "nanoseconds": pa.array([1], pa.timestamp("ns")),
        "zone": pa.array([0], pa.timestamp("us", "UTC")),
        "dictionary": pa.array(["a"]).dictionary_encode(),
        "duration": pa.array([1], pa.duration("us")),
    }
    html = arrow_as_html(pa.table(columns))
    assert markup(html) <= OWN_TAGS
    cells = dict(zip(columns, re.findall(r"<td>(.*?)</td>", html), strict=True))
    assert cells["null"] == "null"
    assert cells["text"] == AS_TEXT
    assert cells["bytes"] == cells["view"] == f"b&#x27;{'&lt;' * 32}&#x27;… (100 bytes)"
    assert AS_TEXT in cells["list"]
    assert cells["many"] == "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, ...]"
    assert cells["map"] == "{&#x27;a&#x27;: 1}"
    assert cells["year 29349"] == "29349-01-26"
    assert cells["nested"] == "list&lt;item: date32[day]&gt;"
    assert cells["nanoseconds"].endswith(".000000001")


PARTS: dict[str, Callable[[str], str]] = {
    "section": section,
    "facts": lambda text: facts_table({text: text}),
    "grid": lambda text: grid([text], [[text]]),
    "preformatted": pre_block,
    "arrow": lambda text: arrow_as_html(pa.table({text: [text]})),
}


@pytest.mark.parametrize("part", PARTS.values(), ids=PARTS)
def test_all_text_is_escaped_shortened_and_harmless_in_a_browser(part: Callable[[str], str]) -> None:
    assert AS_TEXT in part(HOSTILE)
    assert markup(part(HOSTILE)) <= OWN_TAGS
    assert "\\x1b[31m\\x00\\u202egnp" in part("\x1b[31m\x00\u202egnp")
    long = part("x" * 1_000_000)
    assert len(long) < 45_000
    assert "… (1,000,000 characters)" in long


@pytest.mark.parametrize("part", [PARTS[name] for name in ("section", "facts", "grid", "preformatted")])
def test_half_a_surrogate_pair_can_be_sent(part: Callable[[str], str]) -> None:
    assert "\\ud800" in part("\ud800").encode().decode()


def test_only_the_first_of_many_rows_columns_and_facts_are_shown() -> None:
    html = grid([f"c{n}" for n in range(5_000)], [["v"] * 5_000] * 5_000)
    assert "<th>c49</th><th>and 4,950 more columns</th>" in html
    assert html.count("<td>v</td>") == 200 * 50
    assert "<td>and 4,800 more</td>" in html
    assert "<td>and 950 more</td>" in facts_table({str(n): "" for n in range(1_000)})


@pytest.mark.slow
def test_a_table_of_thousands_of_columns_is_shown_on_a_page(local: lakescan.Catalog) -> None:
    names = [f"column_{n}" for n in range(3_000)]
    table = local.create_table("db.wide", pa.schema([(name, pa.int64()) for name in names]))
    table.append(pa.table({name: [1] for name in names}))
    scan = table.scan()
    for value in (table, scan, scan.plan(), table.changes(), lakescan.sql("SELECT * FROM t", t=table)):
        html = shown(value)
        assert "column_0" in html
        assert re.search(r"and 2,\d+ more", html)
        assert len(html) < 60_000
