"""Write frames to tables by name with the methods of Spark's own writers, which cannot reach lakescan's catalogs."""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING, Any, NoReturn

from lakescan.api.catalog import Catalog
from lakescan.api.open import table as open_table
from lakescan.api.table import Table
from lakescan.catalogs.formats import DEFAULT, FORMATS, exists, format_named
from lakescan.catalogs.registry import is_known
from lakescan.common.identifiers import Identifier, split_name
from lakescan.common.option_values import terms
from lakescan.common.references import parse_reference
from lakescan.definition.table_definition import TableDefinition, Term
from lakescan.errors import InvalidOption, NoSuchTable, UnsupportedFeature, nearest
from lakescan.expressions.predicate import Predicate
from lakescan.options.write import WriteOptions
from lakescan.tables.results import WriteResult
from lakescan.tables.write_rows import create_in_folder

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

_LOCATIONS = ("path", "location")
_MODES = ("error", "errorifexists", "append", "overwrite", "ignore")
_COLUMN = re.compile(r"Column<'(.*)'>", re.DOTALL)


class TableWriter:
    """A write of a frame to a table by name, like Spark's `df.writeTo(name)`, for lakescan's catalogs.

    Made by `lakescan.spark.write_to`. `using`, `partitionedBy`, `clusterBy` and `tableProperty` are for new tables.

    Example:
        >>> lakescan.spark.write_to(frame, "local.shop.sales").partitionedBy("days(sold_at)").create()
    """

    def __init__(self, frame: DataFrame, name: str, within: tuple[str, ...]) -> None:
        if frame.isStreaming:
            raise InvalidOption("the rows of a stream are written by lakescan.spark.to_table")
        self._frame, self._target = frame, NamedTable.resolve(name, within)
        self._format: str | None = None
        self._options: dict[str, Any] = {}
        self._properties: dict[str, str] = {}
        self._partition_by: tuple[Term, ...] = ()
        self._cluster_by: tuple[tuple[str, ...], ...] = ()

    def __repr__(self) -> str:
        return f"TableWriter({str(self._target)!r})"

    def __getattr__(self, name: str) -> NoReturn:
        words = [each for each in vars(TableWriter) if not each.startswith("_")]
        raise AttributeError(f"write_to has no {name!r}.{nearest(name, words)} It has: {', '.join(words)}")

    def using(self, provider: str) -> TableWriter:
        """Set the format of the new table.

        Args:
            provider: 'iceberg' (by default) or 'delta'.

        Example:
            >>> lakescan.spark.write_to(frame, "local.shop.sales").using("delta").create()
        """
        self._format = format_named(provider).name
        return self

    def option(self, key: str, value: Any) -> TableWriter:
        """Set an option of the write.

        Args:
            key: The option's name; the page Options of the documentation lists them.
            value: The option's value; None leaves it out.

        Example:
            >>> lakescan.spark.write_to(frame, "local.shop.sales").option("mergeSchema", True).append()
        """
        if value is not None:
            self._options[key] = value
        return self

    def options(self, **options: Any) -> TableWriter:
        """Set options of the write; see `option`.

        Args:
            options: Values by name.

        Example:
            >>> lakescan.spark.write_to(frame, "local.shop.sales").options(maxRecordsPerFile=100_000).append()
        """
        for key, value in options.items():
            self.option(key, value)
        return self

    def tableProperty(self, property: str, value: str) -> TableWriter:
        """Set a property of the new table.

        Args:
            property: The property's name, such as 'format-version'.
            value: The property's value.

        Example:
            >>> lakescan.spark.write_to(frame, "local.shop.sales").tableProperty("format-version", "3").create()
        """
        self._properties[property] = str(value)
        return self

    def partitionedBy(self, col: str | Column, *cols: str | Column) -> TableWriter:
        """Set the partitioning of the new table.

        Args:
            col: A column, or a transform: text such as "days(ts)", or `pyspark.sql.functions.partitioning.days("ts")`.
            cols: Further columns or transforms.

        Example:
            >>> lakescan.spark.write_to(frame, "local.shop.sales").partitionedBy("days(ts)", "country").create()
        """
        self._partition_by = tuple(Term.parse(_text_of(each)) for each in (col, *cols))
        return self

    def clusterBy(self, col: str, *cols: str) -> TableWriter:
        """Set the clustering columns of the new table (Delta).

        Args:
            col: A column, or a struct member.
            cols: Further columns or members.

        Example:
            >>> lakescan.spark.write_to(frame, "local.shop.sales").using("delta").clusterBy("country").create()
        """
        self._cluster_by = tuple(parse_reference(each) for each in (col, *cols))
        return self

    def create(self) -> WriteResult:
        """Create the table with the columns and the rows of the frame, in one commit.

        Returns:
            The numbers of files, rows and bytes that were written.

        Raises:
            TableExists: The table already exists.
            InvalidOption, UnsupportedFeature: See `Catalog.create_table`.

        Example:
            >>> lakescan.spark.write_to(frame, "local.shop.sales").create().rows
        """
        if self._target.path is not None:
            return self._create_in_folder()
        return self._create_table("CREATE TABLE")

    def replace(self) -> WriteResult:
        """Replace the table by one with the columns and rows of the frame, in one commit, keeping the table's history.

        Returns:
            The numbers of files, rows and bytes that were written.

        Raises:
            NoSuchTable: The table does not exist.
            UnsupportedFeature: The table is named by its path, or has another format.

        Example:
            >>> lakescan.spark.write_to(frame, "local.shop.sales").replace()
        """
        self._open_table()
        return self._create_table("REPLACE TABLE")

    def createOrReplace(self) -> WriteResult:
        """Create the table, or replace it if it exists; see `create` and `replace`.

        Example:
            >>> lakescan.spark.write_to(frame, "local.shop.sales").createOrReplace()
        """
        return self._create_table("CREATE OR REPLACE TABLE")

    def append(self) -> WriteResult:
        """Append the rows to an existing table. Columns are matched by name.

        Returns:
            The numbers of files, rows and bytes that were written.

        Raises:
            NoSuchTable: The table does not exist.
            SchemaMismatch, CommitConflict, CommitStateUnknown, UnsupportedFeature: See `Table.append`.

        Example:
            >>> lakescan.spark.write_to(frame, "local.shop.sales").append()
        """
        table = self._open_existing("append")
        return table.append(self._frame, **self._options)

    def overwrite(self, condition: str | bool | Predicate) -> WriteResult:
        """Replace the table's rows that match a condition by the rows of the frame, which must also match it.

        Args:
            condition: SQL text, or `lakescan.col("day") == "2026-01-31"`; True replaces all rows. Spark columns are not
                supported: write the condition as SQL.

        Returns:
            The numbers of files, rows and bytes that were written.

        Raises:
            NoSuchTable: The table does not exist.
            InvalidOption: The condition is a Spark column.
            SchemaMismatch, CommitConflict, CommitStateUnknown, UnsupportedFeature: See `Table.overwrite`.

        Example:
            >>> lakescan.spark.write_to(frame, "local.shop.sales").overwrite("day = '2026-01-31'")
        """
        if not isinstance(condition, str | bool | Predicate) or condition is False:
            raise InvalidOption(
                f"overwrite takes a condition as SQL text, such as \"day = '2026-01-31'\", or True, not {condition!r}"
            )
        where = None if isinstance(condition, bool) else condition
        table = self._open_existing("overwrite")
        return table.overwrite(self._frame, where=where, **self._options)

    def overwritePartitions(self) -> WriteResult:
        """Replace the partitions for which the frame has rows, or all rows of an unpartitioned table.

        Returns:
            The numbers of files, rows and bytes that were written.

        Raises:
            NoSuchTable: The table does not exist.
            SchemaMismatch, CommitConflict, CommitStateUnknown, UnsupportedFeature: See `Table.overwrite`.

        Example:
            >>> lakescan.spark.write_to(frame, "local.shop.sales").overwritePartitions()
        """
        table = self._open_existing("overwritePartitions")
        options = {"overwrite-mode": "dynamic"} | self._options
        return table.overwrite(self._frame, **options)

    def _open_existing(self, word: str) -> Table:
        given = {
            "using": self._format,
            "partitionedBy": self._partition_by,
            "clusterBy": self._cluster_by,
            "tableProperty": self._properties,
        }
        if extra := [each for each, value in given.items() if value]:
            raise InvalidOption(f"{extra[0]} is for new tables: {word} writes to {self._target} as it is. Remove it.")
        return self._open_table()

    def _open_table(self) -> Table:
        target = self._target
        if target.path is not None:
            return open_table(target.path, format=target.format)
        return target.catalog.load_table(target.within)

    def _new_location(self) -> str | None:
        """Return the folder of a new table: the option `path`, or the property `location`, as in Spark."""
        given = {**self._properties, **self._options}
        return next((str(value) for key, value in given.items() if key.lower() in _LOCATIONS), None)

    def _create_table(self, command: str) -> WriteResult:
        if self._target.path is not None:
            raise UnsupportedFeature(
                f"replacing the table at {self._target.path}", "It has no name in a catalog: overwrite(True) its rows."
            )
        definition = dataclasses.replace(self._definition, command=command)
        return self._target.catalog.create_with(
            self._target.within,
            definition,
            self._frame,
            format=self._format or DEFAULT,
            replace=command != "CREATE TABLE",
            options={key: value for key, value in self._options.items() if key.lower() not in _LOCATIONS},
        )

    @property
    def _definition(self) -> TableDefinition:
        properties = {key: value for key, value in self._properties.items() if key.lower() not in _LOCATIONS}
        return TableDefinition(
            (),
            partition_by=self._partition_by,
            properties=properties,
            location=self._new_location(),
            cluster_by=self._cluster_by,
        )

    def _create_in_folder(self) -> WriteResult:
        target = self._target
        assert target.path is not None
        assert target.format is not None
        if self._format not in (None, target.format):
            raise InvalidOption(
                f"{target.path} is named as a {target.format} table, but using({self._format!r}) was called"
            )
        format = format_named(target.format)
        definition = self._definition
        options = WriteOptions.parse(self._options, format.name)
        from lakescan.spark.writing.write import SparkRows

        return create_in_folder(
            target.path, definition, SparkRows(self._frame), format, options, options.storage_options or {}
        )


