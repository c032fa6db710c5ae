"""The keys of a MERGE's source: they prune files and rows of the target that cannot match, before the target is read.

Keys are read in advance only if that is cheap and a second read gives the same rows: from files, or from rows that
Spark holds. Without them, a MERGE reads all keys of the target, and shuffles them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING

import pyarrow as pa

from lakescan.common import types as t
from lakescan.common.references import backquote, dotted_path
from lakescan.common.schema import Schema
from lakescan.expressions.literals import plain_value
from lakescan.expressions.predicate import Comparison, In, Predicate, conjunction
from lakescan.spark.session import conf
from lakescan.spark.statements.names import find_column
from lakescan.statements.syntax.dml import Merge, When

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lakescan.tables.scan_spec import ScanSpec

_MOST_LISTED = 5_000  # values that files are pruned by; if there are more, only the range is used
_MOST_BYTES = 256 * 2**20  # maximum bytes of files that are read for their keys
_FEWER = 4  # prefilter the target's rows only if they are so many times as many as the keys
_NUMBER_WIDTH = 8
_THRESHOLD = "spark.sql.autoBroadcastJoinThreshold"
_COMPARED = (*t.INTEGRAL, t.STRING, t.DATE)
_NODE = re.compile(r"([ :]*[+:]- )?(\w+)")
_SIZE = re.compile(r"sizeInBytes=([\d.E+]+) (B|[KMGTPE]iB)")
_UNITS = {unit: 1024**n for n, unit in enumerate(("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"))}
_READ_AGAIN = ("Project", "Filter", "Union", "LocalRelation", "Range", "InMemoryRelation")
_FILES = re.compile(r"Relation [^\n]*\] (parquet|orc|avro|json|csv|text)\b")
_UNSTABLE = re.compile(
    r"\b(rand|randn|uuid|shuffle|monotonically_increasing_id|input_file_\w+|\w*udf)\(", re.IGNORECASE
)


@dataclass(frozen=True)
class SourceKeys:
    """The keys of a source, read in advance.

    - `frame`: the values of the keys, without nulls, in the columns `k0`, `k1`, ...
    - `columns`: the target's columns that these are compared with, in the same order.
    - `count`: the number of rows of `frame`. `bytes`: the maximum bytes of their values.
    - `pruning`: the predicate on the target's columns that all rows with these keys match.
    """

    frame: DataFrame
    columns: tuple[str, ...]
    count: int
    bytes: int
    pruning: Predicate

    @staticmethod
    def read_keys(statement: Merge, schema: Schema, source: DataFrame) -> SourceKeys | None:
        """Read the keys of a MERGE's source; `schema` is the target's.

        None if ON equates no comparable columns, if rows without a source row are needed (NOT MATCHED BY SOURCE), or if
        reading the keys is not cheap.
        """
        if any(each.when == When.NOT_MATCHED_BY_SOURCE for each in statement.clauses):
            return None
        return SourceKeys.read_columns(dict(_equal_columns(statement, schema, source.columns)), schema, source)

    @staticmethod
    def read_columns(pairs: Mapping[str, str], schema: Schema, source: DataFrame) -> SourceKeys | None:
        """Read the keys in some columns; `pairs` maps columns of a table with the `schema` to columns of the source.

        None if no pair has the same, comparable type, or if reading the keys is not cheap.
        """
        from lakescan.spark.types import spark_type  # `lakescan` is imported without Spark

        pairs = {name: each for name, each in pairs.items() if _is_compared(schema.field(name))}
        kinds = {field.name: field.dataType for field in source.schema.fields}
        known = {name: each for name, each in pairs.items() if kinds[each] == spark_type(schema.field(name).type)}
        if not known or not _is_cheap(source):
            return None
        filled = " AND ".join(f"{backquote(each)} IS NOT NULL" for each in known.values())
        values = [f"{backquote(each)} AS k{n}" for n, each in enumerate(known.values())]
        frame = source.where(filled).selectExpr(*values)
        ends = [f"{end}(k{n}) AS {end}_{n}" for n in range(len(values)) for end in ("min", "max")]
        widths = [
            f"max(octet_length(k{n}))" if schema.field(name).type == t.STRING else str(_NUMBER_WIDTH)
            for n, name in enumerate(known)
        ]
        found = frame.selectExpr("count(*) AS count", f"{' + '.join(widths)} AS width", *ends).toArrow()
        count, width = (found[name][0].as_py() or 0 for name in ("count", "width"))
        pruning = _range_predicate(list(known), found)
        if 0 < count <= _MOST_LISTED:
            listed = frame.distinct().toArrow()
            pruning = conjunction(
                [
                    In(dotted_path((name,)), values=tuple(map(plain_value, listed[f"k{n}"].unique())))
                    for n, name in enumerate(known)
                ]
            )
        return SourceKeys(frame, tuple(known), count, count * width, pruning)

    def prune_scan(self, scan: ScanSpec) -> ScanSpec:
        """Return a scan of the target with the predicate of the keys, which skips files that contain none of them."""
        return replace(scan, pruning=conjunction([scan.pruning, self.pruning]))

    def keep_matching_rows(self, target: DataFrame, rows: int | None) -> DataFrame:
        """Return only the target's rows with keys of the source, by a broadcast join, if it is cheaper than a shuffle.

        Otherwise the target is returned unchanged. `rows` is its number of rows; None if unknown.
        """
        from pyspark.sql import functions as F

        most = _bytes_of(conf(target.sparkSession, _THRESHOLD) or "10MB")
        if self.bytes > most or (rows is not None and self.count * _FEWER > rows):
            return target
        is_equal = (target[backquote(name)] == self.frame[f"k{n}"] for n, name in enumerate(self.columns))
        return target.join(F.broadcast(self.frame), reduce(and_, is_equal), "left_semi")


def _range_predicate(columns: Sequence[str], found: pa.Table) -> Predicate:
    """Return the predicate that columns are between their minima and maxima, in one row of `min_0`, `max_0`, ..."""
    parts: list[Predicate] = []
    for n, name in enumerate(columns):
        for end, op in (("min", ">="), ("max", "<=")):
            value = found[f"{end}_{n}"][0]
            if value.is_valid:
                parts.append(Comparison(dotted_path((name,)), op=op, value=plain_value(value)))
    return conjunction(parts)


def _equal_columns(statement: Merge, schema: Schema, source: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield pairs of target and source columns (names) that the ON condition requires to be equal.

    `schema` is the target's, `source` the names of the source's columns. Unqualified and unknown columns are skipped.
    """
    import sqlglot
    from sqlglot import exp

    try:
        on = sqlglot.parse_one(statement.on.text, dialect="spark")
    except sqlglot.errors.SqlglotError:
        return
    target_name, source_name = statement.target.qualifier.lower(), (statement.source_alias or "").lower()
    for each in on.flatten() if isinstance(on, exp.And) else [on.unnest()]:
        if not isinstance(each, exp.EQ) or not all(
            isinstance(side, exp.Column) for side in (each.this, each.expression)
        ):
            continue
        sides = {side.table.lower(): side for side in (each.this, each.expression) if len(side.parts) == 2}
        if set(sides) != {target_name, source_name}:
            continue
        own, other = find_column(sides[target_name].name, schema.names), find_column(sides[source_name].name, source)
        if own is not None and other is not None and [name.lower() for name in source].count(other.lower()) == 1:
            yield own, other


