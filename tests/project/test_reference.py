"""The reference pages match the source, and each error has advice."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import SimpleNamespace

import lakescan

ROOT = Path(__file__).parents[2]
TROUBLESHOOTING = ROOT / "docs" / "guides" / "troubleshooting.md"


def _module(name: str):
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_pages_of_the_reference_are_current() -> None:
    for path, text in _module("reference_doc").pages().items():
        assert path.read_text() == text, "run: python scripts/reference_doc.py"


def test_every_error_has_a_line_of_advice() -> None:
    errors = {
        name
        for name in lakescan.__all__
        if isinstance(getattr(lakescan, name), type) and issubclass(getattr(lakescan, name), lakescan.LakescanError)
    }
    rows = set(re.findall(r"^\| `(\w+)` \| .+ \| .+ \|$", TROUBLESHOOTING.read_text(), re.MULTILINE))
    assert errors - {"LakescanError"} == rows & errors


def test_every_page_that_the_navigation_names_exists_and_every_guide_is_named() -> None:
    named = set(re.findall(r"([\w/]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE))
    docs = ROOT / "docs"
    generated = set(_module("site_hooks").GENERATED)
    assert sorted(name for name in named - generated if not (docs / name).exists()) == []
    assert generated <= named
    pages = {
        page.relative_to(docs).as_posix()
        for each in ("guides", "how", "reference")
        for page in (docs / each).rglob("*.md")
    }
    assert sorted(pages - named) == []


def test_the_page_of_all_refusals_has_a_word_for_every_value() -> None:
    refusals = _module("refusals_doc").refusals()
    features = [feature for found in refusals.values() for feature, _ in found]
    assert len(features) > 300
    assert [feature for feature in features if re.search(r"<[^a-z]|<[^>]*[.(\[]|'\.\.\.'", feature)] == []
    assert "| GENERATE &lt;" in _module("refusals_doc").page()


def test_every_refusal_quoted_on_the_short_page_is_in_the_source() -> None:
    is_refusal = _module("refusals_doc").is_refusal
    rows = re.findall(r"^\| (`.+?) \|", (ROOT / "docs" / "reference" / "refused.md").read_text(), re.MULTILINE)
    quoted = [text for row in rows for text in re.findall(r"`([^`]+)`", row)]
    assert len(quoted) > 40
    assert [text for text in quoted if not is_refusal(text)] == []
    assert not is_refusal("reading a table of lakescan")


def test_llms_txt_uses_the_first_sentence_of_a_page() -> None:
    first = _module("site_hooks").first_sentence
    assert first("---\nspark: true\n---\n# T\n\nYou read [tables](a.md) **fast**. More.\n") == "You read tables fast."
    assert first("# T\n\nlakescan reads tables. More.\n") == "lakescan reads tables."


def test_llms_txt_has_the_pages_of_a_section_before_the_sections_within_it() -> None:
    def page(name: str) -> SimpleNamespace:
        return SimpleNamespace(
            is_page=True, is_section=False, title=name, file=SimpleNamespace(src_uri="start.md", url=f"{name}.html")
        )

    def section(name: str, *children: SimpleNamespace) -> SimpleNamespace:
        return SimpleNamespace(is_page=False, is_section=True, title=name, children=children)

    nav = SimpleNamespace(items=[section("Reference", page("index"), section("Python", page("tables")), page("sql"))])
    config = {"site_name": "lakescan", "site_description": "", "site_url": None, "docs_dir": str(ROOT / "docs")}
    lines = _module("site_hooks").llms_txt(config, nav).splitlines()
    found = [re.sub(r"\].*", "]", line) for line in lines if line.startswith(("## ", "- "))]
    assert found == ["## Reference", "- [index]", "- [sql]", "## Python", "- [tables]"]


def test_every_fence_is_supported_by_the_markdown_of_the_site() -> None:
    """An unsupported fence is rendered as text, and the text after it becomes a block up to the next fence."""
    hook, config = _module("site_hooks").on_page_markdown, {"repo_url": "https://example"}
    docs = ROOT / "docs"
    strange = [
        f"{page.relative_to(docs)}: {line}"
        for page in docs.rglob("*.md")
        for line in hook(page.read_text(), _page(page.relative_to(docs)), config).splitlines()
        if line.lstrip().startswith("```") and not re.fullmatch(r' *```(\w+( title="[^"]+")?)?', line)
    ]
    assert strange == []


def test_bars_in_the_code_of_tables_have_no_backslash() -> None:
    html = "<table><td><code>a \\| b</code> or <code>c \\| d</code></td></table><p><code>e \\| f</code></p>"
    assert _module("site_hooks").on_page_content(html, {}) == (
        "<table><td><code>a | b</code> or <code>c | d</code></td></table><p><code>e \\| f</code></p>"
    )


def _page(path: Path) -> SimpleNamespace:
    return SimpleNamespace(file=SimpleNamespace(src_uri=path.as_posix()))
