"""The aggregation of a SELECT: one row a group, with the keys k0, k1, ... and the aggregates a0, a1, ..."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from lakescan.common import types as t
from lakescan.errors import InvalidStatement, LakescanError
from lakescan.expressions.scalar.typed import TypedSql
from lakescan.statements.duckdb.aggregates import normalize_zero
from lakescan.statements.duckdb.types import cell_of

NAME = "g"


class MissingAggregation(InvalidStatement):
    """A column stands in an aggregation outside of keys and aggregate functions."""


@dataclass
class Groups:
    """The keys and aggregates of an aggregation.

    - `keys`: over rows. `sets`: what GROUP BY says beyond the keys, over their names; empty without.
    """

    keys: list[TypedSql] = field(default_factory=list)
    sets: str = ""
    is_grouped: bool = False
    _aggregates: dict[str, TypedSql] = field(default_factory=dict)

    def add_key(self, value: TypedSql) -> str:
        """Take a key, and return its name."""
        for n, each in enumerate(self.keys):
            if each.sql == value.sql:
                return f"k{n}"
        self.keys.append(value)
        return f"k{len(self.keys) - 1}"

    def key(self, node: Any, rows: Callable[[Any], TypedSql]) -> TypedSql | None:
        """The key that an expression over rows is; None for other expressions."""
        if not self.keys or type(node).__name__ in ("Literal", "Star", "Null", "Boolean", "Column", "Window"):
            return None
        try:
            value = rows(node)
        except LakescanError:
            return None
        return self._key_of(value)

    def _key_of(self, value: TypedSql) -> TypedSql | None:
        for n, each in enumerate(self.keys):
            if each.sql == value.sql:
                return cell_of(f"{NAME}.k{n}", each)
        return None

    def column_key(self, value: TypedSql, name: str) -> TypedSql:
        """What a column of the rows is behind the aggregation: a key."""
        found = self._key_of(value)
        if found is None:
            raise MissingAggregation(f"the column {name!r} is neither in GROUP BY nor in an aggregate function")
        return found

    def aggregate(self, value: TypedSql) -> TypedSql:
        """Take an aggregate over the rows of a group."""
        names = list(self._aggregates)
        if value.sql not in self._aggregates:
            self._aggregates[value.sql] = value
            names.append(value.sql)
        return replace(value, sql=f"{NAME}.a{names.index(value.sql)}", literal=None)

    def grouping(self, name: str, columns: Sequence[TypedSql]) -> TypedSql:
        """`grouping(key)`, or `grouping_id(...)`: which keys are left out of a row's grouping set."""
        if not self.sets:
            raise InvalidStatement(f"{name}() needs GROUP BY with GROUPING SETS, ROLLUP or CUBE")
        keys = []
        for each in columns:
            if (found := self._key_of(each)) is None:
                raise InvalidStatement(f"{name}() takes what GROUP BY groups by")
            keys.append(found.sql.partition(".")[2])
        if not keys:
            keys = [f"k{n}" for n in range(len(self.keys))]
        kind, sql = (t.BYTE, "TINYINT") if name == "grouping" else (t.LONG, "BIGINT")
        return self.aggregate(TypedSql(f"CAST(GROUPING({', '.join(keys)}) AS {sql})", kind))

    def sql(self, rest: str) -> str:
        """The aggregation over a FROM, with its WHERE."""
        keys = [f"{normalize_zero(each)} AS k{n}" for n, each in enumerate(self.keys)]
        aggregates = [f"{sql} AS a{n}" for n, sql in enumerate(self._aggregates)]
        by = self.sets or ", ".join(f"k{n}" for n in range(len(self.keys)))
        listed = ", ".join([*keys, *aggregates]) or "1 AS k"
        if not self._aggregates and not self.keys:
            listed = "count(*) AS k"
        # Of no rows, DuckDB makes a row for the grouping set (), and Spark makes none.
        having = " HAVING count(*) > 0" if self.sets and self.keys else ""
        return f"SELECT {listed} {rest}" + (f" GROUP BY {by}{having}" if by else "")
