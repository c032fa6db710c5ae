"""Table maintenance: compaction, conversion of deletes, removal of orphan files, purges."""

from lakescan.maintenance.compact import compact
from lakescan.maintenance.convert_deletes import convert_equality_deletes
from lakescan.maintenance.expire_snapshots import expire_with_files
from lakescan.maintenance.orphans import remove_orphans

__all__ = ["compact", "convert_equality_deletes", "expire_with_files", "remove_orphans"]
