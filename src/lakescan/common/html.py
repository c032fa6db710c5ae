"""HTML for notebooks. All text is escaped: names and locations may have any characters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape


def section(title: str, *content: str) -> str:
    """A block with a title; `content` is HTML."""
    return f"<div><b>{escape(title)}</b>{''.join(content)}</div>"


def facts_table(facts: Mapping[str, str]) -> str:
    """A table of names and values, one a row."""
    rows = "".join(f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in facts.items())
    return f"<table>{rows}</table>"


def grid(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table with a header."""
    top = "".join(f"<th>{escape(name)}</th>" for name in header)
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><tr>{top}</tr>{body}</table>"


def preformatted(text: str) -> str:
    """Text as it is."""
    return f"<pre>{escape(text)}</pre>"
