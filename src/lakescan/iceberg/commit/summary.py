"""The summary of a snapshot: counters of what it changed, and the totals after it, under Java's names.

Specification, appendix F ("Optional Snapshot Summary Fields").
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

DATA_FILES, POSITION_DELETES, EQUALITY_DELETES = 0, 1, 2
_PUFFIN = "puffin"
# The total, what is added to it and what is removed from it.
_TOTALS = (
    ("total-records", "added-records", "deleted-records"),
    ("total-files-size", "added-files-size", "removed-files-size"),
    ("total-data-files", "added-data-files", "deleted-data-files"),
    ("total-delete-files", "added-delete-files", "removed-delete-files"),
    ("total-position-deletes", "added-position-deletes", "removed-position-deletes"),
    ("total-equality-deletes", "added-equality-deletes", "removed-equality-deletes"),
)


@dataclass
class SummaryCounters:
    """Counts files that a snapshot adds and removes; zero counters are left out of the summary."""

    counters: dict[str, int] = field(default_factory=dict)
    partitions: set[tuple[int, str]] = field(default_factory=set)

    def add(self, files: pa.StructArray, spec_id: int) -> None:
        """Count added files: rows of `data_file`."""
        self._count(files, spec_id, "added", "added")

    def remove(self, files: pa.StructArray, spec_id: int) -> None:
        """Count removed files: rows of `data_file`."""
        self._count(files, spec_id, "deleted", "removed")

    def _count(self, files: pa.StructArray, spec_id: int, data: str, deletes: str) -> None:
        columns = {kind.name: column for kind, column in zip(files.type, files.flatten(), strict=True)}
        content, rows = columns["content"], columns["record_count"]
        is_vector = pc.equal(pc.utf8_lower(columns["file_format"]), _PUFFIN)
        size = columns["file_size_in_bytes"]
        if "content_size_in_bytes" in columns:
            size = pc.if_else(is_vector, pc.coalesce(columns["content_size_in_bytes"], size), size)
        is_data, by_position = pc.equal(content, DATA_FILES), pc.equal(content, POSITION_DELETES)
        by_key = pc.equal(content, EQUALITY_DELETES)
        counted = {
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
        for name, number in counted.items():
            self.counters[name] = self.counters.get(name, 0) + (number.as_py() or 0)
        self.partitions |= {(spec_id, key) for key in _keys(columns["partition"])}

    def manifests(self, *, created: int, kept: int, replaced: int) -> None:
        """Count the manifests of the new snapshot."""
        self.counters |= {"manifests-created": created, "manifests-kept": kept, "manifests-replaced": replaced}

    def summary(self, before: Mapping[str, str] | None, properties: Mapping[str, str]) -> dict[str, str]:
        """Return the summary: `properties`, the counters, and totals that follow from the parent's summary `before`.

        A parent without a total leaves it unknown; without a parent, totals begin with 0.
        """
        always = {"manifests-created", "manifests-kept", "manifests-replaced"}
        counted = {name: str(number) for name, number in self.counters.items() if number > 0 or name in always}
        counted["changed-partition-count"] = str(len(self.partitions))
        return {**properties, **counted, **dict(self._totals(before))}

    def _totals(self, before: Mapping[str, str] | None) -> Iterable[tuple[str, str]]:
        for total, added, removed in _TOTALS:
            start = "0" if before is None else before.get(total, "")
            if start.isascii() and start.isdigit():
                number = int(start) + self.counters.get(added, 0) - self.counters.get(removed, 0)
                if number >= 0:
                    yield total, str(number)


def _keys(partitions: pa.StructArray) -> list[str]:
    """The distinct partitions, each as text."""
    columns = [each.storage if isinstance(each, pa.ExtensionArray) else each for each in partitions.flatten()]
    if not columns:
        return [""] if len(partitions) else []
    names = [str(number) for number in range(len(columns))]
    distinct = pa.table(columns, names=names).group_by(names).aggregate([])
    return [repr(tuple(row.values())) for row in distinct.to_pylist()]
