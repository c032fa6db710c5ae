"""Check the conditions and values that users pass to a merge or a `DeltaTable`, and write them as SQL text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from pyspark.sql import Column, functions

from lakescan.common.references import parse_reference
from lakescan.errors import InvalidStatement
from lakescan.spark.column_sql.column_text import Scope, column_text
from lakescan.spark.column_sql.source_names import SourceNames
from lakescan.statements.syntax.dml import Assignment, Merge, When
from lakescan.statements.syntax.text import Sql

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Expression: TypeAlias = str | Column
Values = Mapping[str, Expression]


def check_condition(condition: object, name: str = "'condition'") -> None:
    """Raise `TypeError` for a condition that is neither SQL text nor a Column, and Spark's error for invalid text."""
    if condition is None or isinstance(condition, Column):
        return
    if not isinstance(condition, str):
        raise TypeError(
            f"{name} must be a Spark SQL Column or a string (expression in SQL syntax), found to be of type "
            f"{type(condition)}"
        )
    functions.expr(condition)


def check_values(values: object, name: str) -> None:
    """Check the new values of columns.

    Raises:
        ValueError: There are none.
        TypeError: They are not a dict of column names and SQL texts or Columns.
    """
    if values is None:
        raise ValueError(f"{name} cannot be None")
    if type(values) is not dict:
        raise TypeError(f"{name} must be a dict, found to be {type(values)}")
    for column, value in values.items():
        if type(column) is not str:
            raise TypeError(
                f"Keys of dict in {name} must contain only strings with column names, found {column!r} of type "
                f"{type(column)}"
            )
        if not isinstance(value, Column | str):
            raise TypeError(
                f"Values of dict in {name} must contain only Spark SQL Columns or strings (expressions in SQL syntax) "
                f"as values, found {value!r} of type {type(value)}"
            )
        check_condition(value)


@dataclass(frozen=True)
class ExpressionWriter:
    """Writes expressions as SQL text.

    - `scope`: the data frames whose columns expressions may refer to as `frame["name"]`.
    - `source`: the names of a MERGE's source, and `source_alias` its name in the statement; None without a source.
    """

    spark: SparkSession
    scope: Scope
    source: SourceNames | None = None
    source_alias: str | None = None

    def sql(self, value: Expression) -> Sql:
        """Return the SQL of a condition or value."""
        text = value if isinstance(value, str) else column_text(self.spark, value, self.scope)
        if self.source is not None and self.source_alias is not None:
            text = self.source.replace(text, self.source_alias)
        return Sql(text)

    def condition(self, value: Expression | None) -> Sql | None:
        """Return the SQL of a condition; None without one."""
        return None if value is None else self.sql(value)

    def assignments(self, values: Values) -> tuple[Assignment, ...]:
        """Return the assignments of a clause; names may begin with the table's alias."""
        return tuple(Assignment(parse_reference(name.strip()), self.sql(value)) for name, value in values.items())


def free_name(name: str, taken: Iterable[str]) -> str:
    """Return a name that none of `taken` is: `name`, or `name` with underscores after it."""
    lower = {each.lower() for each in taken}
    while name.lower() in lower:
        name += "_"
    return name


def check_clauses(statement: Merge) -> None:
    """Raise `InvalidStatement` for a MERGE without clauses, and for a clause that would never apply."""
    if not statement.clauses:
        raise InvalidStatement("the MERGE has no clause: add one, such as whenMatchedUpdateAll()")
    for when in When:
        those = [each for each in statement.clauses if each.when == when]
        if any(each.condition is None for each in those[:-1]):
            raise InvalidStatement(
                f"only the last clause for rows that are {when} can be without a condition: those after it would never "
                "apply"
            )
