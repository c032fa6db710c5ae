"""Names in the documents exist: modules, tests, pages and make targets."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakescan.errors import DOCUMENTS

ROOT = Path(__file__).parents[2]
_ROOT_PAGES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")
PAGES = [*(ROOT / name for name in _ROOT_PAGES), *sorted((ROOT / "docs").rglob("*.md"))]
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


def _texts(source: str) -> Iterator[str]:
    """Yield the texts of a module: all docstrings (`help()` shows them) except the module's own."""
    tree = ast.parse(source)
    own = ast.get_docstring(tree, clean=False)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value != own:
            yield node.value


def test_messages_name_no_files_that_the_wheel_lacks() -> None:
    named = re.compile(
        rf"(?<![\w/.-])(docs|{'|'.join(FOLDERS)})/\w+|\b(README|CONTRIBUTING|CHANGELOG)\.md|\bmake \w+-\w+"
    )
    assert named.search("docs/sql.md lists them")
    sources = sorted((ROOT / "src").rglob("*.py"))
    found = {f"{path.name}: {text[:80]}" for path in sources for text in _texts(path.read_text()) if named.search(text)}
    assert found == set()


def test_messages_lead_to_the_documents_that_the_package_names() -> None:
    urls = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]
    assert urls["Documentation"] == DOCUMENTS
    assert (ROOT / "docs" / "sql.md").exists()
