"""Find files to delete on workers: they list folders or read manifests, and compare file names shard by shard.

No process holds all files: each worker has a part of the files, or one shard of all names, at a time. If workers share
no folder, folders are listed twice: for other tables inside them, then for candidates.
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
from lakescan.maintenance.folder_search import FolderContents, FolderSearch, folder_tasks, folders_to_list
from lakescan.maintenance.listing import Listing, enclosing_tables, metadata_in_folder
from lakescan.storage import FileEntry, Storage
from lakescan.storage.locations import is_in, normal, split_location
from lakescan.storage.removal import comparison_keys, file_numbers, folder_mask, unreferenced_by_name
from lakescan.tables.base import FileRules, KnownLocations, ReferenceClaims, ReferencedFiles, SnapshotFiles, Target
from lakescan.tables.capabilities import OrphanRemoval, require

_LOG = logging.getLogger("lakescan")
_SHARE, _MOST_SHARES = 200_000, 2000  # approximate number of names per shard; maximum number of shards
_SPLIT = 100_000  # rows that are divided together
_CHUNK = 20_000  # files that a worker deletes per task
_ROWS = pa.schema(
    [
        pa.field("location", pa.string()),
        pa.field("size", pa.int64()),  # bytes of a candidate, if known
        pa.field("kind", pa.string()),  # of a candidate: 'data', 'manifest', ...
        pa.field("named", pa.bool_()),  # whether metadata references it; otherwise it is a candidate
        # For a reference that only holds if there is no newer one of the same entry; see `ReferenceClaims`.
        pa.field("entry", pa.string()),
        pa.field("rank", pa.int64()),
        pa.field("holds", pa.bool_()),
    ]
)


@dataclass(frozen=True)
class ComparisonResult:
    """The result for one shard: the unreferenced candidates (`orphans`, with `location`, `size` and `kind`).

    `unclear` is the feature and detail of an `UnsupportedFeature` error if they cannot be determined, else None.
    """

    orphans: pa.Table
    unclear: tuple[str, str] | None = None


class FileRowSource(Protocol):
    """A source of rows (`_ROWS`) for a worker to read: candidates for removal, or referenced files.

    It can be pickled.
    """

    @property
    def count(self) -> int:
        """The approximate number of rows."""

    def rows(self) -> Iterator[pa.Table]:
        """Yield the rows, in chunks."""


@dataclass(frozen=True)
class FolderCandidates:
    """Candidates for removal in some folders: `search` finds them, given `found`, the folders' first listing."""

    search: FolderSearch
    found: FolderContents

    @property
    def count(self) -> int:
        """The number of listed files, which is an upper limit."""
        return self.found.count

    def rows(self) -> Iterator[pa.Table]:
        """Yield the candidates in the folders."""
        for part in self.search.candidates(self.found):
            yield _as_file_rows(part["location"], size=part["size"])


@dataclass(frozen=True)
class ListedCandidates:
    """Candidates for removal that are in memory: `files` has their `location` and `size`."""

    files: pa.Table

    @property
    def count(self) -> int:
        """The number of files."""
        return int(self.files.num_rows)

    def rows(self) -> Iterator[pa.Table]:
        """Yield all files."""
        yield _as_file_rows(self.files["location"], size=self.files["size"])


@dataclass(frozen=True)
class ExpiredSnapshotFiles:
    """The files of expired snapshots that are in the table's own folders, `owned`; `part` reads them."""

    part: SnapshotFiles
    owned: tuple[str, ...]
    storage: Storage

    @property
    def count(self) -> int:
        """A constant estimate, the rows of one shard: the part's manifests are not read to count them."""
        return _SHARE

    def rows(self) -> Iterator[pa.Table]:
        """Yield the files, with kinds and without sizes."""
        for everything in self.part.files():
            files = everything.filter(folder_mask(self.storage, everything["path"], self.owned))
            yield _as_file_rows(files["path"], kind=files["kind"])


@dataclass(frozen=True)
class MetadataReferences:
    """The files that a part of the metadata references, for comparison with candidates."""

    part: ReferencedFiles

    @property
    def count(self) -> int:
        """The number of locations if known, else the rows of one shard as an estimate."""
        return len(self.part.chunk) if isinstance(self.part, KnownLocations) else _SHARE

    def rows(self) -> Iterator[pa.Table]:
        """Yield the referenced files."""
        if isinstance(self.part, ReferenceClaims):
            for some in self.part.claims():
                columns = {name: some[name] for name in ("entry", "rank", "holds")}
                yield _as_file_rows(some["location"], named=True, **columns)
            return
        for chunk in self.part.locations():
            yield _as_file_rows(chunk.cast(pa.string()), named=True)


