"""Write manifests and manifest lists: Arrow rows -> Avro files, encoded by column.

See the specification, "Manifests", "Manifest Entry Fields" and "Data File Fields", for format versions 1 to 3. The
writer stores the entries as given. Its callers decide which entries inherit their sequence numbers or row ids.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Context

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common import types as t
from lakescan.errors import UnsupportedFeature
from lakescan.iceberg.manifests.avro_encode import avro_file
from lakescan.iceberg.manifests.bounds import encode_value
from lakescan.iceberg.manifests.manifest_file import ADDED, DATA, DELETED, DELETES, EXISTING

_CONTENT = {DATA: "data", DELETES: "deletes"}
_BLOCK_SIZE = 64 * 2**20  # the default block size, which version 1 requires in every entry


@dataclass(frozen=True)
class ManifestWriter:
    """The settings for writing the manifests of one partition spec.

    - `schema_json`: the table's schema as JSON, with its `schema-id`.
    - `spec_json`: the spec's fields as a JSON list.
    - `partition`: the type of partition values, one field per field of the spec.
    - `content`: `DATA` or `DELETES`.
    """

    format_version: int
    schema_json: str
    schema_id: int
    spec_id: int
    spec_json: str
    partition: t.Struct
    content: int = DATA

    def write(self, entries: pa.Table) -> bytes:
        """Return a manifest file with these entries (columns as in `entry_fields`; missing columns are null)."""
        fields = entry_fields(self.partition, self.format_version)
        return avro_file(_conform_entries(entries, fields), fields, "manifest_entry", self._header)

    @property
    def _header(self) -> Mapping[str, str]:
        header = {
            "schema": self.schema_json,
            "partition-spec": self.spec_json,
            "partition-spec-id": str(self.spec_id),
            "format-version": str(self.format_version),
        }
        if self.format_version > 1:
            header |= {"schema-id": str(self.schema_id), "content": _CONTENT[self.content]}
        return header

    def manifest_list_row(self, entries: pa.Table, path: str, length: int, snapshot_id: int) -> dict[str, object]:
        """Return the manifest's row in a manifest list, without the sequence numbers that the commit assigns.

        `min_sequence_number` is the least number of the live entries that have one, or None if all inherit it.
        """
        status, files = entries["status"].combine_chunks(), entries["data_file"].combine_chunks()
        rows = pc.struct_field(files, "record_count")
        counts = {}
        for name, value in (("added", ADDED), ("existing", EXISTING), ("deleted", DELETED)):
            of_status = pc.equal(status, value)
            counts[f"{name}_files_count"] = pc.sum(of_status).as_py() or 0
            counts[f"{name}_rows_count"] = pc.sum(pc.if_else(of_status, rows, 0)).as_py() or 0
        return {
            "manifest_path": path,
            "manifest_length": length,
            "partition_spec_id": self.spec_id,
            "content": self.content,
            "sequence_number": None,
            "min_sequence_number": _least_sequence_number(entries),
            "added_snapshot_id": snapshot_id,
            **counts,
            "partitions": summaries(pc.struct_field(files, "partition"), self.partition),
            "key_metadata": None,
            "first_row_id": None,
        }


def _least_sequence_number(entries: pa.Table) -> int | None:
    if "sequence_number" not in entries.column_names:
        return None
    live = entries.filter(pc.not_equal(entries["status"], DELETED))["sequence_number"]
    if live.null_count:  # added entries inherit the commit's number, which exceeds all others
        live = live.drop_null()
    least: int | None = pc.min(live).as_py()
    return least


def entry_fields(partition: t.Struct, format_version: int) -> t.Struct:
    """Return the fields of a manifest entry in a format version."""
    required = format_version == 1
    numbers = (t.Field(3, "sequence_number", t.LONG), t.Field(4, "file_sequence_number", t.LONG))
    return t.Struct(
        (
            t.Field(0, "status", t.INT, required=True),
            t.Field(1, "snapshot_id", t.LONG, required=required),
            *(() if format_version == 1 else numbers),
            t.Field(2, "data_file", t.Struct(data_file_fields(partition, format_version)), required=True),
        )
    )


def data_file_fields(partition: t.Struct, format_version: int) -> tuple[t.Field, ...]:
    """Return the members of `data_file` in a format version (specification, "Data File Fields")."""
    fields = (
        (2, t.Field(134, "content", t.INT, required=True, doc="0 data, 1 position deletes, 2 equality deletes")),
        (1, t.Field(100, "file_path", t.STRING, required=True, doc="Location of the file")),
        (1, t.Field(101, "file_format", t.STRING, required=True, doc="PARQUET, ORC, AVRO or PUFFIN")),
        (1, t.Field(102, "partition", partition, required=True, doc="Partition values")),
        (1, t.Field(103, "record_count", t.LONG, required=True, doc="Records in the file")),
        (1, t.Field(104, "file_size_in_bytes", t.LONG, required=True, doc="Size of the file")),
        (1, _map(108, "column_sizes", 117, t.LONG, "Column id to size on disk")),
        (1, _map(109, "value_counts", 119, t.LONG, "Column id to number of values, null and NaN included")),
        (1, _map(110, "null_value_counts", 121, t.LONG, "Column id to number of nulls")),
        (1, _map(137, "nan_value_counts", 138, t.LONG, "Column id to number of NaNs")),
        (1, _map(125, "lower_bounds", 126, t.BINARY, "Column id to lower bound")),
        (1, _map(128, "upper_bounds", 129, t.BINARY, "Column id to upper bound")),
        (1, t.Field(131, "key_metadata", t.BINARY, doc="Encryption key metadata")),
        (1, _list(132, "split_offsets", 133, t.LONG, "Offsets at which the file can be split")),
        (2, _list(135, "equality_ids", 136, t.INT, "Fields that an equality delete compares")),
        (1, t.Field(140, "sort_order_id", t.INT, doc="Sort order id")),
        (3, t.Field(142, "first_row_id", t.LONG, doc="Row id of the first row")),
        (2, t.Field(143, "referenced_data_file", t.STRING, doc="The data file that all deletes are about")),
        (3, t.Field(144, "content_offset", t.LONG, doc="Offset of the content in the file")),
        (3, t.Field(145, "content_size_in_bytes", t.LONG, doc="Size of the content in the file")),
    )
    kept = tuple(field for since, field in fields if since <= format_version)
    if format_version > 1:
        return kept
    return (*kept[:5], t.Field(105, "block_size_in_bytes", t.LONG, required=True), *kept[5:])


def _map(field_id: int, name: str, key_id: int, value: t.Type, doc: str) -> t.Field:
    key = t.Field(key_id, "key", t.INT, required=True)
    return t.Field(field_id, name, t.MapOf(key, t.Field(key_id + 1, "value", value, required=True)), doc=doc)


def _list(field_id: int, name: str, element_id: int, value: t.Type, doc: str) -> t.Field:
    return t.Field(field_id, name, t.ListOf(t.Field(element_id, "element", value, required=True)), doc=doc)


def _conform_entries(entries: pa.Table, fields: t.Struct) -> pa.Table:
    """Return the entries with exactly these fields, in order; missing optional fields are null, others are dropped."""
    columns = [
        _file(entries["data_file"].combine_chunks(), each.type)
        if isinstance(each.type, t.Struct)
        else _column(entries, each)
        for each in fields.fields
    ]
    return pa.table(columns, names=[each.name for each in fields.fields])


def _column(entries: pa.Table, field: t.Field) -> pa.Array:
    if field.name not in entries.column_names:
        return pa.nulls(len(entries), field.type.arrow())
    return entries[field.name].combine_chunks()


def _file(files: pa.StructArray, kind: t.Struct) -> pa.StructArray:
    known = {field.name: number for number, field in enumerate(files.type)}
    flat = files.flatten()
    members = []
    for field in kind.fields:
        if field.name == "block_size_in_bytes":
            members.append(pa.array(np.full(len(files), _BLOCK_SIZE)))
        elif field.name in known:
            members.append(flat[known[field.name]])
        else:
            members.append(pa.nulls(len(files), field.type.arrow()))
    return pa.StructArray.from_arrays(members, names=[field.name for field in kind.fields])


# Bounds are serialized as in appendix D. Readers take missing bounds to mean that all values are null or NaN, so a
# field with other values always has bounds.

_ENOUGH = Context(prec=80)  # enough digits, because the default context rounds long decimals


def summaries(partitions: pa.StructArray, kind: t.Struct) -> list[dict[str, object]]:
    """Return one summary per partition field: `contains_null`, `contains_nan`, and serialized bounds of the rest."""
    return [_summary(column, field.type) for column, field in zip(partitions.flatten(), kind.fields, strict=True)]


def _summary(values: pa.Array, kind: t.Type) -> dict[str, object]:
    contains_null = values.null_count > 0
    values = values.drop_null()
    if isinstance(values, pa.ExtensionArray):
        values = values.storage
    contains_nan = False
    if kind in t.FLOATING:
        nan = pc.is_nan(values)
        contains_nan = bool(pc.any(nan).as_py())
        values = values.filter(pc.invert(nan))
    lower, upper = _bounds(values, kind) if len(values) else (None, None)
    return {"contains_null": contains_null, "contains_nan": contains_nan, "lower_bound": lower, "upper_bound": upper}


def _bounds(values: pa.Array, kind: t.Type) -> tuple[bytes, bytes]:
    if kind in t.FLOATING:  # -0.0 precedes 0.0
        numbers = values.to_numpy(zero_copy_only=False)
        order = np.lexsort((~np.signbit(numbers), numbers))
        return _serialize_value(values[int(order[0])], kind), _serialize_value(values[int(order[-1])], kind)
    if kind == t.UUID:  # as Java compares them: both halves as signed numbers
        halves = np.frombuffer(b"".join(values.to_pylist()), ">i8").reshape(-1, 2)
        order = np.lexsort((halves[:, 1], halves[:, 0]))
        return _serialize_value(values[int(order[0])], kind), _serialize_value(values[int(order[-1])], kind)
    extremes = pc.min_max(values)
    return _serialize_value(extremes["min"], kind), _serialize_value(extremes["max"], kind)


def _serialize_value(value: pa.Scalar, kind: t.Type) -> bytes:
    match kind:
        case t.Decimal(_, scale):
            return encode_value(value.as_py().scaleb(scale, _ENOUGH), kind)
        case t.STRING:
            return encode_value(str(value.as_py()).encode(), kind)
        case t.Timestamp() | t.TIME:
            return encode_value(value.cast(pa.int64()).as_py(), kind)
        case t.DATE:
            return encode_value(value.cast(pa.int32()).as_py(), kind)
    return encode_value(value.as_py(), kind)


_SUMMARY = t.Struct(
    (
        t.Field(509, "contains_null", t.BOOLEAN, required=True),
        t.Field(518, "contains_nan", t.BOOLEAN),
        t.Field(510, "lower_bound", t.BINARY),
        t.Field(511, "upper_bound", t.BINARY),
    )
)
_PARTITIONS = t.Field(507, "partitions", t.ListOf(t.Field(508, "element", _SUMMARY, required=True)))
_KEY_METADATA = t.Field(519, "key_metadata", t.BINARY)


def manifest_list_file(
    manifests: pa.Table,
    format_version: int,
    snapshot_id: int,
    parent_id: int | None,
    sequence_number: int,
    first_row_id: int | None,
) -> bytes:
    """Return the manifest list file of a snapshot; `manifests` come from `assign_sequence_numbers`."""
    header = {
        "snapshot-id": str(snapshot_id),
        "parent-snapshot-id": "null" if parent_id is None else str(parent_id),
        "format-version": str(format_version),
    }
    if format_version > 1:
        header["sequence-number"] = str(sequence_number)
    if format_version > 2:
        header["first-row-id"] = str(first_row_id)
    fields = _fields(format_version)
    return avro_file(manifests.select([field.name for field in fields.fields]), fields, "manifest_file", header)


def assign_sequence_numbers(
    manifests: pa.Table, sequence_number: int, next_row_id: int | None
) -> tuple[pa.Table, int | None]:
    """Assign the commit's sequence number to new manifests, and first row ids to data manifests without one.

    New manifests have a null `sequence_number`. A null `min_sequence_number` becomes the commit's number, because all
    live entries inherit it. Returns the manifests and the table's next row id after them (None without row lineage).
    See the specification, "First Row ID Assignment".
    """
    columns = {name: manifests[name] for name in manifests.column_names}
    for name in ("sequence_number", "min_sequence_number"):
        columns[name] = pc.fill_null(columns[name], sequence_number)
    if next_row_id is not None:
        columns["first_row_id"], next_row_id = _row_ids(manifests, next_row_id)
    return pa.table(columns, schema=manifests.schema), next_row_id


def _row_ids(manifests: pa.Table, next_row_id: int) -> tuple[pa.Array, int]:
    needs = pc.and_(pc.equal(manifests["content"], DATA), pc.is_null(manifests["first_row_id"]))
    rows = pc.add(manifests["added_rows_count"], manifests["existing_rows_count"])
    missing = pc.index(pc.and_(needs, pc.is_null(rows)), True).as_py()
    if missing >= 0:
        path = manifests["manifest_path"][missing].as_py()
        raise UnsupportedFeature("assigning row ids to manifests without row counts", f"{path} has no row counts.")
    counts = pc.if_else(needs, rows, 0).combine_chunks().to_numpy(zero_copy_only=False).astype(np.int64)
    starts = pa.array(next_row_id + np.cumsum(counts) - counts)
    return pc.if_else(needs, starts, manifests["first_row_id"]), next_row_id + int(counts.sum())


def _fields(format_version: int) -> t.Struct:
    """Return the fields of a manifest list in a format version; fields that the version requires are required."""
    since_2 = format_version > 1
    counts = [
        t.Field(504, "added_files_count", t.INT, required=since_2),
        t.Field(505, "existing_files_count", t.INT, required=since_2),
        t.Field(506, "deleted_files_count", t.INT, required=since_2),
        t.Field(512, "added_rows_count", t.LONG, required=since_2),
        t.Field(513, "existing_rows_count", t.LONG, required=since_2),
        t.Field(514, "deleted_rows_count", t.LONG, required=since_2),
    ]
    numbers = [
        t.Field(517, "content", t.INT, required=True),
        t.Field(515, "sequence_number", t.LONG, required=True),
        t.Field(516, "min_sequence_number", t.LONG, required=True),
    ]
    return t.Struct(
        (
            t.Field(500, "manifest_path", t.STRING, required=True),
            t.Field(501, "manifest_length", t.LONG, required=True),
            t.Field(502, "partition_spec_id", t.INT, required=True),
            *(numbers if since_2 else ()),
            t.Field(503, "added_snapshot_id", t.LONG, required=True),
            *counts,
            _PARTITIONS,
            _KEY_METADATA,
            *((t.Field(520, "first_row_id", t.LONG),) if format_version > 2 else ()),
        )
    )
