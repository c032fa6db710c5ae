"""Settings for writing an Iceberg table's data files: field ids, partition keys, sort order and locations."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common import metadata_columns as m
from lakescan.common import types as t
from lakescan.common.references import dotted_path
from lakescan.common.schema import Schema
from lakescan.definition.arrow_schema import iceberg_columns
from lakescan.definition.table_definition import SortTerm, Term
from lakescan.errors import InvalidOption, SchemaMismatch, UnsupportedFeature
from lakescan.iceberg.data_files.encryption import check_encrypted
from lakescan.iceberg.data_files.location_provider import DataLocations
from lakescan.iceberg.data_files.metrics import file_metrics
from lakescan.iceberg.metadata.format_versions import VERSIONS, FormatVersion
from lakescan.iceberg.metadata.partition_spec import Transform
from lakescan.iceberg.metadata.pyiceberg_metadata import metadata_text
from lakescan.iceberg.metadata.schema_json import parse_schema
from lakescan.iceberg.metadata.table_properties import IcebergProperties
from lakescan.iceberg.metadata.type_promotion import can_promote
from lakescan.options.session_defaults import session_options
from lakescan.options.write import WriteOptions
from lakescan.reading.type_promotion import cast_leaf
from lakescan.storage import Storage
from lakescan.storage.encryption.table_keys import NewKey
from lakescan.writing.column_rules import ColumnRules
from lakescan.writing.file_statistics import FileStatistics
from lakescan.writing.sort_keys import SortKey, sort_key, sort_order, value_at
from lakescan.writing.table_writes import CommonWriteOptions, Key

_UNSORTED = 0  # specification, "Sorting": the id of the unsorted order
_CODECS = {"uncompressed": "none"}
# Other allowed default formats, for which Parquet is written: a table may mix formats, and every reader has Parquet.
_OTHERS = ("orc", "avro")
_LEVELS = ("zstd", "gzip", "brotli")  # codecs with levels; Iceberg ignores the level for others


@dataclass(frozen=True)
class IcebergWrites(CommonWriteOptions):
    """The write settings of a table, from pyiceberg's metadata; write options override table properties.

    With `keeps_lineage`, rows include their row id and last-updated sequence number, which are preserved. `arrival` is
    the sort order of the arriving rows, if they are written without sorting. Workers get the metadata as JSON.
    """

    metadata: Any
    storage: Storage
    options: WriteOptions
    keeps_lineage: bool = False
    arrival: tuple[SortTerm, ...] | None = None

    def __post_init__(self) -> None:
        if (kind := self.properties.file_format) not in ("parquet", *_OTHERS):
            raise UnsupportedFeature(f"writing {kind} files", "Files are written as Parquet: write-format=parquet.")
        check_encrypted(self.properties, int(self.metadata.format_version), self.storage)
        self.properties.check_obeyed()

    def __getstate__(self) -> dict[str, Any]:
        fields = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return fields | {"metadata": metadata_text(self.metadata)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        from pyiceberg.table.metadata import TableMetadataUtil

        self.__dict__.update(state, metadata=TableMetadataUtil.parse_raw(state["metadata"]))

    @property
    def _version(self) -> FormatVersion:
        return VERSIONS[self.metadata.format_version]

    @cached_property
    def properties(self) -> IcebergProperties:
        """The table's properties, overridden by write options and by the options of the session."""
        options = self.options
        if by_session := session_options(options, options.session.options, "iceberg"):
            options = options.merge(by_session)
        given = {
            "write.target-file-size-bytes": options.target_file_size_bytes,
            "write.parquet.compression-codec": options.compression_codec,
            "write.parquet.compression-level": options.compression_level,
            "write.format.default": options.write_format,
            "write.distribution-mode": options.distribution_mode,
        }
        texts = {name: str(value) for name, value in given.items() if value is not None}
        return IcebergProperties(
            {**self.metadata.properties, **texts}, f"{self.metadata.location} cannot be written to"
        )

    @property
    def note(self) -> str:
        """A note that files are written as Parquet although the table's default is another format; empty otherwise."""
        kind = self.properties.file_format
        if kind == "parquet":
            return ""
        return f"as Parquet, though write.format.default is {kind}: a table may have files of both"

    @cached_property
    def schema(self) -> Schema:
        """The current schema, with the row lineage columns if `keeps_lineage`."""
        schema = parse_schema(json.loads(self.metadata.schema().model_dump_json()), self.metadata.location)
        if not self.keeps_lineage:
            return schema
        return schema.append_fields(m.avoid_name_clashes((m.ROW_ID, m.LAST_UPDATED), schema.names))

    def new_key(self) -> NewKey | None:
        """Return the key of a new data or delete file; None if the table is not encrypted."""
        return NewKey.random(self.properties.data_key_length) if self.properties.is_encrypted else None

    @property
    def lineage_writes(self) -> IcebergWrites:
        """Settings for rows moved between files: they keep their ids from version 3 on (see "Row Lineage")."""
        return replace(self, keeps_lineage=True) if self._version.row_lineage else self

    @property
    def target_size(self) -> int:
        """The property `write.target-file-size-bytes`."""
        return self.properties.target_file_size

    @property
    def rules(self) -> ColumnRules:
        """No rules: Iceberg columns have no rules apart from their types."""
        return ColumnRules()

    @property
    def is_clustered(self) -> bool:
        """Whether rows are shuffled by partition.

        They are if the table is partitioned, and `write.distribution-mode` is not `none`. The mode `range` acts as
        `hash`.
        """
        return bool(self._transforms) and self.properties.distribution_mode != "none"

    @property
    def partition_sources(self) -> Sequence[str]:
        """The source columns of the default partition spec."""
        return [self.schema.fields[path[0]].name for path, _ in self._transforms]

    @property
    def row_group_limits(self) -> tuple[int, int | None]:
        """The properties `write.parquet.row-group-limit` and `write.parquet.row-group-size-bytes`."""
        return self.properties.row_group_rows, self.properties.row_group_size

    @cached_property
    def parquet_options(self) -> Mapping[str, Any]:
        """Codec, compression level (None if the codec has none) and page size in bytes."""
        codec, level = self.properties.codec, self.properties.compression_level
        return {**codec_options(codec, level), "data_page_size": self.properties.page_size}

    @property
    def delete_parquet_options(self) -> Mapping[str, Any]:
        """The `parquet_options` of delete files: write options, else properties of delete files, else of data files."""
        properties = self.properties
        codec, level = properties.codec, properties.compression_level
        if self.options.compression_codec is None and properties.delete_codec is not None:
            codec, level = properties.delete_codec, None
        if self.options.compression_level is None and properties.delete_compression_level is not None:
            level = properties.delete_compression_level
        return {**codec_options(codec, level), "data_page_size": properties.page_size}

    def columns_for(self, rows: pa.Schema) -> Sequence[t.Field]:
        """Return the Iceberg columns for an Arrow schema, using the types of the table's format version."""
        return iceberg_columns(rows, nanoseconds=self._version.nanoseconds)

    @property
    def fills_members(self) -> bool:
        """Always False: like Iceberg on Spark, refuse structs that lack members."""
        return False

    def widens(self, old: t.Type, new: t.Type) -> bool:
        """Return whether a write may promote a column's type; only ALTER TABLE promotes the types date and unknown."""
        return old not in (t.DATE, t.UNKNOWN) and old != new and can_promote(old, new)

    def file_columns(self) -> Sequence[tuple[int, pa.Field]]:
        """Return the position and Arrow field, with field ids, of each column except those of type unknown.

        Columns of type unknown are never written.
        """
        return [(place, _add_field_ids(f)) for place, f in enumerate(self.schema.fields) if f.type != t.UNKNOWN]

    @cached_property
    def _transforms(self) -> list[tuple[list[int], Any]]:
        """For each partition field, the path of positions to its source column, and its transform of Arrow arrays.

        Raises `UnsupportedFeature` for a field whose source column was dropped, and for identity of nanoseconds.
        """
        transforms = []
        for field in self.metadata.spec().fields:
            if field.source_id not in self.metadata.schema().field_ids:
                raise UnsupportedFeature(
                    f"writing to {self.metadata.location}, whose partition field {field.name!r} has lost its column",
                    "Format version 1 keeps such fields: upgrade the table to version 2, and remove the field.",
                )
            source = self.metadata.schema().find_field(field.source_id)
            path = self._path(field.source_id)
            if str(source.field_type).endswith("_ns") and str(field.transform) == "identity":
                raise UnsupportedFeature(
                    f"writing to an Iceberg table that is partitioned by the nanoseconds of {source.name!r}",
                    "pyiceberg cannot read such manifests back: partition by hours(...) or days(...).",
                )
            transforms.append((path, arrow_transform(field.transform, source.field_type)))
        return transforms

    def _path(self, field_id: int) -> list[int]:
        path, among = [], self.schema.fields
        while True:
            place = next(i for i, f in enumerate(among) if any(inner.id == field_id for inner in t.walk((f,))))
            path.append(place)
            if among[place].id == field_id:
                return path
            among = t.children(among[place].type)

    def partition_keys(self, rows: pa.RecordBatch) -> Sequence[pa.Array]:
        """Return an array of partition values for each field of the default partition spec, one value per row.

        Raises `SchemaMismatch` for a decimal that gets too many digits by truncation.
        """
        names = self.partition_names
        keys = [transform(value_at(rows, path[0], path[1:])) for path, transform in self._transforms]
        return [_check_digits(key, name) for key, name in zip(keys, names, strict=True)]

    @cached_property
    def own_order(self) -> tuple[SortTerm, ...]:
        """The terms of the table's default sort order; empty for an unsorted table."""
        order = self.metadata.sort_order_by_id(self.metadata.default_sort_order_id)
        return () if order is None else sort_terms(order, self.schema, self.metadata.location)

    def sort_keys(self, terms: Sequence[SortTerm]) -> tuple[SortKey, ...]:
        """Return the sort keys of terms, which may be transforms; see `build_sort_keys` for the errors."""
        return build_sort_keys(terms, self.metadata, self.schema)

    @cached_property
    def _own_keys(self) -> tuple[SortKey, ...]:
        return self.sort_keys(self.own_order)

    def keep_row_order(self, terms: Sequence[SortTerm]) -> IcebergWrites:
        """Return settings for rows that arrive sorted by `terms`, and are written without sorting.

        Files are marked with the id of the table's sort order with these terms, if it has one.
        """
        return replace(self, arrival=tuple(terms))

    def sort_rows(self, rows: pa.Table) -> pa.Table:
        """Sort rows by the default sort order, unless they arrive sorted."""
        if self.arrival is not None or not self._own_keys:
            return rows
        return rows.take(pa.array(sort_order(self._own_keys, rows)))

    @property
    def spec_id(self) -> int:
        """The id of the default partition spec."""
        return int(self.metadata.default_spec_id)

    @property
    def partition_names(self) -> Sequence[str]:
        """The field names of the default partition spec."""
        return [field.name for field in self.metadata.spec().fields]

    def partition_record(self, key: Key) -> Any:
        """Return pyiceberg's partition record of a key; dates and timestamps are integers, as in manifests."""
        from pyiceberg.typedef import Record

        return Record(*key)

    def new_location(self, key: Key, name: str) -> str:
        """Return the location of a new file by the table's properties (`DataLocations`)."""
        partition = None if self.metadata.spec().is_unpartitioned() else self._folder(key)
        return self.locations.new(name, partition)

    @cached_property
    def locations(self) -> DataLocations:
        """The location provider of new files."""
        return DataLocations.create(self.metadata.location, self.properties)

    def _folder(self, key: Key) -> str:
        """Return the partition's path; raises `UnsupportedFeature` for values that pyiceberg cannot format.

        The check is made here because pyiceberg formats the partition again for the commit's summary.
        """
        try:
            return str(self.metadata.spec().partition_to_path(self.partition_record(key), self.metadata.schema()))
        except (OverflowError, TypeError, ValueError) as error:
            named = ", ".join(f"{name}={value}" for name, value in zip(self.partition_names, key, strict=True))
            raise UnsupportedFeature(
                f"the partition {named} of an Iceberg table",
                f"pyiceberg, which commits it, cannot format it ({error}): years are 1 to 9999.",
            ) from error

    @property
    def data_folder(self) -> str:
        """The folder that contains all new files: `data` in the table's location, unless a property names another."""
        return self.locations.folder

    def describe(self, statistics: FileStatistics) -> Mapping[str, Any]:
        """Return metrics for the manifest entry (counts, bounds, split offsets) and the spec id.

        The sort order id is included if the rows arrived in a sort order of the table, or the table has none.
        """
        details = {**file_metrics(statistics, self.properties), "spec_id": self.metadata.default_spec_id}
        order = order_id(self.arrival or (), self.metadata, self.schema, self.metadata.location)
        if order is None and self.metadata.default_sort_order_id == _UNSORTED:
            order = _UNSORTED
        return details if order is None else {**details, "sort_order_id": order}


