"""HTML for notebooks.

Text is escaped and truncated, since names, values and locations may be long and have any character.
"""

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

_MOST_CHARACTERS = 1_000  # in a name, a value or a cell
_MOST_OF_A_TEXT = 20_000  # characters in a query or an error
_MOST_ROWS, _MOST_COLUMNS, _MOST_FACTS = 200, 50, 50


def section(title: str, *content: str) -> str:
    """Return an HTML `<div>` with a title in bold; `content` is HTML and is not escaped."""
    return f"<div><b>{_text(title)}</b>{''.join(content)}</div>"


def facts_table(facts: Mapping[str, str]) -> str:
    """Return an HTML table with one row per name and value, escaped; after 50 rows, only the number of the others."""
    shown = list(facts.items())[:_MOST_FACTS]
    rows = "".join(f"<tr><th>{_text(name)}</th><td>{_text(value)}</td></tr>" for name, value in shown)
    return f"<table>{rows}{_rest(len(facts) - len(shown))}</table>"


def grid(header: Sequence[str], rows: Sequence[Sequence[str]], all_rows: int = 0) -> str:
    """Return an HTML table of escaped texts with a header.

    It has at most 200 rows and 50 columns, and the number of the others. `all_rows` is the total number of rows, if
    `rows` has only some of them.
    """
    names = header[:_MOST_COLUMNS]
    top = "".join(f"<th>{_text(name)}</th>" for name in names)
    if len(header) > len(names):
        top += f"<th>and {len(header) - len(names):,} more columns</th>"
    shown = rows[:_MOST_ROWS]
    body = "".join(f"<tr>{''.join(f'<td>{_text(cell)}</td>' for cell in row[: len(names)])}</tr>" for row in shown)
    return f"<table><tr>{top}</tr>{body}{_rest(max(len(rows), all_rows) - len(shown))}</table>"


def pre_block(text: str) -> str:
    """Return an HTML `<pre>` element with the text, escaped and truncated to 20,000 characters."""
    return f"<pre>{_text(text, _MOST_OF_A_TEXT)}</pre>"


def name_list(names: Sequence[str], most: int = 20) -> str:
    """Join names with commas, as plain text.

    Of more than `most` names, only the first are listed, followed by the number of the others.
    """
    more = f", and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _rest(count: int) -> str:
    return f"<tr><td>and {count:,} more</td></tr>" if count > 0 else ""


def _text(text: str, most: int = _MOST_CHARACTERS) -> str:
    cut = text if len(text) <= most else f"{text[:most]}… ({len(text):,} characters)"
    # JSON can contain halves of surrogate pairs, which cannot be sent to a browser.
    return escape(harmless(cut).encode("utf-8", "backslashreplace").decode())


_SHOWN_ROWS = 20
_MOST_BYTES = 32  # the most bytes shown of a binary value
_OURS: dict[int, weakref.ref[pa.Table]] = {}  # tables given to `register_display`, by `id`

_BYTES = (
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_fixed_size_binary,
    pa.types.is_binary_view,
)
_NESTED = Repr()  # for lists, structs and maps
_NESTED.maxlevel, _NESTED.maxlist, _NESTED.maxtuple, _NESTED.maxdict = 4, 10, 10, 4
_NESTED.maxstring = _NESTED.maxother = _NESTED.maxlong = 100


def arrow_as_html(table: pa.Table, title: str = "") -> str:
    """Return HTML with the rows of a table, or its first 10 and last 10 rows if it has more than 20.

    The default title is the number of rows.
    """
    rows = table.num_rows
    if rows > _SHOWN_ROWS:
        half = _SHOWN_ROWS // 2
        cells = [*_cells(table.slice(0, half)), ["…"] * table.num_columns, *_cells(table.slice(rows - half))]
    else:
        cells = _cells(table)
    return section(title or f"{rows:,} row{'' if rows == 1 else 's'}", grid(table.column_names, cells))


def register_display(table: pa.Table) -> pa.Table:
    """Make IPython display this table with `arrow_as_html`, and return the table.

    Without an IPython shell in this process, nothing changes. Other tables are displayed as before. A formatter that
    the user has registered for `pa.Table` is not replaced.
    """
    html = _formatter()
    if html is None:
        return table
    try:
        html.lookup_by_type(pa.Table)  # keeps a formatter that the user has registered
    except KeyError:
        html.for_type(pa.Table, _notebook_html)
    key = id(table)
    _OURS[key] = weakref.ref(table, lambda _: _OURS.pop(key, None))
    return table


def _formatter() -> Any:
    """Return the HTML formatter of the running IPython shell; None without a shell. IPython is not imported."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return None if shell is None else shell.display_formatter.formatters["text/html"]


def _notebook_html(table: pa.Table) -> str | None:
    """Format a table for IPython: by `arrow_as_html` if it is registered, else by pyarrow's `_repr_html_`, if any."""
    known = _OURS.get(id(table))
    if known is not None and known() is table:
        return arrow_as_html(table)
    own = getattr(table, "_repr_html_", None)
    return None if own is None else own()


def _cells(table: pa.Table) -> list[list[str]]:
    """Format each row of a small table as a list with the texts of its values, only of the first 100 columns."""
    columns = [_texts(column) for column in table.columns[:100]]  # the grid shows fewer
    return [list(row) for row in zip(*columns, strict=True)]


def _texts(column: pa.ChunkedArray) -> list[str]:
    kind = column.type
    if any(is_kind(kind) for is_kind in _BYTES):
        return [_text_of_bytes(value) for value in column]
    if not pa.types.is_nested(kind):
        try:  # Arrow also formats dates beyond Python's years
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
    except (ValueError, OverflowError):  # a time that Python cannot represent
        return str(value.type)
