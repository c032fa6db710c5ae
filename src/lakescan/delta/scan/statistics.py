"""Convert file statistics, `stats` (JSON text) and `stats_parsed` (checkpoint columns), to column statistics.

Implements "Per-file Statistics" of the protocol. Only the columns of the filter are parsed. Statistics that cannot be
parsed are ignored and never fail a read.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from decimal import Decimal as PyDecimal
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common import types as t
from lakescan.common.arrays import as_array
from lakescan.common.schema import Schema
from lakescan.delta.log.json_lines import parse_json_texts
from lakescan.delta.scan.partition_values import parse_timestamps
from lakescan.planning import corrupt_statistics as faults
from lakescan.planning.column_stats import ColumnStats
from lakescan.planning.corrupt_statistics import delta_bounds, delta_exact, delta_null_counts, drop_contradictions
from lakescan.reading.type_promotion import pad_bounds

# NaN and infinities, which are texts in JSON, are useless as bounds. The pattern cannot match within a text, where
# quotation marks are escaped.
NOT_FINITE = r':\s*"(?:NaN|[+-]?Inf(?:inity)?)"'
_LEADING_COUNT = r'^\s*\{\s*"numRecords"\s*:\s*(?P<n>\d{1,18})\s*[,}]'
_NUMBER: dict[t.Type, pa.DataType] = {
    t.BYTE: pa.int64(),
    t.SHORT: pa.int64(),
    t.INT: pa.int64(),
    t.LONG: pa.int64(),
    t.FLOAT: pa.float64(),
    t.DOUBLE: pa.float64(),
    t.BOOLEAN: pa.bool_(),
    t.STRING: pa.string(),
    t.DATE: pa.string(),
}


_PARSERS = 8


class FileStats:
    """The statistics of many files, in the order of their file actions.

    `stats` are JSON texts, `parsed` is `stats_parsed` if there is one, `fields` are the columns whose statistics are
    needed, and `counts` are the numbers of rows of the files, if they are known already.
    """

    def __init__(
        self,
        stats: pa.ChunkedArray,
        parsed: pa.StructArray | None,
        schema: Schema,
        fields: Iterable[t.Field],
        counts: pa.Array | None = None,
    ) -> None:
        self._schema = schema
        self._parsed = parsed
        self._fields = {f.id: f for f in fields}
        self._paths = {f.id: schema.physical_path(f) for f in self._fields.values()}
        self._counts = counts
        self._json = self._parse(stats.slice(0, 0) if counts is not None and not self._fields else stats)

    def record_counts(self) -> pa.Array:
        """Return the number of rows of each file, including deleted ones; null if not recorded."""
        return self._pick(("numRecords",), pa.int64()) if self._counts is None else self._counts

    def columns(self) -> dict[int, ColumnStats]:
        """Return the statistics of the needed columns by field id, with bounds that hold for all rows."""
        counts = self.record_counts()
        return {i: self._column(f, self._paths[i], counts) for i, f in self._fields.items()}

    def _column(self, field: t.Field, path: tuple[str, ...], counts: pa.Array) -> ColumnStats:
        lower = self._bound(("minValues", *path), field.type, upper=False)
        upper = self._bound(("maxValues", *path), field.type, upper=True)
        lower, upper = delta_bounds(lower, upper, field.type)
        if field.width and upper is not None:
            upper = pad_bounds(upper, field.width, upper=True)
        nulls = delta_null_counts(self._pick(("nullCount", *path), pa.int64()), field.type)
        stats = drop_contradictions(ColumnStats(lower, upper, nulls, None, counts))
        return replace(stats, exact=delta_exact(stats, field, self._tight))

    @cached_property
    def _tight(self) -> pa.Array:
        """A mask of files whose bounds are actual values rather than wider ones (protocol, `tightBounds`)."""
        return pc.fill_null(self._pick(("tightBounds",), pa.bool_()), True)

    def _bound(self, path: tuple[str, ...], kind: t.Type, *, upper: bool) -> pa.Array | None:
        """Return lower or upper bounds in the column's type; None for types whose bounds pruning cannot use.

        `path` leads to the bound in the statistics, such as `minValues` and the physical names.
        """
        if kind not in _NUMBER and not isinstance(kind, t.Timestamp | t.Decimal):
            return None
        bounds = [self._widen_bounds(each, path, kind, upper) for each in (self._parsed, self._json)]
        known = [bound for bound in bounds if bound is not None]
        return pc.coalesce(*known) if known else None

    def _widen_bounds(self, recorded: pa.StructArray | None, path: tuple[str, ...], kind: t.Type, upper: bool) -> Any:
        """Return the bounds at a path of `stats` or `stats_parsed`, widened by the writers' rounding.

        None without bounds, or if they do not fit the type.
        """
        values = _walk(recorded, path)
        try:
            return None if values is None else widen_bounds(values, kind, upper=upper)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            return None

    def _pick(self, path: tuple[str, ...], kind: pa.DataType) -> pa.Array:
        columns = [_cast(_walk(each, path), kind) for each in (self._parsed, self._json)]
        known = [values for values in columns if values is not None]
        return pc.coalesce(*known) if known else pa.nulls(len(self._json), kind)

    def _parse(self, stats: pa.ChunkedArray) -> pa.StructArray:
        """Parse all JSON chunks in a few threads, since Arrow releases the GIL."""
        with ThreadPoolExecutor(_PARSERS) as pool:
            chunks = list(pool.map(self._parse_chunk, stats.chunks))
        return pa.concat_arrays(chunks) if chunks else pa.array([], pa.struct(list(self._json_schema())))

    def _parse_chunk(self, stats: pa.Array) -> pa.StructArray:
        schema = self._json_schema()
        if not self._fields and (counts := _leading_counts(stats)) is not None:
            return pa.StructArray.from_arrays([counts], fields=list(schema))
        if pc.any(pc.match_substring(stats, "NaN")).as_py() or pc.any(pc.match_substring(stats, "Inf")).as_py():
            stats = pc.replace_substring_regex(stats, NOT_FINITE, ":null")
        struct = parse_json_texts(stats, schema).combine_chunks().to_struct_array()
        return as_array(struct)

    def _json_schema(self) -> pa.Schema:
        values, nulls = [], []
        for field_id, path in self._paths.items():
            kind = self._fields[field_id].type
            if kind in _NUMBER or isinstance(kind, t.Timestamp | t.Decimal):
                values.append((path, _NUMBER.get(kind, DECIMALS if isinstance(kind, t.Decimal) else pa.string())))
            nulls.append((path, pa.int64()))
        members = [pa.field("numRecords", pa.int64())]
        if values:
            members.append(pa.field("tightBounds", pa.bool_()))
            members += [pa.field(n, _nested_type(values)) for n in ("minValues", "maxValues")]
        if nulls:
            members.append(pa.field("nullCount", _nested_type(nulls)))
        return pa.schema(members)


def add_record_counts(actions: pa.Table) -> pa.Table:
    """Return file actions with the column `record_count`, the number of rows of each file; null if not recorded."""
    counts = FileStats(actions["stats"], parsed_stats(actions), Schema(()), ()).record_counts()
    return actions.append_column("record_count", counts)


def parsed_stats(actions: pa.Table) -> pa.StructArray | None:
    """Return the column `stats_parsed` of file actions, or None without one."""
    if "stats_parsed" not in actions.column_names:
        return None
    parsed = actions["stats_parsed"].combine_chunks()
    return parsed if pa.types.is_struct(parsed.type) else None


def _leading_counts(stats: pa.Array) -> pa.Array | None:
    """Return `numRecords` without parsing JSON if every text starts with it, as most writers do; else None."""
    counts = pc.struct_field(pc.extract_regex(stats, _LEADING_COUNT), "n")
    return counts.cast(pa.int64()) if counts.null_count == stats.null_count else None


def _nested_type(leaves: list[tuple[tuple[str, ...], pa.DataType]]) -> pa.DataType:
    """Return a struct type that has a leaf of each type at its path."""
    heads: dict[str, list[tuple[tuple[str, ...], pa.DataType]]] = {}
    for path, kind in leaves:
        heads.setdefault(path[0], []).append((path[1:], kind))
    return pa.struct(
        [pa.field(name, rest[0][1] if not rest[0][0] else _nested_type(rest)) for name, rest in heads.items()]
    )


def _cast(values: pa.Array | None, kind: pa.DataType) -> pa.Array | None:
    """Cast values to a type; return None if that fails, since such statistics are ignored."""
    try:
        return None if values is None else values.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None


def _walk(array: pa.StructArray | None, path: tuple[str, ...]) -> pa.Array | None:
    """Return the field at a path of nested structs, or None without one."""
    for name in path:
        if array is None or not pa.types.is_struct(array.type):
            return None
        index = array.type.get_field_index(name)
        array = None if index < 0 else pc.struct_field(array, [index])
    return array


# Writers of JSON statistics convert decimals to doubles, truncate timestamps to milliseconds and texts to a prefix, and
# print floats with too few digits. A bound widened by that much holds for every row. Unreadable bounds become null.

# A decimal in JSON: up to 38 digits before and after the point. With 128 bits, Arrow's parser would let values that are
# too large wrap around.
DECIMALS = pa.decimal256(76, 38)
_WIDE_DIGITS = 60  # room for sums of decimals of 38 digits

_LONG = np.iinfo(np.int64)

_DATE = r"^\d{4}-\d{2}-\d{2}$"
_TIME = r"^\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?)?(Z|[+-]\d{2}:?\d{2})?$"
_OFFSET = r"(Z|[+-]\d{2}:?\d{2})$"
_TIE_BREAKER = "\\??[\ufffd\U0010ffff]+$"


def widen_bounds(values: pa.Array, kind: t.Type, *, upper: bool) -> pa.Array:
    """Convert recorded bounds to the column's type, widened so that they hold for all rows; null if unusable.

    `values` have the type that JSON is parsed into, or the column's own. Raises `pyarrow.ArrowInvalid` for values that
    do not fit the type.
    """
    match kind:
        case t.Decimal():
            return _decimals(values, kind, upper)
        case t.Timestamp():
            return _times(values, kind, upper)
        case t.DATE:
            return _matching(values, _DATE).cast(pa.date32()) if pa.types.is_string(values.type) else values
        case t.STRING:
            return _texts(values) if upper else values
        case t.FLOAT | t.DOUBLE:
            return _floats(values, kind, upper)
        case _ if kind in t.INTEGRAL:
            return _integers(values, kind)
    return values.cast(kind.arrow())


def _matching(texts: pa.Array, pattern: str) -> pa.Array:
    return pc.if_else(pc.match_substring_regex(texts, pattern), texts, pa.scalar(None, pa.string()))


def _integers(values: pa.Array, kind: t.Type) -> pa.Array:
    target = kind.arrow()
    limits = np.iinfo(target.to_pandas_dtype())
    fits = pc.and_(pc.greater_equal(values, int(limits.min)), pc.less_equal(values, int(limits.max)))
    return pc.if_else(fits, values, pa.scalar(None, values.type)).cast(target)


def _floats(values: pa.Array, kind: t.Type, upper: bool) -> pa.Array:
    error, width = (faults.FLOAT_ERROR, np.float32) if kind == t.FLOAT else (faults.DOUBLE_ERROR, np.float64)
    numbers = pc.fill_null(values.cast(pa.float64()), 0.0).to_numpy(zero_copy_only=False)
    outwards, most = np.inf if upper else -np.inf, float(np.finfo(width).max)
    with np.errstate(over="ignore", invalid="ignore"):
        finite = np.clip(numbers, -most, most)  # writers may round the largest numbers beyond the type's range
        wide = finite + np.copysign(np.abs(finite) * error + faults.LEAST_FLOAT, outwards)
        bounds = np.nextafter(wide.astype(width), width(outwards))
    return pa.array(bounds, mask=values.is_null().to_numpy(zero_copy_only=False))


def _decimals(values: pa.Array, kind: t.Decimal, upper: bool) -> pa.Array:
    """Round decimal bounds outwards to the type's scale; where a double is not exact, also widen by its possible error.

    With scale 0, the last 64-bit integer in that direction becomes null: the actual value may not have fitted.
    """
    values, most = values.cast(DECIMALS), PyDecimal((0, (9,) * kind.precision, -kind.scale))
    values = within(values, most)
    rounded = pc.round(values, kind.scale, "up" if upper else "down").cast(pa.decimal256(_WIDE_DIGITS, kind.scale))
    unit = PyDecimal((0, (1,), -kind.scale))
    error = pc.multiply(pc.abs(rounded).cast(pa.float64()), faults.DECIMAL_ERROR).cast(rounded.type, safe=False)
    margin = pc.add(error, _scalar(unit, rounded))
    is_exact = pc.less(pc.abs(rounded), _scalar(unit.scaleb(faults.EXACT_DIGITS), rounded))
    margin = pc.if_else(is_exact, _scalar(PyDecimal(0), margin), margin)
    wide = pc.add(rounded, margin) if upper else pc.subtract(rounded, margin)
    if kind.scale == 0:
        end = _scalar(PyDecimal(int(_LONG.max if upper else _LONG.min)), rounded)
        wide = pc.if_else(pc.equal(rounded, end), pa.scalar(None, wide.type), wide)
    return within(wide, most).cast(kind.arrow())


def within(values: pa.Array, most: PyDecimal) -> pa.Array:
    """Return decimals between -most and most; null for others."""
    low, high = _scalar(most.copy_negate(), values), _scalar(most, values)  # the operator - would round to 28 digits
    fits = pc.and_(pc.greater_equal(values, low), pc.less_equal(values, high))
    return pc.if_else(fits, values, pa.scalar(None, values.type))


def _scalar(value: PyDecimal, like: pa.Array) -> pa.Scalar:
    return pa.scalar(value, like.type)


def _times(values: pa.Array, kind: t.Timestamp, upper: bool) -> pa.Array:
    """Widen timestamp bounds that writers may have truncated to milliseconds, downwards or towards 1970.

    Writers print the offsets of zoned timestamps without seconds, which some zones had until 1972. A zoned timestamp
    without offset could be in any zone, so it becomes null.
    """
    if pa.types.is_string(values.type):
        texts = _matching(values, _TIME)
        if kind.zoned:
            texts = _matching(texts, _OFFSET)
        values = parse_timestamps(pc.replace_substring_regex(texts, r"(\.\d{6})\d+", r"\1"), kind)
    micros = values.cast(kind.arrow()).cast(pa.int64())
    numbers = pc.fill_null(micros, 0).to_numpy(zero_copy_only=False)
    margin = np.where(upper | (numbers <= 0), faults.MILLISECOND - 1, 0)
    if kind.zoned:
        margin = margin + np.where(numbers < faults.WHOLE_MINUTES, faults.MINUTE, 0)
    low, high = _LONG.min + faults.MINUTE + faults.MILLISECOND, _LONG.max - faults.MINUTE - faults.MILLISECOND
    wide = np.clip(numbers, low, high) + (margin if upper else -margin)
    return pa.array(wide, mask=micros.is_null().to_numpy(zero_copy_only=False)).cast(kind.arrow())


def _texts(values: pa.Array) -> pa.Array:
    """Return upper bounds of texts that also hold for truncated texts.

    A truncated bound is a prefix and a tie-breaker. The tie-breaker may sort before the text that was cut off (U+FFFD
    sorts before an emoji), or be its start. The lowest text above all texts with the prefix is the prefix with its last
    character replaced by the next one.
    """
    is_cut = pc.fill_null(pc.match_substring_regex(values, _TIE_BREAKER), False)
    if not pc.any(is_cut).as_py():
        return values
    prefixes = pc.replace_substring_regex(values, _TIE_BREAKER, "")
    last = pc.utf8_slice_codeunits(prefixes, -1).dictionary_encode()
    heads = pc.utf8_slice_codeunits(prefixes, 0, -1)
    following = pa.array([_next(character) for character in last.dictionary.to_pylist()], pa.string())
    return pc.if_else(is_cut, pc.binary_join_element_wise(heads, following.take(last.indices), ""), values)


def _next(character: str) -> str | None:
    if not character or character == "\U0010ffff":
        return None
    return "\ue000" if character == "\ud7ff" else chr(ord(character) + 1)
