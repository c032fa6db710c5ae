"""Scan reports that go to the server of a REST catalog (`reportMetrics`)."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

from lakescan.catalogs.identifiers import Identifier
from lakescan.catalogs.registry import connection
from lakescan.catalogs.rest_session import REPORT_METRICS, RestSession, is_rest, message_of
from lakescan.errors import UnsupportedFeature
from lakescan.planning.report import ScanReport
from lakescan.planning.rest_report import as_rest

_LOG = logging.getLogger("lakescan.metrics")


@dataclass(frozen=True)
class CatalogReporter:
    """Sends reports of a table's scans to its catalog. What fails is logged: a scan does not depend on it."""

    table: Identifier

    @staticmethod
    def of(table: Identifier) -> CatalogReporter:
        """A reporter; raises `UnsupportedFeature` for a catalog that takes no reports."""
        catalog = connection(table.catalog)
        if not (is_rest(catalog) and RestSession(catalog).has(REPORT_METRICS)):
            raise UnsupportedFeature(
                f"reports of scans to catalog {table.catalog!r}",
                f"Only catalogs of type rest take them, whose servers have {REPORT_METRICS}.",
            )
        return CatalogReporter(table)

    def report(self, report: ScanReport) -> None:
        """Send the report, right after planning."""
        body: dict[str, Any] = {**as_rest(report), "report-type": "scan-report", "table-name": str(self.table)}
        try:
            session = RestSession(connection(self.table.catalog))
            response = session.post(f"{session.table_path(self.table.within)}/metrics", body)
        except Exception as error:
            _LOG.warning("%s: a report of a scan was not sent: %s", self.table, error)
            return
        if response.status_code >= 300:
            _LOG.warning("%s: the catalog took no report of a scan: %s", self.table, message_of(response))
