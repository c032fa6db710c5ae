"""`Table.alter`: changes of a table's columns, layout and properties, collected and committed as one."""

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
    """Changes of a table, which `commit` makes in one commit: all of them, or none.

    Made by `Table.alter`. Each method returns a new builder with one more change; changes apply in their order. Names
    are references: `address.city` is the member `city` of `address`. As a context manager, it commits at the end,
    unless an error is raised.

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
            name: Its name; `address.city` adds a member to the struct `address`.
            type: An SQL type such as 'DECIMAL(10, 2)', or a type of Arrow, PySpark, pandas, Polars or pyiceberg.
            comment: What it is about.
            required: Whether it may not be null; that takes a table without rows, or a default.
            default: Its value in older rows, and in new ones without it (Iceberg from format version 3 on); Delta has
                it for new rows alone (`delta.feature.allowColumnDefaults`).
            first: Put it before its siblings; at the end by default.
            after: Put it behind this sibling.
            if_not_exists: Do nothing if it is there.

        Example:
            >>> orders.alter().add_column("address.zip", "STRING", after="city").commit()
        """
        *parent, own = parse_reference(name)
        column = t.Field(0, own, self._type(name, type), required, comment)
        given = None if default is None else default_of(default)
        return self.with_change(AddColumn(tuple(parent), column, given, _place(first, after), if_not_exists))

    def drop_column(self, name: str, *, if_exists: bool = False) -> AlterBuilder:
        """Drop a column, or a member of a struct: rows keep it in their files, and readers see it no more.

        Args:
            name: Its name.
            if_exists: Do nothing if it is not there.

        Example:
            >>> orders.alter().drop_column("note").commit()
        """
        return self.with_change(DropColumn(parse_reference(name), if_exists))

    def rename_column(self, name: str, new: str) -> AlterBuilder:
        """Rename a column, or a member of a struct.

        Args:
            name: Its name.
            new: Its new name, without the path to it.

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
        """Change a column, or a member of a struct; what is not given stays as it is.

        Args:
            name: Its name.
            type: A wider type that holds all values of the earlier one; see `add_column`.
            comment: What it is about; None removes the comment.
            required: Whether it may not be null. A column that may be null can become required only if the format can
                tell that no row has a null.
            default: Its value in new rows without it; None removes the default.
            first: Put it before its siblings.
            after: Put it behind this sibling.

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

        Iceberg: older rows have nulls in all of them, whatever their names were. Delta: columns are matched by their
        names and keep their values; others are either added or dropped, not both in one statement.

        Args:
            columns: Text as in CREATE TABLE, or a schema as `Catalog.create_table` takes it.

        Example:
            >>> orders.alter().replace_columns("id BIGINT, note STRING").commit()
        """
        found = convert_schema(columns).columns
        if isinstance(found, str):
            parsed = parse_columns(found)
            return self.with_change(ReplaceColumns(parsed.columns, parsed.defaults))
        return self.with_change(ReplaceColumns(columns_of(found)))

    def set_key(self, *columns: str) -> AlterBuilder:
        """Set the columns that identify a row: Iceberg's identifier fields, the keys of `upsert`.

        Args:
            columns: Required columns, neither float nor double; none removes the key.

        Example:
            >>> orders.alter().set_key("id").commit()
        """
        return self.with_change(SetKey(columns))

    def drop_key(self, *columns: str) -> AlterBuilder:
        """Take columns out of the key.

        Args:
            columns: Columns of the key.

        Example:
            >>> orders.alter().drop_key("line").commit()
        """
        return self.with_change(DropKey(columns))

    def add_partition_field(self, term: str, name: str | None = None) -> AlterBuilder:
        """Partition new files by one more column or transform (Iceberg); older files stay as they are.

        Args:
            term: Such as 'country', 'days(ts)', 'bucket(16, id)'.
            name: The field's name; made of the transform and the column by default.

        Example:
            >>> orders.alter().add_partition_field("days(ts)").commit()
        """
        return self.with_change(AddPartition(Term.parse(term), name))

    def drop_partition_field(self, which: str) -> AlterBuilder:
        """Partition new files by one field less (Iceberg).

        Args:
            which: The field's name, or its transform.

        Example:
            >>> orders.alter().drop_partition_field("days(ts)").commit()
        """
        return self.with_change(DropPartition(_which(which)))

    def replace_partition_field(self, which: str, term: str, name: str | None = None) -> AlterBuilder:
        """Partition new files by one field in the place of another (Iceberg).

        Args:
            which: The earlier field's name, or its transform.
            term: The new transform.
            name: The new field's name.

        Example:
            >>> orders.alter().replace_partition_field("days(ts)", "hours(ts)").commit()
        """
        return self.with_change(ReplacePartition(_which(which), Term.parse(term), name))

    def set_sort_order(self, *terms: str, distribution: str | None = None) -> AlterBuilder:
        """Sort new files (Iceberg).

        Args:
            terms: Such as 'id', 'days(ts) desc nulls last'; none for unsorted files.
            distribution: How rows go to tasks that write: 'none', 'hash' by partition, or 'range'.

        Example:
            >>> orders.alter().set_sort_order("day", "id desc").commit()
        """
        return self.with_change(SetOrder(tuple(map(SortTerm.parse, terms)), distribution))

    def cluster_by(self, *columns: str) -> AlterBuilder:
        """Set the clustering columns (Delta).

        Args:
            columns: The columns; none for a table that is not clustered any more.

        Example:
            >>> events.alter().cluster_by("user", "day").commit()
        """
        return self.with_change(SetClustering(tuple(map(parse_reference, columns))))

    def set_properties(self, properties: Mapping[str, Any]) -> AlterBuilder:
        """Set table properties.

        Args:
            properties: Names and values. `format-version` (Iceberg) and features (`delta.feature.<name>`) upgrade the
                table.

        Example:
            >>> orders.alter().set_properties({"write.delete.mode": "merge-on-read"}).commit()
        """
        return self.with_change(SetProperties(property_texts(properties)))

    def unset_properties(self, *names: str, if_exists: bool = True) -> AlterBuilder:
        """Remove table properties.

        Args:
            names: Their names.
            if_exists: Do nothing about those that are not set.

        Example:
            >>> orders.alter().unset_properties("write.delete.mode").commit()
        """
        return self.with_change(UnsetProperties(names, if_exists))

    def set_comment(self, comment: str | None) -> AlterBuilder:
        """Say what the table is about.

        Args:
            comment: The text; None removes it.

        Example:
            >>> orders.alter().set_comment("one row an order").commit()
        """
        return self.with_change(SetComment(comment))

    def set_location(self, location: str) -> AlterBuilder:
        """Set the folder of new files (Iceberg); older files stay where they are.

        Args:
            location: The folder.

        Example:
            >>> orders.alter().set_location("s3://lake/orders2").commit()
        """
        return self.with_change(SetLocation(location))

    def add_constraint(self, name: str, condition: str) -> AlterBuilder:
        """Add a CHECK constraint (Delta); the rows that are there are checked first.

        Args:
            name: Its name.
            condition: An SQL condition that all rows meet.

        Example:
            >>> events.alter().add_constraint("positive", "price > 0").commit()
        """
        return self.with_change(AddConstraint(name, condition))

    def drop_constraint(self, name: str, *, if_exists: bool = False) -> AlterBuilder:
        """Drop a CHECK constraint (Delta).

        Args:
            name: Its name.
            if_exists: Do nothing if it is not there.

        Example:
            >>> events.alter().drop_constraint("positive").commit()
        """
        return self.with_change(DropConstraint(name, if_exists))

    def drop_feature(self, name: str, *, truncate_history: bool = False) -> AlterBuilder:
        """Drop a table feature (Delta), so that readers and writers need not support it.

        One that readers must know takes several commits, and goes by itself: no other change beside it. `commit` raises
        `FeatureInUse` as long as older versions that use it cannot be removed.

        Args:
            name: Such as 'deletionVectors'.
            truncate_history: Remove older versions that use it, a day after the last one. Without, they stay, and the
                table gets the feature `checkpointProtection`.

        Example:
            >>> events.alter().drop_feature("deletionVectors").commit()
        """
        return self.with_change(DropFeature(name, truncate_history))

    def with_change(self, change: TableChange) -> AlterBuilder:
        """Add any change; the other methods are short for it.

        Args:
            change: One of `lakescan.definition.table_changes`.

        Example:
            >>> orders.alter().with_change(DropColumn(("note",))).commit()
        """
        return AlterBuilder(self._run, (*self._changes, change))

    def commit(self) -> AlterResult:
        """Make the changes in one commit.

        Returns:
            What was changed.

        Raises:
            NoSuchColumn: A column is not there; the message names the nearest.
            InvalidOption: There is no change, or a change is not allowed: a name that is taken, a type that would
                lose values. Nothing is changed.
            UnsupportedFeature: The format does not have it, or older data would become unreadable.
            CommitConflict: Other writers changed the same during every attempt.
            CommitStateUnknown: The answer to the commit was lost, and looking it up failed.

        Example:
            >>> print(orders.alter().set_comment("one row an order").commit())
            1 change: set the comment
        """
        if not self._changes:
            raise InvalidOption("alter() without a change: add one, such as add_column(name, type)")
        return self._run(self._changes)

    def _type(self, name: str, given: Any) -> t.Type:
        found = convert_type(name, given)
        return parse_type(found) if isinstance(found, str) else columns_of(pa.schema([pa.field(name, found)]))[0].type


def property_texts(properties: Mapping[str, Any] | None) -> dict[str, str]:
    """Properties as tables record them; raises `InvalidOption` for what is no mapping, or has None."""
    if properties is None:
        return {}
    if not isinstance(properties, Mapping) or None in properties.values():
        raise InvalidOption(f"properties are a mapping of names to values, not {properties!r}")
    return {str(n): str(v).lower() if isinstance(v, bool) else str(v) for n, v in properties.items()}


def _place(first: bool, after: str | None) -> ColumnPosition | None:
    if first and after is not None:
        raise InvalidOption(f"a column is either first or after {after!r}")
    return FIRST if first else None if after is None else ColumnPosition(parse_reference(after)[-1])


def _which(text: str) -> Term | str:
    """A partition field by its transform, if the text is a call, else by its name."""
    return Term.parse(text) if "(" in text else dotted_path(parse_reference(text))
