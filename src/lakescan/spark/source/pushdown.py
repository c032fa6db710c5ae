"""Filter pushdown into Python data sources, if this Spark does it correctly.

PySpark 4.1 to 4.3 plan a relation of a Python data source once, with the filters of the first query, and reuse that
plan: reading the same frame or view later without a filter returns only the filtered rows. So readers take no filters
by default. Before pushdown is enabled on any Spark, a source with two rows is queried to see whether it is correct.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, EqualTo, Filter, InputPartition

from lakescan.errors import UnsupportedFeature
from lakescan.spark.session import PUSHDOWN, conf, try_set
from lakescan.spark.workers import is_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PROBE = "lakescan_pushdown_probe"


def switch_on(spark: SparkSession) -> None:
    """Enable filter pushdown; raises `UnsupportedFeature` if this Spark would return wrong rows with it."""
    if not is_spark(spark):
        raise UnsupportedFeature("filter pushdown in this session", "Its server is no Apache Spark.")
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
    """Whether reading a view after a filtered query returns only the filtered rows; pushdown must be enabled."""
    spark.dataSource.register(_Probe)
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW {_PROBE} USING {_PROBE}")
    try:
        filtered = spark.table(_PROBE).where("n = 1").count()
        return (filtered, spark.table(_PROBE).count()) != (1, 2)
    finally:
        spark.catalog.dropTempView(_PROBE)


class _Probe(DataSource):
    """A source with the rows 1 and 2."""

    @classmethod
    def name(cls) -> str:
        return _PROBE

    def schema(self) -> str:
        return "n int"

    def reader(self, schema: object) -> DataSourceReader:
        return _ProbeReader()


class _ProbeReader(DataSourceReader):
    """Applies a pushed equality, and leaves out the rows that do not match."""

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
