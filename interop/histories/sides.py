"""Both sides of a table: lakescan and the JVM run statements and read rows, states, changes and metadata."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from tests.support.session import local_session

import lakescan
from interop.conftest import DELTA, ICEBERG, SQLITE
from interop.histories.canonical import spelled

_LINEAGE = ("_row_id", "_last_updated_sequence_number")
_TRACKED = ("_row_id", "_row_commit_version")
_OF_ICEBERG = [
    "entries", "files", "data_files", "delete_files", "history", "metadata_log_entries", "snapshots", "refs",
    "manifests", "partitions", "all_data_files", "all_delete_files", "all_files", "all_manifests", "all_entries",
    "position_deletes",
]  # fmt: skip
# The comparable columns of both formats' histories; commit times and engine names are not compared.
_OF_DELTA = {
    "history": ["version", "timestamp", "operation", "isolationLevel", "isBlindAppend", "userMetadata"],
    "detail": ["format", "id", "name", "description", "partitionColumns", "clusteringColumns", "numFiles",
               "sizeInBytes", "properties", "minReaderVersion", "minWriterVersion", "tableFeatures"],
}  # fmt: skip


def session(folder: Path) -> Any:
    """Start a JVM session of both formats, whose Iceberg catalog `lake` is a database that lakescan opens, too."""
    settings = {
        "spark.jars.packages": f"{ICEBERG},{DELTA},{SQLITE}",
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions,"
        "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.warehouse.dir": f"{folder}/hive",
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.adaptive.enabled": "false",  # more jobs, each with a few rows
    }
    return opened(local_session("lakescan histories", settings), folder)


def opened(jvm: Any, folder: Path) -> Any:
    """Open the catalog `lake` of this folder in lakescan and in the session; return the session."""
    folder.mkdir(parents=True, exist_ok=True)
    loader = jvm._jvm.java.lang.Thread.currentThread().getContextClassLoader()
    jvm._jvm.java.lang.Class.forName("org.sqlite.JDBC", True, loader)
    lake = lakescan.catalog("lake", type="sql", uri=f"sqlite:///{folder}/lake.db", warehouse=f"{folder}/lake")
    lake.create_namespace("db", exist_ok=True)
    for key, value in {
        "": "org.apache.iceberg.spark.SparkCatalog",
        ".type": "jdbc",
        ".uri": f"jdbc:sqlite:{folder}/lake.db",
        ".warehouse": f"{folder}/lake",
        ".jdbc.schema-version": "V1",
        ".cache-enabled": "false",
    }.items():
        jvm.conf.set(f"spark.sql.catalog.lake{key}", value)
    return jvm


@dataclass(frozen=True)
class Sides:
    """One table, read and written by lakescan and by the JVM."""

    jvm: Any
    format: str
    name: str  # its name in SQL
    call: str  # its name for procedures
    opens: str  # the argument of lakescan.table

    @classmethod
    def of(cls, jvm: Any, format: str, folder: Path, name: str) -> Sides:
        """Return the sides of a table of this name, which does not exist yet."""
        if format == "iceberg":
            return cls(jvm, format, f"lake.db.{name}", f"db.{name}", f"lake.db.{name}")
        return cls(jvm, format, f"delta.`{folder}/delta/{name}`", "", f"{folder}/delta/{name}")

    @property
    def table(self) -> lakescan.Table:
        """Open the table in its current state."""
        return lakescan.table(self.opens)

    def text(self, text: str, states: list[int]) -> str:
        """Fill the table and its states into a statement's text."""
        text = text.replace("{t}", self.name).replace("{call}", self.call)
        while "{state:" in text:
            before, _, rest = text.partition("{state:")
            number, _, after = rest.partition("}")
            text = f"{before}{states[int(number) % len(states)] if states else 0}{after}"
        return text

    def states(self) -> list[int]:
        """Return the current snapshots or versions, oldest first."""
        if self.format == "iceberg":
            return [row["snapshot_id"] for row in self.table.inspect("snapshots").to_pylist()]
        return sorted(self.table.history()["version"].to_pylist())

    def query(self, text: str) -> pa.Table:
        """Run a query in the JVM and return its rows."""
        found: pa.Table = self.jvm.sql(text).toArrow()
        return found

    def run_there(self, text: str) -> None:
        """Run a statement in the JVM."""
        if text == "CHECKPOINT":
            log = self.jvm._jvm.org.apache.spark.sql.delta.DeltaLog
            log.forTable(self.jvm._jsparkSession, self.opens).checkpoint()
            return
        self.jvm.sql(text).collect()

    def run_here(self, text: str, rows: pa.Table | None = None) -> None:
        """Run a statement in lakescan, in process; given rows, append them through the API."""
        if text == "CHECKPOINT":
            self.table.checkpoint()
        elif rows is not None:
            self.table.append(rows)
        elif isinstance(found := lakescan.sql(text), lakescan.Query):
            found.to_arrow()

    def run_on_spark(self, text: str) -> None:
        """Run a lakescan statement on the session."""
        from lakescan.spark import sql

        if text == "CHECKPOINT":
            self.table.checkpoint()
        elif (found := sql(self.jvm, text)) is not None and hasattr(found, "collect"):
            found.collect()

    # The compared reads: pairs of functions, lakescan's first

    def rows(self, conditions: list[str]) -> Any:
        """Return two functions of a condition (empty for all rows) that return the rows that satisfy it.

        The JVM reads the rows of all conditions in one query, because a job costs more than its rows.
        """
        number = "`number of the condition`"

        @cache
        def theirs() -> pa.Table:
            wheres = [f"WHERE {text}" if text else "" for text in conditions]
            each = (f"SELECT *, {n} AS {number} FROM {self.name} {where}" for n, where in enumerate(wheres))
            return self.query(" UNION ALL ".join(each))

        def of_one(text: str) -> pa.Table:
            found = theirs()
            chosen = found.filter(pc.equal(found.columns[-1], conditions.index(text)))
            return chosen.select(range(found.num_columns - 1))

        return (lambda text: (self.table.scan().where(text) if text else self.table.scan()).to_arrow()), of_one

    def state(self, state: int) -> Any:
        """Return two functions that read all rows of an older state."""
        return (
            lambda: self.table.scan().as_of(version=state).to_arrow(),
            lambda: self.query(f"SELECT * FROM {self.name} VERSION AS OF {state}"),
        )

    def lineage(self) -> Any:
        """Return two functions that read all rows with their ids and the versions of their last change."""
        if self.format == "iceberg":
            ids = ", ".join(_LINEAGE)
            return (
                lambda: self.table.scan().select(*_columns(self.table), *_LINEAGE).to_arrow(),
                lambda: self.query(f"SELECT *, {ids} FROM {self.name}"),
            )
        return (
            lambda: self.table.scan().select(*_columns(self.table), *_TRACKED).to_arrow(),
            lambda: self.query(
                f"SELECT *, _metadata.row_id AS _row_id, _metadata.row_commit_version AS _row_commit_version FROM {self.name}"
            ),
        )

    def metadata(self, name: str) -> Any:
        """Return two functions that read a metadata table."""
        if self.format == "iceberg":

            def theirs() -> pa.Table:
                return self.query(f"SELECT * FROM {self.name}.{name}")

            return (lambda: _as_of_java(name, self.table.inspect(name))), (lambda: _as_of_java(name, theirs()))
        chosen = _OF_DELTA[name]
        return (
            lambda: self.table.inspect(name).select(chosen),
            lambda: self.query(f"DESCRIBE {name.upper()} {self.name}").select(chosen),
        )

    @property
    def metadata_tables(self) -> list[str]:
        """Return the names of the compared metadata tables."""
        return _OF_ICEBERG if self.format == "iceberg" else list(_OF_DELTA)

    def changes(self, start: int, end: int) -> Any:
        """Return two functions that read the changes between two states."""
        if self.format == "delta":
            reader = self.jvm.read.format("delta").option("readChangeFeed", "true")
            return (
                lambda: (
                    lakescan.table(self.opens, readChangeFeed=True, startingVersion=start, endingVersion=end)
                    .scan()
                    .to_arrow()
                ),
                lambda: reader.option("startingVersion", start).option("endingVersion", end).load(self.opens).toArrow(),
            )

        def theirs() -> pa.Table:
            self.jvm.sql(
                f"CALL lake.system.create_changelog_view(table => '{self.call}', changelog_view => 'changes_of_java', "
                f"options => map('start-snapshot-id', '{start}', 'end-snapshot-id', '{end}'), compute_updates => false)"
            ).collect()
            found: pa.Table = self.jvm.table("changes_of_java").toArrow()
            return found

        return (lambda: self.table.changes(start, end).to_arrow()), (lambda: without_carried(theirs()))


