"""Other Iceberg tables with metadata in the same folder: recreated there, created at the same location, or copies.

A copy has the same UUID: a copied folder that was registered, or a table that two catalogs have. Its metadata files are
not in the table's own metadata log. Removing files of one table must keep the files that the others reference.
"""

from __future__ import annotations

import logging
import re
import warnings
import zlib
from collections.abc import Collection, Iterator, Sequence

import pyarrow as pa

from lakescan.errors import LakescanError, LocationRefused, MissingFile, StorageError, UnsupportedFeature
from lakescan.iceberg.scan.named_files import named_files
from lakescan.iceberg.table import IcebergTable
from lakescan.storage import FileEntry, Storage
from lakescan.storage.locations import normalize

_LOG = logging.getLogger("lakescan")
OF_TRANSACTION = "collected-"  # begins the names of metadata files of transactions that are open, or were
_HEAD = 1 << 14
_LISTINGS = 20  # of a folder from which commits remove files meanwhile
_UUID = re.compile(rb'"table-uuid"\s*:\s*"([^"]+)"')


def named_by_neighbours(table: IcebergTable, metadata_files: Sequence[FileEntry]) -> Iterator[pa.Array]:
    """The files that the newest metadata of each other table in the same folder references, and that of each copy.

    Raises `UnsupportedFeature` if such metadata cannot be read.
    """
    newest: dict[str, FileEntry] = {}
    copies: list[FileEntry] = []
    for entry, uuid in _other_metadata(table, metadata_files):
        if uuid == table.metadata.uuid:
            copies.append(entry)
        elif uuid not in newest or _age(entry) > _age(newest[uuid]):
            newest[uuid] = entry
    for uuid, entry in newest.items():
        yield from _named_by(table, entry.location, uuid)
    yield from named_by_copies(table, copies)


def named_by_copies(table: IcebergTable, metadata_files: Sequence[FileEntry]) -> Iterator[pa.Array]:
    """The files that copies of the table reference, by the metadata files in its folder.

    A metadata file belongs to a copy if it has the table's UUID, and is neither in its metadata log, nor in that of an
    earlier state. It is left over from a failed commit, and is skipped, if the manifest list of its new snapshot is
    missing. The state of an open transaction of several tables is in no catalog, and no copy either. Raises
    `UnsupportedFeature` if metadata of a copy cannot be read.
    """
    uuid = table.metadata.uuid
    entries = [
        each
        for each, other in _other_metadata(table, metadata_files)
        if other == uuid and not each.location.rpartition("/")[2].startswith(OF_TRANSACTION)
    ]
    opened = [_opened(table, each) for each in _not_earlier(table, [each.location for each in entries])]
    logged = {file for each in opened for file in _places([name for _, name in each.metadata.metadata_log])}
    for copy in opened:
        if _places([copy.metadata.source])[0] not in logged and not _is_left_over(copy, table):
            _LOG.warning(
                "%s: %s is the metadata of a copy of this table, or of another catalog's: the files that it references "
                "are kept. If neither exists any more, remove it.",
                table.location,
                copy.metadata.source,
            )
            yield from _named_by(table, copy.metadata.source, f"a copy, {uuid}")


def warn_of_copy(table: IcebergTable, doing: str) -> None:
    """Warn if the table's metadata is in another folder than its location, which has metadata of another copy.

    New files go to the location, which both copies then have. Only such a table is looked for in storage.
    """
    metadata = table.metadata
    if metadata.source.rpartition("/")[0] in (folder := metadata.metadata_folder, table.storage.relocated(folder)):
        return
    if _places([metadata.source.rpartition("/")[0]]) == _places([folder]):
        return
    mine = set(_places([metadata.source, *(file for _, file in metadata.metadata_log)]))
    there = [each.location for each in table.storage.list(folder, _is_metadata)]
    if others := [file for file, place in zip(there, _places(there), strict=True) if place not in mine]:
        warnings.warn(
            f"{doing} {metadata.source}: this is a copy of the table at {metadata.location}, which has other metadata, "
            f"{others[-1]} among them. New files of both go to {metadata.location}. Set 'gc.enabled'='false' on the "
            "copy, so that no maintenance removes files of the other, or copy the table with rewrite_table_path.",
            stacklevel=3,
        )


def _named_by(table: IcebergTable, location: str, who: str | None) -> Iterator[pa.Array]:
    try:
        yield from named_files(IcebergTable.open(location, table.storage))
    except LakescanError as error:
        if _is_storage_fault(error):
            raise
        raise UnsupportedFeature(
            f"removing files of {table.location}, which another table uses or used ({who})",
            f"The files of that table cannot be read from {location}: {error}. If it was dropped, remove its "
            "metadata files first.",
        ) from error


def _opened(table: IcebergTable, location: str) -> IcebergTable:
    try:
        return IcebergTable.open(location, table.storage)
    except LakescanError as error:
        if _is_storage_fault(error):
            raise
        raise UnsupportedFeature(
            f"removing files of {table.location}, of which {location} may be a copy",
            f"That metadata file cannot be read: {error}. If no catalog has it, remove it first.",
        ) from error


def _not_earlier(table: IcebergTable, locations: Sequence[str]) -> list[str]:
    """The metadata files that are in no metadata log of an earlier state of the table; each log has many of them."""
    left = dict(zip(_places(locations), locations, strict=True))
    log, seen = [file for _, file in table.metadata.metadata_log], set[str]()
    while left and log:
        earlier: list[str] | None = None
        for file in log:
            if file not in seen and earlier is None:
                seen.add(file)
                try:
                    state = IcebergTable.open(file, table.storage).metadata
                except LakescanError:
                    continue  # it was removed; a later file has nearly the same log
                earlier = [each for _, each in state.metadata_log]
        for place in _places(earlier or []):
            left.pop(place, None)
        log = earlier or []
    return list(left.values())


def _is_left_over(copy: IcebergTable, table: IcebergTable) -> bool:
    """Whether metadata is that of a commit that failed, whose manifests were removed."""
    head = copy.metadata.snapshots.get(copy.metadata.current_snapshot_id or -1)
    if head is None or head.id in table.metadata.snapshots or head.manifest_list is None:
        return False
    return table.storage.look_up([head.manifest_list])[0] is None


def _places(locations: Collection[str]) -> list[str]:
    found: list[str] = normalize(pa.array(list(locations), pa.string())).to_pylist()
    return found


def _other_metadata(table: IcebergTable, metadata_files: Sequence[FileEntry]) -> Iterator[tuple[FileEntry, str]]:
    """The metadata files that are not in the table's own log, and their tables' ids.

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
            if uuid is not None:
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


def _is_storage_fault(error: LakescanError) -> bool:
    """Whether the store failed, which says nothing about the table."""
    return isinstance(error, StorageError) and not isinstance(error, MissingFile | LocationRefused)
