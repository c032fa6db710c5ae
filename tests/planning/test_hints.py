"""An explanation ends with a platform engineer's hints on the plan, with the figures."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import lakescan
from lakescan.planning.explain import plan_for_terminal
from lakescan.planning.explain.page import plans_as_html
from lakescan.planning.explain.summary import hints


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> lakescan.Table:
    """Make a table of twelve tiny files, partitioned by day, without statistics of `note`."""
    folder = tmp_path_factory.mktemp("hints") / "t"
    configuration = {"delta.dataSkippingStatsColumns": "id"}
    for n in range(12):
        rows = pa.table({"id": [n], "day": [n % 3], "note": [f"n{n}"]})
        write_deltalake(folder, rows, mode="append", partition_by=["day"], configuration=configuration)
    return lakescan.table(str(folder))


def said(table: lakescan.Table, condition: str = "true") -> str:
    return "\n".join(hints(table.scan().where(condition).plan()))


def test_small_files_get_a_hint_to_compact_them(small: lakescan.Table) -> None:
    assert "100% of the 12 files are under 1 MB: compact them" in said(small)


def test_a_filter_column_without_statistics_is_named(small: lakescan.Table) -> None:
    assert "no statistics of 'note' in any file" in said(small, "note = 'n3'")
    assert "no statistics" not in said(small, "id >= 0")


def test_a_filter_without_partition_columns_gets_a_hint_about_them(small: lakescan.Table) -> None:
    assert "partitioned by day" in said(small, "id >= 0")
    assert "partitioned by" not in said(small, "day = 1")


def test_deletes_that_dominate_reading_are_named(tmp_path: Path) -> None:
    from samples.delta_deletes import commit_vectors, stored_vector

    folder = tmp_path / "t"
    write_deltalake(folder, pa.table({"id": list(range(100_000))}))
    path = DeltaTable(folder).file_uris()[0].rsplit("/", 1)[1]
    commit_vectors(folder, {path: stored_vector(folder, list(range(0, 100_000, 3)))})
    size = (folder / path).stat().st_size
    found = said(lakescan.table(str(folder)))
    vector = next(folder.glob("deletion_vector*")).stat().st_size
    assert ("of the bytes to read: rewrite the deletes" in found) == (vector > size / 4)


def test_a_good_plan_has_no_hints(tmp_path: Path) -> None:
    folder = tmp_path / "t"
    write_deltalake(folder, pa.table({"id": [1, 2]}))
    assert said(lakescan.table(str(folder)), "id = 1") == ""
    assert hints(lakescan.table(str(folder)).scan().where("id = 9").plan()) == ()


def test_hints_are_in_every_form_of_the_explanation(small: lakescan.Table) -> None:
    from rich.console import Console

    plan = small.scan().plan()
    console = Console(width=160, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(plan_for_terminal(plan))
    for text in (small.scan().explain(), console.export_text(), plans_as_html([plan])):
        assert "compact them" in text