def without_carried(changes: pa.Table) -> pa.Table:
    """Remove rows that a commit both deletes and inserts unchanged.

    Java removes them, too, but compares bytes by identity (`RemoveCarryoverIterator`), so it keeps rows with a BINARY
    value at any depth.
    """
    if not any("binary" in str(f.type) for f in changes.schema):
        return changes
    kinds = changes["_change_type"].to_pylist()
    others = [name for name in changes.column_names if name != "_change_type"]
    inserted: dict[str, list[int]] = {}
    gone: set[int] = set()
    rows = spelled(changes.select(others))
    for place, (kind, row) in enumerate(zip(kinds, rows, strict=True)):
        if kind == "INSERT":
            inserted.setdefault(row, []).append(place)
    for place, (kind, row) in enumerate(zip(kinds, rows, strict=True)):
        if kind == "DELETE" and inserted.get(row):
            gone |= {place, inserted[row].pop()}
    return changes.filter(pa.array([place not in gone for place in range(len(rows))], pa.bool_()))


def _columns(table: lakescan.Table) -> list[str]:
    return ["`" + name.replace("`", "``") + "`" for name in table.schema.names]


def _as_of_java(name: str, found: pa.Table) -> pa.Table:
    """Reduce a metadata table to the part that both have: `history` has extra columns in lakescan; Java's 'null' texts
    are nulls.
    """
    if name == "history":
        return found.select(["made_current_at", "snapshot_id", "parent_id", "is_current_ancestor"])
    if name in ("manifests", "all_manifests"):
        place = found.schema.get_field_index("partition_summaries")
        rows = [
            None if summaries is None else [s | {k: None for k, v in s.items() if v == "null"} for s in summaries]
            for summaries in found["partition_summaries"].to_pylist()
        ]
        of = found.schema.field(place)
        return found.set_column(place, of, pa.array(rows, of.type))
    return found
