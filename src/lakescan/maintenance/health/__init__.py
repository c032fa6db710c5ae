"""The health of tables: what their files and metadata cost readers, and the maintenance that mends it."""

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
