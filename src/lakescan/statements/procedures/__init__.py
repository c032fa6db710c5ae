"""Iceberg's procedures (`CALL catalog.system.name(...)`) as functions, whose results are Arrow tables."""

from lakescan.statements.procedures.changelog import changes_of
from lakescan.statements.procedures.declaration import Call, Parameter, Procedure
from lakescan.statements.procedures.registry import PROCEDURES, bound, call, procedure_named
from lakescan.statements.procedures.sources import SourceTable

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
