"""Branches that a write names."""

from __future__ import annotations

from typing import Any

from lakescan.common.retries import COMMITS, Attempts
from lakescan.errors import InvalidOption
from lakescan.iceberg.metadata.table_metadata import MAIN


def ensure_branch(table: Any, branch: str) -> Any:
    """Return the table (pyiceberg's), with the branch created if missing, at the current snapshot.

    In a table without one, the first commit to the branch makes it. Raises `InvalidOption` if the name is that of a
    tag.
    """
    from pyiceberg.exceptions import CommitFailedException
    from pyiceberg.table.refs import SnapshotRefType

    attempts = Attempts(COMMITS)
    while branch != MAIN and branch not in table.metadata.refs:
        at = table.current_snapshot()
        if at is None:
            return table
        try:
            table.manage_snapshots().create_branch(at.snapshot_id, branch).commit()
        except CommitFailedException as error:  # another writer created it, or committed to the table
            attempts.wait_or_raise(".".join(table.name()), error)
        table = table.refresh()
    if branch != MAIN and table.metadata.refs[branch].snapshot_ref_type != SnapshotRefType.BRANCH:
        raise InvalidOption(f"branch={branch!r} is a tag of {'.'.join(table.name())}: tags stay where they are")
    return table
