"""Spark's writer interface: `df.write.format(...)` and `df.writeStream.format(...)`.

Tasks write files and report them; a Python worker next to the driver commits all of them once. Each commit of a stream
records the ids of the query and the micro-batch, so that a micro-batch that Spark repeats is not committed again.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from lakescan.catalogs.formats import existing_target, new_table
from lakescan.catalogs.registry import CatalogConfiguration, register_catalogs
from lakescan.errors import CommitConflict, InvalidOption, UnsupportedFeature
from lakescan.options.session_settings import NO_SESSION, SessionSettings
from lakescan.options.write import WriteOptions
from lakescan.spark.wap import settings_in_task
from lakescan.spark.workers import check_task_numbers, task_number
from lakescan.spark.writing.arrow_batches import PIECE, drop_fillers
from lakescan.storage import Storage, join
from lakescan.storage.removal import discard
from lakescan.tables.base import NewTable, Target
from lakescan.tables.capabilities import KeyUpserts, add_same_columns, added_columns, find_capability
from lakescan.tables.commit_files import append, check_and_write, check_fit, overwrite, prepare_target, upsert
from lakescan.tables.scan_spec import as_predicate
from lakescan.tables.write_rows import commit_new_table
from lakescan.writing.parquet_writer import new_write_id
from lakescan.writing.table_writes import TableWrites, WrittenFile
from lakescan.writing.upserts import UpsertFiles, merge_upserts, write_newest

_LOG = logging.getLogger("lakescan")


@dataclass
class TaskCommitMessage(WriterCommitMessage):
    """The files that one task wrote: `files` of rows, and `deletes` of the keys of rows that they replace.

    `session` has the staging settings of the session, which Spark passes only to tasks.
    """

    files: list[WrittenFile]
    session: SessionSettings
    deletes: list[WrittenFile] = field(default_factory=list)


@dataclass(frozen=True)
class Sink:
    """The table to write to, from the options of a query; pickled for workers.

    `path` is a path or name. `format` is None if the options name none. `catalogs` are the properties of known
    catalogs, by name.
    """

    path: str
    format: str | None
    options: WriteOptions = field(repr=False)  # may hold secrets, as the next
    catalogs: Mapping[str, CatalogConfiguration] = field(repr=False)

    def open(self, rows: pa.Schema, added: Any = None) -> Target | NewTable:
        """Open the table for writing; return the `NewTable` that creates it with the rows if it does not exist.

        `rows` is the Arrow schema of the rows. The commit adds their columns to the table if the options allow it.
        `added` are the columns that the files of a write have been written with.
        """
        register_catalogs(self.catalogs)
        given = (self.path, self.format, self.options, self.options.storage_options or {})
        target = existing_target(*given)
        if target is None:
            return new_table(*given, rows)
        return prepare_target(add_same_columns(target, added), rows, self.options)

    def reopen(self, rows: pa.Schema, identity: str | None, added: Any) -> Target:
        """Open the table again; raises `CommitConflict` if it is not the one with the id `identity`.

        For `added`, see `open`.
        """
        target = self.open(rows, added)
        if isinstance(target, NewTable) or target.identity != identity:
            raise CommitConflict(f"{self.path} was dropped and recreated while rows were written for it")
        return target


class _TaskWriter:
    """The base class of the writers of batches and micro-batches.

    `rows` is the Arrow schema of the rows. `_new` is the table that the write creates; None if it exists.
    """

    def __init__(self, sink: Sink, rows: pa.Schema, is_overwrite: bool) -> None:
        self._has_fillers = rows.names[-1:] == [PIECE]
        if self._has_fillers:
            rows = rows.remove(len(rows) - 1)
        self._sink, self._rows, self._is_overwrite = sink, rows, is_overwrite
        opened, options = sink.open(rows), sink.options
        if options.distribution_mode == "hash":
            raise UnsupportedFeature(
                "distribution-mode=hash of df.write",
                "Spark does not shuffle the rows of Python data sources: use Table.append.",
            )
        if is_overwrite:
            options.check_overwrites(options.replace_where)
        else:
            options.check_appends()
        self._writes: TableWrites = opened.writes
        self._dynamic = options.is_dynamic
        text = options.replace_where if is_overwrite else None
        self._where = None if text is None else as_predicate(text)
        self._write_id = new_write_id()
        self._new: NewTable | None = None
        self._keys: TableWrites | None = None
        if isinstance(opened, NewTable):
            check_fit(opened.writes, rows)
            self._new = opened
            return
        keyed = None if is_overwrite else find_capability(opened, KeyUpserts)
        if keyed is not None and (keys := keyed.append_keys()) is not None:
            self._keys = keyed.key_writes(keys)
        self._added = added_columns(opened)
        self._identity, self._base, self._rules = opened.identity, opened.base_state, opened.rules

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskCommitMessage:
        """Write the rows of one task, and return its files for the commit; on failure, they are removed."""
        if self._has_fillers:
            iterator = drop_fillers(iterator, [(each.name, each.nullable) for each in self._rows], has_fillers=True)
        if self._writes.rules.missing_identities(self._writes.schema, self._rows):
            check_task_numbers("assigning ids of an identity column")
        if self._keys is not None:
            rows = write_newest(self._writes, self._keys, iterator, self._write_id, task_number())
            return TaskCommitMessage(rows.files, settings_in_task(), rows.deletes)
        files = check_and_write(self._writes, iterator, self._write_id, self._where, task_number())
        return TaskCommitMessage(files, settings_in_task())

    def _save(self, sink: Sink, messages: list[WriterCommitMessage | None]) -> None:
        written = [each for each in messages if isinstance(each, TaskCommitMessage)]
        files = [file for each in written for file in (*each.files, *each.deletes)]
        session = written[0].session if written else NO_SESSION
        sink = replace(sink, options=sink.options.apply_session(session))
        try:
            if self._new is not None:
                return self._create(self._new, sink, files)
            target = sink.reopen(self._rows, self._identity, self._added)
        except InvalidOption:  # the session and the options, or two settings of the session, contradict each other
            self._discard([file.location for file in files])
            raise
        if target.has_committed():
            self._discard([file.location for file in files])
            return None
        try:
            target.check_rules(self._rules)
        except CommitConflict:
            self._discard([file.location for file in files])
            raise
        if self._keys is not None:
            parts = [UpsertFiles(each.files, each.deletes) for each in written]
            upsert(target, merge_upserts(parts, self._writes, self._keys, self._write_id))
        elif self._is_overwrite:
            overwrite(target, files, where=self._where, dynamic=self._dynamic)
        else:
            append(target, files)
        return None

    def _create(self, new: NewTable, sink: Sink, files: list[WrittenFile]) -> None:
        register_catalogs(sink.catalogs)
        if sink.options.transaction is not None:
            new = new.set_transaction(*sink.options.transaction)
        commit_new_table(new.apply_session(sink.options.session), files)

    def _discard(self, locations: Sequence[str]) -> None:
        register_catalogs(self._sink.catalogs)
        if self._new is not None:
            return discard(self._writes.storage, locations, self._new.referenced_locations)
        return discard(
            self._writes.storage,
            locations,
            lambda: self._sink.reopen(self._rows, self._identity, self._added).files_added_since(self._base),
        )

    def _abort_write(self, messages: list[WriterCommitMessage | None]) -> None:
        """Remove the files of all tasks, including killed ones, unless their commit has begun; log a warning.

        Spark starts the commit when all tasks have reported their files. A commit that definitely failed removes its
        own files; files that it leaves may belong to the table.
        """
        if all(message is not None for message in messages):
            _LOG.warning(
                "a write to %s ended during its commit. If the table does not have the rows, files named *%s* are left "
                "over: remove_orphans removes them when they are old enough",
                self._sink.path,
                self._write_id,
            )
            return
        storage = self._writes.storage
        self._discard(storage.find(self._writes.data_folder, self._write_id))
        _LOG.warning(
            "a write to %s failed and its files were removed; tasks that were killed late may leave files named *%s*",
            self._sink.path,
            self._write_id,
        )


class BatchWriter(_TaskWriter, DataSourceArrowWriter):
    """Writes the rows of one query, in one commit."""

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Commit the files of all tasks, in one commit."""
        self._save(self._sink, messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Remove the files of all tasks, unless their commit had begun."""
        self._abort_write(messages)


class MicroBatchWriter(_TaskWriter, DataSourceStreamArrowWriter):
    """Writes the rows of a stream, one commit per micro-batch."""

    def __init__(self, sink: Sink, rows: pa.Schema, is_overwrite: bool) -> None:
        mode = "Complete" if is_overwrite else "Append"
        options = replace(sink.options.exclude(("dataChange",)), output_mode=mode)
        super().__init__(replace(sink, options=options), rows, is_overwrite)
        if assigned := self._writes.rules.missing_identities(self._writes.schema, rows):
            raise UnsupportedFeature(
                f"assigning ids of the identity column {assigned[0]!r} in a stream",
                "All micro-batches would begin with the same id: write with foreachBatch and Table.append.",
            )

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Commit the files of a micro-batch, unless the micro-batch was already committed."""
        options = replace(self._sink.options, txn_app_id=self._query, txn_version=batchId)
        self._save(replace(self._sink, options=options), messages)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Remove the files of all tasks, unless their commit had begun."""
        self._abort_write(messages)

    @property
    def _query(self) -> str:
        """The id of the query, which is the same after a restart from the checkpoint.

        Raises `InvalidOption` if the options have neither `txnAppId` nor `checkpointLocation`.
        """
        options = self._sink.options
        if options.txn_app_id is not None:
            return options.txn_app_id
        if options.checkpoint_location is None:
            raise InvalidOption(
                "a streaming write needs the checkpoint as an option of the query, "
                '.option("checkpointLocation", ...): commits record the query id that is stored there'
            )
        return read_query_id(options.checkpoint_location, options.storage_options or {})


def read_query_id(checkpoint: str, settings: Mapping[str, Any]) -> str:
    """Read the id of the streaming query from the checkpoint folder; `settings` are storage options."""
    return str(json.loads(Storage(settings).read(join(checkpoint, "metadata")))["id"])
