"""Writing by Spark's own calls: `df.write.format(...)` and `df.writeStream.format(...)`.

Tasks write files and hand over what they wrote; a worker beside the driver commits it, once. A micro-batch that Spark
repeats is found by the numbers of the query and the batch, which are kept with the commit, and is not committed again.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from lakescan.catalogs.registry import give_all
from lakescan.errors import CommitConflict, InvalidOption, UnsupportedFeature
from lakescan.options.write import WriteOptions
from lakescan.scan_spec import as_predicate
from lakescan.storage.removal import discard
from lakescan.storage.storage import Storage, join
from lakescan.transaction.base import Target
from lakescan.transaction.open import open_target
from lakescan.transaction.save import append, overwrite, prepared, write_checked
from lakescan.write.partitioned_writer import new_write_id
from lakescan.write.table_writes import TableWrites, WrittenFile

_LOG = logging.getLogger("lakescan")


@dataclass
class Written(WriterCommitMessage):
    """The files of one task."""

    files: list[WrittenFile]


@dataclass(frozen=True)
class Sink:
    """A table to write to, by the options of a query; sent to workers."""

    path: str
    format: str | None
    options: Mapping[str, Any] = field(repr=False)  # these may hold secrets
    storage_options: Mapping[str, Any] = field(repr=False)
    catalogs: Mapping[str, Mapping[str, str]] = field(repr=False)

    def open(self, rows: pa.Schema) -> tuple[Target, WriteOptions]:
        """The table, made or widened for rows where that is asked for."""
        give_all(self.catalogs)
        target, said = open_target(self.path, self.format, self.options, self.storage_options, rows)
        return prepared(target, rows, said), said


class _Tasks:
    """What tasks do: the same for batches and micro-batches."""

    def __init__(self, sink: Sink, rows: pa.Schema, is_overwrite: bool) -> None:
        self._sink, self._rows, self._is_overwrite = sink, rows, is_overwrite
        target, said = sink.open(rows)
        if said.overrides.get("write.distribution-mode", "none") != "none":
            raise UnsupportedFeature(
                "bringing rows of df.write together by partition", "Spark's Python sources cannot; Table.append does."
            )
        if is_overwrite:
            said.check_overwrites(said.replace_where)
        else:
            said.check_appends()
        self._writes: TableWrites = target.writes
        self._dynamic = said.dynamic
        text = said.replace_where if is_overwrite else None
        self._where = None if text is None else as_predicate(text)
        self._write_id = new_write_id()
        self._identity, self._known = target.identity, target.known

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Write the rows of one task."""
        return Written(write_checked(self._writes, iterator, self._write_id, self._where))

    def _save(self, sink: Sink, files: list[WrittenFile]) -> None:
        target = self._reopened(sink)
        if target.has_committed():
            self._discard(sink, [file.location for file in files])
        elif self._is_overwrite:
            overwrite(target, files, where=self._where, dynamic=self._dynamic)
        else:
            append(target, files)

    def _reopened(self, sink: Sink) -> Target:
        """The table as it is now; raises `CommitConflict` where files were written for another one."""
        target, _ = sink.open(self._rows)
        if target.identity != self._identity:
            raise CommitConflict(f"{target.name} was removed, and made again, since rows were written for it")
        return target

    def _discard(self, sink: Sink, locations: Sequence[str]) -> None:
        discard(self._writes.storage, locations, lambda: self._reopened(sink).named_since(self._known))

    def _undo(self, messages: list[WriterCommitMessage | None]) -> None:
        """Remove the files of all tasks, those that were killed, too, if no commit of them was begun.

        Spark commits once all tasks have said what they wrote. A commit that fails then removes its own files where it
        provably was not made; what it leaves may be the table's, now or soon.
        """
        if all(message is not None for message in messages):
            _LOG.warning(
                "a write to %s ended as it was committed. If the table does not have its rows, its files, named *%s*, "
                "are left: remove_orphans removes them once they are old",
                self._sink.path,
                self._write_id,
            )
            return
        storage = self._writes.storage
        self._discard(self._sink, storage.find(self._writes.data_folder, self._write_id))
        _LOG.warning(
            "a write to %s failed and was undone; a task that was killed late may leave files named *%s* there",
            self._sink.path,
            self._write_id,
        )


class BatchWriter(_Tasks, DataSourceArrowWriter):
    """Rows of one query, in one commit."""

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Commit what all tasks wrote."""
        self._save(self._sink, _files(messages))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Remove what tasks wrote, unless its commit was begun."""
        self._undo(messages)


class MicroBatchWriter(_Tasks, DataSourceStreamArrowWriter):
    """Rows of a stream, a commit a micro-batch."""

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Commit what all tasks of a micro-batch wrote, unless it was committed before."""
        numbers = {"txnappid": self._query, "txnversion": batchId}
        self._save(replace(self._sink, options={**self._sink.options, **numbers}), _files(messages))

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Remove what tasks wrote, unless its commit was begun."""
        self._undo(messages)

    @property
    def _query(self) -> str:
        """The query's id, which stays when it starts again from its checkpoint."""
        options = {name.lower(): value for name, value in self._sink.options.items()}
        if "txnappid" in options:
            return str(options["txnappid"])
        checkpoint = options.get("checkpointlocation")
        if checkpoint is None:
            raise InvalidOption(
                "a stream into a table needs its checkpoint as an option of the query, "
                '.option("checkpointLocation", ...): commits are told apart by the query that it names'
            )
        text = Storage(self._sink.storage_options).read(join(checkpoint, "metadata"))
        return str(json.loads(text)["id"])


def _files(messages: list[WriterCommitMessage | None]) -> list[WrittenFile]:
    return [file for message in messages if isinstance(message, Written) for file in message.files]
