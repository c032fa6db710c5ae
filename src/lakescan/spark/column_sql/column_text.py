"""The SQL text of PySpark's `Column`: the expression tree of a column, classic or Connect, written as Spark SQL."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any

from lakescan.common.references import backquote, parse_reference
from lakescan.errors import NoSuchColumn, UnsupportedFeature
from lakescan.statements.syntax.types import text_literal

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

_INFIX = {name: name for name in ("+", "-", "*", "/", "%", "<", "<=", ">", ">=", "<=>", "&", "|", "^")}
_INFIX |= {
    "==": "=",
    "=": "=",
    "!=": "<>",
    "and": "AND",
    "or": "OR",
    "like": "LIKE",
    "ilike": "ILIKE",
    "rlike": "RLIKE",
}
_PREFIX = {"negative": "-", "positive": "+", "!": "NOT", "not": "NOT", "~": "~"}
_SUFFIX = {"isnull": "IS NULL", "isnotnull": "IS NOT NULL"}
_UNITS = ("timestampdiff", "timestampadd", "timestamp_diff", "timestamp_add")  # the first argument is a keyword in SQL
_SPECIAL = ("extract", "position", "overlay", "trim", "substring", "substr")  # these names have a grammar of their own
_PLAIN = re.compile(r"[A-Za-z_]\w*")
_EPOCH = datetime(1970, 1, 1)


@dataclass(frozen=True)
class Scope:
    """The columns that `frame["name"]` can mean: those of data frames, found by their identity in Spark's plans.

    - `attributes`: SQL references by Spark's expression ids (classic).
    - `plans`: the qualifiers of columns by the ids of Connect's plans.
    """

    attributes: dict[int, str] = field(default_factory=dict)
    plans: dict[int, str] = field(default_factory=dict)


def column_text(spark: SparkSession, column: Column, scope: Scope) -> str:
    """Return an SQL expression that means the same as a column.

    Args:
        spark: The session.
        column: The column; an alias around it is left out.
        scope: The data frames whose columns it may refer to as `frame["name"]`.

    Raises:
        UnsupportedFeature: The column has no SQL text, such as a Python UDF.
        NoSuchColumn: It refers to a column of another data frame.
    """
    if hasattr(column, "_jc"):
        return _Classic(spark, scope).text(column._jc.node())
    tree: Any = column
    return _Connect(scope).text(tree._expr)


def _call(name: str, args: Sequence[str], *, is_distinct: bool = False) -> str:
    """Return the SQL of a function call; operators are written as such."""
    lower = name.lower()
    if len(args) == 2 and lower in _INFIX:
        return f"({args[0]} {_INFIX[lower]} {args[1]})"
    if len(args) == 3 and lower in ("like", "ilike"):
        return f"({args[0]} {lower.upper()} {args[1]} ESCAPE {args[2]})"
    if len(args) == 1 and lower in _PREFIX:
        return f"({_PREFIX[lower]} {args[0]})"
    if len(args) == 1 and lower in _SUFFIX:
        return f"({args[0]} {_SUFFIX[lower]})"
    if lower == "in" and len(args) > 1:
        return f"({args[0]} IN ({', '.join(args[1:])}))"
    if lower == "when":
        return _case(list(zip(args[::2], args[1::2], strict=False)), args[-1] if len(args) % 2 else None)
    if lower in _UNITS and args:
        return f"{lower.replace('_', '')}({args[0].strip(chr(39))}, {', '.join(args[1:])})"
    shown = name if _PLAIN.fullmatch(name) and lower not in _SPECIAL else backquote(name)
    return f"{shown}({'DISTINCT ' if is_distinct else ''}{', '.join(args)})"


def _case(branches: Sequence[tuple[str, str]], otherwise: str | None) -> str:
    chosen = " ".join(f"WHEN {condition} THEN {value}" for condition, value in branches)
    return f"CASE {chosen}{'' if otherwise is None else f' ELSE {otherwise}'} END"


def _expression(text: str) -> str:
    """Return the text of `expr(text)` in parentheses; a line break keeps a comment from hiding the closing one."""
    return f"({text}\n)" if "--" in text or "/*" in text else f"({text})"


def _unsupported(kind: str) -> UnsupportedFeature:
    return UnsupportedFeature(
        f"{kind} in an expression of DeltaTable",
        "Compute the value in the source, or write the expression as SQL text.",
    )


def _variable(name: str) -> str:
    return name if _PLAIN.fullmatch(name) else backquote(name)


def _lambda(names: Sequence[str], body: str) -> str:
    shown = ", ".join(map(_variable, names))
    return f"({shown}) -> {body}" if len(names) > 1 else f"{shown} -> {body}"


def timestamp_text(microseconds: int) -> str:
    """Return the SQL literal of a time, given in microseconds since 1970 UTC, for any time zone of the session."""
    moment = _EPOCH + timedelta(microseconds=microseconds)
    return (
        f"TIMESTAMP '{moment:%Y-%m-%d %H:%M:%S.%f}+00:00'".replace(".000000", "")
        if moment.year >= 1000
        else (f"timestamp_micros({microseconds})")
    )


class _Classic:
    """Writes the trees of classic PySpark, which are objects in the JVM."""

    def __init__(self, spark: SparkSession, scope: Scope) -> None:
        jvm: Any = spark._jvm
        session: Any = spark
        self._jvm, self._scope, self._session = jvm, scope, session._jsparkSession

    def text(self, node: Any) -> str:
        """Return the SQL of a `ColumnNode`."""
        kind = node.getClass().getSimpleName()
        match kind:
            case "Literal":
                return self._literal(node)
            case "UnresolvedAttribute":
                return ".".join(backquote(each) for each in _list(node.nameParts()))
            case "UnresolvedFunction":
                if node.isInternal():
                    raise _unsupported(f"the internal function {node.functionName()}")
                is_struct = node.functionName().lower() == "struct"
                args = [self._argument(each, is_struct) for each in _list(node.arguments())]
                return _call(node.functionName(), args, is_distinct=node.isDistinct())
            case "SqlExpression":
                return _expression(node.expression())
            case "Alias":
                return self.text(node.child())
            case "Cast":
                mode = node.evalMode()
                name = "TRY_CAST" if mode.isDefined() and "Try" in mode.get().toString() else "CAST"
                return f"{name}({self.text(node.child())} AS {node.dataType().sql()})"
            case "CaseWhenOtherwise":
                branches = [(self.text(each._1()), self.text(each._2())) for each in _list(node.branches())]
                otherwise = node.otherwise()
                return _case(branches, self.text(otherwise.get()) if otherwise.isDefined() else None)
            case "UnresolvedExtractValue":
                return f"{self.text(node.child())}[{self.text(node.extraction())}]"
            case "LambdaFunction":
                names = [each.name() for each in _list(node.arguments())]
                return _lambda(names, self.text(node.function()))
            case "UnresolvedNamedLambdaVariable":
                return _variable(node.name())
            case "ExpressionColumnNode":
                return self._resolved(node.expression())
        raise _unsupported(kind)

    def _argument(self, node: Any, is_struct: bool) -> str:
        """Return the SQL of a function's argument; in a struct, an alias is the name of the member."""
        text = self.text(node)
        if not is_struct or node.getClass().getSimpleName() != "Alias":
            return text
        return f"{text} AS {backquote(_list(node.name())[0])}"

    def _literal(self, node: Any) -> str:
        found = self._expression_of(node)
        kind = found.dataType().typeName()
        if kind == "timestamp" and found.value() is not None:
            return timestamp_text(int(found.value()))
        if kind == "void":
            return "NULL"
        if kind == "string" and found.value() is not None:
            return text_literal(str(found.value().toString()))
        return str(found.sql())

    def _expression_of(self, node: Any) -> Any:
        column = self._jvm.org.apache.spark.sql.Column(node)
        return self._session.expression(column)

    def _resolved(self, found: Any) -> str:
        kind = found.getClass().getSimpleName()
        match kind:
            case "AttributeReference":
                text = self._scope.attributes.get(int(found.exprId().id()))
                if text is None:
                    raise NoSuchColumn(
                        f"the column {found.name()!r} belongs to a data frame that is neither the source nor the "
                        "table: name the column with its alias, such as col('s.id')"
                    )
                return text
            case "Alias" | "ColumnNodeExpression":
                return self._resolved(found.child()) if kind == "Alias" else self.text(found.node())
            case "GetStructField":
                return f"{self._resolved(found.child())}.{backquote(found.extractFieldName())}"
        raise _unsupported("a Python UDF" if "UDF" in kind else f"the resolved expression {kind}")


