"""What a session of Spark reads of audited tables: the branch to which it writes, as with Iceberg's reader."""

from __future__ import annotations

from lakescan.formats.snapshot_refs import RefKind
from lakescan.formats.table_format import Snapshot, SnapshotSelector
from lakescan.options.session_defaults import session_options
from lakescan.options.session_settings import SessionSettings
from lakescan.tables.scan_spec import ScanSpec
from lakescan.tables.time_travel import selector_from

_PROPERTY = "write.wap.enabled"


def is_audited(scan: ScanSpec, *, is_stream: bool = False) -> bool:
    """Whether a session may say which state a scan reads: of an audited table, and the scan does not say it itself.

    Of a stream (`is_stream`), it is the branch that is followed. Batch scans of changes read what they say.
    """
    if scan.selector is not None or scan.state is not None or "refs" not in scan.table.metadata_tables:
        return False
    if is_stream:  # whose options select no state
        return not scan.options.states and _has_property(scan.table.snapshot(SnapshotSelector()))
    if scan.options.stream_options or selector_from(scan.options) is not None:
        return False
    return _has_property(scan.snapshot)


def _has_property(snapshot: Snapshot) -> bool:
    return snapshot.properties.get(_PROPERTY, "").lower() == "true"


def apply_session_reads(scan: ScanSpec, session: SessionSettings, *, is_stream: bool = False) -> ScanSpec:
    """The scan as a session reads it: with its options of Iceberg tables, and of the branch `spark.wap.branch`.

    The branch is read if an audited table has it.

    Raises `InvalidOption` if the session says both how rows are staged.
    """
    if options := session_options(scan.options, session.options, scan.table.name):
        scan = scan.with_options(options)
    if session.options_only == session or not is_audited(scan, is_stream=is_stream):
        return scan
    session.check()
    if session.wap_branch is None or session.wap_branch not in scan.table.refs(RefKind.BRANCH):
        return scan
    return scan.with_options({"wap-branch": session.wap_branch})
