"""Which data files the position deletes of a plan name: by the very path, in another spelling, or none."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from lakescan.expressions.predicate import TRUE
from lakescan.planning.file_table import POSITION
from lakescan.planning.plan import ScanPlan
from lakescan.reading.context import ReadContext
from lakescan.reading.deletes.positions import DeleteLoader

_MOST_BYTES = 64 * 2**20


def deleted_names(plan: ScanPlan, context: ReadContext) -> list[str]:
    """A line for deletes that name a data file in another spelling, and one for those that name none.

    The position delete files are read, unless they have more than 64 MB. With a filter, files that it left out may be
    those that are named.
    """
    deletes = plan.deletes.filter(pc.equal(plan.deletes["kind"], POSITION))
    if not deletes.num_rows:
        return []
    if (size := pc.sum(deletes["size"]).as_py() or 0) > _MOST_BYTES:
        return [f"  names in position deletes: not looked at, as they have {size:,} bytes"]
    paths = plan.files["path"].combine_chunks()
    places, loader = context.places, DeleteLoader(context.storage, paths.to_pylist(), places=context.places)
    known = places.of(paths)
    respelled, lost, example = 0, 0, ""
    for delete in deletes.to_pylist():
        found = loader.positions(delete)
        counts = pa.array([len(bitmap) for bitmap in found.by_name.values()], pa.int64())
        others = pc.invert(pc.is_in(found.names, value_set=paths))
        here = pc.is_in(places.of(found.names), value_set=known)
        respelled += _sum(counts, pc.and_(others, here))
        lost += _sum(counts, pc.and_not(others, here))
        example = example or next(iter(found.names.filter(pc.and_(others, here)).to_pylist()), "")
    lines = []
    if respelled:
        lines.append(f"  names in position deletes: {respelled:,} rows are of a file in another spelling: {example}")
    if lost and plan.filter == TRUE:
        lines.append(f"  names in position deletes: {lost:,} rows are of no data file of the table")
    return lines


def _sum(counts: pa.Array, mask: pa.Array) -> int:
    return int(pc.sum(counts.filter(mask)).as_py() or 0)
