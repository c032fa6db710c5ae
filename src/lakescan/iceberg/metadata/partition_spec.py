"""Partition specs, their transforms, and partition values as keys (specification, "Partitioning").

For pruning, partition values are converted to bounds of the source column in that partition. Filters then need no
projection through transforms, and one evaluator serves partitions, manifests, files and row groups, for inclusive and
strict evaluation alike.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common import types as t
from lakescan.common.arrays import dictionary_codes
from lakescan.common.schema import Schema
from lakescan.errors import CorruptMetadata
from lakescan.iceberg.metadata.json_document import INT_MAX, Node

_NUMBERED = ("bucket", "truncate")
_PARAMETER = re.compile(r"(bucket|truncate)\[([0-9]{1,20})\]")
_UNITS = {"year": "Y", "month": "M", "day": "D", "hour": "h"}
_INT, _LONG = np.iinfo(np.int32), np.iinfo(np.int64)
_HASHED = (t.INT, t.LONG, t.TIME, t.STRING, t.UUID, t.BINARY)  # types without parameters that `bucket` accepts
_DECIMAL_DIGITS = 28  # Python's default precision: some writers' truncation rounds beyond it


@dataclass(frozen=True)
class Transform:
    """A transform: its name, and the parameter of `bucket[n]` or `truncate[w]`. Unknown names are kept."""

    name: str
    parameter: int | None = None

    @staticmethod
    def parse(text: str) -> Transform:
        """Parse a transform as written in a partition spec, such as `bucket[16]`; any other text becomes its name."""
        match = _PARAMETER.fullmatch(text)
        return Transform(text) if match is None else Transform(match[1], int(match[2]))

    @staticmethod
    def read(node: Node) -> Transform:
        """Return the transform of a partition or sort field; raises `CorruptMetadata` for an invalid parameter."""
        transform = Transform.parse(node.text("transform"))
        if transform.name in _NUMBERED and not 0 < (transform.parameter or 0) <= INT_MAX:
            raise node.fault(f"has transform {str(transform)[:60]!r}, which needs a number from 1 to {INT_MAX}")
        return transform

    def __str__(self) -> str:
        return self.name if self.parameter is None else f"{self.name}[{self.parameter}]"

    def result_type(self, source: t.Type) -> t.Type:
        """Return the type of the partition values for a source column type; string for an unknown transform."""
        match self.name:
            case "identity" | "truncate" | "void":
                return source
            case "day":
                return t.DATE
            case "bucket" | "year" | "month" | "hour":
                return t.INT
        return t.STRING

    def takes(self, source: t.Type) -> bool:
        """Return whether the transform is defined for a source type; False for an unknown transform.

        See the specification, "Partition Transforms".
        """
        is_time = source == t.DATE or isinstance(source, t.Timestamp)
        match self.name:
            case "identity" | "void":
                no_values = isinstance(source, t.Struct | t.ListOf | t.MapOf | t.Geospatial) or source == t.VARIANT
                return self.name == "void" or not no_values
            case "year" | "month" | "day":
                return is_time
            case "hour":
                return is_time and source != t.DATE
            case "bucket":
                return is_time or isinstance(source, t.Decimal | t.Fixed) or source in _HASHED
            case "truncate":
                return isinstance(source, t.Decimal) or source in (t.INT, t.LONG, t.STRING, t.BINARY)
        return False

    def keeps_nulls(self) -> bool:
        """Return whether a partition value is null exactly if the source value is; False for void and unknown."""
        return self.name in ("identity", "truncate", "bucket", "day", "year", "month", "hour")

    def source_bounds(
        self, lower: pa.Array, upper: pa.Array, source: t.Type
    ) -> tuple[pa.Array | None, pa.Array | None]:
        """Return bounds of the source column, as Arrow arrays, for partition values from `lower` to `upper`.

        They are (None, None) for a transform that does not keep the order, such as bucket.
        """
        if self.name == "identity":
            return lower, upper
        if self.name == "truncate" and self.parameter is not None:
            return _truncated_bounds(lower, upper, self.parameter, source)
        if self.name in _UNITS and (source == t.DATE or isinstance(source, t.Timestamp)):
            return _period_start(lower, self.name, source), _period_end(upper, self.name, source)
        return None, None


@dataclass(frozen=True)
class PartitionField:
    """A field of a partition spec: id, name, id of the source column, transform, and type of the partition values."""

    id: int
    name: str
    source_id: int
    transform: Transform
    type: t.Type


class PartitionSpecs(dict[int, "PartitionSpec"]):
    """The partition specs of a table by id; indexing with an unknown id raises `CorruptMetadata`."""

    def __missing__(self, spec_id: int) -> PartitionSpec:
        raise CorruptMetadata(
            f"there are files of the partition spec {spec_id}, which is not among the table's specs {sorted(self)}, so "
            "their partitions are unknown. Open an older metadata file that has this spec."
        )


@dataclass(frozen=True)
class PartitionSpec:
    """A partition spec: the fields that determine the partition of a data file."""

    id: int
    fields: tuple[PartitionField, ...]

    @property
    def is_unpartitioned(self) -> bool:
        """Whether files have no meaningful partition values: the spec has no fields, or only void ones."""
        return all(f.transform.name == "void" for f in self.fields)

    def describe(self, schema: Schema) -> str:
        """Return the spec as text, such as `day(ts), country`, or `unpartitioned`.

        Names are quoted as column references require.
        """
        parts = [
            describe_transform(f.transform, schema.reference_of.get(f.source_id, f"#{f.source_id}"))
            for f in self.fields
        ]
        return ", ".join(parts) or "unpartitioned"


def describe_transform(transform: Transform, source: str) -> str:
    """Return a transform of a column as text: `country`, `day(ts)`, `bucket(16, id)`."""
    if transform.name == "identity":
        return source
    inside = source if transform.parameter is None else f"{transform.parameter}, {source}"
    return f"{transform.name}({inside})"


def parse_spec(spec_id: int, nodes: Iterable[Node], sources: Mapping[int, t.Field]) -> PartitionSpec:
    """Parse a partition spec.

    `sources` are the fields of all schemas by id, because a source column may have been dropped. Raises
    `CorruptMetadata` for a duplicate field id or name.
    """
    parsed: list[PartitionField] = []
    taken: set[int | str] = set()
    for position, node in enumerate(nodes):
        transform, source = Transform.read(node), sources.get(source_id(node))
        if len(node.integers("source-ids")) > 1:
            transform = Transform(f"multi-argument {transform}")
        kind = t.UNKNOWN if source is None else transform.result_type(source.type)
        field_id = node.integer("field-id", 1000 + position, most=INT_MAX)
        own = PartitionField(field_id, node.text("name"), source_id(node), transform, kind)
        if own.id in taken or own.name in taken:
            raise node.fault(f"shares its id or name with another field of its partition spec: {own.id}, {own.name!r}")
        taken |= {own.id, own.name}
        parsed.append(own)
    return PartitionSpec(spec_id, tuple(parsed))


def source_id(node: Node) -> int:
    """Return the id of the source column of a partition or sort field; the first one if there are several."""
    several = node.integers("source-ids")
    return several[0] if several and not node.has("source-id") else node.integer("source-id", most=INT_MAX)


def partition_type(specs: Iterable[PartitionSpec], schema: Schema) -> t.Struct:
    """Return one struct type for the partition values of all specs.

    It has the fields whose source columns still exist, sorted by id. A field has the name of its newest spec, and the
    type from a spec in which it is not void (v1 tables drop a field by making it void).
    """
    fields: dict[int, PartitionField] = {}
    for spec in sorted(specs, key=lambda s: -s.id):
        for each in spec.fields:
            if each.source_id not in schema.by_id:
                continue
            known = fields.setdefault(each.id, each)
            if known.transform.name == "void" != each.transform.name:
                fields[each.id] = replace(each, name=known.name)
    members, names = [], set()
    for field_id in sorted(fields):
        name = fields[field_id].name
        members.append(t.Field(field_id, f"{name}_{field_id}" if name in names else name, fields[field_id].type))
        names.add(name)
    return t.Struct(tuple(members))


def _truncated_bounds(
    lower: pa.Array, upper: pa.Array, width: int, source: t.Type
) -> tuple[pa.Array | None, pa.Array | None]:
    """Return bounds of a source column from values truncated to a width; None where unknown.

    The upper bound is known for integers, and for strings that were not truncated. A string that is shorter in bytes
    than the width was not truncated, whether the writer counts characters or bytes.
    """
    if pa.types.is_integer(upper.type):
        return _truncated_integers(lower, upper, width, source)
    if isinstance(source, t.Decimal) and source.precision > _DECIMAL_DIGITS:
        return None, None
    if pa.types.is_string(upper.type):
        return lower, pc.if_else(pc.less(pc.binary_length(upper), width), upper, pa.scalar(None, pa.string()))
    return lower, None


def _truncated_integers(lower: pa.Array, upper: pa.Array, width: int, source: t.Type) -> tuple[pa.Array, pa.Array]:
    """Return bounds of a source column from truncated integers, within the range of the source type.

    Truncating the smallest integers overflows: in the reference implementation, their partition value wraps around to
    one of the largest. So a partition value within one width of the largest integer gives no lower bound.
    """
    known = pc.is_valid(upper).to_numpy(zero_copy_only=False)
    high = pc.fill_null(upper.cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
    wrapped = np.zeros(len(high), dtype=bool)
    for most in (_INT.max, _LONG.max):  # a long column may have been an int when the file was written
        wrapped |= (high > most - width) & (high <= most)
    most = _INT.max if source == t.INT else _LONG.max
    upper = pa.array(np.minimum(high, most - (width - 1)) + (width - 1), mask=~known)
    return pc.if_else(pa.array(wrapped), pa.scalar(None, pa.int64()), lower.cast(pa.int64())), upper


def _period_start(ordinal: pa.Array, unit: str, source: t.Type) -> pa.Array:
    """Return the first instant of each period, or one period earlier for periods up to 1970, as Arrow array.

    Old writers rounded times before 1970 up. Days of dates are exact. `ordinal` counts periods of `unit` since 1970.
    """
    exact = unit == "day" and source == t.DATE
    numbers = _ordinals(ordinal)
    return _instants(numbers if exact else np.where(numbers <= 0, numbers - 1, numbers), ordinal, unit, source, 0)


def _period_end(ordinal: pa.Array, unit: str, source: t.Type) -> pa.Array:
    return _instants(_ordinals(ordinal) + 1, ordinal, unit, source, -1)


def _ordinals(ordinal: pa.Array) -> np.ndarray:
    result: np.ndarray = pc.fill_null(ordinal.cast(pa.int32()).cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
    return result


def _instants(numbers: np.ndarray, like: pa.Array, unit: str, source: t.Type, shift: int) -> pa.Array:
    """Return the first instants of periods plus `shift`, clamped to the range of the source type.

    `numbers` count periods of `unit` since 1970. The result is null where `like` is null.
    """
    per_day = source.per_day if isinstance(source, t.Timestamp) else 1
    counted, length = ("h", per_day // 24) if unit == "hour" else ("D", per_day)
    counts = numbers.astype(f"datetime64[{_UNITS[unit]}]").astype(f"datetime64[{counted}]").astype(np.int64)
    kind = _INT if source == t.DATE else _LONG
    most = kind.max // length
    instants = np.clip(counts, -most, most) * length + shift
    instants = np.where(counts > most, kind.max, np.where(counts < -most, kind.min, instants))
    integers = pa.array(instants, mask=like.is_null().to_numpy(zero_copy_only=False))
    return integers.cast(pa.int32()).cast(pa.date32()) if source == t.DATE else integers.cast(source.arrow())


def add_partition_key(files: pa.Table) -> pa.Table:
    """Add the column `partition_key`: the `partition` struct as unambiguous text, which does not include the spec."""
    column = files["partition"]
    array = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    members = [_prefix_length(_plain(array.field(i)).cast(pa.string())) for i in range(array.type.num_fields)]
    key = pc.binary_join_element_wise(*members, "") if members else pa.repeat(pa.scalar(""), len(array))
    return files.append_column("partition_key", key)


def partition_numbers(files: pa.Table) -> np.ndarray:
    """Return a number for each file's partition, from 0 in order of first appearance.

    Partitions of different specs have different numbers, even with equal values.
    """
    keyed = add_partition_key(files)
    return dictionary_codes(
        pc.binary_join_element_wise(keyed["spec_id"].cast(pa.string()), keyed["partition_key"], "/")
    )


def _prefix_length(texts: pa.Array) -> pa.Array:
    """Prefix each text with its length in bytes, so that joined texts are unambiguous; a null becomes `null,`."""
    lengths = pc.binary_length(texts).cast(pa.string())
    return pc.fill_null(pc.binary_join_element_wise(lengths, texts, ":"), "null,")


def _plain(values: pa.Array) -> pa.Array:
    """Convert values to a form that Arrow can cast to text: binary to hex, extension types to their storage."""
    if isinstance(values, pa.ExtensionArray):
        values = values.storage
    if pa.types.is_binary(values.type) or pa.types.is_fixed_size_binary(values.type):
        encoded = values.dictionary_encode()
        texts = [None if v is None else v.hex() for v in encoded.dictionary.to_pylist()]
        return pa.array(texts, pa.string()).take(encoded.indices)
    return values
