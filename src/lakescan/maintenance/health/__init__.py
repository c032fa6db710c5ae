"""Table health: the costs of a table's files and metadata for readers, and the maintenance that reduces them."""

from lakescan.maintenance.health.maintain import MaintainResult, MaintenanceAction, MaintenanceStep, maintain
from lakescan.maintenance.health.measure import measure_health
from lakescan.maintenance.health.table_health import Finding, TableHealth

__all__ = [
    "Finding",
    "MaintainResult",
    "MaintenanceAction",
    "MaintenanceStep",
    "TableHealth",
    "maintain",
    "measure_health",
]
