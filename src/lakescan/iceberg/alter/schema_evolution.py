"""Columns that a write adds or widens, committed together with its snapshot: a write that fails adds no columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from lakescan.common.schema import Schema
from lakescan.definition.table_changes import AddColumn, ChangeColumn, TableChange
from lakescan.errors import CommitConflict
from lakescan.iceberg.alter.apply_changes import apply_changes
from lakescan.iceberg.alter.commit_draft import draft_updates, new_draft
from lakescan.iceberg.alter.metadata_draft import MetadataDraft
from lakescan.iceberg.metadata.table_metadata import TableMetadata
from lakescan.iceberg.table import IcebergTable

if TYPE_CHECKING:
    from pyiceberg.table import Table


@dataclass(frozen=True)
class TableWithColumns:
    """The table with the added columns, as lakescan's metadata and as pyiceberg's (`given`).

    `draft` has the changes and the proofs that they require. `updates` and `requirements` are pyiceberg's, for the
    commit. They are empty if the table already has the columns.
    """

    draft: MetadataDraft
    metadata: TableMetadata
    given: Any
    updates: tuple[Any, ...]
    requirements: tuple[Any, ...]


@dataclass(frozen=True)
class SchemaEvolution:
    """Columns to add or widen: the changes, and the schema with the field ids that written files have. Pickled.

    `source` is the metadata file of the table for which the changes were planned.
    """

    changes: tuple[TableChange, ...]
    schema: Schema
    source: str

    @staticmethod
    def plan(table: Table, opened: IcebergTable, changes: Sequence[TableChange]) -> SchemaEvolution:
        """Plan the columns that changes add to or widen in a table; raises the errors of `apply_changes`."""
        draft = apply_changes(new_draft(table, opened.metadata), changes)
        return SchemaEvolution(tuple(changes), draft.schema, opened.metadata.source)

    def apply(self, table: Table, opened: IcebergTable) -> TableWithColumns:
        """Return the table, possibly after concurrent commits, with the columns added.

        Raises:
            CommitConflict: A concurrent commit changed columns, so that the new columns would get other ids than in
                the files. It is also raised after any concurrent commit if the changes require proofs of existing rows.
        """
        from pyiceberg.table.update import update_table_metadata

        draft = apply_changes(new_draft(table, opened.metadata), self.changes)
        name = ".".join(table.name())
        added = [_column_name(change) for change in self.changes]
        now = {each.name: each for each in draft.schema.fields}
        for each in (field for field in self.schema.fields if field.name in added):
            if now.get(each.name) != each:
                raise CommitConflict(
                    f"{name}: another writer changed its columns while this write was adding {each.name!r}. Write the "
                    "rows again."
                )
        if draft.proofs and opened.metadata.source != self.source:
            raise CommitConflict(f"{name}: another writer changed it while columns were added. Write the rows again.")
        updates, requirements = draft_updates(table, draft)
        given = update_table_metadata(table.metadata, updates) if updates else table.metadata
        return TableWithColumns(draft, _replace_schema(opened.metadata, draft, given), given, updates, requirements)


def _column_name(change: TableChange) -> str:
    """Return the name of the top-level column that a change adds or modifies, also inside of it."""
    assert isinstance(change, AddColumn | ChangeColumn)
    path = (*change.parent, change.column.name) if isinstance(change, AddColumn) else change.path
    return path[0]


def _replace_schema(base: TableMetadata, draft: MetadataDraft, given: Any) -> TableMetadata:
    schema = replace(draft.schema, id=given.current_schema_id)
    schemas = {**base.schemas, schema.id: schema}
    return replace(base, schemas=schemas, current_schema_id=schema.id, properties=draft.properties)
