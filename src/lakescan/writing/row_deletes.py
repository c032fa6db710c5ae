"""Deletes of rows by position, as each format writes them: the interface, and what was written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from pyroaring import BitMap64

from lakescan.planning.file_table import FileTable


@dataclass(frozen=True)
class WrittenDeletes:
    """The deletes of one data file that were written, and that no commit names yet. Pickled by workers.

    - `path`: the data file, as file tables have it.
    - `rows`: how many of its rows are deleted now that were not before.
    - `location`: the file with the deletes; several data files may share it.
    - `details`: what the format commits.
    """

    path: str
    rows: int
    location: str
    details: Mapping[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class DeleteLimits:
    """Which files of position deletes are rewritten: all, or those of partitions that have enough too small or large.

    Sizes are in bytes; None stands for 75% and 180% of the target size.
    """

    everything: bool = False
    files: int = 5
    smallest: int | None = None
    largest: int | None = None


class DeleteWriter(Protocol):
    """Writes deletes of rows by position. Pickled for workers."""

    def write(self, files: FileTable, positions: Sequence[BitMap64]) -> Sequence[WrittenDeletes]:
        """Write the deletes of data files: those to make, united with those that the files have, where these are by
        position and the format has one delete for each file.

        Args:
            files: The data files, each once, with the deletes that they have; of the base.
            positions: The rows to delete of each, counted from 0; rows that are deleted already, too.

        Returns:
            The deletes of each data file that loses rows; a file whose rows are deleted already has none.

        Raises:
            CorruptData: A row does not exist, or an existing delete does not fit its file; nothing is written.
            StorageError: Storage failed; what was written is removed if that is possible.
        """

    def remove_written(self) -> Sequence[str]:
        """Remove all files of this write, whichever worker wrote them; return those that could not be removed.

        Not for files that a commit may name. It lists the table's folder.
        """
