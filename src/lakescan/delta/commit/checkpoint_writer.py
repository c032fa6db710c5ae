"""Write the files of a checkpoint: one Parquet file (V1 spec), or sidecars and a file that names them (V2 spec)."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lakescan.delta.commit.file_changes import TEXTS
from lakescan.delta.commit.other_actions import OTHER_ACTIONS
from lakescan.delta.log.segment import LOG_FOLDER
from lakescan.storage import Storage, join
from lakescan.storage.faults import storage_boundary
from lakescan.storage.whole_file import replace_file

SIDECARS = "_sidecars"
_GROUP = 50_000  # actions of a row group, and of a sidecar, as in Delta on Spark
_SIDECAR = pa.struct(
    [("path", pa.string()), ("sizeInBytes", pa.int64()), ("modificationTime", pa.int64()), ("tags", TEXTS)]
)
_OF_V2 = {"checkpointMetadata": pa.struct([("version", pa.int64()), ("tags", TEXTS)]), "sidecar": _SIDECAR}
Row = tuple[str, dict[str, Any]]  # an action: its name, and its members in the form that Arrow takes


@dataclass(frozen=True)
class WrittenCheckpoint:
    """A checkpoint that was written: its version, the location of its file, actions, adds among them, and bytes.

    Actions and bytes include those of sidecars. `details` are members of `_last_checkpoint` about it.
    """

    version: int
    location: str
    actions: int
    adds: int
    size: int
    details: dict[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class CheckpointWriter:
    """Writes a checkpoint of a version: rows of files, and `others`, the rows of all other actions.

    `files` are the columns `add` and `remove`; `rows` yields them. `adds` is called after the last of them, for the
    number of adds: if it raises, there is no checkpoint.
    """

    location: str
    version: int
    storage: Storage
    files: pa.Schema
    others: Sequence[Row]
    adds: Callable[[], int]

    def write_classic(self, rows: Iterable[pa.Table]) -> WrittenCheckpoint:
        """Write one Parquet file; raises `StorageError`."""
        location = join(self.location, LOG_FOLDER, f"{self.version:020d}.checkpoint.parquet")
        schema = pa.schema([*OTHER_ACTIONS.items(), *self.files])
        first = _as_table(self.others, schema)
        with replace_file(self.storage, location) as stream:
            actions = _write(stream, location, schema, itertools.chain([first], _regroup(rows)))
            size, adds = int(stream.tell()), self.adds()
        return WrittenCheckpoint(self.version, location, actions, adds, size)

    def write_v2(self, rows: Iterable[pa.Table], now: int) -> WrittenCheckpoint:
        """Write sidecars and the Parquet file that names them; `now` in milliseconds. Raises `StorageError`."""
        sidecars: list[str] = []
        try:
            return self._write_v2(rows, now, sidecars)
        except BaseException:
            self.storage.remove(sidecars)  # nothing names them
            raise

    def _write_v2(self, rows: Iterable[pa.Table], now: int, sidecars: list[str]) -> WrittenCheckpoint:
        written: list[dict[str, Any]] = []
        actions = 0
        for group in _regroup(rows):
            name = f"{uuid.uuid4()}.parquet"
            sidecars.append(join(self.location, LOG_FOLDER, SIDECARS, name))
            size = self._write_sidecar(sidecars[-1], group)
            actions += group.num_rows
            written.append({"path": name, "sizeInBytes": size, "modificationTime": now, "tags": []})
        adds, of_sidecars = self.adds(), sum(each["sizeInBytes"] for each in written)
        counts = {"sidecarNumActions": actions, "sidecarSizeInBytes": of_sidecars, "numOfAddFiles": adds}
        tags = [(name, str(count)) for name, count in counts.items()]
        top = [
            ("checkpointMetadata", {"version": self.version, "tags": tags}),
            *(("sidecar", each) for each in written),
        ]
        name = f"{self.version:020d}.checkpoint.{uuid.uuid4()}.parquet"
        location = join(self.location, LOG_FOLDER, name)
        schema = pa.schema([*OTHER_ACTIONS.items(), *self.files, *_OF_V2.items()])
        with replace_file(self.storage, location) as stream:
            actions += _write(stream, location, schema, [_as_table([*top, *self.others], schema)])
            size = int(stream.tell())
        details = {"v2Checkpoint": {"path": name, "sizeInBytes": size, "modificationTime": now}}
        return WrittenCheckpoint(self.version, location, actions, adds, size + of_sidecars, details)

    def _write_sidecar(self, location: str, rows: pa.Table) -> int:
        with self.storage.writing(location) as stream:
            _write(stream, location, self.files, [rows])
            return int(stream.tell())


def _write(stream: pa.NativeFile, location: str, schema: pa.Schema, tables: Iterable[pa.Table]) -> int:
    """Write tables, each as a row group; the number of rows."""
    rows = 0
    with pq.ParquetWriter(stream, schema) as writer:
        for table in tables:
            missing = [f for f in schema if f.name not in table.column_names]
            for field in missing:
                table = table.append_column(field, pa.nulls(table.num_rows, field.type))
            with storage_boundary("written", location):
                writer.write_table(table.select(schema.names), row_group_size=max(1, table.num_rows))
            rows += table.num_rows
    return rows


def _as_table(rows: Sequence[Row], schema: pa.Schema) -> pa.Table:
    """Actions as a table of their columns."""
    names = [name for name in schema.names if any(name == each for each, _ in rows)]
    columns = [
        pa.array([node if each == name else None for each, node in rows], schema.field(name).type) for name in names
    ]
    return pa.table(columns, names=names)


def _regroup(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """The rows of tables in tables of `_GROUP` rows, the last one excepted."""
    waiting, count = list[pa.Table](), 0
    for table in tables:
        waiting.append(table)
        count += table.num_rows
        while count >= _GROUP:
            whole = pa.concat_tables(waiting)
            yield whole.slice(0, _GROUP)
            waiting, count = [whole.slice(_GROUP)], count - _GROUP
    if count:
        yield pa.concat_tables(waiting)
