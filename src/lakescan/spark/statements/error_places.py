"""Errors of Spark about a statement, with the places in the text that the user wrote.

Spark analyzes another text, in which data frames stand for tables. Its errors count positions in that text, and end
with a plan that has internal names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from lakescan.statements.syntax.text import apply_edits, underline_place

Edit = tuple[int, int, str]
_PLACE = re.compile(r"(?:;\s*|\s*\()line (\d+),? pos (\d+)\)?")
_FRAME = re.compile(r"`?_pyspark_\w+`?")
_BEHIND = re.compile(r";\n|\n+== SQL ==")  # a plan, or the text that Spark parsed
_WORD = re.compile(r"[\w.`]+")
FRAME_LENGTH = len("_pyspark_") + 32  # of the name that PySpark gives to a data frame in a text


@contextmanager
def translate_positions(text: str, edits: Sequence[Edit]) -> Iterator[None]:
    """Context manager: re-raise PySpark's errors about a statement with places in the user's text.

    Args:
        text: The statement as the user wrote it.
        edits: What Spark's text has instead of parts of it.
    """
    from pyspark.errors import PySparkException

    try:
        yield
    except PySparkException as error:
        change_message(error, lambda said: translate_message(said, text, edits))
        raise


def change_message(error: Exception, change: Callable[[str], str]) -> None:
    """Change the message of a PySpark error, of classic PySpark or of Spark Connect."""
    for name in ("_desc", "_message"):
        if isinstance(said := getattr(error, name, None), str) and said:
            setattr(error, name, change(said))


def translate_message(said: str, text: str, edits: Sequence[Edit]) -> str:
    """Return Spark's message without its plan and its own text, and with the place in the user's text."""
    head = _BEHIND.split(said.strip(), maxsplit=1)[0]
    place = _PLACE.search(said)
    at = None if place is None else _find_position(int(place[1]), int(place[2]), text, edits)
    message = _FRAME.sub("a table", _PLACE.sub("", head)).strip()
    if at is None:
        return message
    word = _WORD.match(text, at)
    return f"{message}{underline_place(text, at, at + 1 if word is None else word.end())}"


def _find_position(line: int, column: int, text: str, edits: Sequence[Edit]) -> int | None:
    """The position in the text of a place in Spark's; None for one that the text does not have."""
    lines = apply_edits(text, edits).split("\n")
    if line > len(lines):
        return None
    place = sum(len(each) + 1 for each in lines[: line - 1]) + column
    moved = 0
    for start, end, new in sorted(edits):
        if place < start + moved:
            break
        if place < start + moved + len(new):
            return start
        moved += len(new) - (end - start)
    found = place - moved
    return found if 0 <= found < len(text) else None
