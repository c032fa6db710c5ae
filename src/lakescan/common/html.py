"""HTML for notebooks. Names, values and locations may have any characters, in any number: text is escaped and cut."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from lakescan.common.control_characters import harmless

_MOST_CHARACTERS = 1_000  # of a name, a value or a cell
_MOST_OF_A_TEXT = 20_000  # of a query, or an error
_MOST_ROWS, _MOST_COLUMNS, _MOST_FACTS = 200, 50, 50


def section(title: str, *content: str) -> str:
    """A block with a title; `content` is HTML."""
    return f"<div><b>{_text(title)}</b>{''.join(content)}</div>"


def facts_table(facts: Mapping[str, str]) -> str:
    """A table of names and values, one a row."""
    shown = list(facts.items())[:_MOST_FACTS]
    rows = "".join(f"<tr><th>{_text(name)}</th><td>{_text(value)}</td></tr>" for name, value in shown)
    return f"<table>{rows}{_rest(len(facts) - len(shown))}</table>"


def grid(header: Sequence[str], rows: Sequence[Sequence[str]], all_rows: int = 0) -> str:
    """A table with a header; of many rows and columns, the first ones, and how many more there are.

    `all_rows` is how many there are, if `rows` are not all.
    """
    names = header[:_MOST_COLUMNS]
    top = "".join(f"<th>{_text(name)}</th>" for name in names)
    if len(header) > len(names):
        top += f"<th>and {len(header) - len(names):,} more columns</th>"
    shown = rows[:_MOST_ROWS]
    body = "".join(f"<tr>{''.join(f'<td>{_text(cell)}</td>' for cell in row[: len(names)])}</tr>" for row in shown)
    return f"<table><tr>{top}</tr>{body}{_rest(max(len(rows), all_rows) - len(shown))}</table>"


def pre_block(text: str) -> str:
    """Text as it is."""
    return f"<pre>{_text(text, _MOST_OF_A_TEXT)}</pre>"


def name_list(names: Sequence[str], most: int = 20) -> str:
    """Names as one text; of many, the first ones, and how many more there are."""
    more = f", and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _rest(count: int) -> str:
    return f"<tr><td>and {count:,} more</td></tr>" if count > 0 else ""


def _text(text: str, most: int = _MOST_CHARACTERS) -> str:
    cut = text if len(text) <= most else f"{text[:most]}… ({len(text):,} characters)"
    # Halves of surrogate pairs, which JSON can hold, cannot be sent to a browser.
    return escape(harmless(cut).encode("utf-8", "backslashreplace").decode())
