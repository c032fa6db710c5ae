"""A Delta table as the target of a write. deltalake makes the commits."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakescan.catalogs.create import as_delta_options
from lakescan.common import types as t
from lakescan.common.retries import COMMITS, RetryPolicy
from lakescan.common.timestamps import to_millis
from lakescan.definition.table_definition import TableDefinition
from lakescan.delta.log.reader import DeltaVersion
from lakescan.delta.log.retention import check_vacuum
from lakescan.delta.metadata.features import brought_by_type
from lakescan.delta.metadata.protocol import Metadata, Protocol
from lakescan.delta.metadata.table_properties import DeltaProperties
from lakescan.delta.scan.named_files import added_since, named_files
from lakescan.delta.table import DeltaTable
from lakescan.delta.write.commit import DeltaCommit, Transaction, refusals, removal
from lakescan.delta.write.create import as_schema, check_location, check_zoneless_maps
from lakescan.delta.write.data_files import DeltaWrites
from lakescan.delta.write.removed_paths import check_paths
from lakescan.errors import CommitConflict, UnsupportedFeature
from lakescan.formats.table_format import TableFormat
from lakescan.options.write import WriteOptions
from lakescan.scan_spec import ScanSpec
from lakescan.storage import FileEntry, Storage, join
from lakescan.transaction.base import FileRules, Removed
from lakescan.transaction.results import CheckpointResult, ExpireResult, ManifestsResult
from lakescan.write.table_writes import WrittenFile

_SHOWN = ("_change_data", "_delta_index")  # folders that belong to the table in spite of their names


@dataclass(frozen=True)
class DeltaTarget:
    """A Delta table by its folder, at the version that was opened."""

    location: str
    options: WriteOptions
    storage: Storage
    _opened: DeltaTable
    _columns: TableDefinition | None = None  # set if an overwrite replaces the columns

    @staticmethod
    def open(location: str, options: WriteOptions, storage: Storage) -> DeltaTarget:
        """Open the newest version; raises `NotATable`."""
        return DeltaTarget(location, options, storage, DeltaTable.open(location, storage))

    @property
    def name(self) -> str:
        """The table's location."""
        return self.location

    @cached_property
    def writes(self) -> DeltaWrites:
        """How to write data files: by the metadata of the version, or by the columns of `with_schema`."""
        check_location(self.location)
        base = self.version
        metadata = base.metadata
        if self._columns is not None:
            metadata = replace(metadata, schema_string=as_schema(self._columns).to_json())
        return DeltaWrites(self.location, base.protocol, metadata, self.storage, self.options)

    @cached_property
    def scan(self) -> ScanSpec:
        """A scan of the version that was opened."""
        return ScanSpec(self._opened, self.storage, self.location)

    @property
    def version(self) -> DeltaVersion:
        """The version that was opened: its log segment, protocol and metadata."""
        return self._opened.version_of(self.scan.snapshot)

    @property
    def opened(self) -> DeltaTable:
        """The table, with its log as it was listed."""
        return self._opened

    @property
    def identity(self) -> str | None:
        """The table's id (`metaData.id`)."""
        return self._opened.identity

    @property
    def base_state(self) -> int:
        """The version that was opened."""
        version = self.scan.snapshot.id
        assert version is not None
        return version

    def files_added_since(self, base: int) -> Iterator[pa.Array]:
        """List the log again; return the files that versions after `base` add."""
        return added_since(self.reopened().location, self.storage, base)

    @property
    def retries(self) -> RetryPolicy:
        """The same for all tables."""
        return COMMITS

    @property
    def retries_overwrites(self) -> bool:
        """True: a commit that replaces files must be the next version, so any concurrent commit fails it."""
        return True

    @property
    def compacts_deletes(self) -> bool:
        """False: the remove actions that deltalake writes do not name deletion vectors."""
        return False

    def check_removable(self, deletes: pa.ChunkedArray, *, partly: bool) -> None:
        """Refuse files with deletion vectors, append-only tables, and partial replacements with a change feed."""
        if pc.any(pc.greater(deletes, 0)).as_py():
            raise UnsupportedFeature(
                f"replacing some files of {self.name} that have deletion vectors",
                "deltalake names the vectors in its remove actions only if the whole table is overwritten.",
            )
        self._check_not_append_only()
        if partly and self.writes.metadata.properties.change_feed:
            raise UnsupportedFeature(
                f"replacing some rows of files of {self.name}, which has a change data feed",
                "Replace whole partitions, or set delta.enableChangeDataFeed to false.",
            )

    def has_committed(self) -> bool:
        """Whether the log has a `txn` action of the application with this version or a later one."""
        if self.options.transaction is None:
            return False
        last = self._commit().last_version_of(self.options.transaction[0])
        return last is not None and last >= self.options.transaction[1]

    def append(self, files: Sequence[WrittenFile]) -> None:
        """Commit an append; deltalake retries it after concurrent appends."""
        self._commit().append(files)

    def replace_all(self, removed: Sequence[Removed], files: Sequence[WrittenFile]) -> None:
        """Commit an overwrite as the next version; deltalake lists the files to remove itself."""
        if removed:
            self._check_not_append_only()
            self.check_removals(removed)
        self._commit().overwrite(files)

    def _check_not_append_only(self) -> None:
        if self.writes.metadata.properties.append_only:
            raise UnsupportedFeature(f"replacing files of {self.name}, whose delta.appendOnly is true", "Append to it.")

    def replace(self, removed: Sequence[Removed], files: Sequence[WrittenFile]) -> None:
        """Commit the replacement as the next version."""
        self._commit().replace(self._removals(removed, changes_data=True), files)

    def rewrite(self, removed: Sequence[Removed], files: Sequence[WrittenFile]) -> None:
        """Commit the rewrite as the next version, with `dataChange` false."""
        self._commit().replace(self._removals(removed, changes_data=False), files, same_rows=True)

    def _removals(self, removed: Sequence[Removed], *, changes_data: bool) -> list[Any]:
        names = [field.name for field in self.writes.partition_fields]
        now = int(time.time() * 1000)
        self.check_removals(removed)
        return [
            removal(
                self.writes.relative_path(each.location),
                each.size,
                self.writes.partition_values(tuple(each.partition[name] for name in names)),
                now,
                changes_data=changes_data,
            )
            for each in removed
        ]

    def check_removals(self, removed: Sequence[Removed]) -> None:
        """Check that each remove action will have the same path text as the add action of its file."""
        columns = tuple(field.physical_name for field in self.writes.partition_fields)
        paths = [self.writes.relative_path(each.location) for each in removed]
        check_paths(self.version.segment, columns, self.storage, paths)

    def rewrite_manifests(self) -> ManifestsResult:
        """Raise `UnsupportedFeature`: the log has no manifests."""
        raise UnsupportedFeature("manifests of Delta tables", "Their log is summed up by checkpoint().")

    def checkpoint(self) -> CheckpointResult:
        """Write a checkpoint of the newest version."""
        with refusals(self.location):
            table = self._deltalake_table()
            table.create_checkpoint()
        return CheckpointResult(table.version())

    def _deltalake_table(self) -> Any:
        check_location(self.location)
        from deltalake import DeltaTable as DeltalakeTable

        return DeltalakeTable(self.location, storage_options=_delta_options(self.storage))

    def _commit(self) -> DeltaCommit:
        transaction = self.options.transaction
        return DeltaCommit(
            self.writes,
            self.base_state,
            _delta_options(self.storage),
            self.options.commit_properties,
            None if transaction is None else Transaction(*transaction),
        )

    def with_columns(self, new: TableDefinition) -> DeltaTarget:
        """Add columns in a commit of its own, and reopen the table."""
        from deltalake.exceptions import CommitFailedError

        if self.writes.metadata.column_mapping_mode != "none":
            raise UnsupportedFeature(
                f"adding columns to {self.name}, which has column mapping", "deltalake cannot do it."
            )
        check_zoneless_maps(new.columns, self.writes.protocol.features)
        try:
            with refusals(self.location):
                self._deltalake_table().alter.add_columns(as_schema(new).fields)
        except CommitFailedError as error:
            raise CommitConflict(
                f"{self.location}: adding columns failed because of a concurrent commit: {error}"
            ) from error
        return self.reopened()

    def with_schema(self, new: TableDefinition) -> DeltaTarget:
        """Replace the columns in the commit of the overwrite; partition columns and table features stay as they are."""
        metadata = self.version.metadata
        instead = "Use CREATE OR REPLACE TABLE."
        if metadata.column_mapping_mode != "none":
            raise UnsupportedFeature(f"overwriteSchema of {self.name}, which has column mapping", instead)
        if dropped := set(metadata.partition_columns).difference(new.schema.names):
            raise UnsupportedFeature(f"overwriteSchema that drops the partition column {min(dropped)!r}", instead)
        known = {column.type for column in t.walk(self.writes.schema.fields)}
        newer = {str(c.type) for c in t.walk(new.columns) if brought_by_type(c.type) and c.type not in known}
        if newer:
            raise UnsupportedFeature(f"overwriteSchema with columns of type {min(newer)}", instead)
        return replace(self, _columns=new)

    def reopened(self) -> DeltaTarget:
        """Reopen the table at its newest version; raises `CommitConflict` if another table has replaced it."""
        now = DeltaTarget.open(self.location, self.options, self.storage).following(self._opened)
        return replace(now, _columns=self._columns)

    @property
    def rules(self) -> tuple[int, Protocol, Metadata]:
        """The version, its protocol and its metadata."""
        return self.base_state, self.version.protocol, self.version.metadata

    def check_rules(self, before: tuple[int, Protocol, Metadata]) -> None:
        """Raise `CommitConflict` if the metadata or the protocol changed since the version `before`.

        Delta treats any such change as a conflict with files that were written before it.
        """
        if self.rules[1:] != before[1:]:
            raise CommitConflict(
                f"{self.location}: another writer changed its columns, properties or protocol since version "
                f"{before[0]}: repeat the write"
            )

    def following(self, before: TableFormat) -> DeltaTarget:
        """Return this target if it continues `before`; raise `CommitConflict` if another table has replaced it."""
        if not isinstance(before, DeltaTable) or not self._opened.continues(before):
            raise CommitConflict(f"{self.location} was dropped and recreated since it was opened: open it again")
        return self

    def expire(
        self, older_than: datetime | None, retain_last: int | None = None, *, dry_run: bool = False
    ) -> ExpireResult:
        """Raise `UnsupportedFeature`: versions end where the log is cleaned up."""
        raise UnsupportedFeature("snapshots of a Delta table to expire", "Its log is cleaned up as it is written to.")

    def file_rules(self) -> FileRules:
        """The table's folder, and the retention of removed files; at least a day by default."""
        version, schema = self.version, self.scan.snapshot.schema
        check_vacuum(version.protocol, self.name)
        retention = version.metadata.properties.removed_file_retention
        names = {name for field in version.partition_fields(schema) for name in (field.name, field.physical_name)}
        return FileRules(
            location=self.location,
            folders=(self.location,),
            clock_folder=self.location,
            partition_names=names,
            default_age=max(retention, timedelta(hours=24)),
            shown=_SHOWN,
            retention=retention,
            retention_name=DeltaProperties.removed_file_retention.name,
            shared_metadata=join(self.location, "metadata"),
            is_shared=version.metadata.properties.has_iceberg_metadata,
        )

    def files_in_use(self, since: datetime, other_metadata: Sequence[FileEntry]) -> Iterator[pa.Array]:
        """The files of the newest version, and those removed after `since`; the log names all of them."""
        return named_files(self.reopened().location, self.storage, to_millis(since))


def _delta_options(storage: Storage) -> dict[str, str]:
    return as_delta_options({**storage.io_properties, **storage.options})
