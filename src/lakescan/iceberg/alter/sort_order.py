"""Sort order changes."""

from __future__ import annotations

from dataclasses import replace

from lakescan.definition.table_changes import SetOrder
from lakescan.definition.table_definition import SortTerm
from lakescan.iceberg.alter.column_tree import resolve_term
from lakescan.iceberg.alter.metadata_draft import MetadataDraft
from lakescan.iceberg.alter.properties import set_properties
from lakescan.iceberg.metadata.sort_order import SortField
from lakescan.iceberg.metadata.table_properties import IcebergProperties


def set_order(change: SetOrder, draft: MetadataDraft) -> MetadataDraft:
    """Set the sort order of new files and the property `write.distribution-mode`; None leaves either unchanged."""
    if change.terms is not None:
        draft = replace(draft, sort_fields=tuple(_sort_field(each, draft) for each in change.terms))
    if change.distribution is not None:
        draft = set_properties({IcebergProperties.distribution_mode.name: change.distribution}, draft)
    return draft


def _sort_field(term: SortTerm, draft: MetadataDraft) -> SortField:
    source, transform = resolve_term(term.term, draft.schema, "sorting")
    nulls = "nulls-first" if term.nulls_first else "nulls-last"
    return SortField(source.id, transform, "desc" if term.descending else "asc", nulls)
