"""Read Parquet checkpoint files: selected columns of their rows, and their non-file actions."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakescan.common.arrays import struct_member
from lakescan.delta.log.log_text import ADVICE, Action, LogText, single_actions
from lakescan.errors import CorruptMetadata
from lakescan.reading.decoding_errors import decoding
from lakescan.reading.parquet.footer import open_lenient
from lakescan.storage import FileEntry, Storage

_BATCH_ROWS = 1 << 17
# Each row is a distinct action with its own path or id, so no real checkpoint has more rows or uncompressed bytes per
# byte of file than this. Up to _FEW_ROWS and _FEW_BYTES, a file is read whatever its size.
_ROWS_PER_BYTE, _FEW_ROWS = 16, 1 << 20
_BYTES_PER_BYTE, _FEW_BYTES = 400, 1 << 28
_WITHOUT_FILES = (
    "txn", "remove", "metaData", "protocol", "domainMetadata", "checkpointMetadata", "sidecar",
)  # fmt: skip
_TEXTS = (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())


@dataclass(frozen=True)
class CheckpointFile:
    """A Parquet checkpoint, checkpoint part or sidecar."""

    location: str
    storage: Storage

    def where(self, row: int) -> str:
        """Return location and row for messages; `row` counts from 0."""
        return f"{self.location}, row {row + 1}"

    def members(self) -> dict[str, tuple[str, ...]]:
        """Return the field names of each struct column, by column name; an empty tuple for other columns."""
        with self._open_file() as file:
            kinds = {field.name: field.type for field in file.schema_arrow}
        return {n: tuple(f.name for f in k) if pa.types.is_struct(k) else () for n, k in kinds.items()}

    def count(self, column: str) -> int:
        """Return the number of rows whose `column` is not null; the column must exist."""
        with self._open_file() as file:
            return sum(len(batch) - batch.column(0).null_count for batch in file.iter_batches(columns=[column]))

    def batches(self, column: str, members: Sequence[str]) -> Iterator[tuple[pa.ChunkedArray, int]]:
        """Yield batches of a struct column with only the fields `members`, each with the row number where it starts.

        Yields nothing if the column is missing; `add` may be missing only if all rows are other actions. Raises
        `CorruptMetadata` if the file is damaged or the struct has no text field `path`.
        """
        with self._open_file() as file:
            kind = _struct_of(file, column)
            if kind is None and (column != "add" or self._has_only_other_actions(file)):
                return
            if kind is None or not _has_paths(kind):
                raise CorruptMetadata(
                    f"{self.location} is not a checkpoint: it has no text column {column}.path. {ADVICE}"
                )
            columns = [f"{column}.{name}" for name in members if kind.get_field_index(name) >= 0]
            start = 0
            for batch in file.iter_batches(_BATCH_ROWS, columns=columns):
                _check_texts(batch[column])
                yield pa.chunked_array([batch[column]]), start
                start += batch.num_rows
            self._check_rows(start, file.metadata.num_rows)

    def single(self, name: str, required: str) -> Iterator[Action]:
        """Yield the actions of one name: rows whose struct column of that name has the `required` field.

        Yields nothing if the column or the field is missing. The field is decoded first, and the others only in row
        groups that have such actions, since most have only file actions.
        """
        with self._open_file() as file:
            kind = _struct_of(file, name)
            if kind is None or kind.get_field_index(required) < 0:
                return
            at = self._places(file, name, required)
            groups_of_file = range(file.metadata.num_row_groups)
            sizes = np.array([file.metadata.row_group(n).num_rows for n in groups_of_file], dtype=np.int64)
            ends = np.cumsum(sizes)
            groups, group_of = np.unique(np.searchsorted(ends, at, side="right"), return_inverse=True)
            rows = file.read_row_groups(groups.tolist(), columns=[name])[name]
            self._check_rows(len(rows), int(sizes[groups].sum()))
            within = at - (ends - sizes)[groups][group_of] + (np.cumsum(sizes[groups]) - sizes[groups])[group_of]
            nodes = rows.take(pa.array(within)).to_pylist(maps_as_pydicts="lossy")
        yield from (Action(name, node, self.where(row)) for row, node in zip(at.tolist(), nodes, strict=True))

    def _places(self, file: pq.ParquetFile, name: str, required: str) -> np.ndarray:
        """Return the numbers of the rows whose struct column `name` has a value in the field `required`."""
        rows = file.read(columns=[f"{name}.{required}"])[name]
        self._check_rows(len(rows), file.metadata.num_rows)
        present = pc.and_(rows.is_valid(), pc.is_valid(pc.struct_field(rows, required)))
        return pc.indices_nonzero(present).to_numpy().astype(np.int64)

    def _has_only_other_actions(self, file: pq.ParquetFile) -> bool:
        """Return whether every row is an action other than `add`; a row with no known action could be an `add`."""
        if not file.metadata.num_rows:
            return True
        names = [name for name in _WITHOUT_FILES if _struct_of(file, name) is not None]
        rows = file.read(columns=names)
        self._check_rows(rows.num_rows, file.metadata.num_rows)
        present = [rows[name].is_valid() for name in names]
        return bool(present) and pc.all(functools.reduce(pc.or_, present)).as_py()

    @contextmanager
    def _open_file(self) -> Iterator[pq.ParquetFile]:
        with decoding(self.location, "the checkpoint"), self.storage.open(self.location) as handle:
            file = open_lenient(handle, self.location)
            self._check_size(file.metadata, handle.size())
            yield file

    def _check_size(self, metadata: pq.FileMetaData, size: int) -> None:
        groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
        if metadata.num_rows != sum(group.num_rows for group in groups):
            raise CorruptMetadata(
                f"{self.location}: the footer counts {metadata.num_rows:,} rows, its row groups "
                f"{sum(group.num_rows for group in groups):,}: the footer is damaged. {ADVICE}"
            )
        unpacked = sum(group.total_byte_size for group in groups)
        if metadata.num_rows > max(_FEW_ROWS, size * _ROWS_PER_BYTE) or unpacked > max(
            _FEW_BYTES, size * _BYTES_PER_BYTE
        ):
            raise CorruptMetadata(
                f"{self.location}: the footer claims {metadata.num_rows:,} rows of {unpacked:,} bytes in a file of "
                f"{size:,} bytes, more than a checkpoint can hold. {ADVICE}"
            )

    def _check_rows(self, decoded: int, stated: int) -> None:
        if decoded != stated:
            raise CorruptMetadata(
                f"{self.location} has {decoded:,} rows, but its footer counts {stated:,}: a page is damaged. {ADVICE}"
            )


def _struct_of(file: pq.ParquetFile, column: str) -> pa.StructType | None:
    schema = file.schema_arrow
    kind = schema.field(column).type if column in schema.names else None
    return kind if kind is not None and pa.types.is_struct(kind) else None


def _has_paths(kind: pa.StructType) -> bool:
    index = kind.get_field_index("path")
    return index >= 0 and kind.field(index).type in _TEXTS


def _check_texts(rows: pa.StructArray) -> None:
    """Raise `ArrowInvalid` for strings that are not UTF-8, except in statistics, where they are harmless."""
    for field in rows.type:
        if field.name not in ("stats", "stats_parsed"):
            struct_member(rows, field.name).validate(full=True)


# A required field of each action, which marks the rows of a Parquet checkpoint that hold the action.
_REQUIRED_MEMBER = {
    "protocol": "minReaderVersion",
    "metaData": "schemaString",
    "txn": "appId",
    "domainMetadata": "domain",
    "checkpointMetadata": "version",
}
_UNIQUE_NAME = re.compile(r"\d{20}\.checkpoint\.[0-9a-fA-F-]{36}\.(json|parquet)")


def checkpoint_actions(location: str, storage: Storage, names: tuple[str, ...]) -> Iterator[Action]:
    """Yield the non-file actions of these names (such as protocol or txn) in one checkpoint file, JSON or Parquet."""
    if location.endswith(".json"):
        yield from single_actions(LogText(location, storage.read(location)), names)
        return
    file = CheckpointFile(location, storage)
    for name in names:
        yield from file.single(name, _REQUIRED_MEMBER[name])


def check_checkpoint(file: FileEntry, version: int, storage: Storage) -> None:
    """Raise `CorruptMetadata` if a UUID-named checkpoint has no checkpointMetadata action of its version.

    A truncated checkpoint may have lost the names of its sidecars (protocol, "V2 Spec").
    """
    if _UNIQUE_NAME.fullmatch(file.name) is None:
        return
    actions = checkpoint_actions(file.location, storage, ("checkpointMetadata",))
    versions = [action.whole_number("version") for action in actions]
    if versions != [version]:
        fault = "has no checkpointMetadata action" if not versions else f"has checkpointMetadata.version {versions[0]}"
        raise CorruptMetadata(
            f"{file.location} {fault}, but its name has version {version}: it was truncated or renamed. {ADVICE}"
        )
