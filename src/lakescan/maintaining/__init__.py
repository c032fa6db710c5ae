"""Keeping tables in order: compaction, expiration of snapshots, removal of files that nothing names, purges."""

from lakescan.maintaining.compaction import compact
from lakescan.maintaining.orphans import remove_orphans

__all__ = ["compact", "remove_orphans"]
