"""A Delta table as a target."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakescan.catalogs.create import as_delta_options
from lakescan.common import types as t
from lakescan.definition.table_definition import TableDefinition
from lakescan.delta.scan.named_files import added_since
from lakescan.delta.table import DeltaTable
from lakescan.delta.write.commit import DeltaCommit, Transaction, refusals, removal
from lakescan.delta.write.create import as_schema, check_location, check_zoneless_maps
from lakescan.delta.write.data_files import DeltaWrites
from lakescan.delta.write.removed_paths import check_paths
from lakescan.errors import CommitConflict, UnsupportedFeature
from lakescan.options.write import WriteOptions
from lakescan.scan_spec import ScanSpec
from lakescan.storage.storage import Storage
from lakescan.transaction.base import Removed, Target
from lakescan.write.table_writes import WrittenFile

_OF_FEATURES = {t.Timestamp(zoned=False), t.VARIANT}  # types that take a table feature


@dataclass(frozen=True)
class DeltaTarget:
    """A table by its folder, at the version that it had."""

    location: str
    options: WriteOptions
    storage: Storage
    _opened: DeltaTable
    _columns: TableDefinition | None = None  # that an overwrite gives the table

    @staticmethod
    def open(location: str, options: WriteOptions, storage: Storage) -> DeltaTarget:
        """Raises `NotATable`."""
        return DeltaTarget(location, options, storage, DeltaTable.open(location, storage))

    @property
    def name(self) -> str:
        """The location."""
        return self.location

    @cached_property
    def writes(self) -> DeltaWrites:
        """Files by the newest metadata, or the columns that the table is to have."""
        check_location(self.location)
        state = self.scan.snapshot.state
        metadata = state.metadata
        if self._columns is not None:
            metadata = replace(metadata, schema_string=as_schema(self._columns).to_json())
        return DeltaWrites(self.location, state.protocol, metadata, self.storage, self.options.overrides)

    @cached_property
    def scan(self) -> ScanSpec:
        """The version that it had."""
        return ScanSpec(self._opened, self.storage, self.location)

    @property
    def opened(self) -> DeltaTable:
        """The table by its log, as it was listed."""
        return self._opened

    @property
    def identity(self) -> str | None:
        """The table's id."""
        return self._opened.identity

    @property
    def known(self) -> int:
        """The version that it had."""
        version = self.scan.snapshot.id
        assert version is not None
        return version

    def named_since(self, known: int) -> Iterator[pa.Array]:
        """What versions after a known one name, by the log as it is now."""
        return added_since(self.reopened().location, self.storage, known)

    @property
    def begins_again(self) -> bool:
        """Yes: a commit that replaces files is to just the next version."""
        return True

    @property
    def folds_deletes(self) -> bool:
        """No: deltalake's removals do not name deletion vectors."""
        return False

    def check_removable(self, deletes: pa.ChunkedArray, *, partly: bool) -> None:
        """No file that has a deletion vector; nor some rows where changes are recorded."""
        if pc.any(pc.greater(deletes, 0)).as_py():
            raise UnsupportedFeature(
                f"replacing some files of {self.name} that have deletion vectors",
                "deltalake's removals do not name them, but those of an overwrite of the whole table.",
            )
        self._check_not_append_only()
        configuration = self.writes.metadata.configuration
        if partly and configuration.get("delta.enableChangeDataFeed", "false").lower() == "true":
            raise UnsupportedFeature(
                f"replacing some rows of files of {self.name}, which records changes",
                "Replace whole partitions, or switch delta.enableChangeDataFeed off.",
            )

    def has_committed(self) -> bool:
        """Whether the log has the application's number, or a later one."""
        if self.options.transaction is None:
            return False
        last = self._commit().last_version_of(self.options.transaction[0])
        return last is not None and last >= self.options.transaction[1]

    def append(self, files: Sequence[WrittenFile]) -> None:
        """By deltalake, which tries again while others append."""
        self._commit().append(files)

    def replace_all(self, removed: Sequence[Removed], files: Sequence[WrittenFile]) -> None:
        """By deltalake, which finds the files, on just this version."""
        if removed:
            self._check_not_append_only()
            self.check_removals(removed)
        self._commit().overwrite(files)

    def _check_not_append_only(self) -> None:
        if self.writes.metadata.configuration.get("delta.appendOnly", "false").lower() == "true":
            raise UnsupportedFeature(f"replacing files of {self.name}, whose delta.appendOnly is true", "Append to it.")

    def replace(self, removed: Sequence[Removed], files: Sequence[WrittenFile]) -> None:
        """By deltalake, on just this version."""
        self._commit().replace(self._removals(removed, changes_data=True), files)

    def rewrite(self, removed: Sequence[Removed], files: Sequence[WrittenFile]) -> None:
        """By deltalake, on just this version: files that have the rows of others, so that no data changes."""
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
        """Each remove that deltalake writes has to have the text of its add."""
        columns = tuple(field.physical_name for field in self.writes.partition_fields)
        paths = [self.writes.relative_path(each.location) for each in removed]
        check_paths(self.scan.snapshot.state.segment, columns, self.storage, paths)

    def checkpoint(self) -> None:
        """By deltalake."""
        with refusals(self.location):
            self._theirs().create_checkpoint()

    def _theirs(self) -> Any:
        check_location(self.location)
        from deltalake import DeltaTable as Theirs

        return Theirs(self.location, storage_options=_delta_options(self.storage))

    def _commit(self) -> DeltaCommit:
        mine = self.options.transaction
        return DeltaCommit(
            self.writes,
            self.known,
            _delta_options(self.storage),
            self.options.properties,
            None if mine is None else Transaction(*mine),
        )

    def with_columns(self, new: TableDefinition) -> DeltaTarget:
        """By deltalake, in a commit of its own."""
        from deltalake.exceptions import CommitFailedError

        if self.writes.metadata.column_mapping_mode != "none":
            raise UnsupportedFeature(f"adding columns to {self.name}, whose columns are mapped, by deltalake")
        if "timestampNtz" not in self.writes.protocol.features:
            check_zoneless_maps(new.columns)
        try:
            with refusals(self.location):
                self._theirs().alter.add_columns(as_schema(new).fields)
        except CommitFailedError as error:
            raise CommitConflict(f"{self.location}: no columns can be added: {error}") from error
        return self.reopened()

    def with_schema(self, new: TableDefinition) -> DeltaTarget:
        """In the commit of the overwrite; partitions stay, and no feature is added."""
        state = self.scan.snapshot.state
        instead = "CREATE OR REPLACE TABLE does that."
        if state.metadata.column_mapping_mode != "none":
            raise UnsupportedFeature(f"overwriteSchema of {self.name}, whose columns are mapped", instead)
        if gone := set(state.metadata.partition_columns).difference(new.schema.names):
            raise UnsupportedFeature(f"overwriteSchema that drops the partition column {min(gone)!r}", instead)
        newer = {c.type for c in t.walk(new.columns)}.intersection(_OF_FEATURES)
        if newer and not newer.intersection(c.type for c in t.walk(self.writes.schema.fields)):
            raise UnsupportedFeature(f"overwriteSchema with columns of type {min(map(str, newer))}", instead)
        return replace(self, _columns=new)

    def reopened(self) -> DeltaTarget:
        """The table as it is now; raises `CommitConflict` where another one is in its place."""
        now = DeltaTarget.open(self.location, self.options, self.storage).following(self._opened)
        return replace(now, _columns=self._columns)

    def check_rules(self, before: Target) -> None:
        """As Delta has it: any change of metadata or protocol is a conflict with what was written before."""
        assert isinstance(before, DeltaTarget)
        now, then = self.scan.snapshot.state, before.scan.snapshot.state
        if (now.protocol, now.metadata) != (then.protocol, then.metadata):
            raise CommitConflict(
                f"{self.location}: another writer changed its columns, properties or protocol since version "
                f"{before.known}: write the rows anew"
            )

    def following(self, before: DeltaTable) -> DeltaTarget:
        """This, if it is the table that was opened before; `CommitConflict` where another one is in its place."""
        if not self._opened.continues(before):
            raise CommitConflict(f"{self.location} was removed, and made again, since it was opened: open it again")
        return self


def _delta_options(storage: Storage) -> dict[str, str]:
    return as_delta_options({**storage.io_properties, **storage.options})
