"""Find other Iceberg tables with metadata in the same folder: recreated, created at the same location, or copies.

A copy has the same UUID: a copied folder that was registered, or a table that is registered in two catalogs. Its
metadata files are not in the table's own metadata log. Removing files of one table must keep the files that the others
reference.
"""

from __future__ import annotations

import logging
import re
import warnings
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta

import pyarrow as pa

from lakescan.errors import LakescanError, LocationRefused, MissingFile, StorageError, UnsupportedFeature
from lakescan.iceberg.commit.reachable_files import reachable_files
from lakescan.iceberg.table import IcebergTable
from lakescan.storage import FileEntry, Storage
from lakescan.storage.locations import normalize

_LOG = logging.getLogger("lakescan")
OF_TRANSACTION = "collected-"  # name prefix of the metadata files of multi-table transactions
_HEAD = 1 << 14
_LISTINGS = 20  # attempts to list a folder while concurrent commits remove files
_DAY = timedelta(days=1)  # a running commit has metadata that is in no metadata log for less than this
_UUID = re.compile(rb'"table-uuid"\s*:\s*"([^"]+)"')


def neighbour_files(table: IcebergTable, metadata_files: Sequence[FileEntry]) -> Iterator[pa.Array]:
    """Yield the files that the newest metadata of each other table in the folder, and of each copy, references.

    See `copy_files`. Raises `UnsupportedFeature` if such metadata cannot be read.
    """
    return _other_files(table, metadata_files, only_copies=False)


def copy_files(table: IcebergTable, metadata_files: Sequence[FileEntry]) -> Iterator[pa.Array]:
    """Yield the files that copies of the table reference, by the metadata files in its folder.

    A metadata file belongs to a copy if it has the table's UUID, but is neither in its metadata log nor in that of an
    earlier version. If the manifest list of its new snapshot is missing, it is left over from a failed commit, and is
    skipped. Metadata of an open multi-table transaction is in no catalog, and does not count as a copy. Raises
    `UnsupportedFeature` if metadata of a copy cannot be read.
    """
    return _other_files(table, metadata_files, only_copies=True)


def _other_files(table: IcebergTable, metadata_files: Sequence[FileEntry], *, only_copies: bool) -> Iterator[pa.Array]:
    """Yield the files that other tables and copies reference, or only copies, listing again until no file is missing.

    Other clients remove metadata files (`write.metadata.delete-after-commit.enabled`, a failed commit), and manifests
    of snapshots that expire. A missing file may be superseded by a file that did not exist yet when the folder was
    listed, so the folder is listed again. If a file is missing again for metadata that is still listed, it is really
    missing. Raises `MissingFile` if new files are still missing after the last listing.
    """
    others = _OtherMetadata(table, only_copies=only_copies)
    folders = sorted({each.location.rpartition("/")[0] for each in metadata_files})
    files = metadata_files
    for number in range(1, _LISTINGS + 1):
        yield from others.read_files(files)
        if others.gone is None:
            return
        if number == _LISTINGS:
            raise others.gone
        files = [each for folder in folders for each in table.storage.list(folder, _is_metadata)]


