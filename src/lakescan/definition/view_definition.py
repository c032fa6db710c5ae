"""The definition of a view to create."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lakescan.common import types as t


@dataclass(frozen=True)
class ViewDefinition:
    """A view to create.

    - `query`: the query's text, in Spark's dialect.
    - `columns`: the view's columns, with ids.
    - `query_columns`: the query's own names of these columns.
    - `within`: the catalog and namespace of the query's unqualified table names.
    """

    query: str
    columns: tuple[t.Field, ...]
    query_columns: tuple[str, ...]
    within: tuple[str, ...]
    comment: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
