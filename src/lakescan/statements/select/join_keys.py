"""Prune scans by join keys: read the keys of the smaller tables when the statement runs, and prune files of the larger.

A join may require that a column has one of the values of columns in other tables (`Pushdown.among`). Tables are
processed from the smallest to the largest. The keys of a table that is small and has a filter are read, and narrow the
scans of the larger tables that it joins. A filter on the smallest table of a chain of joins thus reaches the largest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common import types as t
from lakescan.common.references import dotted_path
from lakescan.expressions.literals import plain_value
from lakescan.expressions.predicate import TRUE, Comparison, In, Predicate, conjunction
from lakescan.local.reader import read_batches
from lakescan.planning.plan import ScanPlan
from lakescan.statements.duckdb.parquet_files import statistics_columns
from lakescan.statements.select.conditions import Path, ValuesOf
from lakescan.statements.select.table_references import Occurrence
from lakescan.tables.scan_spec import ScanSpec

_MOST_METADATA = 16 << 20  # bytes of metadata; a table with more is large, and planning it twice is too slow
_MOST_ROWS = 1_000_000  # rows of a table whose keys are read
_MOST_BYTES = 64 << 20  # bytes of the files of a table whose keys are read
_FEW_ROWS = 1_000  # a table with at most as many rows counts as small even without a filter
_MOST_TESTED = 200  # keys that rows are tested against
_MOST_LISTED = 10_000  # keys that files are tested against; with more keys, only their minimum and maximum are used
_USELESS_WIDTH = 0.8  # files whose ranges cover more of the whole range than this on average are not pruned
_EXACT = (t.STRING, t.DATE)

Rows = Callable[[Occurrence], pa.Table | None]
Among = Sequence[tuple[Path, tuple[ValuesOf, ...]]]


class JoinKeys:
    """The scans of a statement's tables, and the join keys that prune them.

    - `specs`: the scans, narrowed by the statement's own conditions.
    - `among`: for each scan that keys may prune, the columns restricted to values of other columns (`Pushdown.among`).
    - `rows`: a function that returns the rows of an engine's frame, or None if they are not in memory.
    - `notes`: for each scan, texts about the keys that prune it, for EXPLAIN. Filled by `scans`.
    """

    def __init__(
        self, specs: Mapping[Occurrence, ScanSpec], among: Mapping[Occurrence, Among], rows: Rows = lambda each: None
    ) -> None:
        self._specs, self._among, self._rows = dict(specs), among, rows
        self._plans: dict[Occurrence, ScanPlan | None] = {}
        self._planned: dict[Occurrence, ScanSpec] = {}
        self._made: list[tuple[ScanSpec, ScanPlan | None]] = []
        self._values: dict[tuple[int, Path], pa.Array | None] = {}
        self.notes: dict[Occurrence, list[str]] = {}

    @cached_property
    def scans(self) -> dict[Occurrence, ScanSpec]:
        """The scans, pruned by join keys. The first access reads the keys of small tables."""
        targets = {each for each, among in self._among.items() if among}
        if not targets:
            return self._specs
        sources = self._sources(targets)
        worth = self._useful_targets(targets)
        if not worth:
            return self._specs
        sizes = {each: self._size(each) for each in targets | sources}
        finished: set[Occurrence] = set()
        for each in sorted(sizes, key=lambda key: sizes[key]):
            is_source = each in sources and sizes[each] <= _MOST_ROWS
            if each in worth and (is_source or self._has_several_files(each)):
                smaller = {other for other in finished if sizes[other] < sizes[each]}
                self._prune(each, smaller, is_source=is_source)
            finished.add(each)
        return self._specs

    def plan_of(self, each: Occurrence) -> ScanPlan | None:
        """Return the plan made to find join keys, as the plan of the pruned scan; None if it cannot be reused."""
        spec, plan = self.scans[each], self._plans.get(each)
        if plan is None or spec.has_reporters:
            return None
        if spec.pruning == TRUE and spec.predicate == self._planned[each].predicate:
            return plan
        return None if plan.files["partition"].type.num_fields else spec.plan_table(plan.table)

    def _useful_targets(self, targets: set[Occurrence]) -> set[Occurrence]:
        """Return the targets whose files join keys can prune, and the targets that must be narrowed first.

        A target must be narrowed first if its own keys then prune another target. Tables with one file, or whose files
        do not differ in the keys, cannot be pruned.
        """
        worth = {each for each in targets if self._has_several_files(each) and self._has_useful_keys(each)}
        while more := self._sources(worth) & targets - worth:
            worth |= more
        return worth

    def _has_useful_keys(self, each: Occurrence) -> bool:
        return any(self._may_prune(each, path) for path, _ in self._among[each])

    def _sources(self, targets: set[Occurrence]) -> set[Occurrence]:
        """Return the tables whose columns provide keys for `targets`."""
        return {values.occurrence for each in targets for _, among in self._among[each] for values in among}

    def _size(self, each: Occurrence) -> float:
        """Return the number of rows of a table or frame; infinite if unknown or the table has too much metadata."""
        if each not in self._specs:
            rows = self._rows(each)
            return float("inf") if rows is None else rows.num_rows
        plan = self._plan(each)
        records = None if plan is None else plan.report.records
        return float("inf") if records is None else records

    def _plan(self, each: Occurrence) -> ScanPlan | None:
        """Return the plan of a scan without join keys; None if the table has too much metadata to plan it twice."""
        if each not in self._plans:
            spec = self._specs[each]
            names = {path[0] for path, _ in self._among.get(each, ()) if len(path) == 1}
            names |= set(statistics_columns(spec))
            self._planned[each] = spec
            self._plans[each] = self._plan_of(replace(spec.silence_reports(), stats_of=tuple(sorted(names))))
        return self._plans[each]

    def _plan_of(self, spec: ScanSpec) -> ScanPlan | None:
        """Return the plan of a scan; None if the table has too much metadata. Equal scans share one plan."""
        for other, plan in self._made:
            if other == spec:
                return plan
        plan = None if spec.metadata_bytes > _MOST_METADATA else spec.plan()
        self._made.append((spec, plan))
        return plan

    def _has_several_files(self, each: Occurrence) -> bool:
        plan = self._plan(each)
        return plan is None or len(plan.table) > 1

    def _prune(self, each: Occurrence, smaller: set[Occurrence], *, is_source: bool) -> None:
        conditions: list[Predicate] = []
        pruning: list[Predicate] = []
        for path, among in self._among[each]:
            if any(values.occurrence not in smaller for values in among):
                continue
            if not (is_source or self._may_prune(each, path)):
                continue
            kind = self._type(each, path)
            found = [self._distinct(values, kind) for values in among]
            if kind is None or any(values is None for values in found):
                continue
            keys = pc.unique(pa.concat_arrays([values for values in found if values is not None]))
            is_tested, predicate = _predicate(dotted_path(path), keys)
            (conditions if is_tested else pruning).append(predicate)
            of = ", ".join(f"{values.occurrence.qualifier}.{'.'.join(values.path)}" for values in among)
            self.notes.setdefault(each, []).append(
                f"{'.'.join(path)} among the {len(keys):,} value{'s' * (len(keys) != 1)} of {of}"
            )
        if conditions or pruning:
            spec = self._specs[each]
            spec = replace(spec, pruning=conjunction([spec.pruning, *pruning]))
            self._specs[each] = spec.where(conjunction(conditions)) if conditions else spec

    def _may_prune(self, each: Occurrence, path: Path) -> bool:
        """Return whether join keys of a column may exclude some files of a table.

        False if statistics are missing or the files' value ranges overlap too much. True for struct members, for
        columns that partition fields may use, and for tables with too much metadata to plan.
        """
        plan = self._plan(each)
        if plan is None or len(path) > 1 or _may_be_partitioned_by(path[0], plan):
            return True
        field = self._specs[each].snapshot.schema.field(path[0])
        stats = plan.table.stats.get(field.id)
        if stats is None or stats.lower is None or stats.upper is None:
            return False
        if field.type not in (*t.INTEGRAL, t.DATE):
            return True
        number = pa.int32() if field.type == t.DATE else pa.int64()
        lower, upper = (
            bound.drop_null().cast(number).to_numpy().astype(np.float64) for bound in (stats.lower, stats.upper)
        )
        if not len(lower) or not len(upper):
            return False
        width = upper.max() - lower.min()
        return bool(upper.mean() - lower.mean() <= _USELESS_WIDTH * width)

    def _type(self, each: Occurrence, path: Path) -> t.Type | None:
        """Return the type of a column if all engines compare its values alike, as join keys require; otherwise None."""
        if each not in self._specs:
            rows = self._rows(each)
            if rows is None or len(path) > 1 or path[0].lower() not in map(str.lower, rows.column_names):
                return None
            return _type_of_arrow(_column(rows, path[0]).type)
        kind = self._specs[each].snapshot.schema.field(dotted_path(path)).type
        is_exact = isinstance(kind, t.Decimal) or (isinstance(kind, t.Timestamp) and kind.unit == "us")
        return kind if kind in (*t.INTEGRAL, *_EXACT) or is_exact else None

    def _distinct(self, values: ValuesOf, wanted: t.Type | None) -> pa.Array | None:
        """Return the distinct values of a small table's column, cast to `wanted` (integers to int64).

        Returns None if the types differ, or the table is large, has no filter, or is a frame whose rows are not in
        memory.
        """
        own = self._type(values.occurrence, values.path)
        both_whole = wanted in t.INTEGRAL and own in t.INTEGRAL
        if own is None or wanted is None or not (own == wanted or both_whole):
            return None
        key = id(values.occurrence), values.path
        if key not in self._values:
            self._values[key] = self._read(values)
        found = self._values[key]
        return None if found is None else found.cast(pa.int64() if both_whole else wanted.arrow())

    def _read(self, values: ValuesOf) -> pa.Array | None:
        each = values.occurrence
        if each not in self._specs:
            rows = self._rows(each)
            return None if rows is None else _unique(_column(rows, values.path[0]))
        spec, plan = self._specs[each], self._plan(each)
        if plan is None or self._size(each) > _MOST_ROWS:
            return None
        if plan.report.metrics.total_file_size_in_bytes > _MOST_BYTES:
            return None
        if spec.condition == TRUE and spec.pruning == TRUE and self._size(each) > _FEW_ROWS:
            return None
        scan = spec.select(dotted_path(values.path)).silence_reports()
        files = scan.plan_table(plan.table)
        batches = read_batches([(files, scan.read_context(files))])
        return _unique(pa.Table.from_batches(batches, schema=scan.output.arrow()).column(0))


def _may_be_partitioned_by(column: str, plan: ScanPlan) -> bool:
    """Return whether a partition field may be derived from a column, judging by the names of the fields."""
    others = [name for name in plan.table_schema.names if name != column]
    return any(
        not any(name == other or name.startswith(f"{other}_") for other in others)
        for name in plan.files["partition"].type.names
    )


def _predicate(column: str, keys: pa.Array) -> tuple[bool, Predicate]:
    """Return whether the keys should filter rows as well as files, and their predicate on the column.

    With more than 10,000 keys, the predicate is the range of the keys.
    """
    if len(keys) <= _MOST_LISTED:
        return len(keys) <= _MOST_TESTED, In(column, values=tuple(map(plain_value, keys)))
    ends = pc.min_max(keys)
    lower, upper = (
        Comparison(column, op=op, value=plain_value(ends[end])) for op, end in ((">=", "min"), ("<=", "max"))
    )
    return False, lower & upper


def _unique(column: pa.ChunkedArray) -> pa.Array:
    found = column.unique().drop_null()
    return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found


def _column(rows: pa.Table, name: str) -> pa.ChunkedArray:
    return rows.column([each.lower() for each in rows.column_names].index(name.lower()))


def _type_of_arrow(kind: pa.DataType) -> t.Type | None:
    if pa.types.is_integer(kind) and kind != pa.uint64():
        return t.LONG
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return t.STRING
    return t.DATE if pa.types.is_date32(kind) else None
