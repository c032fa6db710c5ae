"""Add Parquet files of other writers to a table in place, in one append; only their footers are read."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from lakescan.common import types as t
from lakescan.common.retries import Attempts, RetryPolicy
from lakescan.common.schema import FieldMatching, Schema
from lakescan.errors import CommitConflict, InvalidOption, SchemaMismatch, UnsupportedFeature, nearest
from lakescan.iceberg.commit.base_manifests import find_live_files
from lakescan.iceberg.commit.commit_base import CommitBase
from lakescan.iceberg.commit.commit_snapshot import commit_snapshot
from lakescan.iceberg.commit.file_changes import SnapshotChanges, added_files
from lakescan.iceberg.commit.outcomes import wait_before_retry
from lakescan.iceberg.commit.snapshot_producer import SnapshotProducer
from lakescan.iceberg.data_files.metrics import file_metrics
from lakescan.iceberg.metadata.name_mapping import PROPERTY, field_matching, field_paths, name_mapping_text
from lakescan.iceberg.metadata.partition_spec import PartitionSpec
from lakescan.iceberg.metadata.table_metadata import TableMetadata
from lakescan.iceberg.metadata.table_properties import IcebergProperties
from lakescan.iceberg.table import IcebergTable
from lakescan.reading.field_ids import FileField, has_ids, read_fields
from lakescan.reading.parquet.file import ParquetData, open_parquet
from lakescan.storage import FileEntry, Storage
from lakescan.writing.file_statistics import FileStatistics, LeafColumn, LeafStatistics
from lakescan.writing.imported_files import FolderFiles, check_parquet, footer_bound
from lakescan.writing.partition_key import physical_values
from lakescan.writing.table_writes import Key, WrittenFile

if TYPE_CHECKING:
    from pyiceberg.table import Table


def add_files(
    table: Table,
    opened: IcebergTable,
    folder: str,
    partitions: Mapping[str, str],
    storage: Storage,
    retries: RetryPolicy,
    *,
    check_duplicates: bool = True,
    only: Sequence[str] | None = None,
) -> Mapping[str, str]:
    """Add the Parquet files under a folder, or one file, in place; return the summary of the new snapshot.

    The partition of a file is that of its folders (`day=2026-01-31`); `partitions` selects files by these names and
    values. `only` lists the locations of the files to add, if not all. If files have no field ids, the table gets a
    name mapping in the same commit.

    Raises `InvalidOption` if the table already has one of the files, `SchemaMismatch`, `UnsupportedFeature` and
    `CommitConflict`.
    """
    metadata = opened.metadata
    if metadata.table_properties.is_encrypted:
        raise UnsupportedFeature(
            f"adding plain files to the encrypted table {metadata.location}", "Read them, and append their rows."
        )
    schema, known = metadata.schema, set(metadata.snapshots)
    found = ForeignFiles.list_folder(folder, storage)
    found = found if only is None else found.select_files(only, storage)
    spec = spec_for(found, metadata.specs, metadata.default_spec_id, schema)
    if partitions:
        found = found.matching(partitions, schema, spec)
        if not found.entries:
            raise InvalidOption(f"no file of {folder} is in the partitions of partition_filter: {partitions}")
    matching = field_matching(metadata)
    if metadata.table_properties.name_mapping is None:
        matching = FieldMatching(by_id=True, name_mapping=dict(field_paths(schema.fields)))
    properties, names = metadata.table_properties, _historical_names(metadata)
    files, is_nameless = as_data_files(found, spec, schema, matching, properties, storage, names)
    attempts, at, now = Attempts(retries), copy(table), opened
    while True:
        if now.metadata.current_schema_id != metadata.current_schema_id:
            raise CommitConflict(f"{metadata.location}: another writer changed the columns. Add the files again.")
        base = CommitBase(now.metadata, at.metadata)
        if check_duplicates:
            _check_new(files, base, storage)
        producer = SnapshotProducer(base, storage, "append", SnapshotChanges(added_files(files, base)))
        then = (
            _name_mapping_update(schema.fields)
            if is_nameless and now.metadata.table_properties.name_mapping is None
            else []
        )
        failed = commit_snapshot(at, producer, known, storage, then, [_schema_requirement(at)])
        if failed is None:
            return producer.summary
        wait_before_retry(attempts, ".".join(table.name()), failed)
        at, now = failed.table, failed.now


def _historical_names(metadata: TableMetadata) -> dict[int, set[str]]:
    """Return all names that each field ever had, by field id, because older files have the names of older schemas."""
    names: dict[int, set[str]] = {}
    for schema in metadata.schemas.values():
        for field in schema.by_id.values():
            names.setdefault(field.id, set()).add(field.name)
    return names


def _check_new(files: Iterable[WrittenFile], base: CommitBase, storage: Storage) -> None:
    """Raise `InvalidOption` if a file is already a live data file of the branch, however its location is spelled."""
    there = find_live_files(pa.array([each.location for each in files], pa.string()), base, storage)
    if len(there):
        raise InvalidOption(
            f"{there[0].as_py()} is already a data file of {base.metadata.location}, so its rows would be duplicated. "
            "Nothing was added; check_duplicate_files => false adds it anyway"
        )


def _name_mapping_update(fields: Iterable[t.Field]) -> list[Any]:
    """Return the update that sets the table's name mapping to the names of its columns."""
    from pyiceberg.table.update import SetPropertiesUpdate

    return [SetPropertiesUpdate(updates={PROPERTY: name_mapping_text(fields)})]


