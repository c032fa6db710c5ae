"""Arrow tables as HTML, for notebooks: a few of their rows. Only those that lakescan returns are shown so."""

from __future__ import annotations

import sys
import weakref
from reprlib import Repr
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common.html import grid, section

_SHOWN_ROWS = 20
_MOST_BYTES = 32  # of a binary value
_OURS: dict[int, weakref.ref[pa.Table]] = {}  # tables of which `as_shown` was told, by `id`

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
