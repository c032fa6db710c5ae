"""A statement in DuckDB's dialect. What DuckDB may answer otherwise than Spark is refused by its name.

The list is of what both evaluate alike whatever the types are. Where sqlglot's own translation follows Spark before
version 4 (casts and divisions that give null instead of an error), it is put right.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lakescan.errors import InvalidStatement, UnsupportedFeature

_NODES = {
    "clauses": """
        Select From Join Where Group Having Order Ordered Limit Offset With CTE Subquery Union Except Intersect
        Table TableAlias Identifier Column Star Alias Paren Tuple Distinct Window WindowSpec Values Exists
        Qualify Lateral Explode Placeholder Var Rollup Cube GroupingSets Sort
    """,
    "values": """
        Literal Boolean Null Neg Interval IntervalSpan Cast TryCast DataType DataTypeParam CurrentDate
    """,
    "operators": """
        And Or Not EQ NEQ LT LTE GT GTE NullSafeEQ NullSafeNEQ Is In Between Like Escape Add Sub Mul Div Mod
        IntDiv Case If Coalesce Nullif Concat DPipe Any Dot BitwiseAnd BitwiseOr BitwiseXor Xor
    """,
    "aggregates": """
        Count CountIf Sum Avg Min Max Stddev StddevSamp StddevPop Variance VariancePop Corr ArrayAgg ArgMax
        ArgMin Filter LogicalAnd LogicalOr
    """,
    "window functions": """
        RowNumber Rank DenseRank PercentRank CumeDist Ntile Lag Lead FirstValue LastValue NthValue
    """,
    "functions": """
        Upper Lower Length Abs Substring Left Right StartsWith EndsWith Replace Year Month Day DayOfMonth
        Quarter Extract TsOrDsAdd TsOrDsToDate DateDiff Greatest Least IsNan Struct PropertyEQ
    """,
}
_KNOWN = frozenset(name for names in _NODES.values() for name in names.split())
_FIELDS = {"YEAR", "QUARTER", "MONTH", "DAY", "HOUR", "MINUTE"}
_CASTS = {"BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "DECIMAL", "DOUBLE", "FLOAT", "TEXT", "DATE", "TIMESTAMP"}
_CASTS |= {"VARCHAR", "TIMESTAMPTZ", "TIMESTAMPLTZ", "TIMESTAMPNTZ"}
_WHOLE = ("TINYINT", "SMALLINT", "INT", "BIGINT")


def duckdb_text(tree: Any) -> str:
    """The statement's text for DuckDB; raises `UnsupportedFeature` for what is not in the list."""
    import sqlglot
    from sqlglot import exp

    _name_columns(tree)
    for select in tree.find_all(exp.Select):
        select.set("hint", None)
    for node in list(tree.walk()):
        name = type(node).__name__
        if name not in _KNOWN:
            raise _refused(_described(node))
        if (put_right := _PUT_RIGHT.get(name)) is not None:
            put_right(node)
    try:
        text: str = tree.sql("duckdb", unsupported_level=sqlglot.ErrorLevel.RAISE)
    except sqlglot.errors.UnsupportedError as error:
        raise InvalidStatement(f"DuckDB, which runs SQL in this process, has no equivalent: {error}") from error
    return text


def _described(node: Any) -> str:
    from sqlglot import exp

    if isinstance(node, exp.Anonymous):
        return f"the function {node.name}()"
    text = node.sql("spark", normalize_functions="lower")
    return f"the function {text.split('(')[0]}()" if isinstance(node, exp.Func) and "(" in text else f"{text[:60]!r}"


def _refused(what: str) -> UnsupportedFeature:
    return UnsupportedFeature(
        f"{what} in SQL that runs in this process",
        "DuckDB, which evaluates it, may answer otherwise than Spark. Run the statement with lakescan.spark.sql.",
    )


def _cast(node: Any) -> None:
    """Casts fail for values that do not fit, and cut the digits of numbers off, as in Spark 4."""
    from sqlglot import exp

    is_try = bool(node.args.get("safe"))
    kind = node.to.this.name if isinstance(node.to.this, exp.DataType.Type) else ""
    if kind not in _CASTS or is_try:
        raise _refused(f"{node.sql('spark')!r}")
    value, to = node.this, node.to
    if isinstance(value, exp.Literal) or kind not in _WHOLE:
        node.replace(exp.Cast(this=value, to=to))
        return
    type_of = exp.Anonymous(this="typeof", expressions=[value.copy()])
    whole = exp.Anonymous(this="trunc", expressions=[exp.Cast(this=value.copy(), to=exp.DataType.build("double"))])
    digits = exp.Cast(this=value.copy(), to=exp.DataType.build("text"))
    digits = exp.Anonymous(this="split_part", expressions=[digits, exp.Literal.string("."), exp.Literal.number(1)])
    is_double = exp.In(this=type_of, expressions=[exp.Literal.string("DOUBLE"), exp.Literal.string("FLOAT")])
    is_decimal = exp.Anonymous(this="starts_with", expressions=[type_of.copy(), exp.Literal.string("DECIMAL")])
    cases = [
        exp.If(this=is_double, true=exp.Cast(this=whole, to=to.copy())),
        exp.If(this=is_decimal, true=exp.Cast(this=digits, to=to.copy())),
    ]
    node.replace(exp.Case(ifs=cases, default=exp.Cast(this=value, to=to)))


