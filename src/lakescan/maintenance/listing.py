"""The files in a table's folders that may be its garbage: none that is hidden, or in the folder of another table."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from lakescan.storage.locations import normal, normalize
from lakescan.storage.storage import FileEntry, Storage

_ICEBERG = re.compile(r"(.*)/metadata/[^/]+\.metadata\.json(?:\.gz)?")
_DELTA = re.compile(r"(.*)/_delta_log/[^/]+")


@dataclass(frozen=True)
class Listing:
    """What is in some folders of a table at `location`, by `places`: the normal forms of where files are.

    `entries` are all files, hidden ones, too. `partitions` are names of partition columns: their folders are not
    hidden, whatever they begin with; nor are names that begin as one of `shown` does.
    """

    location: str
    entries: Sequence[FileEntry]
    partitions: Collection[str]
    shown: tuple[str, ...] = ()

    @staticmethod
    def of(
        storage: Storage,
        location: str,
        folders: Sequence[str],
        partitions: Collection[str],
        shown: tuple[str, ...] = (),
    ) -> Listing:
        """Walk folders; one that is in another is walked once."""
        places = {normal(storage.relocated(each)): each for each in folders}
        outer = [each for place, each in places.items() if not any(is_in(place, other) for other in places)]
        entries = [entry for each in outer for entry in storage.walk(each)]
        return Listing(normal(storage.relocated(location)), entries, partitions, shown)

    @cached_property
    def _places(self) -> list[str]:
        found: list[str] = normalize(pa.array([each.location for each in self.entries], pa.string())).to_pylist()
        return found

    def candidates(self) -> Iterator[FileEntry]:
        """The files that are neither hidden nor in another table's folder."""
        others, known = set(self.other_tables()), dict[str, bool]()
        for entry, place in zip(self.entries, self._places, strict=True):
            folder, _, name = place.rpartition("/")
            if folder not in known:
                known[folder] = self._may_have_garbage(folder, others)
            if known[folder] and not self._is_hidden(name):
                yield entry

    def _may_have_garbage(self, folder: str, others: Collection[str]) -> bool:
        below = folder[len(self.location) :] if is_in(folder, self.location) else ""
        steps = folder.split("/")
        is_other = any("/".join(steps[:n]) in others for n in range(1, len(steps) + 1))
        return not is_other and not any(map(self._is_hidden, below.split("/")))

    def _is_hidden(self, name: str) -> bool:
        """As Spark and Hadoop have it: it begins with _ or a dot, and is no partition."""
        is_odd = name.startswith(("_", ".")) and not name.startswith(self.shown)
        return is_odd and name.partition("=")[0] not in self.partitions

    def other_tables(self) -> list[str]:
        """The places of other tables that are in these folders: they have a log, or metadata, of their own."""
        hits = (kind.fullmatch(place) for place in self._places for kind in (_ICEBERG, _DELTA))
        return sorted({hit[1] for hit in hits if hit is not None} - {self.location})

    def metadata_files(self) -> list[FileEntry]:
        """The Iceberg metadata files in the table's own folder."""
        hits = ((entry, _ICEBERG.fullmatch(place)) for entry, place in zip(self.entries, self._places, strict=True))
        return [entry for entry, hit in hits if hit is not None and hit[1] == self.location]


def is_in(place: str, folder: str) -> bool:
    """Whether a place is below a folder, both in their normal form."""
    return place != folder and place.startswith(folder.rstrip("/") + "/")
