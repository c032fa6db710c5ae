"""Settings for writing the data files of a Delta table: columns, paths, partition values and statistics.

Implements "Per-file Statistics" and "Partition Value Serialization" of the protocol.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import Any
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common import metadata_columns as m
from lakescan.common import types as t
from lakescan.common.java_numbers import double_text, float_text
from lakescan.common.schema import Schema
from lakescan.definition.arrow_schema import delta_columns
from lakescan.definition.table_definition import SortTerm
from lakescan.delta.data_files.column_rules import DeclaredRules
from lakescan.delta.data_files.stats_json import stats_text
from lakescan.delta.metadata.features import Support
from lakescan.delta.metadata.protocol import Metadata, Protocol
from lakescan.delta.metadata.schema_json import parse_schema
from lakescan.delta.scan.partition_values import NULL_PARTITION
from lakescan.errors import InvalidOption, SchemaMismatch, UnsupportedFeature
from lakescan.options.write import WriteOptions
from lakescan.storage import Storage, join
from lakescan.writing.column_rules import ColumnRules
from lakescan.writing.file_statistics import FileStatistics
from lakescan.writing.sort_keys import SortKey, sort_key
from lakescan.writing.table_writes import CommonWriteOptions, Key

_CODECS = {"uncompressed": "none", "lz4_raw": "lz4"}  # pyarrow's names
_KNOWN_CODECS = ("snappy", "zstd", "gzip", "brotli", "lz4", "lz4_raw", "uncompressed", "none")
_CHANGES = "_change_data"  # the folder of change data files


@dataclass(frozen=True)
class DeltaWrites(CommonWriteOptions):
    """The settings for data files of a table with this protocol and metadata; write options override table properties.

    - `clustering`: the physical paths of the clustering columns.
    - `hidden`: columns that the files have in addition to those of the table.
    - `of_changes`: whether the files are change data files.
    - `now`: the time of `current_timestamp()` in defaults.

    Raises `UnsupportedFeature` for a table that lakescan cannot write.
    """

    location: str
    protocol: Protocol
    metadata: Metadata
    storage: Storage
    options: WriteOptions
    clustering: tuple[tuple[str, ...], ...] = ()
    hidden: tuple[t.Field, ...] = ()
    of_changes: bool = False
    now: datetime = field(default_factory=lambda: datetime.now(UTC), compare=False)

    def __post_init__(self) -> None:
        check_writable(self.protocol, self.metadata, self.location)
        _ = self.rules  # raise for unsupported rules before anything is written

    @cached_property
    def schema(self) -> Schema:
        """The table's columns, then the hidden ones, which get another name if the table has a column of theirs.

        Raises `UnsupportedFeature` for change files of a table with a column `_change_type`.
        """
        schema = parse_schema(self.metadata.schema_string, self.metadata.column_mapping_mode, self.location)
        if self.of_changes and any(name.lower() == m.CHANGE_TYPE.name for name in schema.names):
            raise UnsupportedFeature(
                f"recording changes of {self.location}, which has its own column {m.CHANGE_TYPE.name!r}",
                "Rename the column.",
            )
        return schema.append_fields(m.avoid_name_clashes(self.hidden, schema.names))

    @property
    def lineage_writes(self) -> DeltaWrites:
        """Settings for files with moved rows, which keep their row ids and commit versions under row tracking.

        Raises `UnsupportedFeature` if row tracking has no names for the columns that store them.
        """
        properties = self.metadata.properties
        if not (properties.row_tracking and "rowTracking" in self.protocol.features):
            return self
        names = properties.row_id_column, properties.row_version_column
        if None in names:
            raise UnsupportedFeature(
                f"writing rows of {self.location} again, whose row tracking has no columns for ids",
                f"Set {type(properties).row_id_column.name} and {type(properties).row_version_column.name}.",
            )
        return replace(self, hidden=m.row_tracking_columns(*names))

    @property
    def change_file_writes(self) -> DeltaWrites:
        """Settings for change data files, whose rows have their kind of change in `_change_type`."""
        return replace(self, hidden=(m.CHANGE_TYPE,), of_changes=True)

    @property
    def target_size(self) -> int:
        """The target file size in bytes: the write option, else `delta.targetFileSize`, else 128 MiB."""
        own = (
            self.metadata.properties.target_file_size
        )  # raises for an invalid property even if the option overrides it
        return self.options.target_file_size_bytes or own

    @cached_property
    def rules(self) -> ColumnRules:
        """The column rules that the metadata declares.

        Raises `UnsupportedFeature` for rules that cannot be enforced.
        """
        return DeclaredRules(self.protocol, self.metadata, self.schema, self.location, self.now).rules()

    @property
    def is_clustered(self) -> bool:
        """True if rows of a Spark frame are shuffled by partition before they are written.

        That is for partitioned tables with optimized writes: the write option `optimizeWrite`, else the table property
        `delta.autoOptimize.optimizeWrite`.
        """
        own, option = self.metadata.properties.optimizes_writes, self.options.optimize_write
        return bool(self.metadata.partition_columns) and (own if option is None else option)

    @property
    def partition_sources(self) -> Sequence[str]:
        """The names of the partition columns."""
        return self.metadata.partition_columns

    @property
    def parquet_options(self) -> Mapping[str, Any]:
        """The Parquet writer's options: the codec of the write option, else of `delta.parquet.compression.codec`.

        Raises `InvalidOption` for an unknown codec.
        """
        codec = self.options.compression_codec or self.metadata.properties.codec
        if codec not in _KNOWN_CODECS:
            raise InvalidOption(
                f"{self.location}: unknown codec 'delta.parquet.compression.codec'={codec!r}; known are "
                f"{', '.join(_KNOWN_CODECS)}. Set the property, or the write option compression-codec for one write."
            )
        return {"compression": _CODECS.get(codec, codec)}

    def columns_for(self, rows: pa.Schema) -> Sequence[t.Field]:
        """Return columns of Delta types for rows with this Arrow schema."""
        return delta_columns(rows)

    @property
    def fills_members(self) -> bool:
        """Always True: as in Delta on Spark, struct fields that rows lack keep their values or become null."""
        return True

    def widens(self, old: t.Type, new: t.Type) -> bool:
        """Return whether schema evolution changes a column from the type `old` to the wider type `new`.

        That is so if type widening is enabled, and both are integers, floats or decimals.
        """
        if not self.metadata.properties.type_widening or not t.is_widening(old, new):
            return False
        kinds = (t.INTEGRAL, t.FLOATING)
        same = any(old in kind and new in kind for kind in kinds)
        return same or (isinstance(old, t.Decimal) and isinstance(new, t.Decimal))

    def file_columns(self) -> Sequence[tuple[int, pa.Field]]:
        """Return the columns that files store, with physical names and, under column mapping, field ids.

        Partition columns are not stored.
        """
        mapped = self.metadata.column_mapping_mode != "none"
        names = self.metadata.partition_columns
        columns = enumerate(self.schema.fields)
        return [(n, _physical(f, mapped)) for n, f in columns if f.name not in names and f.type != t.UNKNOWN]

    @cached_property
    def partition_fields(self) -> tuple[t.Field, ...]:
        """The fields of the partition columns, in partition order."""
        return tuple(self.schema.column(name) for name in self.metadata.partition_columns)

    def partition_keys(self, rows: pa.RecordBatch) -> Sequence[pa.Array]:
        """Return the columns of `rows` that are partition columns, in partition order.

        The log cannot hold an empty text. In a session enabled for jobs of the JAR, it becomes null, as there, unless
        the column must not be null.
        """
        found = [rows.column(rows.schema.get_field_index(field.name)) for field in self.partition_fields]
        if not self.options.session.is_enabled:
            return found
        pairs = zip(found, self.partition_fields, strict=True)
        return [each if field.required else _empty_as_null(each) for each, field in pairs]

    @property
    def own_order(self) -> tuple[SortTerm, ...]:
        """Always empty: the format has no sort order."""
        return ()

    def sort_keys(self, terms: Sequence[SortTerm]) -> tuple[SortKey, ...]:
        """Return the sort keys of columns; raises `UnsupportedFeature` for transforms."""
        for each in terms:
            if each.term.name != "identity":
                raise UnsupportedFeature(f"sorting a Delta table by {each.term}", "Sort by columns.")
        return tuple(sort_key(each, self.schema) for each in terms)

    def keep_row_order(self, terms: Sequence[SortTerm]) -> DeltaWrites:
        """Return the same settings: rows keep their order in any case, and files record no sort order."""
        return self

    def sort_rows(self, rows: pa.Table) -> pa.Table:
        """Return the rows unchanged: the format has no sort order."""
        return rows

    @property
    def spec_id(self) -> int:
        """Always 0: a Delta table has a single partitioning."""
        return 0

    @property
    def partition_names(self) -> Sequence[str]:
        """The names of the partition columns."""
        return self.metadata.partition_columns

    def partition_values(self, key: Key) -> dict[str, str | None]:
        """Return the values of a partition as text, by physical column name; raises the errors of `text_of`."""
        return {f.physical_name: text_of(value, f) for f, value in zip(self.partition_fields, key, strict=True)}

    def new_location(self, key: Key, name: str) -> str:
        """Return a new file's location: in the partition's Hive-style folder, or in the table's with column mapping.

        Change data files have the same folders under `_change_data`. `name` becomes the end of the file name.
        """
        values = self.partition_values(key)
        folders = [f"{escape_name(n)}={NULL_PARTITION if v is None else escape_name(v)}" for n, v in values.items()]
        if self.metadata.column_mapping_mode != "none":
            folders = []
        if self.of_changes:
            return join(self.location, _CHANGES, *folders, f"cdc-{name}")
        return join(self.location, *folders, f"part-{name}")

    def relative_path(self, location: str) -> str:
        """Return a file's path relative to the table's folder, not percent-encoded."""
        return location.removeprefix(self.location.rstrip("/") + "/")

    @property
    def data_folder(self) -> str:
        """The table's folder."""
        return self.location

    def describe(self, statistics: FileStatistics) -> Mapping[str, Any]:
        """Return the file's statistics as JSON text under the key `stats`, without those of hidden columns."""
        hidden = {field.id for field in self.hidden}
        leaves = [each for each in statistics.leaves if each.leaf.way[0].id not in hidden]
        return {"stats": stats_text(replace(statistics, leaves=leaves), self.metadata.properties, self.clustering)}


