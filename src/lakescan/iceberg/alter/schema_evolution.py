"""Columns that a commit of rows adds or widens, as one commit with the snapshot: a write that fails adds none."""

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
    """A state of the table with the columns: as lakescan reads it, and as pyiceberg does (`given`).

    `updates` and `requirements` are pyiceberg's, for the commit; none if the table has the columns by now.
    """

    draft: MetadataDraft
    metadata: TableMetadata
    given: Any
    updates: tuple[Any, ...]
    requirements: tuple[Any, ...]


@dataclass(frozen=True)
class SchemaEvolution:
    """Columns to add or widen: the changes, and the schema with the field ids by which files are written. Pickled.

    `source` is the metadata file of the table for which they were worked out.
    """

    changes: tuple[TableChange, ...]
    schema: Schema
    source: str

    @staticmethod
    def plan(table: Table, opened: IcebergTable, changes: Sequence[TableChange]) -> SchemaEvolution:
        """The columns that changes add to a table; raises what `altered` raises."""
        draft = apply_changes(new_draft(table, opened.metadata), changes)
        return SchemaEvolution(tuple(changes), draft.schema, opened.metadata.source)

    def apply(self, table: Table, opened: IcebergTable) -> TableWithColumns:
        """The table, in this or a later state, with the columns.

        Raises:
            CommitConflict: Another writer changed columns since, so that they would have other ids than in the files.
        """
        from pyiceberg.table.update import update_table_metadata

        draft = apply_changes(new_draft(table, opened.metadata), self.changes)
        name = ".".join(table.name())
        added = [_column_name(change) for change in self.changes]
        now = {each.name: each for each in draft.schema.fields}
        for each in (field for field in self.schema.fields if field.name in added):
            if now.get(each.name) != each:
                raise CommitConflict(
                    f"{name}: another writer changed its columns meanwhile, to which this write adds {each.name!r}. "
                    "Write the rows again."
                )
        if draft.proofs and opened.metadata.source != self.source:
            raise CommitConflict(f"{name}: another writer changed it while columns were added. Write the rows again.")
        updates, requirements = draft_updates(table, draft)
        given = update_table_metadata(table.metadata, updates) if updates else table.metadata
        return TableWithColumns(draft, _replace_schema(opened.metadata, draft, given), given, updates, requirements)


def _column_name(change: TableChange) -> str:
    """The name of the column that a change adds, or in which it changes something."""
    assert isinstance(change, AddColumn | ChangeColumn)
    path = (*change.parent, change.column.name) if isinstance(change, AddColumn) else change.path
    return path[0]


def _replace_schema(base: TableMetadata, draft: MetadataDraft, given: Any) -> TableMetadata:
    schema = replace(draft.schema, id=given.current_schema_id)
    schemas = {**base.schemas, schema.id: schema}
    return replace(base, schemas=schemas, current_schema_id=schema.id, properties=draft.properties)
