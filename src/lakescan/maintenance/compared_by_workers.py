"""Files to remove found by workers: they list folders or read manifests, and compare shares of all names.

No process holds all files: each worker has the files of one folder, or of one share of all names, at a time. Folders
are listed twice: for other tables inside them, then for candidates.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common.hashing import hashes
from lakescan.errors import UnsupportedFeature
from lakescan.executors import ExchangingExecutor
from lakescan.maintenance.listing import Listing
from lakescan.storage import FileEntry, Storage
from lakescan.storage.locations import below, is_in, normal
from lakescan.storage.removal import comparison_keys, file_numbers, unnamed
from lakescan.transaction.base import FileRules, FilesPart, Known, NamedPart, Target

_LOG = logging.getLogger("lakescan")
_FOLDERS, _DEPTH = 256, 4  # folders that workers list, at least if there are as many down to this depth
_SHARE, _MOST_SHARES = 200_000, 2000  # names of a share, about; shares at most
_CHUNK = 20_000  # files that a worker removes
_ROWS = pa.schema(
    [
        pa.field("location", pa.string()),
        pa.field("size", pa.int64()),  # bytes of a candidate, where they are known
        pa.field("kind", pa.string()),  # of a candidate: 'data', 'manifest', ...
        pa.field("named", pa.bool_()),  # whether metadata names it; otherwise it is a candidate
    ]
)


@dataclass(frozen=True)
class Folder:
    """A folder to list: all that is below it, or only the files directly in it."""

    location: str
    is_deep: bool


@dataclass(frozen=True)
class Compared:
    """What a share has: candidates that nothing names (`location`, `size`, `kind`); or why they cannot be told."""

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
        sizes = pa.array([each.size for each in found], pa.int64())
        return _rows(pa.array([each.location for each in found], pa.string()), sizes=sizes)


class Rows(Protocol):
    """What a worker reads, as rows (`_ROWS`): candidates for removal, or files that are named. Pickled for workers."""

    def rows(self) -> Iterator[pa.Table]:
        """The rows, in chunks."""


@dataclass(frozen=True)
class InFolder:
    """The candidates in a folder."""

    search: FolderSearch
    folder: Folder

    def rows(self) -> Iterator[pa.Table]:
        """All of them."""
        yield self.search.candidates(self.folder)


@dataclass(frozen=True)
class OfSnapshots:
    """The files of expired snapshots below the folders that are the table's own."""

    part: FilesPart
    owned: tuple[str, ...]

    def rows(self) -> Iterator[pa.Table]:
        """They have kinds, and no sizes."""
        for everything in self.part.files():
            files = everything.filter(below(everything["path"], self.owned))
            yield _rows(files["path"].combine_chunks(), kinds=files["kind"].combine_chunks())


@dataclass(frozen=True)
class NamedBy:
    """The files that a part of the metadata names."""

    part: NamedPart

    def rows(self) -> Iterator[pa.Table]:
        """All of them."""
        for chunk in self.part.locations():
            yield _rows(chunk.cast(pa.string()), named=True)


@dataclass(frozen=True)
class Comparison:
    """Divides candidates and named files into shares by name, and compares those of a share."""

    storage: Storage
    shares: int

    def split(self, item: Rows) -> Iterator[tuple[int, pa.Table]]:
        """The rows by share."""
        for rows in item.rows():
            if rows.num_rows:
                keys = comparison_keys(self.storage, rows["location"].combine_chunks())
                share = (hashes(keys) % np.uint64(self.shares)).astype(np.int64)
                for number in np.unique(share).tolist():
                    yield number, rows.filter(pa.array(share == number))

    def take(self, tables: Iterator[pa.Table]) -> Compared:
        """The candidates of a share that nothing names, each once."""
        candidates, named = list[pa.Table](), list[pa.Array]()
        for table in tables:
            candidates.append(table.filter(pc.invert(table["named"])))
            named.append(table.filter(table["named"])["location"].combine_chunks())
        mine = pa.concat_tables(candidates).group_by("location").aggregate([("size", "max"), ("kind", "min")])
        try:
            left = unnamed(self.storage, mine["location"].to_pylist(), named)
        except UnsupportedFeature as error:
            return Compared(mine.slice(0, 0), (error.feature, error.detail))
        kept = mine.filter(pc.is_in(mine["location"], value_set=pa.array(left, pa.string())))
        return Compared(kept.rename_columns(["location", "size", "kind"]))


