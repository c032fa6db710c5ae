"""SQL conditions: checks of their content, and the column references in their text."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from lakescan.common import types as t
from lakescan.common.references import dotted_path
from lakescan.common.schema import Schema
from lakescan.errors import InvalidFilter, NoSuchColumn, UnsupportedFeature
from lakescan.expressions.predicate import SqlCondition
from lakescan.expressions.scalar.parse import parse_expression

_REFUSED = {
    "an aggregate": (
        "any_value approx_count_distinct approx_percentile array_agg avg bit_and bit_or bit_xor bool_and bool_or "
        "collect_list collect_set corr count count_if count_min_sketch covar_pop covar_samp every first first_value "
        "grouping grouping_id histogram_numeric kurtosis last last_value listagg max max_by mean median min min_by "
        "mode percentile percentile_approx percentile_cont percentile_disc regr_avgx regr_avgy regr_count "
        "regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy skewness some std stddev stddev_pop "
        "stddev_samp string_agg sum try_avg try_sum var_pop var_samp variance"
    ),
    "a window function": "cume_dist dense_rank lag lead nth_value ntile percent_rank rank row_number",
    "a function that returns several rows": (
        "explode explode_outer inline inline_outer json_tuple posexplode posexplode_outer stack"
    ),
    "not deterministic": (
        "input_file_block_length input_file_block_start input_file_name java_method monotonically_increasing_id rand "
        "randn random randstr reflect shuffle spark_partition_id try_reflect uniform uuid"
    ),
}
_WHY = {name: why for why, names in _REFUSED.items() for name in names.split()}
# Functions that can be called without parentheses; a column with the name takes precedence.
_WORDS = (
    "current_catalog",
    "current_database",
    "current_date",
    "current_schema",
    "current_time",
    "current_timestamp",
    "current_user",
    "localtimestamp",
    "session_user",
    "user",
)
_WITH_UNIT = ("date_add", "date_diff", "dateadd", "datediff", "timediff", "timestampadd", "timestampdiff")


def sql_condition(text: str) -> SqlCondition:
    """Parse and check the text of a condition, and return it unbound.

    Raises `InvalidFilter` if it does not parse, or if it contains a subquery, an aggregate, a window function, a
    parameter, or a function that is nondeterministic or returns several rows.
    """
    tree = parse_expression(text)
    for node in tree.walk():
        if (problem := _problem(node)) is not None:
            raise InvalidFilter(f"in the filter {text!r}, {problem}: a filter is a condition on the values of one row")
    if '"' in text and not any(_references(tree)):
        raise InvalidFilter(
            f"the filter {text!r} names no column; names are quoted with backquotes, text in double quotes is a value"
        )
    return SqlCondition(text)


def _problem(node: Any) -> str | None:
    """Describe why a filter must not contain a sqlglot node (a subquery, an aggregate, ...); None if it may."""
    from sqlglot import exp

    match node:
        case exp.Query():
            return f"{node.sql(dialect='spark')!r} is a subquery"
        case exp.Window():
            return f"{node.sql(dialect='spark')!r} is a window function"
        case exp.Star():
            return "* is not a value"
        case exp.Placeholder() | exp.Parameter():
            return f"{node.sql(dialect='spark')!r} is a parameter without a value"
        case exp.Anonymous() if (name := str(node.this).lower()) in _WHY:
            return f"{name}() is {_WHY[name]}"
    return None


@dataclass(frozen=True)
class ColumnReference:
    """A reference to a column or nested field in SQL text.

    - `names`: the parts of the dotted name.
    - `places`: for each part, the positions of its first and last character in the text; None if sqlglot is too old.
    - `is_word`: whether it may be a call of a function without parentheses instead, such as `current_date`.
    """

    names: tuple[str, ...]
    places: tuple[tuple[int | None, int | None], ...]
    is_word: bool

    def resolve(self, schema: Schema, *, case_sensitive: bool) -> tuple[t.Field, int] | None:
        """Return the referenced field, and how many of the names lead to it.

        Further names refer to contents of the field, such as map keys. For a field inside a list or map, return the
        outermost list or map. Return None if `is_word` and no column has this name. Raises `NoSuchColumn`.
        """
        for count in range(len(self.names), 0, -1):
            try:
                field = schema.field(dotted_path(self.names[:count]), case_sensitive=case_sensitive)
            except NoSuchColumn:
                continue
            path = schema.struct_path(field.id)
            if path[-1] is not field:
                return path[-1], len(path)
            if count == len(self.names) or isinstance(field.type, t.ListOf | t.MapOf) or field.type == t.VARIANT:
                return field, count
        if self.is_word:
            return None
        return schema.field(dotted_path(self.names), case_sensitive=case_sensitive), len(self.names)  # raises


def _references(tree: Any) -> Iterator[ColumnReference]:
    """Yield the references to columns in a sqlglot tree; variables of lambda functions are not columns."""
    from sqlglot import exp

    for column in tree.find_all(exp.Column):
        parts, node = list(column.parts), column
        if _is_unit(column) or not all(isinstance(part, exp.Identifier) for part in parts):
            continue
        while isinstance(node.parent, exp.Dot) and node.parent.this is node:
            node = node.parent
            if not isinstance(node.expression, exp.Identifier):
                break
            parts.append(node.expression)
        is_word = len(parts) == 1 and not parts[0].args.get("quoted") and parts[0].name.lower() in _WORDS
        yield ColumnReference(
            tuple(part.name for part in parts),
            tuple((part.meta.get("start"), part.meta.get("end")) for part in parts),
            is_word,
        )


def _is_unit(column: Any) -> bool:
    """Return whether a column node is in fact the unit of a call such as `timestampdiff(HOUR, a, b)`."""
    from sqlglot import exp

    call = column.parent
    is_first = isinstance(call, exp.Anonymous) and len(call.expressions) == 3 and call.expressions[0] is column
    return is_first and str(call.this).lower() in _WITH_UNIT


def references(text: str) -> Iterator[ColumnReference]:
    """Yield the references to columns in the text of a condition; raises `InvalidFilter` if it does not parse."""
    return _references(parse_expression(text))


def replace_columns(text: str, replaced: Callable[[ColumnReference], tuple[str, int] | None]) -> str:
    """Replace references to columns in the text of a condition.

    `replaced` returns the replacement for a reference and how many of its names it replaces, or None to keep the
    reference. Raises `UnsupportedFeature` if sqlglot is too old to record the positions of names.
    """
    changes = []
    for each in references(text):
        if (found := replaced(each)) is not None:
            (start, _), (_, end) = each.places[0], each.places[found[1] - 1]
            if start is None or end is None:
                raise UnsupportedFeature("SQL conditions on Spark", "Install a newer sqlglot: pip install -U sqlglot.")
            changes.append((start, end + 1, found[0]))
    result, done = [], 0
    for start, end, name in sorted(changes):
        result += [text[done:start], name]
        done = end
    return "".join([*result, text[done:]])
