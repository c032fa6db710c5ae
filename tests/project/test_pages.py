"""The site's pages run unchanged in an empty folder, and show the output that their blocks print."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import pages

IN_PROCESS = [each for each in pages.pages() if not pages.needs_spark(each)]
ON_SPARK = [each for each in pages.pages() if pages.needs_spark(each)]


def _name(page: Path) -> str:
    return page.relative_to(pages.DOCS).as_posix()


def _check(page: Path, spark: object = None) -> None:
    run = pages.Run(page, spark)
    for block in pages.blocks(page.read_text()):
        shown = run.shown_by(block)
        if block.expected is not None and not pages.holds(block.expected, shown):
            # pytest shows the difference
            assert shown == block.expected, f"line {block.line}: run python -m tests.support.pages docs/{_name(page)}"


@pytest.mark.parametrize("page", IN_PROCESS, ids=_name)
def test_every_block_of_a_page_runs_and_prints_what_the_page_shows(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    _check(page)


@pytest.mark.parametrize("page", ON_SPARK, ids=_name)
def test_every_block_of_a_page_on_spark_runs_and_prints_what_the_page_shows(
    spark, page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    _check(page, spark)


def test_an_output_matches_if_only_dotted_parts_differ() -> None:
    assert pages.holds("snapshot ...: 3 rows\n", "snapshot 81: 3 rows\n")
    assert pages.holds("a\n...\nb\n", "a\n1\n2\nb\n")
    assert not pages.holds("snapshot ...: 3 rows\n", "snapshot 81: 4 rows\n")
    assert not pages.holds("a...\nb\n", "a\n1\nb\n")


def test_a_block_that_does_not_run_says_why() -> None:
    unexplained = [
        f"{_name(page)}: {before}"
        for page in pages.pages()
        for before in _lines_above(page.read_text(), " no-run")
        if not before.startswith("<!-- not run:")
    ]
    assert unexplained == []


def _lines_above(text: str, ending: str) -> list[str]:
    lines = text.splitlines()
    return [lines[at - 1] for at, line in enumerate(lines) if line.startswith("```") and line.endswith(ending)]
