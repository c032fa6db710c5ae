"""Make the page "All refusals" of the site from the source: every `UnsupportedFeature(...)` with its advice.

The site's build calls `page`; no copy is committed. The module needs nothing but the standard library, because the
environment of the site has no pyarrow. `python scripts/refusals_doc.py` prints the page.
"""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src" / "lakescan"
AREAS = {
    "catalogs": "Catalogs",
    "storage": "Object stores and encryption",
    "reading": "Reading data files",
    "expressions": "Filters and expressions",
    "options": "Options",
    "iceberg": "Iceberg tables",
    "delta": "Delta tables",
    "definition": "New tables",
    "tables": "Rows of other libraries",
    "writing": "Writing data files",
    "maintenance": "Maintenance",
    "statements": "SQL",
    "spark": "Spark",
    "api": "Tables and views",
    "common": "DuckDB, Polars and planning",
    "cli": "Command line",
}
# Words for variables whose names mean little to readers of the page.
_WORDS = {
    "location": "table",
    "identifier": "table",
    "where": "table",
    "whole": "table",
    "who": "table",
    "doing": "operation",
    "what": "operation",
    "work": "operation",
    "purpose": "operation",
    "known": "feature",
    "of": "table",
    "each": "name",
    "wrong": "column",
    "error": "reason",
    "failed": "reason",
    "why": "reason",
    "nulls": "reason",
    "others": "name",
    "one": "name",
    "named": "name",
    "found": "name",
    "inside": "name",
    "to": "table",
    "had": "type",
    "wanted": "type",
    "taken": "name",
    "lost": "columns",
    "missing": "name",
    "codec": "codec",
    "at": "place",
    "self": "name",
    "id": "id",
    "term": "transform",
    "dotted": "name",
    "padded": "name",
    "unclear": "number",
    "words": "word",
    "text": "text",
    "new": "type",
    "old": "type",
    "other": "type",
    "theirs": "format",
    "m": "column",
    "pc": "number",
    "head": "snapshot",
    "picked": "snapshot",
    "server": "catalog",
    "_catalog": "catalog",
    "committer": "table",
    "metadata": "table",
    "state": "table",
    "target": "table",
    "_target": "table",
    "_table": "table",
}


def page() -> str:
    """The Markdown of the page."""
    lines = [
        "# All refusals",
        "",
        "Every feature that raises `UnsupportedFeature`, from the source. A word such as &lt;column&gt; stands for a",
        "value of your table or call. [What is refused](refused.md) is shorter.",
        "",
    ]
    found = dict(refusals())
    for package, title in AREAS.items():
        lines += [f"## {title}", "", "| unsupported feature | advice |", "|---|---|"]
        lines += [f"| {_cell(feature)} | {_cell(advice)} |" for feature, advice in sorted(found.pop(package))]
        lines.append("")
    if found:
        raise KeyError(f"packages without a title in AREAS: {', '.join(found)}")
    return "\n".join(lines)


@functools.cache
def refusals() -> dict[str, set[tuple[str, str]]]:
    """The features and advice of each package, with `<words>` in place of values."""
    found: dict[str, set[tuple[str, str]]] = {}
    for file in sorted(SOURCE.rglob("*.py")):
        tree = ast.parse(file.read_text())
        constants = _constants(tree)
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "UnsupportedFeature" and node.args:
                feature, *advice = (_text(each, constants) for each in node.args[:2])
                if _names_something(feature):
                    package = file.relative_to(SOURCE).parts[0].removesuffix(".py")
                    kept = advice[0] if advice and _names_something(advice[0]) else ""
                    found.setdefault(package, set()).add((feature, kept))
    return found


def is_refusal(message: str) -> bool:
    """Whether the source refuses a feature by this text, with values in place of `<words>`.

    Two fifths of the text must be the source's own, so that `<operation> of <table>` does not match everything.
    """
    features = (feature for found in refusals().values() for feature, _ in found)
    return any(
        5 * len(re.sub(r"<[^<>]+>", "", feature)) >= 2 * len(message) and _pattern(feature).fullmatch(message)
        for feature in features
    )


def _pattern(feature: str) -> re.Pattern[str]:
    return re.compile(".+".join(re.escape(part) for part in re.split(r"<[^<>]+>", feature)))


def _names_something(text: str) -> bool:
    return bool(re.search(r"[A-Za-z]{2,}", re.sub(r"<[^<>]+>|\b(of|in|with|for|from|to|a|the|by)\b", "", text)))


def _constants(tree: ast.Module) -> dict[str, str]:
    """The texts that a module gives to names at its top level."""
    return {
        target.id: node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def _text(node: ast.expr, constants: dict[str, str]) -> str:
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(each, constants) for each in node.values)
    if isinstance(node, ast.FormattedValue):
        return _text(node.value, constants)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _text(node.left, constants) + _text(node.right, constants)
    if isinstance(node, ast.Name) and node.id in constants:
        return constants[node.id]
    return f"<{_word(node)}>"


def _word(node: ast.expr) -> str:
    """A word for a value: the last telling name of its expression."""
    match node:
        case ast.Name(id=name):
            return _WORDS.get(name, name.strip("_").lower().replace("_", " "))
        case ast.Attribute(value=value, attr="name" | "text" | "path" | "id" | "at"):
            return _word(value)
        case ast.Attribute(attr=name):
            return _WORDS.get(name, name.strip("_").lower().replace("_", " "))
        case ast.Call(func=ast.Attribute(attr="join"), args=[items]):
            return _word(items)
        case ast.Call(func=ast.Attribute(value=value, attr="upper" | "lower" | "removesuffix" | "name" | "as_py")):
            return _word(value)
        case ast.Call(args=[first, *_]):
            return _word(first)
        case ast.Subscript(value=value):
            return _word(value)
        case ast.GeneratorExp(generators=[first, *_]):
            return _word(first.iter)
        case ast.BoolOp(values=[first, *_]):
            return _word(first)
        case ast.IfExp(body=body):
            return _word(body)
        case _:
            return "value"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*").replace("`", "\\`")


if __name__ == "__main__":
    print(page())