def codec_options(codec: str, level: int | None) -> dict[str, Any]:
    """Return codec and level as `pyarrow.parquet.ParquetWriter` arguments; raises `InvalidOption` for a bad level."""
    known = None if level is None or codec not in _LEVELS else _level(codec, level)
    return {"compression": _CODECS.get(codec, codec), "compression_level": known}


def _level(codec: str, level: int) -> int:
    if codec == "gzip" and level not in range(-1, 10):
        raise InvalidOption(f"compression level {level} is not valid for gzip: use -1 to 9")
    return level


def _check_digits(values: pa.Array, name: str) -> pa.Array:
    """Return partition values; raises `SchemaMismatch` for a decimal that gets too many digits by truncation."""
    if not pa.types.is_decimal(values.type) or values.null_count == len(values):
        return values
    least, kind = pc.min(values).as_py(), values.type
    if least and least.adjusted() >= kind.precision - kind.scale:
        raise SchemaMismatch(
            f"partition {name!r} would have the value {least}, which has more digits than decimal({kind.precision},"
            f"{kind.scale}) allows: the row cannot be written to this table"
        )
    return values


def _add_field_ids(field: t.Field) -> pa.Field:
    """Return the Arrow field of a column as written to files, with field ids at every level."""
    metadata = {"PARQUET:field_id": str(field.id)}
    return pa.field(field.name, _add_type_ids(field.type), nullable=not field.required, metadata=metadata)


