"""Create and replace Iceberg tables in their catalogs from table definitions.

A definition is converted to pyiceberg's schema, partition spec and sort order.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lakescan.common import types as t
from lakescan.common.references import parse_reference
from lakescan.definition.table_definition import TableDefinition, Term
from lakescan.errors import CommitConflict, CreatedConcurrently, InvalidOption, UnsupportedFeature
from lakescan.iceberg.commit.commit_snapshot import MetadataChanges
from lakescan.iceberg.commit.staged_table import (
    MakesTables,
    TableReplacement,
    commit_staged_table,
    create_tolerating_drop,
    stage_table,
)
from lakescan.iceberg.data_files.encryption import check_catalog
from lakescan.iceberg.metadata.format_versions import NEW, PROPERTY, FormatVersion, check_columns, chosen_version
from lakescan.iceberg.metadata.partition_spec import Transform
from lakescan.iceberg.metadata.pyiceberg_conversions import pyiceberg_schema, pyiceberg_transform
from lakescan.iceberg.metadata.pyiceberg_metadata import metadata_writes
from lakescan.iceberg.metadata.table_properties import IcebergProperties, check_properties
from lakescan.iceberg.table import IcebergTable
from lakescan.tables.committer import Committer, TableCreator
from lakescan.writing.table_writes import WrittenFile

if TYPE_CHECKING:
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.table import StagedTable, Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.sorting import SortField, SortOrder

_KEY = IcebergProperties.encryption_key.name
_ENCRYPTED = 3  # the first format version with encryption keys


def iceberg_arguments(definition: TableDefinition, default_version: int = NEW) -> dict[str, Any]:
    """Return the arguments of pyiceberg's `create_table` for a definition.

    Raises `InvalidOption` for features of a later format version, `UnsupportedFeature` for features that Iceberg lacks.
    """
    _check_rules(definition)
    check_properties(definition.properties)
    version = chosen_version(definition.properties, default_version)
    check_key(definition.properties, version)
    check_columns(definition.columns, version)
    schema = as_schema(definition)
    comment = {} if definition.comment is None else {"comment": definition.comment}
    return {
        "schema": schema,
        "location": definition.location,
        "partition_spec": _spec(definition, schema),
        "sort_order": _order(definition),
        "properties": {PROPERTY: str(version.number), **definition.properties, **comment},
    }


def check_key(properties: Mapping[str, str], version: FormatVersion) -> None:
    """Raise `InvalidOption` for encryption properties in a format version before 3, which has no encryption keys."""
    encryption = (IcebergProperties.encryption_key.name, IcebergProperties.data_key_length.name)
    if version.number < _ENCRYPTED and (named := [each for each in encryption if each in properties]):
        raise InvalidOption(
            f"'{named[0]}' needs format version {_ENCRYPTED}, but the table would have version {version.number}: also "
            f"set '{PROPERTY}'='{_ENCRYPTED}'"
        )


def _check_rules(definition: TableDefinition) -> None:
    """Raise `UnsupportedFeature` for column rules that Iceberg lacks, `InvalidOption` for non-literal defaults.

    The length of VARCHAR(n) is ignored, because Iceberg strings have any length.
    """
    for name, rule in definition.rules.items():
        if rule.generated is not None:
            raise UnsupportedFeature(f"the generated column {name!r} of an Iceberg table", "Compute it as you write.")
        if rule.identity is not None:
            raise UnsupportedFeature(f"the identity column {name!r} of an Iceberg table", "Number the rows yourself.")
        if rule.default is not None and definition.schema.field(name).write_default is None:
            raise InvalidOption(
                f"the default of column {name!r}, {rule.default}, is not a literal: expressions are not supported"
            )
    if definition.constraints:
        raise UnsupportedFeature(f"the constraint {min(definition.constraints)!r} of an Iceberg table")
    if definition.cluster_by:
        raise UnsupportedFeature("CLUSTER BY of an Iceberg table", "Use WRITE ORDERED BY, or PARTITIONED BY.")


def as_schema(definition: TableDefinition) -> Schema:
    """Return the columns as pyiceberg's schema."""
    schema = definition.schema
    keys = tuple(schema.field(name).id for name in definition.primary_key)
    return pyiceberg_schema(
        replace(schema, identifier_ids=keys), "creating a table with these columns through pyiceberg"
    )


def _spec(definition: TableDefinition, schema: Schema) -> PartitionSpec:
    from pyiceberg.partitioning import PartitionField, PartitionSpec

    fields: list[PartitionField] = []
    for number, term in enumerate(definition.partition_by):
        source = schema.find_field(definition.schema.field(term.column).id)
        transform = _transform(term)
        if not transform.can_transform(source.field_type):
            raise InvalidOption(f"{term}: column {term.column!r} is {source.field_type}, which has no such transform")
        name = _partition_name(term)
        _check_partition_name(name, term, definition, {each.name for each in fields})
        fields.append(PartitionField(source.field_id, 1000 + number, transform, name))
    return PartitionSpec(*fields)


