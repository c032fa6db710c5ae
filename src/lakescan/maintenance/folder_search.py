"""Search folders for orphan candidates on workers, divided by subfolders or by key ranges."""

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

_FOLDERS, _DEPTH = 256, 4  # minimum number of folders to list, if there are as many down to this depth
_TASKS = 256  # maximum number of folder groups, one per worker task


@dataclass(frozen=True)
class Folder:
    """A folder to list: everything below it if `is_deep`, else only the files directly in it.

    `keys` limits this to a range of keys (S3 object names); None for no limit.
    """

    location: str
    is_deep: bool
    keys: Range | None = None


@dataclass(frozen=True)
class FolderContents:
    """The result of a first listing of some folders.

    - `folders`: these folders.
    - `tables`: the locations of other tables; `metadata`: the metadata files in the table's own metadata folder.
    - `count`: the number of files that were listed.
    - `files`: the path of a local file with the listing; None if workers share no folder.
    """

    folders: tuple[Folder, ...]
    tables: frozenset[str]
    metadata: tuple[FileEntry, ...]
    count: int
    files: str | None = None


@dataclass(frozen=True)
class FolderSearch:
    """Lists folders for candidates, which are possible orphan files.

    - `cutoff`: candidates were last modified before it.
    - `roots`: the folders that are searched, normalized.
    - `others`: the locations of other tables; their files are not candidates.
    - `shared`: a folder of another format's metadata; its files are not candidates. None without one.
    - `kept_in`: a local folder for the first listing, so that nothing is listed twice; None if workers share no folder.
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
        """List folders once, for other tables, the table's own metadata files, and the number of files."""
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
        """Yield the candidates (`LISTED`) in the folders of a first listing, in chunks."""
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
    """Return the folders to list, divided for workers.

    In S3 they are divided by key ranges, elsewhere by their subfolders, level by level, until there are enough. A
    folder whose subfolders cannot be listed is not divided.
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
    """Return the folders in groups, one per worker task.

    Neighbours, which often have similar sizes, are in different groups.
    """
    count = min(_TASKS, len(folders))
    return [tuple(folders[at::count]) for at in range(count)]


def outermost_folders(storage: Storage, folders: Sequence[str]) -> list[str]:
    """Return the folders without those inside another one."""
    places = {normal(storage.current_location(each)): each for each in folders}
    return [each for place, each in places.items() if not any(is_in(place, other) for other in places)]