def _division(node: Any) -> None:
    """A division by zero fails, as in Spark 4; DuckDB has null or infinity for it."""
    from sqlglot import exp

    divisor = node.expression
    if isinstance(divisor, exp.Literal) and float(divisor.name or 0) != 0:
        safe: Any = divisor.copy()
    else:
        failure = exp.Anonymous(this="error", expressions=[exp.Literal.string("division by zero")])
        is_zero = exp.EQ(this=exp.Paren(this=divisor.copy()), expression=exp.Literal.number(0))
        safe = exp.Case(ifs=[exp.If(this=is_zero, true=failure)], default=divisor.copy())
    node.set("safe", None)
    node.set("expression", exp.Paren(this=safe))


def _like(node: Any) -> None:
    """A backslash escapes, as in Spark; DuckDB has no escape unless it is named."""
    from sqlglot import exp

    if isinstance(node.parent, exp.Escape):
        return
    copy = node.copy()
    copy.set("negate", None)
    escaped: Any = exp.Escape(this=copy, expression=exp.Literal.string("\\"))
    node.replace(exp.Not(this=exp.Paren(this=escaped)) if node.args.get("negate") else escaped)


def _to_date(node: Any) -> None:
    from sqlglot import exp

    if node.args.get("format") is not None:
        raise _refused("to_date() with a format")
    node.replace(exp.Cast(this=node.this.copy(), to=exp.DataType.build("date")))


def _substring(node: Any) -> None:
    """Positions are whole numbers from 1 on: with others, the engines begin elsewhere."""
    for each in (node.args.get("start"), node.args.get("length")):
        if each is not None and not (each.key == "literal" and not each.is_string and int(each.name) > 0):
            raise _refused(f"{node.sql('spark')!r}")


def _part(node: Any) -> None:
    if node.expression.key != "literal" or node.expression.is_string:
        raise _refused(f"{node.sql('spark')!r}")


def _extract(node: Any) -> None:
    if node.name.upper() not in _FIELDS:
        raise _refused(f"{node.sql('spark')!r}")


def _lateral(node: Any) -> None:
    if node.args.get("outer") or node.this.key not in ("explode", "subquery"):
        raise _refused("this LATERAL VIEW")


def _only_in_lateral(node: Any) -> None:
    if node.parent is None or node.parent.key != "lateral":
        raise _refused("explode() outside of LATERAL VIEW")


def _null_treatment(node: Any) -> None:
    if {name for name, value in node.args.items() if value} - {"this", "expression", "offset", "default"}:
        raise _refused(f"{node.sql('spark')!r}")


def _date_add(node: Any) -> None:
    from sqlglot import exp

    _unit(node)
    node.replace(exp.Cast(this=node.copy(), to=exp.DataType.build("date")))


def _unit(node: Any) -> None:
    if node.args.get("unit") is not None and node.args["unit"].name.upper() not in ("DAY", "DAYS"):
        raise _refused(f"{node.sql('spark')!r}")


_PUT_RIGHT: dict[str, Callable[[Any], None]] = {
    "Cast": _cast,
    "TryCast": _cast,
    "Div": _division,
    "IntDiv": _division,
    "Mod": _division,
    "Like": _like,
    "TsOrDsToDate": _to_date,
    "Substring": _substring,
    "Left": _part,
    "Right": _part,
    "Extract": _extract,
    "Lateral": _lateral,
    "Explode": _only_in_lateral,
    "FirstValue": _null_treatment,
    "LastValue": _null_treatment,
    "TsOrDsAdd": _date_add,
    "DateDiff": _unit,
}


def _name_columns(query: Any) -> None:
    """Name the columns of the result that have no name nearly as Spark does, by their expressions."""
    from sqlglot import exp

    while isinstance(query, exp.SetOperation | exp.Subquery):
        query = query.this
    for each in list(query.expressions) if isinstance(query, exp.Select) else ():
        unnamed = exp.Func | exp.Binary | exp.Unary | exp.Case | exp.Literal
        if isinstance(each, unnamed) and not isinstance(each, exp.Dot):
            name = "count(1)" if each.sql() == "COUNT(*)" else each.sql("spark", normalize_functions="lower")
            each.replace(exp.alias_(each.copy(), name, quoted=True))
