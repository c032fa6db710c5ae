"""Derive column statistics of source columns from partition values of files and partition summaries of manifests."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Context

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common import types as t
from lakescan.common.hashing import murmur3
from lakescan.common.metadata_columns import partition_member_id
from lakescan.expressions.predicate import Comparison, In, Predicate
from lakescan.iceberg.manifests.bounds import decode_values
from lakescan.iceberg.metadata.partition_spec import PartitionField, PartitionSpec
from lakescan.planning.column_stats import ColumnStats

Compare = Callable[[pa.Array, pa.Array], pa.Array]


def stats_of_partitions(
    partitions: pa.StructArray, spec: PartitionSpec, sources: Mapping[int, t.Field]
) -> dict[int, ColumnStats]:
    """Return statistics of the spec's source columns in each file, by field id, from partition structs in spec order.

    `sources` are the columns whose statistics are wanted, by field id.
    """
    by_column: dict[int, ColumnStats] = {}
    for position, each, source in _fields_with_bounds(spec, sources):
        values = partitions.field(position)
        exact = ColumnStats.constant_column(values)
        lower, upper = _source_bounds(each, exact.lower, exact.upper, source)
        is_value = each.transform.name == "identity"
        nan_count = exact.nan_count if is_value else None
        stats = ColumnStats(
            lower, upper, exact.null_count, nan_count, exact.value_count, exact.exact if is_value else None
        )
        by_column[source.id] = tighten_stats(by_column.get(source.id), stats)
    return by_column


def stats_of_summaries(
    summaries: pa.ListArray, spec: PartitionSpec, sources: Mapping[int, t.Field]
) -> dict[int, ColumnStats]:
    """Return statistics of the spec's source columns in each manifest, by field id, from partition summaries.

    `sources` are the columns whose statistics are wanted, by field id.
    """
    by_column: dict[int, ColumnStats] = {}
    for position, each, source in _fields_with_bounds(spec, sources):
        summary = _nth(summaries, position, len(spec.fields))
        lower, upper = _source_bounds(each, *bounds_of_summaries(summaries, spec, position), source)
        stats = _flag_stats(summary, lower, upper, each, source)
        by_column[source.id] = tighten_stats(by_column.get(source.id), stats)
    return by_column


def stats_of_fields(summaries: pa.ListArray, spec: PartitionSpec, wanted: Collection[int]) -> dict[int, ColumnStats]:
    """Return statistics of partition fields in each manifest, by the fields' ids in the `_partition` metadata column.

    `wanted` are the ids to include.
    """
    by_field: dict[int, ColumnStats] = {}
    for position, each in enumerate(spec.fields):
        member = t.Field(partition_member_id(each.id), each.name, each.type)
        if member.id in wanted and each.transform.name != "void":
            summary = _nth(summaries, position, len(spec.fields))
            by_field[member.id] = _flag_stats(summary, *bounds_of_summaries(summaries, spec, position), each, member)
    return by_field


def _fields_with_bounds(
    spec: PartitionSpec, sources: Mapping[int, t.Field]
) -> Iterator[tuple[int, PartitionField, t.Field]]:
    """Yield position, partition field and source column of each field whose values limit those of the column."""
    for position, each in enumerate(spec.fields):
        source = sources.get(each.source_id)
        if source is not None and each.transform.keeps_nulls():
            yield position, each, source


def bounds_of_summaries(
    summaries: pa.ListArray, spec: PartitionSpec, position: int
) -> tuple[pa.Array | None, pa.Array | None]:
    """Return the lower and upper bound of one partition field in each manifest; None if its type has no bounds."""
    summary = _nth(summaries, position, len(spec.fields))
    kind = spec.fields[position].type
    lower, upper = (decode_values(summary.field(n), kind) for n in ("lower_bound", "upper_bound"))
    return lower, upper


def _flag_stats(
    summary: pa.StructArray,
    lower: pa.Array | None,
    upper: pa.Array | None,
    each: PartitionField,
    source: t.Field,
) -> ColumnStats:
    """Return statistics of the field `each` from its summaries, with these bounds of the column `source`.

    Null and NaN flags become counts: 0 for none, 1 of 1 values for all, and null if unknown.
    """
    has_null, has_nan = summary.field("contains_null"), summary.field("contains_nan")
    no_bounds = pc.is_null(summary.field("lower_bound"))
    one, zero, unknown = (pa.scalar(v, pa.int64()) for v in (1, 0, None))
    may_have_nan = pc.fill_null(has_nan, True) if source.type in t.FLOATING else pa.repeat(False, len(summary))
    all_null = pc.and_(pc.and_(pc.fill_null(has_null, False), no_bounds), pc.invert(may_have_nan))
    null_count = pc.if_else(all_null, one, pc.if_else(pc.fill_null(pc.invert(has_null), False), zero, unknown))
    nan_count = None
    if source.type in t.FLOATING and each.transform.name == "identity":
        nan_count = pc.if_else(pc.fill_null(pc.invert(has_nan), False), zero, unknown)
    return ColumnStats(lower, upper, null_count, nan_count, pa.repeat(one, len(summary)))


def _source_bounds(
    each: PartitionField, lower: pa.Array | None, upper: pa.Array | None, source: t.Field
) -> tuple[pa.Array | None, pa.Array | None]:
    if lower is None or upper is None:
        return None, None
    low, high = each.transform.source_bounds(lower, upper, source.type)
    return _as_type(low, source.type), _as_type(high, source.type)


def _as_type(bound: pa.Array | None, kind: t.Type) -> pa.Array | None:
    """Cast a bound to the column's current type, which promotion may have widened; None if that fails."""
    if bound is None or kind in (t.UUID, t.VARIANT):
        return None
    if isinstance(kind, t.Fixed):
        return bound.cast(pa.binary())
    try:
        return bound.cast(kind.arrow())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None


