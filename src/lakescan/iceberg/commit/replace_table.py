"""Replace the definition of an Iceberg table, as CREATE OR REPLACE TABLE does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lakescan.definition.table_definition import TableDefinition
from lakescan.errors import UnsupportedFeature
from lakescan.iceberg.commit.create import iceberg_arguments
from lakescan.iceberg.commit.recorded import MetadataChanges
from lakescan.iceberg.metadata.format_versions import PROPERTY

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.sorting import SortField


def redefine_table(opened: Table, arguments: Mapping[str, Any]) -> MetadataChanges:
    """The changes that make what `arguments`, those of pyiceberg's `create_table`, say of a table (pyiceberg's).

    Raises `ValueError` if the table cannot become that.
    """
    from pyiceberg.table import Table
    from pyiceberg.table.update import AssertDefaultSortOrderId, update_table_metadata

    unsorted = _sort_order_updates(opened.metadata, ())  # first: columns that the table is sorted by may go
    plain = update_table_metadata(opened.metadata, unsorted)
    staged = Table(opened.name(), plain, opened.metadata_location, opened.io, opened.catalog)
    changes = MetadataChanges.record(staged, lambda transaction: _redefine(transaction, staged, arguments))
    after = update_table_metadata(plain, changes.updates)
    ordered = _sort_order_updates(after, _sort_fields(arguments, after.schema()))
    if not (unsorted or ordered):
        return changes
    same = AssertDefaultSortOrderId(default_sort_order_id=opened.metadata.default_sort_order_id)
    return MetadataChanges((*unsorted, *changes.updates, *ordered), (*changes.requirements, same))


def replace_columns(opened: Table, new: TableDefinition, doing: str, *, repartitions: bool = False) -> MetadataChanges:
    """The changes that replace a table's columns; its sort order and properties stay.

    Its partitions stay, too, or with `repartitions` become those of the definition.

    Raises `UnsupportedFeature` for columns that these need and that are gone, or have a type that they do not take;
    `doing` says in it what cannot be done.
    """
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.table.sorting import UNSORTED_SORT_ORDER, SortOrder

    metadata, instead = opened.metadata, "Use CREATE OR REPLACE TABLE, which replaces partitions and sort order, too."
    arguments = iceberg_arguments(new, metadata.format_version)
    schema = arguments["schema"]

    def rebind_field(field: Any, role: str) -> Any:
        name = metadata.schema().find_column_name(field.source_id)
        column = None if name is None or name not in schema.column_names else schema.find_field(name)
        if column is None:
            raise UnsupportedFeature(f"{doing} that drops {name!r}, which the table's {role} needs", instead)
        if not field.transform.can_transform(column.field_type):
            raise UnsupportedFeature(
                f"{doing} that makes {name!r}, of the table's {role}, {column.field_type}", instead
            )
        return field.model_copy(update={"source_id": column.field_id})

    parts, order = opened.spec().fields, metadata.sort_order().fields
    if not repartitions:
        arguments["partition_spec"] = PartitionSpec(*(rebind_field(each, "partition spec") for each in parts))
    if order:
        arguments["sort_order"] = SortOrder(*(rebind_field(each, "sort order") for each in order))
    else:
        arguments["sort_order"] = UNSORTED_SORT_ORDER
    arguments["properties"] = {}
    try:
        return redefine_table(opened, arguments)
    except ValueError as error:
        raise UnsupportedFeature(doing, f"{error}. Drop the partition field by ALTER TABLE first.") from error


def _sort_fields(arguments: Mapping[str, Any], schema: Schema) -> tuple[SortField, ...]:
    """The fields of the sort order, with the ids that the table's columns have."""
    given = arguments["schema"]
    return tuple(
        each.model_copy(update={"source_id": schema.find_field(given.find_column_name(each.source_id)).field_id})
        for each in arguments["sort_order"].fields
    )


def _sort_order_updates(metadata: TableMetadata, fields: tuple[SortField, ...]) -> tuple[Any, ...]:
    """The updates that give a table a sort order; none if it has it."""
    from pyiceberg.table.sorting import SortOrder
    from pyiceberg.table.update import AddSortOrderUpdate, SetDefaultSortOrderUpdate

    known = {tuple(each.fields): each.order_id for each in metadata.sort_orders}
    if known.get(fields) == metadata.default_sort_order_id or (not fields and not metadata.sort_order().fields):
        return ()
    if fields in known:
        return (SetDefaultSortOrderUpdate(sort_order_id=known[fields]),)
    number = max([0, *known.values()]) + 1 if fields else 0
    order = SortOrder(*fields, order_id=number)
    return AddSortOrderUpdate(sort_order=order), SetDefaultSortOrderUpdate(sort_order_id=number)


def _redefine(transaction: Any, opened: Any, arguments: Mapping[str, Any]) -> None:
    """Set columns, partition spec, location and properties.

    Columns of the same name, type and default keep their ids, as in Iceberg's Java library; others are dropped and
    added.
    """
    schema = arguments["schema"]
    before = {column.name: (column.field_type, column.write_default) for column in opened.schema().fields}
    kept = {c.name for c in schema.fields if before.get(c.name) == (c.field_type, c.write_default)}
    is_partitioned_alike = _parts(opened.spec(), opened.schema()) == _parts(arguments["partition_spec"], schema) and {
        opened.schema().find_column_name(field.source_id) for field in opened.spec().fields
    } <= set(kept)
    if not is_partitioned_alike:
        with transaction.update_spec() as spec:
            for field in opened.spec().fields:
                spec.remove_field(field.name)
    with transaction.update_schema(allow_incompatible_changes=True) as update:
        update.set_identifier_fields()
        for name in before.keys() - kept:
            update.delete_column(name)
    with transaction.update_schema(allow_incompatible_changes=True) as update:
        for column in schema.fields:
            if column.name not in kept:
                update.add_column(column.name, column.field_type, column.doc, default_value=column.write_default)
    with transaction.update_schema(allow_incompatible_changes=True) as update:
        for after, column in zip([None, *schema.fields], schema.fields, strict=False):
            update.update_column(column.name, required=column.required, doc=column.doc)
            if after is None:
                update.move_first(column.name)
            else:
                update.move_after(column.name, after.name)
        update.set_identifier_fields(*(schema.find_column_name(i) for i in schema.identifier_field_ids))
    if not is_partitioned_alike:
        with transaction.update_spec() as spec:
            for field in arguments["partition_spec"].fields:
                spec.add_field(schema.find_column_name(field.source_id), field.transform, field.name)
    if arguments["location"] is not None:
        transaction.update_location(arguments["location"])
    if arguments["properties"]:
        transaction.set_properties({n: v for n, v in arguments["properties"].items() if n != PROPERTY})
    _check_partition_sources(transaction.table_metadata)


def _parts(spec: Any, schema: Any) -> list[tuple[str, str, str]]:
    """The partition fields, with the names of their columns."""
    return [(each.name, str(each.transform), schema.find_column_name(each.source_id)) for each in spec.fields]


def _check_partition_sources(metadata: Any) -> None:
    """Raise `ValueError` if a partition field has lost its column: version 1 keeps the fields of earlier specs."""
    if lost := [each.name for each in metadata.spec().fields if each.source_id not in metadata.schema().field_ids]:
        raise ValueError(
            f"the partition field {lost[0]!r}, which format version 1 cannot remove, would lose its column"
        )