def _schema_requirement(table: Table) -> Any:
    from pyiceberg.table.update import AssertCurrentSchemaId

    return AssertCurrentSchemaId(current_schema_id=table.metadata.current_schema_id)


# Only footers are read. Columns are found by field id, or by name in files without ids.

_READERS = 16  # footers read at once
_NULL = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True)
class ForeignFiles(FolderFiles):
    """Files to add to an Iceberg table."""

    def keys(self, spec: PartitionSpec, schema: Schema) -> list[Key]:
        """Return the partition key of each file, parsed from its folder names.

        Raises `InvalidOption` for a folder name that is not a value of the column's type.
        """
        columns = [
            _parse_values(self.folders[field.name], schema.by_id[field.source_id].type, field.name)
            for field in spec.fields
        ]
        return list(zip(*columns, strict=True)) if columns else [()] * len(self.entries)

    def matching(self, wanted: Mapping[str, str], schema: Schema, spec: PartitionSpec) -> ForeignFiles:
        """Return the files whose partition folders have the values `wanted` (texts by folder name).

        Raises `InvalidOption` for a name that no folder has, and for a text that is not a value of the column's type.
        """
        sources = {field.name: schema.by_id[field.source_id].type for field in spec.fields}
        kept = np.ones(len(self.entries), bool)
        for name, text in wanted.items():
            if name not in self.folders:
                raise InvalidOption(
                    f"partition_filter has {name!r}, but the partition folders of {self.folder} are "
                    f"{', '.join(self.folders) or 'nothing'}.{nearest(name, self.folders)}"
                )
            (value,) = _parse_values([text], sources[name], name)
            kept &= np.array([each == value for each in _parse_values(self.folders[name], sources[name], name)])
        places = np.flatnonzero(kept).tolist()
        folders = {name: [values[place] for place in places] for name, values in self.folders.items()}
        return ForeignFiles(self.folder, [self.entries[place] for place in places], folders)


def spec_for(found: ForeignFiles, specs: Mapping[int, PartitionSpec], default: int, schema: Schema) -> PartitionSpec:
    """Return the partition spec whose fields have the names of the files' folders and identity transforms.

    Raises `UnsupportedFeature` if no spec does.
    """
    names = set(found.folders)
    for spec in [specs[default], *specs.values()]:
        values = all(str(field.transform) == "identity" and field.source_id in schema.by_id for field in spec.fields)
        if values and {field.name for field in spec.fields} == names:
            return spec
    folders = f"folders named {', '.join(found.folders)}" if names else "no folders named after partitions"
    raise UnsupportedFeature(
        f"adding the files of {found.folder}, which has {folders}, to a table that is partitioned by "
        f"{specs[default].describe(schema)}",
        "Files are added to tables that are partitioned by the values of the same columns, under the same names. Read "
        "the files, and append their rows (Table.append).",
    )