def tighten_stats(known: ColumnStats | None, more: ColumnStats) -> ColumnStats:
    """Combine two sources of statistics of one column: the greater lower bound and the lesser upper bound.

    Counts come from `known` if it has them. Otherwise they come from `more` if they mean none or all, scaled to the
    value count of `known`.
    """
    if known is None:
        return more
    lower = _better(known.lower, more.lower, pc.greater_equal)
    upper = _better(known.upper, more.upper, pc.less_equal)
    return ColumnStats(
        lower=lower,
        upper=upper,
        null_count=_count(known, more, known.null_count, more.null_count),
        nan_count=_count(known, more, known.nan_count, more.nan_count),
        value_count=known.value_count if known.value_count is not None else more.value_count,
        exact=_either(_exact_as(known, lower, upper), _exact_as(more, lower, upper)),
    )


def _exact_as(source: ColumnStats, lower: pa.Array | None, upper: pa.Array | None) -> pa.Array | None:
    """Return a mask of the rows where a source has exact bounds (values of the column) that equal the combined bounds.

    Returns None if no row has.
    """
    if source.exact is None or source.lower is None or source.upper is None or lower is None or upper is None:
        return None
    same = pc.and_(pc.equal(source.lower, lower), pc.equal(source.upper, upper))
    return pc.and_(pc.fill_null(same, False), pc.fill_null(source.exact, False))


def _either(one: pa.Array | None, other: pa.Array | None) -> pa.Array | None:
    return (one if other is None else other) if one is None or other is None else pc.or_(one, other)


def _better(one: pa.Array | None, other: pa.Array | None, is_better: Compare) -> pa.Array | None:
    """Return, row by row, the tighter of two bounds by `is_better`; if one is null or NaN, the other one.

    If one of the arrays is None, the other one is returned.
    """
    if one is None or other is None:
        return one if other is None else other
    other = other.cast(one.type)
    if pa.types.is_floating(one.type):
        one = pc.if_else(pc.is_nan(one), pa.scalar(None, one.type), one)
    return pc.if_else(pc.coalesce(is_better(one, other), pc.is_valid(one)), one, other)


