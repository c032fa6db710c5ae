"""Plans as text: plain for logs and notebooks, and for a terminal by rich."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakescan.errors import missing_dependency
from lakescan.explain.summary import Summary, human_bytes, summarise
from lakescan.planning.plan import ScanPlan

if TYPE_CHECKING:
    from rich.console import RenderableType


def plan_as_text(plan: ScanPlan) -> str:
    """The plan in plain text."""
    facts = summarise(plan)
    width = max(len(s.name) for s in facts.stages)
    lines = [f"{facts.format} {facts.table}", *(f"  {name}: {value}" for name, value in _heading(facts))]
    for stage in facts.stages:
        skipped = f"   (skipped {stage.skipped:,}: {stage.note})" if stage.skipped else ""
        lines.append(f"  {stage.name:<{width}}  {stage.kept:>12,}{skipped}")
    lines += [f"  {name}: {value}" for name, value in _details(facts)]
    return "\n".join(lines)


def plan_for_terminal(plan: ScanPlan) -> RenderableType:
    """The plan as a rich renderable: a panel with the funnel drawn in bars."""
    try:
        from rich.console import Group
        from rich.panel import Panel
        from rich.table import Table
        from rich.text import Text
    except ImportError as error:
        raise missing_dependency("rich", "cli", "a plan drawn in the terminal") from error
    facts = summarise(plan)
    funnel = Table(box=None, pad_edge=False, expand=True)
    funnel.add_column("", no_wrap=True)
    funnel.add_column("kept", justify="right", no_wrap=True)
    funnel.add_column("", no_wrap=True)
    funnel.add_column("skipped", justify="right", no_wrap=True)
    funnel.add_column("why", ratio=1)
    for stage in facts.stages:
        bar = _bar(stage.kept, stage.kept + stage.skipped)
        skipped = f"{stage.skipped:,}" if stage.skipped else ""
        why = Text(stage.note if stage.skipped else "")
        funnel.add_row(Text(stage.name), f"{stage.kept:,}", bar, skipped, why)
    about = Text("\n".join(f"{name}: {value}" for name, value in _heading(facts)))
    details = Text("\n".join(f"{name}: {value}" for name, value in _details(facts)), style="dim")
    title = Text.assemble(f"{facts.format} ", (facts.table, "bold"))
    return Panel(Group(about, funnel, details), title=title, title_align="left")


def _heading(facts: Summary) -> list[tuple[str, str]]:
    return [(facts.state, facts.snapshot), ("filter", facts.filter), ("columns", ", ".join(facts.columns))]


def _details(facts: Summary) -> list[tuple[str, str]]:
    found = [("to read", f"{human_bytes(facts.file_bytes)} of data, {human_bytes(facts.delete_bytes)} of deletes")]
    if facts.deletes:
        found.append(("deletes", ", ".join(f"{n:,} {kind}" for kind, n in facts.deletes)))
    if facts.filter != "true":
        found += [(f"residual of {n:,} splits", text) for text, n in facts.residuals]
    found += [("hint", text) for text in facts.hints]
    return [*found, ("planned in", f"{facts.seconds * 1000:.0f} ms")]


def _bar(kept: int, total: int, width: int = 14) -> str:
    filled = round(width * kept / total) if total else 0
    return "█" * filled + "░" * (width - filled)
