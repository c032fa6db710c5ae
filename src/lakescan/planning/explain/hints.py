"""Hints: performance advice on a plan, each with the figures that it is based on."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common.metadata_columns import RESERVED_IDS
from lakescan.expressions.predicate import leaves
from lakescan.planning.delete_file import DeleteKind
from lakescan.planning.plan import ScanPlan

_SMALL = 1 << 20
_FEW = 10  # with fewer files, some hints are not worth giving
_MANY_DELETES = 10


def hints(plan: ScanPlan) -> tuple[str, ...]:
    """Return the hints on a plan, one sentence each."""
    if not len(plan.table):
        return ()
    return (*_small_files(plan), *_delete_hints(plan), *_missing_bounds(plan), *_partitions(plan), *_skew(plan))


def _small_files(plan: ScanPlan) -> Iterator[str]:
    total = len(plan.table)
    small = pc.sum(pc.less(plan.files["size"], _SMALL)).as_py() or 0
    if total >= _FEW and small * 2 > total:
        yield f"{small / total:.0%} of the {total:,} files are under 1 MB: compact them"


def _delete_hints(plan: ScanPlan) -> Iterator[str]:
    counts = pa.array(plan.table.references.counts)
    most = pc.max(counts).as_py() or 0
    if most > _MANY_DELETES:
        average = pc.mean(counts).as_py()
        yield f"files have {average:.1f} deletes each, up to {most:,}: compact them, or rewrite the delete files"
    equality = pc.sum(pc.equal(plan.deletes["kind"], DeleteKind.EQUALITY)).as_py() or 0
    if equality:
        yield f"{equality:,} equality delete files: every row's key is looked up in them; compaction removes them"
    metrics = plan.report.metrics
    if metrics.respelled_delete_files:
        yield (
            f"{metrics.respelled_delete_files:,} delete files refer to a data file by another spelling of its path: "
            "lakescan applies them; engines that compare paths literally ignore them"
        )
    if metrics.dangling_delete_files:
        yield f"{metrics.dangling_delete_files:,} delete files refer to no data file of the table: they delete nothing"
    data, deletes = metrics.total_file_size_in_bytes, metrics.total_delete_file_size_in_bytes
    if data and deletes > data / 4:
        yield f"deletes are {deletes / (data + deletes):.0%} of the bytes to read: rewrite the deletes"


def _missing_bounds(plan: ScanPlan) -> Iterator[str]:
    """Report filter columns without statistics in any file, which cannot prune files."""
    names = {leaf.bound_id: leaf.column for leaf in leaves(plan.filter) if leaf.bound_id not in RESERVED_IDS}
    for field_id, name in names.items():
        stats = plan.table.stats.get(field_id)
        if stats is None or not (_has_values(stats.lower) or _has_values(stats.upper) or _has_values(stats.null_count)):
            yield f"no statistics of {name!r} in any file: it cannot skip files; configure writers to collect them"


def _has_values(values: pa.Array | None) -> bool:
    return values is not None and values.null_count < len(values)


def _partitions(plan: ScanPlan) -> Iterator[str]:
    """Report a filter on a partitioned table that skips no partition."""
    fields = [f.name for f in plan.files.schema.field("partition").type]
    idle = not plan.report.skipped_by_partition and not plan.report.metrics.skipped_data_manifests
    if fields and plan.report.filter != "true" and idle and len(plan.table) >= _FEW:
        yield f"the filter skips no partition: the table is partitioned by {', '.join(fields)}"


def _skew(plan: ScanPlan) -> Iterator[str]:
    sizes = plan.groups.sizes["bytes"]
    total, most = pc.sum(sizes).as_py() or 0, pc.max(sizes).as_py() or 0
    if len(plan.groups) >= 4 and most * 2 > total:
        yield f"one of {len(plan.groups)} task groups has {most / total:.0%} of the bytes: its file cannot be split"
