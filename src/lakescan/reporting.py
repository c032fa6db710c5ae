"""Metrics reporters: what is told of every plan, as Iceberg's `MetricsReporter` is.

>>> reports = InMemoryReporter()
>>> lakescan.table(path).scan().report_to(reports, LoggingReporter()).to_arrow()
>>> reports.reports[0].metrics.result_data_files
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass, field
from typing import Protocol

from lakescan.planning.report import ScanReport
from lakescan.planning.rest_report import as_rest

_LOG = logging.getLogger("lakescan.metrics")


class MetricsReporter(Protocol):
    """What takes the reports of plans: keeps them, logs them, sends them somewhere."""

    def report(self, report: ScanReport) -> None:
        """Take the report of a plan that was just made."""


@dataclass
class InMemoryReporter:
    """Keeps the reports, the newest last."""

    reports: list[ScanReport] = field(default_factory=list)

    def report(self, report: ScanReport) -> None:
        """Keep it."""
        self.reports.append(report)


class LoggingReporter:
    """Logs each report as one line of JSON (Iceberg's REST `ScanReport`) to the logger `lakescan.metrics`."""

    def report(self, report: ScanReport) -> None:
        """Log it."""
        _LOG.info("%s", json.dumps(as_rest(report)))
