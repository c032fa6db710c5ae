"""Paths whose prefix is replaced by another one."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lakescan.errors import InvalidOption


@dataclass(frozen=True)
class Prefixes:
    """What paths begin with, and what takes its place; a slash at the end of either makes no difference.

    Example:
        >>> Prefixes("s3://lake/t", "s3://other/t/").moved("s3://lake/t/data/1.parquet", "the data file")
        's3://other/t/data/1.parquet'
    """

    source: str
    target: str

    def move(self, path: str, what: str) -> str:
        """The path with the other prefix; raises `InvalidOption` for a path with another one. `what` it is of."""
        (found,) = self.move_all(pa.array([path], pa.string()), what).to_pylist()
        return str(found)

    def move_all(self, paths: pa.Array, what: str) -> pa.Array:
        """The same of many paths; nulls stay."""
        source, target = self.source.rstrip("/"), self.target.rstrip("/")
        is_below = pc.or_(pc.starts_with(paths, f"{source}/"), pc.equal(paths, source))
        if (place := pc.index(is_below, False).as_py()) >= 0:
            raise InvalidOption(
                f"source_prefix={self.source!r}: {what} {paths[place].as_py()} does not begin with it. Give the prefix "
                "that all paths in the table's metadata have, as it is there"
            )
        rest = pc.utf8_slice_codeunits(paths, len(source))
        return pc.binary_join_element_wise(pa.scalar(target), rest, "")