def _count(known: ColumnStats, more: ColumnStats, own: pa.Array | None, other: pa.Array | None) -> pa.Array | None:
    if other is None or more.value_count is None or known.value_count is None:
        return own
    everything = pc.if_else(pc.equal(other, more.value_count), known.value_count, pa.scalar(None, pa.int64()))
    translated = pc.if_else(pc.equal(other, 0), pa.scalar(0, pa.int64()), everything)
    return translated if own is None else pc.coalesce(own, translated)


def _nth(summaries: pa.ListArray, position: int, expected: int) -> pa.StructArray:
    """Return the summary at a position of each manifest's list, as struct.

    It is null for a list whose length is not `expected`, the number of the spec's fields.
    """
    lengths = pc.fill_null(pc.list_value_length(summaries), 0).to_numpy(zero_copy_only=False)
    starts = np.concatenate([[0], np.cumsum(lengths)])[:-1]
    return summaries.flatten().take(pa.array(starts + position, pa.int64(), mask=lengths != expected))


# Specification, "Bucket Transform Details" and appendix B, "32-bit Hash Requirements": Murmur3, 32 bits, x86, seed 0.

_WIDE = Context(prec=76)  # decimals have up to 38 digits; the default context rounds to 28


def hash_value(value: pa.Scalar, kind: t.Type) -> int | None:
    """Return the bucket hash of a literal as a value of type `kind`; None for types that cannot be bucketed."""
    if kind in (t.INT, t.LONG, t.DATE, t.TIME):
        return murmur3(_long(int(value.value if hasattr(value, "value") else value.as_py())))
    match kind:
        case t.Timestamp():
            return murmur3(_long(value.value // 1000 if kind.unit == "ns" else value.value))
        case t.STRING:
            return murmur3(value.as_py().encode())
        case t.Decimal():
            unscaled = int(value.as_py().scaleb(kind.scale, _WIDE))
            width = (unscaled if unscaled >= 0 else ~unscaled).bit_length() // 8 + 1
            return murmur3(unscaled.to_bytes(width, "big", signed=True))
        case t.UUID | t.BINARY | t.Fixed():
            return murmur3(value.as_py())
    return None


def _long(number: int) -> bytes:
    return number.to_bytes(8, "little", signed=True)


@dataclass(frozen=True)
class WantedBuckets:
    """The buckets that matching rows can be in, ascending, for the partition field at position `place` of a spec."""

    place: int
    buckets: np.ndarray

    def among(self, values: pa.Array) -> pa.Array:
        """Return a mask of the partition values that are one of the buckets."""
        return pc.is_in(values.cast(pa.int32()), value_set=pa.array(self.buckets, pa.int32()))

    def between(self, lower: pa.Array, upper: pa.Array) -> pa.Array:
        """Return a mask of the ranges of partition values that include a bucket; a missing bound is unlimited."""
        low = pc.fill_null(lower, -1).to_numpy(zero_copy_only=False)
        high = pc.fill_null(upper, np.iinfo(np.int32).max).to_numpy(zero_copy_only=False)
        first = np.searchsorted(self.buckets, low, side="left")
        return pa.array(np.searchsorted(self.buckets, high, side="right") > first)


def wanted_buckets(
    conjuncts: Iterable[Predicate], spec: PartitionSpec, columns: Mapping[int, t.Field]
) -> list[WantedBuckets]:
    """Return the buckets that equality and IN conjuncts allow, for each bucketed field they apply to.

    `columns` are the source columns by field id. Rows must be in wanted buckets of all results.
    """
    wanted = []
    for part in conjuncts:
        match part:
            case Comparison(op="=", value=value):
                literals = (value,)
            case In(values=literals, negate=False):
                pass
            case _:
                continue
        for place, field in enumerate(spec.fields):
            source = columns.get(field.source_id)
            if field.transform.name != "bucket" or source is None or source.id != part.bound_id:
                continue
            hashes = [hash_value(v, source.type) for v in literals]
            count = field.transform.parameter
            if count is not None and None not in hashes:
                buckets = np.unique([(h & 0x7FFFFFFF) % count for h in hashes if h is not None])
                wanted.append(WantedBuckets(place, buckets.astype(np.int64)))
    return wanted
