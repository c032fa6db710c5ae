"""Keeping tables in order: compaction, expiration of snapshots, removal of files that nothing names, purges."""

from lakescan.maintenance.compact import compact
from lakescan.maintenance.orphans import remove_orphans

__all__ = ["compact", "remove_orphans"]
