"""Maintain a table by its health: run each step that it needs, in order, even if another step fails."""

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
    """A maintenance step, named after the `Table` method that it calls.

    - `run`: runs the step and returns its result.
    - `look`: returns a preview of the result, for a dry run; None if the finding's cost is the preview.
    - `always`: whether the step runs without a finding, since metadata does not show whether it is needed. It does not
      run for a table whose files may not be removed.
    """

    name: str
    run: Callable[[], Any]
    look: Callable[[], Any] | None = None
    always: bool = False


@dataclass(frozen=True)
class MaintenanceStep:
    """The outcome of one step of `Table.maintain`.

    Attributes:
        name: The method of `Table` that it called, such as 'compact'.
        outcome: What it did, or would do, as a sentence; empty if it failed.
        error: The error if it failed, else None.

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
    """The steps that `Table.maintain` ran or, with `dry_run`, would run.

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
        """Return the result as an HTML table for notebooks, one row per step."""
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

    Args:
        table: The table's name, for messages.
        look: Measures the table's health; called again after each step that may have changed the table.
        steps: All steps, in order.
        skip: Names of steps to leave out.
        dry_run: Only describe the steps.
        report: Called with the name of each step before it runs.

    A step that fails is logged and recorded, and the next ones run, since no step depends on another. Raises
    `InvalidOption` for unknown steps to `skip`.
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
