"""Print the output of commands: results as sentences, rows as grids, or both as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table as Grid
from rich.text import Text

from lakescan.cli.settings import wants_json
from lakescan.common.control_characters import harmless, harmless_json


class TerminalConsole(Console):
    """A rich console that replaces control characters in printed text, but not those of its own colours."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yield segments as `Console` does, with control characters in text replaced by harmless ones."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(harmless(segment.text), segment.style)


console: TerminalConsole = TerminalConsole(markup=False, emoji=False, highlight=False)


def print_result(result: Any) -> None:
    """Print a result as a sentence, or with `--json` as an object of its attributes and the sentence as `message`."""
    if not wants_json():
        console.print(str(result), soft_wrap=True)
        return
    values = {each.name: getattr(result, each.name) for each in fields(result)} if is_dataclass(result) else {}
    print_json({**values, "message": str(result)})


def print_json(value: Any) -> None:
    """Print a value as one line of JSON."""
    console.file.write(as_json(value) + "\n")


def as_json(value: Any) -> str:
    """Convert a value to JSON without control characters.

    NaN and infinities become strings, as JSON lacks them. Tables become lists of rows, and data classes objects.
    """
    try:
        text = json.dumps(value, default=_plain, ensure_ascii=False, allow_nan=False)
    except ValueError:
        text = json.dumps(_finite(value), default=_plain, ensure_ascii=False)
    return harmless_json(text)


def print_rows(rows: pa.Table | Sequence[Mapping[str, Any]]) -> None:
    """Print rows as a grid, or with `--json` as one JSON object per line.

    Without rows, the grid has the title `no rows`.
    """
    found = rows.to_pylist(maps_as_pydicts="lossy") if isinstance(rows, pa.Table) else list(rows)
    if wants_json():
        for row in found:
            print_json(row)
        return
    names = list(found[0]) if found else ["no rows"]
    grid = Grid(header_style="bold")
    for name in names:
        grid.add_column(Text(name), overflow="fold")
    for row in found:
        grid.add_row(*(_cell(value) for value in row.values()))
    console.print(grid)


def print_names(column: str, names: Sequence[str]) -> None:
    """Print names, one per line, or with `--json` as one object per line with the key `column`."""
    for name in names:
        if wants_json():
            print_json({column: name})
        else:
            console.print(name, soft_wrap=True)


def _cell(value: Any) -> RenderableType:
    return Text("null", style="dim") if value is None else Text(str(value))


def _finite(value: Any) -> Any:
    match value:
        case float() if not math.isfinite(value):
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        case dict():
            return {name: _finite(each) for name, each in value.items()}
        case list() | tuple():
            return [_finite(each) for each in value]
    return value


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: getattr(value, each.name) for each in fields(value)}
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, pa.Table):
        return value.to_pylist(maps_as_pydicts="lossy")
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Decimal):
        return str(value)
    return str(value)