def check_writable(protocol: Protocol, metadata: Metadata, location: str) -> None:
    """Raise `UnsupportedFeature` for a writer version or table feature that lakescan cannot write."""
    protocol.check_supports(Support.WRITE, "writing to", location)


def _physical(field: t.Field, mapped: bool) -> pa.Field:
    metadata = {"PARQUET:field_id": str(field.id)} if mapped else None
    return pa.field(field.physical_name, _type(field.type, mapped), nullable=not field.required, metadata=metadata)


def _type(kind: t.Type, mapped: bool) -> pa.DataType:
    match kind:
        case t.Struct():
            return pa.struct([_physical(f, mapped) for f in kind.fields])
        case t.ListOf():
            return pa.list_(pa.field("element", _type(kind.element.type, mapped), not kind.element.required))
        case t.MapOf():
            value = pa.field("value", _type(kind.value.type, mapped), not kind.value.required)
            return pa.map_(_type(kind.key.type, mapped), value)
    return kind.arrow()


def escape_name(text: str) -> str:
    """Percent-encode a column name or partition value as in Hive-style folder names."""
    return quote(text, safe=" -_.,@()!+").replace("~", "%7E")


_NOT_SERIALIZABLE = "the empty text, binary that is not UTF-8 and Hive's name for null cannot be written"


