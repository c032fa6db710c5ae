"""Table maintenance: compaction, snapshot expiration, removal of orphan files, purges."""

from lakescan.maintenance.compact import compact
from lakescan.maintenance.orphans import remove_orphans

__all__ = ["compact", "remove_orphans"]