def _is_compared(column: t.Field) -> bool:
    """Return whether files and all engines compare the values of a column in the same way."""
    return not column.pad and (column.type in _COMPARED or isinstance(column.type, t.Decimal))


def _is_cheap(source: DataFrame) -> bool:
    """Return whether Spark reads a source from cached rows or files of limited size, and gets the same rows again."""
    [shown] = (
        source.sparkSession.sql("EXPLAIN COST SELECT * FROM {source}", source=source).toArrow()["plan"].to_pylist()
    )
    plan = shown.partition("== Optimized Logical Plan ==\n")[2].partition("\n\n")[0]
    held: int | None = None
    is_held = False
    for line in plan.splitlines():
        found = _NODE.match(line)
        depth = 0 if found is None else len(found[1] or "")
        if held is not None and (found is None or depth > held):
            continue  # a line of the plan of the rows that Spark holds
        held = None
        if found is None or _UNSTABLE.search(line) is not None:
            return False
        if found[2] == "InMemoryRelation":
            held, is_held = depth, True
        elif found[2] not in _READ_AGAIN and _FILES.search(line) is None:
            return False
    size = _SIZE.search(plan.partition("\n")[0])
    return bool(plan) and (is_held or (size is not None and float(size[1]) * _UNITS[size[2]] <= _MOST_BYTES))


def _bytes_of(size: str) -> int:
    """Parse a size in Spark's settings, such as 10MB, to bytes; 0 for other text."""
    found = re.fullmatch(r"(-?\d+)([bkmgt]?)b?", size.strip().lower())
    powers: Mapping[str, int] = {"": 0, "b": 0, "k": 1, "m": 2, "g": 3, "t": 4}
    return 0 if found is None else int(found[1]) * 1024 ** powers[found[2]]
