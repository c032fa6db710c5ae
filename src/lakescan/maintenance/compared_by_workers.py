"""Orphan files found by workers: they list folders, and compare shares of the files with what metadata names.

No process holds all files: each worker has the files of one folder, or of one share of all names, at a time. Folders
are listed twice: for other tables inside them, then for candidates.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common.hashing import hashes
from lakescan.errors import UnsupportedFeature
from lakescan.executors import ExchangingExecutor
from lakescan.maintenance.listing import Listing
from lakescan.storage import FileEntry, Storage
from lakescan.storage.locations import is_in, normal
from lakescan.storage.removal import comparison_keys, file_numbers, unnamed
from lakescan.transaction.base import FileRules, Known, NamedPart, Target

_FOLDERS, _DEPTH = 256, 4  # folders that workers list, at least if there are as many down to this depth
_SHARE, _MOST_SHARES = 200_000, 2000  # names of a share, about; shares at most
_CHUNK = 20_000  # files that a worker removes
_ROWS = pa.schema([pa.field("location", pa.string()), pa.field("size", pa.int64()), pa.field("named", pa.bool_())])


@dataclass(frozen=True)
class Folder:
    """A folder to list: all that is below it, or only the files directly in it."""

    location: str
    is_deep: bool


@dataclass(frozen=True)
class Compared:
    """What a share has: orphan candidates that nothing names; or why they cannot be told."""

    orphans: pa.Table
    unclear: tuple[str, str] | None = None


@dataclass(frozen=True)
class FolderSearch:
    """Lists a folder for candidates from before `cutoff`, outside of `others` (tables) and of `shared` metadata."""

    storage: Storage
    rules: FileRules
    cutoff: datetime
    others: frozenset[str] = frozenset()
    shared: str | None = None

    def listing(self, folder: Folder) -> Listing:
        """The files of a folder."""
        entries = self.storage.walk(folder.location) if folder.is_deep else self.storage.entries(folder.location)[0]
        location = normal(self.storage.relocated(self.rules.location))
        return Listing(location, list(entries), self.rules.partition_names, self.rules.shown, self.others)

    def tables(self, folder: Folder) -> tuple[list[str], list[FileEntry]]:
        """The locations of other tables in a folder, and the metadata files in the table's own metadata folder."""
        found = self.listing(folder)
        return found.other_tables(), found.metadata_files()

    def candidates(self, folder: Folder) -> pa.Table:
        """The candidates of a folder (`_ROWS`)."""
        found = [
            each
            for each in self.listing(folder).candidates()
            if each.modified is not None
            and each.modified < self.cutoff
            and not (self.shared is not None and is_in(normal(each.location), self.shared))
        ]
        columns = [pa.array([e.location for e in found], pa.string()), pa.array([e.size for e in found], pa.int64())]
        return pa.table([*columns, pa.repeat(False, len(found))], schema=_ROWS)


@dataclass(frozen=True)
class Comparison:
    """Divides candidates and named files into shares by name, and compares those of a share."""

    search: FolderSearch
    shares: int

    def split(self, item: Folder | NamedPart) -> Iterator[tuple[int, pa.Table]]:
        """The candidates of a folder, or the files of a part of the metadata, by share."""
        if isinstance(item, Folder):
            yield from self._shared_out(self.search.candidates(item))
            return
        for chunk in item.locations():
            names = chunk.cast(pa.string())
            columns = [names, pa.nulls(len(names), pa.int64()), pa.repeat(True, len(names))]
            yield from self._shared_out(pa.table(columns, schema=_ROWS))

    def _shared_out(self, rows: pa.Table) -> Iterator[tuple[int, pa.Table]]:
        if not rows.num_rows:
            return
        keys = comparison_keys(self.search.storage, rows["location"].combine_chunks())
        share = (hashes(keys) % np.uint64(self.shares)).astype(np.int64)
        for number in np.unique(share).tolist():
            yield number, rows.filter(pa.array(share == number))

    def take(self, tables: Iterator[pa.Table]) -> Compared:
        """The candidates of a share that nothing names."""
        candidates, named = list[pa.Table](), list[pa.Array]()
        for table in tables:
            candidates.append(table.filter(pc.invert(table["named"])))
            named.append(table.filter(table["named"])["location"].combine_chunks())
        mine = pa.concat_tables(candidates).combine_chunks()
        try:
            left = unnamed(self.search.storage, mine["location"].to_pylist(), named)
        except UnsupportedFeature as error:
            return Compared(_ROWS.empty_table(), (error.feature, error.detail))
        return Compared(mine.filter(pc.is_in(mine["location"], value_set=pa.array(left, pa.string()))))


