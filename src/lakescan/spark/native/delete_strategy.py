"""Describe how the native lane applies the deletes of a plan, for `explain`."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from lakescan.planning.delete_file import DeleteKind
from lakescan.planning.file_table import key_texts
from lakescan.planning.plan import ScanPlan
from lakescan.spark.executor import MIN_BYTES


def describe_deletes(plan: ScanPlan) -> list[str]:
    """One line for position deletes and deletion vectors, and one for each set of equality delete columns."""
    equality = pc.equal(plan.deletes["kind"], DeleteKind.EQUALITY)
    by_key, by_position = plan.deletes.filter(equality), plan.deletes.filter(pc.invert(equality))
    lines = []
    if by_position.num_rows:
        count, size = pc.sum(by_position["record_count"]).as_py() or 0, position_bytes(plan.deletes)
        decoder = "Spark's workers" if size >= MIN_BYTES else "the driver"
        lines.append(f"  on Spark: {count:,} rows deleted by position, as bitmaps; {size:,} bytes decoded by {decoder}")
    paths = plan.table_schema.path_of
    keys = pa.table({"ids": key_texts(by_key), "count": by_key["record_count"]})
    for each in keys.group_by("ids").aggregate([("count", "sum")]).to_pylist():
        names = ", ".join(paths.get(int(i), i) for i in each["ids"].split(","))
        lines.append(f"  on Spark: {each['count_sum']:,} equality deletes on ({names}), applied as a join")
    return lines


def position_bytes(deletes: pa.Table) -> int:
    """The total size of position delete files in bytes: from `MIN_BYTES` on, Spark's workers decode them."""
    sizes = pc.if_else(pc.equal(deletes["kind"], DeleteKind.POSITION), deletes["size"], 0)
    return int(pc.sum(sizes).as_py() or 0)
