"""Sends scan and commit reports to catalogs: to their reporters, and to a REST catalog's server (`reportMetrics`)."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

from lakescan.catalogs.registry import connection, is_transaction, reporter_of, user_property
from lakescan.catalogs.rest_session import REPORT_METRICS, RestSession, is_rest, message_of
from lakescan.common.identifiers import Identifier
from lakescan.errors import UnsupportedFeature
from lakescan.planning.metrics_reporters import MetricsReporter, has_reporters, report_safely, report_to_process
from lakescan.planning.scan_report import CommitReport, ScanReport, as_rest

_LOG = logging.getLogger("lakescan.metrics")
_SENDS = "rest-metrics-reporting-enabled"


@dataclass(frozen=True)
class CatalogReporter:
    """Sends reports about a table to the server of its REST catalog. A failure is only logged."""

    table: Identifier

    @staticmethod
    def create(table: Identifier) -> CatalogReporter:
        """Create a reporter; raises `UnsupportedFeature` unless the catalog's server has the endpoint for reports."""
        catalog = connection(table.catalog)
        if not (is_rest(catalog) and RestSession(catalog).has(REPORT_METRICS)):
            raise UnsupportedFeature(
                f"reports of scans to catalog {table.catalog!r}",
                f"Only catalogs of type rest whose servers have {REPORT_METRICS} accept them.",
            )
        return CatalogReporter(table)

    def report(self, report: ScanReport | CommitReport) -> None:
        """Send a report to the server, and wait for the response. A failure or refusal is only logged."""
        kind = "commit" if isinstance(report, CommitReport) else "scan"
        body: dict[str, Any] = {**as_rest(report), "report-type": f"{kind}-report", "table-name": str(self.table)}
        try:
            session = RestSession(connection(self.table.catalog))
            response = session.post(f"{session.table_path(self.table.within)}/metrics", body)
        except Exception as error:
            _LOG.warning("%s: a report of a %s was not sent: %s", self.table, kind, error)
            return
        if response.status_code >= 300:
            _LOG.warning("%s: the catalog refused a report of a %s: %s", self.table, kind, message_of(response))


@dataclass(frozen=True)
class TableReporter:
    """Passes reports about a table to its catalog's reporters, which are looked up for each report.

    These are the catalog's property `metrics-reporter-impl` and, with `rest-metrics-reporting-enabled=true`, the server
    of the catalog.
    """

    table: Identifier

    @staticmethod
    def find(table: Identifier) -> TableReporter | None:
        """Return the reporter of a table; None if its catalog has no reporter."""
        reporter = TableReporter(table)
        return reporter if reporter._reporters() else None

    def report(self, report: ScanReport | CommitReport) -> None:
        """Pass the report to all reporters of the catalog. Their failures are only logged."""
        for each in self._reporters():
            report_safely(each, report)

    def _reporters(self) -> list[MetricsReporter]:
        found: list[MetricsReporter] = [each] if (each := reporter_of(self.table.catalog)) is not None else []
        if (user_property(self.table.catalog, _SENDS) or "").lower() == "true":
            catalog = connection(self.table.catalog)
            if is_rest(catalog) and RestSession(catalog).has(REPORT_METRICS):
                found.append(CatalogReporter(self.table))
        return found


def report_commit(table: Identifier, report: CommitReport) -> None:
    """Pass the report of a commit to the reporters of the process and of the table's catalog."""
    report_to_process(report)
    if (reporter := TableReporter.find(table)) is not None:
        reporter.report(report)


def wants_commits(table: Identifier) -> bool:
    """Return whether any reporter receives reports of commits to a table.

    False for a table in a transaction, which commits nothing until it ends.
    """
    if is_transaction(table.catalog):  # nothing is committed until it ends
        return False
    return has_reporters() or TableReporter.find(table) is not None
