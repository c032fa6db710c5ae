"""Translation of sqlglot trees of Spark SQL expressions to DuckDB SQL, node by node.

Nodes that are unknown, or have unknown arguments, raise `UnsupportedFeature`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from lakescan.common import types as t
from lakescan.errors import InvalidFilter, UnsupportedFeature
from lakescan.expressions.scalar import (
    arithmetic,
    collections,
    conditions,
    interval_values,
    lambdas,
    python_functions,
    text_functions,
    time_functions,
)
from lakescan.expressions.scalar.casts import cast, try_cast
from lakescan.expressions.scalar.collections import list_of
from lakescan.expressions.scalar.functions import call
from lakescan.expressions.scalar.parse import names_of, parse_expression
from lakescan.expressions.scalar.typed_sql import (
    MOST_DIGITS,
    TypedSql,
    literal,
    parse_number,
    quote_text,
    unsupported_error,
)

_COMPARISONS = {
    "EQ": "=",
    "NEQ": "<>",
    "LT": "<",
    "LTE": "<=",
    "GT": ">",
    "GTE": ">=",
    "NullSafeEQ": "IS NOT DISTINCT FROM",
    "NullSafeNEQ": "IS DISTINCT FROM",
}
_ARITHMETIC: Mapping[str, Callable[[TypedSql, TypedSql], TypedSql]] = {
    "Add": arithmetic.add,
    "Sub": arithmetic.subtract,
    "Mul": arithmetic.multiply,
    "Div": arithmetic.quotient,
    "IntDiv": arithmetic.whole_quotient,
    "Mod": arithmetic.remainder,
    "DPipe": text_functions.concat,
    "BitwiseAnd": arithmetic.bitwise("&"),
    "BitwiseOr": arithmetic.bitwise("|"),
    "BitwiseXor": arithmetic.bitwise("xor"),
    "BitwiseLeftShift": python_functions.shifted_left,
    "BitwiseRightShift": python_functions.shifted_right,
}
_TYPES: Mapping[str, t.Type] = {
    "BOOLEAN": t.BOOLEAN,
    "TINYINT": t.BYTE,
    "SMALLINT": t.SHORT,
    "INT": t.INT,
    "BIGINT": t.LONG,
    "FLOAT": t.FLOAT,
    "DOUBLE": t.DOUBLE,
    "DATE": t.DATE,
    "TEXT": t.STRING,
    "BINARY": t.BINARY,
    "TIME": t.TIME,
    "TIMESTAMP": t.Timestamp(),
    "TIMESTAMPTZ": t.Timestamp(),
    "TIMESTAMPLTZ": t.Timestamp(),
    "TIMESTAMPNTZ": t.Timestamp(zoned=False),
}
BY_UNIT = ("datediff", "date_diff", "timestampdiff", "timediff")
MOVED_BY_UNIT = ("dateadd", "date_add", "timestampadd")
_MOST_SQL = 1_000_000  # characters
# Arguments that a node may have besides operands; others could change its meaning (see `expressions.sql`).
_ARGUMENTS = {
    "Between": {"low", "high"},
    "Case": {"ifs", "default"},
    "If": {"true", "false"},
    "Literal": {"is_string"},
    "Cast": {"to"},
    "TryCast": {"to", "safe"},
    "Trim": {"position"},
    "StrPosition": {"substr"},
    "DPipe": {"safe"},
    "Div": {"typed", "safe"},
    "Substring": {"start", "length"},
}
_OPERANDS = {"this", "expression", "expressions", "negate"}


def _has_instants(kind: t.Type) -> bool:
    zoned = isinstance(kind, t.Timestamp) and kind.zoned
    return zoned or any(_has_instants(each.type) for each in t.children(kind))


class Translator:
    """Translates sqlglot trees to DuckDB SQL.

    - `column`: returns the SQL of a column, given the names in the reference.
    - `values`: the values of functions without arguments, such as `current_date`, by name.
    - `has_instants`: becomes true if a translated node has values that are or contain instants.
    """

    def __init__(self, column: Callable[[tuple[str, ...]], TypedSql], values: Mapping[str, TypedSql]) -> None:
        self._column, self._values = column, values
        self.has_instants = False
        self._variables: list[lambdas.Variables] = []  # of the enclosing lambdas

    def __call__(self, node: Any) -> TypedSql:
        """Translate one node, with all nodes below it.

        Raises `UnsupportedFeature`, `InvalidFilter` for an invalid expression, and the errors of `column`.
        """
        self._check(node)
        result = self._node(node)
        if node.args.get("negate"):
            result = conditions.inverse(result)
        if len(result.sql) > _MOST_SQL:
            raise unsupported_error(f"an expression of this size (more than {_MOST_SQL:,} characters)")
        self.has_instants = self.has_instants or _has_instants(result.type)
        return result

    def _check(self, node: Any) -> None:
        name = type(node).__name__
        if name in ("Column", "Dot", "Identifier", "Interval", "Lambda"):
            return
        if name == "Alias":
            raise InvalidFilter(
                f"{node.this.sql(dialect='spark')} and {node.alias} stand side by side: join them by an operator, or "
                "put a text in single quotes, 'like this'"
            )
        given = {key for key, value in node.args.items() if value not in (None, False, [])}
        if given - _OPERANDS - _ARGUMENTS.get(name, set()):
            raise unsupported_error(f"{node.sql(dialect='spark')!r}")

    def _node(self, node: Any) -> TypedSql:
        from sqlglot import exp

        match node:
            case exp.Paren():
                return self(node.this)
            case exp.Identifier() if (value := self._variable(node.name)) is not None:
                return value
            case exp.Column() if self._variables and len(node.parts) == 1 and self._variable(node.name) is not None:
                return self._variable(node.name)  # type: ignore[return-value]
            case exp.Interval():
                return self._interval(node)
            case exp.BitwiseNot():
                return arithmetic.invert_bits(self(node.this))
            case exp.Column() | exp.Dot() if (names := names_of(node)) is not None:
                return self._column(names)
            case exp.Dot(expression=exp.Identifier()):
                return collections.member(self(node.this), node.expression.name)
            case exp.Bracket(expressions=[at]):
                return collections.element(self(node.this), self(at))
            case exp.Literal():
                return literal(node.this, t.STRING) if node.is_string else parse_number(node.this)
            case exp.HexString():
                return TypedSql(f"unhex({quote_text(node.this)})", t.BINARY)
            case exp.Boolean():
                return literal(bool(node.this), t.BOOLEAN)
            case exp.Null():
                return TypedSql("NULL", t.UNKNOWN)
            case exp.And() | exp.Or():
                return conditions.chain(type(node).__name__.upper(), [self(each) for each in _operands(node)])
            case exp.Not():
                return conditions.inverse(self(node.this))
            case exp.Neg():
                value = self(node.this)
                is_literal = isinstance(node.this, exp.Literal)
                return arithmetic.negative(value if is_literal else replace(value, literal=None))
            case exp.Anonymous() if not node.expressions and str(node.this).lower() in self._values:
                return self._values[str(node.this).lower()]
            case exp.Anonymous() if str(node.this).lower() == "struct":
                return collections.struct(
                    [(_name_of(each, n), self(each.unalias())) for n, each in enumerate(node.expressions, 1)]
                )
            case exp.Anonymous() if str(node.this).lower() == "arrays_zip" and node.expressions:
                is_named = [type(each).__name__ in ("Column", "Dot") for each in node.expressions]
                members = [
                    str(each.name) if named else str(n)
                    for n, (each, named) in enumerate(zip(node.expressions, is_named, strict=True))
                ]
                return python_functions.arrays_zip(members, [self(each) for each in node.expressions])
            case exp.Anonymous() if str(node.this).lower() in BY_UNIT and len(node.expressions) == 3:
                unit, start, end = node.expressions
                return time_functions.timestampdiff(self(start), self(end), unit.name)
            case exp.Anonymous() if str(node.this).lower() in MOVED_BY_UNIT and len(node.expressions) == 3:
                unit, count, start = node.expressions
                return time_functions.timestampadd(unit.name, self(count), self(start))
            case exp.Anonymous() if any(isinstance(each, exp.Lambda) for each in node.expressions):
                return lambdas.call(str(node.this), [self._argument(each) for each in node.expressions])
            case exp.Transform() if isinstance(node.expression, exp.Lambda):
                return lambdas.transform(self(node.this), self._lambda(node.expression))
            case exp.Anonymous():
                return call(str(node.this), [self(each) for each in node.expressions])
        return self._operator(node)

    def _argument(self, node: Any) -> TypedSql | lambdas.Lambda:
        return self._lambda(node) if type(node).__name__ == "Lambda" else self(node)

    def _lambda(self, node: Any) -> lambdas.Lambda:
        """Return a lambda node as a function's argument; in its body, its parameters hide columns of the same name."""

        def body(variables: lambdas.Variables) -> TypedSql:
            self._variables.append(variables)
            try:
                return self(node.this)
            finally:
                self._variables.pop()

        return lambdas.Lambda([each.name for each in node.expressions], body, len(self._variables))

    def _variable(self, name: str) -> TypedSql | None:
        return next((each[name.lower()] for each in reversed(self._variables) if name.lower() in each), None)

    def _interval(self, node: Any) -> TypedSql:
        from sqlglot import exp

        value, unit, sign = node.this, node.args.get("unit"), 1
        while isinstance(value, exp.Neg | exp.Paren):
            sign, value = (-sign if isinstance(value, exp.Neg) else sign), value.this
        if isinstance(unit, exp.IntervalSpan):
            if not isinstance(value, exp.Literal):
                raise unsupported_error(f"{node.sql(dialect='spark')!r}")
            first, last = (each.name.lower().removesuffix("s") for each in (unit.this, unit.expression))
            return interval_values.span_interval(value.name, first, last, sign)
        if isinstance(value, exp.Literal):
            if unit is None:
                return interval_values.parse_interval(value.name, sign)
            return interval_values.unit_interval(value.name, unit.name, sign)
        if unit is None:
            raise unsupported_error(f"{node.sql(dialect='spark')!r}")
        result = interval_values.value_interval(self(value), unit.name)
        return result if sign == 1 else interval_values.negate_interval(result)

    def _operator(self, node: Any) -> TypedSql:
        name = type(node).__name__
        if (op := _COMPARISONS.get(name)) is not None:
            if type(node.this).__name__ == type(node.expression).__name__ == "Tuple":
                return self._compare_rows(name, node)
            left, right = self._operand(node.this, name), self._operand(node.expression, name)
            has_constant = (left.pad or right.pad) and any(map(_is_constant, (node.this, node.expression)))
            return conditions.comparison(op, left, right, has_constant=bool(has_constant))
        if (apply := _ARITHMETIC.get(name)) is not None:
            return apply(self._number(node.this), self._number(node.expression))
        return self._predicate(node)

    def _number(self, node: Any) -> TypedSql:
        """Translate an operand of arithmetic.

        As in Spark, an integer with a suffix (`2L`) counts as a literal here, so that its digits determine decimal
        types.
        """
        from sqlglot import exp

        value, innermost, sign = self(node), node.unnest(), 1
        if isinstance(innermost, exp.Neg):
            innermost, sign = innermost.this, -1
        if innermost.meta.get("suffixed") and value.type in t.INTEGRAL:
            return replace(value, literal=sign * int(innermost.this.this))
        return value

    def _members(self, node: Any) -> list[Any]:
        """Return the nodes of a row `(a, b)`, or a list with the node itself for another expression."""
        from sqlglot import exp

        return list(node.expressions) if isinstance(node, exp.Tuple) else [node]

    def _compare_rows(self, name: str, node: Any) -> TypedSql:
        """Translate a comparison of rows, `(a, b) = (1, 2)`, member by member, as Spark compares structs.

        `name` is the node's class. Raises `InvalidFilter` for rows of different lengths.
        """
        lefts, rights = (self._members(each) for each in (node.this, node.expression))
        if len(lefts) != len(rights):
            raise InvalidFilter(f"{node.sql(dialect='spark')} compares {len(lefts)} values with {len(rights)}")
        pairs = [(self(one), self(other)) for one, other in zip(lefts, rights, strict=True)]
        return conditions.compare_rows(_COMPARISONS[name], pairs)

    def _operand(self, node: Any, comparison: str) -> TypedSql:
        """Translate an operand of the comparison `comparison`, a node's class.

        Raises `UnsupportedFeature` for an operand that is a condition without parentheses, because Spark would group it
        differently: in Spark, all comparisons bind alike, tests such as IN, LIKE and IS bind less tightly, and NOT (or
        `!`) binds least.
        """
        from sqlglot import exp

        # sqlglot puts the operands of <=> and IS DISTINCT FROM in parentheses.
        operand = node.unnest() if comparison in ("NullSafeEQ", "NullSafeNEQ") else node
        if isinstance(operand, exp.Not | exp.Predicate | exp.Escape):
            raise unsupported_error(f"a condition as an operand of {comparison}, maybe without parentheses,")
        return self(node)

    def _predicate(self, node: Any) -> TypedSql:
        from sqlglot import exp

        match node:
            case exp.Is():
                return self._is(node)
            case exp.In() if node.expressions and isinstance(node.this, exp.Tuple):
                return self._rows_in(node)
            case exp.In() if node.expressions:
                return conditions.is_in(self(node.this), [self(each) for each in node.expressions])
            case exp.Between():
                low, high = self(node.args["low"]), self(node.args["high"])
                return conditions.between(self(node.this), low, high)
            case exp.Like() | exp.ILike():
                return self._like(node, "\\")
            case exp.Escape(this=exp.Like() | exp.ILike()) if len(str(node.expression.name)) == 1:
                self._check(node.this)
                like = self._like(node.this, node.expression.name)
                return conditions.inverse(like) if node.this.args.get("negate") else like
        return self._call(node)

    def _like(self, node: Any, escape: str) -> TypedSql:
        """Translate LIKE or ILIKE with one pattern, or with ANY, SOME or ALL of several patterns."""
        from sqlglot import exp

        test = text_functions.like if isinstance(node, exp.Like) else text_functions.ilike
        text, pattern = self(node.this), node.expression
        if not isinstance(pattern, exp.Any | exp.All):
            return test(text, self(pattern), escape)
        inner = pattern.this.unnest()
        tests = [test(text, self(each), escape) for each in self._members(inner)]
        is_all = isinstance(pattern, exp.All)
        if not node.args.get("negate"):
            return conditions.chain("AND" if is_all else "OR", tests)
        # NOT LIKE ALL negates each pattern's test. `negate` inverts this result again, so the operators are swapped.
        return conditions.chain("OR" if is_all else "AND", tests)

    def _rows_in(self, node: Any) -> TypedSql:
        lefts = [self(each) for each in node.this.expressions]
        tests = []
        for each in node.expressions:
            rights = [self(one) for one in self._members(each)]
            if len(rights) != len(lefts):
                raise InvalidFilter(f"{node.sql(dialect='spark')} compares {len(lefts)} values with {len(rights)}")
            tests.append(conditions.compare_rows("=", list(zip(lefts, rights, strict=True))))
        return conditions.chain("OR", tests)

    def _is(self, node: Any) -> TypedSql:
        from sqlglot import exp

        match node.expression:
            case exp.Null():
                return conditions.is_null(self(node.this))
            case exp.Boolean():
                return conditions.is_truth(self(node.this), bool(node.expression.this))
        raise unsupported_error(f"{node.sql(dialect='spark')!r}")

    def _call(self, node: Any) -> TypedSql:
        """Translate CASE, IF, casts and calls with a special syntax; raises `UnsupportedFeature` for other nodes."""
        from sqlglot import exp

        match node:
            case exp.Case():
                return self._case(node)
            case exp.If():
                other = node.args.get("false")
                return conditions.choice(
                    [self(node.this)], [self(node.args["true"])], None if other is None else self(other)
                )
            case exp.Cast() | exp.TryCast():
                return self._cast(node)
            case exp.Extract():
                return time_functions.extract(node.this.name, self(node.expression))
            case exp.Substring():
                size = node.args.get("length")
                given = [self(node.this), self(node.args["start"]), *([] if size is None else [self(size)])]
                return call("substring", given)
            case exp.Trim():
                position = str(node.args.get("position") or "").upper()
                name = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(position, "trim")
                operands = [node.this] if node.expression is None else [node.this, node.expression]
                return text_functions.trim_text(name)(*(self(each) for each in operands))
            case exp.StrPosition():
                return call("instr", [self(node.this), self(node.args["substr"])])
            case exp.RegexpLike():
                return call("rlike", [self(node.this), self(node.expression)])
        raise unsupported_error(f"{node.sql(dialect='spark')!r}")

    def _case(self, node: Any) -> TypedSql:
        tests = [self(each.this) for each in node.args["ifs"]]
        if node.this is not None:
            subject = self(node.this)
            tests = [conditions.comparison("=", subject, each) for each in tests]
        default = node.args.get("default")
        results = [self(each.args["true"]) for each in node.args["ifs"]]
        return conditions.choice(tests, results, None if default is None else self(default))

    def _cast(self, node: Any) -> TypedSql:
        value, kind = replace(self(node.this), pad=0), type_of(node.args["to"])
        if node.args.get("safe"):
            return try_cast(value, kind)
        return cast(value, kind)


