"""`Table.alter`: collect changes of a table's columns, layout and properties, and commit them together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from lakescan.api.foreign_schemas import convert_schema, convert_type
from lakescan.common import types as t
from lakescan.common.references import dotted_path, parse_reference
from lakescan.definition.arrow_schema import columns_of
from lakescan.definition.table_changes import (
    FIRST,
    KEPT,
    AddColumn,
    AddConstraint,
    AddPartition,
    ChangeColumn,
    ColumnPosition,
    DropColumn,
    DropConstraint,
    DropFeature,
    DropKey,
    DropPartition,
    KeepCurrent,
    RenameColumn,
    ReplaceColumns,
    ReplacePartition,
    SetClustering,
    SetComment,
    SetKey,
    SetLocation,
    SetOrder,
    SetProperties,
    TableChange,
    UnsetProperties,
    default_of,
)
from lakescan.definition.table_definition import SortTerm, Term
from lakescan.errors import InvalidOption
from lakescan.statements.syntax.columns import parse_columns
from lakescan.statements.syntax.types import parse_type
from lakescan.tables.results import AlterResult

Names = str | Sequence[str]


class AlterBuilder:
    """Collect changes of a table, and commit them together: all of them, or none.

    `Table.alter` creates it. Each method returns a new builder with one more change. Changes are applied in the order
    in which they were added. Dots in names lead to members of structs: `address.city` is the member `city` of the
    column `address`.

    Example:
        >>> orders.alter().add_column("note", "STRING").rename_column("price", "amount").commit()
        2 changes: added column note string; renamed column price to amount
    """

    def __init__(
        self, run: Callable[[Sequence[TableChange]], AlterResult], changes: tuple[TableChange, ...] = ()
    ) -> None:
        self._run, self._changes = run, changes

    def __repr__(self) -> str:
        return f"AlterBuilder({'; '.join(map(str, self._changes))})"

    def add_column(
        self,
        name: str,
        type: Any,
        *,
        comment: str | None = None,
        required: bool = False,
        default: Any = None,
        first: bool = False,
        after: str | None = None,
        if_not_exists: bool = False,
    ) -> AlterBuilder:
        """Add a column, or a member of a struct.

        Args:
            name: The new column's name. `address.city` adds the member `city` to the struct `address`.
            type: An SQL type such as 'DECIMAL(10, 2)', or a type of Arrow, PySpark, pandas, Polars or pyiceberg.
            comment: A description of the column.
            required: Whether nulls are forbidden. A required column needs a default, or a table without rows.
            default: The value for existing rows, and for new rows that lack the column. Iceberg needs format version 3.
                Delta needs `delta.feature.allowColumnDefaults`, and uses the default for new rows only.
            first: Put the column before its siblings. By default it is added at the end.
            after: Put the column after this sibling.
            if_not_exists: Do nothing if the column exists.

        Raises:
            InvalidOption: `type` or `default` is invalid, or both `first` and `after` are given.

        Example:
            >>> orders.alter().add_column("address.zip", "STRING", after="city").commit()
        """
        *parent, own = parse_reference(name)
        column = t.Field(0, own, self._type(name, type), required, comment)
        given = None if default is None else default_of(default)
        return self.with_change(AddColumn(tuple(parent), column, given, _place(first, after), if_not_exists))

    def drop_column(self, name: str, *, if_exists: bool = False) -> AlterBuilder:
        """Drop a column, or a member of a struct. Data files keep its values, but readers no longer return them.

        Args:
            name: The column's name; `address.city` for a member of a struct.
            if_exists: Do nothing if the column does not exist.

        Example:
            >>> orders.alter().drop_column("note").commit()
        """
        return self.with_change(DropColumn(parse_reference(name), if_exists))

    def rename_column(self, name: str, new: str) -> AlterBuilder:
        """Rename a column, or a member of a struct.

        Args:
            name: The current name; `address.city` for a member of a struct.
            new: The new name, without the path to the struct.

        Example:
            >>> orders.alter().rename_column("address.zip", "postcode").commit()
        """
        return self.with_change(RenameColumn(parse_reference(name), new))

    def change_column(
        self,
        name: str,
        *,
        type: Any = None,
        comment: str | KeepCurrent | None = KEPT,
        required: bool | None = None,
        default: Any = KEPT,
        first: bool = False,
        after: str | None = None,
    ) -> AlterBuilder:
        """Change a column, or a member of a struct. Arguments that are left out change nothing.

        Args:
            name: The column's name; `address.city` for a member of a struct.
            type: A wider type that can hold all values of the current one; see `add_column`.
            comment: A description of the column; None removes it.
            required: Whether nulls are forbidden. An optional column can become required only if the format can prove
                that it has no nulls.
            default: The value for new rows that lack the column; None removes the default.
            first: Move the column before its siblings.
            after: Move the column after this sibling.

        Raises:
            InvalidOption: `type` or `default` is invalid, or both `first` and `after` are given.

        Example:
            >>> orders.alter().change_column("quantity", type="BIGINT", comment="pieces").commit()
        """
        wider = None if type is None else self._type(name, type)
        given = default if default is KEPT or default is None else default_of(default)
        return self.with_change(
            ChangeColumn(parse_reference(name), wider, comment, required, given, _place(first, after))
        )

    def replace_columns(self, columns: Any) -> AlterBuilder:
        """Replace all columns.

        In Iceberg, the new columns are null in existing rows, even if they have the names of old ones. In Delta,
        columns with the same name keep their values, and one call either adds or drops columns, not both.

        Args:
            columns: SQL text as in CREATE TABLE, or a schema as `Catalog.create_table` takes it.

        Example:
            >>> orders.alter().replace_columns("id BIGINT, note STRING").commit()
        """
        found = convert_schema(columns).columns
        if isinstance(found, str):
            parsed = parse_columns(found)
            return self.with_change(ReplaceColumns(parsed.columns, parsed.defaults))
        return self.with_change(ReplaceColumns(columns_of(found)))

    def set_key(self, *columns: str) -> AlterBuilder:
        """Set the columns that identify a row: Iceberg's identifier fields, which `Table.upsert` uses as keys.

        Args:
            columns: Required columns, neither float nor double. Without columns, the key is removed.

        Example:
            >>> orders.alter().set_key("id").commit()
        """
        return self.with_change(SetKey(columns))

    def drop_key(self, *columns: str) -> AlterBuilder:
        """Remove columns from the key (Iceberg's identifier fields).

        Args:
            columns: Columns of the key.

        Example:
            >>> orders.alter().drop_key("line").commit()
        """
        return self.with_change(DropKey(columns))

    def add_partition_field(self, term: str, name: str | None = None) -> AlterBuilder:
        """Partition new files by one more column or transform (Iceberg). Existing files stay as they are.

        Args:
            term: A column or transform, such as 'country', 'days(ts)' or 'bucket(16, id)'.
            name: The partition field's name. By default it is derived from the column and the transform.

        Example:
            >>> orders.alter().add_partition_field("days(ts)").commit()
        """
        return self.with_change(AddPartition(Term.parse(term), name))

    def drop_partition_field(self, which: str) -> AlterBuilder:
        """Stop partitioning new files by a field (Iceberg). Existing files stay as they are.

        Args:
            which: The partition field's name, or its transform.

        Example:
            >>> orders.alter().drop_partition_field("days(ts)").commit()
        """
        return self.with_change(DropPartition(_which(which)))

    def replace_partition_field(self, which: str, term: str, name: str | None = None) -> AlterBuilder:
        """Partition new files by one field instead of another (Iceberg). Existing files stay as they are.

        Args:
            which: The old partition field's name, or its transform.
            term: The new column or transform; see `add_partition_field`.
            name: The new partition field's name.

        Example:
            >>> orders.alter().replace_partition_field("days(ts)", "hours(ts)").commit()
        """
        return self.with_change(ReplacePartition(_which(which), Term.parse(term), name))

    def set_sort_order(self, *terms: str, distribution: str | None = None) -> AlterBuilder:
        """Set the order of the rows in new files (Iceberg).

        Args:
            terms: Columns or transforms, such as 'id' or 'days(ts) desc nulls last'. Without terms, files are unsorted.
            distribution: How rows are distributed to the tasks that write them: 'none', 'hash' by partition, or
                'range'.

        Example:
            >>> orders.alter().set_sort_order("day", "id desc").commit()
        """
        return self.with_change(SetOrder(tuple(map(SortTerm.parse, terms)), distribution))

    def cluster_by(self, *columns: str) -> AlterBuilder:
        """Set the clustering columns (Delta).

        Args:
            columns: The columns. Without columns, clustering is turned off.

        Example:
            >>> events.alter().cluster_by("user", "day").commit()
        """
        return self.with_change(SetClustering(tuple(map(parse_reference, columns))))

    def set_properties(self, properties: Mapping[str, Any]) -> AlterBuilder:
        """Set table properties.

        Args:
            properties: Names and values. `format-version` (Iceberg) and `delta.feature.<name>` (Delta) upgrade the
                table.

        Raises:
            InvalidOption: `properties` is not a mapping, or has None as a value.

        Example:
            >>> orders.alter().set_properties({"write.delete.mode": "merge-on-read"}).commit()
        """
        return self.with_change(SetProperties(property_texts(properties)))

    def unset_properties(self, *names: str, if_exists: bool = True) -> AlterBuilder:
        """Remove table properties.

        Args:
            names: The names of the properties.
            if_exists: Ignore properties that are not set; otherwise `commit` raises `InvalidOption`.

        Example:
            >>> orders.alter().unset_properties("write.delete.mode").commit()
        """
        return self.with_change(UnsetProperties(names, if_exists))

    def set_comment(self, comment: str | None) -> AlterBuilder:
        """Set the table's comment.

        Args:
            comment: The text; None removes the comment.

        Example:
            >>> orders.alter().set_comment("one row per order").commit()
        """
        return self.with_change(SetComment(comment))

    def set_location(self, location: str) -> AlterBuilder:
        """Set the folder for new files (Iceberg). Existing files stay where they are.

        Args:
            location: The folder, as a path or URI.

        Example:
            >>> orders.alter().set_location("s3://lake/orders2").commit()
        """
        return self.with_change(SetLocation(location))

    def add_constraint(self, name: str, condition: str) -> AlterBuilder:
        """Add a CHECK constraint (Delta). `commit` first checks that all existing rows meet it.

        Args:
            name: The constraint's name.
            condition: An SQL condition that every row must meet.

        Example:
            >>> events.alter().add_constraint("positive", "price > 0").commit()
        """
        return self.with_change(AddConstraint(name, condition))

    def drop_constraint(self, name: str, *, if_exists: bool = False) -> AlterBuilder:
        """Drop a CHECK constraint (Delta).

        Args:
            name: The constraint's name.
            if_exists: Do nothing if the constraint does not exist.

        Example:
            >>> events.alter().drop_constraint("positive").commit()
        """
        return self.with_change(DropConstraint(name, if_exists))

    def drop_feature(self, name: str, *, truncate_history: bool = False) -> AlterBuilder:
        """Drop a table feature (Delta), so that readers and writers no longer need to support it.

        Dropping a reader feature takes several commits, and cannot be combined with other changes. `commit` raises
        `FeatureInUse` while older versions that use the feature cannot be removed.

        Args:
            name: The feature, such as 'deletionVectors'.
            truncate_history: Remove the older versions that use the feature, one day after the last of them. By default
                they stay, and the table gets the feature `checkpointProtection`.

        Example:
            >>> events.alter().drop_feature("deletionVectors").commit()
        """
        return self.with_change(DropFeature(name, truncate_history))

    def with_change(self, change: TableChange) -> AlterBuilder:
        """Add any change. The other methods are shorthands for this one.

        Args:
            change: An instance of one of the classes of `lakescan.definition.table_changes`.

        Example:
            >>> orders.alter().with_change(DropColumn(("note",))).commit()
        """
        return AlterBuilder(self._run, (*self._changes, change))

    def commit(self) -> AlterResult:
        """Make the changes in one commit.

        Returns:
            A description of each change.

        Raises:
            NoSuchColumn: The table lacks a column; the message suggests the nearest name.
            InvalidOption: The builder is empty, or a change is not allowed, such as a name that is taken or a type that
                would lose values. Nothing is changed.
            UnsupportedFeature: The format does not support a change, or existing data would become unreadable.
            FeatureInUse: `drop_feature` cannot remove older versions that use the feature yet.
            CommitConflict: Every attempt conflicted with a concurrent commit.
            CommitStateUnknown: The answer to the commit was lost, and lakescan could not find out whether it succeeded.

        Example:
            >>> print(orders.alter().set_comment("one row per order").commit())
            1 change: set the comment
        """
        if not self._changes:
            raise InvalidOption("alter() has no change to commit: add one, such as add_column(name, type)")
        return self._run(self._changes)

    def _type(self, name: str, given: Any) -> t.Type:
        found = convert_type(name, given)
        return parse_type(found) if isinstance(found, str) else columns_of(pa.schema([pa.field(name, found)]))[0].type


def property_texts(properties: Mapping[str, Any] | None) -> dict[str, str]:
    """Return properties as text, as tables store them; raises `InvalidOption` unless given a mapping without None."""
    if properties is None:
        return {}
    if not isinstance(properties, Mapping) or None in properties.values():
        raise InvalidOption(f"properties are a mapping of names to values, not {properties!r}")
    return {str(n): str(v).lower() if isinstance(v, bool) else str(v) for n, v in properties.items()}


def _place(first: bool, after: str | None) -> ColumnPosition | None:
    if first and after is not None:
        raise InvalidOption(f"first=True and after={after!r} contradict each other: give only one")
    return FIRST if first else None if after is None else ColumnPosition(parse_reference(after)[-1])


def _which(text: str) -> Term | str:
    """Parse a partition field: a transform if the text is a call, else the name of a field."""
    return Term.parse(text) if "(" in text else dotted_path(parse_reference(text))
