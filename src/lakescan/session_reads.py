"""What a session of Spark reads of audited tables: the branch to which it writes, as with Iceberg's reader."""

from __future__ import annotations

from lakescan.formats.snapshot_refs import RefKind
from lakescan.options.declaration import Group
from lakescan.options.staging import Staging
from lakescan.scan_spec import ScanSpec
from lakescan.time_travel import selector_from

_PROPERTY = "write.wap.enabled"


def is_audited(scan: ScanSpec) -> bool:
    """Whether a session may say which state a scan reads: of an audited table, and the scan does not say it itself.

    Streams read what they say, as do scans of changes.
    """
    if scan.selector is not None or scan.state is not None or scan.options.given_in(Group.STREAM):
        return False
    if selector_from(scan.options) is not None or "refs" not in scan.table.metadata_tables:
        return False
    return scan.snapshot.properties.get(_PROPERTY, "").lower() == "true"


def as_session_reads(scan: ScanSpec, session: Staging) -> ScanSpec:
    """The scan as a session reads it: of the branch `spark.wap.branch`, if an audited table has it.

    Raises `InvalidOption` if the session says both how rows are staged.
    """
    if session == Staging() or not is_audited(scan):
        return scan
    session.check()
    if session.wap_branch is None or session.wap_branch not in scan.table.refs(RefKind.BRANCH):
        return scan
    return scan.with_options({"wap-branch": session.wap_branch})
