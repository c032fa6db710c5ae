"""Maintenance of a table by its health: each step that it needs, in order, whatever becomes of the others."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lakescan.common.html import grid, pre_block, section
from lakescan.errors import InvalidOption, nearest
from lakescan.maintenance.health.table_health import Finding, TableHealth

_LOG = logging.getLogger("lakescan")


@dataclass(frozen=True)
class MaintenanceAction:
    """A step of maintenance: a method of `Table` by its name, what runs it, and what tells what it would do.

    - `run`: does it; `look`: says what it would do, None if the finding says so.
    - `always`: whether it is done without a finding, since metadata alone does not tell whether it is needed; not for a
      table whose files may not be removed.
    """

    name: str
    run: Callable[[], Any]
    look: Callable[[], Any] | None = None
    always: bool = False


@dataclass(frozen=True)
class MaintenanceStep:
    """What became of one step of `Table.maintain`.

    Attributes:
        name: The method of `Table` that it called, such as 'compact'.
        outcome: What it did, or would do, as a sentence; empty if it failed.
        error: Why it failed; None if it did not.

    Example:
        >>> print(orders.maintain().steps[0])
        compact: compacted 40 files into 1 (12.1 MB into 11.8 MB)
    """

    name: str
    outcome: str
    error: str | None = None

    def __str__(self) -> str:
        text = self.outcome if self.error is None else f"failed: {self.error}"
        return f"{self.name.replace('_', ' ')}: {text}"


@dataclass(frozen=True, repr=False)
class MaintainResult:
    """What `Table.maintain` did; with `dry_run`, what it would do.

    Attributes:
        table: The table's name, or its location.
        steps: The steps that the table needed, in order.
        dry_run: Whether nothing was changed.

    Example:
        >>> print(orders.maintain(dry_run=True))
        compact: would rewrite 40 files, 12.1 MB
    """

    table: str
    steps: tuple[MaintenanceStep, ...] = ()
    dry_run: bool = False

    @property
    def failed(self) -> tuple[MaintenanceStep, ...]:
        """The steps that failed."""
        return tuple(step for step in self.steps if step.error is not None)

    def __str__(self) -> str:
        return "\n".join(map(str, self.steps)) if self.steps else "nothing to do"

    def __repr__(self) -> str:
        return f"MaintainResult({'; '.join(map(str, self.steps)) or 'nothing to do'})"

    def _repr_html_(self) -> str:
        """The result as notebooks show it: a row a step."""
        title = f"Maintenance of {self.table}{' (nothing changed)' if self.dry_run else ''}"
        if not self.steps:
            return section(title, pre_block(str(self)))
        rows = [(each.name.replace("_", " "), str(each).partition(": ")[2]) for each in self.steps]
        return section(title, grid(("step", "outcome"), rows))


def maintain(
    table: str,
    look: Callable[[], TableHealth],
    steps: Sequence[MaintenanceAction],
    skip: Sequence[str] = (),
    *,
    dry_run: bool = False,
    report: Callable[[str], None] = lambda name: None,
) -> MaintainResult:
    """Run the steps that a table needs.

    The table is looked at anew before each step, if one before it has changed it. A step that fails is logged and
    recorded, and the next ones run: none depends on another. `report` is told the name of each step as it begins.
    Raises `InvalidOption` for steps to `skip` that there are not.
    """
    known = [step.name for step in steps]
    for name in skip:
        if name not in known:
            raise InvalidOption(f"there is no step {name!r} to skip.{nearest(name, known)} Steps: {', '.join(known)}")
    health, done = look(), list[MaintenanceStep]()
    findings = _findings_by_step(health)
    for step in steps:
        if step.name in skip or not (step.name in findings or (step.always and health.owns_files)):
            continue
        report(step.name)
        try:
            outcome = _describe_step(step, findings) if dry_run else str(step.run())
        except Exception as error:
            _LOG.warning("maintenance of %s: %s failed: %s", table, step.name, error)
            done.append(MaintenanceStep(step.name, "", f"{type(error).__name__}: {error}"))
        else:
            done.append(MaintenanceStep(step.name, outcome))
        if not dry_run:
            findings = _findings_by_step(look())
    return MaintainResult(table, tuple(done), dry_run)


def _findings_by_step(health: TableHealth) -> Mapping[str, Finding]:
    return {finding.step: finding for finding in health.findings if finding.step}


def _describe_step(step: MaintenanceAction, findings: Mapping[str, Finding]) -> str:
    if step.look is not None:
        return str(step.look())
    finding = findings[step.name]
    return "would " + finding.cost.replace("rewrites", "rewrite", 1).replace("removes", "remove", 1)