def type_of(node: Any) -> t.Type:
    """Return the column type for a sqlglot type node; raises `UnsupportedFeature` for types not supported here."""
    if node.this.name in ("ARRAY", "LIST", "MAP", "STRUCT"):
        return _nested_type(node)
    texts = [each.name for each in node.expressions]
    if not all(each.isdecimal() for each in texts):
        raise unsupported_error(f"the type {node.sql(dialect='spark')}")
    name, parameters = node.this.name, [int(each) for each in texts]
    if name == "DECIMAL" and len(parameters) <= 2:
        precision, scale = (*parameters, *(10, 0)[len(parameters) :])
        if 0 <= scale <= precision <= MOST_DIGITS:
            return t.Decimal(precision, scale)
    elif name in _TYPES and not parameters:
        return _TYPES[name]
    raise unsupported_error(f"the type {node.sql(dialect='spark')}")


def type_of_text(text: str) -> t.Type:
    """Return the column type for a text such as `STRUCT<a: INT>`, or a struct for a list of columns, `a INT, b DOUBLE`.

    Raises `UnsupportedFeature` for other text.
    """
    for form in (text, f"STRUCT<{text}>"):
        try:
            return type_of(parse_expression(f"CAST(NULL AS {form})").args["to"])
        except (InvalidFilter, UnsupportedFeature, KeyError):
            continue
    raise unsupported_error(f"the schema {text!r}")


