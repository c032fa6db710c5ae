"""Tables, views and frames that the engine itself has, by short names."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa


class Views:
    """What an engine has by short names; this one has nothing."""

    def has(self, name: str) -> bool:
        """Whether there is something of a name."""
        return False

    def columns(self, name: str) -> Sequence[str] | None:
        """Its columns; None if they are not known."""
        return None

    def rows(self, name: str) -> pa.Table | None:
        """Its rows, if they are at hand."""
        return None
