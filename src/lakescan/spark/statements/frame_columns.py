"""The columns of a frame as SQL sees them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakescan.common import types as t
from lakescan.spark.session import conf
from lakescan.statements.duckdb.types import spark_type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def columns_of(frame: DataFrame) -> tuple[dict[str, t.Type], bool]:
    """The columns of a frame with their types, and whether casts of its session fail for values that do not fit."""
    from lakescan.spark.types import schema_of_rows  # `lakescan` is imported without Spark

    types = {field.name: spark_type(field.type) for field in schema_of_rows(frame.schema)}
    return types, conf(frame.sparkSession, "spark.sql.ansi.enabled") == "true"
