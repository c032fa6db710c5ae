"""Write deletes by position: deletion vectors from format version 3 on, position delete files in version 2.

Existing deletes that apply only to one data file are merged with its new ones and replaced in the same commit, as in
Java's `BaseDVFileWriter`. The partition of a delete file is that of its data files, by their own spec.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyroaring import BitMap64

from lakescan import limits
from lakescan.common import types as t
from lakescan.errors import CorruptData, UnsupportedFeature
from lakescan.iceberg.data_files.table_writes import IcebergWrites
from lakescan.iceberg.manifests.bounds import encode_value
from lakescan.iceberg.manifests.manifest_file import POSITION_DELETES
from lakescan.iceberg.metadata.partition_spec import PartitionSpec
from lakescan.iceberg.metadata.table_metadata import TableMetadata
from lakescan.planning.delete_files import DeleteFile, DeleteKind, delete_files
from lakescan.planning.file_table import FileTable
from lakescan.reading.deletes.deletion_vectors import positions_in_range
from lakescan.reading.deletes.position_deletes import DELETED_PATH, DELETED_POSITION, DeleteLoader
from lakescan.storage.encryption.gcm_stream import GcmWriter
from lakescan.storage.encryption.table_keys import NewKey
from lakescan.storage.errors import redact, storage_boundary
from lakescan.storage.locations import LocationMatcher
from lakescan.writing.parquet_writer import remove_written
from lakescan.writing.partition_key import exact_key, physical_values
from lakescan.writing.puffin import PuffinWriter
from lakescan.writing.table_writes import Key, WrittenDeletes, WrittenFile


@dataclass(frozen=True)
class _Rows:
    """The deleted rows of a data file, for its new delete.

    - `deleted`: all positions of the new delete; `new` is the number of those that were not deleted before.
    - `replaced`: the existing deletes that the new delete replaces.
    - `spec_id`, `key`: the partition of the data file.
    """

    path: str
    spec_id: int
    key: Key
    deleted: BitMap64
    new: int
    replaced: tuple[Replaced, ...]


@dataclass(frozen=True)
class IcebergDeletes:
    """Writes position deletes of a table. Pickled for workers.

    `specs` are the table's partition specs, and `partition_names` the names of partition fields in file tables, by
    field id. The name of each written file includes `write_id`.
    """

    writes: IcebergWrites
    specs: Mapping[int, PartitionSpec]
    partition_names: Mapping[int, str]  # partition field names in file tables, by id; others keep their own names
    write_id: str

    @staticmethod
    def create(writes: IcebergWrites, metadata: TableMetadata, write_id: str) -> IcebergDeletes:
        """Return the delete writer of a table.

        Raises `UnsupportedFeature` for format version 1, and if `write.delete.format.default` is not Parquet in version
        2.
        """
        version, kind = metadata.format_version, writes.properties.delete_format
        if version < 2:
            raise UnsupportedFeature(
                f"deletes by position in {metadata.location}, of format version 1",
                "Upgrade the table to version 2, or use row-change-mode=copy-on-write.",
            )
        if version == 2 and kind not in (None, "parquet"):
            raise UnsupportedFeature(
                f"writing {kind} delete files in {metadata.location}",
                "They are written as Parquet: set 'write.delete.format.default'='parquet'.",
            )
        names = {each.id: each.name for each in metadata.partition_type.fields}
        return IcebergDeletes(writes, metadata.specs, names, write_id)

    def write(self, files: FileTable, positions: Sequence[BitMap64]) -> Sequence[WrittenDeletes]:
        """Write the deletes of data files, each with the positions of the rows to delete.

        A file gets no new delete if all its rows to delete are already deleted by position. See `DeleteWriter`.
        """
        _check_rows(files, positions)
        return self._write(self._rows(files, positions))

    def write_again(self, files: FileTable) -> Sequence[WrittenDeletes]:
        """Rewrite the existing position deletes of data files in the form for the table's version and granularity."""
        return self._write(self._same_rows(files))

    def _write(self, rows: Iterator[_Rows]) -> Sequence[WrittenDeletes]:
        made: list[str] = []
        try:
            if self._has_vectors:
                return self._vectors(rows, made)
            if self._is_by_file:
                return [each for one in rows for each in self._position_deletes([one], made)]
            return self._write_partitions(rows, made)
        except BaseException:
            self.writes.storage.remove(made)
            raise

    def remove_written(self) -> Sequence[str]:
        """Remove all files of this write, by listing the data folder; return the locations that are left."""
        return remove_written(self.writes, self.write_id)

    @property
    def _has_vectors(self) -> bool:
        return int(self.writes.metadata.format_version) > 2

    @property
    def _is_by_file(self) -> bool:
        return self.writes.properties.delete_granularity == "file"

    @property
    def _places(self) -> LocationMatcher:
        return self.writes.storage.places(str(self.writes.metadata.location))

    def _rows(self, files: FileTable, positions: Sequence[BitMap64]) -> Iterator[_Rows]:
        """Yield the rows to delete of each file that has any, sorted by partition and path, one file at a time."""
        for place, path, spec_id, key in self._sort_files(files.files):
            old = ExistingDeletes.read(files, place, self.writes, self._places)
            if new := positions[place] - old.deleted:
                deleted, replaced = self._merge_deletes(new, old)
                yield _Rows(path, spec_id, key, deleted, len(new), replaced)

    def _same_rows(self, files: FileTable) -> Iterator[_Rows]:
        for place, path, spec_id, key in self._sort_files(files.files):
            if deleted := ExistingDeletes.read(files, place, self.writes, self._places).deleted:
                yield _Rows(path, spec_id, key, deleted, len(deleted), ())

    def _sort_files(self, files: pa.Table) -> Iterator[tuple[int, str, int, Key]]:
        """Yield each file's row in the table, its path, spec and partition, sorted by partition and path."""
        paths, keys, ids = files["path"].to_pylist(), self._keys(files), files["spec_id"].to_pylist()
        for place in sorted(range(len(paths)), key=lambda each: (ids[each], repr(exact_key(keys[each])), paths[each])):
            yield place, paths[place], ids[place], keys[place]

    def _merge_deletes(self, new: BitMap64, old: ExistingDeletes) -> tuple[BitMap64, tuple[Replaced, ...]]:
        if self._has_vectors:
            return new | old.deleted, old.replaced
        if self._is_by_file:  # delete files that cover several data files stay, so their rows are not repeated
            return new | old.replaced_rows, old.replaced
        return new, ()

    def _keys(self, files: pa.Table) -> list[Key]:
        """Return the partition key of each file by its own spec, with dates and times as numbers.

        Raises `UnsupportedFeature` for a partition field whose type is unknown, and for fields with the same name.
        """
        keys: list[Key] = [()] * files.num_rows
        partitions = files["partition"].combine_chunks()
        for spec_id in pc.unique(files["spec_id"]).to_pylist():
            spec = self.specs[spec_id]
            places = pc.indices_nonzero(pc.equal(files["spec_id"], spec_id))
            if typeless := [each.name for each in spec.fields if each.type == t.UNKNOWN]:
                raise UnsupportedFeature(
                    f"deletes by position in files of {self.writes.metadata.location} that are partitioned by "
                    f"{typeless[0]!r}, whose column no schema has any more",
                    "Use row-change-mode=copy-on-write.",
                )
            names = [self.partition_names.get(each.id, each.name) for each in spec.fields]
            if len(set(names)) < len(names):
                raise UnsupportedFeature(
                    f"deletes by position in files of {self.writes.metadata.location} whose partition fields have the "
                    f"same name: {', '.join(names)}",
                    "Use row-change-mode=copy-on-write.",
                )
            columns = [
                physical_values(_cast_values(partitions.field(name).take(places), each.type)).to_pylist()
                for name, each in zip(names, spec.fields, strict=True)
            ]
            rows = zip(*columns, strict=True) if columns else [()] * len(places)
            for place, key in zip(places.to_pylist(), rows, strict=True):
                keys[place] = key
        return keys

    def _vectors(self, rows: Iterator[_Rows], made: list[str]) -> list[WrittenDeletes]:
        """Write deletion vectors into one Puffin file; without vectors, write nothing.

        The location of the file is appended to `made`, before it is written.
        """
        first = next(rows, None)
        if first is None:
            return []
        location, storage = self.writes.locations.new(self._new_name("puffin"), None), self.writes.storage
        made.append(location)
        written: list[tuple[_Rows, int, int, int]] = []
        key = self.writes.new_key()
        with storage.writing(location) as file, _sink(file, key) as sink:
            writer = PuffinWriter(sink)
            for each in _prepend(first, rows):
                with storage_boundary("written", location):
                    offset, length = writer.add(each.path, each.deleted)
                # Drop the positions, which are not needed any more.
                written.append((_drop_positions(each), len(each.deleted), offset, length))
            with storage_boundary("written", location):
                size = writer.finish()
                if isinstance(sink, GcmWriter):
                    sink.close()
                    size = sink.length
        key_metadata = None if key is None else key.metadata(size)
        return [
            _file_deletes(each, _vector(each, location, rows, size, offset, length, key_metadata))
            for each, rows, offset, length in written
        ]

    def _write_partitions(self, rows: Iterator[_Rows], made: list[str]) -> list[WrittenDeletes]:
        by_partition = groupby(rows, key=lambda each: (each.spec_id, exact_key(each.key)))
        return [each for _, some in by_partition for each in self._position_deletes(some, made)]

    def _position_deletes(self, rows: Iterator[_Rows] | Sequence[_Rows], made: list[str]) -> list[WrittenDeletes]:
        """Write the deletes of data files of one partition, sorted by path, into files of the target size.

        Locations of the files are appended to `made`, before they are written.
        """
        done: list[WrittenDeletes] = []
        some: list[_Rows] = []
        open_file: PositionDeleteFile | None = None
        try:
            for each in rows:
                if open_file is None:
                    location = self._location(each)
                    made.append(location)
                    open_file = PositionDeleteFile(self.writes, location)
                open_file.add(each.path, each.deleted)
                some.append(_drop_positions(each))
                if open_file.size >= self.writes.properties.target_delete_file_size:
                    done += _finish_file(open_file, some)
                    open_file, some = None, []
            if open_file is not None:
                done += _finish_file(open_file, some)
            return done
        except BaseException:
            if open_file is not None:
                open_file.abandon()
            raise

    def _location(self, rows: _Rows) -> str:
        return self.writes.locations.new(self._new_name("parquet"), self._folder(rows.spec_id, rows.key))

    def _folder(self, spec_id: int, key: Key) -> str | None:
        """Return the partition's path; None if the table is not partitioned, or pyiceberg cannot format the values.

        The path of a file does not determine its partition. A delete must be possible whatever its data file's
        partition is.
        """
        metadata = self.writes.metadata
        spec = metadata.specs()[spec_id]
        if spec.is_unpartitioned():
            return None
        sources = {each.source_id for each in spec.fields}
        for schema in (metadata.schema(), *reversed(metadata.schemas)):
            if sources <= set(schema.field_ids):
                try:
                    return str(spec.partition_to_path(self.writes.partition_record(key), schema))
                except (OverflowError, TypeError, ValueError):
                    return None
        return None

    def _new_name(self, ending: str) -> str:
        return f"{self.write_id}-{uuid.uuid4().hex[:12]}-deletes.{ending}"


