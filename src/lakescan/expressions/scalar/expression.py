"""A scalar expression that is bound to a table's columns, and its values over record batches."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from lakescan.common import types as t
from lakescan.common.references import dotted_path
from lakescan.common.schema import Schema
from lakescan.errors import NoSuchColumn, SchemaMismatch
from lakescan.expressions.evaluate import Columns, column_getter
from lakescan.expressions.scalar import nested
from lakescan.expressions.scalar.collections import check_inside
from lakescan.expressions.scalar.computed import FailedEvaluation, evaluate_sql
from lakescan.expressions.scalar.parse import parse_expression
from lakescan.expressions.scalar.translate import Translator
from lakescan.expressions.scalar.typed import UNEQUAL, TypedSql, sql_type, unsupported_error
from lakescan.expressions.scalar.udf import Udf, remember, udfs_in

_IN_PYTHON = re.compile(r"^.*Python exception occurred while executing the UDF: \w+: ")

# Functions of texts, dates and numbers whose values depend on the time zone; others are found by their types.
_OF_ZONE = (
    *("current_date", "curdate", "convert_timezone", "date_format", "date_part", "datepart", "extract", "hour"),
    *("minute", "second", "months_between", "from_unixtime", "unix_timestamp", "to_unix_timestamp", "unix_micros"),
    *("unix_millis", "unix_seconds", "timestampdiff"),
)
_WITHOUT_PARENTHESES = {"current_date", "curdate"}
_ZONE_LETTERS = re.compile("[VzOXxZ]")  # of a pattern


def _may_name_zone(pattern: Any) -> bool:
    return not pattern.is_string or _ZONE_LETTERS.search(pattern.name) is not None


@dataclass(frozen=True)
class ScalarExpression:
    """An SQL expression over the columns of a schema. Pickled for workers.

    - `text`: as it was written.
    - `type`: the type of its values in Spark.
    - `columns`: the ids of the fields that it reads, in the order of DuckDB's columns c0, c1, ...
    """

    text: str
    schema: Schema = field(repr=False)
    type: t.Type
    columns: tuple[int, ...]
    _sql: str = field(repr=False)
    _udfs: tuple[Udf, ...] = field(default=(), repr=False)
    _has_instants: bool = field(default=False, repr=False)

    @property
    def depends_on_zone(self) -> bool:
        """Whether its values may be others in another time zone than UTC."""
        from sqlglot import exp

        if self._has_instants:
            return True
        tree = parse_expression(self.text)
        called = {each.name.lower() for each in tree.find_all(exp.Column)} & _WITHOUT_PARENTHESES
        for each in tree.find_all(exp.Func):
            name = (str(each.this) if isinstance(each, exp.Anonymous) else each.sql_name()).lower()
            called.add(name)
            if name in ("to_date", "try_to_date") and any(map(_may_name_zone, each.expressions[1:])):
                return True
            if name in ("datediff", "date_diff") and len(each.expressions) == 3:  # with a unit
                return True
        return not called.isdisjoint(_OF_ZONE)

    @staticmethod
    def parse(
        text: str, schema: Schema, values: Mapping[str, TypedSql] | None = None, *, case_sensitive: bool = False
    ) -> ScalarExpression:
        """Parse an expression and bind it to a schema; `values` are those of functions without arguments, by name.

        Raises `InvalidFilter` for text that does not parse, `NoSuchColumn`, and `UnsupportedFeature` for operators and
        functions that may differ from Spark's, by their names.

        Example:
            >>> ScalarExpression.of("year(day) * 100 + month(day)", schema).evaluate(batch)
        """
        ids: list[int] = []
        known = values or {}

        def column(path: tuple[str, ...]) -> TypedSql:
            try:
                found = schema.field(dotted_path(path), case_sensitive=case_sensitive)
            except NoSuchColumn:
                if len(path) == 1 and path[0].lower() in known:  # current_date, without parentheses
                    return known[path[0].lower()]
                raise
            if schema.struct_path(found.id)[-1] is not found:
                raise unsupported_error(f"a field inside a list or map, {found.name!r},")
            if isinstance(found.type, t.ListOf | t.MapOf):
                check_inside(found.type)
            else:
                sql_type(found.type)
            if found.id not in ids:
                ids.append(found.id)
            return TypedSql(f"c{ids.index(found.id)}", found.type)

        translate = Translator(column, known)
        typed = translate(parse_expression(text))
        udfs = udfs_in(typed.sql)
        return ScalarExpression(text, schema, typed.type, tuple(ids), typed.sql, udfs, translate.has_instants)

    def evaluate(self, rows: pa.RecordBatch | pa.Table) -> pa.Array:
        """Evaluate over rows with the schema's columns, in its order.

        Raises `SchemaMismatch` where Spark fails too (a division by zero, an overflow), and `UnsupportedFeature` for
        values on which the engines may differ.
        """
        return self.evaluate_columns(column_getter(rows, self.schema), rows.num_rows)

    def evaluate_columns(self, columns: Columns, rows: int) -> pa.Array:
        """Evaluate over the `rows` values of columns, which are found by field id; raises what `evaluate` raises."""
        remember(self._udfs)
        try:
            return evaluate_sql(self._sql, [columns(each) for each in self.columns], rows, nested.arrow(self.type))
        except FailedEvaluation as error:
            problem = _IN_PYTHON.sub("", str(error)).splitlines()[0]
            _, unequal, what = problem.partition(UNEQUAL)
            if unequal:
                raise unsupported_error(f"{self.text!r}: {what}") from error
            raise SchemaMismatch(f"the SQL expression {self.text!r} cannot be evaluated: {problem}") from error
