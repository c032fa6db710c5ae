"""Transforms of columns in the words of statements: `days(ts)` is the transform `day` of the column `ts`."""

from __future__ import annotations

from lakescan.common import types as t
from lakescan.common.references import parse_reference
from lakescan.common.schema import Schema
from lakescan.definition.table_definition import Term
from lakescan.errors import InvalidOption
from lakescan.iceberg.alter.column_tree import find_field
from lakescan.iceberg.metadata.partition_spec import Transform


def resolve_term(term: Term, schema: Schema, what: str) -> tuple[t.Field, Transform]:
    """The source column of a term, and its transform.

    Raises `NoSuchColumn`, and `InvalidOption` for a column that has no such transform; `what` is what it is for.
    """
    found = find_field(schema, parse_reference(term.column))
    transform = Transform(term.name, term.number)
    if found.is_in_collection:
        raise InvalidOption(f"{what} by {term}: {found.path} is in a list or a map, and has no single value in a row")
    if not transform.takes(found.field.type):
        raise InvalidOption(f"{what} by {term}: column {found.path} is {found.field.type}, which has no such transform")
    return found.field, transform