def _check_rows(files: FileTable, positions: Sequence[BitMap64]) -> None:
    paths, counts = files.files["path"].to_pylist(), files.files["record_count"].to_pylist()
    for path, rows, deleted in zip(paths, counts, positions, strict=True):
        known = limits.ROWS if rows is None or rows < 0 else rows
        if deleted and deleted.max() >= known:
            raise CorruptData(
                f"{redact(path)} has {known:,} rows by its metadata, so its row {deleted.max():,} cannot be deleted: "
                "the file was replaced by another one, or the metadata is damaged. Restore the file."
            )


def _cast_values(values: pa.Array, kind: t.Type) -> pa.Array:
    """Narrow partition values to `kind`, the type in their own spec; specs planned together may share a wider type."""
    arrow = kind.arrow()
    return values.cast(arrow.storage_type if isinstance(arrow, pa.ExtensionType) else arrow)


def _prepend(first: _Rows, others: Iterator[_Rows]) -> Iterator[_Rows]:
    yield first
    yield from others


def _drop_positions(rows: _Rows) -> _Rows:
    return _Rows(rows.path, rows.spec_id, rows.key, BitMap64(), rows.new, rows.replaced)


def _sink(file: pa.NativeFile, key: NewKey | None) -> Any:
    """Return a context manager of the sink that vectors are written to: the file, or a writer that encrypts to it."""
    return nullcontext(file) if key is None else GcmWriter(file, key.file_key)