def _list(sequence: Any) -> list[Any]:
    """Return the elements of a Scala sequence."""
    return [sequence.apply(each) for each in range(sequence.length())]


class _Connect:
    """Writes the trees of Connect, which are Python objects."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope

    def text(self, tree: Any) -> str:
        """Return the SQL of an expression of `pyspark.sql.connect.expressions`."""
        kind = type(tree).__name__
        match kind:
            case "LiteralExpression":
                return literal_text(tree._value, tree._dataType)
            case "ColumnReference":
                return self._reference(tree)
            case "UnresolvedFunction":
                args = [self._argument(each, tree._name.lower() == "struct") for each in tree._args]
                return _call(tree._name, args, is_distinct=tree._is_distinct)
            case "CallFunction":
                return _call(tree._name, [self.text(each) for each in tree._args])
            case "SQLExpression":
                return _expression(tree._expr)
            case "ColumnAlias":
                return self.text(tree._child)
            case "CastExpression":
                name = "TRY_CAST" if "TRY" in str(tree._eval_mode).upper() else "CAST"
                target = tree._data_type if isinstance(tree._data_type, str) else tree._data_type.simpleString()
                return f"{name}({self.text(tree._expr)} AS {target})"
            case "CaseWhen":
                branches = [(self.text(condition), self.text(value)) for condition, value in tree._branches]
                return _case(branches, None if tree._else_value is None else self.text(tree._else_value))
            case "UnresolvedExtractValue":
                return f"{self.text(tree._child)}[{self.text(tree._extraction)}]"
            case "LambdaFunction":
                names = [".".join(each._name_parts) for each in tree._arguments]
                return _lambda(names, self.text(tree._function))
            case "UnresolvedNamedLambdaVariable":
                return _variable(".".join(tree._name_parts))
        raise _unsupported("a Python UDF" if kind == "CommonInlineUserDefinedFunction" else kind)

    def _argument(self, tree: Any, is_struct: bool) -> str:
        """Return the SQL of a function's argument; in a struct, an alias is the name of the member."""
        text = self.text(tree)
        if not is_struct or type(tree).__name__ != "ColumnAlias":
            return text
        return f"{text} AS {backquote(tree._alias[0])}"

    def _reference(self, tree: Any) -> str:
        text = ".".join(map(backquote, parse_reference(tree._unparsed_identifier)))
        if tree._plan_id is None:
            return text
        qualifier = self._scope.plans.get(tree._plan_id)
        if qualifier is None:
            raise NoSuchColumn(
                f"the column {tree._unparsed_identifier!r} belongs to a data frame that is neither the source nor the "
                "table: name the column with its alias, such as col('s.id')"
            )
        return f"{backquote(qualifier)}.{text}"


