"""A table's sort orders as terms, and the keys that rows are sorted by."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lakescan.common import types as t
from lakescan.common.references import dotted_path
from lakescan.common.schema import Schema
from lakescan.definition.table_definition import SortTerm, Term
from lakescan.errors import InvalidOption, UnsupportedFeature
from lakescan.iceberg.metadata.partition_spec import Transform
from lakescan.reading.casting import cast_leaf
from lakescan.writing.sort_keys import SortKey, sort_key


def terms_of(order: Any, schema: Schema, location: str) -> tuple[SortTerm, ...]:
    """The terms of a sort order (pyiceberg's); raises `UnsupportedFeature` if a column of it is gone."""
    terms = []
    for field in order.fields:
        if field.source_id not in schema.by_id and field.source_id not in schema.path_of:
            raise UnsupportedFeature(
                f"sorting rows of {location} by a column that was dropped", "Replace the table's sort order."
            )
        column = dotted_path([each.name for each in schema.struct_path(field.source_id)])
        transform = Transform.parse(str(field.transform))
        terms.append(
            SortTerm(
                Term(column, transform.name, transform.parameter),
                field.direction.name == "DESC",
                field.null_order.name == "NULLS_FIRST",
            )
        )
    return tuple(terms)


def order_id(terms: Sequence[SortTerm], metadata: Any, schema: Schema, location: str) -> int | None:
    """The id of the table's sort order with these terms; None if it has none such."""
    for order in metadata.sort_orders:
        known = all(field.source_id in schema.path_of for field in order.fields)
        if terms and known and terms_of(order, schema, location) == tuple(terms):
            return int(order.order_id)
    return None


def keys_of(terms: Sequence[SortTerm], metadata: Any, schema: Schema) -> tuple[SortKey, ...]:
    """The keys of terms; raises `NoSuchColumn`, and `InvalidOption` for a column that cannot be sorted by."""
    return tuple(sort_key(each, schema, _transform_of(each.term, metadata, schema)) for each in terms)


def _transform_of(term: Term, metadata: Any, schema: Schema) -> Any:
    from pyiceberg.transforms import parse_transform

    if term.name == "identity":
        return None
    transform = parse_transform(term.name if term.number is None else f"{term.name}[{term.number}]")
    source = metadata.schema().find_field(schema.field(term.column).id).field_type
    if not transform.can_transform(source):
        raise InvalidOption(f"{term}: column {term.column!r} is {source}, which has no such transform")
    return arrow_transform(transform, source)


def arrow_transform(transform: Any, kind: Any) -> Any:
    """pyiceberg's transform of Arrow arrays; nanoseconds are cast to microseconds, except for identity and void."""
    if not str(kind).endswith("_ns") or str(transform) in ("identity", "void"):
        return transform.pyarrow_transform(kind)
    from pyiceberg.types import TimestampType, TimestamptzType

    of_micros = transform.pyarrow_transform(TimestamptzType() if "tz" in str(kind) else TimestampType())
    return lambda values: of_micros(cast_leaf(values, t.Timestamp("us", zoned="tz" in str(kind)), ""))
