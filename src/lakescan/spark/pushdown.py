"""Whether filters of queries may be pushed into Python data sources: only where Spark does not keep them.

PySpark 4.1 to 4.3 plan a relation of a Python data source once, with the filters of whichever query comes first, and
keep that plan: the same frame or view, read whole afterwards, has the filtered rows. So readers take no filters. A
newer Spark is tried with a source of two rows before it is trusted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, EqualTo, Filter, InputPartition

from lakescan.errors import UnsupportedFeature
from lakescan.spark.session import PUSHDOWN, conf, try_set

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PROBE = "lakescan_pushdown_probe"


def switch_on(spark: SparkSession) -> None:
    """Switch filter pushdown on; raises `UnsupportedFeature` where this Spark would then give wrong rows."""
    before = conf(spark, PUSHDOWN)
    if not try_set(spark, PUSHDOWN, "true"):
        raise UnsupportedFeature("filter pushdown in this session", f"It does not let {PUSHDOWN} be switched on.")
    if keeps_filters(spark):
        spark.conf.unset(PUSHDOWN) if before is None else spark.conf.set(PUSHDOWN, before)
        raise UnsupportedFeature(
            f"filter pushdown into Python data sources on Spark {spark.version}",
            "It keeps a filter that was pushed once: a frame or view that was filtered, read whole afterwards, has the "
            "filtered rows. Narrow the read by the options 'columns' and 'where', or use lakescan.spark.read and "
            "Scan.to_spark.",
        )


def keeps_filters(spark: SparkSession) -> bool:
    """Whether a view that was filtered is not whole any more; pushdown has to be on."""
    spark.dataSource.register(_Probe)
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW {_PROBE} USING {_PROBE}")
    try:
        filtered = spark.table(_PROBE).where("n = 1").count()
        return (filtered, spark.table(_PROBE).count()) != (1, 2)
    finally:
        spark.catalog.dropTempView(_PROBE)


class _Probe(DataSource):
    """A source of the rows 1 and 2."""

    @classmethod
    def name(cls) -> str:
        return _PROBE

    def schema(self) -> str:
        return "n int"

    def reader(self, schema: object) -> DataSourceReader:
        return _ProbeReader()


class _ProbeReader(DataSourceReader):
    """Leaves the rows out that a pushed equality rules out."""

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