def _vector(
    rows: _Rows, location: str, deleted: int, size: int, offset: int, length: int, key_metadata: bytes | None
) -> WrittenFile:
    details = {
        "content": POSITION_DELETES,
        "file_format": "PUFFIN",
        "spec_id": rows.spec_id,
        "referenced_data_file": rows.path,
        "content_offset": offset,
        "content_size_in_bytes": length,
        "key_metadata": key_metadata,
    }
    return WrittenFile(location, rows.key, deleted, size, details)


def _finish_file(file: PositionDeleteFile, rows: Sequence[_Rows]) -> list[WrittenDeletes]:
    entry = file.finish(rows[0].spec_id, rows[0].key)
    return [_file_deletes(each, entry) for each in rows]


def _file_deletes(rows: _Rows, entry: WrittenFile) -> WrittenDeletes:
    return WrittenDeletes(rows.path, rows.new, entry.location, {"file": entry, "replaced": rows.replaced})


Replaced = tuple[str, int | None]  # a delete file, and the offset of the vector in it


@dataclass(frozen=True)
class ExistingDeletes:
    """The existing position deletes of a data file.

    - `deleted`: all rows that are deleted by position.
    - `replaced`: the deletes that apply only to this data file, so that a new delete can replace them.
    - `replaced_rows`: the rows that the replaced deletes delete.
    """

    deleted: BitMap64
    replaced_rows: BitMap64 = field(default_factory=BitMap64)
    replaced: tuple[Replaced, ...] = ()

    @staticmethod
    def read(files: FileTable, place: int, writes: IcebergWrites, places: LocationMatcher) -> ExistingDeletes:
        """Read the position deletes of the data file in row `place` of `files`; `places` compares locations."""
        row = files.files.slice(place, 1)
        numbers = row["deletes"].combine_chunks().flatten()
        deletes = delete_files(files.deletes.take(numbers))
        if not deletes:
            return ExistingDeletes(BitMap64())
        path, same_place, rows = (row[name][0].as_py() for name in ("path", "same_place", "record_count"))
        loader = DeleteLoader(writes.storage, [path], places=places)
        at = places.canonicalize(pa.array([path]))[0].as_py()
        own = [each for each in deletes if _is_about(each, path, at, same_place, loader)]
        return ExistingDeletes(
            loader.selection(path, deletes, same_place, rows).deleted,
            loader.selection(path, own, same_place, rows).deleted,
            tuple((each.location, each.offset) for each in own),
        )


