"""A changelog on Spark: rows as files have them, brought together by what they are, less those that cancel out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql import types as s

from lakescan.common.metadata_columns import CHANGE, CHANGE_ORDINAL
from lakescan.reading.net_changes import as_updates, without_carry_overs
from lakescan.spark.frames import frame_of
from lakescan.spark.types import arrow_schema, quoted, schema_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakescan.scan_spec import ScanSpec

_SHARE = "__lakescan_share"


def changes_frame(spark: SparkSession, scan: ScanSpec, columns: Sequence[str], identity: Sequence[str]) -> DataFrame:
    """The net changes of a changelog scan. Equal rows, or those of an identity, of one commit meet in one task.

    Commits are shared out by a hash, so that a task holds a part of one: what rows are compared by has to be hashed by
    Spark (maps cannot be; other columns then decide).
    """
    schema = schema_of(scan)
    raw = frame_of(spark, scan)
    by = [quoted(name) for name in (identity or columns) if not _has_map(schema[name].dataType)]
    share = F.pmod(F.xxhash64(CHANGE_ORDINAL.name, *by), F.lit(_shares(spark)))
    target = arrow_schema(schema)

    def net(rows: pa.Table) -> pa.Table:
        rows = rows.drop_columns([_SHARE])
        found = []
        for ordinal in rows[CHANGE_ORDINAL.name].unique():
            one = rows.filter(pa.compute.equal(rows[CHANGE_ORDINAL.name], ordinal))
            one = without_carry_overs(one, CHANGE.name, columns)
            found.append(as_updates(one, CHANGE.name, identity) if identity else one)
        return pa.concat_tables(found).cast(target)

    return raw.withColumn(_SHARE, share).groupBy(_SHARE).applyInArrow(net, schema)


def _shares(spark: SparkSession) -> int:
    """A few shares a task of the shuffle, so that each is small."""
    return 4 * int(str(spark.conf.get("spark.sql.shuffle.partitions", "200")))


def _has_map(kind: s.DataType) -> bool:
    match kind:
        case s.MapType() | s.VariantType():
            return True
        case s.ArrayType():
            return _has_map(kind.elementType)
        case s.StructType():
            return any(_has_map(field.dataType) for field in kind.fields)
    return False
