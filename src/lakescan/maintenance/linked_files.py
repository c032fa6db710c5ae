"""Local files that are also reached through a named location: by a link, a mount, or case folding. They are kept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common.executors import ExchangingExecutor
from lakescan.storage import Storage
from lakescan.storage.locations import split_location
from lakescan.storage.removal import comparison_keys, file_numbers
from lakescan.tables.base import KnownLocations, ReferencedFiles

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
    """Divides files into shares by the numbers that links to a file share, and takes those that are linked."""

    storage: Storage
    shares: int

    def split(self, item: tuple[ReferencedFiles, bool]) -> Iterator[tuple[int, pa.Table]]:
        """The existing files of a part; links of named ones are followed."""
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
        """The candidates with another name that is named. Their own, which the log once named, is none."""
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
    """The mask of locations that no named location leads to; `parts` name about so many files (`names`)."""
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
    """Values in chunks for workers: copies, since a slice is pickled with the whole array."""
    return [values.take(pa.array(range(at, min(at + size, len(values))))) for at in range(0, len(values), size)]
