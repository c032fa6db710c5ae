"""What a Delta log says of a table's upkeep (`formats.metadata_facts`)."""

from __future__ import annotations

from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common.timestamps import to_millis
from lakescan.delta.log.reader import DeltaVersion
from lakescan.delta.log.segment import LogListing
from lakescan.delta.scan.tombstones import tombstones
from lakescan.formats.metadata_facts import KeptStates, LogFacts, MetadataFacts
from lakescan.planning.file_table import FileTable
from lakescan.storage import Storage


def metadata_facts(
    version: DeltaVersion, listing: LogListing, files: FileTable, storage: Storage, now: datetime
) -> MetadataFacts:
    """The facts of a version with these files; reads the removed files of its log."""
    properties = version.metadata.properties
    segment = version.segment
    base = segment.checkpoint
    log = LogFacts(
        commits=len(segment.commits),
        commit_bytes=sum(each.entry.size for each in segment.commits),
        checkpoint=None if base is None else base.version,
        checkpoint_at=None if base is None else base.parts[0].modified,
        checkpoint_bytes=0 if base is None else sum(each.size for each in base.parts),
        interval=properties.checkpoint_interval,
    )
    removed = tombstones(segment, storage)
    gone = removed.filter(pc.invert(pc.is_in(removed["path"], value_set=files.files["path"])))
    before = to_millis(now - properties.removed_file_retention)
    old = gone.filter(pc.fill_null(pc.less(gone["removed_at"], before), True))
    times = [each.entry.modified for each in listing.commits[:1]]
    kept = KeptStates(
        count=max(len(listing.commits), 1),
        oldest=times[0] if times else None,
        files=gone.num_rows,
        bytes=_size(gone),
        removable_files=old.num_rows,
        removable_bytes=_size(old),
    )
    return MetadataFacts(properties.target_file_size, log.commit_bytes + log.checkpoint_bytes, kept, log=log)


def _size(files: pa.Table) -> int:
    return int(pc.sum(files["size"]).as_py() or 0)
