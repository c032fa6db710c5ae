"""Names in a session: the namespace that `USE` set, Spark's own catalogs, temporary views, and columns of frames."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lakescan.catalogs.registry import is_known
from lakescan.common import types as t
from lakescan.common.references import backquote
from lakescan.errors import InvalidStatement
from lakescan.spark.session import conf
from lakescan.statements.duckdb.types import spark_type
from lakescan.statements.select.namespace import namespace_of, use_target
from lakescan.statements.syntax.parse import Arguments, name_parameters

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NAMESPACE = "spark.lakescan.namespace"  # the session setting with the namespace of unqualified names; `USE` sets it
_OWN = ("spark_catalog", "global_temp")
_OF_SESSION = ("system", "session")  # these may also be namespaces of a catalog after USE


def current_namespace(spark: SparkSession) -> tuple[str, ...]:
    """Return the catalog and the parts of the namespace that `USE` set in a session; empty if none is set."""
    return tuple(part for part in (conf(spark, NAMESPACE) or "").split("\0") if part)


def run_use(spark: SparkSession, text: str, args: Arguments = None) -> DataFrame | None:
    """Run `USE`: set the session's lakescan namespace, or for a Spark catalog, run it on Spark and unset the namespace.

    Returns Spark's frame, or None if the namespace is lakescan's.
    """
    within = current_namespace(spark)

    def run() -> DataFrame:
        return spark.sql(text, args) if args else spark.sql(text)

    try:
        target = use_target(*name_parameters(text, args))
    except InvalidStatement:
        if within:
            raise
        return run()
    first = target.names[0]
    is_of_spark = (
        not within if target.is_namespace else not is_known(first) and (not within or has_catalog(spark, first))
    )
    if is_of_spark:
        found = run()
        spark.conf.unset(NAMESPACE)
        return found
    found = namespace_of(target, within)
    spark.conf.set(NAMESPACE, "\0".join(with_default_namespace(spark, found) if len(found) == 1 else found))
    return None


def with_default_namespace(spark: SparkSession, catalog: Sequence[str]) -> tuple[str, ...]:
    """Return the name of a catalog, followed by the namespace in its property `default-namespace` in the session."""
    default = conf(spark, f"spark.sql.catalog.{catalog[0]}.default-namespace") or ""
    return (catalog[0], *(part for part in default.split(".") if part))


def has_catalog(spark: SparkSession, name: str) -> bool:
    """Return whether Spark has a catalog of this name, or reserves the name, as it does `spark_catalog`."""
    is_own = name.lower() in _OWN or (name.lower() in _OF_SESSION and not current_namespace(spark))
    return is_own or conf(spark, f"spark.sql.catalog.{name}") is not None


def is_of_session(spark: SparkSession, name: str) -> bool:
    """Return whether an unqualified name is Spark's: a temporary view, or a table if no lakescan namespace is set."""
    if not spark.catalog.tableExists(backquote(name)):
        return False
    return not current_namespace(spark) or is_temporary(spark, name)


def is_temporary(spark: SparkSession, name: str) -> bool:
    """Return whether an unqualified name is that of a temporary view."""
    return spark.catalog.tableExists(backquote(name)) and bool(spark.catalog.getTable(backquote(name)).isTemporary)


def columns_of(frame: DataFrame) -> tuple[dict[str, t.Type], bool]:
    """Return the types of a frame's columns, and whether its session uses ANSI casts, which fail for invalid values."""
    from lakescan.spark.types import schema_of_rows  # `lakescan` is imported without Spark

    types = {field.name: spark_type(field.type) for field in schema_of_rows(frame.schema)}
    return types, conf(frame.sparkSession, "spark.sql.ansi.enabled") == "true"


def find_column(name: str, columns: Sequence[str]) -> str | None:
    """Return the column that `name` refers to, which may be in backquotes and in another case; None if not found."""
    plain = strip_backquotes(name.strip())
    if plain in columns:
        return plain
    return next((each for each in columns if each.lower() == plain.lower()), None)


def strip_backquotes(name: str) -> str:
    """Return a name without the backquotes around it; a name without them is unchanged."""
    return name[1:-1].replace("``", "`") if len(name) > 2 and name[0] == name[-1] == "`" else name
