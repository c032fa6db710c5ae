"""Tables, views and frames that the engine itself has, by short names."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa


class SessionNames:
    """What an engine has by short names; this one has nothing."""

    def has(self, name: str) -> bool:
        """Whether there is something of a name."""
        return False

    def has_catalog(self, name: str) -> bool:
        """Whether a name of several parts that begins so is the engine's own."""
        return False

    def columns(self, name: str) -> Sequence[str] | None:
        """Its columns; None if they are not known."""
        return None

    @property
    def has_queries(self) -> bool:
        """Whether some of the names may stand for queries."""
        return False

    def query(self, name: str) -> str | None:
        """The query, or the table, that a name stands for: it is read in its place. None for another name."""
        return None

    def frame_names(self) -> Sequence[str]:
        """The names of frames, in lower case."""
        return ()

    def rows(self, name: str) -> pa.Table | None:
        """Its rows, if they are at hand."""
        return None