def _add_type_ids(kind: t.Type) -> pa.DataType:
    match kind:
        case t.Struct():
            return pa.struct([_add_field_ids(f) for f in kind.fields])
        case t.ListOf():
            return pa.list_(_add_field_ids(kind.element))
        case t.MapOf():
            return pa.map_(_add_field_ids(kind.key), _add_field_ids(kind.value))
    return pa.binary(16) if kind == t.UUID else kind.arrow()


def sort_terms(order: Any, schema: Schema, location: str) -> tuple[SortTerm, ...]:
    """Return the terms of a (pyiceberg) sort order; raises `UnsupportedFeature` if one of its columns was dropped."""
    terms = []
    for field in order.fields:
        if field.source_id not in schema.by_id and field.source_id not in schema.path_of:
            raise UnsupportedFeature(
                f"sorting rows of {location} by a column that was dropped", "Replace the table's sort order."
            )
        column = dotted_path([each.name for each in schema.struct_path(field.source_id)])
        transform = Transform.parse(str(field.transform))
        terms.append(
            SortTerm(
                Term(column, transform.name, transform.parameter),
                field.direction.name == "DESC",
                field.null_order.name == "NULLS_FIRST",
            )
        )
    return tuple(terms)


def order_id(terms: Sequence[SortTerm], metadata: Any, schema: Schema, location: str) -> int | None:
    """Return the id of the table's sort order with exactly these terms; None without one, and for no terms."""
    for order in metadata.sort_orders:
        known = all(field.source_id in schema.path_of for field in order.fields)
        if terms and known and sort_terms(order, schema, location) == tuple(terms):
            return int(order.order_id)
    return None


