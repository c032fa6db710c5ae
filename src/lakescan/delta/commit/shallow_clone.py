"""CLONE a Delta table: its files, in a new table."""

from __future__ import annotations

from collections.abc import Mapping

from lakescan.delta.commit.clone import clone_table
from lakescan.delta.table import DeltaTable
from lakescan.errors import UnsupportedFeature
from lakescan.storage import Storage
from lakescan.tables.results import CloneResult
from lakescan.tables.scan_spec import ScanSpec


def clone(
    source: ScanSpec, location: str, storage: Storage, properties: Mapping[str, str], *, replace: bool = False
) -> CloneResult:
    """Make a Delta table in a folder of the state that a scan reads; see `Table.clone`."""
    table = source.table
    if not isinstance(table, DeltaTable):
        raise UnsupportedFeature(
            f"cloning the Iceberg table {source.location}",
            "Its states have names within the table: create_branch, create_tag. Or write its rows to a new table.",
        )
    version = table.version_of(source.snapshot)
    files, size = clone_table(version, source.storage, location, storage, dict(properties), replace=replace)
    return CloneResult(version.segment.version, size, files)
