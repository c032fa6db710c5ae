"""Columns of numbers, booleans, dates and times, decoded by Polars where it is installed.

Its decoder takes half to two thirds of the processor time of pyarrow's for such columns. Everything else is pyarrow's:
texts, which it keeps as dictionaries, nested columns, encrypted files, files that are not in the local filesystem.
What Polars does not decode to what the footer promises, pyarrow does, or it tells what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from lakescan.common.polars_columns import is_fixed_width, polars_for
from lakescan.reading.parquet.footer import Footer

LEAST_ROWS = 1 << 15  # with fewer rows, opening the file again takes longer than decoding
PIECE_BYTES = 1 << 26  # decoded at once, or a row group
CODECS = frozenset({0, 1, 2, 6, 7})  # by their numbers in `parquet.thrift`: none, snappy, gzip, zstd, lz4_raw
_UNKNOWN = frozenset({-1})
_PHYSICAL = ("BOOLEAN", "INT32", "INT64", "FLOAT", "DOUBLE")


def fixed_width_columns(file: pq.ParquetFile, footer: Footer, leaves: Sequence[int]) -> dict[int, str]:
    """Those of these leaf columns that Polars may decode, with their names; they are top-level columns."""
    schema = file.schema_arrow
    columns = {leaf: file.schema.column(leaf) for leaf in leaves}
    found = {
        leaf: column.path
        for leaf, column in columns.items()
        if column.physical_type in _PHYSICAL
        and not column.max_repetition_level
        and len(schema.get_all_field_indices(column.path)) == 1
        and is_fixed_width(schema.field(column.path).type)
    }
    codecs = footer.codecs(found)
    return {leaf: name for leaf, name in found.items() if codecs.get(leaf, _UNKNOWN) <= CODECS}


def decode_with_polars(path: str, names: Sequence[str], start: int, rows: int, schema: pa.Schema) -> pa.Table | None:
    """The rows of a local file from position `start` on, of these columns; None if Polars does not read them.

    `schema` is the file's: the columns have its types.
    """
    polars = polars_for(8 * rows * len(names))
    if polars is None:
        return None
    options = {"glob": False, "hive_partitioning": False, "use_statistics": False, "cache": False}
    try:
        scan = polars.scan_parquet(path, **options).slice(start, rows).select(polars.col(list(names)))
        table: pa.Table = scan.collect().to_arrow()
    except (KeyboardInterrupt, SystemExit, GeneratorExit, MemoryError):
        raise
    except BaseException:  # Rust panics are no exceptions; pyarrow reads the columns, or tells what is wrong
        return None
    types = [schema.field(name).type for name in names]
    is_promised = table.num_rows == rows and table.column_names == list(names) and table.schema.types == types
    return table if is_promised else None
