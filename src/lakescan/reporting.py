"""Metrics reporters, which receive the report of every plan (Iceberg's `MetricsReporter`).

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
    """Receives scan reports: keeps, logs or sends them."""

    def report(self, report: ScanReport) -> None:
        """Receive the report of a plan, right after planning.

        Args:
            report: What was read and skipped, and how long it took.

        Example:
            >>> class Printing:
            ...     def report(self, report: lakescan.ScanReport) -> None:
            ...         print(report.metrics.result_data_files)
            >>> scan.report_to(Printing()).to_arrow()
        """


@dataclass
class InMemoryReporter:
    """Keeps all reports in memory, newest last."""

    reports: list[ScanReport] = field(default_factory=list)

    def report(self, report: ScanReport) -> None:
        """Append the report to `reports`."""
        self.reports.append(report)


class LoggingReporter:
    """Logs each report as one line of JSON (Iceberg's REST `ScanReport`) to the logger `lakescan.metrics`."""

    def report(self, report: ScanReport) -> None:
        """Log the report at level INFO."""
        _LOG.info("%s", json.dumps(as_rest(report)))
