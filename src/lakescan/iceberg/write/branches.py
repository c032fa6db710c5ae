"""Branches that a write names."""

from __future__ import annotations

from typing import Any

from lakescan.common.retries import COMMITS, Attempts
from lakescan.errors import InvalidOption, UnsupportedFeature
from lakescan.iceberg.metadata.table_metadata import MAIN


def with_branch(table: Any, branch: str) -> Any:
    """Return the table (pyiceberg's), with the branch created if missing.

    Raises `UnsupportedFeature` if the table has no snapshot yet, `InvalidOption` if the name is that of a tag.
    """
    from pyiceberg.exceptions import CommitFailedException
    from pyiceberg.table.refs import SnapshotRefType

    attempts = Attempts(COMMITS)
    while branch != MAIN and branch not in table.metadata.refs:
        at = table.current_snapshot()
        if at is None:
            raise UnsupportedFeature(
                f"creating the branch {branch!r} of a table without snapshots", "Write to its main branch first."
            )
        try:
            table.manage_snapshots().create_branch(at.snapshot_id, branch).commit()
        except CommitFailedException as error:  # another writer created it, or committed to the table
            attempts.again(".".join(table.name()), error)
        table = table.refresh()
    if branch != MAIN and table.metadata.refs[branch].snapshot_ref_type != SnapshotRefType.BRANCH:
        raise InvalidOption(f"branch={branch!r} is a tag of {'.'.join(table.name())}: tags stay where they are")
    return table
