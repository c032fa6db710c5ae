"""Other Iceberg tables with metadata in the same folder (recreated there, or created at the same location).

Removing orphan files of one table must keep the files that the others reference.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Sequence

import pyarrow as pa

from lakescan.errors import LakescanError, MissingFile, UnsupportedFeature
from lakescan.iceberg.scan.named_files import named_files
from lakescan.iceberg.table import IcebergTable
from lakescan.storage import FileEntry, Storage
from lakescan.storage.locations import normalize

_HEAD = 1 << 14
_LISTINGS = 20  # of a folder from which commits remove files meanwhile
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
    """The metadata files of other tables, and their tables' ids.

    Commits remove old metadata files (`write.metadata.delete-after-commit.enabled`). One that is gone may be another
    table's last one of those listed, so its folder is listed again, until no file is gone. Raises `MissingFile` if
    that does not end.
    """
    metadata = table.metadata
    mine = pa.array([metadata.source, *(file for _, file in metadata.metadata_log)], pa.string())
    seen, files = set(normalize(mine).to_pylist()), metadata_files
    folders = sorted({each.location.rpartition("/")[0] for each in metadata_files})
    for number in range(1, _LISTINGS + 1):
        is_whole = True
        for entry in _unseen(files, seen):
            try:
                uuid = _uuid_of(entry, table.storage)
            except MissingFile:
                if number == _LISTINGS:
                    raise
                is_whole = False
                continue
            if uuid is not None and uuid != metadata.uuid:
                yield entry, uuid
        if is_whole:
            return
        files = [each for folder in folders for each in table.storage.list(folder, _is_metadata)]


def _unseen(files: Sequence[FileEntry], seen: set[str]) -> Iterator[FileEntry]:
    """The files whose places are not yet `seen`; they are then."""
    places = normalize(pa.array([each.location for each in files], pa.string())).to_pylist()
    for entry, place in zip(files, places, strict=True):
        if place not in seen:
            seen.add(place)
            yield entry


def _is_metadata(name: str) -> bool:
    return name.endswith((".metadata.json", ".metadata.json.gz"))


def _uuid_of(entry: FileEntry, storage: Storage) -> str | None:
    """The `table-uuid` in the first bytes of a metadata file; None if it is not there."""
    head = storage.read(entry.location, 0, min(_HEAD, entry.size))
    if head[:2] == b"\x1f\x8b":
        head = zlib.decompressobj(31).decompress(head, 1 << 20)
    match = _UUID.search(head)
    return None if match is None else match[1].decode()


def _age(entry: FileEntry) -> tuple[float, str]:
    return (0.0 if entry.modified is None else entry.modified.timestamp()), entry.name
