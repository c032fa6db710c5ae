"""List a table's folders for orphan file candidates: no hidden files, no files in the folder of another table."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from lakescan.storage import FileEntry, Storage
from lakescan.storage.locations import is_in, normal, normalize

_ICEBERG = re.compile(r"(.*)/metadata/[^/]+\.metadata\.json(?:\.gz)?")
_DELTA = re.compile(r"(.*)/_delta_log/[^/]+")


@dataclass(frozen=True)
class Listing:
    """The files in some folders of the table at `location` (normalized), compared by normalized location.

    `entries` are all files, including hidden ones. `partitions` are the names of partition columns: folders named
    after them are never hidden, and neither are names that start with one of `shown`. `known_tables` are the normalized
    locations of other tables that are not among the entries.
    """

    location: str
    entries: Sequence[FileEntry]
    partitions: Collection[str]
    shown: tuple[str, ...] = ()
    known_tables: frozenset[str] = frozenset()

    @staticmethod
    def of(
        storage: Storage,
        location: str,
        folders: Sequence[str],
        partitions: Collection[str],
        shown: tuple[str, ...] = (),
    ) -> Listing:
        """List folders recursively; a folder inside another one is listed once."""
        places = {normal(storage.relocated(each)): each for each in folders}
        outer = [each for place, each in places.items() if not any(is_in(place, other) for other in places)]
        entries = [entry for each in outer for entry in storage.walk(each)]
        return Listing(normal(storage.relocated(location)), entries, partitions, shown)

    @cached_property
    def _places(self) -> list[str]:
        places: list[str] = normalize(pa.array([each.location for each in self.entries], pa.string())).to_pylist()
        return places

    def candidates(self) -> Iterator[FileEntry]:
        """The files that are neither hidden nor in another table's folder."""
        others, eligible = {*self.known_tables, *self.other_tables()}, dict[str, bool]()
        for entry, place in zip(self.entries, self._places, strict=True):
            folder, _, name = place.rpartition("/")
            if folder not in eligible:
                eligible[folder] = self._may_have_orphans(folder, others)
            if eligible[folder] and not self._is_hidden(name):
                yield entry

    def _may_have_orphans(self, folder: str, others: Collection[str]) -> bool:
        below = folder[len(self.location) :] if is_in(folder, self.location) else ""
        steps = folder.split("/")
        is_other = any("/".join(steps[:n]) in others for n in range(1, len(steps) + 1))
        return not is_other and not any(map(self._is_hidden, below.split("/")))

    def _is_hidden(self, name: str) -> bool:
        """Whether the name is hidden for Spark and Hadoop: it starts with _ or a dot, and is not a partition folder."""
        is_marked = name.startswith(("_", ".")) and not name.startswith(self.shown)
        return is_marked and name.partition("=")[0] not in self.partitions

    def other_tables(self) -> list[str]:
        """The normalized locations of other tables in these folders: those with a Delta log or Iceberg metadata."""
        hits = (kind.fullmatch(place) for place in self._places for kind in (_ICEBERG, _DELTA))
        return sorted({hit[1] for hit in hits if hit is not None} - {self.location})

    def metadata_files(self) -> list[FileEntry]:
        """The Iceberg metadata files in the table's own metadata folder."""
        hits = ((entry, _ICEBERG.fullmatch(place)) for entry, place in zip(self.entries, self._places, strict=True))
        return [entry for entry, hit in hits if hit is not None and hit[1] == self.location]
