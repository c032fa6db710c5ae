"""What a view is to be: its query, its columns, and what its names mean."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lakescan.common import types as t


@dataclass(frozen=True)
class ViewDefinition:
    """A view to make.

    - `query`: its text, in Spark's dialect.
    - `columns`: its columns, with ids; `query_columns`: what the query calls them.
    - `within`: the catalog and the namespace of the query's short names.
    """

    query: str
    columns: tuple[t.Field, ...]
    query_columns: tuple[str, ...]
    within: tuple[str, ...]
    comment: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