class NamedTable:
    """The table that a name refers to: a table of a catalog (`parts`), or in a folder (``delta.`/path` ``).

    `path` and `format` are set for a folder, else None.
    """

    def __init__(self, parts: tuple[str, ...], path: str | None, format: str | None) -> None:
        self.parts = parts
        self.path = path
        self.format = format

    def __str__(self) -> str:
        return self.path or str(self.identifier)

    @property
    def identifier(self) -> Identifier:
        """The table's full name with its catalog. For tables of a catalog only."""
        return Identifier(self.parts[0], self.parts[1:-1], self.parts[-1])

    @property
    def catalog(self) -> Catalog:
        """The table's catalog."""
        return Catalog(self.parts[0])

    @property
    def within(self) -> str:
        """The table's name within its catalog: namespace and table."""
        return str(Identifier(self.parts[1], self.parts[2:-1], self.parts[-1]))

    @property
    def exists(self) -> bool:
        """Whether the table exists, in its catalog or folder."""
        return exists(self.path, {}) if self.path is not None else self.catalog.table_exists(self.within)

    @staticmethod
    def resolve(name: str, within: tuple[str, ...]) -> NamedTable:
        """Resolve a name as SQL statements do; `within` is the catalog and namespace of unqualified names.

        Raises `InvalidOption` for text that is not a table name, and `NoSuchTable` for an unqualified name without
        `within`.
        """
        parts = split_name(name) if isinstance(name, str) else None
        if parts is None:
            raise InvalidOption(f"{name!r} is not the name of a table: catalog.namespace.table, or delta.`/path`")
        if len(parts) == 2 and parts[0].lower() in FORMATS:
            return NamedTable((), parts[1], parts[0].lower())
        if len(parts) < 3 or not is_known(parts[0]):
            if not within:
                raise NoSuchTable(
                    f"{name!r} does not begin with a known catalog, and no USE was run: give "
                    "catalog.namespace.table (see lakescan.catalog)"
                )
            parts = (*within, *parts) if len(parts) == 1 else (within[0], *parts)
        if len(parts) < 3:
            raise InvalidOption(f"{name!r} has no namespace: give catalog.namespace.table")
        return NamedTable(parts, None, None)


