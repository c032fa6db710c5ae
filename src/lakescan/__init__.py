"""lakescan: Apache Iceberg and Delta Lake tables in PySpark with no JARs, and in process over Arrow.

>>> import lakescan
>>> scan = lakescan.table("s3://lake/events").scan().where("day >= '2026-01-01'").select("id", "day")
>>> scan.to_arrow()          # or to_pandas(), to_polars(), to_duckdb(), to_spark(spark), to_ray(), ...
"""

import importlib
from typing import TYPE_CHECKING, Any

from lakescan import errors
from lakescan.errors import (
    AmbiguousMerge,
    CommitConflict,
    CommitStateUnknown,
    CorruptData,
    CorruptMetadata,
    CreatedConcurrently,
    FeatureInUse,
    InvalidFilter,
    InvalidOption,
    InvalidStatement,
    IsAView,
    LakescanError,
    LimitExceeded,
    LocationRefused,
    MissingDependency,
    MissingFile,
    NoSuchCatalog,
    NoSuchColumn,
    NoSuchMethod,
    NoSuchNamespace,
    NoSuchSnapshot,
    NoSuchTable,
    NotATable,
    NotEnoughMemory,
    NoTruthValue,
    QueryFailed,
    RowsChanged,
    SchemaChanged,
    SchemaMismatch,
    StorageError,
    TableExists,
    UnsupportedFeature,
)

if TYPE_CHECKING:
    from lakescan import spark
    from lakescan.api.alter import AlterBuilder
    from lakescan.api.catalog import Catalog, catalog
    from lakescan.api.changes import Changes
    from lakescan.api.convert import convert_to_delta
    from lakescan.api.open import table
    from lakescan.api.save import save
    from lakescan.api.scan import Scan
    from lakescan.api.stream import BatchStream
    from lakescan.api.table import Table
    from lakescan.api.transaction import Transaction
    from lakescan.api.view import View, ViewVersion
    from lakescan.cli.doctor import Check, Diagnosis, doctor
    from lakescan.common.cache import set_cache_limit
    from lakescan.common.identifiers import Identifier
    from lakescan.expressions.column import Column, col
    from lakescan.expressions.predicate import Predicate
    from lakescan.formats.increments import Backlog
    from lakescan.formats.snapshot_refs import SnapshotRef
    from lakescan.formats.table_format import Snapshot
    from lakescan.local.scan_tasks import ScanTask
    from lakescan.maintenance.health import Finding, MaintainResult, MaintenanceStep, TableHealth
    from lakescan.planning.delete_files import DeleteFile, DeleteKind
    from lakescan.planning.metrics_reporters import MetricsReporter
    from lakescan.planning.plan import ScanPlan
    from lakescan.planning.scan_report import ScanMetrics, ScanReport
    from lakescan.planning.task_groups import FileScanTask, TaskGroup, TaskGroups
    from lakescan.statements.rows.merge import MergeBuilder
    from lakescan.statements.select.query import Query
    from lakescan.statements.sql import sql
    from lakescan.storage.encryption import FileKey, KeyManager
    from lakescan.tables.results import (
        AlterResult,
        ChangeResult,
        CheckpointResult,
        CloneResult,
        CompactResult,
        ConvertResult,
        ExpireResult,
        GenerateResult,
        ManifestsResult,
        OrphanResult,
        PathsResult,
        PositionDeletesResult,
        RefResult,
        RestoreResult,
        StatisticsResult,
        TransactionResult,
        WriteResult,
    )

__version__ = "0.2.0"

