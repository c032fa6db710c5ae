"""The summary of a snapshot: counters of its changes, and the resulting totals, under Java's names.

See the specification, appendix F ("Optional Snapshot Summary Fields").
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common.arrays import float_bits, row_numbers
from lakescan.iceberg.manifests.manifest_file import DATA_FILE, EQUALITY_DELETES, POSITION_DELETES
from lakescan.writing.partition_key import physical_values

_PUFFIN = "puffin"
_ALWAYS = {"manifests-created", "manifests-kept", "manifests-replaced"}
# The total, the counter added to it, and the counter subtracted from it.
_TOTALS = (
    ("total-records", "added-records", "deleted-records"),
    ("total-files-size", "added-files-size", "removed-files-size"),
    ("total-data-files", "added-data-files", "deleted-data-files"),
    ("total-delete-files", "added-delete-files", "removed-delete-files"),
    ("total-position-deletes", "added-position-deletes", "removed-position-deletes"),
    ("total-equality-deletes", "added-equality-deletes", "removed-equality-deletes"),
)


Partition = tuple[int, tuple[Any, ...]]  # a spec id, and values, with dates and times as numbers


@dataclass
class SummaryCounters:
    """Counts the files that a snapshot adds and removes; zero counters are left out of the summary.

    Up to `partition_limit` changed partitions (`write.summary.partition-limit`) have their own counters.
    """

    partition_limit: int = 0
    counters: Counter[str] = field(default_factory=Counter)
    partitions: dict[Partition, Counter[str]] = field(default_factory=dict)

    def add(self, files: pa.StructArray, spec_id: int) -> None:
        """Count added files, which are rows of `data_file`."""
        self._count(files, spec_id, "added", "added")

    def remove(self, files: pa.StructArray, spec_id: int) -> None:
        """Count removed files, which are rows of `data_file`."""
        self._count(files, spec_id, "deleted", "removed")

    def _count(self, files: pa.StructArray, spec_id: int, data: str, deletes: str) -> None:
        self.counters.update(_count_files(files, data, deletes))
        keys, numbers = _keys(files.field("partition"))
        for number, key in enumerate(keys):
            own = self.partitions.setdefault((spec_id, key), Counter())
            if len(self.partitions) <= self.partition_limit:
                own.update(_count_files(files.filter(pa.array(numbers == number)), data, deletes))

    def manifests(self, *, created: int, kept: int, replaced: int) -> None:
        """Count the manifests of the new snapshot."""
        self.counters.update({"manifests-created": created, "manifests-kept": kept, "manifests-replaced": replaced})

    def summary(
        self,
        before: Mapping[str, str] | None,
        properties: Mapping[str, str],
        path_of: Callable[[Partition], str | None],
    ) -> dict[str, str]:
        """Return the summary: `properties`, the counters, and totals that follow from the parent's summary `before`.

        If the parent lacks a total, it stays unknown; without a parent, totals begin with 0. `path_of` returns the name
        of a partition in the summary, or None if it has no name.
        """
        counted = {name: str(number) for name, number in self.counters.items() if number > 0 or name in _ALWAYS}
        counted["changed-partition-count"] = str(len(self.partitions))
        return {**properties, **counted, **self._partition_summaries(path_of), **dict(self._totals(before))}

    def _partition_summaries(self, path_of: Callable[[Partition], str | None]) -> dict[str, str]:
        if not 0 < len(self.partitions) <= self.partition_limit:
            return {}
        named = {path_of(partition): counters for partition, counters in self.partitions.items()}
        texts = {
            f"partitions.{path}": ",".join(f"{name}={number}" for name, number in counters.items() if number > 0)
            for path, counters in named.items()
            if path
        }
        return {"partition-summaries-included": "true", **texts}

    def _totals(self, before: Mapping[str, str] | None) -> Iterable[tuple[str, str]]:
        for total, added, removed in _TOTALS:
            start = "0" if before is None else before.get(total, "")
            if start.isascii() and start.isdigit():
                number = int(start) + self.counters.get(added, 0) - self.counters.get(removed, 0)
                if number >= 0:
                    yield total, str(number)


def _count_files(files: pa.StructArray, data: str, deletes: str) -> dict[str, int]:
    """Return the counters of files, named with the prefix `data` for data files or `deletes` for delete files."""
    columns = {kind.name: column for kind, column in zip(files.type, files.flatten(), strict=True)}
    content, rows = columns["content"], columns["record_count"]
    is_vector = pc.equal(pc.utf8_lower(columns["file_format"]), _PUFFIN)
    size = columns["file_size_in_bytes"]
    if "content_size_in_bytes" in columns:
        size = pc.if_else(is_vector, pc.coalesce(columns["content_size_in_bytes"], size), size)
    is_data, by_position = pc.equal(content, DATA_FILE), pc.equal(content, POSITION_DELETES)
    by_key = pc.equal(content, EQUALITY_DELETES)
    sums = {
        f"{data}-data-files": pc.sum(is_data),
        f"{data}-records": pc.sum(pc.if_else(is_data, rows, 0)),
        f"{deletes}-files-size": pc.sum(size),
        f"{deletes}-delete-files": pc.sum(pc.invert(is_data)),
        f"{deletes}-dvs": pc.sum(pc.and_(by_position, is_vector)),
        f"{deletes}-position-delete-files": pc.sum(pc.and_(by_position, pc.invert(is_vector))),
        f"{deletes}-position-deletes": pc.sum(pc.if_else(by_position, rows, 0)),
        f"{deletes}-equality-delete-files": pc.sum(by_key),
        f"{deletes}-equality-deletes": pc.sum(pc.if_else(by_key, rows, 0)),
    }
    return {name: number.as_py() or 0 for name, number in sums.items()}


def _keys(partitions: pa.StructArray) -> tuple[list[tuple[Any, ...]], np.ndarray]:
    """Return the distinct partitions, and for each file the index of its partition."""
    if not len(partitions):
        return [], np.zeros(0, np.int64)
    values = [physical_values(each) for each in partitions.flatten()]
    if not values:
        return [()], np.zeros(len(partitions), np.int64)
    _, first, places = np.unique(row_numbers(map(float_bits, values)), return_index=True, return_inverse=True)
    columns = [each.take(pa.array(first)).to_pylist() for each in values]
    return list(zip(*columns, strict=True)), places
