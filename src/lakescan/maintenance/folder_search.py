"""Candidates for removal in folders, which are divided for workers: by the folders inside, or by ranges of keys."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from pathlib import Path
from uuid import uuid4

import pyarrow as pa

from lakescan.maintenance.listing import Listing
from lakescan.storage import FileEntry, Storage
from lakescan.storage.listing import LISTED, Range, list_files, ranges_of
from lakescan.storage.locations import is_in, normal
from lakescan.tables.base import FileRules

_FOLDERS, _DEPTH = 256, 4  # folders that workers list, at least if there are as many down to this depth
_TASKS = 256  # groups of folders at most, each of which one worker lists


@dataclass(frozen=True)
class Folder:
    """A folder to list: all that is below it, only the files directly in it, or a range of keys of it."""

    location: str
    is_deep: bool
    keys: Range | None = None


@dataclass(frozen=True)
class FolderContents:
    """What a first look at some folders has found.

    - `tables`: the locations of other tables; `metadata`: the metadata files in the table's own metadata folder.
    - `count`: how many files were listed.
    - `files`: a local file with what was listed; None where workers cannot hand it on.
    """

    folders: tuple[Folder, ...]
    tables: frozenset[str]
    metadata: tuple[FileEntry, ...]
    count: int
    files: str | None = None


@dataclass(frozen=True)
class FolderSearch:
    """Lists folders for candidates from before `cutoff`, outside of `others` (tables) and of `shared` metadata.

    `roots` are the folders that are searched, normalized.
    `kept_in` is a local folder for what the first look lists, so that nothing is listed twice; None if there is none
    that all workers see.
    """

    storage: Storage
    rules: FileRules
    cutoff: datetime
    roots: tuple[str, ...] = ()
    others: frozenset[str] = frozenset()
    shared: str | None = None
    kept_in: str | None = None

    @property
    def _listing(self) -> Listing:
        location = normal(self.storage.current_location(self.rules.location))
        return Listing(location, self.rules.partition_names, self.rules.shown, self.roots)

    def list_folders(self, folders: tuple[Folder, ...]) -> FolderContents:
        """List folders for other tables, and the table's own metadata files."""
        listing, tables, metadata = self._listing, set[str](), list[FileEntry]()
        path = None if self.kept_in is None else str(Path(self.kept_in, f"{uuid4()}.arrow"))
        count, writer = 0, None if path is None else pa.ipc.new_file(path, LISTED)
        try:
            for part in self._files(folders):
                count += part.num_rows
                tables |= listing.other_tables(part)
                metadata += listing.metadata_files(part)
                if writer is not None:
                    writer.write_table(part.cast(LISTED))
        finally:
            if writer is not None:
                writer.close()
        return FolderContents(folders, frozenset(tables), tuple(metadata), count, path)

    def candidates(self, found: FolderContents) -> Iterator[pa.Table]:
        """The candidates of these folders (`LISTED`), in parts."""
        listing = self._listing
        parts = self._files(found.folders) if found.files is None else _read_listing(found.files)
        for part in parts:
            yield listing.candidates(part, self.cutoff, self.others, self.shared)

    def _files(self, folders: Sequence[Folder]) -> Iterator[pa.Table]:
        return chain.from_iterable(
            list_files(self.storage, each.location, deep=each.is_deep, keys=each.keys) for each in folders
        )


def _read_listing(path: str) -> Iterator[pa.Table]:
    with pa.OSFile(path) as source:
        reader = pa.ipc.open_file(source)
        for number in range(reader.num_record_batches):
            yield pa.Table.from_batches([reader.get_batch(number)])


def folders_to_list(storage: Storage, folders: Sequence[str]) -> list[Folder]:
    """The folders divided for workers.

    In S3 by ranges of keys; elsewhere by the folders inside them, level by level, until there are enough. Each is
    whole where folders inside are not listed.
    """
    flat, deep = list[Folder](), list[str]()
    for each in outermost_folders(storage, folders):
        ranges = ranges_of(storage, each)
        if ranges is None and not storage.lists_folders(each):
            flat.append(Folder(each, True))
        elif ranges is None:
            deep.append(each)
        else:
            flat += [Folder(each, True, keys) for keys in ranges]
    for _ in range(_DEPTH):
        if len(deep) >= _FOLDERS or not deep:
            break
        flat += [Folder(each, False) for each in deep]
        deep = [inner for each in deep for inner in storage.folders(each)]
    return [*flat, *(Folder(each, True) for each in deep)]


def folder_tasks(folders: Sequence[Folder]) -> list[tuple[Folder, ...]]:
    """The folders in groups that workers list; neighbours, which are often alike in size, in different ones."""
    count = min(_TASKS, len(folders))
    return [tuple(folders[at::count]) for at in range(count)]


def outermost_folders(storage: Storage, folders: Sequence[str]) -> list[str]:
    """The folders without those inside another one."""
    places = {normal(storage.current_location(each)): each for each in folders}
    return [each for place, each in places.items() if not any(is_in(place, other) for other in places)]