# Importing the package takes milliseconds: a module is imported when one of its names is used for the first time.
_MODULES = {
    "api.alter": ("AlterBuilder",),
    "common.identifiers": ("Identifier",),
    "api.changes": ("Changes",),
    "common.cache": ("set_cache_limit",),
    "api.convert": ("convert_to_delta",),
    "cli.doctor": ("Check", "Diagnosis", "doctor"),
    "statements.rows.merge": ("MergeBuilder",),
    "storage.encryption": ("FileKey", "KeyManager"),
    "expressions.column": ("Column", "col"),
    "expressions.predicate": ("Predicate",),
    "formats.increments": ("Backlog",),
    "formats.snapshot_refs": ("SnapshotRef",),
    "formats.table_format": ("Snapshot",),
    "maintenance.health": ("Finding", "MaintainResult", "MaintenanceStep", "TableHealth"),
    "api.catalog": ("Catalog", "catalog"),
    "api.table": ("Table",),
    "api.transaction": ("Transaction",),
    "api.open": ("table",),
    "planning.delete_files": ("DeleteFile", "DeleteKind"),
    "planning.plan": ("ScanPlan",),
    "planning.scan_report": ("ScanMetrics", "ScanReport"),
    "planning.task_groups": ("FileScanTask", "TaskGroup", "TaskGroups"),
    "statements.select.query": ("Query",),
    "planning.metrics_reporters": ("MetricsReporter",),
    "api.save": ("save",),
    "api.scan": ("Scan",),
    "local.scan_tasks": ("ScanTask",),
    "statements.sql": ("sql",),
    "api.stream": ("BatchStream",),
    "tables.results": (
        "AlterResult",
        "ChangeResult",
        "CheckpointResult",
        "CloneResult",
        "CompactResult",
        "ConvertResult",
        "ExpireResult",
        "GenerateResult",
        "ManifestsResult",
        "OrphanResult",
        "PathsResult",
        "PositionDeletesResult",
        "RefResult",
        "RestoreResult",
        "StatisticsResult",
        "TransactionResult",
        "WriteResult",
    ),
    "api.view": ("View", "ViewVersion"),
}
_WHERE = {name: f"lakescan.{module}" for module, names in _MODULES.items() for name in names}

__all__ = [
    "AlterBuilder",
    "AlterResult",
    "AmbiguousMerge",
    "Backlog",
    "BatchStream",
    "Catalog",
    "ChangeResult",
    "Changes",
    "Check",
    "CheckpointResult",
    "CloneResult",
    "Column",
    "CommitConflict",
    "CommitStateUnknown",
    "CompactResult",
    "ConvertResult",
    "CorruptData",
    "CorruptMetadata",
    "CreatedConcurrently",
    "DeleteFile",
    "DeleteKind",
    "Diagnosis",
    "ExpireResult",
    "FeatureInUse",
    "FileKey",
    "FileScanTask",
    "Finding",
    "GenerateResult",
    "Identifier",
    "InvalidFilter",
    "InvalidOption",
    "InvalidStatement",
    "IsAView",
    "KeyManager",
    "LakescanError",
    "LimitExceeded",
    "LocationRefused",
    "MaintainResult",
    "MaintenanceStep",
    "ManifestsResult",
    "MergeBuilder",
    "MetricsReporter",
    "MissingDependency",
    "MissingFile",
    "NoSuchCatalog",
    "NoSuchColumn",
    "NoSuchMethod",
    "NoSuchNamespace",
    "NoSuchSnapshot",
    "NoSuchTable",
    "NoTruthValue",
    "NotATable",
    "NotEnoughMemory",
    "OrphanResult",
    "PathsResult",
    "PositionDeletesResult",
    "Predicate",
    "Query",
    "QueryFailed",
    "RefResult",
    "RestoreResult",
    "RowsChanged",
    "Scan",
    "ScanMetrics",
    "ScanPlan",
    "ScanReport",
    "ScanTask",
    "SchemaChanged",
    "SchemaMismatch",
    "Snapshot",
    "SnapshotRef",
    "StatisticsResult",
    "StorageError",
    "Table",
    "TableExists",
    "TableHealth",
    "TaskGroup",
    "TaskGroups",
    "Transaction",
    "TransactionResult",
    "UnsupportedFeature",
    "View",
    "ViewVersion",
    "WriteResult",
    "__version__",
    "catalog",
    "col",
    "convert_to_delta",
    "doctor",
    "errors",
    "save",
    "set_cache_limit",
    "spark",
    "sql",
    "table",
]


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        found = globals()[name] = getattr(importlib.import_module(_WHERE[name]), name)
        return found
    if not name.startswith("_"):  # a module of the package, such as lakescan.spark and lakescan.limits
        try:
            return importlib.import_module(f"lakescan.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"lakescan.{name}":
                raise
    raise AttributeError(f"module 'lakescan' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
