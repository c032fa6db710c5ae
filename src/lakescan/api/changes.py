"""`Changes`: the rows inserted, deleted and updated between two snapshots or versions, commit by commit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from lakescan.api.scan import Scan
from lakescan.common.html import register_display
from lakescan.common.metadata_columns import CHANGE, CHANGE_ORDINAL, CHANGELOG
from lakescan.common.pandas_frames import pandas_frame
from lakescan.common.references import dotted_path, split_list
from lakescan.common.schema import Schema
from lakescan.errors import InvalidOption, NoSuchColumn, UnsupportedFeature
from lakescan.local.reader import read_batches
from lakescan.planning.plan import ScanPlan
from lakescan.reading.context import select_columns
from lakescan.reading.net_changes import drop_carry_overs, drop_round_trips, pair_updates
from lakescan.tables.notebook import changes_as_html
from lakescan.tables.scan_spec import ScanSpec

if TYPE_CHECKING:
    import pandas
    from pyspark.sql import DataFrame, SparkSession

_CHANGELOG = {f.id for f in CHANGELOG}


class Changes:
    """The row changes between two snapshots or versions of a table, oldest commit first; see `Table.changes`.

    For Iceberg, changes are computed. Next to the table's columns they have `_change_type` (INSERT, DELETE, and with
    identity columns UPDATE_BEFORE and UPDATE_AFTER), `_change_ordinal` and `_commit_snapshot_id`. For Delta, they are
    the change data feed that the table recorded, with its columns.

    Example:
        >>> orders.changes(start=3).to_pandas()
    """

    def __init__(self, spec: ScanSpec, identity: str | Sequence[str] = (), net: bool = False) -> None:
        references = split_list(identity) if isinstance(identity, str) else identity
        if not isinstance(references, Iterable) or not all(isinstance(each, str) for each in references):
            raise InvalidOption(f"identity={identity!r}: expected a column, or a list of columns")
        self._spec, self._identity = spec, tuple(_column(spec.snapshot.schema, each) for each in references)
        self._is_net = net
        if net and self._identity:
            raise InvalidOption("net changes have no images of updates: leave identity out, or net")
        if net and not are_computed(spec):
            raise UnsupportedFeature("net changes of a recorded change feed", "Leave net out.")

    def __repr__(self) -> str:
        return f"Changes({self._spec!r})"

    def _repr_html_(self) -> str:
        """Return HTML for notebooks: the table and the columns of the changes."""
        return changes_as_html(self._spec, self._identity)

    @property
    def scan(self) -> Scan:
        """A scan of the changes as files record them: a row that a commit only moved is deleted and inserted."""
        return Scan(self._spec)

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the changes."""
        return self._spec.output.arrow()

    @property
    def data_columns(self) -> tuple[str, ...]:
        """The names of the table's columns, without the columns that describe the change.

        For Iceberg, an inserted and a deleted row of one commit that are equal in these columns cancel out.
        """
        return tuple(field.name for field in self._spec.snapshot.schema.fields if field.id not in _CHANGELOG)

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the changes as record batches.

        At most the changed rows of one commit are in memory; for net changes, those of all commits.
        """
        if not are_computed(self._spec):
            yield from self.scan.to_batches()
            return
        left = self._spec.max_rows
        for batch in self._net_batches():
            yield batch.slice(0, left)
            left = left if left is None else max(left - batch.num_rows, 0)
            if left == 0:
                return

    def _net_batches(self) -> Iterator[pa.RecordBatch]:
        if self._is_net:
            yield from self._batches_over_commits()
            return
        for spec in commits_of(self._spec.with_limit(None)):
            plan = spec.plan()
            if not has_both(plan):
                yield from read_batches([(plan, spec.read_context(plan))])
                continue
            whole = all_columns_scan(spec)
            rows = read_batches([(plan, whole.read_context(plan))])
            for batch in self._net(pa.Table.from_batches(rows, whole.output.arrow())).to_batches():
                yield select_columns(batch, whole.output, spec.selection)

    def _batches_over_commits(self) -> Iterator[pa.RecordBatch]:
        """Yield the net changes of all commits together."""
        whole = all_columns_scan(self._spec.with_limit(None))
        rows = pa.concat_tables(
            pa.Table.from_batches(read_batches([(plan, spec.read_context(plan))]), whole.output.arrow())
            for spec in commits_of(whole)
            for plan in (spec.plan(),)
        )
        net = drop_round_trips(rows, CHANGE.name, CHANGE_ORDINAL.name, self.data_columns)
        for batch in net.to_batches():
            yield select_columns(batch, whole.output, self._spec.selection)

    def _net(self, rows: pa.Table) -> pa.Table:
        """Return the net changes from all changes of one commit: without rows that it deleted and inserted unchanged.

        With identity columns, a deleted and an inserted row of the same identity become an update.
        """
        net = drop_carry_overs(rows, CHANGE.name, self.data_columns)
        return pair_updates(net, CHANGE.name, self._identity) if self._identity else net

    def to_arrow(self) -> pa.Table:
        """Return the changes as an Arrow table."""
        return register_display(pa.Table.from_batches(self.to_batches(), schema=self.schema))

    def to_pandas(
        self, dtype_backend: Literal["pyarrow", "numpy_nullable"] | None = None, **arguments: Any
    ) -> pandas.DataFrame:
        """Return the changes as a pandas data frame; see `Scan.to_pandas`."""
        return pandas_frame(self.to_arrow(), dtype_backend, **arguments)

    def to_reader(self) -> pa.RecordBatchReader:
        """Return a reader that streams the changes as record batches."""
        return pa.RecordBatchReader.from_batches(self.schema, self.to_batches())

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Stream the changes by the Arrow PyCapsule protocol: `pl.DataFrame(changes)`, `pa.table(changes)`."""
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def to_spark(self, spark: SparkSession) -> DataFrame:
        """Return the changes as a Spark data frame, read by Spark's workers. The order of rows is undefined."""
        from lakescan.spark.changelog import changes_frame
        from lakescan.spark.frames import frame_of

        frame: DataFrame
        if are_computed(self._spec):
            frame = changes_frame(
                spark,
                all_columns_scan(self._spec.with_limit(None)),
                self.data_columns,
                self._identity,
                self._spec.selection,
                net=self._is_net,
            )
            frame = frame if self._spec.max_rows is None else frame.limit(self._spec.max_rows)
        else:
            frame = frame_of(spark, self._spec)
        return frame


