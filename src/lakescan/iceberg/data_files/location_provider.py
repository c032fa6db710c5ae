"""Locations of new data files, chosen by table properties as in Java's `LocationProviders`.

Files are in folders by partition. Object stores limit requests by prefix, so for them a hash of the file's name comes
first: 20 bits in folders of 4, 4, 4 and 8 bits, so that folders can be listed in parts.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from lakescan.common.hashing import murmur3
from lakescan.iceberg.metadata.table_properties import IcebergProperties
from lakescan.storage import join

_BITS, _STEPS = 20, (0, 4, 8, 12, 20)


@dataclass(frozen=True)
class DataLocations:
    """The locations of a table's new data files, which are all inside `folder`.

    Locations of `is_hashed` files include a hash. If `folder` is not in the table's location, the hash is followed by
    `context`, the last two steps of the table's path. Hashed locations name the partition only with `has_partitions`.
    """

    folder: str
    context: str = ""
    is_hashed: bool = False
    has_partitions: bool = True

    @staticmethod
    def create(location: str, properties: IcebergProperties) -> DataLocations:
        """Return the data locations of the table at `location` by its properties."""
        table, is_hashed = location.rstrip("/"), properties.is_object_store
        olds = (properties.object_path, properties.folder_path) if is_hashed else (properties.folder_path,)
        named = next((each for each in (properties.data_path, *olds) if each is not None), None)
        folder = f"{table}/data" if named is None else named.rstrip("/")
        context = "" if folder.startswith(table) or not is_hashed else _context(table)
        return DataLocations(folder, context, is_hashed, properties.has_partitions_in_object_store)

    def new(self, name: str, partition: str | None) -> str:
        """Return the location of the file `name`; `partition` is the partition's path, None for unpartitioned tables.

        Example:
            >>> DataLocations("s3://lake/t/data").new("1.parquet", "day=2026-01-31")
            's3://lake/t/data/day=2026-01-31/1.parquet'
        """
        in_partition = name if partition is None or not self.has_partitions else f"{partition}/{name}"
        if not self.is_hashed:
            return join(self.folder, name if partition is None else f"{partition}/{name}")
        entropy = _entropy(in_partition)
        if self.context:
            return join(self.folder, entropy, self.context, in_partition)
        # Without partitions, the last bits are part of the file name, so that no folder has a single file.
        return join(self.folder, f"{entropy}{'/' if self.has_partitions else '-'}{in_partition}")


def _context(table: str) -> str:
    """Return the last two steps of a table's path, which usually are the database and the table."""
    path = table.partition("://")[2].partition("/")[2] if "://" in table else table
    return "/".join(step for step in path.split("/")[-2:] if step)


def _entropy(name: str) -> str:
    """Return the last 20 bits of the name's hash as binary digits, in folders of 4, 4, 4 and 8 bits."""
    bits = f"{murmur3(name.encode()) & (1 << _BITS) - 1:0{_BITS}b}"
    return "/".join(bits[start:end] for start, end in pairwise(_STEPS))
