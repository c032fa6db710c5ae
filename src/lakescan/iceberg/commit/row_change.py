"""A change of rows as file changes: data files removed and added, and deletes by position with what they replace."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import compress

import pyarrow as pa
import pyarrow.compute as pc

from lakescan.iceberg.commit.base import CommitBase
from lakescan.iceberg.commit.file_changes import DELETE_FILES, FileChanges
from lakescan.iceberg.commit.written_files import added_files
from lakescan.writing.row_deletes import WrittenDeletes
from lakescan.writing.table_writes import WrittenFile


@dataclass(frozen=True)
class RowChange:
    """The locations of data files to remove, deletes of rows of others, and new data files."""

    removed: tuple[str, ...]
    deletes: tuple[WrittenDeletes, ...]
    files: tuple[WrittenFile, ...]

    @property
    def operation(self) -> str:
        """The operation of its snapshot: by what it changes, as in Java's `BaseRowDelta` and `BaseOverwriteFiles`."""
        if not self.removed and not self.deletes:
            return "append"
        return "overwrite" if self.files else "delete"

    @property
    def referenced(self) -> pa.Array:
        """The data files that the deletes are about."""
        return pa.array([each.path for each in self.deletes], pa.string())

    @property
    def vectors(self) -> pa.Array:
        """Those whose deletes are vectors."""
        files = (each.details["file"].details for each in self.deletes)
        is_vector = pa.array(["content_offset" in each for each in files], pa.bool_())
        return self.referenced.filter(is_vector)

    def without(self, is_gone: Callable[[pa.Array], pa.Array]) -> RowChange:
        """The change without data files that are gone: they are not removed again, and need no deletes."""
        removed = pc.invert(is_gone(pa.array(self.removed, pa.string()))).to_pylist()
        stays = pc.invert(is_gone(self.referenced)).to_pylist()
        return replace(
            self, removed=tuple(compress(self.removed, removed)), deletes=tuple(compress(self.deletes, stays))
        )

    def on(self, base: CommitBase) -> FileChanges:
        """The file changes on a base; raises `CommitConflict` if it does not have the partition spec of a file."""
        return FileChanges(
            added_files(self.files, base),
            pa.array(self.removed, pa.string()),
            self.added_deletes(base),
            self._replaced,
            replaces_positions=True,
        )

    def added_deletes(self, base: CommitBase) -> dict[int, pa.Table]:
        """The delete files, each once: one may be about several data files."""
        files = (each.details["file"] for each in self.deletes)
        by_place = {(each.location, each.details.get("content_offset")): each for each in files}
        return added_files(by_place.values(), base)

    @property
    def _replaced(self) -> pa.Table:
        places = dict.fromkeys(place for each in self.deletes for place in each.details["replaced"])
        paths, offsets = [path for path, _ in places], [offset for _, offset in places]
        return pa.table([paths, offsets], schema=DELETE_FILES)
