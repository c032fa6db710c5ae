"""What notebooks show of changes, catalogs, views and results: what they are, and all text of tables as text."""

from __future__ import annotations

import re
from dataclasses import fields
from html import escape

import pyarrow as pa
import pytest

import lakescan
from lakescan.health.maintain import MaintenanceStep
from lakescan.transaction import results
from tests.support import own_catalog

local, no_other_catalogs = own_catalog.local, own_catalog.no_other_catalogs

HOSTILE = '<script>alert(1)</script><img src=x onerror="alert(2)">&amp;'
AS_TEXT = "&lt;script&gt;alert(1)&lt;/script&gt;&lt;img src=x onerror=&quot;alert(2)&quot;&gt;&amp;amp;"
OWN_TAGS = {"div", "b", "table", "tr", "th", "td", "pre"}


def markup(html: str) -> set[str]:
    """The names of all elements, with their attributes."""
    return set(re.findall(r"</?([^>]+)>", html))


def shown(value: object) -> str:
    """What a notebook shows; only plain elements without attributes are in it."""
    html = value._repr_html_()  # type: ignore[attr-defined]
    assert markup(html) <= OWN_TAGS
    return html


KINDS = [
    kind
    for kind in vars(results).values()
    if isinstance(kind, type) and issubclass(kind, results._Result) and kind is not results._Result
]


def hostile(kind: type) -> object:
    """A result whose texts are all hostile."""
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


def test_maintenance_is_shown_as_a_row_a_step() -> None:
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


def test_of_a_large_catalog_few_namespaces_are_asked(local: lakescan.Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
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
