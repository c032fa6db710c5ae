"""Translate a bound predicate to a Spark condition with the same semantics: NaN is equal to itself and the greatest."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from operator import eq, ge, gt, le, lt, ne
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_type

from lakescan.common import types as t
from lakescan.common.references import dotted_path
from lakescan.common.schema import Schema
from lakescan.common.selection import with_alias
from lakescan.errors import UnsupportedFeature
from lakescan.expressions.bind import bind, can_bind
from lakescan.expressions.inference import infer_predicate
from lakescan.expressions.literals import plain_value, text_of
from lakescan.expressions.predicate import (
    And,
    ColumnComparison,
    ColumnTest,
    Comparison,
    Constant,
    In,
    IsNaN,
    IsNull,
    Like,
    Or,
    Predicate,
    SqlCondition,
    conjunction,
    conjuncts,
    has_sql,
    leaves,
    predicate_fields,
    replace_sql,
)
from lakescan.expressions.sql_condition import ColumnReference, references, replace_columns
from lakescan.spark.session import conf, is_connect, zone_name

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from lakescan.tables.scan_spec import ScanSpec

_OPERATORS: Mapping[str, Callable[[Any, Any], Any]] = {"=": eq, "!=": ne, "<": lt, "<=": le, ">": gt, ">=": ge}


def condition(predicate: Predicate, columns: Mapping[int, Column]) -> Column:
    """Translate a bound predicate to a Spark condition over `columns`, which are keyed by field id."""

    def walk(part: Predicate) -> Column:
        match part:
            case Constant(value):
                return F.lit(value).cast("boolean")
            case And(left, right):
                return walk(left) & walk(right)
            case Or(left, right):
                return walk(left) | walk(right)
            case ColumnComparison():
                one, other = (columns[each] for each in part.bound_ids)
                return _OPERATORS[part.op](one, other)
            case ColumnTest():
                return _leaf(part, columns[part.bound_id])
        raise TypeError(f"not a predicate: {part!r}")

    return walk(predicate)


def _leaf(leaf: ColumnTest, column: Column) -> Column:
    match leaf:
        case IsNull():
            return column.isNotNull() if leaf.negate else column.isNull()
        case IsNaN():
            return ~F.isnan(column) if leaf.negate else F.isnan(column)
        case Comparison():
            return _OPERATORS[leaf.op](_exact(column, leaf.value), _literal(leaf.value))
        case In():
            matches = _exact(column, leaf.values[0]).isin(*(_literal(value) for value in leaf.values))
            if leaf.negate:
                return ~matches & F.lit(not leaf.has_null)
            return matches
        case Like():
            matches = column.ilike(leaf.pattern) if leaf.ignore_case else column.like(leaf.pattern)
            return ~matches if leaf.negate else matches
    raise TypeError(f"Spark has no condition for {leaf!r}")


def _exact(column: Column, value: pa.Scalar) -> Column:
    """Return the column, with floats wrapped so that Spark does not skip row groups by their statistics.

    Parquet statistics ignore NaN and distinguish 0.0 from -0.0; SQL orders NaN above all numbers and has one zero.
    """
    return (
        F.nanvl(column, F.lit(math.nan).cast(from_arrow_type(value.type)))
        if pa.types.is_floating(value.type)
        else column
    )


def _literal(value: pa.Scalar) -> Column:
    """Return a typed literal; timestamps and decimals are cast from text, which no session setting changes."""
    plain, kind = plain_value(value), value.type
    if isinstance(plain, bytes):
        return F.unhex(F.lit(plain.hex()))
    if isinstance(plain, bool | int | float | str):
        return F.lit(plain).cast(from_arrow_type(kind))
    return F.lit(text_of(value)).cast(from_arrow_type(kind, prefer_timestamp_ntz=True))


_INPUT, _OUTPUT = "__lakescan_input_", "__lakescan_output_"
_COMPARED = (*t.INTEGRAL, *t.FLOATING, t.BOOLEAN, t.DATE, t.STRING, t.BINARY)


@dataclass(frozen=True)
class SparkFilter:
    """The conjuncts of a scan's filter that contain SQL conditions, which Spark evaluates on the frame of `rows`.

    `scan` is the scan with the filter, and `rows` the scan that is read. `spark` is None if the scan is only explained,
    without a session.
    """

    spark: SparkSession | None
    scan: ScanSpec

    @cached_property
    def rows(self) -> ScanSpec:
        """The scan without these conjuncts and without a limit, of the output columns and the columns that they read.

        It keeps the predicates that the conjuncts imply, which prune files. Its columns have unique names, so that no
        name in a condition can refer to another column. Raises `NoSuchColumn` if a conjunct tests a column that the
        table lacks.
        """
        kept = [each for each in conjuncts(self.scan.condition) if not has_sql(each)]
        parts = [each for part in self._conjuncts for each in conjuncts(replace_sql(part, self._infer_predicate))]
        how = {"case_sensitive": self._case_sensitive}
        kept += [each for each in parts if can_bind(each, self._schema, zone=self.scan.zone, **how)]
        outputs = [with_alias(each.reference, f"{_OUTPUT}{n}") for n, each in enumerate(self.scan.selection.columns)]
        inputs = [with_alias(reference, name) for name, reference in self._inputs.values()]
        return self.scan.with_condition(conjunction(kept)).select(*outputs, *inputs).with_limit(None)

    def filter_frame(self, frame: DataFrame) -> DataFrame:
        """Filter a frame of `rows` by the conjuncts, and return the scan's columns, with its limit.

        A scan that ignores residuals is not filtered.
        """
        if not self.scan.ignores_residuals:
            for each in self._conjuncts:
                frame = frame.where(self._column(each))
        outputs = (F.col(f"{_OUTPUT}{n}").alias(each.name) for n, each in enumerate(self.scan.selection.columns))
        frame = frame.select(*outputs)
        return frame if self.scan.max_rows is None else frame.limit(self.scan.max_rows)

    def _infer_predicate(self, condition: SqlCondition) -> Predicate:
        """Return the predicate that a condition implies when Spark evaluates it, possibly later than now.

        Without a classic session, the time zone, the current time and ANSI mode are unknown, so less is inferred:
        settings of Connect may change before the query runs.
        """
        known = self.spark if self.spark is not None and not is_connect(self.spark) else None
        return infer_predicate(
            condition.text,
            self._schema,
            time_zone="" if known is None else zone_name(known),
            case_sensitive=self._case_sensitive,
            now=None if known is None else condition.now,
            now_is_exact=False,
            ansi=known is not None and conf(known, "spark.sql.ansi.enabled") == "true",
        ).predicate

    @property
    def texts(self) -> list[str]:
        """The conjuncts with SQL conditions, each as text for `explain`."""
        return [str(each) for each in self._conjuncts]

    @property
    def _conjuncts(self) -> list[Predicate]:
        return [each for each in conjuncts(self.scan.condition) if has_sql(each)]

    @property
    def _schema(self) -> Schema:
        return self.scan.selectable

    @property
    def _case_sensitive(self) -> bool:
        return self.scan.options.case_sensitive

    @cached_property
    def _inputs(self) -> dict[int, tuple[str, str]]:
        """The columns that the conjuncts read, by field id, each with its name in the frame and in the table."""
        ids = dict.fromkeys(each for part in self._conjuncts for each in self._read(part))
        return {
            each: (f"{_INPUT}{n}", dotted_path(field.name for field in self._schema.struct_path(each)))
            for n, each in enumerate(ids)
        }

    def _read(self, part: Predicate) -> Iterator[int]:
        match part:
            case And(left, right) | Or(left, right):
                yield from self._read(left)
                yield from self._read(right)
            case SqlCondition(text):
                found = (self._field(each) for each in references(text))
                yield from (each[0].id for each in found if each is not None)
            case _:
                yield from predicate_fields(self._bind(part))

    def _field(self, reference: ColumnReference) -> tuple[t.Field, int] | None:
        return reference.resolve(self._schema, case_sensitive=self._case_sensitive)

    def _column(self, part: Predicate) -> Column:
        match part:
            case And(left, right):
                return self._column(left) & self._column(right)
            case Or(left, right):
                return self._column(left) | self._column(right)
            case SqlCondition(text):
                return F.expr(replace_columns(text, self._replace_reference))
        bound = self._bind(part)
        return condition(bound, {each: F.col(self._inputs[each][0]) for each in predicate_fields(bound)})

    def _replace_reference(self, reference: ColumnReference) -> tuple[str, int] | None:
        found = self._field(reference)
        return None if found is None else (self._inputs[found[0].id][0], found[1])

    def _bind(self, part: Predicate) -> Predicate:
        """Bind a test without SQL that is part of a conjunct with SQL.

        Raises `UnsupportedFeature` for a column whose type Spark compares differently.
        """
        bound = bind(part, self._schema, case_sensitive=self._case_sensitive, zone=self.scan.zone)
        for leaf in leaves(bound):
            kind = self._schema.by_id[leaf.bound_id].type
            is_time = isinstance(kind, t.Timestamp) and kind.unit == "us"
            if not (isinstance(leaf, IsNull) or isinstance(kind, t.Decimal) or is_time or kind in _COMPARED):
                raise UnsupportedFeature(
                    f"{part} ({kind}) joined by OR with an SQL condition, on Spark",
                    "Filter the frame instead: scan.to_spark(spark).where(...).",
                )
        return bound