@dataclass(frozen=True)
class FileComparison:
    """Divides candidates and referenced files into `shares` shards by name, and compares those of a shard."""

    storage: Storage
    shares: int

    def split(self, item: FileRowSource) -> Iterator[tuple[int, pa.Table]]:
        """Yield the rows of a source, each table with the number of its shard."""
        for rows in _merge_small_parts(item.rows()):
            keys = comparison_keys(self.storage, rows["location"].combine_chunks())
            share = (hashes(keys) % np.uint64(self.shares)).astype(np.int64)
            order = np.argsort(share, kind="stable")
            share = share[order]
            starts = [0, *(np.flatnonzero(np.diff(share)) + 1).tolist(), len(share)]
            for start, end in pairwise(starts):
                yield int(share[start]), rows.take(pa.array(order[start:end]))  # a slice is pickled as the whole

    def take(self, tables: Iterator[pa.Table]) -> ComparisonResult:
        """Compare the rows of a shard: return the candidates that no metadata references, each once."""
        whole = pa.concat_tables(tables)
        named = whole.filter(whole["named"])
        candidates = whole.filter(pc.invert(whole["named"]))
        mine = candidates.group_by("location").aggregate([("size", "max"), ("kind", "min")])
        mine = mine.select([0, 1, 2]).rename_columns(["location", "size", "kind"])
        if not mine.num_rows:
            return ComparisonResult(mine)
        try:
            left = unreferenced_by_name(self.storage, mine["location"].combine_chunks(), [_referenced_locations(named)])
        except UnsupportedFeature as error:
            return ComparisonResult(mine.slice(0, 0), (error.feature, error.detail))
        return ComparisonResult(mine.filter(left))


def _referenced_locations(named: pa.Table) -> pa.Array:
    """Return the locations of referenced files: without an `entry`, or held by the newest claim of their entry."""
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


def _as_file_rows(
    locations: pa.Array | pa.ChunkedArray, *, named: bool = False, **more: pa.Array | pa.ChunkedArray
) -> pa.Table:
    count = len(locations)
    known = {"location": locations, "named": pa.repeat(named, count), **more}
    return pa.table([known.get(each.name, pa.nulls(count, each.type)) for each in _ROWS], schema=_ROWS)


