"""Metrics reporters, which receive the report of every plan and Iceberg commit, like Iceberg's `MetricsReporter`.

A scan has its own reporters (`Scan.report_to`), a catalog may have one (its property `metrics-reporter-impl`), and this
process may have some (`add_reporter`).

>>> reports = InMemoryReporter()
>>> lakescan.table(path).scan().report_to(reports, LoggingReporter()).to_arrow()
>>> reports.reports[0].metrics.result_data_files
"""

from __future__ import annotations

import importlib
import json
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from lakescan.errors import InvalidOption
from lakescan.planning.scan_report import CommitReport, ScanReport, as_rest

_LOG = logging.getLogger("lakescan.metrics")
IMPLEMENTATION = "metrics-reporter-impl"  # a property of catalogs


class MetricsReporter(Protocol):
    """Interface of reporters, which store, log or send reports."""

    def report(self, report: Any) -> None:
        """Receive the report of a plan right after planning, or of a commit right after the commit.

        Args:
            report: A `ScanReport` with the files read and skipped, and the planning time. Reporters of catalogs and of
                the process also receive a `CommitReport` for each commit to an Iceberg table of a catalog.

        Example:
            >>> class Printing:
            ...     def report(self, report: lakescan.ScanReport) -> None:
            ...         print(report.metrics.result_data_files)
            >>> scan.report_to(Printing()).to_arrow()
        """


@dataclass
class InMemoryReporter:
    """A reporter that appends all reports to the list `reports`, newest last."""

    reports: list[Any] = field(default_factory=list)

    def report(self, report: Any) -> None:
        """Append the report to `reports`."""
        self.reports.append(report)


class LoggingReporter:
    """A reporter that logs each report as one line of JSON to the logger `lakescan.metrics`.

    The JSON is that of Iceberg's REST catalog. Literals of filters are replaced by their type and magnitude.
    """

    def report(self, report: Any) -> None:
        """Log the report at level INFO."""
        _LOG.info("%s", json.dumps(as_rest(report)))


@dataclass(frozen=True)
class _Calling:
    """A reporter that calls a function with each report."""

    function: Callable[[Any], object]

    def report(self, report: Any) -> None:
        self.function(report)


_REPORTERS: list[MetricsReporter] = []  # of this process


def add_reporter(reporter: MetricsReporter | Callable[[Any], object]) -> None:
    """Send the reports of all scans that this process plans, and of its commits to Iceberg tables, to a reporter.

    This includes SQL queries and Spark data frames. If the reporter fails, this is logged, and the scan goes on.

    Args:
        reporter: An object with a method `report`, or a function that takes a report.

    Raises:
        InvalidOption: `reporter` is neither.

    Example:
        >>> lakescan.planning.metrics_reporters.add_reporter(lakescan.planning.metrics_reporters.LoggingReporter())
    """
    _REPORTERS.append(as_reporter(reporter))


def remove_reporter(reporter: MetricsReporter | Callable[[Any], object]) -> None:
    """Stop sending reports to `reporter`, which `add_reporter` added. Other reporters are ignored.

    Example:
        >>> lakescan.planning.metrics_reporters.remove_reporter(reporter)
    """
    _REPORTERS[:] = [each for each in _REPORTERS if each is not reporter and each != _Calling(reporter)]  # type: ignore[arg-type]


def as_reporter(given: object) -> MetricsReporter:
    """Convert to a reporter: an object with a method `report`, a function, or a text `package.module:attribute` of one.

    A class is called without arguments. Raises `InvalidOption` for anything else, or if the import fails.
    """
    if isinstance(given, str):
        module, _, attribute = given.partition(":")
        try:
            imported: object = getattr(importlib.import_module(module), attribute)
        except (ImportError, AttributeError, TypeError, ValueError) as error:
            raise InvalidOption(
                f"no metrics reporter at {given!r}: write it as package.module:attribute ({error})"
            ) from error
        return as_reporter(imported)
    if isinstance(given, type):
        return as_reporter(given())
    if callable(getattr(given, "report", None)):
        return given  # type: ignore[return-value]
    if callable(given):
        return _Calling(given)
    raise InvalidOption(f"{given!r} is not a metrics reporter: give an object with a method report, or a function")


def has_reporters() -> bool:
    """Return whether this process has reporters."""
    return bool(_REPORTERS)


def report_to_process(report: ScanReport | CommitReport) -> None:
    """Send a report to the reporters of this process, which `add_reporter` added; their failures are only logged."""
    for each in tuple(_REPORTERS):
        report_safely(each, report)


def report_safely(reporter: MetricsReporter, report: ScanReport | CommitReport) -> None:
    """Send a report to a reporter. Failures are only logged, since neither scans nor commits depend on reports."""
    try:
        reporter.report(report)
    except Exception as error:
        _LOG.warning("the metrics reporter %r failed: %s", reporter, error)
