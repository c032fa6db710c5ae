"""Changes of a view, and the REST catalog updates that make the same change."""

from __future__ import annotations

import pytest

from lakescan.common import types as t
from lakescan.common.schema import Schema
from lakescan.errors import InvalidOption
from lakescan.iceberg.metadata.json_document import Node
from lakescan.iceberg.view.metadata import (
    ViewMetadata,
    ViewText,
    new_view,
    replace_view,
    updates,
    view_of,
    with_properties,
)


def text(query: str, *, at: int = 1, column: str = "n") -> ViewText:
    return ViewText(query, Schema((t.Field(1, column, t.LONG),)), None, ("db",), at, {"engine-name": "lakescan"})


@pytest.fixture
def view() -> ViewMetadata:
    return new_view(text("SELECT 1"), "/lake/db/v", {"owner": "sales"})


def actions(base: ViewMetadata, new: ViewMetadata) -> list[str]:
    return [each["action"] for each in updates(base, new)]


def test_metadata_is_read_as_it_is_written(view: ViewMetadata) -> None:
    later = replace_view(view, text("SELECT 2", at=5, column="m"), {}, "v")
    assert view_of(Node.wrap(later.node(), "here")) == later
    assert later.log == ((1, 1), (5, 2))


def test_a_new_query_with_new_columns_adds_a_schema_and_a_version(view: ViewMetadata) -> None:
    new = replace_view(view, text("SELECT 2", column="m"), {"k": "v"}, "v")
    assert actions(view, new) == ["set-properties", "add-schema", "add-view-version", "set-current-view-version"]
    [_, schema, version, current] = updates(view, new)
    assert schema["schema"]["fields"][0]["name"] == "m"
    assert (version["view-version"]["schema-id"], current["view-version-id"]) == (-1, -1)  # the ids just added


def test_a_new_query_with_the_same_columns_keeps_their_schema(view: ViewMetadata) -> None:
    new = replace_view(view, text("SELECT 2"), {}, "v")
    assert actions(view, new) == ["add-view-version", "set-current-view-version"]
    assert new.current.schema_id == view.current.schema_id


def test_the_same_query_changes_nothing_and_an_earlier_one_becomes_current_again(view: ViewMetadata) -> None:
    assert actions(view, replace_view(view, text("SELECT 1", at=9), {}, "v")) == []
    second = replace_view(view, text("SELECT 2", at=2), {}, "v")
    third = replace_view(second, text("SELECT 1", at=3), {}, "v")
    assert list(updates(second, third)) == [{"action": "set-current-view-version", "view-version-id": 1}]
    assert third.log == ((1, 1), (2, 2), (3, 1))


def test_properties_are_set_and_removed(view: ViewMetadata) -> None:
    new = with_properties(view, {"a": "1"}, ["owner", "never"])
    assert list(updates(view, new)) == [
        {"action": "set-properties", "updates": {"a": "1"}},
        {"action": "remove-properties", "removals": ["owner"]},
    ]


def test_old_versions_are_removed_and_the_log_begins_after_them(view: ViewMetadata) -> None:
    found = with_properties(view, {"version.history.num-entries": "2"}, [])
    for number in (2, 3):
        found = replace_view(found, text(f"SELECT {number}", at=number), {}, "v")
    assert sorted(found.versions) == [2, 3]
    assert found.log == ((2, 2), (3, 3))
    with pytest.raises(InvalidOption, match="num-entries"):
        replace_view(found, text("SELECT 4"), {"version.history.num-entries": "0"}, "v")
