"""Changelogs on Spark: shuffle raw changes by their values, then drop deletes and inserts that cancel out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql import types as s

from lakescan.common.metadata_columns import CHANGE, CHANGE_ORDINAL
from lakescan.common.references import backquote
from lakescan.reading.net_changes import drop_carry_overs, drop_round_trips, pair_updates
from lakescan.spark.frames import frame_of
from lakescan.spark.native.columns import select_member
from lakescan.spark.types import arrow_schema, schema_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakescan.common.selection import Selection
    from lakescan.tables.scan_spec import ScanSpec

_BUCKET = "__lakescan_share"


def changes_frame(
    spark: SparkSession,
    scan: ScanSpec,
    columns: Sequence[str],
    identity: Sequence[str],
    selection: Selection,
    *,
    net: bool = False,
) -> DataFrame:
    """Return the columns of `selection` of the net changes of each commit, of a changelog scan of all columns.

    Deletes and inserts of a commit that are equal in `columns` cancel out. With `identity` (key columns), a delete and
    an insert with the same key become the images before and after an update. With `net`, deletes and inserts of all
    commits cancel out. Rows are shuffled by a hash of the commit, unless `net` is set, and of the compared columns
    (`identity`, else `columns`), so that they are spread over tasks while equal rows meet in one task. Spark cannot
    hash maps and variants: columns that contain them are left out of the hash, but still compared.
    """
    schema = schema_of(scan)
    raw = frame_of(spark, scan)
    by = [backquote(name) for name in (identity or columns) if not _has_map(schema[name].dataType)]
    hashed = by if net else [CHANGE_ORDINAL.name, *by]
    bucket = F.pmod(F.xxhash64(*hashed), F.lit(_buckets(spark))) if hashed else F.lit(0)
    target = arrow_schema(schema)
    names = raw.columns

    def cancel_out(rows: pa.Table) -> pa.Table:
        rows = rows.drop_columns([_BUCKET]).rename_columns(names)
        if net:
            return drop_round_trips(rows, CHANGE.name, CHANGE_ORDINAL.name, columns).cast(target)
        commits = []
        for ordinal in rows[CHANGE_ORDINAL.name].unique():
            commit = rows.filter(pa.compute.equal(rows[CHANGE_ORDINAL.name], ordinal))
            commit = drop_carry_overs(commit, CHANGE.name, columns)
            commits.append(pair_updates(commit, CHANGE.name, identity) if identity else commit)
        return pa.concat_tables(commits).cast(target)

    # PySpark takes a name with dots for a member of a struct.
    numbered = raw.withColumn(_BUCKET, bucket).toDF(*(f"c{n}" for n in range(len(names))), _BUCKET)
    changed = numbered.groupBy(_BUCKET).applyInArrow(cancel_out, schema)
    return changed.select(*(select_member(F.col(backquote(each.path[0].name)), each) for each in selection.columns))


def _buckets(spark: SparkSession) -> int:
    """Return the number of hash buckets: four per shuffle partition of the session, so that each bucket is small."""
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
