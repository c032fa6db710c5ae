"""Read the code cells of a Jupyter notebook, for `lakescan run` and `lakescan check`."""

from __future__ import annotations

import json
import linecache
import re
from dataclasses import dataclass

_MAGIC = re.compile(r"\s*(?:(%%?\w[\w.]*)|(!)|(\?)|[\w.]+(\?\??)\s*$)")


class NotebookRefused(Exception):
    """A notebook cannot be run: it is not a notebook, or a cell has a magic, which only Jupyter understands."""


@dataclass(frozen=True)
class Cell:
    """A code cell: its number among all cells, from 1, its code, and the name of its file in tracebacks."""

    number: int
    code: str
    file: str


def read_notebook(path: str, *, refuse_magics: bool = True) -> list[Cell]:
    """Return the code cells of a notebook in order, with their lines known to tracebacks.

    Raises `NotebookRefused`.
    """
    try:
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
        sheets = found.get("worksheets")
        cells = found["cells"] if sheets is None else [cell for sheet in sheets for cell in sheet["cells"]]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise NotebookRefused(f"{path!r} is not a notebook: {error}") from None
    result = []
    for number, cell in enumerate(cells, 1):
        if cell.get("cell_type") != "code":
            continue
        text = cell.get("source", cell.get("input", ""))
        code = "".join(text) if isinstance(text, list) else text
        if refuse_magics and (magic := find_magic(code)) is not None:
            raise NotebookRefused(
                f"cell {number} of {path!r} uses {magic[1]}, which only a notebook understands. "
                "Remove it, or write it in Python"
            )
        name = f"{path}[cell {number}]"
        linecache.cache[name] = (len(code), None, code.splitlines(keepends=True), name)
        result.append(Cell(number, code, name))
    return result


def find_magic(code: str) -> tuple[int, str] | None:
    """Return the line number and the name of a cell's first magic, such as `%sql` or `!`; None without one."""
    try:
        compile(code, "<cell>", "exec", dont_inherit=True)
        return None
    except (SyntaxError, ValueError):
        pass
    for number, line in enumerate(code.splitlines(), 1):
        if match := _MAGIC.match(line):
            return number, next(group for group in match.groups() if group)
    return None
