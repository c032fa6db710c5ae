"""Create and replace tables in catalogs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from lakescan.catalogs.delta_names import DeltaNames
from lakescan.catalogs.identifiers import Identifier
from lakescan.catalogs.lookup import translated
from lakescan.catalogs.storage_properties import of_storage
from lakescan.definition.table_definition import TableDefinition
from lakescan.delta.commit.creation import create_table
from lakescan.delta.log.segment import LOG_FOLDER
from lakescan.errors import CommitConflict, CreatedConcurrently, InvalidOption, NoSuchNamespace, UnsupportedFeature
from lakescan.iceberg.commit.publish import commit_emptied
from lakescan.iceberg.commit.recorded import MetadataChanges
from lakescan.iceberg.metadata.format_versions import PROPERTY, chosen_version
from lakescan.iceberg.metadata.write import metadata_writes
from lakescan.iceberg.table import IcebergTable
from lakescan.iceberg.write.create import create_version_3, iceberg_arguments
from lakescan.storage import Storage, join

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

_Made = TypeVar("_Made")


def create_named_delta(catalog: Catalog, identifier: Identifier, definition: TableDefinition) -> None:
    """Create a Delta table with a name in a catalog; raises `NoSuchNamespace` and `CreatedConcurrently`."""
    make_named_delta(
        catalog,
        identifier,
        definition.location,
        lambda location, storage: create_table(location, definition, storage),
    )


def make_named_delta(
    catalog: Catalog, identifier: Identifier, location: str | None, make: Callable[[str, Storage], _Made]
) -> _Made:
    """Make a Delta table in a folder, by default one under the catalog's warehouse, and give it a name.

    Raises `NoSuchNamespace`, and what `make` raises.
    """
    names = DeltaNames(catalog)
    if not catalog.namespace_exists(identifier.namespace):
        raise NoSuchNamespace(f"catalog {identifier.catalog!r} has no namespace {'.'.join(identifier.namespace)!r}")
    location = location or _default_location(catalog, identifier)
    names.add(identifier.within, location)
    storage = Storage(io_properties=of_storage(catalog.properties))
    try:
        return make(location, storage)
    except (CreatedConcurrently, InvalidOption, UnsupportedFeature):
        names.remove(identifier.within)
        raise
    except BaseException:  # the table may have been created and only the response lost: then keep its name
        if not storage.exists(join(location, LOG_FOLDER)):
            names.remove(identifier.within)
        raise


def _default_location(catalog: Catalog, identifier: Identifier) -> str:
    warehouse = catalog.properties.get("warehouse")
    if warehouse is None:
        raise InvalidOption(f"catalog {identifier.catalog!r} has no warehouse: give the table a location")
    return join(warehouse, *identifier.within)


def create_iceberg(catalog: Catalog, identifier: Identifier, definition: TableDefinition) -> None:
    """Create a table; raises `CreatedConcurrently` if it exists by now."""
    from pyiceberg.exceptions import CommitFailedException, TableAlreadyExistsError

    arguments = iceberg_arguments(definition)
    where = "/".join((str(catalog.properties.get("warehouse", "")), *identifier.within))
    if any(letter in (definition.location or where) for letter in "?#"):
        raise UnsupportedFeature(
            f"the Iceberg table {identifier} at {definition.location or where}",
            "pyiceberg, which creates it, cuts locations at ? or # and would write elsewhere. Give the table another "
            "name, or a location without these characters.",
        )
    with translated(identifier), metadata_writes(arguments["properties"], str(identifier)):
        try:
            if chosen_version(arguments["properties"]).row_lineage:
                create_version_3(catalog, identifier.within, arguments)
            else:
                catalog.create_table(identifier.within, **arguments)
        except (TableAlreadyExistsError, CommitFailedException) as error:
            raise CreatedConcurrently(f"another writer created {identifier} at the same time") from error


def replace_iceberg(catalog: Catalog, identifier: Identifier, definition: TableDefinition) -> None:
    """Replace a table's schema, partition spec and properties, and remove its rows; earlier snapshots stay.

    Raises `CommitConflict`, `CommitStateUnknown`, and `UnsupportedFeature` if the table cannot get that definition.
    """
    with translated(identifier):
        opened = catalog.load_table(identifier.within)
    version = opened.metadata.format_version
    if definition.properties.get(PROPERTY, str(version)) != str(version):
        raise UnsupportedFeature(
            f"replacing {identifier}, of format version {version}, by a table of another format version",
            "Drop it and create it again.",
        )
    arguments = iceberg_arguments(definition, version)
    storage = Storage(io_properties=of_storage({**catalog.properties, **opened.io.properties}))
    before = IcebergTable.open(opened.metadata_location, storage)

    try:
        changes = MetadataChanges.of(opened, lambda transaction: _redefine(transaction, opened, arguments))
    except ValueError as error:
        raise UnsupportedFeature(
            f"replacing {identifier} with this definition", f"{error}. Drop it and create it again."
        ) from error
    with translated(identifier):
        failed = commit_emptied(opened, changes, before, storage)
    if failed is not None:
        raise CommitConflict(
            f"{identifier} was changed concurrently while it was being replaced: {failed.error}"
        ) from failed.error


def _redefine(transaction: Any, opened: Any, arguments: Mapping[str, Any]) -> None:
    """Set the new columns, partition spec and properties.

    Columns of the same name, type and default keep their ids, as in Iceberg's Java library; others are dropped and
    added.
    """
    schema = arguments["schema"]
    before = {column.name: (column.field_type, column.write_default) for column in opened.schema().fields}
    kept = {c.name for c in schema.fields if before.get(c.name) == (c.field_type, c.write_default)}
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
    with transaction.update_spec() as spec:
        for field in arguments["partition_spec"].fields:
            spec.add_field(schema.find_column_name(field.source_id), field.transform, field.name)
    if arguments["properties"]:
        transaction.set_properties({n: v for n, v in arguments["properties"].items() if n != PROPERTY})
    _check_partition_sources(transaction.table_metadata)


def _check_partition_sources(metadata: Any) -> None:
    """Raise `ValueError` if a partition field has lost its column: version 1 keeps the fields of earlier specs."""
    if lost := [each.name for each in metadata.spec().fields if each.source_id not in metadata.schema().field_ids]:
        raise ValueError(
            f"the partition field {lost[0]!r}, which format version 1 cannot remove, would lose its column"
        )
