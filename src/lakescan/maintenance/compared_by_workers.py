"""Files to remove found by workers: they list folders or read manifests, and compare shares of all names.

No process holds all files: each worker has a part of the files, or one share of all names, at a time. Where workers
have no folder in common, folders are listed twice: for other tables inside them, then for candidates.
"""

from __future__ import annotations

import logging
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Protocol, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common.executors import LOCAL, ExchangingExecutor, PlanningExecutor
from lakescan.common.hashing import hashes
from lakescan.errors import UnsupportedFeature
from lakescan.maintenance.folder_search import FolderSearch, Found, folders_to_list, tasks_of
from lakescan.maintenance.linked_files import chunks_of, not_linked
from lakescan.maintenance.listing import Listing, neighbours, tables_around
from lakescan.storage import FileEntry, Storage
from lakescan.storage.locations import is_in, normal
from lakescan.storage.removal import comparison_keys, in_folders, unnamed_by_name
from lakescan.tables.base import ClaimingPart, FileRules, FilesPart, Known, NamedPart, Target

_LOG = logging.getLogger("lakescan")
_SHARE, _MOST_SHARES = 200_000, 2000  # names of a share, about; shares at most
_SPLIT = 100_000  # rows that are divided at once
_CHUNK = 20_000  # files that a worker removes
_ROWS = pa.schema(
    [
        pa.field("location", pa.string()),
        pa.field("size", pa.int64()),  # bytes of a candidate, where they are known
        pa.field("kind", pa.string()),  # of a candidate: 'data', 'manifest', ...
        pa.field("named", pa.bool_()),  # whether metadata names it; otherwise it is a candidate
        # Of a name that holds only if nothing newer is said of the same entry; see `ClaimingPart`.
        pa.field("entry", pa.string()),
        pa.field("rank", pa.int64()),
        pa.field("holds", pa.bool_()),
    ]
)


@dataclass(frozen=True)
class Compared:
    """What a share has: candidates that nothing names (`location`, `size`, `kind`); or why they cannot be told."""

    orphans: pa.Table
    unclear: tuple[str, str] | None = None


class Rows(Protocol):
    """What a worker reads, as rows (`_ROWS`): candidates for removal, or files that are named. Pickled for workers."""

    @property
    def count(self) -> int:
        """About how many rows there are."""

    def rows(self) -> Iterator[pa.Table]:
        """The rows, in chunks."""


@dataclass(frozen=True)
class InFolders:
    """The candidates in some folders."""

    search: FolderSearch
    found: Found

    @property
    def count(self) -> int:
        """As many as files were listed, at most."""
        return self.found.count

    def rows(self) -> Iterator[pa.Table]:
        """All of them."""
        for part in self.search.candidates(self.found):
            yield _rows(part["location"], size=part["size"])


@dataclass(frozen=True)
class InTable:
    """Candidates that are known already, with their sizes."""

    files: pa.Table

    @property
    def count(self) -> int:
        """As many as files."""
        return int(self.files.num_rows)

    def rows(self) -> Iterator[pa.Table]:
        """All of them."""
        yield _rows(self.files["location"], size=self.files["size"])


@dataclass(frozen=True)
class OfSnapshots:
    """The files of expired snapshots below the folders that are the table's own."""

    part: FilesPart
    owned: tuple[str, ...]
    storage: Storage

    @property
    def count(self) -> int:
        """As many as a share has: a part is some manifests."""
        return _SHARE

    def rows(self) -> Iterator[pa.Table]:
        """They have kinds, and no sizes."""
        for everything in self.part.files():
            files = everything.filter(in_folders(self.storage, everything["path"], self.owned))
            yield _rows(files["path"], kind=files["kind"])


@dataclass(frozen=True)
class NamedBy:
    """The files that a part of the metadata names."""

    part: NamedPart

    @property
    def count(self) -> int:
        """As many as a share has, unless they are known: a part is some manifests, or a part of a log."""
        return len(self.part.chunk) if isinstance(self.part, Known) else _SHARE

    def rows(self) -> Iterator[pa.Table]:
        """All of them."""
        if isinstance(self.part, ClaimingPart):
            for some in self.part.claims():
                columns = {name: some[name] for name in ("entry", "rank", "holds")}
                yield _rows(some["location"], named=True, **columns)
            return
        for chunk in self.part.locations():
            yield _rows(chunk.cast(pa.string()), named=True)


