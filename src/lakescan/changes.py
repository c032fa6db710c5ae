"""What became of a table's rows between two states: inserted, deleted and updated ones, commit by commit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common.metadata_columns import CHANGE, CHANGELOG
from lakescan.formats.increments import Increment
from lakescan.local.reader import read_batches
from lakescan.planning.plan import ScanPlan
from lakescan.reading.net_changes import as_updates, without_carry_overs
from lakescan.scan import Scan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_CHANGELOG = {f.name for f in CHANGELOG}


class Changes:
    """The changes of rows, oldest commit first; see `Table.changes`.

    Iceberg's are worked out: `_change_type` (INSERT, DELETE, and with identity UPDATE_BEFORE and UPDATE_AFTER),
    `_change_ordinal` and `_commit_snapshot_id` stand beside the table's columns. Delta's are those that the table
    recorded, with the columns of its change feed.
    """

    def __init__(self, scan: Scan, identity: Sequence[str] = ()) -> None:
        self._scan, self._identity = scan, tuple(identity)
        scan.projected.select(self._identity)  # raises for names that the table has not

    @property
    def scan(self) -> Scan:
        """The changes as files have them: rows that a commit only moved are deleted and inserted there."""
        return self._scan

    @property
    def schema(self) -> pa.Schema:
        """The schema of the rows."""
        return self._scan.schema

    @property
    def data_columns(self) -> tuple[str, ...]:
        """The columns that say what a row is."""
        return tuple(name for name in self._scan.projected.names if name not in _CHANGELOG)

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """The changes as record batches: memory is bounded by what one commit that rewrites rows changes."""
        if not self.is_worked_out:
            yield from self._scan.to_batches()
            return
        for scan in self.commits():
            plan = scan.plan()
            found = read_batches([(plan, scan.read_context(plan))])
            yield from found if not has_both(plan) else self.net(pa.Table.from_batches(found, scan.schema)).to_batches()

    @property
    def is_worked_out(self) -> bool:
        """Whether changes have to be worked out from what files hold; else the table recorded them."""
        return isinstance(self._scan.snapshot.state, Increment)

    def commits(self) -> Iterator[Scan]:
        """The changes commit by commit, as files have them."""
        snapshot = self._scan.snapshot
        for part in snapshot.state.parts:
            state = replace(snapshot.state, parts=(part,))
            yield self._scan.reading(self._scan.table_format, replace(snapshot, state=state))

    def net(self, rows: pa.Table) -> pa.Table:
        """The net changes of one commit, whose changes as files have them these are."""
        found = without_carry_overs(rows, CHANGE.name, self.data_columns)
        return as_updates(found, CHANGE.name, self._identity) if self._identity else found

    def to_arrow(self) -> pa.Table:
        """The changes as a table."""
        return pa.Table.from_batches(self.to_batches(), schema=self.schema)

    def to_spark(self, spark: SparkSession) -> DataFrame:
        """The changes as a data frame of a Spark session, worked out by its workers; in no order."""
        from lakescan.spark.changes import changes_frame

        if not self.is_worked_out:
            return self._scan.to_spark(spark)
        return changes_frame(spark, self._scan, self.data_columns, self._identity)


def has_both(plan: ScanPlan) -> bool:
    """Whether rows are inserted and deleted by the files of a plan, so that some may cancel each other."""
    if not len(plan.table):
        return False
    return len(pc.unique(pc.struct_field(plan.files["constants"], str(CHANGE.id)))) > 1
