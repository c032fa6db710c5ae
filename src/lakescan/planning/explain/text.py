"""Plans as text: plain for logs and notebooks, and as a rich renderable for the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lakescan.common.html import pre_block
from lakescan.errors import missing_dependency
from lakescan.planning.explain.summary import Summary, human_bytes, summarise
from lakescan.planning.plan import ScanPlan

if TYPE_CHECKING:
    from rich.console import RenderableType


class PlanText(str):
    """A plan as text, which Python and notebooks show with its lines, and not as a literal with `\\n`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))

    def _repr_html_(self) -> str:
        return pre_block(str(self))


def plan_as_text(plan: ScanPlan) -> str:
    """Return the plan as plain text."""
    summary = summarise(plan)
    width = max(len(s.name) for s in summary.stages)
    lines = [f"{summary.format} {summary.table}", *(f"  {name}: {value}" for name, value in _heading(summary))]
    for stage in summary.stages:
        skipped = f"   (skipped {stage.skipped:,}: {stage.note})" if stage.skipped else ""
        lines.append(f"  {stage.name:<{width}}  {stage.kept:>12,}{skipped}")
    lines += [f"  {name}: {value}" for name, value in _details(summary)]
    return "\n".join(lines)


def plan_for_terminal(plan: ScanPlan) -> RenderableType:
    """Return the plan as a rich renderable: a panel that draws the funnel as bars."""
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
