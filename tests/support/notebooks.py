"""Notebooks without a kernel: the code cells of a file, run in order as a kernel would, and what each shows."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[2] / "notebooks"


def read(path: Path) -> dict[str, Any]:
    """The notebook as it is stored."""
    return json.loads(path.read_text())


def code(notebook: dict[str, Any]) -> list[str]:
    """The text of each code cell."""
    return ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]


def run(path: Path) -> list[str]:
    """Run the cells in one namespace; what the last expression of each is shown as, '' where there is none."""
    names: dict[str, Any] = {"__name__": "__main__"}
    return [_shown(text, f"{path.name}[{number}]", names) for number, text in enumerate(code(read(path)), 1)]


def _shown(text: str, name: str, names: dict[str, Any]) -> str:
    tree = ast.parse(text, name)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, name, "exec"), names)
    if last is None:
        return ""
    value = eval(compile(ast.Expression(last.value), name, "eval"), names)
    page = getattr(value, "_repr_html_", None)
    return repr(value) if page is None else page()
