"""Match the data file names in deletes with those in manifests: by exact name, else by normalized location.

A delete with the exact name of a data file applies to that file. Otherwise it applies to the file at the same
normalized location (its "place"), if there is only one: `s3a://b/f` is `s3://b/f` (see `LocationMatcher`). If several
names in the manifests share the location, the delete is ambiguous and is refused.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakescan.errors import UnsupportedFeature
from lakescan.reading.deletes.positions_by_file import ambiguous_delete
from lakescan.storage.locations import LocationMatcher

_NAMES = pa.list_(pa.string())


@dataclass(frozen=True)
class NameMatches:
    """Matches of names in deletes with data files, as row numbers.

    `data` are rows of the data files, `name` those of the names. `respelled` marks matches by normalized location.
    """

    data: np.ndarray
    name: np.ndarray
    respelled: np.ndarray


@dataclass(frozen=True, eq=False)
class FileNames:
    """Distinct names of data files: those of files that are planned together, or those that deletes contain."""

    names: pa.Array
    places: LocationMatcher

    @cached_property
    def family(self) -> tuple[str, str] | None:
        """The common prefix of all names, or None; see `LocationMatcher.family`."""
        return self.places.family(self.names)

    @cached_property
    def where(self) -> pa.Array:
        """The normalized location of each name."""
        return self.places.canonicalize(self.names)

    @cached_property
    def shared_places(self) -> dict[str, list[str]]:
        """The names at each normalized location that has several names; almost always empty."""
        if self.family is not None:
            return {}
        places, counts = self.where, self.where.value_counts()
        several = counts.field("values").filter(pc.greater(counts.field("counts"), 1))
        mask = pc.is_in(places, value_set=several)
        by_place: dict[str, list[str]] = defaultdict(list)
        for place, name in zip(places.filter(mask).to_pylist(), self.names.filter(mask).to_pylist(), strict=True):
            by_place[place].append(name)
        return dict(by_place)

    def others(self, paths: pa.ChunkedArray) -> pa.Array:
        """Return a list of the other names of each data file's location; null in the normal case of no others."""
        if not self.shared_places:
            return pa.nulls(len(paths), _NAMES)
        places = self.places.canonicalize(paths).to_pylist()
        known = [self.shared_places.get(place) for place in places]
        rows = zip(known, paths.to_pylist(), strict=True)
        return pa.array([None if names is None else [n for n in names if n != path] for names, path in rows], _NAMES)

    def find(self, data: pa.ChunkedArray, wanted: FileNames) -> NameMatches:
        """Match the names in deletes (`wanted`) with data files (`data`), whose distinct names these are.

        A data file that is listed twice matches twice. Names without a data file are left out. Raises
        `UnsupportedFeature` for an ambiguous name.
        """
        exact = join_strings(data, wanted.names)
        by_place = np.zeros(len(exact[0]), dtype=bool)
        if self.family is not None and self.family == wanted.family:
            return NameMatches(*exact, by_place)
        unknown = np.flatnonzero(pc.invert(pc.is_in(wanted.names, value_set=self.names)).to_numpy(zero_copy_only=False))
        if not len(unknown):
            return NameMatches(*exact, by_place)
        names, where = (values.take(pa.array(unknown)) for values in (wanted.names, wanted.where))
        self._refuse_shared(names, where)
        rows, matches = join_strings(self.places.canonicalize(data), where)
        return NameMatches(
            np.append(exact[0], rows),
            np.append(exact[1], unknown[matches]),
            np.append(by_place, np.ones(len(rows), dtype=bool)),
        )

    def _refuse_shared(self, names: pa.Array, places: pa.Array) -> None:
        if not self.shared_places:
            return
        among = pc.is_in(places, value_set=pa.array(list(self.shared_places), pa.string()))
        if pc.any(among).as_py():
            raise ambiguous_delete(names.filter(among)[0].as_py(), self.shared_places[places.filter(among)[0].as_py()])

    def check_apart(self, earlier: FileNames) -> None:
        """Raise `UnsupportedFeature` if one of these names is another spelling of an earlier, already planned name."""
        if self.family is not None and self.family == earlier.family:
            return
        new = self.names.filter(pc.invert(pc.is_in(self.names, value_set=earlier.names)))
        clash = pc.is_in(self.places.canonicalize(new), value_set=earlier.where)
        if pc.any(clash).as_py():
            name = new.filter(clash)[0].as_py()
            raise UnsupportedFeature(
                "position deletes on a data file that is in the table under two names",
                f"One of them is {name}; the other is in a manifest that was read much earlier.",
            )


def join_strings(left: pa.ChunkedArray | pa.Array, right: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Return the row numbers of all pairs of equal strings: those in `left`, and those in `right`."""
    known = pc.unique(left)
    codes = pc.index_in(left, value_set=known).to_numpy(zero_copy_only=False).astype(np.int64)
    wanted = pc.fill_null(pc.index_in(right, value_set=known), -1).to_numpy(zero_copy_only=False).astype(np.int64)
    order = np.argsort(codes, kind="stable")
    low = np.searchsorted(codes[order], wanted, side="left")
    counts = np.where(wanted < 0, 0, np.searchsorted(codes[order], wanted, side="right") - low)
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return order[np.repeat(low, counts) + within], np.repeat(np.arange(len(wanted)), counts)
