"""Known bugs of writers, each with its source, and which recorded statistics can be trusted despite them.

Metadata and footers record bounds and counts that other writers computed. A file, row group or stripe is only pruned if
these prove that it has no matching row. So statistics are ignored if their writer, its version and the column's type
are known to have wrong ones. All such rules are in this module; the formats and readers call it.

Some bugs cannot be recognized, because metadata does not name the writer of a file: text bounds of Iceberg before 1.4
for Parquet files with row groups whose texts are too long for bounds (apache/iceberg#8559), upper bounds of
iceberg-rust 0.5.1 for several row groups (apache/iceberg-rust#1519), and null counts of 0 for unknown ones
(apache/iceberg#17558, apache/paimon#8732).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import date
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common import types as t
from lakescan.planning.column_stats import ColumnStats

# The precision that Delta's JSON statistics lose. `delta.scan.statistics` widens bounds by it:
FLOAT_ERROR = 1e-5  # relative: floats printed with 6 digits, the number that C guarantees
DOUBLE_ERROR = 1e-7  # relative: doubles printed as floats, before their column was widened to double
LEAST_FLOAT = 1.5e-45  # absolute: the smallest floats have one significant digit
DECIMAL_ERROR = 2.0**-48  # relative: decimals converted to doubles, by a power of ten that is itself rounded
EXACT_DIGITS = 14  # decimals of at most this many digits survive the conversion to double
MILLISECOND = 1_000  # microseconds: timestamps are truncated to milliseconds (protocol, "Per-file Statistics")
MINUTE = 60_000_000  # microseconds: zone offsets are printed without seconds
WHOLE_MINUTES = 76_204_800_000_000  # microseconds, June 1972: since then, all zone offsets are whole minutes

_ICEBERG_EXACT = (
    *t.INTEGRAL,
    *t.FLOATING,
    t.BOOLEAN,
    t.DATE,
    t.TIME,
    *(t.Timestamp("us", zoned) for zoned in (True, False)),
)
_NANOSECONDS = (t.Timestamp("ns", zoned=True), t.Timestamp("ns", zoned=False))
_DELTA_EXACT = (*t.INTEGRAL, t.DATE)
_Version = tuple[int, int, int]
_CREATED_BY = re.compile(r"^(?P<application>.*?)\s+(?:version\s+)?(?:v\.?)?(?P<version>\d+(?:\.\d+)*)")


def drop_contradictions(stats: ColumnStats) -> ColumnStats:
    """Return the statistics, with values that contradict each other set to unknown.

    - A lower bound above the upper bound: both become unknown. Polars and DuckDB's Parquet readers in pg_lake compared
      decimals as unsigned bytes (pola-rs/polars#29347, Snowflake-Labs/pg_lake#431); partition summaries too
      (ClickHouse/ClickHouse#119171).
    - A null or NaN count that is negative or above the value count becomes unknown. ClickHouse recorded the counts of
      all files of a commit for each of them (ClickHouse/ClickHouse#112414).
    - A null count that equals the value count, next to a bound, which only a non-null value can have: the null count
      becomes unknown (the same bug, if the sum happens to be the file's row count).
    """
    lower, upper = stats.lower, stats.upper
    if lower is not None and upper is not None and lower.type == upper.type:
        inverted = pc.fill_null(pc.greater(lower, upper), False)
        if pc.any(inverted).as_py():
            lower, upper = (_unknown_where(inverted, each) for each in (lower, upper))
    nulls = _drop_impossible(stats.null_count, stats.value_count)
    if nulls is not None and stats.value_count is not None:
        claims_nulls = pc.fill_null(pc.and_(pc.equal(nulls, stats.value_count), pc.greater(nulls, 0)), False)
        if pc.any(claims_nulls).as_py():
            for bound in (stats.lower, stats.upper):
                if bound is not None:
                    nulls = _unknown_where(pc.and_(claims_nulls, pc.is_valid(bound)), nulls)
    return replace(
        stats,
        lower=lower,
        upper=upper,
        null_count=nulls,
        nan_count=_drop_impossible(stats.nan_count, stats.value_count),
    )


def _drop_impossible(counts: pa.Array | None, values: pa.Array | None) -> pa.Array | None:
    if counts is None:
        return None
    wrong = pc.less(counts, 0)
    if values is not None:
        wrong = pc.or_kleene(wrong, pc.greater(counts, values))
    wrong = pc.fill_null(wrong, False)
    return _unknown_where(wrong, counts) if pc.any(wrong).as_py() else counts


def _unknown_where(mask: pa.Array, values: pa.Array) -> pa.Array:
    return pc.if_else(mask, pa.scalar(None, values.type), values)


# Iceberg manifests. An entry names its file's format, not its writer.


def filter_manifest_stats(
    stats: ColumnStats, field: t.Field, formats: pa.Array, rows: pa.Array, *, is_member: bool
) -> ColumnStats:
    """Return the statistics that manifests record for a column, without those that some writers are known to get wrong.

    `formats` and `rows` are the file format and row count of each file. `is_member`: the column is in a struct.

    - Value counts: StarRocks left out nulls (StarRocks/starrocks#50699), and ORC leaves out the members of null structs
      (`OrcMetrics`). A column outside lists and maps has a value or a null in each row, so `rows` is used instead.
    - Null counts of 0 in ORC: members of null structs are not counted (`OrcMetrics`: `hasNull` is of the member).
    - Nanosecond timestamps in ORC: Iceberg 1.11 and earlier recorded microseconds (apache/iceberg#16922).
    """
    is_orc = pc.equal(formats, "orc")
    nulls, lower, upper = stats.null_count, stats.lower, stats.upper
    if is_member and nulls is not None:
        nulls = _unknown_where(pc.fill_null(pc.and_(is_orc, pc.equal(nulls, 0)), False), nulls)
    if field.type in _NANOSECONDS:
        lower, upper = (None if each is None else _unknown_where(is_orc, each) for each in (lower, upper))
    kinds = pc.unique(formats)
    exact = kinds.filter(pa.array([_is_exact(field.type, kind) for kind in kinds.to_pylist()], pa.bool_()))
    return ColumnStats(lower, upper, nulls, stats.nan_count, rows, pc.is_in(formats, value_set=exact))


def _is_exact(kind: t.Type, file_format: str) -> bool:
    """Return whether bounds in manifests are values of rows.

    Writers truncate strings and bytes (`write.metadata.metrics.default`: truncate(16)), nanoseconds to microseconds,
    and ORC timestamps to milliseconds (ORC-611). A NaN makes ORC bounds infinite (`OrcMetrics.replaceNaN`).
    """
    return file_format == "parquet" and (kind in _ICEBERG_EXACT or isinstance(kind, t.Decimal))


# Delta's log. A file action does not name its writer either.


def delta_bounds(
    lower: pa.Array | None, upper: pa.Array | None, kind: t.Type
) -> tuple[pa.Array | None, pa.Array | None]:
    """Return the bounds of a column in Delta statistics that can be trusted; others become unknown.

    The bounds are of files, in the column's type. These bugs of delta-rs 0.x (`rust/src/writer/stats.rs` at 00af840e)
    can be recognized:

    - Merging the bounds of row groups lost the lower bound and computed the upper bound from it. An upper bound without
      a lower bound becomes unknown.
    - Dates were counted from the year 1 instead of 1970. Both bounds become unknown if the upper one is before
      0400-01-01.
    - Decimals of 19 to 35 digits were not aligned, so that they were multiplied by a power of two. Such multiples
      become unknown.
    """
    if kind == t.DATE and lower is not None and upper is not None:
        moved = pc.fill_null(pc.less(upper, pa.scalar(_YEAR_400)), False)
        lower, upper = (_unknown_where(moved, each) for each in (lower, upper))
    if isinstance(kind, t.Decimal) and kind.precision in _UNALIGNED:
        lower, upper = (
            None if each is None else _unknown_where(_is_unaligned(each, kind), each) for each in (lower, upper)
        )
    if upper is not None:
        upper = pa.nulls(len(upper), upper.type) if lower is None else _unknown_where(pc.is_null(lower), upper)
    return lower, upper


_YEAR_400 = date(400, 1, 1)
_UNALIGNED = range(19, 36)  # precisions of decimals of 9 to 15 bytes, which delta-rs read as 16


def _is_unaligned(bounds: pa.Array, kind: t.Decimal) -> pa.Array:
    """Return a mask of the decimal bounds that are a multiple of the power of two that the bug multiplied by.

    That power is 256 for each byte that a decimal of the precision takes less than 16. Zero is never counted.
    """
    taken = ((10**kind.precision - 1).bit_length() + 8) // 8
    factor, scale = 256.0 ** (16 - taken), 10.0**kind.scale
    numbers = np.abs(pc.fill_null(bounds.cast(pa.float64()), 0.0).to_numpy(zero_copy_only=False)) * scale
    # Bounds of more than 14 digits were widened by up to 2^-48.
    near = np.abs(numbers - np.round(numbers / factor) * factor) <= numbers * 2.0**-46
    return pa.array((numbers != 0) & near)


def delta_null_counts(counts: pa.Array, kind: t.Type) -> pa.Array:
    """Return the null counts of a column in Delta statistics that can be trusted; others become unknown.

    For arrays, delta-rs records Parquet's count for their elements (`apply_min_max_for_column`), which also counts
    empty arrays and null elements. This is at least the number of null arrays, so only a count of 0 is trusted.
    """
    return _unknown_where(pc.fill_null(pc.not_equal(counts, 0), False), counts) if t.children(kind) else counts


def delta_exact(stats: ColumnStats, field: t.Field, tight: pa.Array) -> pa.Array | None:
    """Return a mask of the files whose bounds in Delta statistics are values of rows; None for no file.

    `tight` is the protocol's `tightBounds`. Trino before 392 counted nulls as the type's zero (trinodb/trino#13389), so
    a bound of 0 in a file with nulls need not be a value.
    """
    if field.type not in _DELTA_EXACT or field.width:
        return None
    has_nulls = pa.repeat(True, len(tight)) if stats.null_count is None else pc.not_equal(stats.null_count, 0)
    for bound in (stats.lower, stats.upper):
        if bound is not None:
            is_zero = pc.equal(bound.cast(pa.int32()) if field.type == t.DATE else bound, 0)
            tight = pc.and_(tight, pc.invert(pc.fill_null(pc.and_kleene(is_zero, has_nulls), False)))
    return tight


# Parquet footers, which name their writer: `created_by`, such as "parquet-mr version 1.12.3 (build ...)".


@dataclass(frozen=True)
class _Fault:
    """A bug: wrong bounds in the Parquet footers of one application.

    - `application`: the name in `created_by`.
    - `before`: the first version without the bug; None if all versions have it.
    - `concerns`: returns whether a column is affected, by its physical Parquet type and its Arrow type.
    - `source`: where the bug is documented.
    """

    application: str
    before: _Version | None
    concerns: Callable[[str, pa.DataType], bool]
    source: str


def _has_bytes(physical: str, kind: pa.DataType) -> bool:
    return physical in ("BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY")


def _is_unsigned(physical: str, kind: pa.DataType) -> bool:
    return _has_bytes(physical, kind) or bool(pa.types.is_unsigned_integer(kind))


def _is_decimal_bytes(physical: str, kind: pa.DataType) -> bool:
    return _has_bytes(physical, kind) and bool(pa.types.is_decimal(kind))


def _is_decimal_text(physical: str, kind: pa.DataType) -> bool:
    return physical == "BYTE_ARRAY" and bool(pa.types.is_decimal(kind))


def _is_decimal(physical: str, kind: pa.DataType) -> bool:
    return bool(pa.types.is_decimal(kind))


_FAULTS = (
    _Fault("parquet-mr", (1, 10, 0), _is_unsigned, "PARQUET-251, PARQUET-686: bytes were compared as signed"),
    _Fault("parquet-cpp", (1, 3, 0), _is_unsigned, "PARQUET-686, PARQUET-816, `HasCorrectStatistics` of Arrow"),
    _Fault("parquet-cpp", None, _is_decimal_bytes, "PARQUET-1655: compared as bytes that are signed one by one"),
    _Fault("parquet-cpp-arrow", (4, 0, 0), _is_decimal_bytes, "PARQUET-1655, fixed by apache/arrow#9582"),
    _Fault("parquet-rs", (5, 2, 0), _has_bytes, "apache/arrow-rs#641, fixed by #643: texts were compared by length"),
    _Fault("parquet-rs", None, _is_decimal_text, "apache/arrow-rs#10860, #11073"),
    _Fault("Polars", None, _is_decimal_bytes, "pola-rs/polars#25965, #29347: merged as unsigned bytes"),
    _Fault("Polars (python)", (2, 1, 0), _is_decimal_bytes, "pola-rs/polars#25965, #29347: merged as unsigned bytes"),
    _Fault("ClickHouse", (25, 8, 0), _is_decimal_bytes, "ClickHouse/ClickHouse#83754: compared as unsigned"),
    _Fault("cudf", None, _is_decimal, "NVIDIA/cudf#11179, #15281: truncated, or in the wrong byte order"),
    _Fault("hyparquet", None, _is_decimal, "hyparam/hyparquet-writer#38: doubles instead of numbers"),
)


def can_trust_footer(created_by: str | None, physical: str, kind: pa.DataType) -> bool:
    """Return whether bounds in a Parquet footer can be trusted, by its writer and the column's physical and Arrow type.

    Footers without a writer's name are trusted: PARQUET-297 lost it in files of parquet-mr before 1.8, which declare no
    column order, so their bounds of bytes are not read anyway.
    """
    application, version = _writer(created_by or "")
    return not any(
        fault.application == application
        and (fault.before is None or version is None or version < fault.before)
        and fault.concerns(physical, kind)
        for fault in _FAULTS
    )


@cache
def _writer(created_by: str) -> tuple[str, _Version | None]:
    """Return the application and version in `created_by`; without a version, the whole text and None."""
    found = _CREATED_BY.match(created_by)
    if found is None:
        return created_by.strip(), None
    major, minor, patch, *_ = [*map(int, found["version"].split(".")), 0, 0]
    return found["application"], (major, minor, patch)


# ORC footers, which have numbers for the writer and for its version.

_ORC_WRITERS = frozenset({0, 1, 2, 4})  # ORC Java, ORC C++ (also Arrow), Presto, Trino; `orc_proto.proto`, `Footer`


def can_trust_orc(writer: int | None, writer_version: int | None) -> bool:
    """Return whether statistics of stripes in an ORC footer can be trusted, by its `writer` and `writerVersion`.

    The Java writer before version 1 recorded wrong maxima (HIVE-8732). cuDF (5) records wrong timestamps
    (NVIDIA/cudf#14325). Other writers are unknown.
    """
    return (writer or 0) in _ORC_WRITERS and (bool(writer) or (writer_version or 0) >= 1)
