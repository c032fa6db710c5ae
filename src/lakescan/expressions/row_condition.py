"""Conditions that rows must satisfy, evaluated by the filter evaluator if possible, else by DuckDB."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

from lakescan.common import types as t
from lakescan.common.schema import Schema
from lakescan.errors import InvalidFilter
from lakescan.expressions.bind import bind
from lakescan.expressions.evaluate import column_getter, matching_rows
from lakescan.expressions.predicate import Predicate, predicate_fields
from lakescan.expressions.scalar.expression import ScalarExpression
from lakescan.expressions.scalar.typed_sql import unsupported_error
from lakescan.expressions.sql import parse_column_tests

_TIMES = (t.Timestamp(zoned=True), t.Timestamp(zoned=False))


@dataclass(frozen=True)
class RowCondition:
    """A bound condition over the columns of a schema. Pickled for workers.

    - `text`: its SQL text, for messages.
    - `_test`: the condition as a predicate, or else as an expression that DuckDB evaluates.
    """

    text: str
    schema: Schema = field(repr=False)
    _test: Predicate | ScalarExpression = field(repr=False)

    @staticmethod
    def parse(text: str, schema: Schema) -> RowCondition:
        """Parse and bind a condition in Spark SQL.

        Raises `InvalidFilter` for text that does not parse, `NoSuchColumn`, and `UnsupportedFeature` for a condition
        that only Spark can evaluate or that is not boolean.
        """
        try:
            predicate = parse_column_tests(text)
            condition = RowCondition.bind_predicate(predicate, schema, text)
        except InvalidFilter:
            pass
        else:
            return condition
        expression = ScalarExpression.parse(text, schema)
        if expression.type != t.BOOLEAN:
            raise unsupported_error(f"a condition of type {expression.type}")
        return RowCondition(text, schema, expression)

    @staticmethod
    def bind_predicate(predicate: Predicate, schema: Schema, text: str | None = None) -> RowCondition:
        """Bind a predicate; `text` is its text for messages, by default its own.

        Raises the errors of `bind`: `InvalidFilter`, `NoSuchColumn` and `UnsupportedFeature`.
        """
        bound = bind(predicate, schema, case_sensitive=False)
        return RowCondition(str(predicate) if text is None else text, schema, bound)

    @property
    def columns(self) -> tuple[int, ...]:
        """The ids of the fields that the condition reads."""
        if isinstance(self._test, ScalarExpression):
            return self._test.columns
        return tuple(sorted(predicate_fields(self._test)))

    @property
    def ignores_padding(self) -> bool:
        """Whether `holds` takes CHAR(n) values padded with spaces, and ignores the padding.

        That is so for predicates. Expressions take CHAR values before padding.
        """
        return not isinstance(self._test, ScalarExpression)

    def holds(self, rows: pa.RecordBatch) -> pa.Array:
        """Return a boolean array: whether each row satisfies the condition, False where it is null.

        Raises the errors of `ScalarExpression.evaluate`.
        """
        if isinstance(self._test, ScalarExpression):
            return self._test.evaluate(rows).fill_null(False)
        return matching_rows(self._test, column_getter(rows, self.schema), rows.num_rows)