@dataclass(frozen=True)
class Comparison:
    """Divides candidates and named files into shares by name, and compares those of a share."""

    storage: Storage
    shares: int

    def split(self, item: Rows) -> Iterator[tuple[int, pa.Table]]:
        """The rows by share."""
        for rows in _together(item.rows()):
            keys = comparison_keys(self.storage, rows["location"].combine_chunks())
            share = (hashes(keys) % np.uint64(self.shares)).astype(np.int64)
            order = np.argsort(share, kind="stable")
            share = share[order]
            starts = [0, *(np.flatnonzero(np.diff(share)) + 1).tolist(), len(share)]
            for start, end in pairwise(starts):
                yield int(share[start]), rows.take(pa.array(order[start:end]))  # a slice is pickled as the whole

    def take(self, tables: Iterator[pa.Table]) -> Compared:
        """The candidates of a share that nothing names, each once."""
        whole = pa.concat_tables(tables)
        named = whole.filter(whole["named"])
        candidates = whole.filter(pc.invert(whole["named"]))
        mine = candidates.group_by("location").aggregate([("size", "max"), ("kind", "min")])
        mine = mine.select([0, 1, 2]).rename_columns(["location", "size", "kind"])
        if not mine.num_rows:
            return Compared(mine)
        try:
            left = unnamed_by_name(self.storage, mine["location"].combine_chunks(), [_held(named)])
        except UnsupportedFeature as error:
            return Compared(mine.slice(0, 0), (error.feature, error.detail))
        return Compared(mine.filter(left))


def _held(named: pa.Table) -> pa.Array:
    """The locations whose names hold: always, or by the newest that is said of their entry."""
    always = named["entry"].is_null()
    claims = named.filter(pc.invert(always))
    locations = [named.filter(always)["location"].combine_chunks()]
    if claims.num_rows:
        codes = claims["entry"].combine_chunks().dictionary_encode().indices.to_numpy()
        rank = claims["rank"].to_numpy()
        newest = np.full(codes.max() + 1, np.iinfo(np.int64).min)
        np.maximum.at(newest, codes, rank)
        last = pa.array(rank == newest[codes])
        locations.append(claims.filter(pc.and_(last, claims["holds"]))["location"].combine_chunks())
    return pa.concat_arrays(locations)


def _rows(
    locations: pa.Array | pa.ChunkedArray, *, named: bool = False, **more: pa.Array | pa.ChunkedArray
) -> pa.Table:
    count = len(locations)
    known = {"location": locations, "named": pa.repeat(named, count), **more}
    return pa.table([known.get(each.name, pa.nulls(count, each.type)) for each in _ROWS], schema=_ROWS)


