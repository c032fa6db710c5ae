"""The deleted positions of a position delete file, by the names that it has for data files.

A data file's positions are those under its own name, and those under other names of its place (`locations.Places`),
unless another live file has such a name itself.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from functools import cached_property

import pyarrow as pa
from pyroaring import BitMap64

from lakescan.errors import UnsupportedFeature
from lakescan.reading.deletes.cache import Deletes, size_of
from lakescan.storage.locations import Places


class NamedPositions:
    """Deleted positions by name of a data file; never changed once made, so threads and task groups share them."""

    def __init__(self, by_name: Deletes, places: Places) -> None:
        self.by_name, self._places = by_name, places

    @property
    def nbytes(self) -> int:
        """The bytes that the bitmaps and names take, about."""
        return sum(size_of(bitmap) + 2 * len(name) for name, bitmap in self.by_name.items())

    @cached_property
    def names(self) -> pa.Array:
        """The names of data files."""
        return pa.array(list(self.by_name), pa.string())

    @cached_property
    def family(self) -> tuple[str, str] | None:
        """What all names begin with; see `Places.family`."""
        return self._places.family(self.names)

    @cached_property
    def by_place(self) -> dict[str, list[str]]:
        """The names of each place."""
        found: dict[str, list[str]] = defaultdict(list)
        for place, name in zip(self._places.of(self.names).to_pylist(), self.by_name, strict=True):
            found[place].append(name)
        return dict(found)

    def alike(self, path: str, place: str, others: Collection[str]) -> Sequence[str]:
        """The names that mean a data file without being its own; `others` are names of other live files at its place.

        Raises `UnsupportedFeature` where a name is that of no live file, and several are at its place.
        """
        found = [name for name in self.by_place.get(place, ()) if name != path and name not in others]
        if found and others:
            raise ambiguous(found[0], [path, *others])
        return found

    def of(self, names: Sequence[str]) -> BitMap64:
        """The positions under some names."""
        found = [self.by_name[name] for name in names if name in self.by_name]
        if len(found) == 1:
            return found[0]
        return BitMap64.union(*found) if found else BitMap64()


def ambiguous(name: str, candidates: Collection[str]) -> UnsupportedFeature:
    """The error for a delete whose data file cannot be told."""
    return UnsupportedFeature(
        "a position delete that may mean one of several data files",
        f"It names {name}, which is the name of no data file as it is written, and may mean "
        f"{' or '.join(sorted(candidates))}. Compact these files with the engine that wrote the delete.",
    )
