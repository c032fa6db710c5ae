"""Run notebooks without a kernel: the code cells in order, with the output that each shows."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

FOLDER = Path(__file__).parents[2] / "notebooks"


class Formatter:
    """A replacement of IPython's HTML formatter: a function registered for the type, or the value's own HTML."""

    def __init__(self) -> None:
        self._printers: dict[type, Callable[[Any], str | None]] = {}

    def lookup_by_type(self, kind: type) -> Callable[[Any], str | None]:
        """Return the function registered for a type, or raise `KeyError`."""
        return self._printers[kind]

    def for_type(self, kind: type, printer: Callable[[Any], str | None]) -> None:
        """Register a function that shows values of a type."""
        self._printers[kind] = printer

    def __call__(self, value: object) -> str | None:
        """Return the HTML of a value, or None if it has none."""
        if (printer := self._printers.get(type(value))) is not None:
            return printer(value)
        own = getattr(value, "_repr_html_", None)
        return None if own is None else own()

    def as_module(self) -> Any:
        """Return a stand-in for the module `IPython` whose shell uses this formatter."""
        shell = SimpleNamespace(display_formatter=SimpleNamespace(formatters={"text/html": self}))
        return SimpleNamespace(get_ipython=lambda: shell)


def read(path: Path) -> dict[str, Any]:
    """Return the notebook as it is stored."""
    return json.loads(path.read_text())


def code(notebook: dict[str, Any]) -> list[str]:
    """Return the text of each code cell."""
    return ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]


def run(path: Path, formatter: Formatter) -> list[str]:
    """Run the cells in one namespace; return the output of the last expression of each ('' without output)."""
    names: dict[str, Any] = {"__name__": "__main__"}
    return [_shown(text, f"{path.name}[{number}]", names, formatter) for number, text in enumerate(code(read(path)), 1)]


def _shown(text: str, name: str, names: dict[str, Any], formatter: Formatter) -> str:
    tree = ast.parse(text, name)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, name, "exec"), names)
    if last is None:
        return ""
    value = eval(compile(ast.Expression(last.value), name, "eval"), names)
    page = formatter(value)
    return repr(value) if page is None else page
