"""Classify listed files of a table's folders: orphan candidates, metadata, and files of other tables."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from lakescan.catalogs.shared_files import metadata_of_tables, table_folders
from lakescan.storage import FileEntry, Storage, join
from lakescan.storage.listing import list_files
from lakescan.storage.locations import is_in, normal, normalize, path_of
from lakescan.tables.base import FileRules


@dataclass(frozen=True)
class Listing:
    """Classifies listed files (`listing.LISTED`) for the table at `location`; locations are compared normalized.

    - `partitions`: the names of partition columns; folders named after them are never hidden.
    - `shown`: prefixes of names that are never hidden.
    - `elsewhere`: normalized folders outside the table that are searched, too; only names below them can be hidden.
    """

    location: str
    partitions: Collection[str]
    shown: tuple[str, ...] = ()
    elsewhere: tuple[str, ...] = ()

    def candidates(self, files: pa.Table, cutoff: datetime, others: Collection[str], shared: str | None) -> pa.Table:
        """Return files older than `cutoff` that are neither hidden, nor in another table's folder, nor in `shared`.

        `others` are the normalized locations of other tables, and `shared` is a folder of another format's metadata, or
        None. Files with an unknown modification time are left out.
        """
        moment = pa.scalar(cutoff, pa.timestamp("us", "UTC"))
        old = files.filter(pc.fill_null(pc.less(files["modified"], moment), False))
        places = normalize(old["location"])
        folders = pc.replace_substring_regex(places, "/[^/]*$", "").dictionary_encode()
        eligible = [self._may_have_orphans(each, others, shared) for each in folders.dictionary.to_pylist()]
        names = pc.replace_substring_regex(places, "^.*/", "")
        mine = pa.array(eligible, pa.bool_()).take(folders.indices)
        return old.filter(pc.and_not(mine, self._hidden(names)))

    def _hidden(self, names: pa.Array) -> pa.Array:
        """Return a mask of file names that Spark and Hadoop hide: they start with _ or a dot.

        Names that start with one of `shown`, and names like partition folders (`column=value`), are not hidden.
        """
        marked = pc.match_substring_regex(names, r"^[_.]")
        for each in self.shown:
            marked = pc.and_not(marked, pc.starts_with(names, each))
        if not pc.any(marked).as_py():
            return marked
        columns = pc.replace_substring_regex(names, "(?s)=.*$", "")
        return pc.and_not(marked, pc.is_in(columns, value_set=pa.array(list(self.partitions), pa.string())))

    def _may_have_orphans(self, folder: str, others: Collection[str], shared: str | None) -> bool:
        root = next((each for each in (self.location, *self.elsewhere) if is_in(folder, each)), folder)
        below = folder[len(root) :]
        steps = folder.split("/")
        is_other = bool(others) and any("/".join(steps[:n]) in others for n in range(1, len(steps) + 1))
        is_shared = shared is not None and (folder == shared or is_in(folder, shared))
        return not is_other and not is_shared and not any(map(self._is_hidden, below.split("/")))

    def _is_hidden(self, name: str) -> bool:
        is_marked = name.startswith(("_", ".")) and not name.startswith(self.shown)
        return is_marked and name.partition("=")[0] not in self.partitions

    def other_tables(self, files: pa.Table) -> set[str]:
        """Return the normalized locations of other tables with a Delta log or Iceberg metadata among these files."""
        return table_folders(files) - {self.location}

    def metadata_files(self, files: pa.Table) -> list[FileEntry]:
        """Return those of the files that are Iceberg metadata files in the table's own metadata folder."""
        found = metadata_of_tables(files)
        folders = pc.replace_substring_regex(normalize(found["location"]), "/metadata/[^/]*$", "")
        mine = found.filter(pc.equal(folders, self.location))
        return [
            FileEntry(row["location"].rpartition("/")[2], row["location"], row["size"], row["modified"])
            for row in mine.to_pylist()
        ]


def metadata_in_folder(storage: Storage, rules: FileRules) -> list[FileEntry]:
    """Return the Iceberg metadata files in the table's metadata folder, including those of other tables there."""
    listing = Listing(normal(storage.current_location(rules.location)), rules.partition_names)
    return [
        each for part in list_files(storage, rules.metadata_folder, deep=False) for each in listing.metadata_files(part)
    ]


def enclosing_tables(storage: Storage, rules: FileRules, folders: Sequence[str]) -> frozenset[str]:
    """Return the normalized locations of other tables that contain one of these folders."""
    own, found, seen = normal(storage.current_location(rules.location)), set[str](), set[str]()
    listing = Listing(own, rules.partition_names)
    for each in folders:
        folder = each.rstrip("/").rpartition("/")[0]  # tables in the folder itself are found in its listing
        while path_of(folder) != "/" and (place := normal(storage.current_location(folder))) not in {own, *seen}:
            seen.add(place)
            for name in ("metadata", "_delta_log"):
                for part in list_files(storage, join(folder, name), deep=False):
                    found |= listing.other_tables(part)
            folder = folder.rpartition("/")[0]
    return frozenset(found)
