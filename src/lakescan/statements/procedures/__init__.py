"""Iceberg's procedures (`CALL catalog.system.name(...)`) as functions that return Arrow tables."""

from lakescan.statements.procedures.changelog import changes_of
from lakescan.statements.procedures.declaration import Parameter, Procedure, ProcedureCall, SourceTable
from lakescan.statements.procedures.registry import PROCEDURES, bind_arguments, call, find_procedure

__all__ = [
    "PROCEDURES",
    "Parameter",
    "Procedure",
    "ProcedureCall",
    "SourceTable",
    "bind_arguments",
    "call",
    "changes_of",
    "find_procedure",
]