def _nested_type(node: Any) -> t.Type:
    from sqlglot import exp

    inner, name = node.expressions, node.this.name
    if name == "STRUCT" and inner and all(isinstance(each, exp.ColumnDef) and not each.constraints for each in inner):
        names = [each.name for each in inner]
        if all(each.kind is not None for each in inner) and len(set(names)) == len(names):
            return t.Struct(tuple(t.Field(0, each.name, type_of(each.kind)) for each in inner))
    elif all(isinstance(each, exp.DataType) for each in inner):
        if name in ("ARRAY", "LIST") and len(inner) == 1:
            return list_of(type_of(inner[0]))
        if name == "MAP" and len(inner) == 2:
            return t.MapOf(t.Field(0, "key", type_of(inner[0])), t.Field(0, "value", type_of(inner[1])))
    raise unsupported_error(f"the type {node.sql(dialect='spark')}")


def _name_of(node: Any, place: int) -> str:
    """Return the name of a member of `struct(...)`: its alias, the column's name, or `col` and its number `place`."""
    return str(node.alias_or_name) if type(node).__name__ in ("Alias", "Column", "Dot") else f"col{place}"


def _is_constant(node: Any) -> bool:
    """Return whether a sqlglot tree contains no columns, queries or window functions."""
    from sqlglot import exp

    return node.find(exp.Column, exp.Query, exp.Window) is None


def _operands(node: Any) -> list[Any]:
    """Return the operand nodes of a chain of AND (or of OR) nodes as a flat list, in order."""
    result, pending = [], [node]
    while pending:
        each = pending.pop()
        if type(each) is type(node):
            pending += [each.expression, each.this]
        else:
            result.append(each)
    return result
