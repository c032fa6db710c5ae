"""Metrics reporters, which receive the report of every plan and Iceberg commit (Iceberg's `MetricsReporter`).

A scan has reporters of its own (`Scan.report_to`), a catalog has one (its property `metrics-reporter-impl`), and this
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
IMPLEMENTATION = "metrics-reporter-impl"  # the property of catalogs


class MetricsReporter(Protocol):
    """Receives reports: keeps, logs or sends them."""

    def report(self, report: Any) -> None:
        """Receive the report of a plan, right after planning, or of a commit, right after it.

        Args:
            report: A `ScanReport`: what was read and skipped, and how long it took. The reporters of catalogs and of
                the process also receive a `CommitReport` for each commit to an Iceberg table of a catalog.

        Example:
            >>> class Printing:
            ...     def report(self, report: lakescan.ScanReport) -> None:
            ...         print(report.metrics.result_data_files)
            >>> scan.report_to(Printing()).to_arrow()
        """


@dataclass
class InMemoryReporter:
    """Keeps all reports in memory, newest last."""

    reports: list[Any] = field(default_factory=list)

    def report(self, report: Any) -> None:
        """Append the report to `reports`."""
        self.reports.append(report)


class LoggingReporter:
    """Logs each report as one line of JSON, in the form of Iceberg's REST catalog, to the logger `lakescan.metrics`.

    The values that filters compare with are replaced by their type and magnitude.
    """

    def report(self, report: Any) -> None:
        """Log the report at level INFO."""
        _LOG.info("%s", json.dumps(as_rest(report)))


@dataclass(frozen=True)
class _Calling:
    """A reporter that calls a function."""

    function: Callable[[Any], object]

    def report(self, report: Any) -> None:
        self.function(report)


_REPORTERS: list[MetricsReporter] = []  # of this process


def add_reporter(reporter: MetricsReporter | Callable[[Any], object]) -> None:
    """Hand the reports of all scans that this process plans, and of its commits to Iceberg tables, to a reporter.

    Queries in SQL and frames of Spark are among them. A reporter that fails is logged, and does not fail the scan.

    Args:
        reporter: An object with a method `report`, or a function that takes a report.

    Raises:
        InvalidOption: It is neither.

    Example:
        >>> lakescan.planning.metrics_reporters.add_reporter(lakescan.planning.metrics_reporters.LoggingReporter())
    """
    _REPORTERS.append(as_reporter(reporter))


def remove_reporter(reporter: MetricsReporter | Callable[[Any], object]) -> None:
    """Undo `add_reporter`; a reporter that was not added is ignored.

    Example:
        >>> lakescan.planning.metrics_reporters.remove_reporter(reporter)
    """
    _REPORTERS[:] = [each for each in _REPORTERS if each is not reporter and each != _Calling(reporter)]  # type: ignore[arg-type]


def as_reporter(given: object) -> MetricsReporter:
    """Return a reporter: an object with a method `report`, a function, or the text `package.module:attribute` of one.

    A class is called without arguments. Raises `InvalidOption` for anything else, and if it cannot be imported.
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
    """Whether this process has reporters."""
    return bool(_REPORTERS)


def report_to_process(report: ScanReport | CommitReport) -> None:
    """Hand a report to the reporters of this process."""
    for each in tuple(_REPORTERS):
        report_safely(each, report)


def report_safely(reporter: MetricsReporter, report: ScanReport | CommitReport) -> None:
    """Hand a report to a reporter; a failure is logged, since neither scans nor commits depend on it."""
    try:
        reporter.report(report)
    except Exception as error:
        _LOG.warning("the metrics reporter %r failed: %s", reporter, error)
