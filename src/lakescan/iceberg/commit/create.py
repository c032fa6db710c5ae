"""Create Iceberg tables: table definition -> pyiceberg's schema, partition spec and sort order."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lakescan.common.references import parse_reference
from lakescan.definition.table_definition import TableDefinition, Term
from lakescan.errors import InvalidOption, UnsupportedFeature
from lakescan.iceberg.metadata.format_versions import NEW, PROPERTY, FormatVersion, check_columns, chosen_version
from lakescan.iceberg.metadata.partition_spec import Transform
from lakescan.iceberg.metadata.pyiceberg_objects import pyiceberg_schema, pyiceberg_transform
from lakescan.iceberg.metadata.table_properties import IcebergProperties, check_properties

if TYPE_CHECKING:
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.table.sorting import SortOrder


_ENCRYPTED = 3  # the first format version with encryption keys


def iceberg_arguments(definition: TableDefinition, default_version: int = NEW) -> dict[str, Any]:
    """The arguments of pyiceberg's `create_table`; raises `InvalidOption` for features of a later format version."""
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
    """Raise `InvalidOption` for properties of encryption before version 3, which has encryption keys."""
    encryption = (IcebergProperties.encryption_key.name, IcebergProperties.data_key_length.name)
    if version.number < _ENCRYPTED and (named := [each for each in encryption if each in properties]):
        raise InvalidOption(
            f"'{named[0]}' needs format version {_ENCRYPTED}, and the table would have version {version.number}: also "
            f"set '{PROPERTY}'='{_ENCRYPTED}'"
        )


def _check_rules(definition: TableDefinition) -> None:
    """Raise `UnsupportedFeature` for what columns of Iceberg do not have. Texts have any length: VARCHAR is STRING."""
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
    """The columns as pyiceberg's schema."""
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
    """The partition field's name, as Iceberg's Spark DDL chooses it."""
    suffix = {"identity": "", "truncate": "_trunc", "void": "_null"}.get(term.name, f"_{term.name}")
    column = ".".join(parse_reference(term.column))
    return column.replace(".", "_") + suffix if suffix else column


def _check_partition_name(name: str, term: Term, definition: TableDefinition, used: Collection[str]) -> None:
    """Raise `InvalidOption` for a name that another field or column has: the table could not be read."""
    if name in used:
        raise InvalidOption(f"{term}: two partition fields would be called {name!r}: remove one of them")
    if name in definition.schema.names and parse_reference(term.column) != (name,):
        raise InvalidOption(f"{term}: the partition field would be called {name!r}, as a column is: rename the column")


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
