"""Apply changes of a table in order to a draft of its metadata, and check that the result is a valid table."""

from __future__ import annotations

from collections.abc import Sequence

from lakescan.common import types as t
from lakescan.common.references import dotted_path
from lakescan.definition import table_changes as changes
from lakescan.definition.table_changes import TableChange
from lakescan.errors import InvalidOption, UnsupportedFeature
from lakescan.iceberg.alter import columns, partitions, properties
from lakescan.iceberg.alter import sort_order as orders
from lakescan.iceberg.alter.column_tree import parent_ids
from lakescan.iceberg.alter.metadata_draft import MetadataDraft
from lakescan.iceberg.metadata.format_versions import check_columns, known_version
from lakescan.iceberg.metadata.partition_spec import PartitionField, Transform


def apply_changes(draft: MetadataDraft, wanted: Sequence[TableChange]) -> MetadataDraft:
    """Return the draft with the changes applied.

    Raises `NoSuchColumn`, `InvalidOption` for changes that are not allowed, `UnsupportedFeature` for changes that
    Iceberg does not have.
    """
    for change in wanted:
        draft = _apply_change(change, draft)
    draft = properties.update_column_properties(draft)
    _check_sources(draft)
    _check_partition_names(draft)
    _check_identifier_fields(draft)
    before = draft.base.schema.by_id
    check_columns(tuple(e for e in draft.schema.fields if e != before.get(e.id)), known_version(draft.version, ""))
    return draft


def _apply_change(change: TableChange, draft: MetadataDraft) -> MetadataDraft:
    match change:
        case changes.AddColumn():
            return columns.add(change, draft)
        case changes.DropColumn():
            return columns.drop(change, draft)
        case changes.RenameColumn():
            return columns.rename(change, draft)
        case changes.ChangeColumn():
            return columns.change_column(change, draft)
        case changes.ReplaceColumns():
            return columns.replace_columns(change, draft)
        case changes.SetKey():
            return columns.set_key(change, draft)
        case changes.DropKey():
            return columns.drop_key(change, draft)
        case changes.AddPartition():
            return partitions.add(change, draft)
        case changes.DropPartition():
            return partitions.drop(change, draft)
        case changes.ReplacePartition():
            return partitions.replace_field(change, draft)
        case changes.SetOrder():
            return orders.set_order(change, draft)
        case changes.SetProperties():
            return properties.set_properties(change.properties, draft)
        case changes.UnsetProperties():
            return properties.unset_properties(change, draft)
        case changes.SetComment():
            return properties.set_comment(change, draft)
        case changes.SetLocation():
            return properties.set_location(change, draft)
        case changes.SetClustering():
            raise UnsupportedFeature(
                "CLUSTER BY of an Iceberg table",
                "Sort its files: WRITE ORDERED BY, or Table.alter().set_sort_order; or partition it by bucket().",
            )
        case changes.AddConstraint() | changes.DropConstraint():
            raise UnsupportedFeature(
                f"constraint {change.name} of an Iceberg table",
                "Iceberg has no constraints: filter rows before they are written; SET NOT NULL keeps nulls out.",
            )
        case changes.DropFeature():
            raise UnsupportedFeature(
                f"table feature {change.name} of an Iceberg table",
                "Iceberg's format versions cannot be lowered: copy the rows into a table of an earlier version.",
            )


def _check_sources(draft: MetadataDraft) -> None:
    """Raise `InvalidOption` if a partition or sort field lacks its column, or is not defined for the column's type."""
    for each in draft.partition_fields:
        how = f"DROP PARTITION FIELD {dotted_path((each.name,))}"
        if each.transform.name == "void":
            if each.source_id not in draft.base.schema.by_id:
                continue  # the column was dropped before
            how = (
                how if draft.version > 1 else f"set 'format-version'='2', since version 1 keeps such fields; then {how}"
            )
        _check_source(draft, each.source_id, each.transform, f"the partition field {each.name!r} needs", how)
    for order in draft.sort_fields:
        how = "WRITE UNORDERED, or Table.alter().set_sort_order of other columns"
        _check_source(draft, order.source_id, order.transform, "the sort order needs", how)


def _check_source(draft: MetadataDraft, source: int, transform: Transform, needs: str, how: str) -> None:
    column = draft.schema.by_id.get(source)
    if column is None:
        gone = draft.base.schema.path_of.get(source, f"#{source}")
        raise InvalidOption(f"column {gone} cannot be dropped: {needs} it. First: {how}")
    if not transform.takes(column.type):
        raise InvalidOption(f"column {column.name} cannot become {column.type}: {needs} {transform} of it")


def _check_partition_names(draft: MetadataDraft) -> None:
    """Raise `InvalidOption` if a column has the name of another column's partition field in any spec.

    Readers would refuse such a table.
    """
    before, now = draft.base.schema.path_of, draft.schema.path_of
    ids = {path: field_id for field_id, path in now.items()}
    fields: list[PartitionField] = [*draft.partition_fields]
    for spec in draft.base.specs.values():
        fields += spec.fields
    for each in fields:
        column = ids.get(each.name, each.source_id)
        if column == each.source_id:
            continue
        if before.get(column) != each.name:
            raise InvalidOption(
                f"a column cannot be called {each.name!r}, because a partition field of the table has or had this "
                "name, and other engines would confuse them: give it another name"
            )
        if all(each.name != old.name for spec in draft.base.specs.values() for old in spec.fields):
            raise InvalidOption(
                f"a partition field cannot be called {each.name!r}, because a column has this name: choose another name"
            )


def _check_identifier_fields(draft: MetadataDraft) -> None:
    """Raise `InvalidOption` if a key column was dropped, is optional, or is of a floating-point or nested type.

    The same error is raised for one inside an optional struct, a list or a map.
    """
    schema = draft.schema
    if (schema.fields, schema.identifier_ids) == (draft.base.schema.fields, draft.base.schema.identifier_ids):
        return
    parents = parent_ids(schema.fields)
    for each in schema.identifier_ids:
        column = schema.by_id.get(each)
        if column is None:
            gone = draft.base.schema.path_of.get(each, f"#{each}")
            raise InvalidOption(
                f"column {gone} cannot be dropped: it is in the key of the table. First: DROP IDENTIFIER FIELDS {gone}"
            )
        path = schema.path_of[each]
        if column.type in t.FLOATING or t.children(column.type):
            raise InvalidOption(f"column {path} is {column.type}: keys cannot have float, double or nested types")
        if not column.required:
            raise InvalidOption(
                f"column {path} is in the key of the table, but may be null: first ALTER COLUMN {path} SET NOT NULL, "
                f"or DROP IDENTIFIER FIELDS {path}"
            )
        while (above := parents[column.id]) is not None:
            column = schema.by_id[above]
            if not isinstance(column.type, t.Struct) or not column.required:
                raise InvalidOption(
                    f"column {path} cannot be in the key, because {column.name} around it may be null or a list"
                )
