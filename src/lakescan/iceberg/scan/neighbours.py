"""Other Iceberg tables with metadata in the same folder (recreated there, or created at the same location).

Removing orphan files of one table must keep the files that the others reference.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Sequence

import pyarrow as pa

from lakescan.errors import LakescanError, UnsupportedFeature
from lakescan.iceberg.scan.named_files import named_files
from lakescan.iceberg.table import IcebergTable
from lakescan.storage import FileEntry, Storage
from lakescan.storage.locations import normalize

_HEAD = 1 << 14
_UUID = re.compile(rb'"table-uuid"\s*:\s*"([^"]+)"')


def named_by_neighbours(table: IcebergTable, metadata_files: Sequence[FileEntry]) -> Iterator[pa.Array]:
    """The files that the newest metadata of each other table in the same folder references.

    Raises `UnsupportedFeature` if such metadata cannot be read.
    """
    newest: dict[str, FileEntry] = {}
    for entry, uuid in _other_metadata(table, metadata_files):
        if uuid not in newest or _age(entry) > _age(newest[uuid]):
            newest[uuid] = entry
    for uuid, entry in newest.items():
        try:
            yield from named_files(IcebergTable.open(entry.location, table.storage))
        except LakescanError as error:
            raise UnsupportedFeature(
                f"removing files of {table.location}, which another table uses or used ({uuid})",
                f"The files of that table cannot be read from {entry.location}: {error}. If it was dropped, remove its "
                "metadata files first.",
            ) from error


def _other_metadata(table: IcebergTable, metadata_files: Sequence[FileEntry]) -> Iterator[tuple[FileEntry, str]]:
    metadata = table.metadata
    mine = pa.array([metadata.source, *(file for _, file in metadata.metadata_log)], pa.string())
    own = set(normalize(mine).to_pylist())
    places = normalize(pa.array([each.location for each in metadata_files], pa.string())).to_pylist()
    for entry, place in zip(metadata_files, places, strict=True):
        if place not in own:
            uuid = _uuid_of(entry, table.storage)
            if uuid is not None and uuid != metadata.uuid:
                yield entry, uuid


def _uuid_of(entry: FileEntry, storage: Storage) -> str | None:
    """The `table-uuid` in the first bytes of a metadata file; None if it is not there."""
    head = storage.read(entry.location, 0, min(_HEAD, entry.size))
    if head[:2] == b"\x1f\x8b":
        head = zlib.decompressobj(31).decompress(head, 1 << 20)
    match = _UUID.search(head)
    return None if match is None else match[1].decode()


def _age(entry: FileEntry) -> tuple[float, str]:
    return (0.0 if entry.modified is None else entry.modified.timestamp()), entry.name