def as_data_files(
    found: ForeignFiles,
    spec: PartitionSpec,
    schema: Schema,
    matching: FieldMatching,
    properties: IcebergProperties,
    storage: Storage,
    names: Mapping[int, Collection[str]],
) -> tuple[list[WrittenFile], bool]:
    """Return the files with statistics from their footers for a commit, and whether some have no field ids.

    `names` are all names that each field ever had, by id; files with ids must use one of them. Raises `SchemaMismatch`
    for files whose columns do not fit the table, `CorruptData` for files that are not Parquet.
    """
    keys = found.keys(spec, schema)
    constant = {field.source_id for field in spec.fields}

    def read_footer(entry: FileEntry, key: Key) -> tuple[WrittenFile, bool]:
        with open_parquet(storage, entry.location) as data:
            columns = _Columns(entry.location, schema, matching, data, names)
            columns.check(constant)
            columns.check_folders(dict(zip((field.source_id for field in spec.fields), key, strict=True)))
            details = {**file_metrics(columns.statistics(), properties), "spec_id": spec.id}
            return WrittenFile(entry.location, key, data.rows, data.size, details), columns.is_nameless

    check_parquet(found.entries)
    with ThreadPoolExecutor(_READERS) as pool:
        files = list(pool.map(read_footer, found.entries, keys))
    return [each for each, _ in files], any(nameless for _, nameless in files)


class _Columns:
    """The columns of one file, matched with those of the table."""

    def __init__(
        self,
        path: str,
        schema: Schema,
        matching: FieldMatching,
        data: ParquetData,
        names: Mapping[int, Collection[str]],
    ) -> None:
        self._path, self._schema, self._data, self._names = path, schema, data, names
        self.is_nameless = not has_ids(data.schema)
        self.fields = read_fields(data.schema, matching)

    def check(self, constant: set[int]) -> None:
        """Raise `SchemaMismatch` if the file's columns do not fit those of the table.

        `constant` are the ids of columns whose values come from folder names.
        """
        found = {each.id for each in self.fields if each.id is not None}
        if not found & {each.id for each in self._schema.fields}:
            raise self._misfit(
                f"none of its columns ({', '.join(each.name for each in self.fields)}) is one of the table's "
                f"({', '.join(self._schema.names)})"
            )
        for column in self._schema.fields:
            if column.required and column.id not in found | constant:
                raise self._misfit(f"it lacks the column {column.name!r}, which may not be null")
        self._check_once(self.fields)
        for field in self.fields:
            if field.id is None and field.name in self._schema.names:
                raise self._misfit(
                    f"its column {field.name!r} is not in the table's name mapping (schema.name-mapping.default), so "
                    "it would be read as null"
                )
            self._check(field, field.name)

    def _check_once(self, fields: Sequence[FileField]) -> None:
        """Raise `SchemaMismatch` if two columns of the file match the same column of the table."""
        seen: dict[int, str] = {}
        for field in fields:
            if field.id is not None and seen.setdefault(field.id, field.name) != field.name:
                raise self._misfit(
                    f"its columns {seen[field.id]!r} and {field.name!r} are both the column "
                    f"{self._schema.path_of.get(field.id, str(field.id))!r} of the table"
                )
            self._check_once(field.children)

    def check_folders(self, folders: Mapping[int, Any]) -> None:
        """Raise `SchemaMismatch` if a partition column that the file also contains has other values than its folder's.

        Readers use the value of the folder, but skip files by the column's own bounds, so they would miss rows.
        """
        for leaf in self.statistics().leaves:
            field_id = leaf.leaf.field.id
            if field_id not in folders or leaf.least is None or leaf.most is None:
                continue
            value = _bound_value(folders[field_id], leaf.leaf.field.type)
            if leaf.nulls or not leaf.least == leaf.most == value:
                name = leaf.leaf.field.name
                raise self._misfit(
                    f"its column {name!r} has other values than the name of its folder: drop the column from the file, "
                    "or move the file"
                )

    def _check(self, field: FileField, path: str) -> None:
        column = None if field.id is None else self._schema.by_id.get(field.id)
        if column is None:
            if field.id is not None and not self.is_nameless and path in self._schema.path_of.values():
                raise self._misfit(f"its column {path!r} has the field id {field.id}, which the table does not have")
            return
        has_other_name = field.name not in self._names.get(column.id, ()) and column.name != field.name
        if not self.is_nameless and has_other_name and column.name not in ("element", "key", "value"):
            raise self._misfit(
                f"its column {path!r} has the field id {field.id}, which is {self._schema.path_of[column.id]!r} in the "
                "table: the ids are those of another table"
            )
        if not _fits(field.type, column.type):
            raise self._misfit(f"its column {path!r} is {field.type}, but {column.type} in the table")
        for child in field.children:
            self._check(child, f"{path}.{child.name}")

    def _misfit(self, why: str) -> SchemaMismatch:
        return SchemaMismatch(f"{self._path} cannot be added: {why}. Nothing was added.")

    def statistics(self) -> FileStatistics:
        """Return counts and bounds from the Parquet footer, which does not count NaNs of floating-point columns.

        Raises `SchemaMismatch` if a required column has, or may have, nulls.
        """
        data, leaves = self._data, dict(self._leaves())
        groups = data.footer.statistics(leaves)
        rows, writer = np.diff(data.footer.first_rows).tolist(), data.file.metadata.created_by
        found = []
        for place, (field, leaf) in leaves.items():
            chunks = groups[place]
            counts = [each.null_count for each in chunks]
            nulls = None if any(each is None for each in counts) else sum(each or 0 for each in counts)
            empty = [each == count for each, count in zip(counts, rows, strict=True)]
            type_name = data.file.schema.column(place).physical_type
            least, most = (
                footer_bound(chunks, side, type_name, field.type, leaf.field, empty, writer)
                for side in ("lower", "upper")
            )
            if leaf.field.required and nulls != 0 and leaf.way[0] is leaf.field:
                raise self._misfit(
                    f"its column {leaf.field.name!r} may not be null in the table, but {nulls or 'an unknown number'} "
                    "of its values are"
                )
            nans = None if leaf.field.type in t.FLOATING else 0
            found.append(LeafStatistics(leaf, None, data.rows, nulls, nans, least, most))
        return FileStatistics(data.rows, data.footer.starts(data.size), found)

    def _leaves(self) -> Iterator[tuple[int, tuple[FileField, LeafColumn]]]:
        """Yield the primitive columns outside of lists and maps that both file and table have, in the table's order.

        Each is its position in the file, with the file's field and the table's column.
        """
        found = dict(_fields_with_leaves(self.fields, 0))
        for column in (each for each in t.walk(self._schema.fields) if each.id in found):
            place, field = found[column.id]
            way = self._schema.struct_path(column.id)
            if not t.children(column.type) and not field.children and way[-1].id == column.id:
                yield place, (field, LeafColumn(way, ()))


