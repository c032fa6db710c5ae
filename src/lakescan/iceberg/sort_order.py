"""Sort orders: how a table's writers are asked to sort rows within files (specification, "Sorting")."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lakescan.errors import CorruptMetadata
from lakescan.iceberg.partition_spec import Transform, described
from lakescan.schema import Schema


@dataclass(frozen=True)
class SortField:
    """A transform of a source column, its direction (asc, desc) and where nulls go (nulls-first, nulls-last)."""

    source_id: int
    transform: Transform
    direction: str
    null_order: str


@dataclass(frozen=True)
class SortOrder:
    """Fields, the most significant first; none for unsorted tables."""

    id: int
    fields: tuple[SortField, ...]

    def describe(self, schema: Schema) -> str:
        """The order in words, such as `day(ts) desc nulls last, id asc nulls first`."""
        parts = [
            f"{described(f.transform, schema.path_of.get(f.source_id, f'#{f.source_id}'))} {f.direction} "
            f"{f.null_order.replace('-', ' ')}"
            for f in self.fields
        ]
        return ", ".join(parts) or "unsorted"


UNSORTED = SortOrder(0, ())


def parse_sort_order(node: Mapping[str, Any], where: str) -> SortOrder:
    """A sort order of table metadata; raises `CorruptMetadata` naming `where` it was read."""
    try:
        fields = tuple(
            SortField(
                int(f["source-id"] if "source-id" in f else f["source-ids"][0]),
                Transform.parse(f["transform"]),
                str(f["direction"]),
                str(f["null-order"]),
            )
            for f in node["fields"]
        )
        return SortOrder(int(node["order-id"]), fields)
    except (KeyError, IndexError, TypeError) as error:
        raise CorruptMetadata(f"{where}: a sort order lacks {error}") from error
