"""Reads whole Parquet files by Polars, where the result is exact: several files together, and only the needed columns.

Each file's footer is checked first. The columns must be top-level columns of the file with the table's types (numbers,
booleans, dates, timestamps, strings), or constants. Statistics in footers are not used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from lakescan.common.arrays import empty_table
from lakescan.common.metadata_columns import RESERVED_IDS
from lakescan.common.polars_columns import is_fixed_width
from lakescan.common.schema import Schema
from lakescan.reading.context import ReadContext
from lakescan.reading.data_file import check_rows, open_data_file
from lakescan.reading.field_ids import read_fields
from lakescan.reading.parquet.file import ParquetData
from lakescan.reading.parquet.legacy_calendar import LegacyCalendar
from lakescan.reading.parquet.polars_decoder import CODECS
from lakescan.reading.projection import FieldSource, resolve

if TYPE_CHECKING:
    import polars

_PHYSICAL = ("BOOLEAN", "INT32", "INT64", "FLOAT", "DOUBLE", "BYTE_ARRAY")
_TEXTS = ("STRING", "NONE")


@dataclass(frozen=True)
class FrameFile:
    """A file that Polars can read: its local path, its row count, and a name or constant for each output column.

    `schema` is the file's Arrow schema. Files with equal `columns` and `schema` are read together.
    """

    path: str
    rows: int
    columns: tuple[str | pa.Scalar, ...]
    schema: pa.Schema

    def is_like(self, other: FrameFile) -> bool:
        """Return whether another file with the same number of columns can be read together with this one."""
        same = all(_is_same(*pair) for pair in zip(self.columns, other.columns, strict=True))
        return same and self.schema.equals(other.schema)


def has_simple_columns(schema: Schema) -> bool:
    """Return whether the schema has only columns that Polars reads exactly: of numbers, dates, strings, ...

    False for a schema without columns, with metadata columns, or with CHAR(n).
    """
    return bool(schema.fields) and all(
        field.id not in RESERVED_IDS and not field.pad and _is_simple(field.type.arrow()) for field in schema.fields
    )


def frame_file(
    context: ReadContext, path: str, constants: Mapping[int, pa.Scalar], record_count: int | None
) -> FrameFile | None:
    """Check how Polars reads the output's columns of a file; None if it cannot, or might read one differently.

    `constants` are values by field id, and `record_count` is the recorded row count. Raises `MissingFile` and
    `CorruptData`, like reading the file.
    """
    local = context.storage.local_path(path)
    if local is None or context.verify:
        return None
    with open_data_file(context.storage, path, "parquet") as data:
        assert isinstance(data, ParquetData)
        check_rows(path, data.rows, record_count)
        if data.local is None or LegacyCalendar.read_metadata(data.file.metadata.metadata) is not None:
            return None
        fields = read_fields(data.schema, context.matching)
        if len({field.name for field in fields}) < len(fields):
            return None
        projection = resolve(fields, context.output, context.matching, constants)
        codecs = data.footer.codecs(projection.leaves)
        if not all(codecs.get(leaf, frozenset({-1})) <= CODECS and _is_known(data, leaf) for leaf in projection.leaves):
            return None
        names = [field.name for field in projection.read]
        columns = tuple(_column(source, names, data.schema) for source in projection.sources)
        if any(each is None for each in columns) or not projection.leaves:
            return None
        return FrameFile(local, data.rows, tuple(each for each in columns if each is not None), data.schema)


def collect_frame(files: Sequence[FrameFile], output: Schema, predicate: polars.Expr | None) -> polars.DataFrame | None:
    """Read files that are alike (`FrameFile.is_like`), in order, to a Polars frame with the output's columns.

    Only rows that match `predicate` are returned, all if it is None. Returns None if Polars cannot read them.
    """
    import polars as pl

    options = {"glob": False, "hive_partitioning": False, "use_statistics": False, "cache": False}
    values = [
        pl.col(each) if isinstance(each, str) else pl.lit(pl.Series(pa.repeat(each, 1))).first()
        for each in files[0].columns
    ]
    chosen = [each.alias(field.name) for each, field in zip(values, output.fields, strict=True)]
    try:
        scan = pl.scan_parquet([file.path for file in files], **options).select(chosen)
        frame = (scan if predicate is None else scan.filter(predicate)).collect()
    except (KeyboardInterrupt, SystemExit, GeneratorExit, MemoryError):
        raise
    except BaseException:  # includes Rust panics; pyarrow then reads the files, or raises the error
        return None
    is_whole = predicate is not None or frame.height == sum(file.rows for file in files)
    return frame if is_whole and frame.schema == pl.DataFrame(empty_table(output.arrow())).schema else None


def _is_same(one: str | pa.Scalar, other: str | pa.Scalar) -> bool:
    """Return whether two columns have the same name or constant. Unlike in Arrow, 0.0 and -0.0 differ, NaN is NaN."""
    if isinstance(one, pa.Scalar) and isinstance(other, pa.Scalar) and pa.types.is_floating(one.type):
        return bool(one.type == other.type and str(one) == str(other))
    return bool(one == other)


def _is_simple(kind: pa.DataType) -> bool:
    return kind == pa.string() or is_fixed_width(kind)


def _is_known(data: ParquetData, leaf: int) -> bool:
    """Return whether Polars decodes a leaf column of a file to the same values as Arrow, by its physical type."""
    column = data.file.schema.column(leaf)
    if column.max_repetition_level or column.physical_type not in _PHYSICAL:
        return False
    return bool(column.physical_type != "BYTE_ARRAY" or column.logical_type.type in _TEXTS)


def _column(source: FieldSource, names: list[str], schema: pa.Schema) -> str | pa.Scalar | None:
    kind = source.target.type.arrow()
    if source.child is None:
        value = source.constant if source.constant is not None else pa.scalar(source.target.default, kind)
        return value if value.type == kind else None
    name = names[source.child]
    # Polars interprets such names as patterns.
    is_pattern = name == "*" or (name.startswith("^") and name.endswith("$"))
    is_same = not source.children and schema.field(name).type == kind
    return name if is_same and not is_pattern else None