def _partition_name(term: Term) -> str:
    """Return the default name of a partition field, as in Iceberg's Spark DDL."""
    suffix = {"identity": "", "truncate": "_trunc", "void": "_null"}.get(term.name, f"_{term.name}")
    column = ".".join(parse_reference(term.column))
    return column.replace(".", "_") + suffix if suffix else column


def _check_partition_name(name: str, term: Term, definition: TableDefinition, used: Collection[str]) -> None:
    """Raise `InvalidOption` for a name that another field or column has, because the table could not be read."""
    if name in used:
        raise InvalidOption(f"{term}: two partition fields would be called {name!r}: remove one of them")
    if name in definition.schema.names and parse_reference(term.column) != (name,):
        raise InvalidOption(
            f"{term}: the partition field would be called {name!r}, which is the name of a column: rename the column"
        )


def _order(definition: TableDefinition) -> SortOrder:
    from pyiceberg.table.sorting import UNSORTED_SORT_ORDER, NullOrder, SortDirection, SortField, SortOrder

    if not definition.sort_by:
        return UNSORTED_SORT_ORDER
    return SortOrder(
        *(
            SortField(
                definition.schema.field(each.term.column).id,
                _transform(each.term),
                SortDirection.DESC if each.descending else SortDirection.ASC,
                NullOrder.NULLS_FIRST if each.nulls_first else NullOrder.NULLS_LAST,
            )
            for each in definition.sort_by
        )
    )


def _transform(term: Term) -> Any:
    return pyiceberg_transform(Transform(term.name, term.number))


def redefine_table(opened: Table, arguments: Mapping[str, Any]) -> MetadataChanges:
    """Return the changes that give a (pyiceberg) table the definition in `arguments` of `create_table`.

    Raises `ValueError` if the table cannot get that definition.
    """
    from pyiceberg.table import Table
    from pyiceberg.table.update import AssertDefaultSortOrderId, update_table_metadata

    unsorted = _sort_order_updates(opened.metadata, ())  # first, because sort columns may be dropped
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
    """Return the changes that replace a table's columns; its sort order and properties stay.

    The partition spec stays too, or with `repartitions` becomes that of the definition. Raises `UnsupportedFeature` if
    a column that the partition spec or sort order needs is dropped or gets a type that they do not accept. `doing`
    describes the operation in the message.
    """
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.table.sorting import UNSORTED_SORT_ORDER, SortOrder

    metadata, instead = opened.metadata, "Use CREATE OR REPLACE TABLE, which also replaces partitions and sort order."
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
    """Return the fields of the sort order, with the ids of the table's columns."""
    given = arguments["schema"]
    return tuple(
        each.model_copy(update={"source_id": schema.find_field(given.find_column_name(each.source_id)).field_id})
        for each in arguments["sort_order"].fields
    )


def _sort_order_updates(metadata: TableMetadata, fields: tuple[SortField, ...]) -> tuple[Any, ...]:
    """Return the updates that give a table a sort order; empty if it already has it."""
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
    """Set columns, partition spec, location and properties in a transaction.

    As in Iceberg's Java library, columns of the same name, type and default keep their ids. Others are dropped and
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
    """Return the name, transform and source column name of each field of a (pyiceberg) partition spec."""
    return [(each.name, str(each.transform), schema.find_column_name(each.source_id)) for each in spec.fields]


def _check_partition_sources(metadata: Any) -> None:
    """Raise `ValueError` if a partition field has lost its column: version 1 keeps the fields of earlier specs."""
    if lost := [each.name for each in metadata.spec().fields if each.source_id not in metadata.schema().field_ids]:
        raise ValueError(
            f"the partition field {lost[0]!r}, which format version 1 cannot remove, would lose its column"
        )


def create_table(committer: TableCreator, definition: TableDefinition) -> None:
    """Create a table without rows in a catalog; raises `CreatedConcurrently` if another writer creates it first.

    If the catalog's answer is lost, the catalog is asked whether the table exists. A server chooses the table's UUID,
    so its new table cannot be distinguished from another writer's. Then `CommitStateUnknown` is raised.
    """
    from pyiceberg.catalog import MetastoreCatalog
    from pyiceberg.exceptions import CommitFailedException, NoSuchPropertyException, TableAlreadyExistsError

    catalog, identifier = committer.catalog, committer.identifier
    arguments = _checked_arguments(committer, definition)
    has_defaults = any(each.write_default is not None for each in t.walk(definition.columns))
    is_newer = chosen_version(arguments["properties"]).row_lineage
    _check_place(committer, arguments)
    with committer.translate_errors(), metadata_writes(arguments["properties"], str(identifier)) as named:
        try:
            if isinstance(catalog, MakesTables) or (
                is_newer and (has_defaults or isinstance(catalog, MetastoreCatalog))
            ):
                # pyiceberg omits the next row id and defaults; a server adds the next row id itself.
                commit_staged_table(stage_table(catalog, identifier.within, arguments))
            else:
                committer.commit_change(
                    f"creating {identifier}",
                    lambda: create_tolerating_drop(
                        lambda: catalog.create_table(identifier.within, **arguments), catalog
                    ),
                    lambda: _is_made(committer, named),
                    repeated=(TableAlreadyExistsError,) if named else (),
                )
        except (TableAlreadyExistsError, CommitFailedException, NoSuchPropertyException) as error:
            # NoSuchPropertyException means that Hive or Glue now has a table of this name that is not Iceberg's.
            raise CreatedConcurrently(f"another writer created {identifier} at the same time") from error


def _is_made(committer: TableCreator, named: Sequence[str]) -> bool | None:
    """Return whether the table began with one of this process's metadata files (`named`); None if that is unknown."""
    from pyiceberg.exceptions import NoSuchTableError

    try:
        now = committer.catalog.load_table(committer.identifier.within)
    except NoSuchTableError:
        return None
    files = {now.metadata_location, *(each.metadata_file for each in now.metadata.metadata_log)}
    return not files.isdisjoint(named) if named else None


