"""Find data files that DuckDB's own Parquet reader reads correctly, in parallel and restricted to the needed columns.

The footer of each file is checked first. Its columns must have the table's types, and its statistics must come from a
reliable writer. All other files, such as files with deletes, are read through Arrow.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakescan.common import types as t
from lakescan.common.distinct_names import distinct_names
from lakescan.common.metadata_columns import RESERVED_IDS
from lakescan.errors import UnsupportedFeature
from lakescan.expressions.literals import plain_value
from lakescan.expressions.scalar.typed_sql import literal, quote_name, quote_text
from lakescan.planning.column_stats import ColumnStats
from lakescan.planning.plan import ScanPlan
from lakescan.reading.context import ReadContext
from lakescan.reading.data_file import open_data_file
from lakescan.reading.field_ids import read_fields
from lakescan.reading.parquet.file import ParquetData
from lakescan.reading.parquet.legacy_calendar import LegacyCalendar
from lakescan.reading.projection import FieldSource, resolve
from lakescan.statements.select.timestamps import check_years
from lakescan.storage.locations import split_location
from lakescan.tables.scan_spec import ScanSpec

_MOST_FILES = 2_000  # more files take too long, because each footer is read first
_MOST_GROUPS = 64  # groups of files with the same columns, each of which is a part of the query
_PLAIN = (*t.INTEGRAL, *t.FLOATING, t.BOOLEAN, t.DATE, t.STRING)
_GLOB = re.compile(r"[\[\]{}*?\\]")
# Writers with reliable statistics. Before 1.10, parquet-mr recorded wrong bounds of strings.
_SOUND = re.compile(
    r"parquet-mr version 1\.[1-9]\d|parquet-cpp-arrow|parquet-rs|delta-rs|DuckDB|Polars|polars|lakescan"
)
_TEXTS = ("STRING", "ENUM", "DECIMAL")  # logical types of byte arrays that DuckDB reads as Arrow does


@dataclass(frozen=True)
class DuckDBFiles:
    """The data files of a plan that DuckDB reads itself.

    - `paths`: their paths in the local file system.
    - `query`: an SQL query for their rows, with the columns of the scan.
    - `others`: an Arrow boolean array over the plan's files; true for the files that DuckDB does not read.
    """

    paths: tuple[str, ...]
    query: str
    others: pa.Array


def native_files(
    spec: ScanSpec, plan: ScanPlan | None = None, *, times: bool = False
) -> tuple[ScanPlan, DuckDBFiles] | None:
    """Return the plan of a scan, and the Parquet files of it that DuckDB reads correctly.

    `plan` is the scan's plan, if it was made already, with the statistics of `statistics_columns`. The scan's filter is
    not applied, so the query must apply it. `times`: whether the query computes with dates or timestamps, which must
    then be in the range of `check_years`.

    Returns None if DuckDB can read no file, if there are too many files, and if a float column may have NaN.
    """
    if not _is_simple(spec):
        return None
    if plan is None:
        plan = replace(spec, stats_of=statistics_columns(spec)).plan()
    checked = [field for field in spec.output.fields if field.type in t.FLOATING or (times and _is_time(field.type))]
    if not 0 < len(plan.table) <= _MOST_FILES or not all(_is_ordinary(plan, field) for field in checked):
        return None
    groups: dict[tuple[str, ...], list[str]] = {}
    native = np.zeros(len(plan.table), dtype=bool)
    for row, path, columns in _columns_of_files(spec, plan):
        native[row] = True
        groups.setdefault(columns, []).append(path)
    if not 0 < len(groups) <= _MOST_GROUPS:
        return None
    query = " UNION ALL ".join(
        f"SELECT {', '.join(columns)} FROM read_parquet([{', '.join(map(quote_text, paths))}], hive_partitioning = "
        "false)"
        for columns, paths in groups.items()
    )
    paths = tuple(path for some in groups.values() for path in some)
    return plan, DuckDBFiles(paths, query, pa.array(~native))


def statistics_columns(spec: ScanSpec) -> tuple[str, ...]:
    """Return the names of the float, date and timestamp columns, whose statistics `native_files` needs in a plan."""
    return tuple(field.name for field in spec.output.fields if field.type in t.FLOATING or _is_time(field.type))


def _is_simple(spec: ScanSpec) -> bool:
    """Return whether a scan has only plain columns, simple types, and options and storage that DuckDB supports.

    False, for example, for struct members, metadata columns, encryption, storage credentials and the option
    `lane="arrow"`.
    """
    options, storage = spec.options, spec.storage
    if options.lane == "arrow" or options.verify or spec.reads_deleted_rows or not spec.selection.is_plain:
        return False
    if storage.io_properties or storage.is_issued or storage.key_manager is not None:
        return False
    fields = spec.output.fields
    return bool(fields) and all(
        field.id not in RESERVED_IDS and _is_plain(field.type) and not field.pad for field in fields
    )


def _is_plain(kind: t.Type) -> bool:
    return kind in _PLAIN or isinstance(kind, t.Decimal) or (isinstance(kind, t.Timestamp) and kind.unit == "us")


def _is_time(kind: t.Type) -> bool:
    return kind == t.DATE or isinstance(kind, t.Timestamp)


def _is_ordinary(plan: ScanPlan, field: t.Field) -> bool:
    """Return whether statistics prove that a float column has no NaN, or a time column only years that DuckDB supports.

    DuckDB would skip NaN, because the bounds of files do not include it. Missing statistics return False.
    """
    stats = plan.table.stats.get(field.id, ColumnStats())
    if field.type in t.FLOATING:
        return stats.nan_count is not None and pc.all(pc.fill_null(pc.equal(stats.nan_count, 0), False)).as_py()
    if stats.lower is None or stats.upper is None or stats.lower.null_count or stats.upper.null_count:
        return False
    ends = pa.RecordBatch.from_arrays([stats.lower, stats.upper], names=["lower", "upper"])
    try:
        check_years(ends)
    except UnsupportedFeature:
        return False
    return True


def _columns_of_files(spec: ScanSpec, plan: ScanPlan) -> Iterator[tuple[int, str, tuple[str, ...]]]:
    """Yield the files that DuckDB reads correctly: index in the plan, local path, and the SQL of each column."""
    files, context = plan.files, spec.read_context()
    plain = pc.and_(pc.equal(files["file_format"], "parquet"), pa.array(plan.table.references.counts == 0))
    plain = pc.and_(plain, pc.is_null(files["key_metadata"]))
    constants = files["constants"].combine_chunks()
    paths, specs = files["path"].to_pylist(), files["spec_id"].to_pylist()
    for row in np.flatnonzero(plain.to_numpy(zero_copy_only=False)).tolist():
        path = spec.storage.current_location(paths[row])
        local = _local(path)
        if local is None:
            continue
        known = {i: constants.field(str(i))[row] for i in plan.table.constant_fields[specs[row]]}
        columns = _columns(path, context, known)
        if columns is not None:
            yield row, local, columns


def _local(location: str) -> str | None:
    """Return the path in the local file system; None for other storage and paths that DuckDB would read as globs."""
    scheme, authority, path = split_location(location)
    is_local = scheme == "file" and not authority and path.startswith("/")
    return path if is_local and not _GLOB.search(path) else None


def _columns(path: str, context: ReadContext, constants: Mapping[int, pa.Scalar]) -> tuple[str, ...] | None:
    """Return the SQL of the scan's columns in one Parquet file; None if DuckDB might read one of them differently.

    `constants` holds the values that the table's metadata records for all rows of the file, by field id.
    """
    with open_data_file(context.storage, path, "parquet") as data:
        assert isinstance(data, ParquetData)
        footer = data.file.metadata
        if LegacyCalendar.read_metadata(footer.metadata) is not None or not _SOUND.match(footer.created_by or ""):
            return None
        fields = read_fields(data.schema, context.matching)
        if len({field.name.lower() for field in fields}) < len(fields):
            return None
        projection = resolve(fields, context.output, context.matching, constants)
        if not all(_is_known(footer, leaf) for leaf in projection.leaves):
            return None
        found = [
            _value(source) if source.child is None else _column(source, projection.read[source.child].name, data.schema)
            for source in projection.sources
        ]
    if any(each is None for each in found):
        return None
    names = distinct_names(context.output.names)
    return tuple(f"{each} AS {quote_name(name)}" for each, name in zip(found, names, strict=True))


def _is_known(footer: pq.FileMetaData, leaf: int) -> bool:
    """Return whether DuckDB decodes the Parquet column with index `leaf` to the same type as Arrow."""
    column = footer.schema.column(leaf)
    if column.physical_type == "BYTE_ARRAY":
        return column.logical_type.type in _TEXTS  # JSON is another type in DuckDB, which validates all values
    if column.physical_type == "FIXED_LEN_BYTE_ARRAY":
        groups = range(footer.num_row_groups)
        return all("BYTE_STREAM_SPLIT" not in footer.row_group(each).column(leaf).encodings for each in groups)
    return bool(column.physical_type != "INT96")


def _column(source: FieldSource, name: str, schema: pa.Schema) -> str | None:
    """Return the SQL of the file's column `name`; None for a nested column or one without the table's type.

    The types must agree because DuckDB reads all files of a group with the types of the first.
    """
    is_same = schema.field(name).type == source.target.type.arrow()
    return quote_name(name) if is_same and not source.children else None


def _value(source: FieldSource) -> str | None:
    """Return the SQL literal of a column that the file lacks: its recorded constant or its default, or else NULL.

    Returns None for values without an exact literal: timestamps, floats, and strings with NUL characters.
    """
    kind, value = source.target.type, source.constant
    if value is None:
        value = pa.scalar(source.target.default, kind.arrow())
    if not value.is_valid:
        return literal(None, kind).sql
    found = plain_value(value)
    if isinstance(kind, t.Timestamp) or kind in t.FLOATING or isinstance(found, np.datetime64) or "\0" in str(found):
        return None
    return literal(found, kind).sql


def paths_of(found: Sequence[DuckDBFiles]) -> str:
    """Return the paths of all files as the text of an SQL list of strings."""
    return f"[{', '.join(quote_text(path) for each in found for path in each.paths)}]"