def find_orphans(
    target: Target, rules: FileRules, folders: Sequence[str], cutoff: datetime, executor: ExchangingExecutor
) -> dict[str, int]:
    """The sizes of orphan files from before `cutoff` in folders, by location; workers list and compare.

    Commits that are made meanwhile are read at the end: files that they name are no orphans. Raises
    `UnsupportedFeature` if it is unclear whether files belong to the table.
    """
    storage = target.storage
    search = FolderSearch(storage, replace(rules, named_by_others=_nothing), cutoff)
    places = folders_to_list(storage, folders)
    tables, metadata = set[str](), list[FileEntry]()
    for others, own in executor.map(search.tables, places):
        tables.update(others)
        metadata += own
    shared = None
    if rules.shared_metadata is not None and (rules.is_shared or metadata):
        shared = normal(storage.relocated(rules.shared_metadata))
    search = replace(search, others=frozenset(tables), shared=shared)
    before = target.reopened()
    parts: list[NamedPart] = list(before.parts_in_use(cutoff, metadata))
    outside = [each for each in folders if not is_in(normal(each), normal(rules.location))]
    from_elsewhere = [each for folder in outside for each in rules.named_by_others(folder)]
    parts += map(Known, from_elsewhere)
    count = min(_MOST_SHARES, max(8, _names(parts) // _SHARE, len(places) // 4))
    found = dict[str, int]()
    comparison = Comparison(search, count)
    items: list[Folder | NamedPart] = [*places, *parts]
    for result in executor.exchange(comparison.split, items, comparison.take, count):
        if result.unclear is not None:
            raise UnsupportedFeature(*result.unclear)
        found |= zip(result.orphans["location"].to_pylist(), result.orphans["size"].to_pylist(), strict=True)
    left = _not_linked(storage, list(found), parts, executor)
    return {each: found[each] for each in unnamed(storage, left, _named_since(before, cutoff, metadata))}


def _names(parts: Sequence[NamedPart]) -> int:
    """About how many names there are: what workers are to read counts as a share each."""
    return sum(len(each.chunk) if isinstance(each, Known) else _SHARE for each in parts)


def remove_by_workers(storage: Storage, locations: Sequence[str], executor: ExchangingExecutor) -> list[str]:
    """Remove files, chunk by chunk on workers; return those that could not be removed."""
    chunks = [list(locations[at : at + _CHUNK]) for at in range(0, len(locations), _CHUNK)]
    return [each for left in executor.map(partial(_removed, storage), chunks) for each in left]


def folders_to_list(storage: Storage, folders: Sequence[str]) -> list[Folder]:
    """The folders divided for workers: by the folders inside them, level by level, until there are enough."""
    places = {normal(storage.relocated(each)): each for each in folders}
    outer = [each for place, each in places.items() if not any(is_in(place, other) for other in places)]
    flat, deep = list[Folder](), outer
    for _ in range(_DEPTH):
        if len(deep) >= _FOLDERS or not deep:
            break
        flat += [Folder(each, False) for each in deep]
        deep = [inner for each in deep for inner in storage.entries(each)[1]]
    return [*flat, *(Folder(each, True) for each in deep)]


def _removed(storage: Storage, locations: list[str]) -> list[str]:
    return list(storage.remove(locations))


def _nothing(folder: str) -> Iterator[pa.Array]:
    return iter(())


def _named_since(before: Target, cutoff: datetime, metadata: Sequence[FileEntry]) -> Iterator[pa.Array]:
    """What commits since `before` name: files that they added, and what the metadata file itself names now."""
    yield from before.files_added_since(before.base_state)
    yield from next(iter(before.reopened().parts_in_use(cutoff, metadata))).locations()


def _not_linked(
    storage: Storage, locations: list[str], parts: Sequence[NamedPart], executor: ExchangingExecutor
) -> list[str]:
    """The local files that are not also reached through a named location: by a link, a mount, or case folding."""
    numbers = file_numbers(storage, locations, follow=False)
    wanted = frozenset(each for each in numbers if each is not None)
    if not wanted:
        return locations
    hits = {each for some in executor.map(partial(_numbers_among, storage, wanted), parts) for each in some}
    return [each for each, number in zip(locations, numbers, strict=True) if number is None or number not in hits]


def _numbers_among(storage: Storage, wanted: frozenset[tuple[int, int]], part: NamedPart) -> set[tuple[int, int]]:
    found = (file_numbers(storage, chunk.to_pylist(), follow=True) for chunk in part.locations())
    return {each for some in found for each in some if each is not None and each in wanted}
