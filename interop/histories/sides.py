"""Both sides of a table: statements run, and rows, states, changes and metadata read, here and by the JVM."""

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
# What both formats' histories say alike; times of commits and engines' names are not compared.
_OF_DELTA = {
    "history": ["version", "timestamp", "operation", "isolationLevel", "isBlindAppend", "userMetadata"],
    "detail": ["format", "id", "name", "description", "partitionColumns", "clusteringColumns", "numFiles",
               "sizeInBytes", "properties", "minReaderVersion", "minWriterVersion", "tableFeatures"],
}  # fmt: skip


def session(folder: Path) -> Any:
    """A JVM session of both formats, in which Iceberg's catalog `lake` is a database that lakescan opens, too."""
    settings = {
        "spark.jars.packages": f"{ICEBERG},{DELTA},{SQLITE}",
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions,"
        "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.warehouse.dir": f"{folder}/hive",
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.adaptive.enabled": "false",  # more jobs, of a few rows each
    }
    return opened(local_session("lakescan histories", settings), folder)


def opened(jvm: Any, folder: Path) -> Any:
    """The session, with the catalog `lake` in this folder, here and there."""
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
    """One table."""

    jvm: Any
    format: str
    name: str  # in SQL
    call: str  # of procedures
    opens: str  # what lakescan.table takes

    @classmethod
    def of(cls, jvm: Any, format: str, folder: Path, name: str) -> Sides:
        """A table of this name, which is not there yet."""
        if format == "iceberg":
            return cls(jvm, format, f"lake.db.{name}", f"db.{name}", f"lake.db.{name}")
        return cls(jvm, format, f"delta.`{folder}/delta/{name}`", "", f"{folder}/delta/{name}")

    @property
    def table(self) -> lakescan.Table:
        """As it is now."""
        return lakescan.table(self.opens)

    def text(self, text: str, states: list[int]) -> str:
        """A statement's text with the table and its states."""
        text = text.replace("{t}", self.name).replace("{call}", self.call)
        while "{state:" in text:
            before, _, rest = text.partition("{state:")
            number, _, after = rest.partition("}")
            text = f"{before}{states[int(number) % len(states)] if states else 0}{after}"
        return text

    def states(self) -> list[int]:
        """The snapshots, or versions, that are known now, oldest first."""
        if self.format == "iceberg":
            return [row["snapshot_id"] for row in self.table.inspect("snapshots").to_pylist()]
        return sorted(self.table.history()["version"].to_pylist())

    def query(self, text: str) -> pa.Table:
        """Rows of the JVM."""
        found: pa.Table = self.jvm.sql(text).toArrow()
        return found

    def run_there(self, text: str) -> None:
        """A statement of the JVM."""
        if text == "CHECKPOINT":
            log = self.jvm._jvm.org.apache.spark.sql.delta.DeltaLog
            log.forTable(self.jvm._jsparkSession, self.opens).checkpoint()
            return
        self.jvm.sql(text).collect()

    def run_here(self, text: str, rows: pa.Table | None = None) -> None:
        """A statement of lakescan, in process; with rows, they are appended by the API."""
        if text == "CHECKPOINT":
            self.table.checkpoint()
        elif rows is not None:
            self.table.append(rows)
        elif isinstance(found := lakescan.sql(text), lakescan.Query):
            found.to_arrow()

    def run_on_spark(self, text: str) -> None:
        """A statement of lakescan on the session."""
        from lakescan.spark import sql

        if text == "CHECKPOINT":
            self.table.checkpoint()
        elif (found := sql(self.jvm, text)) is not None and hasattr(found, "collect"):
            found.collect()

    # What both read: pairs of functions, ours first

    def rows(self, conditions: list[str]) -> Any:
        """The rows that meet conditions, all for an empty one, as functions of a condition.

        The JVM reads them in one query: its jobs cost more than their rows.
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
        """All rows of an older state."""
        return (
            lambda: self.table.scan().as_of(version=state).to_arrow(),
            lambda: self.query(f"SELECT * FROM {self.name} VERSION AS OF {state}"),
        )

    def lineage(self) -> Any:
        """All rows, with their ids and when they changed."""
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
        """A metadata table."""
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
        """Those that are compared."""
        return _OF_ICEBERG if self.format == "iceberg" else list(_OF_DELTA)

    def changes(self, start: int, end: int) -> Any:
        """The changes from one state up to another."""
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
    """Changes without rows that a commit deletes and inserts alike.

    Java leaves those out, too, but compares bytes by identity (`RemoveCarryoverIterator`): it keeps them where a column
    is, or has in it, a BINARY.
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
    """What both have of a metadata table: `history` has columns of lakescan's own; texts 'null' of Java are nulls."""
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
