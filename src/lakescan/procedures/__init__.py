"""Iceberg's procedures (`CALL catalog.system.name(...)`) as functions, whose results are Arrow tables."""

from lakescan.procedures.changelog import changes_of
from lakescan.procedures.declaration import Call, Parameter, Procedure
from lakescan.procedures.registry import PROCEDURES, bound, call, procedure_named
from lakescan.procedures.sources import SourceTable

__all__ = [
    "PROCEDURES",
    "Call",
    "Parameter",
    "Procedure",
    "SourceTable",
    "bound",
    "call",
    "changes_of",
    "procedure_named",
]
