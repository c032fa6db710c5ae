"""Select the branch that a Spark session reads from audited tables (write-audit-publish), as Iceberg's reader does."""

from __future__ import annotations

from lakescan.formats.snapshot_refs import RefKind
from lakescan.formats.table_format import Snapshot, SnapshotSelector
from lakescan.options.session_defaults import session_options
from lakescan.options.session_settings import SessionSettings
from lakescan.tables.scan_spec import ScanSpec
from lakescan.tables.time_travel import selector_from

_PROPERTY = "write.wap.enabled"


def is_audited(scan: ScanSpec, *, is_stream: bool = False) -> bool:
    """Return whether the session's `spark.wap.branch` applies to a scan.

    That is so if the Iceberg table has `write.wap.enabled`, and the scan does not select a snapshot or changes itself.
    With `is_stream`, the branch is the one that the stream follows.
    """
    if scan.selector is not None or scan.state is not None or "refs" not in scan.table.metadata_tables:
        return False
    if is_stream:  # its options cannot select a snapshot
        return not scan.options.states and _has_property(scan.table.snapshot(SnapshotSelector()))
    if scan.options.stream_options or selector_from(scan.options) is not None:
        return False
    return _has_property(scan.snapshot)


def _has_property(snapshot: Snapshot) -> bool:
    return snapshot.properties.get(_PROPERTY, "").lower() == "true"


def apply_session_reads(scan: ScanSpec, session: SessionSettings, *, is_stream: bool = False) -> ScanSpec:
    """Return the scan with the settings of a session: its read options for Iceberg tables, and `spark.wap.branch`.

    The branch is read only if the table is audited and has it. Raises `InvalidOption` if the session sets both
    `spark.wap.id` and `spark.wap.branch`.
    """
    if options := session_options(scan.options, session.options, scan.table.name):
        scan = scan.with_options(options)
    if session.options_only == session or not is_audited(scan, is_stream=is_stream):
        return scan
    session.check()
    if session.wap_branch is None or session.wap_branch not in scan.table.refs(RefKind.BRANCH):
        return scan
    return scan.with_options({"wap-branch": session.wap_branch})
