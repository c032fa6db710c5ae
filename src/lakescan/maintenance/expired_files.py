"""Expiry together with its files: those go that only expired snapshots had."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from lakescan.executors import ExchangingExecutor, PlanningExecutor
from lakescan.maintenance.compared_by_workers import OfSnapshots, remove_by_workers, unnamed_by_workers
from lakescan.maintenance.listing import Listing
from lakescan.storage.locations import below
from lakescan.storage.removal import remove_unnamed
from lakescan.transaction.base import Target
from lakescan.transaction.results import ExpireResult


def expire_with_files(
    target: Target,
    older_than: datetime | None,
    retain_last: int | None,
    snapshots: Sequence[int] = (),
    executor: PlanningExecutor | None = None,
) -> tuple[ExpireResult, Mapping[str, int]]:
    """Expire snapshots, then remove the files that no snapshot has any more; see `Target.expire`.

    Files stay that other tables reference whose metadata is in the same folder, and those in other folders than the
    table's own: they were added from there, and may be files of others, too. Returns what expired, and how many
    files of each kind (`Target.files_of`) were removed. Those that could not be removed stay as orphans.
    An executor that exchanges rows, as Spark's does, reads manifests, compares and removes on its workers.
    """
    result = target.expire(older_than, retain_last, snapshots=snapshots)
    if not result.snapshots:
        return result, {}
    now, rules = datetime.now().astimezone(), target.file_rules()
    listing = Listing.of(target.storage, rules.location, [rules.clock_folder], rules.partition_names)
    others = listing.metadata_files()
    if isinstance(executor, ExchangingExecutor):
        candidates = [OfSnapshots(each, tuple(rules.owned)) for each in target.parts_of(result.snapshots)]
        found = unnamed_by_workers(target, candidates, now, others, executor)
        gone = remove_by_workers(target.storage, found, executor)
        return result, Counter(gone["kind"].to_pylist())
    kinds = target.files_of(result.snapshots).group_by("path").aggregate([("kind", "min")])  # a path once
    paths = kinds["path"].filter(below(kinds["path"], rules.owned)).to_pylist()
    removed = remove_unnamed(target.storage, paths, lambda: target.files_in_use(now, others))
    gone = kinds.filter(pc.is_in(kinds["path"], value_set=pa.array(removed, pa.string())))
    return result, Counter(gone["kind_min"].to_pylist())
