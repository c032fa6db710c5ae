"""CREATE TABLE ... LIKE: the definition of another table."""

from __future__ import annotations

from dataclasses import replace

from lakescan.api.table import Table
from lakescan.common.references import split_list
from lakescan.definition.table_definition import SortTerm, TableDefinition, Term, numbered
from lakescan.statements.tables.describe import declared_of, own_properties, partition_parts

# Where a table keeps its files: two tables with the same folders would remove each other's.
_PLACES = (
    "write.data.path",
    "write.metadata.path",
    "write.object-storage.path",
    "write.folder-storage.path",
    "location",
)


def like(source: Table, given: TableDefinition, format: str) -> TableDefinition:
    """The definition of a table like another; what a statement gives goes before.

    Columns with their comments, defaults and rules, the key, partitions, the sort order, clustering columns,
    constraints and the comment are those of `source`. Its properties are, too, in the same format: those of another
    format mean nothing there.
    """
    schema, declared = source.scan().spec.snapshot.schema, declared_of(source)
    columns = numbered(replace(each, default=each.write_default) for each in schema.fields)
    is_same = source.format == format
    properties = own_properties(source) if is_same else {}
    kept = {name: value for name, value in properties.items() if name not in _PLACES}
    terms = tuple(map(Term.parse, partition_parts(source)))
    order: tuple[SortTerm, ...] = ()
    if source.sort_order != "unsorted":
        order = tuple(map(SortTerm.parse, split_list(source.sort_order, keep_calls=True)))
    return TableDefinition(
        columns,
        schema.identifier_names,
        given.partition_by or tuple(each for each in terms if each.name != "void"),
        given.sort_by or order,
        {**kept, **given.properties},
        given.location,
        source.comment if given.comment is None else given.comment,
        declared.rules,
        given.cluster_by or declared.cluster_by,
        declared.constraints,
    )