def _together(parts: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """Merge small parts (one per folder or manifest) into larger ones, so that there are few tables of each share."""
    some, count = list[pa.Table](), 0
    for part in parts:
        some.append(part)
        count += part.num_rows
        if count >= _SPLIT:
            yield pa.concat_tables(some)
            some, count = [], 0
    if count:
        yield pa.concat_tables(some)


def find_orphans(
    target: Target,
    rules: FileRules,
    folders: Sequence[str],
    cutoff: datetime,
    executor: ExchangingExecutor,
) -> pa.Table:
    """Orphan files from before `cutoff` in folders (`location`, `size`); workers list and compare.

    Raises `UnsupportedFeature` if it is unclear whether files belong to the table.
    """
    storage = target.storage
    kept_in = executor.folder if isinstance(executor, FileExchange) else None
    roots = tuple(normal(storage.relocated(each)) for each in folders)
    search = FolderSearch(storage, replace(rules, named_by_others=_nothing), cutoff, roots, kept_in=kept_in)
    found = list(executor.map(search.look, tasks_of(folders_to_list(storage, folders))))
    metadata = [each for some in found for each in some.metadata]
    others = frozenset[str]().union(*(some.tables for some in found))
    place = normal(storage.relocated(rules.metadata_folder))
    if not any(place == each or is_in(place, each) for each in roots):
        metadata += neighbours(storage, rules)
    others |= tables_around(storage, rules, folders)
    search = replace(search, others=others, shared=shared_metadata(rules, metadata, storage))
    outside = [each for each in folders if not is_in(normal(each), normal(rules.location))]
    elsewhere = [Known(each) for folder in outside for each in rules.named_by_others(folder)]
    candidates = [InFolders(search, replace(each, metadata=(), tables=frozenset())) for each in found]
    return unnamed_by_workers(target, candidates, cutoff, metadata, executor, elsewhere)


def among_listed(
    target: Target, rules: FileRules, files: pa.Table, cutoff: datetime, executor: ExchangingExecutor
) -> pa.Table:
    """Orphan files among listed ones (`listed.LISTED`), as `find_orphans`; else, metadata files alone are listed."""
    storage = target.storage
    listing = Listing(normal(storage.relocated(rules.location)), rules.partition_names, rules.shown)
    metadata = [*listing.metadata_files(files), *neighbours(storage, rules)]
    shared = shared_metadata(rules, metadata, storage)
    files = files.filter(in_folders(storage, files["location"], [rules.location]))
    found = InTable(listing.candidates(files, cutoff, listing.other_tables(files), shared))
    return unnamed_by_workers(target, [found], cutoff, metadata, executor)


def shared_metadata(rules: FileRules, metadata: Sequence[FileEntry], storage: Storage) -> str | None:
    """The folder of another format's metadata, if that shares the table's data files."""
    if rules.shared_metadata is None or not (rules.is_shared or metadata):
        return None
    return normal(storage.relocated(rules.shared_metadata))


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
    named = [NamedBy(each) for each in parts]
    items: list[Rows] = [*candidates, *named]
    count = min(_MOST_SHARES, max(8, sum(each.count for each in items) // _SHARE))
    comparison = Comparison(storage, count)
    empty = pa.table([[], [], []], schema=pa.schema([_ROWS.field(n) for n in ("location", "size", "kind")]))
    found = [empty]
    for result in executor.exchange(comparison.split, items, comparison.take, count):
        if result.unclear is not None:
            raise UnsupportedFeature(*result.unclear)
        found.append(result.orphans)
    whole = pa.concat_tables(found).combine_chunks()
    whole = whole.filter(not_linked(storage, _one(whole), parts, sum(each.count for each in named), executor))
    whole = whole.filter(unnamed_by_name(storage, _one(whole), _named_since(before, since, metadata)))
    return whole.sort_by("location")


def _one(files: pa.Table) -> pa.Array:
    return files["location"].combine_chunks()


def remove_by_workers(storage: Storage, files: pa.Table, executor: PlanningExecutor) -> pa.Table:
    """Remove files by their `location`, chunk by chunk on workers; return those that were removed.

    If it is interrupted, running it again removes the others.
    """
    chunks = chunks_of(files["location"].combine_chunks(), _CHUNK)
    left = [each for some in executor.map(partial(_left, storage), chunks) for each in some]
    if not left:
        return files
    _LOG.warning("%d unreferenced files could not be removed, %s among them", len(left), min(left))
    return files.filter(pc.invert(pc.is_in(files["location"], value_set=pa.array(left, pa.string()))))


def exchanging(executor: PlanningExecutor | None, run: Callable[[ExchangingExecutor], pa.Table]) -> pa.Table:
    """Run something with an executor that exchanges rows: the given one, or one of temporary files in this process."""
    if isinstance(executor, ExchangingExecutor):
        return run(executor)
    with FileExchange(executor) as files:
        return run(files)


def _left(storage: Storage, locations: pa.Array) -> list[str]:
    return list(storage.remove(locations.to_pylist()))


def _nothing(folder: str) -> Iterator[pa.Array]:
    return iter(())


def _named_since(before: Target, cutoff: datetime, metadata: Sequence[FileEntry]) -> Iterator[pa.Array]:
    """What commits since `before` name: files that they added, and what the metadata file itself names now."""
    yield from before.files_added_since(before.base_state)
    yield from next(iter(before.reopened().parts_in_use(cutoff, metadata))).locations()


T = TypeVar("T")
R = TypeVar("R")


class FileExchange:
    """An executor that exchanges rows by files in a temporary folder; what it maps, another executor runs.

    It is a context, at whose end the folder is removed.
    """

    def __init__(self, executor: PlanningExecutor | None = None) -> None:
        self._executor = executor or LOCAL
        self._folder = tempfile.TemporaryDirectory(prefix="lakescan-")
        self.folder: str = self._folder.name
        self._exchanges = 0

    def __enter__(self) -> FileExchange:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._folder.cleanup()

    def map(self, work: Callable[[T], R], items: Iterable[T], /) -> Iterator[R]:
        """Yield the result of `work` for each item, in order."""
        return self._executor.map(work, items)

    def exchange(
        self,
        split: Callable[[T], Iterable[tuple[int, pa.Table]]],
        items: Iterable[T],
        take: Callable[[Iterator[pa.Table]], R],
        shares: int,
        /,
    ) -> Iterator[R]:
        """Split each item into (share, table) pairs, then take the tables of each share one by one, in order."""
        self._exchanges += 1
        folder = Path(self.folder, str(self._exchanges))
        folder.mkdir()

        def write(numbered: tuple[int, T]) -> tuple[Path, list[int]]:
            """A file for each item: its batches, and the share of each."""
            number, item = numbered
            path, found, writer = folder / f"{number}.arrow", list[int](), None
            try:
                for share, table in split(item):
                    for batch in table.combine_chunks().to_batches():
                        if writer is None:
                            writer = pa.ipc.new_file(path, batch.schema)
                        writer.write_batch(batch)
                        found.append(share)
            finally:
                if writer is not None:
                    writer.close()
            return path, found

        batches = defaultdict[int, list[tuple[Path, list[int]]]](list)
        for path, numbers in self._executor.map(write, list(enumerate(items))):
            places = defaultdict[int, list[int]](list)
            for at, share in enumerate(numbers):
                places[share].append(at)
            for share, some in places.items():
                batches[share].append((path, some))
        yield from self._executor.map(lambda share: take(_read(batches[share])), sorted(batches))


def _read(places: list[tuple[Path, list[int]]]) -> Iterator[pa.Table]:
    for path, numbers in places:
        with pa.OSFile(str(path)) as source:
            reader = pa.ipc.open_file(source)
            yield pa.Table.from_batches([reader.get_batch(each) for each in numbers], reader.schema)
