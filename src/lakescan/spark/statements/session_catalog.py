"""Describe tables of Spark's own session catalog, for procedures that take over their files."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import unquote

from lakescan.common.identifiers import split_name
from lakescan.common.references import backquote, dotted_path
from lakescan.errors import NoSuchTable, UnsupportedFeature
from lakescan.spark.types import schema_of_rows
from lakescan.statements.procedures import SourceTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SESSION = "spark_catalog"
_DETAILS, _PARTITIONS = "# Detailed Table Information", "# Partition Information"


def source_table(spark: SparkSession, name: str) -> SourceTable:
    """Describe a table of the session catalog, named `t`, `db.t` or `spark_catalog.db.t`.

    Raises `NoSuchTable`; `UnsupportedFeature` for tables of other catalogs, views and bucketed tables.
    """
    parts = split_name(name) or (name,)
    within = parts[1:] if parts[0] == _SESSION and len(parts) == 3 else parts
    if len(within) > 2:
        raise UnsupportedFeature(
            f"the files of {name}, which is not in Spark's own catalog ({_SESSION})",
            "Name a table of it, or the folder of its files as '`parquet`.`/path/to/files`'.",
        )
    if len(within) == 1:
        within = (str(spark.catalog.currentDatabase()), *within)
    text = ".".join(map(backquote, (_SESSION, *within)))
    if not spark.catalog.tableExists(text):
        raise NoSuchTable(f"Spark's own catalog has no table {dotted_path(within)}")
    rows = [(row[0].strip(), row[1] or "") for row in spark.sql(f"DESCRIBE TABLE EXTENDED {text}").collect()]
    names = [first for first, _ in rows]
    about = dict(rows[names.index(_DETAILS) + 1 :]) if _DETAILS in names else {}
    kind = about.get("Provider", "").lower()
    if not kind or about.get("Type", "").upper() == "VIEW":
        raise UnsupportedFeature(f"the files of {name}, which is a view", "Name a table, or copy its rows.")
    if about.get("Num Buckets"):
        raise UnsupportedFeature(
            f"the files of {name}, which is bucketed", "CREATE TABLE ... AS SELECT copies its rows."
        )
    frame = spark.table(text)
    return SourceTable(
        name,
        kind,
        about["Location"].rstrip("/"),
        schema_of_rows(frame.schema),
        _partition_columns(rows, names),
        [unquote(each) for each in frame.inputFiles()] if kind == "parquet" else (),
        {row[0]: row[1] for row in spark.sql(f"SHOW TBLPROPERTIES {text}").collect()},
    )


def _partition_columns(rows: list[tuple[str, str]], names: list[str]) -> list[str]:
    """Return the partition columns in the `rows` of DESCRIBE (`names` are their first fields), quoted if necessary."""
    if _PARTITIONS not in names:
        return []
    found = []
    for first, _ in rows[names.index(_PARTITIONS) + 1 :]:
        if not first or (first.startswith("# ") and first != "# col_name"):
            break
        if first != "# col_name":
            found.append(dotted_path((first,)))
    return found