def _is_about(
    delete: DeleteFile, path: str, place: str, same_place: Sequence[str] | None, loader: DeleteLoader
) -> bool:
    """Return whether a delete applies only to the data file `path`: a vector, or a delete file with no other path.

    A path that differs only in its spelling counts too (`place` is the normalized location), unless `same_place` lists
    other data files there. Position delete files are read, which is needed later anyway.
    """
    if delete.kind == DeleteKind.VECTOR:
        return True
    positions = loader.positions(delete)
    return list(positions.by_name) == [path] or (not same_place and list(positions.place_names) == [place])


_RANGE = 1 << 20  # rows of a data file whose deletes are written at once
_NAMES = pa.dictionary(pa.int32(), pa.string())
_SCHEMA = pa.schema(
    [
        pa.field(each.name, kind, nullable=False, metadata={"PARQUET:field_id": str(each.id)})
        for each, kind in ((DELETED_PATH, _NAMES), (DELETED_POSITION, pa.int64()))
    ]
)


class PositionDeleteFile:
    """An open position delete file. Data files must be added in the order of their paths."""

    def __init__(self, writes: IcebergWrites, location: str) -> None:
        self.location = location
        self.size: int = 0  # bytes written so far
        self._sink = writes.storage.create(location)
        with storage_boundary("written", location, passing=pa.ArrowException):
            self._writer = pq.ParquetWriter(self._sink, _SCHEMA, store_schema=False, **writes.delete_parquet_options)
        self._rows = 0
        self._paths: list[str] = []
        self._bounds = (0, 0)  # least and greatest position of the last data file

    def add(self, path: str, positions: BitMap64) -> None:
        """Write the deletes of a data file, in ranges of its rows to bound memory."""
        name = pa.array([path])
        least, most = positions.min(), positions.max()
        for first in range(least, most + 1, _RANGE):
            found = positions_in_range(positions, first, _RANGE) + first
            if not len(found):
                continue
            names = pa.DictionaryArray.from_arrays(pa.array(np.zeros(len(found), np.int32)), name)
            with storage_boundary("written", self.location, passing=pa.ArrowException):
                self._writer.write_table(pa.table([names, pa.array(found)], schema=_SCHEMA))
                self.size = self._sink.tell()
            self._rows += len(found)
        self._paths.append(path)
        self._bounds = least, most

    def finish(self, spec_id: int, key: Key) -> WrittenFile:
        """Close the file and return its details for the commit, as in Java's `PositionDeleteWriter`.

        Bounds are recorded only for a file with deletes of a single data file.
        """
        with storage_boundary("written", self.location, passing=pa.ArrowException):
            self._writer.close()
            size = self._sink.tell()
            self._sink.close()
        details: dict[str, Any] = {"content": POSITION_DELETES, "spec_id": spec_id}
        if len(self._paths) == 1:
            path = self._paths[0].encode()
            lower, upper = ({DELETED_PATH.id: path, DELETED_POSITION.id: _number(each)} for each in self._bounds)
            details |= {"referenced_data_file": self._paths[0], "lower_bounds": lower, "upper_bounds": upper}
        return WrittenFile(self.location, key, self._rows, size, details)

    def abandon(self) -> None:
        """Close the file unfinished, ignoring errors; the caller removes it."""
        with suppress(OSError):
            self._sink.close()


def _number(position: int) -> bytes:
    return encode_value(position, DELETED_POSITION.type)
