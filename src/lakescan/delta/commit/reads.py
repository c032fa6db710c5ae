"""What a commit to a Delta table has read: which files that others add or remove meanwhile are conflicts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pyarrow as pa
import pyarrow.compute as pc

from lakescan.delta.commit.conflicts import Reads
from lakescan.delta.log.reader import DeltaVersion
from lakescan.delta.log.replay import canonical_paths
from lakescan.delta.scan.scan_files import DeltaScanFiles
from lakescan.expressions.bind import bind_columns_only
from lakescan.expressions.predicate import TRUE, Predicate, leaves
from lakescan.tables.scan_spec import ScanSpec


def planner_of(scan: ScanSpec, version: DeltaVersion, predicate: Predicate = TRUE) -> DeltaScanFiles:
    """Return what plans file actions of a version, by a predicate that is bound to its columns."""
    schema = scan.snapshot.schema
    ids = {leaf.bound_id for leaf in leaves(predicate)}.intersection(schema.by_id)
    columns = {each: schema.by_id[each] for each in ids}
    fields = version.partition_fields(schema)
    return DeltaScanFiles(version.segment.location, schema, fields, predicate, columns, {}, {})


def overwrite_reads(scan: ScanSpec, version: DeltaVersion, where: Predicate | None) -> Reads:
    """Return what an overwrite has read: it would have replaced matching rows of files that others added, too."""
    return Reads.whole_table() if where is None else Reads(_may_match(scan, version, where))


def statement_reads(scan: ScanSpec, version: DeltaVersion, read: Predicate | None) -> Reads:
    """Return what a DELETE, UPDATE or MERGE has read: also the files of its base that may have matching rows.

    These are planned only if another commit has to be compared with them.
    """
    if read is None:
        return Reads.whole_table()

    @cache
    def files() -> pa.Array:
        return canonical_paths(scan.where(read).plan().table.files["path"].combine_chunks())

    return replace(overwrite_reads(scan, version, read), has_read=lambda paths: pc.is_in(paths, value_set=files()))


def _may_match(scan: ScanSpec, version: DeltaVersion, where: Predicate) -> Callable[[pa.Table], pa.Array]:
    planner = planner_of(scan, version, bind_columns_only(where, scan.snapshot.schema))

    def may_match(files: pa.Table) -> pa.Array:
        kept = planner.candidates(files).table.files["path"]
        return pc.is_in(files["path"].combine_chunks(), value_set=kept.combine_chunks())

    return may_match
