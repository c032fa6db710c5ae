"""Convert file statistics, `stats` (JSON text) and `stats_parsed` (checkpoint columns), to column statistics.

Implements "Per-file Statistics" of the protocol. Only the columns of the filter are parsed. Statistics that cannot be
parsed are ignored; they never fail a read.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common import types as t
from lakescan.common.arrays import as_array
from lakescan.common.schema import Schema
from lakescan.delta.log.json_lines import parse_json_texts
from lakescan.delta.scan.recorded_bounds import DECIMALS, widen_bounds
from lakescan.planning.column_stats import ColumnStats
from lakescan.planning.corrupt_statistics import delta_bounds, delta_exact, delta_null_counts, drop_contradictions
from lakescan.reading.casting import pad_bounds

# NaN and infinities, which JSON has no numbers for, are texts, and useless as bounds. This cannot match within a text,
# where quotation marks are escaped.
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

    With `counts`, the number of rows of each file is known already.
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
        """The number of rows of each file, including deleted ones; null if not recorded."""
        return self._pick(("numRecords",), pa.int64()) if self._counts is None else self._counts

    def columns(self) -> dict[int, ColumnStats]:
        """Statistics by field id."""
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
        """Whether bounds are actual values, rather than wider ones (protocol, `tightBounds`)."""
        return pc.fill_null(self._pick(("tightBounds",), pa.bool_()), True)

    def _bound(self, path: tuple[str, ...], kind: t.Type, *, upper: bool) -> pa.Array | None:
        """Bounds in the column's type; None for types whose bounds pruning cannot use."""
        if kind not in _NUMBER and not isinstance(kind, t.Timestamp | t.Decimal):
            return None
        bounds = [self._widen_bounds(each, path, kind, upper) for each in (self._parsed, self._json)]
        known = [bound for bound in bounds if bound is not None]
        return pc.coalesce(*known) if known else None

    def _widen_bounds(self, recorded: pa.StructArray | None, path: tuple[str, ...], kind: t.Type, upper: bool) -> Any:
        """Bounds of `stats` or `stats_parsed`, widened by what writers lose; None if they do not fit the type."""
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
        """Parse all chunks in a few threads: Arrow releases the GIL meanwhile."""
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
    """File actions with the column `record_count`: the number of rows of each file; null if not recorded."""
    counts = FileStats(actions["stats"], parsed_stats(actions), Schema(()), ()).record_counts()
    return actions.append_column("record_count", counts)


def parsed_stats(actions: pa.Table) -> pa.StructArray | None:
    """The column `stats_parsed` of file actions, if there is one."""
    if "stats_parsed" not in actions.column_names:
        return None
    parsed = actions["stats_parsed"].combine_chunks()
    return parsed if pa.types.is_struct(parsed.type) else None


def _leading_counts(stats: pa.Array) -> pa.Array | None:
    """`numRecords`, if every text begins with it, as most writers do: avoids parsing JSON. Else None."""
    counts = pc.struct_field(pc.extract_regex(stats, _LEADING_COUNT), "n")
    return counts.cast(pa.int64()) if counts.null_count == stats.null_count else None


def _nested_type(leaves: list[tuple[tuple[str, ...], pa.DataType]]) -> pa.DataType:
    """A struct type with a leaf at each path."""
    heads: dict[str, list[tuple[tuple[str, ...], pa.DataType]]] = {}
    for path, kind in leaves:
        heads.setdefault(path[0], []).append((path[1:], kind))
    return pa.struct(
        [pa.field(name, rest[0][1] if not rest[0][0] else _nested_type(rest)) for name, rest in heads.items()]
    )


def _cast(values: pa.Array | None, kind: pa.DataType) -> pa.Array | None:
    """Values cast to a type; None if that fails: such statistics are ignored."""
    try:
        return None if values is None else values.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None


def _walk(array: pa.StructArray | None, path: tuple[str, ...]) -> pa.Array | None:
    """The member at a path of nested structs, or None if there is none."""
    for name in path:
        if array is None or not pa.types.is_struct(array.type):
            return None
        index = array.type.get_field_index(name)
        array = None if index < 0 else pc.struct_field(array, [index])
    return array