def literal_text(value: Any, kind: Any) -> str:
    """Return the SQL literal of a value as Connect holds it: days, microseconds, or a Python value.

    Args:
        value: The value; None for a null.
        kind: Its type in Spark.
    """
    name = kind.typeName()
    if value is None:
        return "NULL" if name == "void" else f"CAST(NULL AS {kind.simpleString()})"
    match name:
        case "boolean":
            return "true" if value else "false"
        case "string" | "char" | "varchar":
            return text_literal(str(value))
        case "byte" | "short" | "integer" | "long":
            suffix = {"byte": "Y", "short": "S", "integer": "", "long": "L"}[name]
            lowest = {"byte": 7, "short": 15, "integer": 31, "long": 63}[name]
            if value == -(2**lowest):  # its digits without the sign do not fit the type
                return f"CAST('{value}' AS {kind.simpleString()})"
            return f"{value}{suffix}" if value >= 0 else f"({value}{suffix})"
        case "float" | "double":
            return f"CAST('{_float_text(value)}' AS {kind.simpleString()})"
        case "decimal":
            return f"CAST('{value:f}' AS {kind.simpleString()})"
        case "binary":
            return f"X'{bytes(value).hex().upper()}'"
        case "date":
            return f"DATE '{date.fromordinal(date(1970, 1, 1).toordinal() + int(value))}'"
        case "timestamp":
            return timestamp_text(int(value))
        case "timestamp_ntz":
            return f"TIMESTAMP_NTZ '{_EPOCH + timedelta(microseconds=int(value))}'"
        case "array":
            return f"array({', '.join(literal_text(each, kind.elementType) for each in value)})"
    if "interval" in name and "day" in kind.simpleString():
        sign, rest = ("-" if value < 0 else ""), abs(int(value))
        days, rest = divmod(rest, 86_400_000_000)
        seconds, micros = divmod(rest, 1_000_000)
        clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{micros:06}"
        return f"INTERVAL '{sign}{days} {clock}' DAY TO SECOND"
    raise _unsupported(f"a literal of type {kind.simpleString()}")


def _float_text(value: float) -> str:
    return {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}.get(repr(float(value)), repr(float(value)))
