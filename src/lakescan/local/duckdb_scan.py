"""Present a scan as a lazy DuckDB relation: columns and filters of DuckDB's query are pushed into the scan.

DuckDB asks a pyarrow dataset for columns, and for the rows that pass a filter which pyarrow evaluates. DuckDB does not
push down conditions that pyarrow would evaluate differently, such as those with NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.dataset as ds

from lakescan.common.arrays import remove_inner_offsets
from lakescan.common.distinct_names import check_distinct
from lakescan.local.reader import scan_batches
from lakescan.reading.context import query_batch_size
from lakescan.tables.scan_spec import ScanSpec

if TYPE_CHECKING:
    import duckdb


def lazy_relation(spec: ScanSpec, connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyRelation:
    """Return the rows of a scan as a lazy relation of a DuckDB connection.

    Its queries read the snapshot that is current when it is created. Raises `UnsupportedFeature` if names of columns
    differ only in case, which DuckDB would confuse.
    """
    check_distinct(spec.output.arrow(), spec.table.location)
    return connection.from_arrow(_ScanDataset(spec))


class _ScanDataset(ds.Dataset):
    """A pyarrow dataset over a scan, which has only `schema` and `scanner`, the members that DuckDB uses."""

    def __init__(self, spec: ScanSpec) -> None:
        self._spec = spec
        self._state = spec.snapshot  # resolves the snapshot, which the spec keeps

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the scan's columns."""
        return self._spec.output.arrow()

    def scanner(
        self, columns: Sequence[str] | None = None, filter: ds.Expression | None = None, **_: Any
    ) -> _ScanReader:
        """Return a scanner of the rows that pass a filter, with some of the columns (None: all)."""
        return _ScanReader(self._spec, tuple(self._spec.output.names if columns is None else columns), filter)

    def _refuse(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError("this dataset of a lakescan scan serves DuckDB only: for other reads, use the scan")

    count_rows = get_fragments = head = join = join_asof = replace_schema = sort_by = take = to_batches = to_table = (
        _refuse
    )
    filter: Callable[..., Any] = _refuse


class _ScanReader:
    """The scanner that DuckDB reads from: rows with the columns `names` that pass the filter `passes`.

    It replaces pyarrow's own scanner, whose read-ahead threads can outlive the interpreter's exit.
    """

    def __init__(self, spec: ScanSpec, names: tuple[str, ...], passes: ds.Expression | None) -> None:
        tested = () if passes is None else tuple(name for name in spec.output.names if name not in names)
        self._spec, self._names, self._passes = spec.narrow_columns(names + tested), names, passes
        self.projected_schema = spec.narrow_columns(names).output.arrow()

    def to_reader(self) -> pa.RecordBatchReader:
        """Return the rows as an Arrow reader."""
        return pa.RecordBatchReader.from_batches(self.projected_schema, self._batches())

    def _batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows in batches whose nested arrays have no offsets, as DuckDB ignores these."""
        for batch in scan_batches(self._spec, query_batch_size(self._spec.output)):
            if self._passes is not None:
                batch = batch.filter(self._passes)
            arrays = map(remove_inner_offsets, batch.columns[: len(self._names)])
            yield pa.RecordBatch.from_arrays(list(arrays), schema=self.projected_schema)