def build_sort_keys(terms: Sequence[SortTerm], metadata: Any, schema: Schema) -> tuple[SortKey, ...]:
    """Return the sort keys of terms; raises `NoSuchColumn`, or `InvalidOption` for a column without an order."""
    return tuple(sort_key(each, schema, _transform_of(each.term, metadata, schema)) for each in terms)


def _transform_of(term: Term, metadata: Any, schema: Schema) -> Any:
    from pyiceberg.transforms import parse_transform

    if term.name == "identity":
        return None
    transform = parse_transform(term.name if term.number is None else f"{term.name}[{term.number}]")
    source = metadata.schema().find_field(schema.field(term.column).id).field_type
    if not transform.can_transform(source):
        raise InvalidOption(f"{term}: column {term.column!r} is {source}, which has no such transform")
    return arrow_transform(transform, source)


def arrow_transform(transform: Any, kind: Any) -> Any:
    """Return pyiceberg's transform of a column of type `kind`, as a function of Arrow arrays.

    Nanosecond timestamps are cast to microseconds first, except for identity and void.
    """
    if not str(kind).endswith("_ns") or str(transform) in ("identity", "void"):
        return transform.pyarrow_transform(kind)
    from pyiceberg.types import TimestampType, TimestamptzType

    of_micros = transform.pyarrow_transform(TimestamptzType() if "tz" in str(kind) else TimestampType())
    return lambda values: of_micros(cast_leaf(values, t.Timestamp("us", zoned="tz" in str(kind)), ""))