def _merge_small_parts(parts: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """Merge small parts (one per folder or manifest) into larger ones, so that each shard gets few tables."""
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
    """Return the orphan files in `folders` older than `cutoff` (`location`, `size`, `kind`); workers list and compare.

    Raises `UnsupportedFeature` if it is unclear whether files belong to the table.
    """
    storage = target.storage
    kept_in = executor.folder if isinstance(executor, FileExchange) else None
    roots = tuple(normal(storage.current_location(each)) for each in folders)
    search = FolderSearch(storage, replace(rules, named_by_others=_no_references), cutoff, roots, kept_in=kept_in)
    found = list(executor.map(search.list_folders, folder_tasks(folders_to_list(storage, folders))))
    metadata = [each for some in found for each in some.metadata]
    others = frozenset[str]().union(*(some.tables for some in found))
    place = normal(storage.current_location(rules.metadata_folder))
    if not any(place == each or is_in(place, each) for each in roots):
        metadata += metadata_in_folder(storage, rules)
    others |= enclosing_tables(storage, rules, folders)
    search = replace(search, others=others, shared=shared_metadata_folder(rules, metadata, storage))
    outside = [each for each in folders if not is_in(normal(each), normal(rules.location))]
    elsewhere = [KnownLocations(each) for folder in outside for each in rules.named_by_others(folder)]
    candidates = [FolderCandidates(search, replace(each, metadata=(), tables=frozenset())) for each in found]
    return select_unreferenced_files(target, candidates, cutoff, metadata, executor, elsewhere)


def find_listed_orphans(
    target: Target, rules: FileRules, files: pa.Table, cutoff: datetime, executor: ExchangingExecutor
) -> pa.Table:
    """Return the orphan files among listed ones (`listing.LISTED`), like `find_orphans`.

    Only metadata files are listed.
    """
    storage = target.storage
    listing = Listing(normal(storage.current_location(rules.location)), rules.partition_names, rules.shown)
    metadata = [*listing.metadata_files(files), *metadata_in_folder(storage, rules)]
    shared = shared_metadata_folder(rules, metadata, storage)
    files = files.filter(folder_mask(storage, files["location"], [rules.location]))
    found = ListedCandidates(listing.candidates(files, cutoff, listing.other_tables(files), shared))
    return select_unreferenced_files(target, [found], cutoff, metadata, executor)


def shared_metadata_folder(rules: FileRules, metadata: Sequence[FileEntry], storage: Storage) -> str | None:
    """Return the folder of another format's metadata if that format shares the table's data files, else None.

    `metadata` are metadata files that were found in the table's metadata folder. The folder is normalized.
    """
    if rules.shared_metadata is None or not (rules.is_shared or metadata):
        return None
    return normal(storage.current_location(rules.shared_metadata))


def select_unreferenced_files(
    target: Target,
    candidates: Sequence[FileRowSource],
    since: datetime,
    metadata: Sequence[FileEntry],
    executor: ExchangingExecutor,
    elsewhere: Sequence[ReferencedFiles] = (),
) -> pa.Table:
    """Return the candidates that are unreferenced (`location`, `size`, `kind`), each once, sorted by location.

    Files removed after `since` count as referenced. Neither the table may reference the candidates, nor tables whose
    `metadata` files are in the same folder, nor the parts in `elsewhere`. The table is reopened, and concurrent commits
    are read at the end. Raises `UnsupportedFeature` like `removal.unreferenced_by_name`.
    """
    storage, before = target.storage, target.reopen()
    parts: list[ReferencedFiles] = [*require(before, OrphanRemoval).parts_in_use(since, metadata), *elsewhere]
    named = [MetadataReferences(each) for each in parts]
    items: list[FileRowSource] = [*candidates, *named]
    count = min(_MOST_SHARES, max(8, sum(each.count for each in items) // _SHARE))
    comparison = FileComparison(storage, count)
    empty = pa.table([[], [], []], schema=pa.schema([_ROWS.field(n) for n in ("location", "size", "kind")]))
    found = [empty]
    for result in executor.exchange(comparison.split, items, comparison.take, count):
        if result.unclear is not None:
            raise UnsupportedFeature(*result.unclear)
        found.append(result.orphans)
    whole = pa.concat_tables(found).combine_chunks()
    whole = whole.filter(
        unlinked_mask(storage, _location_array(whole), parts, sum(each.count for each in named), executor)
    )
    whole = whole.filter(
        unreferenced_by_name(storage, _location_array(whole), _references_since(before, since, metadata))
    )
    return whole.sort_by("location")


def _location_array(files: pa.Table) -> pa.Array:
    return files["location"].combine_chunks()


def remove_files(storage: Storage, files: pa.Table, executor: PlanningExecutor) -> pa.Table:
    """Delete files by their `location`, in chunks on workers; return the rows of those that were deleted.

    Files that cannot be deleted are logged. After an interruption, running it again deletes the others.
    """
    chunks = chunks_of(files["location"].combine_chunks(), _CHUNK)
    left = [each for some in executor.map(partial(_remove_chunk, storage), chunks) for each in some]
    if not left:
        return files
    _LOG.warning("%d unreferenced files could not be removed, %s among them", len(left), min(left))
    return files.filter(pc.invert(pc.is_in(files["location"], value_set=pa.array(left, pa.string()))))


def run_with_exchange(executor: PlanningExecutor | None, run: Callable[[ExchangingExecutor], pa.Table]) -> pa.Table:
    """Return the result of `run`, called with an executor that exchanges rows.

    That is `executor` if it can do so, else one that exchanges rows through temporary files.
    """
    if isinstance(executor, ExchangingExecutor):
        return run(executor)
    with FileExchange(executor) as files:
        return run(files)


def _remove_chunk(storage: Storage, locations: pa.Array) -> list[str]:
    return list(storage.remove(locations.to_pylist()))


def _no_references(folder: str) -> Iterator[pa.Array]:
    return iter(())


def _references_since(before: Target, cutoff: datetime, metadata: Sequence[FileEntry]) -> Iterator[pa.Array]:
    """Yield the locations of files that newer commits than `before` added, and that the current metadata file names."""
    yield from before.files_added_since(before.base_state)
    yield from next(iter(require(before.reopen(), OrphanRemoval).parts_in_use(cutoff, metadata))).locations()


T = TypeVar("T")
R = TypeVar("R")


class FileExchange:
    """An executor that exchanges rows through files in a temporary folder (`folder`); another executor runs the work.

    It is a context manager, which deletes the folder at its end.
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
        """Split each item into (shard, table) pairs, then yield the result of `take` for the tables of each shard."""
        self._exchanges += 1
        folder = Path(self.folder, str(self._exchanges))
        folder.mkdir()

        def write(numbered: tuple[int, T]) -> tuple[Path, list[int]]:
            """Write one file for an item; return its path and the shard of each of its batches."""
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
        yield from self._executor.map(lambda share: take(_read_share(batches[share])), sorted(batches))


def _read_share(places: list[tuple[Path, list[int]]]) -> Iterator[pa.Table]:
    for path, numbers in places:
        with pa.OSFile(str(path)) as source:
            reader = pa.ipc.open_file(source)
            yield pa.Table.from_batches([reader.get_batch(each) for each in numbers], reader.schema)


_CHUNK_ROWS, _FILES_A_SHARE = 50_000, 200_000
_NUMBERS = pa.schema(
    [
        pa.field("device", pa.uint64()),
        pa.field("number", pa.uint64()),
        pa.field("location", pa.string()),
        pa.field("named", pa.bool_()),
    ]
)


@dataclass(frozen=True)
class _FileNumbers:
    """Finds candidates that are the same file as a referenced one with another name, in `shares` shards by inode.

    For local files only.
    """

    storage: Storage
    shares: int

    def split(self, item: tuple[ReferencedFiles, bool]) -> Iterator[tuple[int, pa.Table]]:
        """Yield the existing files of a part, each table with the number of its shard.

        `item` is the part, and whether its files are referenced (otherwise they are candidates). Symbolic links of
        referenced files are followed.
        """
        part, is_named = item
        for chunk in part.locations():
            numbers = file_numbers(self.storage, chunk.to_pylist(), follow=is_named)
            exist = pa.array([each is not None for each in numbers], pa.bool_())
            pairs = np.array([each for each in numbers if each is not None], dtype=np.uint64).reshape(-1, 2)
            files = chunk.cast(pa.string()).filter(exist)
            table = pa.table([pairs[:, 0], pairs[:, 1], files, pa.repeat(is_named, len(files))], schema=_NUMBERS)
            share = pairs[:, 1] % np.uint64(self.shares)
            for number in np.unique(share).tolist():
                yield int(number), table.filter(pa.array(share == number))

    def take(self, tables: Iterator[pa.Table]) -> pa.Array:
        """Return the candidates that are the same file as a referenced one with another name.

        An old reference to the candidate's own name does not count.
        """
        whole = pa.concat_tables(tables)
        if not pc.any(whole["named"]).as_py() or pc.all(whole["named"]).as_py():
            return pa.array([], pa.string())
        key = comparison_keys(self.storage, whole["location"].combine_chunks())
        whole = whole.append_column("key", key)
        named = whole.filter(whole["named"]).select(["device", "number", "key"])
        found = whole.filter(pc.invert(whole["named"])).join(
            named, ["device", "number"], join_type="inner", right_suffix="_named"
        )
        return found.filter(pc.not_equal(found["key"], found["key_named"]))["location"].combine_chunks()


def unlinked_mask(
    storage: Storage, locations: pa.Array, parts: Sequence[ReferencedFiles], names: int, executor: ExchangingExecutor
) -> pa.Array:
    """Return a mask of the locations whose local file is not also referenced under another name.

    That is by a hard link, or as the target of a symbolic link, among the references in `parts`. `names` is the
    approximate number of references. The mask is all True in other stores.
    """
    kept = pa.repeat(True, len(locations))
    if not len(locations) or split_location(storage.current_location(locations[0].as_py()))[0] != "file":
        return kept
    chunks = [(KnownLocations(each), False) for each in chunks_of(locations, _CHUNK_ROWS)]
    items: list[tuple[ReferencedFiles, bool]] = [*chunks, *((each, True) for each in parts)]
    comparison = _FileNumbers(storage, max(1, (names + len(locations)) // _FILES_A_SHARE))
    linked = [*executor.exchange(comparison.split, items, comparison.take, comparison.shares)]
    linked = [each for each in linked if len(each)]
    return pc.invert(pc.is_in(locations, value_set=pa.concat_arrays(linked))) if linked else kept


def chunks_of(values: pa.Array, size: int) -> list[pa.Array]:
    """Return the values in chunks of `size` for workers.

    The chunks are copies, since a slice is pickled with the whole array.
    """
    return [values.take(pa.array(range(at, min(at + size, len(values))))) for at in range(0, len(values), size)]