def _fields_with_leaves(fields: Sequence[FileField], first: int) -> Iterator[tuple[int, tuple[int, FileField]]]:
    for field in fields:
        if field.id is not None:
            yield field.id, (first, field)
        if pa.types.is_struct(field.type):
            yield from _fields_with_leaves(field.children, first)
        first += field.leaves


def _fits(source: pa.DataType, kind: t.Type) -> bool:
    """Return whether a file's type is that of the column, or one that readers widen to it."""
    if pa.types.is_dictionary(source):
        source = source.value_type
    match kind:
        case t.Struct():
            return bool(pa.types.is_struct(source))
        case t.ListOf():
            return bool(pa.types.is_list(source) or pa.types.is_large_list(source))
        case t.MapOf():
            return bool(pa.types.is_map(source))
        case t.Decimal():
            return bool(
                pa.types.is_decimal(source) and source.scale == kind.scale and source.precision <= kind.precision
            )
        case t.Timestamp():
            return bool(pa.types.is_timestamp(source))
    target = kind.arrow()
    if kind == t.STRING:
        return bool(pa.types.is_string(source) or pa.types.is_large_string(source))
    if kind == t.BINARY:
        return bool(pa.types.is_binary(source) or pa.types.is_large_binary(source))
    if kind == t.UUID:
        return bool(pa.types.is_fixed_size_binary(source) and source.byte_width == 16)
    if kind in t.INTEGRAL:
        signed = pa.types.is_signed_integer(source) and source.bit_width <= target.bit_width
        return bool(signed or (pa.types.is_unsigned_integer(source) and source.bit_width < target.bit_width))
    if kind in t.FLOATING:
        return bool(pa.types.is_floating(source) and source.bit_width <= target.bit_width)
    return bool(source == target)


def _bound_value(value: Any, kind: t.Type) -> Any:
    """Return a partition value in the form of footer bounds: decimals unscaled, strings as bytes, others unchanged."""
    if isinstance(kind, t.Decimal) and value is not None:
        return int(value.scaleb(kind.scale))
    return value.encode() if isinstance(value, str) else value


def _parse_values(texts: Sequence[str | None], kind: t.Type, name: str) -> list[Any]:
    """Parse the texts of folders `name=...` as values of `kind`, with dates and times as numbers.

    None and `__HIVE_DEFAULT_PARTITION__` become None. Raises `InvalidOption` for a text that is not a value of the
    type.
    """
    target = kind.arrow()
    try:
        values = pa.array([None if each == _NULL else each for each in texts], pa.string()).cast(target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InvalidOption(f"a folder {name}=... does not hold a value of type {kind}: {error}") from error
    found: list[Any] = physical_values(values).to_pylist()
    return found
