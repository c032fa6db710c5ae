"""The health of tables: what their files and metadata cost readers, and the maintenance that mends it."""

from lakescan.maintenance.health.maintain import MaintainResult, MaintenanceStep, Step, maintain
from lakescan.maintenance.health.measure import measured
from lakescan.maintenance.health.table_health import Finding, TableHealth

__all__ = ["Finding", "MaintainResult", "MaintenanceStep", "Step", "TableHealth", "maintain", "measured"]
