"""Open the tables of `DeltaTable`: by path, or by name in lakescan's catalogs and in Spark's own catalog."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lakescan.api.open import table as open_table
from lakescan.api.table import Table
from lakescan.common.identifiers import split_name
from lakescan.common.references import backquote, dotted_path
from lakescan.errors import NoSuchTable, NotATable, UnsupportedFeature
from lakescan.spark.drop_in.names import table_parts
from lakescan.spark.drop_in.sessions import find_session
from lakescan.spark.frames import session_frame
from lakescan.spark.statements.names import current_namespace
from lakescan.spark.statements.queries import frame_of_name
from lakescan.spark.statements.session_catalog import source_table
from lakescan.storage.locations import absolute

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SESSION = "spark_catalog"


@dataclass
class OpenedTable:
    """A table that a `DeltaTable` and its aliases share.

    - `table`: the table.
    - `parts`: its name in a query: of a catalog, or the format and a path.
    - `name`: its full name for `detail`; None for a path.
    - `options`: settings of the file system, if given.
    - `frames`: the frames that `toDF` returned, whose columns conditions may name.
    """

    table: Table
    parts: tuple[str, ...]
    name: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    frames: list[Any] = field(default_factory=list)

    @property
    def columns(self) -> list[str]:
        """The names of the table's columns."""
        return list(self.table.schema.names)

    def to_frame(self, spark: SparkSession) -> DataFrame:
        """Return the table's rows."""
        if self.options:
            frame = session_frame(spark, self.table.refresh().scan().spec)
        else:
            frame = frame_of_name(spark, self.parts, {})
        self.frames.append(frame)
        return frame


def open_path(path: str, options: Mapping[str, str]) -> OpenedTable:
    """Open the Delta table in a folder; raises `NotATable`.

    Args:
        path: The folder. A relative one is within the current folder.
        options: Settings of the file system, such as `fs.s3a.access.key`.
    """
    location = absolute(path)
    table = open_table(location, format="delta", storage_options=dict(options) or None)
    return OpenedTable(table, ("delta", location), None, dict(options))


def open_name(spark: SparkSession, name: str) -> OpenedTable:
    """Open a Delta table by name: ``delta.`path` ``, or a table of lakescan's catalogs or of Spark's own catalog.

    Raises:
        NoSuchTable: There is no such table.
        NotATable: It is a table of another format, or a view.
    """
    parts = split_name(name.strip())
    if parts is None:
        raise NoSuchTable(f"{name!r} is not the name of a table: DeltaTable.forPath opens a folder")
    if len(parts) == 2 and parts[0].lower() == "delta":
        return open_path(parts[1], {})
    full = full_name(spark, parts)
    if full is not None and full[0].lower() == "delta" and len(full) == 2:
        return open_path(full[1], {})
    if full is not None:
        table = open_table(dotted_path(full))
        if table.format != "delta":
            raise NotATable(f"{name} is not a Delta table: its format is {table.format}")
        return OpenedTable(table, full, dotted_path(full))
    return _open_session_table(spark, parts)


def full_name(spark: SparkSession, parts: tuple[str, ...]) -> tuple[str, ...] | None:
    """Return the full name of a table that is not Spark's; None for one of Spark's own catalog."""
    session = find_session(spark)
    if session is not None:
        return table_parts(session, ".".join(map(backquote, parts)))
    from lakescan.catalogs.registry import is_known

    if len(parts) > 2 and is_known(parts[0]) and parts[0] != _SESSION:
        return parts
    within = current_namespace(spark)
    return None if not within or parts[0] == _SESSION else (*within[: len(within) + 1 - len(parts)], *parts)


def _open_session_table(spark: SparkSession, parts: tuple[str, ...]) -> OpenedTable:
    text = ".".join(map(backquote, parts))
    try:
        found = source_table(spark, text)
    except UnsupportedFeature as error:
        raise NotATable(f"{dotted_path(parts)} is not a Delta table") from error
    if found.format != "delta":
        raise NotATable(f"{dotted_path(parts)} is not a Delta table: its format is {found.format}")
    opened = open_path(found.location, {})
    within = parts[1:] if parts[0] == _SESSION else parts
    namespace = within[:-1] or (str(spark.catalog.currentDatabase()),)
    opened.name = dotted_path((_SESSION, *namespace, within[-1]))
    return opened