def _empty_as_null(values: pa.Array) -> pa.Array:
    kind = values.type
    is_text = any(each(kind) for each in (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary))
    return pc.if_else(pc.equal(pc.binary_length(values), 0), pa.scalar(None, kind), values) if is_text else values


def text_of(value: Any, field: t.Field) -> str | None:
    """Return a partition value as the text that the log records; None for null.

    A date is passed as days since 1970, and a timestamp as microseconds since 1970. Raises `SchemaMismatch` for a value
    that the log cannot hold, such as the empty text.
    """
    match field.type:
        case _ if value is None:
            return None
        case t.BINARY:
            text = _decode_text(value)
        case t.DATE:
            text = _sign_year(str(np.datetime64(value, "D")))
        case t.Timestamp(zoned=zoned):
            text = _sign_year(str(np.datetime64(value, "us")))
            text = f"{text}Z" if zoned else text.replace("T", " ")
        case t.FLOAT:
            text = float_text(value)
        case t.DOUBLE:
            text = double_text(value)
        case t.Decimal():
            text = f"{value:f}"
        case _:
            text = str(value).lower() if isinstance(value, bool) else str(value)
    if text in (None, "", NULL_PARTITION):
        raise SchemaMismatch(
            f"partition column {field.name!r} has the value {value!r}, which Delta's log cannot hold "
            f"({_NOT_SERIALIZABLE}): change it, or make it null"
        )
    return text


def _sign_year(text: str) -> str:
    """Return an ISO date or timestamp with the year as Spark writes it.

    It has at least four digits, and a sign if it has more or is negative.
    """
    sign, digits, rest = re.fullmatch(r"(-?)(\d+)(.*)", text).groups()  # type: ignore[union-attr]
    return f"{sign or ('+' if len(digits) > 4 else '')}{digits:0>4}{rest}"


def _decode_text(value: bytes) -> str | None:
    """Decode a binary partition value as UTF-8 text, as Delta on Spark does; None if it is not UTF-8."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None