def _rows(
    locations: pa.Array, *, named: bool = False, sizes: pa.Array | None = None, kinds: pa.Array | None = None
) -> pa.Table:
    count = len(locations)
    size = pa.nulls(count, pa.int64()) if sizes is None else sizes
    kind = pa.nulls(count, pa.string()) if kinds is None else kinds
    return pa.table([locations, size, kind, pa.repeat(named, count)], schema=_ROWS)


def find_orphans(
    target: Target, rules: FileRules, folders: Sequence[str], cutoff: datetime, executor: ExchangingExecutor
) -> pa.Table:
    """Orphan files from before `cutoff` in folders (`location`, `size`); workers list and compare.

    Raises `UnsupportedFeature` if it is unclear whether files belong to the table.
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
    outside = [each for each in folders if not is_in(normal(each), normal(rules.location))]
    elsewhere = [Known(each) for folder in outside for each in rules.named_by_others(folder)]
    candidates = [InFolder(search, each) for each in places]
    return unnamed_by_workers(target, candidates, cutoff, metadata, executor, elsewhere)


def unnamed_by_workers(
    target: Target,
    candidates: Sequence[Rows],
    since: datetime,
    metadata: Sequence[FileEntry],
    executor: ExchangingExecutor,
    elsewhere: Sequence[NamedPart] = (),
) -> pa.Table:
    """The candidates that the table does not reference (`location`, `size`, `kind`), each once.

    Nor do tables whose `metadata` files are in the same folder, nor what is named `elsewhere`. The table is read anew;
    commits that are made meanwhile are read at the end. Raises `UnsupportedFeature` as `removal.unnamed`.
    """
    storage, before = target.storage, target.reopened()
    parts: list[NamedPart] = [*before.parts_in_use(since, metadata), *elsewhere]
    count = min(_MOST_SHARES, max(8, _names(parts) // _SHARE, len(candidates) // 4))
    comparison = Comparison(storage, count)
    items: list[Rows] = [*candidates, *map(NamedBy, parts)]
    found = [pa.table({"location": pa.array([], pa.string()), "size": pa.array([], pa.int64())})]
    for result in executor.exchange(comparison.split, items, comparison.take, count):
        if result.unclear is not None:
            raise UnsupportedFeature(*result.unclear)
        found.append(result.orphans)
    whole = pa.concat_tables(found, promote_options="default").combine_chunks()
    left = _not_linked(storage, whole["location"].to_pylist(), parts, executor)
    left = unnamed(storage, left, _named_since(before, since, metadata))
    return whole.filter(pc.is_in(whole["location"], value_set=pa.array(left, pa.string()))).sort_by("location")


def _names(parts: Sequence[NamedPart]) -> int:
    """About how many names there are: what workers are to read counts as a share each."""
    return sum(len(each.chunk) if isinstance(each, Known) else _SHARE for each in parts)


def remove_by_workers(storage: Storage, files: pa.Table, executor: ExchangingExecutor) -> pa.Table:
    """Remove files by their `location`, chunk by chunk on workers; return those that were removed.

    If it is interrupted, running it again removes the others.
    """
    chunks = [files["location"].slice(at, _CHUNK).to_pylist() for at in range(0, files.num_rows, _CHUNK)]
    left = [each for some in executor.map(partial(_left, storage), chunks) for each in some]
    if not left:
        return files
    _LOG.warning("%d unreferenced files could not be removed, %s among them", len(left), min(left))
    return files.filter(pc.invert(pc.is_in(files["location"], value_set=pa.array(left, pa.string()))))


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


def _left(storage: Storage, locations: list[str]) -> list[str]:
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
