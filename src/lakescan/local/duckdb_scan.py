"""A scan as a DuckDB relation that reads when it is queried: DuckDB's columns and filters go into the scan.

DuckDB asks a data set of pyarrow for columns, and for the rows that pass a filter which pyarrow evaluates. It leaves
out conditions that pyarrow would evaluate otherwise, such as those with NaN.
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
    """The rows of a scan as a relation; the state that the table has now is read each time that it is queried."""
    check_distinct(spec.output.arrow(), spec.table.location)
    return connection.from_arrow(_ScanDataset(spec))


class _ScanDataset(ds.Dataset):
    """A scan with the two members of a data set that DuckDB uses."""

    def __init__(self, spec: ScanSpec) -> None:
        self._spec = spec
        self._state = spec.snapshot  # resolved once, and kept by the spec

    @property
    def schema(self) -> pa.Schema:
        """The columns of the scan."""
        return self._spec.output.arrow()

    def scanner(
        self, columns: Sequence[str] | None = None, filter: ds.Expression | None = None, **_: Any
    ) -> _ScanReader:
        """The rows that pass a filter, with some of the columns, as DuckDB reads them once."""
        return _ScanReader(self._spec, tuple(self._spec.output.names if columns is None else columns), filter)

    def _refuse(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError("a lakescan scan in DuckDB offers pyarrow's data set to DuckDB alone: use the scan")

    count_rows = get_fragments = head = join = join_asof = replace_schema = sort_by = take = to_batches = to_table = (
        _refuse
    )
    filter: Callable[..., Any] = _refuse


class _ScanReader:
    """What DuckDB reads of a data set. pyarrow's own scanner runs ahead in threads, which outlive an exit of Python."""

    def __init__(self, spec: ScanSpec, names: tuple[str, ...], passes: ds.Expression | None) -> None:
        tested = () if passes is None else tuple(name for name in spec.output.names if name not in names)
        self._spec, self._names, self._passes = spec.narrow_columns(names + tested), names, passes
        self.projected_schema = spec.narrow_columns(names).output.arrow()

    def to_reader(self) -> pa.RecordBatchReader:
        """The rows."""
        return pa.RecordBatchReader.from_batches(self.projected_schema, self._batches())

    def _batches(self) -> Iterator[pa.RecordBatch]:
        """The rows, without the offsets of slices that DuckDB drops."""
        for batch in scan_batches(self._spec, query_batch_size(self._spec.output)):
            if self._passes is not None:
                batch = batch.filter(self._passes)
            arrays = map(remove_inner_offsets, batch.columns[: len(self._names)])
            yield pa.RecordBatch.from_arrays(list(arrays), schema=self.projected_schema)
