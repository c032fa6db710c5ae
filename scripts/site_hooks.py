"""Extend the build of the site: drawings within pages, links to the repository, generated pages, `llms.txt`.

- A drawing of `docs/drawings/` becomes part of its page, so that its colours follow the page's.
- A block that the tests leave out (`no-run` after its language) loses that word: the site's Markdown takes the language
  alone.
- A link that leaves `docs/` leads to the repository: pages are read there, too.
- The pages of `GENERATED` are made from the source and added to the site. They have no copy in `docs/`.
- `llms.txt` lists the pages, with the first sentence of each, in the order of the navigation.
"""

from __future__ import annotations

import posixpath
import re
import runpy
from pathlib import Path
from typing import Any

_FIGURE = re.compile(r'<p><img alt="([^"]*)" src="[^"]*?drawings/([\w-]+)\.svg"\s*/?></p>')
_NO_RUN = re.compile(r"^(```\w+) no-run$", re.MULTILINE)
_CELL_CODE = re.compile(r"<code>[^<]*</code>(?=(?:(?!<td|<th|</table).)*</t[dh]>)", re.DOTALL)
GENERATED = {"reference/refusals.md": "refusals_doc.py"}  # each page, and the script whose `page()` returns its text
_LINK = re.compile(r"(\]\()((?:\.\./)+[^)#\s]*)")


def on_files(files: Any, config: Any, **_: Any) -> Any:
    """Add the generated pages."""
    from mkdocs.structure.files import File

    for name in GENERATED:
        files.append(File.generated(config, name, content=generated_page(name)))
    return files


def generated_page(name: str) -> str:
    """Return the Markdown of a generated page."""
    return runpy.run_path(str(Path(__file__).with_name(GENERATED[name])))["page"]()


def on_page_markdown(markdown: str, page: Any, config: Any, **_: Any) -> str:
    """Point links out of `docs/` to the repository, and adapt fences to the site's Markdown."""
    folder = posixpath.dirname(page.file.src_uri)

    def outside(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join("docs", folder, link[2]))
        inside = target == "docs" or target.startswith("docs/")
        return link[0] if inside else f"{link[1]}{config['repo_url'].rstrip('/')}/blob/main/{target}"

    return _LINK.sub(outside, _NO_RUN.sub(r"\1", markdown))


def on_page_content(html: str, config: Any, **_: Any) -> str:
    """Put drawings into the page, and remove the backslash before bars in table code, as GitHub does."""

    def inline(found: re.Match[str]) -> str:
        drawing = (Path(config["docs_dir"]) / "drawings" / f"{found[2]}.svg").read_text()
        drawing = drawing[drawing.index("<svg") :]
        return f'<figure class="drawing" role="img" aria-label="{found[1]}">{drawing}</figure>'

    html = _CELL_CODE.sub(lambda code: code[0].replace("\\|", "|"), html)
    return _FIGURE.sub(inline, html)


def on_nav(nav: Any, config: Any, files: Any) -> Any:
    """Write `llms.txt` from the navigation, into the site's root."""
    from mkdocs.structure.files import File

    content = llms_txt(config, nav)
    files.append(File.generated(config, "llms.txt", content=content))
    return nav


def llms_txt(config: Any, nav: Any) -> str:
    """Return the text of `llms.txt` (https://llmstxt.org): the project, then its pages by section."""
    lines = [f"# {config['site_name']}", "", f"> {config['site_description']}"]
    docs = Path(config["docs_dir"])

    def entries(items: Any) -> None:
        for item in (each for each in items if each.is_page):
            name = item.file.src_uri
            text = generated_page(name) if name in GENERATED else (docs / name).read_text()
            about, title = first_sentence(text), item.title or heading(text)
            lines.append(f"- [{title}]({config['site_url'] or ''}{item.file.url}): {about}")
        for item in (each for each in items if each.is_section):  # after the pages, to stay out of their section
            lines.extend(["", f"## {item.title}", ""])
            entries(item.children)

    entries(nav.items)
    return "\n".join(lines) + "\n"


def heading(text: str) -> str:
    """Return the first heading of a page."""
    found = re.search(r"^# (.+)$", text, re.MULTILINE)
    return found[1] if found else ""


def first_sentence(text: str) -> str:
    """Return the first sentence of a page's first paragraph, without links and marks."""
    body = re.sub(r"\A---\n.*?\n---\n", "", text, flags=re.DOTALL)
    paragraphs = (
        each.strip() for each in re.split(r"\n\s*\n", re.sub(r"<!--.*?-->|```.*?```", "", body, flags=re.DOTALL))
    )
    prose = next((each for each in paragraphs if re.match(r"[A-Za-z*`\[]", each)), "")
    plain = re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", " ".join(prose.split())).replace("**", "")
    found = re.match(r".*?\.(?=\s|$)", plain)
    return (found[0] if found else plain).rstrip(":")
