"""Filter pushdown into Python data sources, if this Spark version does it correctly.

PySpark 4.1 to 4.3 plan a relation of a Python data source once, with the filters of the first query, and reuse that
plan: reading the same frame or view later without a filter returns only the filtered rows. So readers take no filters
by default. Before pushdown is enabled on any Spark, a trial query on a source with two rows checks the result.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql import datasource as ds
from pyspark.sql.datasource import DataSource, DataSourceReader, EqualTo, Filter, InputPartition

from lakescan.common.references import dotted_path
from lakescan.common.schema import Schema
from lakescan.common.selection import Selection
from lakescan.errors import UnsupportedFeature
from lakescan.expressions.bind import can_bind
from lakescan.expressions.like import escape_pattern
from lakescan.expressions.predicate import (
    Comparison,
    ExactText,
    In,
    IsNull,
    Like,
    Predicate,
    conjunction,
    negation,
    starts_with,
)
from lakescan.spark.session import PUSHDOWN, conf, try_set
from lakescan.spark.workers import is_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PROBE = "lakescan_pushdown_probe"


def enable_pushdown(spark: SparkSession) -> None:
    """Enable filter pushdown in a session, if a trial query returns correct rows with it.

    Raises `UnsupportedFeature` if this Spark would return wrong rows, is not Apache Spark, or does not allow the
    setting.
    """
    if not is_spark(spark):
        raise UnsupportedFeature("filter pushdown in this session", "Its server is not Apache Spark.")
    before = conf(spark, PUSHDOWN)
    if not try_set(spark, PUSHDOWN, "true"):
        raise UnsupportedFeature("filter pushdown in this session", f"The platform does not allow setting {PUSHDOWN}.")
    if keeps_filters(spark):
        spark.conf.unset(PUSHDOWN) if before is None else spark.conf.set(PUSHDOWN, before)
        raise UnsupportedFeature(
            f"filter pushdown into Python data sources on Spark {spark.version}",
            "Spark reuses a pushed filter for later queries: a frame or view that was filtered once returns only the "
            "filtered rows afterwards. Narrow the read with the options 'columns' and 'where', or use "
            "lakescan.spark.read or Scan.to_spark.",
        )


def keeps_filters(spark: SparkSession) -> bool:
    """Return whether this Spark reuses a pushed filter, so that a view that was filtered once lacks rows later.

    A trial query on a source with two rows finds out. Pushdown must be enabled.
    """
    spark.dataSource.register(_Probe)
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW {_PROBE} USING {_PROBE}")
    try:
        filtered = spark.table(_PROBE).where("n = 1").count()
        return (filtered, spark.table(_PROBE).count()) != (1, 2)
    finally:
        spark.catalog.dropTempView(_PROBE)


class _Probe(DataSource):
    """A data source with the rows 1 and 2."""

    @classmethod
    def name(cls) -> str:
        return _PROBE

    def schema(self) -> str:
        return "n int"

    def reader(self, schema: object) -> DataSourceReader:
        return _ProbeReader()


class _ProbeReader(DataSourceReader):
    """A reader of the rows 1 and 2. If an equality filter was pushed, `_only` is its value, the only row returned."""

    _only: int | None = None

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        for each in filters:
            if isinstance(each, EqualTo):
                self._only = each.value
        return filters

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(self._only)]

    def read(self, partition: InputPartition) -> Iterator[tuple[int]]:
        return ((n,) for n in (1, 2) if partition.value in (None, n))


_COMPARISONS: dict[type, str] = {
    ds.EqualTo: "=",
    ds.GreaterThan: ">",
    ds.GreaterThanOrEqual: ">=",
    ds.LessThan: "<",
    ds.LessThanOrEqual: "<=",
}


def usable_predicate(filters: Iterable[ds.Filter], schema: Schema, output: Selection) -> Predicate:
    """Convert filters on a scan's `output` to a predicate on the table's columns (`schema`), to prune by.

    Filters that planning does not support are left out, since Spark evaluates all filters again.
    """
    parts = [part for each in filters if (part := _predicate(each, output)) is not None and can_bind(part, schema)]
    return conjunction(parts)


def _reference(each: ds.Filter, output: Selection) -> str | None:
    """Return the name of the table's column or struct member that a filter tests.

    None if the scan does not return it.
    """
    first, *more = getattr(each, "attribute", ("",))
    if (selected := output.columns_by_name.get(first)) is None:
        return None
    return ".".join([selected.reference, *([dotted_path(more)] if more else [])])


def _predicate(each: ds.Filter, output: Selection) -> Predicate | None:
    if isinstance(each, ds.Not):
        inner = _predicate(each.child, output)
        # `not (a <=> 1)` is true if a is null, `not (a = 1)` is not.
        return None if inner is None or isinstance(each.child, ds.EqualNullSafe) else negation(inner)
    if (column := _reference(each, output)) is None:
        return None
    match each:
        case ds.IsNull():
            return IsNull(column)
        case ds.IsNotNull():
            return IsNull(column, negate=True)
        case ds.EqualNullSafe():
            return (
                IsNull(column) if each.value is None else Comparison(column, op="=", value=_exact_literal(each.value))
            )
        case ds.In():
            known = tuple(v for v in each.value if v is not None)
            return In(column, values=known, has_null=len(known) < len(each.value))
        case ds.StringStartsWith():
            return starts_with(column, each.value)
        case ds.StringEndsWith():
            return Like(column, pattern="%" + escape_pattern(each.value))
        case ds.StringContains():
            return Like(column, pattern="%" + escape_pattern(each.value) + "%")
    op = _COMPARISONS.get(type(each))
    return None if op is None or each.value is None else Comparison(column, op=op, value=_exact_literal(each.value))


def _exact_literal(value: Any) -> Any:
    """Wrap a string to be compared without padding, as Spark has already padded it for CHAR(n).

    Other values unchanged.
    """
    return ExactText(value) if isinstance(value, str) else value
