"""Sort orders: how writers should sort rows within files (specification, "Sorting")."""

from __future__ import annotations

from dataclasses import dataclass

from lakescan.common.schema import Schema
from lakescan.iceberg.metadata.json_document import INT_MAX, Node
from lakescan.iceberg.metadata.partition_spec import Transform, describe_transform, source_id


@dataclass(frozen=True)
class SortField:
    """A sort field: source column, transform, direction (asc, desc) and null order (nulls-first, nulls-last)."""

    source_id: int
    transform: Transform
    direction: str
    null_order: str


@dataclass(frozen=True)
class SortOrder:
    """A sort order: its fields, the most significant first; empty for unsorted tables."""

    id: int
    fields: tuple[SortField, ...]

    def describe(self, schema: Schema) -> str:
        """Return the order as text, such as `day(ts) desc nulls last, id asc nulls first`, or `unsorted`."""
        parts = [
            f"{describe_transform(f.transform, schema.reference_of.get(f.source_id, f'#{f.source_id}'))} {f.direction} "
            f"{f.null_order.replace('-', ' ')}"
            for f in self.fields
        ]
        return ", ".join(parts) or "unsorted"


UNSORTED = SortOrder(0, ())


def parse_sort_order(node: Node) -> SortOrder:
    """Parse a sort order; raises `CorruptMetadata` for a missing member or one of another type.

    The texts of direction and null order are not checked.
    """
    fields = tuple(
        SortField(source_id(each), Transform.read(each), each.text("direction"), each.text("null-order"))
        for each in node.children("fields")
    )
    return SortOrder(node.integer("order-id", most=INT_MAX), fields)
