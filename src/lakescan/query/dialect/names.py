"""Names that Spark gives to columns without one: their expressions."""

from __future__ import annotations

from typing import Any

_OPERATORS = {
    "Add": "+",
    "Sub": "-",
    "Mul": "*",
    "Div": "/",
    "Mod": "%",
    "IntDiv": "div",
    "EQ": "=",
    "LT": "<",
    "LTE": "<=",
    "GT": ">",
    "GTE": ">=",
    "NullSafeEQ": "<=>",
    "And": "AND",
    "Or": "OR",
    "BitwiseAnd": "&",
    "BitwiseOr": "|",
    "BitwiseXor": "^",
}


def name_of(node: Any) -> str:
    """The name of a column of a result; nearly Spark's for what is not common."""
    from sqlglot import exp

    kind = type(node).__name__
    if isinstance(node, exp.Alias):
        return str(node.alias)
    if isinstance(node, exp.Paren):
        return name_of(node.this)
    if isinstance(node, exp.Column | exp.Dot):
        return str(node.parts[-1].name) if hasattr(node, "parts") else name_of(node.this)
    if kind in _OPERATORS:
        return f"({_inner(node.this)} {_OPERATORS[kind]} {_inner(node.expression)})"
    return _inner(node)


def _inner(node: Any) -> str:
    from sqlglot import exp

    kind = type(node).__name__
    match node:
        case exp.Paren():
            return _inner(node.this)
        case exp.Column():
            return ".".join(each.name for each in node.parts)
        case exp.Literal():
            return str(node.this).rstrip("LlSsYyDd") if not node.is_string else str(node.this)
        case exp.Star():
            return "1"
        case exp.Anonymous():
            args = node.expressions
            distinct = "DISTINCT " if args and isinstance(args[0], exp.Distinct) else ""
            args = args[0].expressions if distinct else args
            return f"{str(node.this).lower()}({distinct}{', '.join(_inner(each) for each in args)})"
        case exp.TryCast() | exp.Cast():
            return f"CAST({_inner(node.this)} AS {node.args['to'].sql('spark')})"
        case exp.Neg():
            return f"(- {_inner(node.this)})"
        case exp.Not():
            return f"(NOT {_inner(node.this)})"
        case exp.Subquery():
            return "scalarsubquery()"
    if kind == "NEQ":
        return f"(NOT ({_inner(node.this)} = {_inner(node.expression)}))"
    if kind in _OPERATORS:
        return f"({_inner(node.this)} {_OPERATORS[kind]} {_inner(node.expression)})"
    text: str = node.sql("spark", normalize_functions="lower", comments=False)
    return text
