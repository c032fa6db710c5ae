"""Statistics and partition values of files as typed columns, which checkpoints hold beside or instead of texts.

Implements `stats_parsed` and `partitionValues_parsed` (protocol, "Checkpoints"). What is not of a column's type becomes
null, which readers take for unknown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal as PyDecimal

import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common import types as t
from lakescan.common.schema import Schema
from lakescan.delta.data_files.statistics import is_indexed
from lakescan.delta.log.json_lines import parse_json_texts
from lakescan.delta.metadata.table_properties import DeltaProperties
from lakescan.delta.scan.partition_values import parse_timestamps, typed_values
from lakescan.delta.scan.recorded_bounds import DECIMALS, within
from lakescan.delta.scan.statistics import NOT_FINITE
from lakescan.writing.statistics import LeafColumn, leaves_of

_BOUNDS = ("minValues", "maxValues")
_DATE = r"^\d{4}-\d{2}-\d{2}$"
_TIME = r"^\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}(\.\d{1,6})?(Z|[+-]\d{2}:\d{2})?$"
_ZONE = r"(Z|[+-]\d{2}:\d{2})$"


@dataclass(frozen=True)
class StatsColumn:
    """A column with statistics: its path of physical names, its type, and whether it has bounds."""

    path: tuple[str, ...]
    type: t.Type

    @property
    def has_bounds(self) -> bool:
        """Whether Delta keeps the least and greatest values of columns of the type."""
        kinds = (*t.INTEGRAL, *t.FLOATING, t.DATE, t.STRING)
        return self.type in kinds or isinstance(self.type, t.Timestamp | t.Decimal)


def columns_with_stats(schema: Schema, partition: Sequence[str], properties: DeltaProperties) -> list[StatsColumn]:
    """The columns whose statistics a table keeps, in order; none inside lists and maps."""
    fields = tuple(f for f in schema.fields if f.name not in partition and f.type != t.UNKNOWN)
    leaves = leaves_of(fields)
    indexed = is_indexed(leaves, properties)
    return [_column(leaf) for leaf, kept in zip(leaves, indexed, strict=True) if kept and leaf.field.type != t.UNKNOWN]


def _column(leaf: LeafColumn) -> StatsColumn:
    return StatsColumn(tuple(field.physical_name for field in leaf.way), leaf.field.type)


@dataclass(frozen=True)
class ParsedStats:
    """Parses the statistics of a table's files; `has_tight_bounds` where files may have deletion vectors."""

    columns: Sequence[StatsColumn]
    has_tight_bounds: bool

    def parse_texts(self, texts: pa.Array) -> pa.StructArray:
        """The statistics of files from their JSON texts, null where there is no text."""
        texts = pc.replace_substring_regex(texts, NOT_FINITE, ":null")
        return self._build(parse_json_texts(texts, self._schema(parsed=False)), texts.is_valid())

    def convert_stats(self, stats: pa.StructArray) -> pa.StructArray:
        """The statistics of files from those of another checkpoint."""
        return self._build(stats, stats.is_valid())

    def type(self) -> pa.DataType:
        """The type of the column."""
        return pa.struct(list(self._schema(parsed=True)))

    def _build(self, source: pa.Table | pa.StructArray, present: pa.Array) -> pa.StructArray:
        rows = source.combine_chunks().to_struct_array() if isinstance(source, pa.Table) else source
        rows = rows.combine_chunks() if isinstance(rows, pa.ChunkedArray) else rows
        kind = self.type()
        members = [self._member(rows, field, ()) for field in kind]
        return pa.StructArray.from_arrays(members, fields=list(kind), mask=pc.invert(present))

    def _member(self, rows: pa.StructArray, field: pa.Field, path: tuple[str, ...]) -> pa.Array:
        way = (*path, field.name)
        if pa.types.is_struct(field.type):
            members = [self._member(rows, inner, way) for inner in field.type]
            return pa.StructArray.from_arrays(members, fields=list(field.type))
        recorded = _walk(rows, way)
        return pa.nulls(len(rows), field.type) if recorded is None else _convert_or_null(recorded, field.type, way[0])

    def _schema(self, *, parsed: bool) -> pa.Schema:
        bounded = [(c.path, c.type.arrow() if parsed else _json_type(c.type)) for c in self.columns if c.has_bounds]
        fields = [pa.field("numRecords", pa.int64())]
        if bounded:
            fields += [pa.field(name, nested_type(bounded)) for name in _BOUNDS]
        if self.columns:
            fields.append(pa.field("nullCount", nested_type([(c.path, pa.int64()) for c in self.columns])))
        if self.has_tight_bounds:
            fields.append(pa.field("tightBounds", pa.bool_()))
        return pa.schema(fields)


