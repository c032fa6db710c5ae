"""The entry points of the Spark engine that lower layers load through `lakescan.engines`."""

from lakescan.spark.native.frames import explain_scan, frame_of, session_frame
from lakescan.spark.source.changelog import changes_frame
from lakescan.spark.source.wap import settings_of_session
from lakescan.spark.statements.dml import change
from lakescan.spark.statements.names import columns_of, current_namespace
from lakescan.spark.statements.sql import make_view, renew_view, run_sql
from lakescan.spark.writing.write import SparkRows

__all__ = [
    "SparkRows",
    "change",
    "changes_frame",
    "columns_of",
    "current_namespace",
    "explain_scan",
    "frame_of",
    "make_view",
    "renew_view",
    "run_sql",
    "session_frame",
    "settings_of_session",
]