def _text_of(column: str | Column) -> str:
    """Return a partition column or transform as text: as passed, or as Spark prints a column.

    Raises `InvalidOption` for other values.
    """
    if isinstance(column, str):
        return column
    found = _COLUMN.fullmatch(str(column))
    if found is None:
        raise InvalidOption(f"{column!r} is not a partition: give a column, or a transform such as 'days(ts)'")
    return found[1]


def save_as_table(
    frame: DataFrame,
    name: str,
    format: str | None,
    mode: str | None,
    partition_by: str | list[str] | None,
    within: tuple[str, ...],
    options: dict[str, Any],
) -> WriteResult:
    """Save a frame as a table by name; see `lakescan.spark.save_as_table`."""
    chosen = mode or "error"
    if chosen not in _MODES:
        raise InvalidOption(f"mode {mode!r} is unknown.{nearest(chosen, _MODES)} Valid: {', '.join(_MODES)}")
    writer = TableWriter(frame, name, within).options(**options)
    target = NamedTable.resolve(name, within)
    there = chosen not in ("error", "errorifexists") and target.exists
    if chosen == "ignore" and there:
        return WriteResult(0, 0, 0)
    if there and format is not None and format_named(format).name != writer._open_table().format:
        raise InvalidOption(f"{target} is a table of format {writer._open_table().format}, not {format}")
    by = terms(partition_by) if partition_by is not None else ()
    if there and chosen == "append":
        if by and ", ".join(map(str, map(Term.parse, by))) != writer._open_table().partitioning:
            raise InvalidOption(
                f"{target} is partitioned by {writer._open_table().partitioning}, not by {', '.join(by)}"
            )
        return writer.append()
    if there and not by:
        return writer._open_table().overwrite(frame, **options)
    if format is not None or there:
        writer.using(format if format is not None else writer._open_table().format)
    if by:
        writer.partitionedBy(*by)
    return writer.createOrReplace() if there else writer.create()


def to_table(
    stream: DataStreamWriter | DataFrame,
    name: str,
    format: str | None,
    output_mode: str | None,
    partition_by: str | list[str] | None,
    query_name: str | None,
    within: tuple[str, ...],
    options: dict[str, Any],
) -> StreamingQuery:
    """Start a stream into a table by name; see `lakescan.spark.to_table`."""
    target = NamedTable.resolve(name, within)
    writer: DataStreamWriter = stream.writeStream if hasattr(stream, "writeStream") else stream
    if partition_by is not None:
        options = {"partition-by": ", ".join(terms(partition_by)), **options}
    chosen = format or target.format
    if chosen is not None:
        options = {"format": format_named(chosen).name, **options}
    for key, value in options.items():
        writer = writer.option(key, value)
    if output_mode is not None:
        writer = writer.outputMode(output_mode)
    if query_name is not None:
        writer = writer.queryName(query_name)
    return writer.format("lakescan").option("path", str(target)).start()  # the user may have set that option, too