def stage_new_table(committer: TableCreator, definition: TableDefinition) -> StagedTable:
    """Return a staged table, to be created in one commit with its rows; see `staged_table`."""
    arguments = _checked_arguments(committer, definition)
    committer.check_namespace()
    _check_place(committer, arguments)
    with committer.translate_errors():
        return stage_table(committer.catalog, committer.identifier.within, arguments)


def _check_place(committer: TableCreator, arguments: Mapping[str, Any]) -> None:
    """Raise `LocationRefused` if pyiceberg would write a table's metadata outside of the allowed locations.

    A server chooses where it writes metadata. If that location is not allowed, the table cannot be opened.
    """
    from pyiceberg.catalog import MetastoreCatalog

    allowed = committer.allowed_locations
    if allowed.prefixes is not None and isinstance(committer.catalog, MetastoreCatalog):
        with committer.translate_errors():
            staged = stage_table(committer.catalog, committer.identifier.within, arguments)
        allowed.check(staged.metadata_location)


def _checked_arguments(committer: TableCreator, definition: TableDefinition) -> dict[str, Any]:
    committer.check_free()
    arguments = iceberg_arguments(definition)
    _check_encryption(committer, arguments["properties"])
    committer.check_location(definition.location)
    return arguments


def _check_encryption(committer: TableCreator, properties: Mapping[str, str]) -> None:
    """Raise `UnsupportedFeature` for an encrypted table if its catalog does not support it or has no key manager.

    A table is encrypted if `properties` have an `encryption.key-id`.
    """
    if _KEY not in properties:
        return
    check_catalog(committer.catalog, str(committer.identifier))
    if committer.key_manager is None:
        raise UnsupportedFeature(
            f"the encrypted Iceberg table {committer.identifier} in a catalog without a key manager",
            "Set key-manager in the catalog's properties.",
        )


def replacement_of(
    committer: TableCreator, definition: TableDefinition, properties: Mapping[str, str]
) -> TableReplacement:
    """Return a replacement of a table's schema, spec, sort order, properties and rows; earlier snapshots stay.

    `properties` are added to the summary of the snapshot with the new rows. Raises `UnsupportedFeature` if the table
    cannot get this definition, for example for another format version, and `InvalidOption` for another encryption key.
    """
    identifier = committer.identifier
    with committer.translate_errors():
        opened = committer.catalog.load_table(identifier.within)
    version = opened.metadata.format_version
    if definition.properties.get(PROPERTY, str(version)) != str(version):
        raise UnsupportedFeature(
            f"replacing {identifier}, of format version {version}, by a table of another format version",
            "Drop it and create it again, or upgrade it first by ALTER TABLE.",
        )
    arguments = iceberg_arguments(definition, version)
    _check_encryption(committer, {**opened.properties, **arguments["properties"]})
    if (key := opened.properties.get(_KEY)) != arguments["properties"].get(_KEY, key):
        raise InvalidOption(
            f"replacing {identifier} by a table with another '{_KEY}': a table has one encryption key from its "
            "creation on. Drop it and create it again."
        )
    storage = committer.storage(opened)
    before = IcebergTable.open(opened.metadata_location, storage)
    try:
        changes = redefine_table(opened, arguments)
    except ValueError as error:
        raise UnsupportedFeature(
            f"replacing {identifier} with this definition", f"{error}. Drop it and create it again."
        ) from error
    return TableReplacement(opened, before, changes, storage, properties)


def commit_replacement(committer: Committer, replacement: TableReplacement, files: Iterable[WrittenFile] = ()) -> None:
    """Replace a table's definition and rows in one commit; raises `CommitConflict` or `CommitStateUnknown`."""
    with committer.translate_errors():
        failed = replacement.commit(files)
    if failed is not None:
        raise CommitConflict(
            f"{committer.identifier} was changed concurrently while it was being replaced: {failed.error}"
        ) from failed.error
