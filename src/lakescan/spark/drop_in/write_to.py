"""`df.writeTo` of lakescan's tables."""

from __future__ import annotations

import re
from contextlib import ExitStack
from typing import Any, NoReturn

from lakescan.common.identifiers import dotted_name, split_name
from lakescan.common.references import backquote, parse_reference
from lakescan.definition.table_definition import Term
from lakescan.errors import InvalidOption, LakescanError, NoSuchTable, TableExists, nearest
from lakescan.spark.column_sql.column_text import Scope, column_text
from lakescan.spark.drop_in.errors import ANALYSIS, errors_of_format, raise_as_spark, with_class
from lakescan.spark.drop_in.interception import NOT_OURS, running
from lakescan.spark.drop_in.names import table_parts
from lakescan.spark.drop_in.session_catalog import writer_of_new_table
from lakescan.spark.drop_in.sessions import EnabledSession, find_session, in_use
from lakescan.spark.drop_in.write import (
    append_named,
    create_named,
    has_table,
    is_path,
    overwrite_named,
    save_delta,
)
from lakescan.spark.session import is_connect

_PRINTED = re.compile(r"Column<'(.*)'>", re.DOTALL)


class EnabledTableWriter:
    """A write of a data frame to a table by name, as `df.writeTo(name)` returns it.

    `using`, `partitionedBy`, `clusterBy` and `tableProperty` have an effect only if the table is created or replaced.

    Args:
        frame: The data frame.
        name: The table's full name, or a format and a path: ``delta.`/data/t` ``.
        within: Not used.
    """

    def __init__(self, frame: Any, name: str, within: tuple[str, ...] = ()) -> None:
        del within
        self._frame, self._parts = frame, split_name(name) or (name,)
        self._provider: str | None = None
        self._options: dict[str, Any] = {}
        self._properties: dict[str, str] = {}
        self._by: tuple[Term, ...] = ()
        self._cluster_by: tuple[tuple[str, ...], ...] = ()

    def __getattr__(self, name: str) -> NoReturn:
        words = [each for each in vars(EnabledTableWriter) if not each.startswith("_")]
        raise AttributeError(f"'DataFrameWriterV2' object has no attribute {name!r}.{nearest(name, words)}")

    def using(self, provider: str) -> EnabledTableWriter:
        """Set the format of a new table: `iceberg`, `delta`, or the format of an Iceberg table's files."""
        self._provider = provider
        return self

    def option(self, key: str, value: Any) -> EnabledTableWriter:
        """Set an option of the write; None leaves it out. Names are compared without case."""
        for known in [each for each in self._options if each.lower() == key.lower()]:
            del self._options[known]
        if value is not None:
            self._options[key] = str(value).lower() if isinstance(value, bool) else str(value)
        return self

    def options(self, **options: Any) -> EnabledTableWriter:
        """Set options of the write; see `option`."""
        for key, value in options.items():
            self.option(key, value)
        return self

    def tableProperty(self, property: str, value: str) -> EnabledTableWriter:
        """Set a property of the new table."""
        self._properties[property] = str(value)
        return self

    def partitionedBy(self, col: Any, *cols: Any) -> EnabledTableWriter:
        """Set the partitioning of the new table: columns, and transforms such as `partitioning.days("ts")`."""
        with raise_as_spark(), running():
            self._by = tuple(self._term(each) for each in (col, *cols))
        return self

    def clusterBy(self, col: str, *cols: str) -> EnabledTableWriter:
        """Set the clustering columns of a new Delta table."""
        self._cluster_by = tuple(parse_reference(each) for each in (col, *cols))
        return self

    def create(self) -> None:
        """Create the table with the columns and rows of the data frame, in one commit.

        Raises:
            AnalysisException: The table exists.
        """
        with self._action():
            if is_path(self._parts):
                self._save_in_folder("error")
                return
            if has_table(self._parts):
                raise TableExists(f"{dotted_name(self._parts)} already exists: createOrReplace() replaces it")
            self._create("CREATE TABLE")

    def replace(self) -> None:
        """Replace the table by one with the columns and rows of the data frame, in one commit.

        Raises:
            AnalysisException: The table does not exist.
        """
        with self._action():
            if not has_table(self._parts):
                raise NoSuchTable(f"{dotted_name(self._parts)} does not exist: createOrReplace() creates it")
            self._create("REPLACE TABLE")

    def createOrReplace(self) -> None:
        """Create the table, or replace it if it exists."""
        with self._action():
            self._create("CREATE OR REPLACE TABLE")

    def append(self) -> None:
        """Append the rows. Columns are matched by name.

        Raises:
            AnalysisException: The table does not exist, or a column does not fit.
        """
        with self._action():
            append_named(self._frame, self._parts, self._options)

    def overwrite(self, condition: Any) -> None:
        """Replace the rows that match a condition, a `Column`, by the rows of the data frame.

        Raises:
            AnalysisException: The table or a column does not exist.
            IllegalArgumentException: The condition cannot be written as a filter.
        """
        with self._action():
            text = self._text(condition)
            where = None if text.strip("() ").lower() == "true" else text
            overwrite_named(self._frame, self._parts, where, self._options)

    def overwritePartitions(self) -> None:
        """Replace the partitions that the data frame has rows for, or all rows of an unpartitioned table.

        Raises:
            AnalysisException: The table does not exist, or a column does not fit.
        """
        with self._action():
            overwrite_named(self._frame, self._parts, None, self._options, dynamic=True)

    def _create(self, command: str) -> None:
        if is_path(self._parts):
            self._save_in_folder("overwrite")
            return
        create_named(
            *(self._frame, self._parts, self._by, self._cluster_by),
            *(self._properties, self._options, self._provider),
            command=command,
        )

    def _save_in_folder(self, mode: str) -> None:
        kind, folder = self._parts
        if kind.lower() != "delta" or (self._provider or "delta").lower() != "delta":
            raise InvalidOption(f"a table in a folder is created with format delta, not {self._provider or kind}")
        options: dict[str, Any] = {**self._options, **self._properties}
        if mode == "overwrite":
            options["overwriteSchema"] = "true"
            options["overwrite-mode"] = "static"
        by = [each.column for each in self._by]
        if any(each.name != "identity" for each in self._by):
            raise InvalidOption(f"a Delta table is partitioned by columns, not by {', '.join(map(str, self._by))}")
        with errors_of_format("delta"):
            save_delta(self._frame, folder, mode, by or None, options)

    def _text(self, column: Any) -> str:
        """Return a condition as SQL text; as in Spark, a string is the name of a column."""
        from pyspark.sql import functions

        wanted = functions.col(column) if isinstance(column, str) else column
        return column_text(self._frame.sparkSession, wanted, Scope())

    def _term(self, column: Any) -> Term:
        """Return a partition transform; raises `InvalidOption` for any other expression."""
        if isinstance(column, str):
            return Term(".".join(map(_quoted, parse_reference(column))))
        try:
            text = column_text(self._frame.sparkSession, column, Scope())
        except LakescanError:
            found = _PRINTED.fullmatch(str(column))
            text = str(column) if found is None else found[1]
        try:
            return Term.parse(text)
        except LakescanError as error:
            raise with_class(
                InvalidOption(f"Invalid partition transformation: {text}. {error}"), ANALYSIS, "_LEGACY_ERROR_TEMP_1316"
            ) from error

    def _action(self) -> ExitStack:
        """Return a context manager for an action: lakescan's own calls are not intercepted, and errors are Spark's."""
        stack = ExitStack()
        spark = self._frame.sparkSession
        stack.enter_context(raise_as_spark(connect=is_connect(spark)))
        stack.enter_context(running())
        if (session := find_session(spark)) is not None:
            stack.enter_context(in_use(session))
        return stack


def _quoted(part: str) -> str:
    return part if part.isidentifier() else backquote(part)


def write_to(session: EnabledSession, frame: Any, table: str) -> Any:
    """Run `df.writeTo`."""
    if frame.isStreaming:
        return NOT_OURS  # Spark raises its error
    parts = table_parts(session, table)
    if parts is None:
        return writer_of_new_table(session, frame, table, EnabledTableWriter) or NOT_OURS
    return EnabledTableWriter(frame, ".".join(map(backquote, parts)), ())
