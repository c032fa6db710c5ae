"""Draws docs/benchmarks.svg from docs/benchmarks.md: a dot for each ratio, by benchmark and peer, on a log scale."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Iterator
from html import escape
from pathlib import Path

PICTURE = Path("docs/benchmarks.svg")
_LEAST, _MOST = 0.01, 10.0
_WIDTH, _LEFT, _ROW, _TOP = 900, 330, 22, 56
_STYLE = """
text { font: 13px system-ui, sans-serif; fill: #24292f } .muted { fill: #6e7781; font-size: 12px }
.faster { fill: #1a7f37 } .slower { fill: #cf222e } circle { fill-opacity: .55 } .median { stroke: #24292f }
.axis { stroke: #d0d7de } .even { stroke: #6e7781; stroke-dasharray: 4 3 } .page { fill: #ffffff }
@media (prefers-color-scheme: dark) {
 text { fill: #e6edf3 } .muted { fill: #8d96a0 } .page { fill: #0d1117 } .axis { stroke: #30363d }
 .median { stroke: #e6edf3 } .faster { fill: #3fb950 } .slower { fill: #f85149 }
}
"""


def draw(document: str) -> str:
    """The picture of a document of benchmarks, as SVG."""
    rows: dict[tuple[str, str], list[float]] = {}
    for section, peer, ratio in ratios(document):
        rows.setdefault((section, peer), []).append(ratio)
    height = _TOP + _ROW * len(rows) + 30
    parts = [
        f'<rect class="page" width="{_WIDTH}" height="{height}"/>',
        '<text x="12" y="22" font-weight="600">lakescan\'s time divided by the peer\'s, one dot per task</text>',
        '<text class="muted" x="12" y="40">left of 1: lakescan is faster; the bar is the median</text>',
    ]
    for tick in (0.01, 0.1, 0.5, 1, 2, 10):
        kind = "even" if tick == 1 else "axis"
        x = _place(tick)
        parts.append(f'<line class="{kind}" x1="{x:.0f}" x2="{x:.0f}" y1="{_TOP - 8}" y2="{height - 24}"/>')
        parts.append(f'<text class="muted" x="{x:.0f}" y="{height - 8}" text-anchor="middle">{tick:g}</text>')
    for number, ((section, peer), found) in enumerate(rows.items()):
        y = _TOP + _ROW * number + 8
        parts.append(f'<text x="12" y="{y + 4}">{escape(section)} <tspan class="muted">/ {escape(peer)}</tspan></text>')
        for ratio in found:
            kind = "faster" if ratio <= 1 else "slower"
            parts.append(
                f'<circle class="{kind}" cx="{_place(ratio):.1f}" cy="{y}" r="5"><title>{ratio:g}</title></circle>'
            )
        middle = _place(statistics.median(found))
        parts.append(
            f'<line class="median" stroke-width="2" x1="{middle:.1f}" x2="{middle:.1f}" y1="{y - 8}" y2="{y + 8}"/>'
        )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img" '
        f'aria-label="Ratios of lakescan to its peers"><style>{_STYLE}</style>{"".join(parts)}</svg>\n'
    )


def ratios(document: str) -> Iterator[tuple[str, str, float]]:
    """The ratios in the tables of a document: the section, the peer and the ratio."""
    section, columns = "", []
    for line in document.splitlines():
        if line.startswith("## "):
            section, columns = line[3:], []
        elif line.startswith("|"):
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            if not columns:
                columns = cells
            elif ratio := _ratio(cells, columns):
                yield section, *ratio


def _ratio(cells: list[str], columns: list[str]) -> tuple[str, float] | None:
    """The peer and the ratio of a row, if it has one."""
    named = next((n for n, column in enumerate(columns) if column.startswith("ratio")), None)
    if named is None or len(cells) <= named or not re.fullmatch(r"[\d.]+", cells[named]):
        return None
    ratio = float(cells[named])
    if "peer" in columns:
        return re.sub(r",.*| \d.*", "", cells[columns.index("peer")]), ratio
    is_ours = any(cell.startswith("**") for cell in cells)  # tables with a row for each reader mark ours
    peer = columns[named].removeprefix("ratio to ")
    return (peer, ratio) if is_ours and ratio > 0 else None


def _place(ratio: float) -> float:
    """Where a ratio is on the axis."""
    bounded = min(max(ratio, _LEAST), _MOST)
    share = math.log(bounded / _LEAST) / math.log(_MOST / _LEAST)
    return _LEFT + share * (_WIDTH - _LEFT - 30)


if __name__ == "__main__":
    PICTURE.write_text(draw(Path("docs/benchmarks.md").read_text()))
