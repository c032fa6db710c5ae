"""`Catalog`: create, open, list, rename and drop namespaces and tables by name."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
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
from lakescan.catalogs.new_table_properties import complete_definition
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
    """A catalog of namespaces and tables.

    A table's name is `namespace.table`, or `catalog.namespace.table`.

    Example:
        >>> lake = lakescan.catalog("local", warehouse="/lake/local")
        >>> lake.create_namespace("shop")
        >>> lake.create_table("shop.sales", "order_id BIGINT, price DOUBLE")
    """

    def __init__(self, name: str) -> None:
        self.name = name
        connection(name)  # raises `NoSuchCatalog`

    @property
    def _catalog(self) -> Any:
        """Return this thread's connection: threads that shared Hive's socket would read each other's answers."""
        return connection(self.name)

    @property
    def registers_existing(self) -> bool:
        """Whether CREATE TABLE with the location of an existing table registers it, as in Spark's own catalog."""
        return bool(getattr(self._catalog, "registers_existing", False))

    def __repr__(self) -> str:
        return f"Catalog({self.name!r})"

    def _repr_html_(self) -> str:
        """Return HTML for notebooks: the first namespaces of the catalog, with their tables."""
        return catalog_as_html(self.name, self.list_namespaces, self.list_tables)

    def list_namespaces(self, parent: str | None = None) -> list[str]:
        """List the namespaces of the catalog.

        Args:
            parent: A dotted name; list only the namespaces directly under it. By default those at the top level.

        Returns:
            Sorted dotted names. Parts with special characters are in backquotes.

        Raises:
            NoSuchNamespace: The namespace `parent` does not exist.

        Example:
            >>> lake.list_namespaces()
            ['shop']
        """
        under: tuple[str, ...] = () if parent is None else self._parts(parent)
        with translate_catalog_errors(Identifier(self.name, under, "")):
            return sorted(map(dotted_name, self._catalog.list_namespaces(under)))

    def list_tables(self, namespace: str) -> list[str]:
        """List the tables of a namespace.

        Args:
            namespace: The namespace's dotted name.

        Returns:
            Sorted names `namespace.table`, as `load_table` takes them. Parts with special characters are in backquotes.

        Raises:
            NoSuchNamespace: The namespace does not exist.

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
            except NoSuchNamespaceError:  # dropped by another client, which does not see Delta tables
                if not of_delta:
                    raise
                names = set()
            names.update(of_delta)
            if not names and is_hive(self._catalog):  # Hive reports no error for a missing database
                self._catalog.load_namespace_properties(parts)
        return sorted(dotted_name((*parts, name)) for name in names)

    def create_namespace(
        self, name: str, *, exist_ok: bool = False, properties: Mapping[str, str] | None = None
    ) -> None:
        """Create a namespace.

        Args:
            name: The namespace's dotted name.
            exist_ok: Do nothing if the namespace exists.
            properties: Properties of the namespace, such as `comment` and `location`.

        Raises:
            TableExists: The namespace exists, and `exist_ok` is not given.
            CommitStateUnknown: The catalog's answer was lost. If the namespace exists now, another client may have
                created it.

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
            # In an SQL catalog, one of two concurrent creators fails by a constraint of the database.
            if not (exist_ok and self.namespace_exists(name)):
                raise

    def namespace_properties(self, name: str) -> dict[str, str]:
        """Return the properties of a namespace.

        Args:
            name: The namespace's dotted name.

        Returns:
            The properties' names and values.

        Raises:
            NoSuchNamespace: The namespace does not exist.

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
            name: The namespace's dotted name.
            properties: The properties to set.
            removed: The names of properties to remove; names that are not set are ignored.

        Raises:
            NoSuchNamespace: The namespace does not exist.

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
            name: The namespace's dotted name.
            missing_ok: Do nothing if the namespace does not exist.

        Raises:
            NoSuchNamespace: The namespace does not exist, and `missing_ok` is not given.
            TableExists: The namespace has tables or views.

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
            name: `namespace.table`, or `catalog.namespace.table`.
            options: Keyword arguments of `lakescan.table`.

        Raises:
            NoSuchTable: The catalog has no such table.

        Example:
            >>> lake.load_table("shop.sales").count()
        """
        return table(str(self._identifier(name)), **options)

    def reporter(self, name: str) -> MetricsReporter:
        """Return a metrics reporter that sends the scan reports of a table to the catalog, for `Scan.report_to`.

        Args:
            name: The table's name, `namespace.table`.

        Raises:
            UnsupportedFeature: The catalog is not a REST catalog, or its server does not accept reports.

        Example:
            >>> lake.load_table("shop.orders").scan().report_to(lake.reporter("shop.orders")).to_arrow()
        """
        return CatalogReporter.create(self._identifier(name))

    def transaction(self) -> Transaction:
        """Begin a transaction: one commit that changes several Iceberg tables, all of them or none.

        Returns:
            The transaction. As a context manager, it commits at the end of the block.

        Raises:
            UnsupportedFeature: The catalog is not a REST catalog, or its server cannot commit several tables at once.

        Example:
            >>> with lake.transaction() as tx:
            ...     tx.load_table("shop.orders").append(orders)
            ...     tx.load_table("shop.baskets").delete("customer = 12")
        """
        return Transaction(self.name)

    def table_exists(self, name: str) -> bool:
        """Return whether the catalog has a table.

        Args:
            name: The table's name, `namespace.table`.

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
            name: The table's name, `namespace.table`.
            columns: SQL text such as `id BIGINT NOT NULL, ts TIMESTAMP COMMENT 'when'`; an Arrow schema; PySpark's
                `StructType`; a schema of pandas (`dtypes`), Polars, pyiceberg or deltalake; or a frame with a schema.
            format: 'iceberg' or 'delta'.
            primary_key: The columns that identify a row, Iceberg's identifier fields: required, neither float nor
                double.
            partition_by: Columns. For Iceberg also transforms: `days(ts)`, `bucket(16, id)`, `truncate(4, name)`.
            sort_by: The sort order of new files (Iceberg): columns and transforms, optionally with `desc` and `nulls
                last`.
            defaults: By column, the value for rows that lack the column (Delta, and Iceberg from format version 3).
            properties: Table properties, such as `format-version` or `delta.enableDeletionVectors`.
            location: The table's folder. By default a folder under the catalog's warehouse.
            comment: A description of the table.
            exist_ok: If the table exists, open it as it is.
            replace: If the table exists, replace it. Iceberg keeps its history.

        Returns:
            The open table.

        Raises:
            TableExists: The table exists, and neither `exist_ok` nor `replace` is given.
            CreatedConcurrently: Another writer created the table at the same time, and `exist_ok` is not given.
            NoSuchNamespace: The namespace does not exist.
            CommitStateUnknown: The catalog's answer was lost, and the table may or may not have been created.
            InvalidOption: An argument is invalid, or does not fit the columns.
            UnsupportedFeature: The format or lakescan does not support what an argument asks for.

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
        """Create an empty table from a `TableDefinition`; see `create_table`.

        Args:
            name: The table's name, `namespace.table`.
            definition: The table's columns, partitions, sort order and properties.
            format: 'iceberg' or 'delta'.
            exist_ok: If the table exists, open it as it is.
            replace: If the table exists, replace it.

        Returns:
            The open table.

        Raises:
            TableExists: The table exists, and neither `exist_ok` nor `replace` is given.
            CreatedConcurrently, NoSuchNamespace, CommitStateUnknown, UnsupportedFeature: As for `create_table`.

        Example:
            >>> lake.create("shop.sales", definition, exist_ok=True, replace=False)
        """
        identifier, wanted = self._identifier(name), format_named(format)
        definition = complete_definition(definition, self._catalog.properties, wanted)
        committer = CatalogCommitter(identifier)
        if self.table_exists(name):
            if exist_ok:
                return self.load_table(name)
            if not replace:
                raise TableExists(f"{identifier} already exists: replace=True replaces it, exist_ok=True opens it")
            wanted.replace(committer, self._find_replacement_target(identifier, wanted), definition)
            return self._reopen_table(name, "replaced")
        try:
            with self._withdraw_failed(identifier):
                wanted.create(committer, definition)
        except (CreatedConcurrently, CommitStateUnknown):
            if not exist_ok or not self.table_exists(name):
                raise
        return self._reopen_table(name, "created")

    @contextmanager
    def _withdraw_failed(self, identifier: Identifier) -> Iterator[None]:
        """Context manager: if the body, which creates a table, fails, withdraw a name that its catalog reserved.

        The name stays if the table may exist: if the outcome is unknown, or if another writer created it.
        """
        try:
            yield
        except (CommitStateUnknown, CreatedConcurrently):
            raise
        except BaseException:
            if (withdraw := getattr(self._catalog, "withdraw_name", None)) is not None:  # Spark's own catalog
                withdraw(identifier)
            raise

    def _reopen_table(self, name: str, done: str) -> Table:
        """Open a table that was just changed, and retry reads that fail.

        `done` names the change in messages: "created", "renamed", ...
        """
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
        save_mode: str | None = None,
    ) -> WriteResult:
        """Create or replace a table together with its rows, in one commit.

        Readers never see the table empty. Data files are written before the commit. If anything fails, no table is
        created (or the old one stays), and the data files are removed, except if it is unknown whether the commit
        succeeded.

        Args:
            name: The table's name, `namespace.table`.
            definition: The table's columns, partitions, sort order and properties. Without columns, it gets those of
                the rows.
            rows: The rows; see `Table.append`.
            format: 'iceberg' or 'delta'.
            replace: If the table exists, replace it. Its history is kept.
            options: Write options by name.
            save_mode: Spark's save mode, which a new table records in its history.

        Returns:
            The number of files, rows and bytes written.

        Raises:
            TableExists: The table exists, and `replace` is not given.
            CreatedConcurrently: Another writer created the table at the same time.
            CommitConflict: Another writer changed the table that was to be replaced.
            CommitStateUnknown: The answer to the commit was lost, and the table may or may not have been created.
            SchemaMismatch: The rows do not fit the columns.

        Example:
            >>> lake.create_with("shop.sales", TableDefinition(()), rows, format="delta").rows
        """
        identifier, wanted = self._identifier(name), format_named(format)
        given = as_rows(rows)
        checked = WriteOptions.parse(options or {}, wanted.name).apply_session(given.session)
        checked = replaced(checked, save_mode=save_mode)
        checked.check_appends()
        checked.check_new_table()
        definition = complete_definition(definition, self._catalog.properties, wanted)
        whole = fill_columns(definition, given, wanted)
        there = self.table_exists(name)
        if there and not replace:
            raise TableExists(f"{identifier} already exists: replace=True replaces it")
        committer = CatalogCommitter(identifier)
        if there:
            found = self._find_replacement_target(identifier, wanted)
            new = wanted.replacement(committer, found, whole, checked)
        else:
            with self._withdraw_failed(identifier):
                return create_with_rows(wanted.new_table(committer, whole, checked), given)
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
        """Create an Iceberg table from existing Parquet files, without reading rows or moving files.

        The files stay where they are. The table references them but does not own them: set the property `gc.enabled` to
        false if another table or program needs them. Partitions are taken from Hive-style folders (`day=2026-01-31`).

        Args:
            name: The table's name, `namespace.table`.
            folder: The folder of the files, or a single file.
            columns: All columns of the table. By default the columns of the files and of the folder names.
            partition_by: The partition columns, taken from the folder names; requires `columns`. By default all columns
                of the folder names, with types inferred from their values: whole numbers, fractions, dates, or else
                text.
            files: The locations of the files to add, all under `folder`. By default all files that are not hidden.
            properties: Table properties.
            location: The folder of the table's metadata and of new files. By default a folder under the catalog's
                warehouse.
            format: Only 'iceberg' is supported.

        Returns:
            The number of files, rows and bytes in the table.

        Raises:
            TableExists: The table exists.
            CreatedConcurrently: Another writer created the table at the same time.
            InvalidOption: The folder has no files, the folder names do not match the partition columns, `partition_by`
                is given without `columns`, or `location` is in `folder`.
            SchemaMismatch: The files have conflicting types for a column, or do not match `columns`.
            UnsupportedFeature: `folder` already is a Delta or Iceberg table, or `format` is 'delta'; see
                `lakescan.convert_to_delta`.
            CommitStateUnknown: The answer to the commit was lost, and the table may or may not have been created.

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
            name: The table's name, `namespace.table`.
            columns: The columns of a new table; see `create_table`.
            definition: Other keyword arguments of `create_table`.

        Example:
            >>> lake.create_table_if_not_exists("shop.sales", "order_id BIGINT, price DOUBLE")
        """
        return self.create_table(name, columns, exist_ok=True, **definition)

    def namespace_exists(self, name: str) -> bool:
        """Return whether the catalog has a namespace.

        Args:
            name: The namespace's dotted name.

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
        """Return the existing table to replace; raises `UnsupportedFeature` if its format is not `wanted`."""
        found = find_table(identifier)
        if format_named(found.format) is not wanted:
            raise UnsupportedFeature(
                f"replacing the {found.format} table {identifier} by one of {wanted.name}", "Drop the table first."
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
        """Create a Delta table that references the files of another table, not copies of them (SHALLOW CLONE).

        Args:
            name: The new table's name, `namespace.table`.
            source: The table to clone: an open table, or a path or name that `lakescan.table` opens.
            version: The version to clone. By default the newest.
            timestamp: Clone the version that was current at this time (UTC unless it has an offset).
            properties: Table properties of the clone, added to those of the source or overriding them.
            location: The new table's folder. By default a folder under the catalog's warehouse.
            exist_ok: If the table exists, open it as it is.
            replace: If the table exists and has no rows, replace it. Its history is kept.

        Returns:
            The open table. `Table.clone` describes the files that it shares with the source.

        Raises:
            TableExists: The table exists, and neither `exist_ok` nor `replace` is given.
            NoSuchNamespace: The namespace does not exist.
            NoSuchSnapshot: The source has no such version.
            CommitConflict: Another writer changed the table that was to be replaced.
            InvalidOption: `location` is given for a table to replace, and is not its folder.
            LocationRefused: The catalog's allowed locations do not include the folder of the source.
            UnsupportedFeature: The source is an Iceberg table, or the table to replace is one or has rows.

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
        location_limits(identifier.catalog).check(opened.folder)  # the clone references its files
        where = None if location is None else absolute(location_of(location))
        state: dict[str, Any] = {"version": version, "timestamp": timestamp, "properties": properties}
        if self.table_exists(name):
            folder = self._find_replacement_target(identifier, format_named("delta")).location
            if where is not None and where != folder:
                raise InvalidOption(
                    f"{identifier} is at {folder}, and so is a clone that replaces it: leave location out"
                )
            opened.clone(folder, replace=True, **state)
            return self._reopen_table(name, "replaced")
        make_named_delta(self._catalog, identifier, where, lambda folder, _: opened.clone(folder, **state))
        return self._reopen_table(name, "created")

    def drop_table(self, name: str, *, missing_ok: bool = False, purge: bool = False) -> None:
        """Drop a table.

        Args:
            name: The table's name, `namespace.table`.
            missing_ok: Do nothing if the table does not exist.
            purge: Also delete the files that an Iceberg table's metadata references. Files outside the table's own
                folders (from `add_files`) stay, and so do files that other tables of the catalog in the same folders
                reference. A REST server purges by its own rules. By default all files stay, and a new Delta table of
                the same name gets another folder.

        Raises:
            NoSuchTable: The table does not exist, and `missing_ok` is not given.
            CommitStateUnknown: The catalog's answer was lost, and the table is not known to be dropped.
            UnsupportedFeature: `purge` is given for a Delta table, for a table whose `gc.enabled` is false, or for a
                table that the catalog also has under another name.

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
            if purge and not getattr(self._catalog, "owns_files", False):
                raise UnsupportedFeature(
                    f"purging a Delta table ({identifier})", f"Drop it without purge, and delete its folder {location}."
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
            name: The current name, `namespace.table`.
            new: The new name, `namespace.table`; the namespace may differ.

        Returns:
            The open table.

        Raises:
            NoSuchTable: The table does not exist.
            NoSuchNamespace: The namespace of the new name does not exist.
            TableExists: A table or view already has the new name.
            CommitStateUnknown: The catalog's answer was lost, and lakescan could not find out whether the table was
                renamed.

        Example:
            >>> lake.rename_table("shop.sales", "shop.orders")
        """
        from pyiceberg.exceptions import NoSuchTableError, TableAlreadyExistsError

        old, renamed = self._identifier(name), self._identifier(new)
        if self.table_exists(new):
            raise TableExists(f"{renamed} already exists: drop it first, or choose another name")
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
                raise TableExists(f"{renamed} already exists: drop it first, or choose another name") from error
            except NoSuchTableError as error:  # pyiceberg loads the table by its new name afterwards
                if not str(error).endswith(dotted_name(renamed.within)):
                    raise
        return self._reopen_table(new, "renamed")

    def register_table(self, name: str, location: str | os.PathLike[str]) -> Table:
        """Add an existing table to the catalog under a name, and open it.

        A table that is registered in two catalogs, or a copied folder whose metadata still refers to the original,
        leaves two owners of the same files. Set `gc.enabled` to `false` for one of them, so that only the other removes
        files. Logs a warning if the table's metadata refers to another location that has different metadata.

        Args:
            name: The table's name, `namespace.table`.
            location: An Iceberg table's metadata file or folder, or a Delta table's folder.

        Returns:
            The open table.

        Raises:
            NotATable: The location has no table.
            TableExists: A table or view already has the name.
            CommitStateUnknown: The catalog's answer was lost, and the table may or may not be registered.

        Example:
            >>> lake.register_table("shop.old_sales", "/lake/sales")
        """
        identifier = self._identifier(name)
        if self.table_exists(name):
            raise TableExists(f"{identifier} already exists: drop it first, or choose another name")
        check_free(identifier)
        opened = table(location)
        format_named(opened.format).register(CatalogCommitter(identifier), opened.scan().spec)
        return self._reopen_table(name, "registered")

    def _identifier(self, name: str) -> Identifier:
        return parse_identifier(self.name, name)

    def _parts(self, namespace: str) -> tuple[str, ...]:
        parts = split_name(namespace) if isinstance(namespace, str) else None
        if parts is None:
            raise InvalidOption(f"{namespace!r} is not the name of a namespace: give a dotted name as text")
        return parts[1:] if len(parts) > 1 and parts[0] == self.name else parts


def catalog(name: str | Mapping[str, Any] = "default", **properties: Any) -> Catalog:
    """Open a catalog, and make it available by its name to `lakescan.table`, and to Spark after `register`.

    Args:
        name: The catalog's name, or a mapping of all properties, with the name under the key `name`. A name without
            properties is looked up among the catalogs opened before, and in pyiceberg's configuration.
        properties: `warehouse="./lake"` alone opens an embedded catalog, a SQLite database in that folder. Other
            properties are those of pyiceberg: `type` (rest, sql, glue, hive, hadoop), `uri`, `credential`, ... Keyword
            arguments have underscores instead of hyphens. A mapping has the names as they are: `catalog({"name":
            "prod", "type": "rest", "s3.access-key-id": key})`.

    Returns:
        The catalog.

    Raises:
        NoSuchCatalog: The name has no properties, and no catalog of that name is configured.
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
    """Return the columns of a new table, with their rules and constraints, and the names of its key columns.

    `given` are the columns as `Catalog.create_table` takes them. `properties` are those of the table. They can change
    the types for a pandas or Polars schema, such as Iceberg's nanosecond timestamps.
    """
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
