"""Check whether a plan's position deletes refer to its data files by exact path, by another spelling, or not."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from lakescan.expressions.predicate import TRUE
from lakescan.planning.delete_files import DeleteKind, delete_files
from lakescan.planning.plan import ScanPlan
from lakescan.reading.context import ReadContext
from lakescan.reading.deletes.position_deletes import DeleteLoader

_MOST_BYTES = 64 * 2**20


def check_delete_paths(plan: ScanPlan, context: ReadContext) -> list[str]:
    """Return report lines on position deletes that spell a data file's path in another way, and on dangling ones.

    Reads the position delete files, unless they exceed 64 MB. With a filter no deletes are reported as dangling, since
    the data file may have been pruned. Empty without such deletes.
    """
    deletes = plan.deletes.filter(pc.equal(plan.deletes["kind"], DeleteKind.POSITION))
    if not deletes.num_rows:
        return []
    if (size := pc.sum(deletes["size"]).as_py() or 0) > _MOST_BYTES:
        return [f"  names in position deletes: not checked, as the delete files have {size:,} bytes"]
    paths = plan.files["path"].combine_chunks()
    places, loader = context.places, DeleteLoader(context.storage, paths.to_pylist(), places=context.places)
    known = places.canonicalize(paths)
    respelled, dangling, example = 0, 0, ""
    for delete in delete_files(deletes):
        positions = loader.positions(delete)
        counts = pa.array([len(bitmap) for bitmap in positions.by_name.values()], pa.int64())
        others = pc.invert(pc.is_in(positions.names, value_set=paths))
        here = pc.is_in(places.canonicalize(positions.names), value_set=known)
        respelled += _sum(counts, pc.and_(others, here))
        dangling += _sum(counts, pc.and_not(others, here))
        example = example or next(iter(positions.names.filter(pc.and_(others, here)).to_pylist()), "")
    lines = []
    if respelled:
        lines.append(
            f"  names in position deletes: {respelled:,} rows refer to a data file by another spelling: {example}"
        )
    if dangling and plan.filter == TRUE:
        lines.append(f"  names in position deletes: {dangling:,} rows refer to no data file of the table")
    return lines


def _sum(counts: pa.Array, mask: pa.Array) -> int:
    return int(pc.sum(counts.filter(mask)).as_py() or 0)
