"""Catalogs: namespaces and tables by name, made, opened, renamed, dropped."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace as replaced
from datetime import date, datetime
from typing import Any, Unpack

import pyarrow as pa

from lakescan.api.catalog_views import CatalogViews, property_texts
from lakescan.api.foreign_schemas import convert_schema
from lakescan.api.open import table
from lakescan.api.rows import as_rows
from lakescan.api.table import Table
from lakescan.api.transaction import Transaction
from lakescan.catalogs.committer import CatalogCommitter
from lakescan.catalogs.delta_names import DeltaNames
from lakescan.catalogs.formats import format_named
from lakescan.catalogs.hive_metastore import is_hive
from lakescan.catalogs.import_files import Import, import_files, split_columns
from lakescan.catalogs.lookup import (
    check_free,
    check_not_other,
    check_one_format,
    find_table,
    stores_namespace,
    translate_catalog_errors,
)
from lakescan.catalogs.lost_answers import commit_change
from lakescan.catalogs.metrics import CatalogReporter
from lakescan.catalogs.registry import connection, location_limits, register_catalog
from lakescan.common.identifiers import Identifier, check_name, dotted_name, location_of, parse_identifier, split_name
from lakescan.common.option_values import terms
from lakescan.common.references import split_list
from lakescan.common.retries import retry_read
from lakescan.definition.arrow_schema import columns_of
from lakescan.definition.table_definition import SortTerm, TableDefinition, Term, assign_ids, set_default
from lakescan.errors import (
    CommitStateUnknown,
    CreatedConcurrently,
    InvalidOption,
    NoSuchNamespace,
    NoSuchTable,
    StorageError,
    TableExists,
    UnsupportedFeature,
    nearest,
)
from lakescan.options.keywords import OpenKeywords
from lakescan.options.write import WriteOptions
from lakescan.planning.metrics_reporters import MetricsReporter
from lakescan.statements.syntax.columns import NO_COLUMNS, ColumnsText, parse_columns
from lakescan.storage.locations import absolute
from lakescan.tables.base import CatalogTable, Format
from lakescan.tables.notebook import catalog_as_html
from lakescan.tables.results import WriteResult
from lakescan.tables.write_rows import create_with_rows, fill_columns


class Catalog(CatalogViews):
    """A catalog of namespaces and tables. Tables are named `namespace.table`; the catalog's own name may come first.

    Example:
        >>> lake = lakescan.catalog("local", warehouse="/lake/local")
        >>> lake.create_namespace("shop")
        >>> lake.create_table("shop.sales", "order_id BIGINT, price DOUBLE")
    """

    def __init__(self, name: str) -> None:
        self.name = name
        connection(name)  # a name that is not known is told here

    @property
    def _catalog(self) -> Any:
        """The connection for this thread: Hive's has one socket, and threads would read each other's answers."""
        return connection(self.name)

    def __repr__(self) -> str:
        return f"Catalog({self.name!r})"

    def _repr_html_(self) -> str:
        """The catalog as notebooks show it: its first namespaces, with their tables."""
        return catalog_as_html(self.name, self.list_namespaces, self.list_tables)

    def list_namespaces(self, parent: str | None = None) -> list[str]:
        """The namespaces of the catalog.

        Args:
            parent: List those directly under this one.

        Returns:
            Dotted names, sorted; parts that need it are in backquotes.

        Example:
            >>> lake.list_namespaces()
            ['shop']
        """
        under: tuple[str, ...] = () if parent is None else self._parts(parent)
        with translate_catalog_errors(Identifier(self.name, under, "")):
            return sorted(map(dotted_name, self._catalog.list_namespaces(under)))

    def list_tables(self, namespace: str) -> list[str]:
        """The tables of a namespace.

        Args:
            namespace: A dotted name.

        Returns:
            Names as `namespace.table`, sorted, as `load_table` takes them: parts that need it are in backquotes.

        Raises:
            NoSuchNamespace: The catalog does not have it.

        Example:
            >>> lake.list_tables("shop")
            ['shop.sales']
        """
        from pyiceberg.exceptions import NoSuchNamespaceError

        parts = self._parts(namespace)
        with translate_catalog_errors(Identifier(self.name, parts, "")):
            of_delta = DeltaNames(self._catalog).names(parts)
            try:
                names = {name[-1] for name in self._catalog.list_tables(parts)}
            except NoSuchNamespaceError:  # another client dropped it, to which it was empty
                if not of_delta:
                    raise
                names = set()
            names.update(of_delta)
            if not names and is_hive(self._catalog):  # it says of a database that is not there that it has no tables
                self._catalog.load_namespace_properties(parts)
        return sorted(dotted_name((*parts, name)) for name in names)

    def create_namespace(
        self, name: str, *, exist_ok: bool = False, properties: Mapping[str, str] | None = None
    ) -> None:
        """Create a namespace.

        Args:
            name: A dotted name.
            exist_ok: Do nothing if it exists.
            properties: Its properties, such as `comment` and `location`.

        Raises:
            TableExists: It exists.
            CommitStateUnknown: The answer was lost. If the namespace is there, another writer may have created it.

        Example:
            >>> lake.create_namespace("shop", exist_ok=True)
        """
        from pyiceberg.exceptions import NamespaceAlreadyExistsError

        parts = self._parts(name)
        for each in parts:
            check_name(each)
        try:
            with translate_catalog_errors(Identifier(self.name, parts, "")):
                commit_change(
                    f"creating the namespace {dotted_name((self.name, *parts))}",
                    lambda: self._catalog.create_namespace(parts, property_texts(properties)),
                    lambda: True if exist_ok and self._catalog.namespace_exists(parts) else None,
                )
        except NamespaceAlreadyExistsError as error:
            if not exist_ok:
                raise TableExists(
                    f"namespace {name!r} already exists in catalog {self.name!r}: exist_ok=True, or IF NOT EXISTS in "
                    "SQL, leaves it as it is"
                ) from error
        except StorageError:
            # Of two that create it at the same time, a constraint of an SQL catalog's database fails one.
            if not (exist_ok and self.namespace_exists(name)):
                raise

    def namespace_properties(self, name: str) -> dict[str, str]:
        """The properties of a namespace.

        Args:
            name: A dotted name.

        Returns:
            Names and values.

        Raises:
            NoSuchNamespace: It does not exist.

        Example:
            >>> lake.namespace_properties("shop")
            {'owner': 'sales'}
        """
        parts = self._parts(name)
        with translate_catalog_errors(Identifier(self.name, parts, "")):
            return dict(self._catalog.load_namespace_properties(parts))

    def update_namespace(self, name: str, properties: Mapping[str, str], *, removed: Iterable[str] = ()) -> None:
        """Set and remove properties of a namespace.

        Args:
            name: A dotted name.
            properties: Those to set.
            removed: The names of those to remove; one that is not there is left out.

        Raises:
            NoSuchNamespace: It does not exist.

        Example:
            >>> lake.update_namespace("shop", {"owner": "sales"})
        """
        parts, new, gone = self._parts(name), property_texts(properties), set(removed)
        there = self.namespace_properties(name)

        def is_made() -> bool | None:
            now = dict(self._catalog.load_namespace_properties(parts))
            return True if {**now, **new} == now and gone.isdisjoint(now) else None

        with translate_catalog_errors(Identifier(self.name, parts, "")):
            commit_change(
                f"changing the namespace {dotted_name((self.name, *parts))}",
                lambda: self._catalog.update_namespace_properties(parts, gone & set(there), new),
                is_made,
            )

    def drop_namespace(self, name: str, *, missing_ok: bool = False) -> None:
        """Drop an empty namespace.

        Args:
            name: A dotted name.
            missing_ok: Do nothing if it does not exist.

        Raises:
            NoSuchNamespace: It does not exist.
            TableExists: It has tables, or views.

        Example:
            >>> lake.drop_namespace("shop", missing_ok=True)
        """
        from pyiceberg.exceptions import NamespaceNotEmptyError

        parts = self._parts(name)
        where = Identifier(self.name, parts, "")
        try:
            with translate_catalog_errors(where):
                of_delta = DeltaNames(self._catalog).names(parts)
            if of_delta:
                raise NamespaceNotEmptyError("it has Delta tables")
            if self.namespace_exists(name) and (views := self.list_views(name)):
                raise TableExists(f"namespace {name!r} of catalog {self.name!r} has the view {views[0]}: drop it first")
            with translate_catalog_errors(where):
                commit_change(
                    f"dropping the namespace {dotted_name((self.name, *parts))}",
                    lambda: self._catalog.drop_namespace(parts),
                    lambda: None if self._catalog.namespace_exists(parts) else True,
                )
        except NoSuchNamespace:
            if not missing_ok:
                raise
        except NamespaceNotEmptyError as error:
            raise TableExists(f"namespace {name!r} of catalog {self.name!r} has tables: drop them first") from error

    def load_table(self, name: str, **options: Unpack[OpenKeywords]) -> Table:
        """Open a table.

        Args:
            name: `namespace.table`; the catalog's own name may come first.
            options: Arguments and options of `lakescan.table`.

        Raises:
            NoSuchTable: The catalog does not have it.

        Example:
            >>> lake.load_table("shop.sales").count()
        """
        return table(str(self._identifier(name)), **options)

    def reporter(self, name: str) -> MetricsReporter:
        """What sends reports of a table's scans to the catalog, for `Scan.report_to`.

        Args:
            name: `namespace.table`.

        Raises:
            UnsupportedFeature: The catalog is not of type rest, or its server takes no reports.

        Example:
            >>> lake.load_table("shop.orders").scan().report_to(lake.reporter("shop.orders")).to_arrow()
        """
        return CatalogReporter.create(self._identifier(name))

    def transaction(self) -> Transaction:
        """Begin a transaction: changes of several Iceberg tables, which one commit makes, all of them or none.

        Returns:
            The transaction, which is a context manager.

        Raises:
            UnsupportedFeature: The catalog is not of type rest, or its server does not commit several tables at once.

        Example:
            >>> with lake.transaction() as tx:
            ...     tx.load_table("shop.orders").append(orders)
            ...     tx.load_table("shop.baskets").delete("customer = 12")
        """
        return Transaction(self.name)

    def table_exists(self, name: str) -> bool:
        """Whether the catalog has a table.

        Args:
            name: `namespace.table`.

        Example:
            >>> lake.table_exists("shop.sales")
            True
        """
        try:
            find_table(self._identifier(name))
        except (NoSuchTable, NoSuchNamespace):
            return False
        return True

    def create_table(
        self,
        name: str,
        columns: Any,
        *,
        format: str = "iceberg",
        primary_key: str | Sequence[str] | None = None,
        partition_by: str | Sequence[str] | None = None,
        sort_by: str | Sequence[str] | None = None,
        defaults: Mapping[str, Any] | None = None,
        properties: Mapping[str, str] | None = None,
        location: str | os.PathLike[str] | None = None,
        comment: str | None = None,
        exist_ok: bool = False,
        replace: bool = False,
    ) -> Table:
        """Create an empty table, and open it.

        Args:
            name: `namespace.table`.
            columns: Text as in SQL, `id BIGINT NOT NULL, ts TIMESTAMP COMMENT 'when'`; an Arrow schema; PySpark's
                `StructType`; a schema of pandas (`dtypes`), Polars, pyiceberg or deltalake; or a frame with a schema.
            format: 'iceberg' or 'delta'.
            primary_key: The identifier fields (Iceberg): required columns, neither float nor double.
            partition_by: Columns, and Iceberg's transforms: `days(ts)`, `bucket(16, id)`, `truncate(4, name)`.
            sort_by: Columns and transforms with `desc` and `nulls last` (Iceberg).
            defaults: Values of columns that rows do not have (Iceberg from format version 3 on, and Delta).
            properties: The table's own, such as `format-version` or `delta.enableDeletionVectors`.
            location: The table's folder; by default one under the catalog's warehouse.
            comment: What the table is about.
            exist_ok: Open the table if it exists.
            replace: Replace the table if it exists; its history is kept (Iceberg).

        Returns:
            The open table.

        Raises:
            TableExists: It exists, and neither `exist_ok` nor `replace` is given.
            CreatedConcurrently: Another writer created it meanwhile, and `exist_ok` is not given.
            NoSuchNamespace: The namespace does not exist.
            CommitStateUnknown: The answer was lost, and looking it up did not tell the outcome: the table may be there.
            InvalidOption, UnsupportedFeature: Something that the format does not have, or that is not implemented.

        Example:
            >>> lake.create_table("shop.sales", "order_id BIGINT NOT NULL, day DATE", partition_by=["day"])
        """
        parsed, key = _new_columns(columns, format, properties)
        fields = parsed.columns
        given = dict(defaults or {})
        fields = tuple(set_default(field, given.pop(field.name, None)) for field in fields)
        if given:
            suggestion = nearest(min(given), [field.name for field in fields])
            raise InvalidOption(f"defaults has {min(given)!r}, which is not a column.{suggestion}")
        definition = TableDefinition(
            assign_ids(fields),
            (split_list(primary_key) if isinstance(primary_key, str) else tuple(primary_key or ())) or key,
            tuple(map(Term.parse, _terms("partition_by", partition_by or ()))),
            tuple(map(SortTerm.parse, _terms("sort_by", sort_by or ()))),
            property_texts(properties),
            location=None if location is None else location_of(location),
            comment=comment,
            rules=parsed.rules,
            constraints=parsed.constraints,
        )
        return self.create(name, definition, format=format, exist_ok=exist_ok, replace=replace)

    def create(
        self, name: str, definition: TableDefinition, *, format: str = "iceberg", exist_ok: bool, replace: bool
    ) -> Table:
        """Create a table by its definition; see `create_table`.

        Args:
            name: `namespace.table`.
            definition: Columns, partitions, sort order, properties.
            format: 'iceberg' or 'delta'.
            exist_ok: Open the table if it exists.
            replace: Replace the table if it exists.

        Example:
            >>> lake.create("shop.sales", definition, exist_ok=True, replace=False)
        """
        identifier, wanted = self._identifier(name), format_named(format)
        committer = CatalogCommitter(identifier)
        if self.table_exists(name):
            if exist_ok:
                return self.load_table(name)
            if not replace:
                raise TableExists(f"{identifier} already exists: replace=True replaces it, exist_ok=True opens it")
            wanted.replace(committer, self._find_replacement_target(identifier, wanted), definition)
            return self._reopen_table(name, "replaced")
        try:
            wanted.create(committer, definition)
        except (CreatedConcurrently, CommitStateUnknown):
            if not exist_ok or not self.table_exists(name):
                raise
        return self._reopen_table(name, "created")

    def _reopen_table(self, name: str, done: str) -> Table:
        """A table to which something is done, such as "created"; an answer that is lost is asked for again."""
        return retry_read(lambda: self.load_table(name), f"{self._identifier(name)} is {done}, but cannot be opened")

    def create_with(
        self,
        name: str,
        definition: TableDefinition,
        rows: Any,
        *,
        format: str = "iceberg",
        replace: bool = False,
        options: Mapping[str, Any] | None = None,
    ) -> WriteResult:
        """Create a table with rows, or replace one, in one commit: nobody sees it empty.

        Files of the rows are written first. If anything fails, the table is not made, or stays as it was, and the
        files are removed; unless the answer to the commit is lost.

        Args:
            name: `namespace.table`.
            definition: Columns (those of the rows if there are none), partitions, sort order, properties.
            rows: As `Table.append` takes them.
            format: 'iceberg' or 'delta'.
            replace: Replace the table if it exists; its history is kept.
            options: Write options.

        Returns:
            How many files, rows and bytes were written.

        Raises:
            TableExists: It exists, and `replace` is not given.
            CreatedConcurrently: Another writer created it meanwhile.
            CommitConflict: Another writer changed the table that is replaced.
            CommitStateUnknown: The answer to the commit was lost, and looking it up failed: the table may be there.
            SchemaMismatch: Rows do not fit the columns.

        Example:
            >>> lake.create_with("shop.sales", TableDefinition(()), rows, format="delta").rows
        """
        identifier, wanted = self._identifier(name), format_named(format)
        given = as_rows(rows)
        checked = WriteOptions.parse(options or {}, wanted.name).apply_session(given.session)
        checked.check_appends()
        checked.check_new_table()
        whole = fill_columns(definition, given, wanted)
        there = self.table_exists(name)
        if there and not replace:
            raise TableExists(f"{identifier} already exists: replace=True replaces it")
        committer = CatalogCommitter(identifier)
        if there:
            found = self._find_replacement_target(identifier, wanted)
            new = wanted.replacement(committer, found, whole, checked)
        else:
            new = wanted.new_table(committer, whole, checked)
        return create_with_rows(new, given)

    def create_from_files(
        self,
        name: str,
        folder: str | os.PathLike[str],
        *,
        columns: pa.Schema | str | None = None,
        partition_by: str | Sequence[str] | None = None,
        files: Sequence[str] | None = None,
        properties: Mapping[str, Any] | None = None,
        location: str | os.PathLike[str] | None = None,
        format: str = "iceberg",
    ) -> WriteResult:
        """Create an Iceberg table of Parquet files of other writers, where they are: no row is read or copied.

        The table has the files, but does not own them: set the property `gc.enabled` to false if another table or
        program needs them. Partitions are those of Hive's layout (`day=2026-01-31`).

        Args:
            name: `namespace.table`.
            folder: The folder of the files, or one file.
            columns: All columns; by default those of the files, and those that folders are named after.
            partition_by: The columns that folders are named after; all of them by default, with types by their values:
                whole numbers, fractions, days, or else text.
            files: The locations of the files under the folder to take; all by default, without hidden ones.
            properties: Table properties.
            location: The new table's folder, for its metadata and further files; by default one under the catalog's
                warehouse.
            format: 'iceberg'.

        Returns:
            How many files, rows and bytes the table has.

        Raises:
            TableExists: A table has the name.
            CreatedConcurrently: Another writer created it meanwhile.
            InvalidOption: There are no files; folders are not named after the partition columns; or the table would be
                in the folder of the files.
            SchemaMismatch: Files have columns of different types, or other ones than `columns`.
            UnsupportedFeature: The folder of a Delta or Iceberg table; a Delta table: see `convert_to_delta`.
            CommitStateUnknown: The answer to the commit was lost, and looking it up failed: the table may be there.

        Example:
            >>> lake.create_from_files("shop.events", "/lake/raw/events", properties={"gc.enabled": "false"})
        """
        identifier = self._identifier(name)
        if self.table_exists(name):
            raise TableExists(f"{identifier} already exists: drop it first, or choose another name")
        fields = None
        if columns is not None:
            found = convert_schema(columns).columns
            fields = parse_columns(found).columns if isinstance(found, str) else columns_of(found)
        names = None if partition_by is None else _terms("partition_by", partition_by)
        wanted = Import(
            absolute(location_of(folder)).rstrip("/"),
            *split_columns(fields, names),
            files,
            property_texts(properties),
            None if location is None else absolute(location_of(location)),
        )
        return import_files(format_named(format), self._catalog, identifier, wanted)

    def create_table_if_not_exists(self, name: str, columns: Any, **definition: Any) -> Table:
        """Open a table, or create it if it does not exist.

        Args:
            name: `namespace.table`.
            columns: The columns of a new table; see `create_table`.
            definition: Other arguments of `create_table`.

        Example:
            >>> lake.create_table_if_not_exists("shop.sales", "order_id BIGINT, price DOUBLE")
        """
        return self.create_table(name, columns, exist_ok=True, **definition)

    def namespace_exists(self, name: str) -> bool:
        """Whether the catalog has a namespace.

        Args:
            name: A dotted name.

        Example:
            >>> lake.namespace_exists("shop")
            True
        """
        parts = self._parts(name)
        where = Identifier(self.name, parts, "")
        if not stores_namespace(where):
            return False
        with translate_catalog_errors(where):
            return bool(self._catalog.namespace_exists(parts))

    def _find_replacement_target(self, identifier: Identifier, wanted: Format) -> CatalogTable:
        """The table that is to be replaced; raises `UnsupportedFeature` if it is of another format."""
        found = find_table(identifier)
        if format_named(found.format) is not wanted:
            raise UnsupportedFeature(
                f"replacing the {found.format} table {identifier} by one of {wanted.name}", "Drop it."
            )
        return found

    def clone_table(
        self,
        name: str,
        source: Table | str | os.PathLike[str],
        *,
        version: int | None = None,
        timestamp: datetime | date | str | None = None,
        properties: Mapping[str, Any] | None = None,
        location: str | os.PathLike[str] | None = None,
        exist_ok: bool = False,
        replace: bool = False,
    ) -> Table:
        """Make a Delta table of another one's files, without copying them, and open it: SHALLOW CLONE.

        Args:
            name: `namespace.table` of the new table.
            source: The table to clone: open, or as `lakescan.table` opens it.
            version: The version to clone; the newest by default.
            timestamp: The state at that time (UTC without an offset).
            properties: Properties that the clone has beside, or instead of, those of the source.
            location: The new table's folder; by default one under the catalog's warehouse.
            exist_ok: Open the table if it exists.
            replace: Take the place of the table if it exists and has no rows; its history is kept.

        Returns:
            The open table; see `Table.clone` for what it shares with the source.

        Raises:
            TableExists: It exists, and neither `exist_ok` nor `replace` is given.
            NoSuchNamespace: The namespace does not exist.
            NoSuchSnapshot: The source does not have the state.
            CommitConflict: Another writer changed the table that is replaced.
            UnsupportedFeature: The source is an Iceberg table; the table that is replaced is, or has rows.

        Example:
            >>> lake.clone_table("shop.events_test", "/lake/events", version=12)
        """
        from lakescan.catalogs.create import make_named_delta

        identifier = self._identifier(name)
        if self.table_exists(name):
            if exist_ok:
                return self.load_table(name)
            if not replace:
                raise TableExists(f"{identifier} already exists: exist_ok=True opens it, replace=True replaces it")
        opened = source if isinstance(source, Table) else table(source)
        location_limits(identifier.catalog).check(opened.folder)  # whose files the clone names
        where = None if location is None else absolute(location_of(location))
        state: dict[str, Any] = {"version": version, "timestamp": timestamp, "properties": properties}
        if self.table_exists(name):
            folder = self._find_replacement_target(identifier, format_named("delta")).location
            if where is not None and where != folder:
                raise InvalidOption(f"{identifier} is at {folder}: a clone that replaces it has no other location")
            opened.clone(folder, replace=True, **state)
            return self._reopen_table(name, "replaced")
        make_named_delta(self._catalog, identifier, where, lambda folder, _: opened.clone(folder, **state))
        return self._reopen_table(name, "created")

    def drop_table(self, name: str, *, missing_ok: bool = False, purge: bool = False) -> None:
        """Drop a table.

        Args:
            name: `namespace.table`.
            missing_ok: Do nothing if it does not exist.
            purge: Remove the files that the table's metadata references, except those that other tables of the catalog
                reference whose location or `write.data.path` is in the same folders, and except those in other folders
                than the table's own, which `add_files` has taken from there. A REST server purges by its own rules.
                Without, all files stay, also those of Delta tables; a new Delta table of the same name gets a folder
                of its own.

        Raises:
            NoSuchTable: It does not exist.
            CommitStateUnknown: The answer was lost, and the table is still there, or looking it up failed.
            UnsupportedFeature: A purge of a Delta table, of a table whose `gc.enabled` is not true, or of a table that
                has another name, too.

        Example:
            >>> lake.drop_table("shop.sales", purge=True)
        """
        from lakescan.maintenance.purge import purge_table

        identifier, names = self._identifier(name), DeltaNames(self._catalog)
        with translate_catalog_errors(identifier):
            location = names.location(identifier.within)
            if location is not None:
                check_one_format(self._catalog, identifier, location)
        if location is not None:
            if purge:
                raise UnsupportedFeature(
                    f"purging a Delta table ({identifier})", f"Drop it, and delete its folder {location}."
                )
            with translate_catalog_errors(identifier):
                names.remove(identifier.within)
            return
        check_not_other(identifier)  # pyiceberg would drop it
        try:
            if purge:
                purge_table(self._catalog, identifier)
            else:
                with translate_catalog_errors(identifier):
                    commit_change(
                        f"dropping {identifier}",
                        lambda: self._catalog.drop_table(identifier.within),
                        lambda: None if self.table_exists(name) else True,
                    )
        except NoSuchTable:
            if not missing_ok:
                raise

    def rename_table(self, name: str, new: str) -> Table:
        """Rename a table, and open it.

        Args:
            name: `namespace.table`.
            new: The new name; it may be in another namespace.

        Raises:
            NoSuchTable: The table does not exist.
            TableExists: A table has the new name.
            CommitStateUnknown: The answer was lost, and looking it up did not tell the outcome.

        Example:
            >>> lake.rename_table("shop.sales", "shop.orders")
        """
        from pyiceberg.exceptions import NoSuchTableError, TableAlreadyExistsError

        old, renamed = self._identifier(name), self._identifier(new)
        if self.table_exists(new):
            raise TableExists(f"{renamed} already exists")
        check_free(renamed)
        if not self.namespace_exists(dotted_name(renamed.namespace)):
            raise NoSuchNamespace(f"catalog {self.name!r} has no namespace {'.'.join(renamed.namespace)!r}")
        names = DeltaNames(self._catalog)
        with translate_catalog_errors(old):
            location = names.location(old.within)
            if location is not None:
                check_one_format(self._catalog, old, location)
                names.rename(old.within, renamed.within)
                return self._reopen_table(new, "renamed")
            before = find_table(old).location

            def is_made() -> bool | None:
                return True if find_table(renamed).location == before and not self.table_exists(name) else None

            try:
                commit_change(
                    f"renaming {old}",
                    lambda: self._catalog.rename_table(old.within, renamed.within),
                    is_made,
                )
            except TableAlreadyExistsError as error:
                raise TableExists(f"{renamed} already exists") from error
            except NoSuchTableError as error:  # pyiceberg looks at the new name once it is given
                if not str(error).endswith(dotted_name(renamed.within)):
                    raise
        return self._reopen_table(new, "renamed")

    def register_table(self, name: str, location: str | os.PathLike[str]) -> Table:
        """Give an existing table a name, and open it.

        A table with names in two catalogs, or a copied folder whose metadata leads to the original, has two owners of
        the same files. Set `gc.enabled` to `false` on one of them, so that only the other removes files. Warns of a
        copy whose original has other metadata at the table's location.

        Args:
            name: `namespace.table`.
            location: An Iceberg table's metadata file or folder, or a Delta table's folder.

        Raises:
            NotATable: There is no table.
            TableExists: A table has the name.
            CommitStateUnknown: The answer was lost, and looking it up did not tell the outcome.

        Example:
            >>> lake.register_table("shop.old_sales", "/lake/sales")
        """
        identifier = self._identifier(name)
        if self.table_exists(name):
            raise TableExists(f"{identifier} already exists")
        check_free(identifier)
        opened = table(location)
        format_named(opened.format).register(CatalogCommitter(identifier), opened.scan().spec)
        return self._reopen_table(name, "registered")

    def _identifier(self, name: str) -> Identifier:
        return parse_identifier(self.name, name)

    def _parts(self, namespace: str) -> tuple[str, ...]:
        parts = split_name(namespace) if isinstance(namespace, str) else None
        if parts is None:
            raise InvalidOption(f"{namespace!r} is not the name of a namespace")
        return parts[1:] if len(parts) > 1 and parts[0] == self.name else parts


def catalog(name: str | Mapping[str, Any] = "default", **properties: Any) -> Catalog:
    """Open a catalog, and make it known by its name to `lakescan.table` and, after `register`, to Spark.

    Args:
        name: The catalog's name, or all of its properties as a mapping, with the name under `name`. A name that is not
            given properties is looked up among the catalogs known here and in pyiceberg's configuration.
        properties: `warehouse="./lake"` alone is an embedded catalog: SQLite in that folder. Other properties are
            pyiceberg's: `type` (rest, sql, glue, hive, hadoop), `uri`, `credential`, ... Underscores stand for
            hyphens; a mapping takes names as they are:
            `catalog({"name": "prod", "type": "rest", "s3.access-key-id": key})`.

    Returns:
        The catalog.

    Raises:
        NoSuchCatalog: The name is not known.
        InvalidOption: A property is missing or wrong.
        MissingDependency: pyiceberg is not installed.

    Example:
        >>> lake = lakescan.catalog("local", warehouse="/lake/local")
    """
    said = {key.replace("_", "-"): value for key, value in properties.items()}
    if isinstance(name, Mapping):
        said = {**name, **said}
        name = str(said.pop("name", "default"))
    if said:
        register_catalog(name, said)
    return Catalog(name)


def _new_columns(
    given: Any, format_name: str, properties: Mapping[str, str] | None
) -> tuple[ColumnsText, tuple[str, ...]]:
    """The columns of a new table with their rules, and its key."""
    found = convert_schema(given)
    if isinstance(found.columns, str):
        parsed = parse_columns(found.columns, of_new_table=True)
        return parsed, parsed.key
    if not found.is_of_frame:
        return replaced(NO_COLUMNS, columns=columns_of(found.columns)), found.key
    columns = format_named(format_name).columns(found.columns, properties or {})
    return replaced(NO_COLUMNS, columns=columns), ()


def _terms(argument: str, given: str | Sequence[str]) -> Sequence[str]:
    try:
        return terms(given)
    except ValueError as error:
        raise InvalidOption(f"{argument}={given!r}: expected {error}") from error
