"""A plan explains itself as text, in a terminal, and as a self-contained page."""

from __future__ import annotations

import itertools
from html.parser import HTMLParser
from pathlib import Path

import pyarrow as pa
import pytest

import lakescan
from lakescan.planning.explain import plan_for_terminal, write_html
from lakescan.planning.explain.summary import summarise
from lakescan.planning.plan import ScanPlan
from tests.support.browser import draw_page


@pytest.fixture(scope="module")
def plan(shop) -> ScanPlan:
    return lakescan.table(shop.orders).scan().where("ordered_at >= '2026-03-10' and price > 20").plan()


def test_the_text_describes_manifests_files_and_rows(shop) -> None:
    text = lakescan.table(shop.orders).scan().where("ordered_at < '2026-02-01'").explain()
    stages = [
        "manifests",
        "files in them",
        "files by partition",
        "files by statistics",
        "splits",
        "task groups",
        "rows",
    ]
    places = [text.index(stage) for stage in stages]
    assert places == sorted(places)
    assert "partition values cannot match" in text


def test_the_text_names_filter_residuals_and_deletes(plan: ScanPlan, shop) -> None:
    text = lakescan.table(shop.orders).scan().where("ordered_at >= '2026-03-10' and price > 20").explain()
    assert "filter: (ordered_at >= '2026-03-10 00:00:00' and price > 20.0)" in text
    assert "splits: price > 20.0" in text
    assert "deletion vectors" in text


def test_a_delta_plan_mentions_versions_and_log_files(shop) -> None:
    text = lakescan.table(shop.customers).scan().explain()
    assert "version: 5" in text
    assert "log files" in text


def test_the_terminal_shows_the_same(plan: ScanPlan) -> None:
    from rich.console import Console

    console = Console(width=140, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(plan_for_terminal(plan))
    shown = console.export_text()
    assert "files by partition" in shown
    assert "█" in shown


HISTOGRAMS = ("file-sizes", "split-sizes", "deletes-per-file")


class Page(HTMLParser):
    """The elements and attributes of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def test_the_page_draws_the_funnel_the_sizes_and_the_balance_and_needs_nothing_else(
    plan: ScanPlan, tmp_path: Path
) -> None:
    page = Page(write_html([plan, plan], tmp_path / "sub" / "plan.html", "two plans").read_text())
    pictures = [a["class"] for tag, a in page.tags if tag == "svg"]
    assert pictures == ["funnel", *(f"histogram {kind}" for kind in HISTOGRAMS), "balance"] * 2
    assert not [a for _, a in page.tags if "src" in a or "href" in a]
    assert not [tag for tag, _ in page.tags if tag in ("script", "link", "img")]


def test_the_page_escapes_what_it_shows(shop, tmp_path: Path) -> None:
    scan = lakescan.table(shop.customers).scan().where("segment = '<script>alert(1)</script>'")
    text = write_html([scan.plan()], tmp_path / "plan.html").read_text()
    assert "<script>" not in text
    assert "&lt;script&gt;" in text


def test_an_empty_plan_is_drawn_too(shop, tmp_path: Path) -> None:
    plan = lakescan.table(shop.orders).scan().where("ordered_at > '2030-01-01'").plan()
    assert "no files" in write_html([plan], tmp_path / "plan.html").read_text()


def test_a_browser_draws_the_page(plan: ScanPlan, tmp_path: Path) -> None:
    """Bars are as long as their values, pictures stand side by side, and nothing is misplaced."""
    shapes = draw_page(write_html([plan], tmp_path / "plan.html"))
    page = shapes.width
    funnel = shapes.of("svg.funnel rect.kept")
    tracks = shapes.of("svg.funnel rect.track")
    facts = summarise(plan)
    for bar, track, stage in zip(funnel, tracks, facts.stages, strict=True):
        share = stage.kept / (stage.kept + stage.skipped) if stage.kept + stage.skipped else 0
        assert bar.width / track.width == pytest.approx(share, abs=0.02), stage
    for kind, bins in zip(HISTOGRAMS, (facts.file_sizes, facts.split_sizes, facts.deletes_per_file), strict=True):
        bars = shapes.of(f"svg.{kind} rect.kept")
        tallest = max(each.count for each in bins)
        heights = [each.count / tallest for each in bins]
        assert [bar.height / max(b.height for b in bars) for bar in bars] == pytest.approx(heights, abs=0.02), kind
    assert sum(each.count for each in facts.file_sizes) == sum(each.count for each in facts.deletes_per_file)
    assert len(shapes.of("svg.balance rect.kept")) == len(plan.groups)
    left, right = shapes.of("figure")[1:3]
    assert left.x + left.width <= right.x
    assert all(box.x >= 0 and box.x + box.width <= page for box in shapes.of("svg, table, .tile, figure"))


def test_on_a_narrow_screen_pictures_are_below_each_other(plan: ScanPlan, tmp_path: Path) -> None:
    shapes = draw_page(write_html([plan], tmp_path / "plan.html"), width=500)
    figures = shapes.of("figure")
    assert all(above.y + above.height <= below.y for above, below in itertools.pairwise(figures))
    assert all(box.x + box.width <= shapes.width for box in shapes.of("svg, .tile"))


def test_a_plan_is_shown_with_its_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    catalog = lakescan.catalog("shown", warehouse=tmp_path)
    catalog.create_namespace("db")
    catalog.create_table("db.t", "id INT").append(pa.table({"id": pa.array([1], pa.int32())}))
    plan = lakescan.table("shown.db.t").scan().explain()
    assert repr(plan) == plan
    assert "\n" in plan
    explained = lakescan.sql("EXPLAIN SELECT id FROM shown.db.t")
    explained.show()
    assert capsys.readouterr().out.splitlines()[1].startswith("  iceberg")
    assert explained._repr_html_().startswith("<pre>")
    assert explained.to_arrow().column_names == ["plan"]
