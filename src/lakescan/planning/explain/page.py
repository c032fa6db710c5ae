"""Explanations of plans as text, as a panel for the terminal, and as a self-contained HTML page with SVG charts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakescan.common.html import pre_block
from lakescan.errors import missing_dependency
from lakescan.planning.explain.summary import Bin, Stage, Summary, human_bytes, summarise
from lakescan.planning.plan import ScanPlan

if TYPE_CHECKING:
    from rich.console import RenderableType


def plans_as_html(plans: Sequence[ScanPlan], title: str = "lakescan plan") -> str:
    """Return the HTML page for one or more plans."""
    style = files("lakescan.planning.explain").joinpath("page.css").read_text()
    body = "\n".join(_section(summarise(plan)) for plan in plans)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{style}</style></head>\n"
        f"<body><main><h1>{escape(title)}</h1>\n{body}</main></body></html>\n"
    )


def write_html(plans: Sequence[ScanPlan], path: str | Path, title: str = "lakescan plan") -> Path:
    """Write the HTML page for plans to a file; return its path."""
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(plans_as_html(plans, title), encoding="utf-8")
    return target


def _section(summary: Summary) -> str:
    tiles = [
        ("files", f"{summary.files:,}"),
        ("data to read", human_bytes(summary.file_bytes)),
        ("deletes to read", human_bytes(summary.delete_bytes)),
        ("task groups", f"{len(summary.group_bytes):,}"),
        ("planned in", f"{summary.seconds * 1000:.0f} ms"),
    ]
    cards = "".join(f'<div class="tile"><b>{escape(v)}</b><span>{escape(n)}</span></div>' for n, v in tiles)
    lines = [(summary.state, summary.snapshot), ("filter", summary.filter), ("columns", ", ".join(summary.columns))]
    about = "".join(f'<p class="about"><span>{escape(n)}</span> <code>{escape(v)}</code></p>' for n, v in lines)
    return (
        f'<section class="plan"><header><span class="badge">{escape(summary.format)}</span>'
        f"<h2>{escape(summary.table)}</h2></header>"
        f"{about}"
        f'<div class="tiles">{cards}</div>'
        f"<figure class='wide'><figcaption>From {escape(summary.stages[0].name)} to rows</figcaption>"
        f"{_funnel(summary.stages)}</figure>"
        f'<div class="pair">{_figures(summary)}</div>'
        f"{_hints(summary)}{_residuals(summary)}{_costly(summary)}</section>"
    )


def _figures(summary: Summary) -> str:
    """Return HTML of the four small charts, without the chart of deletes if no file has deletes."""
    balance = _balance(summary.group_bytes, summary.group_splits)
    pictures = [
        ("Sizes of the files to read", _histogram(summary.file_sizes, "file-sizes", "files")),
        ("Sizes of the splits", _histogram(summary.split_sizes, "split-sizes", "splits")),
        ("Deletes of each file", _histogram(summary.deletes_per_file, "deletes-per-file", "files")),
        ("Balance of the task groups", balance),
    ]
    if not summary.deletes_per_file:
        del pictures[2]
    return "".join(f"<figure><figcaption>{title}</figcaption>{picture}</figure>" for title, picture in pictures)


def _funnel(stages: Sequence[Stage]) -> str:
    """Return an SVG chart with one bar per stage: the share of its items that are kept."""
    row, label, bar = 30, 210, 260
    parts = []
    for i, stage in enumerate(stages):
        y = i * row
        total = stage.kept + stage.skipped
        kept = bar * stage.kept / total if total else 0
        parts.append(f'<text x="{label - 12}" y="{y + 19}" text-anchor="end">{escape(stage.name)}</text>')
        parts.append(f'<rect class="track" x="{label}" y="{y + 5}" width="{bar}" height="20" rx="4"/>')
        parts.append(f'<rect class="kept" x="{label}" y="{y + 5}" width="{max(kept, 2):.1f}" height="20" rx="4"/>')
        parts.append(
            f'<text class="number" x="{label + bar + 12}" y="{y + 19}">{stage.kept:,}{_skip_label(stage)}</text>'
        )
    height = row * len(stages)
    return f'<svg class="funnel" viewBox="0 0 {WIDTH + 190} {height}" role="img">{"".join(parts)}</svg>'


def _skip_label(stage: Stage) -> str:
    if not stage.skipped:
        return ""
    return f'<tspan class="muted">   {stage.skipped:,} skipped: {escape(stage.note)}</tspan>'


def _histogram(bins: Sequence[Bin], kind: str, what: str) -> str:
    """Return an SVG chart with one column per bin, or an HTML paragraph without bins.

    `kind` is a CSS class, and `what` the plural of the items that are counted.
    """
    if not bins:
        return f'<p class="muted">no {what}</p>'
    labels, counts = [each.label for each in bins], [each.count for each in bins]
    return columns_chart(
        counts, labels, f"histogram {kind}", [f"from {each.label}: {each.count:,} {what}" for each in bins]
    )


def _balance(group_bytes: Sequence[int], group_splits: Sequence[int], most: int = 48) -> str:
    """Return an SVG chart of the bytes of each task group, in order; an HTML paragraph without groups.

    Of more than `most` groups, an evenly spaced sample is drawn.
    """
    if not group_bytes:
        return '<p class="muted">no groups</p>'
    step = max(1, math.ceil(len(group_bytes) / most))
    shown = list(range(0, len(group_bytes), step))
    hints = [f"group {i}: {human_bytes(group_bytes[i])}, {group_splits[i]} splits" for i in shown]
    labels = [str(i) for i in shown]
    return columns_chart([group_bytes[i] for i in shown], labels, "balance", hints, human_bytes(max(group_bytes)))


def _hints(summary: Summary) -> str:
    items = "".join(f"<li>{escape(text)}</li>" for text in summary.hints)
    return f'<h3>Hints</h3><ul class="hints">{items}</ul>' if items else ""


def _residuals(summary: Summary) -> str:
    if summary.filter == "true":
        return ""
    rows = "".join(f"<tr><td>{n:,}</td><td><code>{escape(text)}</code></td></tr>" for text, n in summary.residuals)
    return (
        "<h3>Residual filters, evaluated on rows</h3>"
        f"<table><thead><tr><th>splits</th><th>residual</th></tr></thead><tbody>{rows}</tbody></table>"
    )


def _costly(summary: Summary) -> str:
    if not summary.costly:
        return ""
    rows = "".join(
        f"<tr><td>{human_bytes(f.size)}</td><td>{'?' if f.rows is None else f'{f.rows:,}'}</td>"
        f"<td>{_delete_cell(f.deletes, f.delete_bytes)}</td><td><code>{escape(_truncate(f.path))}</code></td></tr>"
        for f in summary.costly
    )
    return (
        "<h3>The most expensive files</h3><table><thead><tr><th>size</th><th>rows</th><th>deletes</th><th>file</th>"
        f"</tr></thead><tbody>{rows}</tbody></table>"
    )


def _delete_cell(count: int, size: int) -> str:
    return f"{count:,} ({human_bytes(size)})" if count else "none"


def _truncate(path: str) -> str:
    return path if len(path) <= 90 else f"…{path[-89:]}"


WIDTH = 640


def columns_chart(values: Sequence[int], labels: Sequence[str], kind: str, hints: Sequence[str], top: str = "") -> str:
    """Return an SVG chart with a column for each value, which must be at least one.

    `labels` are below the columns (of many, only some), `kind` is the CSS class, and `hints` are tooltips. `top` is
    text for the largest value; by default its number.
    """
    height, base, left = 150, 120, 8
    step = (WIDTH / 2 - 2 * left) / len(values)
    largest = max(values) or 1
    every = max(1, math.ceil(len(values) / 6))
    parts = [f'<line class="axis" x1="0" y1="{base}" x2="{WIDTH / 2}" y2="{base}"/>']
    for i, (value, label, hint) in enumerate(zip(values, labels, hints, strict=True)):
        tall = (base - 18) * value / largest
        x, width = left + i * step, max(min(step * 0.8, 44), 1)
        offset = x + (step - width) / 2
        parts.append(
            f'<rect class="kept" x="{offset:.1f}" y="{base - tall:.1f}" width="{width:.1f}" height="{tall:.1f}" rx="2">'
            f"<title>{escape(hint)}</title></rect>"
        )
        if i % every == 0:
            parts.append(f'<text x="{x + step / 2:.1f}" y="{base + 18}" text-anchor="middle">{escape(label)}</text>')
    parts.append(f'<text class="muted" x="{left}" y="11">{escape(top or f"up to {largest:,}")}</text>')
    return f'<svg class="{kind}" viewBox="0 0 {WIDTH // 2} {height}" role="img">{"".join(parts)}</svg>'


class PlanText(str):
    """A plan as text, which Python and notebooks show line by line instead of as a literal with `\\n`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))

    def _repr_html_(self) -> str:
        return pre_block(str(self))


