"""Run the code blocks of the pages on moving to lakescan, unchanged.

A block of `diff` is code with the lines of one side: `after` has those without `-`, `before` those without `+`.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

PAGES = Path(__file__).parents[2] / "docs" / "moving"
_BLOCK = re.compile(r"^```(python|diff)\n(.*?)^```", re.DOTALL | re.MULTILINE)


def code(page: str, side: str = "after") -> list[str]:
    """Return the code of a page's blocks, in order, with the lines of one side of each `diff`."""
    blocks = _BLOCK.findall((PAGES / f"{page}.md").read_text())
    return [text if language == "python" else _one_side(text, side) for language, text in blocks]


def _one_side(text: str, side: str) -> str:
    kept = " +" if side == "after" else " -"
    lines = text.splitlines()
    assert all(line == "" or line[0] in " +-" for line in lines), "a line of a diff begins with a space, + or -"
    return "\n".join(line[1:] for line in lines if line == "" or line[0] in kept)


def run(page: str, folder: Path, side: str = "after") -> dict[str, Any]:
    """Run a page's code in one namespace, below `folder` instead of `/lake`; return the namespace."""
    names: dict[str, Any] = {}
    for block in code(page, side):
        exec(compile(block.replace("/lake/", f"{folder}/"), f"{page}.md, {side}", "exec"), names)
    return names
