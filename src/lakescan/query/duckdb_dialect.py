"""A statement in DuckDB's dialect. What DuckDB may answer otherwise than Spark is refused by its name.

The list is of what both evaluate alike whatever the types are. Where sqlglot's own translation follows Spark before
version 4 (casts and divisions that give null instead of an error), it is put right.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from lakescan.errors import InvalidStatement, UnsupportedFeature

_NODES = {
    "clauses": """
        Select From Join Where Group Having Order Ordered Limit Offset With CTE Subquery Union Except Intersect
        Table TableAlias Identifier Column Star Alias Paren Tuple Distinct Window WindowSpec Values Exists
        Qualify Lateral Explode Placeholder Var Sort
    """,
    "values": """
        Literal Boolean Null Neg Interval IntervalSpan Cast TryCast DataType DataTypeParam CurrentDate
    """,
    "operators": """
        And Or Not EQ NEQ LT LTE GT GTE NullSafeEQ NullSafeNEQ Is In Between Like Escape Add Sub Mul Div Mod
        Case If Coalesce Nullif Concat DPipe Dot BitwiseAnd BitwiseOr BitwiseXor Xor
    """,
    "aggregates": """
        Count CountIf Sum Avg Min Max Stddev StddevSamp StddevPop Variance VariancePop Filter
    """,
    "window functions": """
        RowNumber Rank DenseRank PercentRank CumeDist Ntile Lag Lead FirstValue LastValue NthValue
    """,
    "functions": """
        Upper Lower Length Abs Substring Left Right StartsWith EndsWith Replace Year Month Day DayOfMonth
        Quarter Extract TsOrDsAdd TsOrDsToDate DateDiff Greatest Least IsNan
    """,
}
_KNOWN = frozenset(name for names in _NODES.values() for name in names.split())
_FIELDS = {"YEAR", "QUARTER", "MONTH", "DAY", "HOUR", "MINUTE"}
_CASTS = {"BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "DECIMAL", "DOUBLE", "FLOAT", "TEXT", "DATE", "TIMESTAMP"}
_CASTS |= {"VARCHAR", "TIMESTAMPTZ", "TIMESTAMPLTZ", "TIMESTAMPNTZ"}
_WHOLE = ("TINYINT", "SMALLINT", "INT", "BIGINT")


def duckdb_text(tree: Any) -> str:
    """The statement's text for DuckDB, with the macros of `prepare`; raises `UnsupportedFeature` by name.

    The tree is changed.
    """
    import sqlglot
    from sqlglot import exp

    if not isinstance(tree, exp.Query | exp.Values):
        raise _refused("a statement that is no query")
    _name_columns(tree)
    for select in tree.find_all(exp.Select):
        select.set("hint", None)
        _check_order(select)
    nodes = list(tree.walk())
    for node in nodes:
        if type(node).__name__ not in _KNOWN:
            raise _refused(_described(node))
    for node in reversed(nodes):  # operands first: what is around them may copy them
        if (put_right := _PUT_RIGHT.get(type(node).__name__)) is not None:
            put_right(node)
    try:
        text: str = tree.sql("duckdb", unsupported_level=sqlglot.ErrorLevel.RAISE, comments=False)
    except sqlglot.errors.UnsupportedError as error:
        raise InvalidStatement(f"DuckDB, which runs SQL in this process, has no equivalent: {error}") from error
    return text


def prepare(connection: Any) -> None:
    """Define the macros that the texts use."""
    for name, body in _MACROS.items():
        connection.execute(f"CREATE TEMP MACRO {name} AS {body}")


def check_columns(tree: Any, floats: Collection[str], numbers: Collection[str]) -> None:
    """Refuse what depends on types of columns, which are given by name, in lower case.

    FLOAT columns with other numbers are DOUBLE in Spark and FLOAT in DuckDB; texts that are compared with numbers are
    cast otherwise.
    """
    from sqlglot import exp

    compared = exp.EQ | exp.NEQ | exp.LT | exp.LTE | exp.GT | exp.GTE | exp.NullSafeEQ | exp.In | exp.Between
    plain = exp.Select | exp.Count | exp.Is | exp.IsNan | exp.Ordered | exp.Group | exp.Min | exp.Max
    for column in tree.find_all(exp.Column):
        name, parent = column.name.lower(), column.parent
        if name in floats and not isinstance(parent, plain):
            raise _refused(f"the FLOAT column {column.name!r} in an expression (cast it to DOUBLE where it is written)")
        operands = parent.iter_expressions() if isinstance(parent, compared) else ()
        if name in numbers and any(isinstance(each, exp.Literal) and each.is_string for each in operands):
            raise _refused(f"the number {column.name!r} compared with a text (write it without quotes)")


def _check_order(select: Any) -> None:
    """In expressions of ORDER BY, Spark takes names for columns of the result first, DuckDB for those of the tables."""
    from sqlglot import exp

    named = {each.alias.lower() for each in select.expressions if isinstance(each, exp.Alias)}
    order = select.args.get("order")
    for each in order.expressions if order is not None else ():
        if not isinstance(each.this, exp.Column) and named & {c.name.lower() for c in each.find_all(exp.Column)}:
            raise _refused(f"ORDER BY {each.this.sql('spark')}, an expression of a column that SELECT names,")


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


def _call(name: str, *operands: Any) -> Any:
    from sqlglot import exp

    return exp.Anonymous(this=name, expressions=[each.copy() for each in operands])


def _cast(node: Any) -> None:
    """Casts fail for values that do not fit, and cut the digits of numbers off, as in Spark 4."""
    from sqlglot import exp

    kind = node.to.this.name if isinstance(node.to.this, exp.DataType.Type) else ""
    if kind not in _CASTS or node.args.get("safe"):
        raise _refused(f"{node.sql('spark')!r}")
    value, to = node.this, node.to
    if kind == "DECIMAL" and not to.expressions:
        to = exp.DataType.build("decimal(10, 0)")
    if kind in _WHOLE:
        node.replace(exp.Cast(this=_call("lakescan_whole", value), to=to))
    elif kind in ("TEXT", "VARCHAR"):
        node.replace(_call("lakescan_text", value))
    else:
        node.replace(exp.Cast(this=value, to=to))


def _division(node: Any) -> None:
    """A division by zero fails, as in Spark 4; DuckDB has null or infinity for it."""
    node.replace(_call("lakescan_divide" if node.key == "div" else "lakescan_modulo", node.this, node.expression))


def _concatenated(node: Any) -> None:
    """Operands become texts as by a cast."""
    from sqlglot import exp

    operands = list(node.expressions) if isinstance(node, exp.Concat) else [node.left, node.right]
    for each in operands:
        if not (isinstance(each, exp.Literal) and each.is_string):
            each.replace(_call("lakescan_text", each))


def _average(node: Any) -> None:
    """Averages of decimals are decimals in Spark, and doubles in DuckDB."""
    from sqlglot import exp

    for each in list(node.this.expressions) if isinstance(node.this, exp.Distinct) else [node.this]:
        each.replace(_call("lakescan_no_decimal", each))


def _letters(node: Any) -> None:
    """The cases of letters beyond ASCII differ."""
    node.replace(_call(f"lakescan_{node.key}", node.this))


def _is_nan(node: Any) -> None:
    from sqlglot import exp

    node.replace(exp.Coalesce(this=node.copy(), expressions=[exp.false()]))


def _values(node: Any) -> None:
    """Columns of VALUES are col1, col2, ...; in DuckDB the first is col0."""
    from sqlglot import exp

    alias = node.args.get("alias")
    if alias is not None and alias.columns:
        return
    rows = node.expressions
    width = len(rows[0].expressions) if rows and isinstance(rows[0], exp.Tuple) else 1
    names = [exp.to_identifier(f"col{n}") for n in range(1, width + 1)]
    node.set("alias", exp.TableAlias(this=alias.this if alias is not None else exp.to_identifier("v"), columns=names))


def _one_operand(node: Any) -> None:
    if node.expressions:
        raise _refused(f"{node.sql('spark')!r}")


def _whole_function(node: Any) -> None:
    if node.args.get("replacement") is None:
        raise _refused(f"{node.sql('spark')!r}")


def _only_in_window(node: Any) -> None:
    if node.parent is None or node.parent.key not in ("window", "filter"):
        raise _refused(f"{_described(node)} without OVER")


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
        is_whole = each is not None and each.key == "literal" and not each.is_string and each.name.isdecimal()
        if each is not None and not (is_whole and int(each.name) > 0):
            raise _refused(f"{node.sql('spark')!r}")


def _part(node: Any) -> None:
    if node.expression.key != "literal" or not node.expression.name.isdecimal():
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
    _only_in_window(node)
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
    **dict.fromkeys(("Cast", "TryCast"), _cast),
    **dict.fromkeys(("Div", "Mod"), _division),
    **dict.fromkeys(("DPipe", "Concat"), _concatenated),
    **dict.fromkeys(("Left", "Right"), _part),
    **dict.fromkeys(("FirstValue", "LastValue", "NthValue", "Lag", "Lead"), _null_treatment),
    **dict.fromkeys(("RowNumber", "Rank", "DenseRank", "PercentRank", "CumeDist", "Ntile"), _only_in_window),
    **dict.fromkeys(("Upper", "Lower"), _letters),
    "Avg": _average,
    "Count": _one_operand,
    "DateDiff": _unit,
    "Explode": _only_in_lateral,
    "Extract": _extract,
    "IsNan": _is_nan,
    "Lateral": _lateral,
    "Like": _like,
    "Replace": _whole_function,
    "Substring": _substring,
    "TsOrDsAdd": _date_add,
    "TsOrDsToDate": _to_date,
    "Values": _values,
}
_REFUSED_HERE = "this process computes it otherwise than Spark: run the statement with lakescan.spark.sql"
_DOUBLES = "('DOUBLE', 'FLOAT')"
_EXACT = (
    "('TINYINT', 'SMALLINT', 'INTEGER', 'BIGINT', 'HUGEINT', 'BOOLEAN', 'VARCHAR', 'DATE', 'TIMESTAMP', '\"NULL\"')"
)
_MACROS = {
    "lakescan_whole(x)": f"""
        CASE WHEN x IS NULL THEN NULL
             WHEN typeof(x) IN {_DOUBLES} THEN CAST(trunc(CAST(x AS DOUBLE)) AS HUGEINT)
             WHEN starts_with(typeof(x), 'DECIMAL') THEN CAST(split_part(CAST(x AS VARCHAR), '.', 1) AS HUGEINT)
             WHEN typeof(x) <> 'VARCHAR' THEN CAST(x AS HUGEINT)
             WHEN regexp_full_match(trim(CAST(x AS VARCHAR)), '[+-]?[0-9]+')
             THEN CAST(ltrim(trim(CAST(x AS VARCHAR)), '+') AS HUGEINT)
             ELSE error('a text that is no whole number cannot be cast to one') END""",
    "lakescan_text(x)": f"""
        CASE WHEN typeof(x) IN {_EXACT} OR starts_with(typeof(x), 'DECIMAL') THEN CAST(x AS VARCHAR)
             ELSE error('the text of a value of type ' || typeof(x) || ': {_REFUSED_HERE}') END""",
    "lakescan_divide(x, y)": f"""
        CASE WHEN y = 0 THEN error('division by zero')
             WHEN typeof(x) NOT IN {_DOUBLES} AND typeof(y) NOT IN {_DOUBLES}
                  AND (starts_with(typeof(x), 'DECIMAL') OR starts_with(typeof(y), 'DECIMAL'))
             THEN error('a division of decimals: {_REFUSED_HERE}, or cast them to DOUBLE') ELSE x / y END""",
    "lakescan_modulo(x, y)": "CASE WHEN y = 0 THEN error('division by zero') ELSE x % y END",
    "lakescan_no_decimal(x)": f"""
        CASE WHEN starts_with(typeof(x), 'DECIMAL')
             THEN error('an average of decimals: {_REFUSED_HERE}, or cast them to DOUBLE') ELSE x END""",
    **{
        f"lakescan_{name}(x)": f"CASE WHEN strlen(x) <> length(x) "
        f"THEN error('{name}() of letters beyond ASCII: {_REFUSED_HERE}') ELSE {name}(x) END"
        for name in ("upper", "lower")
    },
}


def _name_columns(query: Any) -> None:
    """Name the columns of the result that have no name nearly as Spark does, by their expressions."""
    from sqlglot import exp

    while isinstance(query, exp.SetOperation | exp.Subquery):
        query = query.this
    for each in list(query.expressions) if isinstance(query, exp.Select) else ():
        unnamed = exp.Func | exp.Binary | exp.Unary | exp.Case | exp.Literal
        if isinstance(each, unnamed) and not isinstance(each, exp.Dot):
            text = each.sql("spark", normalize_functions="lower", comments=False)
            name = "count(1)" if text == "count(*)" else text
            each.replace(exp.alias_(each.copy(), name, quoted=True))