def plan_as_text(plan: ScanPlan) -> str:
    """Return the explanation of a plan as plain text."""
    summary = summarise(plan)
    width = max(len(s.name) for s in summary.stages)
    lines = [f"{summary.format} {summary.table}", *(f"  {name}: {value}" for name, value in _heading(summary))]
    for stage in summary.stages:
        skipped = f"   (skipped {stage.skipped:,}: {stage.note})" if stage.skipped else ""
        lines.append(f"  {stage.name:<{width}}  {stage.kept:>12,}{skipped}")
    lines += [f"  {name}: {value}" for name, value in _details(summary)]
    return "\n".join(lines)


def plan_for_terminal(plan: ScanPlan) -> RenderableType:
    """Return the explanation of a plan for the terminal, as a rich panel that draws the funnel as bars."""
    try:
        from rich.console import Group
        from rich.panel import Panel
        from rich.table import Table
        from rich.text import Text
    except ImportError as error:
        raise missing_dependency("rich", "cli", "a plan drawn in the terminal") from error
    summary = summarise(plan)
    funnel = Table(box=None, pad_edge=False, expand=True)
    funnel.add_column("", no_wrap=True)
    funnel.add_column("kept", justify="right", no_wrap=True)
    funnel.add_column("", no_wrap=True)
    funnel.add_column("skipped", justify="right", no_wrap=True)
    funnel.add_column("why", ratio=1)
    for stage in summary.stages:
        bar = _bar(stage.kept, stage.kept + stage.skipped)
        skipped = f"{stage.skipped:,}" if stage.skipped else ""
        why = Text(stage.note if stage.skipped else "")
        funnel.add_row(Text(stage.name), f"{stage.kept:,}", bar, skipped, why)
    about = Text("\n".join(f"{name}: {value}" for name, value in _heading(summary)))
    details = Text("\n".join(f"{name}: {value}" for name, value in _details(summary)), style="dim")
    title = Text.assemble(f"{summary.format} ", (summary.table, "bold"))
    return Panel(Group(about, funnel, details), title=title, title_align="left")


def _heading(summary: Summary) -> list[tuple[str, str]]:
    return [(summary.state, summary.snapshot), ("filter", summary.filter), ("columns", ", ".join(summary.columns))]


def _details(summary: Summary) -> list[tuple[str, str]]:
    lines = [("to read", f"{human_bytes(summary.file_bytes)} of data, {human_bytes(summary.delete_bytes)} of deletes")]
    if summary.deletes:
        lines.append(("deletes", ", ".join(f"{n:,} {kind}" for kind, n in summary.deletes)))
    if summary.filter != "true":
        lines += [(f"residual of {n:,} splits", text) for text, n in summary.residuals]
    lines += [("hint", text) for text in summary.hints]
    return [*lines, ("planned in", f"{summary.seconds * 1000:.0f} ms")]


def _bar(kept: int, total: int, width: int = 14) -> str:
    filled = round(width * kept / total) if total else 0
    return "█" * filled + "░" * (width - filled)
