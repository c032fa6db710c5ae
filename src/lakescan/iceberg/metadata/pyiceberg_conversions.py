"""Convert lakescan's schemas, partition specs and sort orders to pyiceberg's objects."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from lakescan.common.schema import Schema
from lakescan.errors import UnsupportedFeature
from lakescan.iceberg.metadata.partition_spec import PartitionField, Transform
from lakescan.iceberg.metadata.schema_json import schema_node
from lakescan.iceberg.metadata.sort_order import SortField

if TYPE_CHECKING:
    from pyiceberg.partitioning import PartitionSpec as TheirSpec
    from pyiceberg.schema import Schema as TheirSchema
    from pyiceberg.table.sorting import SortOrder as TheirOrder


def pyiceberg_schema(schema: Schema, doing: str) -> TheirSchema:
    """Convert a schema; raises `UnsupportedFeature` for types that pyiceberg lacks, with `doing` in the message."""
    from pyiceberg.schema import Schema as TheirSchema

    try:
        return TheirSchema.model_validate_json(json.dumps(schema_node(schema)))
    except ValueError as error:
        why = str(error).splitlines()[-2].strip() if len(str(error).splitlines()) > 1 else str(error)
        raise UnsupportedFeature(doing, why) from error


def pyiceberg_spec(spec_id: int, fields: Iterable[PartitionField]) -> TheirSpec:
    """Convert partition fields to a pyiceberg partition spec."""
    from pyiceberg.partitioning import PartitionField as TheirField
    from pyiceberg.partitioning import PartitionSpec as TheirSpec

    given = (TheirField(each.source_id, each.id, pyiceberg_transform(each.transform), each.name) for each in fields)
    return TheirSpec(*given, spec_id=spec_id)


def pyiceberg_sort_order(order_id: int, fields: Iterable[SortField]) -> TheirOrder:
    """Convert sort fields to a pyiceberg sort order; the order id 0 means unsorted."""
    from pyiceberg.table.sorting import NullOrder, SortDirection
    from pyiceberg.table.sorting import SortField as TheirField
    from pyiceberg.table.sorting import SortOrder as TheirOrder

    given = (
        TheirField(
            each.source_id,
            pyiceberg_transform(each.transform),
            SortDirection(each.direction),
            NullOrder(each.null_order),
        )
        for each in fields
    )
    return TheirOrder(*given, order_id=order_id)


def pyiceberg_transform(transform: Transform) -> Any:
    """Convert a transform to pyiceberg's."""
    from pyiceberg.transforms import parse_transform

    return parse_transform(str(transform))
