"""What the documents name exists: modules, tests, pages and make targets."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
FOLDERS = ("src", "tests", "interop", "benchmarks", "examples", "samples", "scripts")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_link_to_a_file_leads_to_one(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text())
    assert [link for link in links if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_module_path_is_one_of_the_source_or_the_tests(page: Path) -> None:
    known = {file.as_posix() for folder in FOLDERS for file in (ROOT / folder).rglob("*.py")}
    named = set(re.findall(r"`([\w/]+\.py)`", page.read_text()))
    assert sorted(name for name in named if not any(file.endswith(f"/{name}") for file in known)) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_make_target_is_in_the_makefile(page: Path) -> None:
    targets = set(re.findall(r"^([a-z0-9.-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"`make ([a-z0-9.-]+)", page.read_text())) <= targets
