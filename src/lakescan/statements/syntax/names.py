"""Parts of a statement: text that is kept as it is, and names of tables."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Sql:
    """A part of a statement's text; `start` is its place in the whole, for messages."""

    text: str
    start: int = 0

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class TableName:
    """The table that a statement changes: the parts of its name without quotes, and its alias.

    The parts are as in a FROM: `("cat", "db", "t")`, `("delta", "/path")`, `("t", "branch_x")`.
    """

    parts: tuple[str, ...]
    alias: str | None = None
    start: int = 0
    end: int = 0

    @property
    def qualifier(self) -> str:
        """The name by which expressions refer to it."""
        return self.alias or self.parts[-1]
