"""Statements that change rows, on Spark: of lakescan's tables; those of Spark's own stay with Spark."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakescan.errors import LakescanError
from lakescan.spark.session import conf
from lakescan.spark.source.audit import settings_of_session
from lakescan.spark.statements.names import current_namespace, has_catalog, is_of_session
from lakescan.spark.statements.row_changes import run_dml
from lakescan.spark.statements.sql import (
    analyze_frame,
    replace_braces,
    session_settings,
)
from lakescan.spark.statements.unsupported import find_catalog
from lakescan.spark.types import schema_of_rows
from lakescan.spark.writing.write import SparkRows
from lakescan.statements.duckdb.types import spark_type
from lakescan.statements.rows.insert import Insertion, run_insert
from lakescan.statements.rows.parse import parse
from lakescan.statements.rows.statements import Delete, DmlStatement, Insert, Update
from lakescan.statements.rows.target import changed_table, names_table
from lakescan.statements.select.frames import may_have_rounded
from lakescan.statements.syntax.names import TableName
from lakescan.statements.syntax.parse import Arguments, name_parameters
from lakescan.tables.results import ChangeResult, WriteResult

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_MODE = "spark.sql.sources.partitionOverwriteMode"
_BY_PATH = re.compile(r"\b`?(delta|iceberg)`?\s*\.\s*`", re.IGNORECASE)


def run_row_statement(spark: SparkSession, text: str, args: Arguments, frames: Mapping[str, Any]) -> DataFrame | None:
    """Run INSERT, DELETE, UPDATE, MERGE or TRUNCATE TABLE.

    Returns:
        A frame with the numbers of changed rows, as Delta's statements return it. None for a statement that changes no
        table of lakescan's.
    """
    text, frames = replace_braces(text, frames)
    parsed = _own_statement(spark, text, args, frames)
    if parsed is None:
        return None
    statement, text, values = parsed
    if isinstance(statement, Insert):
        target = changed_table(statement.target, current_namespace(spark), frames, text)
        found = replace(target, session=settings_of_session(spark))
        is_dynamic = (conf(spark, _MODE) or "").lower() == "dynamic"
        run = partial(_insert, spark, frames)
        sensitive, rounds = session_settings(spark).case_sensitive, may_have_rounded(frames)
        written = run_insert(
            statement, found, values, run, dynamic=is_dynamic, case_sensitive=sensitive, checks_floats=rounds
        )
        return _one_row(spark, {"num_affected_rows": written.rows, "num_inserted_rows": written.rows})
    return _count_frame(spark, statement, run_dml(spark, statement, values, frames, text))


def changes_own_table(spark: SparkSession, text: str, args: Arguments, frames: Mapping[str, Any]) -> bool:
    """Whether a statement changes a table of lakescan's."""
    text, frames = replace_braces(text, frames)
    return _own_statement(spark, text, args, frames) is not None


def _own_statement(
    spark: SparkSession, text: str, args: Arguments, frames: Mapping[str, Any]
) -> tuple[DmlStatement, str, Mapping[str, Any]] | None:
    """A statement that changes a table of lakescan's, its text with named parameters, and their values."""
    try:
        text, values = name_parameters(text, args)
        statement = parse(text, values)
    except LakescanError:
        if current_namespace(spark) or _BY_PATH.search(text) or find_catalog(spark, text) is not None:
            raise
        return None
    if statement is None or _names_spark_table(spark, statement.target, frames):
        return None
    return statement, text, values


def _names_spark_table(spark: SparkSession, name: TableName, frames: Mapping[str, Any]) -> bool:
    """Whether a statement changes a table or view of Spark's own catalogs."""
    if not names_table(name, current_namespace(spark), frames):
        return True
    if len(name.parts) > 1:
        return has_catalog(spark, name.parts[0])
    is_given = name.parts[0].lower() in {each.lower() for each in frames}
    return not is_given and is_of_session(spark, name.parts[0])


def _count_frame(spark: SparkSession, statement: DmlStatement, result: ChangeResult) -> DataFrame:
    """The numbers of changed rows, with the columns that Delta's statements have."""
    counts = {"num_affected_rows": result.inserted + result.updated + result.deleted}
    if not isinstance(statement, Delete | Update):
        counts |= {
            "num_updated_rows": result.updated,
            "num_deleted_rows": result.deleted,
            "num_inserted_rows": result.inserted,
        }
    return _one_row(spark, counts)


def _one_row(spark: SparkSession, values: Mapping[str, int]) -> DataFrame:
    # Arrow becomes a local relation, whose rows Spark returns without a job.
    return spark.createDataFrame(pa.table({name: pa.array([value], pa.int64()) for name, value in values.items()}))


def _insert(spark: SparkSession, frames: Mapping[str, Any], one: Insertion) -> WriteResult:
    """Run an INSERT; Spark's workers write the files."""
    frame, found = analyze_frame(spark, one.query, one.values, frames)
    kinds = [spark_type(kind) for kind in schema_of_rows(frame.schema).types]
    columns = list(zip(frame.columns, kinds, strict=True))
    literals = [spark.sql(f"SELECT {text} AS v").schema for text in one.partition.values()]
    types = [spark_type(schema_of_rows(each).types[0]) for each in literals]
    outputs = one.outputs(columns, types, ansi=session_settings(spark).is_ansi)
    numbered = frame.toDF(*(f"c{n}" for n in range(len(columns))))
    rows = numbered.selectExpr(*(each.text for each in outputs)).toDF(*(each.name for each in outputs))

    def value_of(text: str) -> Any:
        return spark.sql(f"SELECT {text} AS v").toArrow()["v"][0].as_py()

    return one.write(SparkRows(rows), outputs, value_of, reads_target=found.reads_table(one.target.scan.table.location))