def nested_type(leaves: Sequence[tuple[tuple[str, ...], pa.DataType]]) -> pa.DataType:
    """A struct type with a leaf at each path."""
    heads: dict[str, list[tuple[tuple[str, ...], pa.DataType]]] = {}
    for path, kind in leaves:
        heads.setdefault(path[0], []).append((path[1:], kind))
    return pa.struct(
        [pa.field(name, rest[0][1] if not rest[0][0] else nested_type(rest)) for name, rest in heads.items()]
    )


def _json_type(kind: t.Type) -> pa.DataType:
    """The type that JSON is parsed into."""
    if isinstance(kind, t.Decimal):
        return DECIMALS
    if kind in t.INTEGRAL:
        return pa.int64()
    return pa.float64() if kind in t.FLOATING else pa.string()


def _walk(rows: pa.StructArray, path: Sequence[str]) -> pa.Array | None:
    for name in path:
        index = rows.type.get_field_index(name) if pa.types.is_struct(rows.type) else -1
        if index < 0:
            return None
        rows = pc.struct_field(rows, [index])
    return rows


def _convert_or_null(values: pa.Array, kind: pa.DataType, role: str) -> pa.Array:
    """Recorded values in a column's type; null where they do not fit it."""
    try:
        return _convert(values, kind, role)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return pa.nulls(len(values), kind)


def _convert(values: pa.Array, kind: pa.DataType, role: str) -> pa.Array:
    if values.type == kind:
        return values
    if pa.types.is_decimal(kind) and pa.types.is_decimal(values.type):
        rounded = pc.round(values.cast(DECIMALS), kind.scale, "down" if role == "minValues" else "up")
        return within(rounded, PyDecimal((0, (9,) * kind.precision, -kind.scale))).cast(kind)
    if pa.types.is_string(values.type) and pa.types.is_date(kind):
        return _matching(values, _DATE).cast(kind)
    if pa.types.is_string(values.type) and pa.types.is_timestamp(kind):
        texts = _matching(values, _TIME)
        if kind.tz is not None:
            texts = _matching(texts, _ZONE)
        return parse_timestamps(texts, t.Timestamp("us", zoned=kind.tz is not None))
    return values.cast(kind)


def _matching(texts: pa.Array, pattern: str) -> pa.Array:
    return pc.if_else(pc.match_substring_regex(texts, pattern), texts, pa.scalar(None, pa.string()))


def parsed_partitions(values: pa.MapArray, fields: Sequence[t.Field]) -> pa.StructArray:
    """The partition values of files as typed columns by physical name; raises `CorruptMetadata`."""
    members = [
        typed_values(pc.map_lookup(values, pa.scalar(f.physical_name), "first"), replace(f, pad=0)) for f in fields
    ]
    return pa.StructArray.from_arrays(members, fields=list(partition_type(fields)))


def partition_type(fields: Sequence[t.Field]) -> pa.DataType:
    """The type of the partition values of files as typed columns."""
    return pa.struct([pa.field(f.physical_name, f.type.arrow()) for f in fields])
