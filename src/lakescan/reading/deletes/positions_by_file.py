"""The positions in a position delete file, by the data file locations that it contains.

The positions of a data file are those under its own location, and those under other notations of it
(`LocationMatcher`), except for notations that are the exact location of another live file.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from functools import cached_property

import pyarrow as pa
from pyroaring import BitMap64

from lakescan.errors import UnsupportedFeature
from lakescan.reading.deletes.deletion_vectors import size_of, union_bitmaps
from lakescan.storage.locations import LocationMatcher

Deletes = dict[str, BitMap64]  # deleted positions by the location of their data file


class PositionsByFile:
    """Deleted positions (`by_name`) by data file location. Immutable, so threads and task groups share them.

    `places` matches the locations in any notation.
    """

    def __init__(self, by_name: Deletes, places: LocationMatcher) -> None:
        self.by_name = by_name
        self._places = places

    @property
    def nbytes(self) -> int:
        """The approximate size of the bitmaps and names in bytes."""
        return sum(size_of(bitmap) + 2 * len(name) for name, bitmap in self.by_name.items())

    @cached_property
    def names(self) -> pa.Array:
        """The data file locations, as written in the delete file."""
        return pa.array(list(self.by_name), pa.string())

    @cached_property
    def family(self) -> tuple[str, str] | None:
        """The common scheme, authority and relocation prefix of all locations; see `LocationMatcher.family`."""
        return self._places.family(self.names)

    @cached_property
    def place_names(self) -> dict[str, list[str]]:
        """The data file locations, as written in the delete file, by their canonical form."""
        names: dict[str, list[str]] = defaultdict(list)
        for place, name in zip(self._places.canonicalize(self.names).to_pylist(), self.by_name, strict=True):
            names[place].append(name)
        return dict(names)

    def other_spellings(self, path: str, place: str, others: Collection[str]) -> Sequence[str]:
        """Return other notations than `path` that the delete file uses for the data file at `path`.

        `place` is the file's canonical location, and `others` are other live files with the same one. Raises
        `UnsupportedFeature` if there are such files, and a notation is not the exact location of any of them.
        """
        names = [name for name in self.place_names.get(place, ()) if name != path and name not in others]
        if names and others:
            raise ambiguous_delete(names[0], [path, *others])
        return names

    def positions_of(self, names: Sequence[str]) -> BitMap64:
        """Return the union of the positions under these locations; those that the delete file lacks are ignored."""
        return union_bitmaps([self.by_name[name] for name in names if name in self.by_name])


def ambiguous_delete(name: str, candidates: Collection[str]) -> UnsupportedFeature:
    """Return the error for a delete whose location `name` may mean any of several data files (`candidates`)."""
    return UnsupportedFeature(
        "a position delete that may mean one of several data files",
        f"It references {name}, which is not the exact location of any data file, and may mean "
        f"{' or '.join(sorted(candidates))}. Compact these files with the engine that wrote the delete.",
    )
