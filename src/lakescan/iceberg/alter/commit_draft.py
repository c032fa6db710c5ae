"""Commit a draft of a table's metadata, with updates and requirements as in Java's `UpdateRequirements`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from lakescan.common.schema import Schema
from lakescan.errors import MissingFile
from lakescan.iceberg.alter.metadata_draft import MetadataDraft
from lakescan.iceberg.alter.partitions import find_reusable_spec
from lakescan.iceberg.commit.outcomes import FailedCommit, commit
from lakescan.iceberg.metadata.pyiceberg_conversions import pyiceberg_schema, pyiceberg_sort_order, pyiceberg_spec
from lakescan.iceberg.metadata.table_metadata import MAIN, TableMetadata
from lakescan.iceberg.table import IcebergTable
from lakescan.storage import Storage

if TYPE_CHECKING:
    from pyiceberg.table import Table

_LAST_ADDED = -1  # the id of the object that the update before added
_FIRST_ID = 1000  # the first id of partition fields


def new_draft(table: Table, metadata: TableMetadata) -> MetadataDraft:
    """Return a draft without changes of a table, given as pyiceberg's table and as lakescan's metadata."""
    given = table.metadata
    return MetadataDraft.create(metadata, int(given.last_column_id), int(given.last_partition_id or _FIRST_ID - 1))


def commit_draft(table: Table, draft: MetadataDraft, storage: Storage) -> FailedCommit | None:
    """Commit a draft, whose base is the table's metadata; return the failed commit, or None on success.

    Commits nothing and returns None if the draft has no changes. Raises `CommitStateUnknown` and the errors of
    `outcomes.commit`.
    """
    commits = _DraftUpdates(table, draft)

    def was_made(now: IcebergTable) -> bool:
        return _is_in_history(commits, now, storage)

    updates, requirements = tuple(commits.updates), tuple(commits.requirements)
    return commit(table, updates, requirements, storage, commits.is_made, was_made)


def _is_in_history(commits: _DraftUpdates, now: IcebergTable, storage: Storage) -> bool:
    return any(map(commits.is_made, _later_states(commits.draft.base, now.metadata, storage)))


def _later_states(base: TableMetadata, now: TableMetadata, storage: Storage) -> Iterator[IcebergTable]:
    """Yield the table at each metadata file that `now` logs after `base`, newest first, up to the first missing file.

    Nothing is yielded if the metadata log does not contain `base`.
    """
    files = [file for _, file in now.metadata_log]
    for file in reversed(files[files.index(base.source) + 1 :] if base.source in files else []):
        try:
            yield IcebergTable.open(file, storage)
        except MissingFile:
            return  # older metadata files have been removed


def is_changed(
    table: Table, before: TableMetadata, after: TableMetadata, now: IcebergTable, storage: Storage | None = None
) -> bool:
    """Return whether a table has all changes from `before` to `after`, metadata versions of this table.

    The changes are those of columns, partition spec, sort order, properties and location. `table` (pyiceberg's) is at
    the metadata `before`; `now` is the reloaded table. With a storage, it is enough if an earlier version of `now`,
    after `before`, had the changes.
    """
    commits = _DraftUpdates(table, replace(new_draft(table, after), base=before))
    return commits.is_made(now) or (storage is not None and _is_in_history(commits, now, storage))


def draft_updates(table: Table, draft: MetadataDraft) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Return the updates and requirements of a draft (pyiceberg's), for a commit that also makes other changes."""
    commits = _DraftUpdates(table, draft)
    return tuple(commits.updates), tuple(commits.requirements)


@dataclass(frozen=True)
class _DraftUpdates:
    table: Table
    draft: MetadataDraft

    @cached_property
    def updates(self) -> list[Any]:
        """The metadata updates, each valid after those before it."""
        from pyiceberg.table import update as updates

        draft, base = self.draft, self.draft.base
        found: list[Any] = []
        if draft.version != base.format_version:
            found.append(updates.UpgradeFormatVersionUpdate(format_version=draft.version))
        found += [*self._schema, *self._spec, *self._order]
        if self._property_updates:
            found.append(updates.SetPropertiesUpdate(updates=self._property_updates))
        if self._property_removals:
            found.append(updates.RemovePropertiesUpdate(removals=self._property_removals))
        if draft.location != base.location:
            found.append(updates.SetLocationUpdate(location=draft.location))
        return found

    @cached_property
    def _same_schema(self) -> int | None:
        """The id of a current or earlier schema of the table that equals the draft's, or None."""
        schemas = self.draft.base.schemas.values()
        return next((each.id for each in schemas if _have_same_fields(each, self.draft.schema)), None)

    @cached_property
    def _changes_schema(self) -> bool:
        return self._same_schema != self.draft.base.current_schema_id

    @cached_property
    def _schema(self) -> list[Any]:
        from pyiceberg.table.update import AddSchemaUpdate, SetCurrentSchemaUpdate

        if not self._changes_schema:
            return []
        if self._same_schema is not None:
            return [SetCurrentSchemaUpdate(schema_id=self._same_schema)]
        numbered = replace(self.draft.schema, id=max(self.draft.base.schemas) + 1)
        schema = pyiceberg_schema(numbered, f"changing columns of {'.'.join(self.table.name())} through pyiceberg")
        return [AddSchemaUpdate(schema_=schema), SetCurrentSchemaUpdate(schema_id=_LAST_ADDED)]

    @cached_property
    def _spec(self) -> list[Any]:
        from pyiceberg.table.update import AddPartitionSpecUpdate, SetDefaultSpecUpdate

        base, known = self.draft.base, find_reusable_spec(self.draft)
        if known is not None:
            return [] if known.id == base.default_spec_id else [SetDefaultSpecUpdate(spec_id=known.id)]
        spec = pyiceberg_spec(max(base.specs) + 1, self.draft.partition_fields)
        return [AddPartitionSpecUpdate(spec=spec), SetDefaultSpecUpdate(spec_id=_LAST_ADDED)]

    @cached_property
    def _order(self) -> list[Any]:
        from pyiceberg.table.update import AddSortOrderUpdate, SetDefaultSortOrderUpdate

        if self.draft.sort_fields == self.draft.base.sort_order.fields:
            return []
        given = self.table.metadata.sort_orders
        fields = list(pyiceberg_sort_order(0, self.draft.sort_fields).fields)
        known = next((each.order_id for each in given if list(each.fields) == fields), None)
        if known is not None:
            return [SetDefaultSortOrderUpdate(sort_order_id=known)]
        number = max([0, *(each.order_id for each in given)]) + 1 if fields else 0
        order = pyiceberg_sort_order(number, self.draft.sort_fields)
        return [
            AddSortOrderUpdate(sort_order=order),
            SetDefaultSortOrderUpdate(sort_order_id=_LAST_ADDED if fields else 0),
        ]

    @cached_property
    def _property_updates(self) -> dict[str, str]:
        base = self.draft.base.properties
        return {name: value for name, value in self.draft.properties.items() if base.get(name) != value}

    @cached_property
    def _property_removals(self) -> list[str]:
        return sorted(self.draft.base.properties.keys() - self.draft.properties.keys())

    @property
    def requirements(self) -> Iterator[Any]:
        """The requirements that keep the meaning of the changes.

        Beyond Java's requirements, each change of columns, spec or order requires all three to be unchanged, because
        partition and sort fields refer to columns.
        """
        from pyiceberg.table import update as updates

        given = self.table.metadata
        if self._schema or self._spec or self._order:
            yield updates.AssertCurrentSchemaId(current_schema_id=given.current_schema_id)
            yield updates.AssertDefaultSpecId(default_spec_id=given.default_spec_id)
            yield updates.AssertDefaultSortOrderId(default_sort_order_id=given.default_sort_order_id)
        if any(isinstance(each, updates.AddSchemaUpdate) for each in self._schema):
            yield updates.AssertLastAssignedFieldId(last_assigned_field_id=given.last_column_id)
        if any(isinstance(each, updates.AddPartitionSpecUpdate) for each in self._spec):
            yield updates.AssertLastAssignedPartitionId(last_assigned_partition_id=given.last_partition_id)
        if self.draft.proofs:  # rows of a concurrent commit could contradict them
            heads = {name: each.snapshot_id for name, each in given.refs.items() if each.snapshot_ref_type == "branch"}
            main = given.current_snapshot_id
            for name, head in {MAIN: None if main == -1 else main, **heads}.items():
                yield updates.AssertRefSnapshotId(ref=name, snapshot_id=head)
        yield from _properties_requirement(self.table, [*self._property_updates, *self._property_removals])

    def is_made(self, now: IcebergTable) -> bool:
        """Return whether the table has all changes of the draft.

        Columns and partition fields that are new in the draft may have been changed again by later commits.
        """
        draft, base, later = self.draft, self.draft.base, now.metadata
        return (
            later.format_version >= draft.version
            and (not self._changes_schema or self._has_schema(later))
            and (not self._spec or _has_spec(draft, later))
            and (not self._order or later.sort_order.fields == draft.sort_fields)
            and all(later.properties.get(name) == value for name, value in self._property_updates.items())
            and not any(name in later.properties for name in self._property_removals)
            and (draft.location == base.location or later.location == draft.location)
        )

    def _has_schema(self, later: TableMetadata) -> bool:
        if self._same_schema is not None:
            return _have_same_fields(later.schema, self.draft.schema)
        new = (each for number, each in later.schemas.items() if number not in self.draft.base.schemas)
        return any(_have_same_fields(each, self.draft.schema) for each in new)


def _have_same_fields(one: Schema, other: Schema) -> bool:
    return one.fields == other.fields and set(one.identifier_ids) == set(other.identifier_ids)


def _has_spec(draft: MetadataDraft, later: TableMetadata) -> bool:
    known = find_reusable_spec(replace(draft, base=later))
    was = find_reusable_spec(draft)
    return known is not None and (known.id == later.default_spec_id or was is None)


def _properties_requirement(table: Table, names: Sequence[str]) -> Sequence[Any]:
    """Return the requirement that the properties `names` are unchanged, for pyiceberg's own catalogs.

    The result is empty for other catalogs, because REST has no such requirement, and for no names.
    """
    from pyiceberg.catalog import MetastoreCatalog
    from pyiceberg.exceptions import CommitFailedException
    from pyiceberg.table.update import AssertTableUUID

    if not names or not isinstance(table.catalog, MetastoreCatalog):
        return ()

    def property_values(properties: Mapping[str, str]) -> Sequence[str | None]:
        return [properties.get(name) for name in names]

    before = property_values(table.metadata.properties)

    class AssertProperties(AssertTableUUID):
        """Requires these properties to be unchanged."""

        def validate(self, base_metadata: Any) -> None:
            super().validate(base_metadata)
            if property_values(base_metadata.properties) != before:
                raise CommitFailedException("Requirement failed: properties have changed")

    return (AssertProperties(uuid=table.metadata.table_uuid),)
