"""Sample the footers of data files for reasons not to read them with Spark's own Parquet reader."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lakescan.reading.context import ReadContext
from lakescan.reading.data_file import open_data_file
from lakescan.reading.file_schema import FileField, has_ids, read_fields
from lakescan.reading.parquet.file import ParquetData
from lakescan.reading.parquet.legacy_calendar import LegacyCalendar

_MOST = 8


def why_footers(context: ReadContext, paths: pa.Array, native: np.ndarray) -> str | None:
    """The reason to read files with field ids through Arrow, from an even sample of `_MOST` footers; None without one.

    Spark refuses files without field ids, and pushes filters by name. It rebases dates if a footer says that they are
    in the calendar of Spark 2, which Iceberg's reader does not do.
    """
    places = np.flatnonzero(native)
    for place in places[:: max(1, len(places) // _MOST)].tolist():
        with open_data_file(context.storage, paths[place].as_py(), "parquet", None) as data:
            assert isinstance(data, ParquetData)
            if not has_ids(data.schema):
                return "data files have no field ids"
            if (name := _wrong_name(read_fields(data.schema, context.matching), context)) is not None:
                return f"a data file has another column under the name {name!r}"
            legacy = LegacyCalendar.of(data.file.metadata.metadata)
            if legacy is not None and not context.matching.legacy_calendar:
                return "data files have dates in the calendar of Spark 2, which Spark would rebase"
    return None


def _wrong_name(fields: tuple[FileField, ...], context: ReadContext) -> str | None:
    """A settled name (see `FileColumns`) that the file nevertheless uses for another column; None if there is none."""
    expected = {f.name.lower(): f.id for f in context.table_schema.fields if f.id in context.matching.settled}
    return next((f.name for f in fields if expected.get(f.name.lower(), f.id) != f.id), None)
