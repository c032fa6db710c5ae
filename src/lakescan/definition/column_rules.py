"""What a new table says of its columns beside their types: defaults, expressions, identities, lengths of texts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class IdentityColumn:
    """A column whose values are assigned: `start`, then in steps; rows may bring their own with `allows_values`."""

    start: int = 1
    step: int = 1
    allows_values: bool = False


@dataclass(frozen=True)
class NewColumnRule:
    """What is declared for one column.

    - `default`: SQL text of the value of rows that do not have it.
    - `generated`: SQL text of the expression that computes it.
    - `identity`: how its values are assigned.
    - `lengths`: its type as text, with CHAR and VARCHAR, if there are any in it.
    """

    default: str | None = None
    generated: str | None = None
    identity: IdentityColumn | None = None
    lengths: str | None = None


@dataclass(frozen=True)
class TableDeclarations:
    """What a table declares beside columns and properties: rules of columns, clustering columns, constraints.

    See `TableDefinition`.
    """

    rules: Mapping[str, NewColumnRule] = field(default_factory=dict)
    cluster_by: tuple[tuple[str, ...], ...] = ()
    constraints: Mapping[str, str] = field(default_factory=dict)
