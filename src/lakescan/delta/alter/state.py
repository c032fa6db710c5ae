"""What a table is while changes are applied to it, one after the other: all of them are one commit in the end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from lakescan.delta.alter.schema_tree import Node, Path, parse_schema_tree, schema_text
from lakescan.delta.metadata.protocol import Metadata, Protocol


@dataclass(frozen=True)
class RowCheck:
    """What all rows of the base must meet before the commit.

    Without a `condition` there must be no rows at all; `not_null` is the path of a column that must not be null.
    """

    refused: str
    condition: str | None = None
    not_null: Path | None = None


@dataclass(frozen=True)
class AlterStep:
    """A change as the table's history has it: Delta's name of the operation, and its parameters."""

    name: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True)
class TableState:
    """A table's protocol, metadata and clustering columns, and how they came to differ from those of its base.

    - `location`: the table's folder, for messages.
    - `clustering`: the physical paths of the clustering columns; None for a table that has no clustering.
    - `domains`: the domains that changed, as JSON text; None for one that is removed.
    - `checks`: what the rows of the base must meet.
    - `steps`: the changes, in order.
    - `backfills`: whether files that are there get row ids; `strips`: whether they lose them.
    """

    location: str
    protocol: Protocol
    metadata: Metadata
    clustering: tuple[Path, ...] | None = None
    domains: Mapping[str, str | None] = field(default_factory=dict)
    checks: tuple[RowCheck, ...] = ()
    steps: tuple[AlterStep, ...] = ()
    backfills: bool = False
    strips: bool = False

    @property
    def schema(self) -> Node:
        """The schema, parsed anew: it can be changed."""
        return parse_schema_tree(self.metadata.schema_string)

    @property
    def is_mapped(self) -> bool:
        """Whether columns are found in files by another name than their own, or by id."""
        return self.metadata.column_mapping_mode != "none"

    def with_schema(self, schema: Node) -> TableState:
        """This table with another schema."""
        return replace(self, metadata=replace(self.metadata, schema_string=schema_text(schema)))

    def with_configuration(self, configuration: Mapping[str, str]) -> TableState:
        """This table with other properties."""
        return replace(self, metadata=replace(self.metadata, configuration=dict(configuration)))

    def with_features(self, *names: str) -> TableState:
        """This table with more table features."""
        return replace(self, protocol=self.protocol.with_features(names))

    def with_check(self, check: RowCheck) -> TableState:
        """This table, as long as the rows of the base meet one more condition."""
        return replace(self, checks=(*self.checks, check))

    def with_step(self, operation: str, /, **parameters: Any) -> TableState:
        """This table with one more change in its history."""
        return replace(self, steps=(*self.steps, AlterStep(operation, parameters)))
