"""The entry points of the Spark engine that lower layers load through `lakescan.engines`."""

from lakescan.spark.audit import settings_of_session
from lakescan.spark.changes import changes_frame
from lakescan.spark.dml import change
from lakescan.spark.frames import explained, frame_of, session_frame
from lakescan.spark.names import current_namespace
from lakescan.spark.source_columns import columns_of
from lakescan.spark.statements import make_view, renew_view, run_sql
from lakescan.spark.write import SparkRows

__all__ = [
    "SparkRows",
    "change",
    "changes_frame",
    "columns_of",
    "current_namespace",
    "explained",
    "frame_of",
    "make_view",
    "renew_view",
    "run_sql",
    "session_frame",
    "settings_of_session",
]
