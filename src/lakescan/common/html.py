"""HTML for notebooks. Names, values and locations may have any characters, in any number: text is escaped and cut."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Mapping, Sequence
from html import escape
from reprlib import Repr
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

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


_SHOWN_ROWS = 20
_MOST_BYTES = 32  # of a binary value
_OURS: dict[int, weakref.ref[pa.Table]] = {}  # tables of which `register_display` was told, by `id`

_BYTES = (
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_fixed_size_binary,
    pa.types.is_binary_view,
)
_NESTED = Repr()  # of lists, structs and maps: enough to see what they are
_NESTED.maxlevel, _NESTED.maxlist, _NESTED.maxtuple, _NESTED.maxdict = 4, 10, 10, 4
_NESTED.maxstring = _NESTED.maxother = _NESTED.maxlong = 100


def arrow_as_html(table: pa.Table, title: str = "") -> str:
    """The first and last rows of a table, and how many it has; `title` replaces their number."""
    rows = table.num_rows
    if rows > _SHOWN_ROWS:
        half = _SHOWN_ROWS // 2
        cells = [*_cells(table.slice(0, half)), ["…"] * table.num_columns, *_cells(table.slice(rows - half))]
    else:
        cells = _cells(table)
    return section(title or f"{rows:,} row{'' if rows == 1 else 's'}", grid(table.column_names, cells))


def register_display(table: pa.Table) -> pa.Table:
    """The same table. IPython, if this process has its shell, shows it as HTML; tables of others as before."""
    html = _formatter()
    if html is None:
        return table
    try:
        html.lookup_by_type(pa.Table)  # ours, or one that the user has chosen, which is kept
    except KeyError:
        html.for_type(pa.Table, _notebook_html)
    key = id(table)
    _OURS[key] = weakref.ref(table, lambda _: _OURS.pop(key, None))
    return table


def _formatter() -> Any:
    """What makes IPython's HTML; None without IPython's shell. IPython is not imported for it."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return None if shell is None else shell.display_formatter.formatters["text/html"]


def _notebook_html(table: pa.Table) -> str | None:
    """What IPython shows of an Arrow table; of those of others, what Arrow says itself."""
    known = _OURS.get(id(table))
    if known is not None and known() is table:
        return arrow_as_html(table)
    own = getattr(table, "_repr_html_", None)
    return None if own is None else own()


def _cells(table: pa.Table) -> list[list[str]]:
    """The values of a few rows as text."""
    columns = [_texts(column) for column in table.columns[:100]]  # the grid shows fewer
    return [list(row) for row in zip(*columns, strict=True)]


def _texts(column: pa.ChunkedArray) -> list[str]:
    kind = column.type
    if any(is_kind(kind) for is_kind in _BYTES):
        return [_text_of_bytes(value) for value in column]
    if not pa.types.is_nested(kind):
        try:  # also dates that Python's have no years for
            return ["null" if text is None else text for text in pc.cast(column, pa.string()).to_pylist()]
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            pass
    return ["null" if not value.is_valid else _text_of(value) for value in column]


def _text_of_bytes(value: pa.Scalar) -> str:
    if not value.is_valid:
        return "null"
    buffer = value.as_buffer()
    rest = f"… ({buffer.size:,} bytes)" if buffer.size > _MOST_BYTES else ""
    return repr(buffer.slice(0, _MOST_BYTES).to_pybytes()) + rest


def _text_of(value: pa.Scalar) -> str:
    try:
        return _NESTED.repr(value.as_py(maps_as_pydicts="lossy"))
    except (ValueError, OverflowError):  # a time that Python does not have
        return str(value.type)
