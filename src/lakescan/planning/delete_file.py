"""Delete files and deletion vectors as records, for the tasks that read them; planning works on the table's columns."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any

import pyarrow as pa


class DeleteKind(StrEnum):
    """How a delete says which rows it deletes, by its name in the column `kind` of delete tables."""

    POSITION = "position-deletes"
    VECTOR = "deletion-vector"
    EQUALITY = "equality-deletes"


@dataclass(frozen=True)
class DeleteFile:
    """A delete file or deletion vector: one row of a delete table (`planning.file_table.DELETES`).

    Attributes:
        kind: Position deletes, a deletion vector, or equality deletes.
        path: The file; None for an inline vector.
        file_format: parquet, orc, avro or puffin; None for a Delta vector.
        offset: Where a vector begins in its file, in bytes.
        length: The bytes of a vector in its file.
        inline: An inline vector.
        record_count: The number of deleted rows, or of equality keys; None if not recorded.
        size: The bytes to read, as recorded.
        sequence_number: The data sequence number (Iceberg).
        equality_ids: The ids of the fields that an equality delete compares.
        key_metadata: The key of an encrypted file.
        scope: The partition of an equality delete; empty for the whole table.
        kept: Whether it is inverted: only the rows that it names are read.

    Example:
        >>> [delete.path for task in plan.groups[0].tasks() for delete in task.deletes]
    """

    kind: DeleteKind
    path: str | None = None
    file_format: str | None = None
    offset: int | None = None
    length: int | None = None
    inline: bytes | None = field(default=None, repr=False)
    record_count: int | None = None
    size: int | None = None
    sequence_number: int | None = None
    equality_ids: tuple[int, ...] = ()
    key_metadata: bytes | None = field(default=None, repr=False)
    scope: str | None = None
    kept: bool = False

    @property
    def location(self) -> str:
        """The path of a delete that is in a file, as all but inline vectors are."""
        assert self.path is not None
        return self.path

    @property
    def row_format(self) -> str:
        """The file format of position and equality deletes, which are rows of a file."""
        assert self.file_format is not None
        return self.file_format

    @property
    def age(self) -> int:
        """The sequence number of an equality delete, which always has one."""
        assert self.sequence_number is not None
        return self.sequence_number

    def __getitem__(self, name: str) -> Any:
        """A member by its name, as of the dictionary that deletes were in earlier releases; warns."""
        warnings.warn(f"deletes are records: use .{name} instead of [{name!r}]", DeprecationWarning, stacklevel=2)
        if name not in _NAMES:
            raise KeyError(name)
        return getattr(self, name)


_NAMES = tuple(each.name for each in fields(DeleteFile))


def delete_files(deletes: pa.Table) -> tuple[DeleteFile, ...]:
    """Return the rows of a delete table as records."""
    rows = zip(*(deletes[name].to_pylist() for name in _NAMES), strict=True)
    return tuple(map(_record, rows))


def _record(row: tuple[Any, ...]) -> DeleteFile:
    values = dict(zip(_NAMES, row, strict=True))
    values["kind"] = DeleteKind(values["kind"])
    values["equality_ids"] = tuple(values["equality_ids"] or ())
    values["kept"] = bool(values["kept"])
    return DeleteFile(**values)


class DeleteFiles:
    """The deletes of a task group as records, each made when a task first asks for it, and shared by the tasks."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table
        self._known: dict[int, DeleteFile] = {}

    def at(self, rows: Sequence[int]) -> tuple[DeleteFile, ...]:
        """Return the deletes in these rows of the table."""
        new = [number for number in dict.fromkeys(rows) if number not in self._known]
        if new:
            made = delete_files(self.table.take(pa.array(new, pa.int32())))
            self._known.update(zip(new, made, strict=True))
        return tuple(self._known[number] for number in rows)
