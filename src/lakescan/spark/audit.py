"""Write, audit, publish on Spark: `spark.wap.id` and `spark.wap.branch` stage the rows of audited tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lakescan.dml.target import ChangedTable
from lakescan.errors import InvalidOption
from lakescan.spark.session import conf
from lakescan.table import Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ID, _BRANCH, _PROPERTY = "spark.wap.id", "spark.wap.branch", "write.wap.enabled"
_SAID = {"branch", "wapid", "wapbranch"}


def audited(spark: SparkSession, found: ChangedTable) -> ChangedTable:
    """The table of a statement, whose rows are staged as the session says."""
    return replace(found, options={**staging(spark, found.table, found.options), **found.options})


def staging(spark: SparkSession, table: Table, given: Mapping[str, Any]) -> dict[str, Any]:
    """The write options by which the session stages rows of a table; none if the write says itself where rows go.

    As in Iceberg's writer for Spark, only tables with the property `write.wap.enabled` are audited. Raises
    `InvalidOption` if the session has both settings.
    """
    said = {"wap_id": conf(spark, _ID), "wap_branch": conf(spark, _BRANCH)}
    options = {name: value for name, value in said.items() if value}
    if not options or "refs" not in table.metadata_tables or table.properties.get(_PROPERTY, "").lower() != "true":
        return {}
    if any(name.replace("-", "").replace("_", "").lower() in _SAID for name in given):
        return {}
    if len(options) > 1:
        raise InvalidOption(f"the session has both {_ID} and {_BRANCH}: unset one of them")
    return options