class _OtherMetadata:
    """Reads the metadata of other tables in a folder, and of copies, in as many listings as are needed.

    `gone` is the error of a file that was missing in the last listing; None if everything was read.
    """

    def __init__(self, table: IcebergTable, *, only_copies: bool) -> None:
        metadata = table.metadata
        self.gone: MissingFile | None = None
        self._table = table
        self._only_copies = only_copies
        self._own = set(_places([metadata.source, *(file for _, file in metadata.metadata_log)]))
        self._uuids: dict[str, str | None] = {}  # by the normalized location of the metadata file
        self._copies: dict[str, IcebergTable | None] = {}  # by location; None for an earlier version of the table
        self._named = set[str]()  # locations of metadata whose files were all returned
        self._suspects = set[str]()  # locations of metadata with a missing file

    def read_files(self, files: Sequence[FileEntry]) -> Iterator[pa.Array]:
        """Yield the locations of files that the metadata among the listed `files` references.

        Metadata whose files were all yielded before is skipped. Sets `gone` if a file is missing.
        """
        self.gone = None
        newest: dict[str, tuple[str, FileEntry]] = {}
        copies: dict[str, FileEntry] = {}
        for place, entry, uuid in self._other_metadata(files):
            if uuid == self._table.metadata.uuid:
                copies[place] = entry
            elif uuid not in newest or _age(entry) > _age(newest[uuid][1]):
                newest[uuid] = place, entry
        if not self._only_copies:
            for uuid, (place, entry) in newest.items():
                yield from self._table_files(place, entry, uuid)
        for place, entry in self._newest_copies(copies).items():
            if entry.modified is not None and datetime.now(UTC) - entry.modified > _DAY and place not in self._named:
                _LOG.warning(
                    "%s: %s is metadata of a copy of this table, or of this table in another catalog, so the files "
                    "that it references are kept. If neither exists any more, remove the metadata file.",
                    self._table.location,
                    entry.location,
                )
            yield from self._table_files(place, entry, f"a copy, {self._table.metadata.uuid}")

    def _other_metadata(self, files: Sequence[FileEntry]) -> Iterator[tuple[str, FileEntry, str]]:
        """Yield the metadata files that are not in the table's own log: normalized location, file and table UUID.

        Those of multi-table transactions are left out, because no catalog has them.
        """
        for place, entry in zip(_places([each.location for each in files]), files, strict=True):
            if place in self._own or entry.location.rpartition("/")[2].startswith(OF_TRANSACTION):
                continue
            if place not in self._uuids:
                try:
                    self._uuids[place] = _uuid_of(entry, self._table.storage)
                except MissingFile as error:
                    self.gone = error
                    continue
            if (uuid := self._uuids[place]) is not None:
                yield place, entry, uuid

    def _newest_copies(self, entries: Mapping[str, FileEntry]) -> dict[str, FileEntry]:
        """Return the newest metadata of each copy, by normalized location, among files with the table's own UUID.

        Leftovers of failed commits are left out. Sets `gone` if a file is missing.
        """
        new = {place: each for place, each in entries.items() if place not in self._copies}
        left = set(_places(_not_earlier(self._table, [each.location for each in new.values()])))
        for place, entry in new.items():
            if place not in left:
                self._copies[place] = None
                continue
            try:
                self._copies[place] = _open_copy(self._table, entry.location)
            except MissingFile as error:
                self.gone = error
        opened = {place: copy for place in entries if (copy := self._copies.get(place)) is not None}
        logged = set(_places([file for copy in opened.values() for _, file in copy.metadata.metadata_log]))
        tips = {place: copy for place, copy in opened.items() if place not in logged}
        return {place: entries[place] for place, copy in tips.items() if not self._is_left_over(place, copy)}

    def _is_left_over(self, place: str, copy: IcebergTable) -> bool:
        """Return whether metadata is that of a failed commit, whose manifest list was removed.

        The manifest list may also be missing because its snapshot has expired in newer metadata. That is seen when the
        folder is listed again.
        """
        head = copy.metadata.snapshots.get(copy.metadata.current_snapshot_id or -1)
        if head is None or head.id in self._table.metadata.snapshots or head.manifest_list is None:
            return False
        if place in self._named or self._table.storage.look_up([head.manifest_list])[0] is not None:
            return False
        if place not in self._suspects:
            self._is_gone(place, MissingFile(f"{head.manifest_list}, which {copy.metadata.source} lists, is missing"))
        return True

    def _table_files(self, place: str, entry: FileEntry, who: str) -> Iterator[pa.Array]:
        if place in self._named:
            return
        try:
            yield from reachable_files(IcebergTable.open(entry.location, self._table.storage))
        except LakescanError as error:
            if _is_storage_fault(error):
                raise
            if isinstance(error, MissingFile) and place not in self._suspects:
                self._is_gone(place, error)
                return
            raise UnsupportedFeature(
                f"removing files of {self._table.location}, which another table uses or used ({who})",
                f"The files of that table cannot be read from {entry.location}: {error}. If it was dropped, remove its "
                "metadata files first.",
            ) from error
        self._named.add(place)

    def _is_gone(self, place: str, error: MissingFile) -> None:
        self._suspects.add(place)
        self.gone = error


def warn_of_copy(table: IcebergTable, doing: str) -> None:
    """Warn if the table's metadata is outside of its location, and its location has metadata of another copy.

    New files of both copies go to the same location. The storage is searched only for such a table.
    """
    metadata = table.metadata
    if metadata.source.rpartition("/")[0] in (
        folder := metadata.metadata_folder,
        table.storage.current_location(folder),
    ):
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


def _open_copy(table: IcebergTable, location: str) -> IcebergTable:
    """Open a metadata file that may belong to a copy; raises `MissingFile` if the file is gone."""
    try:
        return IcebergTable.open(location, table.storage)
    except LakescanError as error:
        if _is_storage_fault(error) or isinstance(error, MissingFile):
            raise
        raise UnsupportedFeature(
            f"removing files of {table.location}, which {location} may be a copy of",
            f"That metadata file cannot be read: {error}. If no catalog has it, remove it first.",
        ) from error


def _not_earlier(table: IcebergTable, locations: Sequence[str]) -> list[str]:
    """Return the metadata files among `locations` that no metadata log of an earlier version of the table contains.

    Each log contains many files, so only a few logs are read.
    """
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
                    continue  # the file was removed; a later file has nearly the same log
                earlier = [each for _, each in state.metadata_log]
        for place in _places(earlier or []):
            left.pop(place, None)
        log = earlier or []
    return list(left.values())


def _places(locations: Collection[str]) -> list[str]:
    found: list[str] = normalize(pa.array(list(locations), pa.string())).to_pylist()
    return found


def _is_metadata(name: str) -> bool:
    return name.endswith((".metadata.json", ".metadata.json.gz"))


def _uuid_of(entry: FileEntry, storage: Storage) -> str | None:
    """Return the `table-uuid` in the first bytes of a metadata file; None if it is not there."""
    head = storage.read(entry.location, 0, min(_HEAD, entry.size))
    if head[:2] == b"\x1f\x8b":
        head = zlib.decompressobj(31).decompress(head, 1 << 20)
    match = _UUID.search(head)
    return None if match is None else match[1].decode()


def _age(entry: FileEntry) -> tuple[float, str]:
    return (0.0 if entry.modified is None else entry.modified.timestamp()), entry.name


def _is_storage_fault(error: LakescanError) -> bool:
    """Return whether the storage failed, so that the error does not show a problem of the table's metadata."""
    return isinstance(error, StorageError) and not isinstance(error, MissingFile | LocationRefused)
