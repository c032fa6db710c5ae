"""Expiry together with its files: those go that only expired snapshots had."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from lakescan.maintenance.listing import Listing
from lakescan.storage.locations import below
from lakescan.storage.removal import remove_unnamed
from lakescan.transaction.base import Target
from lakescan.transaction.results import ExpireResult


def expire_with_files(
    target: Target, older_than: datetime | None, retain_last: int | None, snapshots: Sequence[int] = ()
) -> tuple[ExpireResult, Mapping[str, int]]:
    """Expire snapshots, then remove the files that no snapshot has any more; see `Target.expire`.

    Files stay that other tables reference whose metadata is in the same folder, and those in other folders than the
    table's own: they were added from there, and may be files of others, too. Returns what expired, and how many
    files of each kind (`Target.files_of`) were removed. Those that could not be removed stay as orphans.
    """
    result = target.expire(older_than, retain_last, snapshots=snapshots)
    if not result.snapshots:
        return result, {}
    files = target.files_of(result.snapshots)
    kinds = files.group_by("path").aggregate([("kind", "min")])  # a path once
    now, rules = datetime.now().astimezone(), target.file_rules()
    paths = kinds["path"].filter(below(kinds["path"], rules.owned)).to_pylist()
    listing = Listing.of(target.storage, rules.location, [rules.clock_folder], rules.partition_names)
    others = listing.metadata_files()
    removed = remove_unnamed(target.storage, paths, lambda: target.files_in_use(now, others))
    gone = kinds.filter(pc.is_in(kinds["path"], value_set=pa.array(removed, pa.string())))
    return result, Counter(gone["kind_min"].to_pylist())