def all_columns_scan(spec: ScanSpec) -> ScanSpec:
    """Return a scan of changes with all columns of the table, in addition to its selected metadata columns.

    Net changes need all columns: rows of a commit that differ only in columns that are not selected must not cancel
    out.
    """
    names = {field.name: None for field in spec.snapshot.schema.fields}
    names |= {each.path[0].name: None for each in spec.selection.columns}
    return spec.select(*(dotted_path([name]) for name in names))


def _column(schema: Schema, reference: str) -> str:
    """Return the name of the table column that `reference` refers to.

    Raises `NoSuchColumn` for an unknown column, and for a member of a struct.
    """
    field = schema.field(reference)
    if schema.top_level_of[field.id] is not field:
        raise NoSuchColumn(f"identity={reference!r} is a member of a struct: only whole columns identify rows")
    return field.name


def are_computed(spec: ScanSpec) -> bool:
    """Return whether changes are computed from added and removed files and deletes (Iceberg).

    If not, the table recorded them (Delta's change data feed).
    """
    return spec.snapshot.state.computed_changes is not None


def commits_of(spec: ScanSpec) -> Iterator[ScanSpec]:
    """Yield one scan for each commit in a scan of computed changes (see `are_computed`), oldest first.

    Its rows are as files record them: a row that a commit only moved is deleted and inserted.
    """
    whole = spec.snapshot.state.computed_changes
    assert whole is not None
    for part in whole.parts:
        yield spec.select_increment(spec.table, spec.table.increment(spec.snapshot, replace(whole, parts=(part,))))


def has_both(plan: ScanPlan) -> bool:
    """Return whether a plan of changes has files with inserted and with deleted rows, so that some may cancel out."""
    if not len(plan.table):
        return False
    return len(pc.unique(pc.struct_field(plan.files["constants"], str(CHANGE.id)))) > 1
