"""Name unnamed result columns as Spark does: by the text of their expressions (`toPrettySQL` of its analyzer)."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from lakescan.common import types as t
from lakescan.common.java_numbers import double_text, float_text
from lakescan.errors import LakescanError

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
    "BitwiseLeftShift": "<<",
    "BitwiseRightShift": ">>",
}
_OPPOSITES = {"NEQ": "=", "NullSafeNEQ": "<=>"}
# Functions whose names Spark changes to upper case or to another name.
_UPPER = """
acos acosh asin asinh atan atan2 atanh cbrt cos cosh cot csc degrees dense_rank e exp expm1 hypot log10 log1p log2
percent_rank pi power radians rank regexp regexp_like rlike sec signum sin sinh sqrt tan tanh
"""
_SHOWN = {name: name.upper() for name in _UPPER.split()}
_SHOWN |= {"array_agg": "collect_list", "current_database": "current_schema", "dateadd": "date_add"}
# Default arguments that Spark adds, by function and number of arguments in the call.
_ADDED = {
    ("approx_percentile", 2): "10000",
    ("bround", 1): "0",
    ("from_unixtime", 1): "yyyy-MM-dd HH:mm:ss",
    ("lag", 1): "1, NULL",
    ("lag", 2): "NULL",
    ("lead", 1): "1, NULL",
    ("lead", 2): "NULL",
    ("listagg", 1): "NULL",
    ("locate", 2): "1",
    ("lpad", 2): " ",
    ("months_between", 2): "true",
    ("ntile", 0): "1",
    ("percentile", 2): "1",
    ("percentile_approx", 2): "10000",
    ("position", 2): "1",
    ("regexp_extract", 2): "1",
    ("regexp_replace", 3): "1",
    ("replace", 2): "",
    ("round", 1): "0",
    ("rpad", 2): " ",
    ("sort_array", 1): "true",
    ("split", 2): "-1",
    ("str_to_map", 1): ",, :",
    ("substr", 2): "2147483647",
    ("substring", 2): "2147483647",
    ("to_unix_timestamp", 1): "yyyy-MM-dd HH:mm:ss",
    ("unix_timestamp", 0): "current_timestamp(), yyyy-MM-dd HH:mm:ss",
    ("unix_timestamp", 1): "yyyy-MM-dd HH:mm:ss",
}
_CASTS = frozenset(
    ("bigint", "binary", "boolean", "date", "decimal", "double", "float", "int", "smallint", "string", "timestamp")
) | {"tinyint"}
_IGNORING_NULLS = ("any_value", "first", "first_value", "last", "last_value")
_RANKS = ("dense_rank", "ntile", "percent_rank", "rank", "row_number")
_WITHOUT_PARENTHESES = ("current_date", "current_timestamp", "current_user", "localtimestamp", "user")
_LITERALS = {"BIGINT": "L", "SMALLINT": "S", "TINYINT": "Y", "DOUBLE": "D", "FLOAT": "F", "DECIMAL": "BD"}
_UNITS = ("YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND")
_PARTS = {"WEEK": ("DAY", 7)}
_DATE = re.compile(r"(\d{4,6})(?:-(\d{1,2})(?:-(\d{1,2}))?)?")
_TIME = re.compile(r"(?:[ T](\d{1,2}):(\d{1,2})(?::(\d{1,2})(\.\d{1,6})?)?)?Z?")
_ARRAY_SORT = (
    "lambdafunction((IF(((namedlambdavariable() IS NULL) AND (namedlambdavariable() IS NULL)), 0, "
    "(IF((namedlambdavariable() IS NULL), 1, (IF((namedlambdavariable() IS NULL), -1, "
    "(IF((namedlambdavariable() < namedlambdavariable()), -1, (IF((namedlambdavariable() > namedlambdavariable()), 1, "
    "0)))))))))), namedlambdavariable(), namedlambdavariable())"
)


@dataclass(frozen=True)
class Naming:
    """Names the result columns of one SELECT as Spark does.

    - `text`: the statement, needed to distinguish a number with a suffix (`1L`) from a cast.
    - `own_path`: removes the table's name from the parts of a column's name (table, column, struct members).
    - `type_of`: returns the type of an expression, or None if it is unknown.
    - `outer_names`: returns the columns of this SELECT that a subquery reads.
    - `parameter`: returns the text of the value of a named parameter, or None if it is not a literal.
    - `windows`: the nodes of the WINDOW clause, by name in lower case.
    """

    text: str
    own_path: Callable[[tuple[str, ...]], tuple[str, ...]]
    type_of: Callable[[Any], t.Type | None]
    outer_names: Callable[[Any], Sequence[str]]
    parameter: Callable[[str], str | None]
    windows: dict[str, Any]

    def name_of(self, node: Any) -> str:
        """Return the name of a result column.

        This is its alias, or the name of the column or struct member that it selects (also in a cast), or else the text
        of its expression.
        """
        from sqlglot import exp

        node = _unwrap(node)
        match node:
            case exp.Alias():
                return str(node.alias)
            case exp.Column():
                return _niladic_call(node) or str(node.parts[-1].name)
            case exp.Dot() if isinstance(node.this, exp.Column | exp.Dot) and hasattr(node, "parts"):
                if all(isinstance(each, exp.Identifier) for each in node.parts):
                    return str(node.parts[-1].name)
            case exp.Cast() if not self._is_literal(node):
                inner = _unwrap(node.this)
                is_column = isinstance(inner, exp.Column) and not _niladic_call(inner)
                if is_column and len(self._path(inner)) == 1:
                    return str(inner.parts[-1].name)
        return self.pretty_sql(node)

    def pretty_sql(self, node: Any) -> str:
        """Return an expression as Spark prints it inside another one.

        Expressions without a rule here are printed by sqlglot.
        """
        from sqlglot import exp

        node = _unwrap(node)
        kind = type(node).__name__
        if node.args.get("negate"):
            plain = node.copy()
            plain.set("negate", None)
            plain.parent = node.parent
            return f"(NOT {self.pretty_sql(plain)})"
        if kind in _OPERATORS:
            return self._operation(node, _OPERATORS[kind])
        if kind in _OPPOSITES:
            return f"(NOT ({self.pretty_sql(node.this)} {_OPPOSITES[kind]} {self.pretty_sql(node.expression)}))"
        if isinstance(node, exp.Cast):
            return self._cast(node)
        for find in (self._value, self._condition, self._call):
            if (found := find(node)) is not None:
                return found
        text: str = node.sql("spark", normalize_functions="lower", comments=False)
        return text

    def _pretty_list(self, nodes: Sequence[Any]) -> str:
        return ", ".join(map(self.pretty_sql, nodes))

    # Values

    def _value(self, node: Any) -> str | None:
        from sqlglot import exp

        match node:
            case exp.Column():
                return _niladic_call(node) or self._column(self._path(node))
            case exp.Identifier():  # a variable of a lambda function
                return "namedlambdavariable()"
            case exp.Literal():
                return str(node.this) if node.is_string else _number(str(node.this))
            case exp.Concat() if all(isinstance(each, exp.Literal) for each in node.expressions):
                return "".join(str(each.this) for each in node.expressions)  # adjacent literals
            case exp.Boolean():
                return str(bool(node.this)).lower()
            case exp.Null():
                return "NULL"
            case exp.HexString():
                return f"X'{str(node.this).upper()}'"
            case exp.Star():
                return "1"
            case exp.Neg():
                is_number = isinstance(node.this, exp.Literal) or self._is_literal(node.this)
                return f"-{self.pretty_sql(node.this)}" if is_number else f"(- {self.pretty_sql(node.this)})"
            case exp.BitwiseNot():
                return f"~{self.pretty_sql(node.this)}"
            case exp.DPipe():
                return f"concat({self.pretty_sql(node.this)}, {self.pretty_sql(node.expression)})"
            case exp.Bracket(expressions=[at]):
                is_member = isinstance(self.type_of(node.this), t.Struct)
                return f"{self.pretty_sql(node.this)}{f'.{at.name}' if is_member else f'[{self.pretty_sql(at)}]'}"
            case exp.Dot():
                return f"{self.pretty_sql(node.this)}.{node.expression.name}"
            case exp.Interval():
                return _interval(node)
            case exp.Placeholder():
                return self.parameter(node.name)
            case exp.Tuple():
                members = ", ".join(f"{name}, {self.pretty_sql(each)}" for name, each in _members(node))
                return f"named_struct({members})"
            case exp.Alias():
                return f"{self.pretty_sql(node.this)} AS {node.alias}"
        return None

    def _path(self, node: Any) -> tuple[str, ...]:
        return self.own_path(tuple(part.name for part in node.parts))

    def _column(self, path: tuple[str, ...]) -> str:
        """Return the text of a column and the struct members after it, such as `a.b`.

        The key of a map is in brackets: `a[b]`.
        """
        from sqlglot import exp

        text = path[0]
        for n, name in enumerate(path[1:], 1):
            column = exp.Column(this=exp.to_identifier(path[0], quoted=True))
            parts = [exp.to_identifier(each, quoted=True) for each in path[1:n]]
            within = self.type_of(exp.Dot.build([column, *parts]) if parts else column)
            text += f"[{name}]" if isinstance(within, t.MapOf) else f".{name}"
        return text

    def _operation(self, node: Any, word: str) -> str:
        from sqlglot import exp

        left, right = node.this, node.expression
        if isinstance(node, exp.Add | exp.Sub) and (moved := self._date_arithmetic(node)) is not None:
            return moved
        return f"({self.pretty_sql(left)} {word} {self.pretty_sql(right)})"

    def _date_arithmetic(self, node: Any) -> str | None:
        """Return Spark's text of a date or timestamp plus or minus days or an interval, such as `date_add(d, 1)`.

        Returns None for other arithmetic.
        """
        from sqlglot import exp

        left, right = _unwrap(node.this), _unwrap(node.expression)
        word = "-" if isinstance(node, exp.Sub) else "+"
        if isinstance(left, exp.Interval) and isinstance(right, exp.Interval):
            return None
        is_behind = word == "+" and (isinstance(left, exp.Interval) or self._is_time(right))
        value, by = (right, left) if is_behind else (left, right)
        if isinstance(by, exp.Interval):
            if _interval(by).endswith("' DAY") and self.type_of(value) == t.DATE:
                days = f"extractansiintervaldays({self.pretty_sql(by)})"
                return f"date_add({self.pretty_sql(value)}, {days if word == '+' else f'(- {days})'})"
            return f"{self.pretty_sql(value)} {word} {self.pretty_sql(by)}"
        if self.type_of(value) == t.DATE and not self._is_time(by):
            return f"date_{'add' if word == '+' else 'sub'}({self.pretty_sql(value)}, {self.pretty_sql(by)})"
        return None

    def _is_time(self, node: Any) -> bool:
        kind = self.type_of(node)
        return kind == t.DATE or isinstance(kind, t.Timestamp)

    def _is_literal(self, node: Any) -> bool:
        """Return whether a cast is a number with a suffix (`1L`) in the statement, which sqlglot parses to a cast."""
        from sqlglot import exp

        if not isinstance(node, exp.Cast) or not isinstance(node.this, exp.Literal) or node.args.get("safe"):
            return False
        suffix = _LITERALS.get(node.args["to"].this.name)
        number = re.escape(str(node.this.this))
        return suffix is not None and re.search(rf"(?<![\w.']){number}{suffix}\b", self.text, re.IGNORECASE) is not None

    def _cast(self, node: Any) -> str:
        from sqlglot import exp

        kind = node.args["to"]
        if self._is_literal(node):
            return _typed_number(str(node.this.this), kind.this.name)
        if type(node) is exp.Cast and isinstance(node.this, exp.Literal) and node.this.is_string:
            return _time_literal(str(node.this.this), kind)  # DATE '...', TIMESTAMP '...'
        if kind.this.name in ("ARRAY", "LIST", "MAP", "STRUCT"):
            return self.pretty_sql(node.this)
        word = "TRY_CAST" if node.args.get("safe") else "CAST"
        return f"{word}({self.pretty_sql(node.this)} AS {_type(kind)})"

    # Conditions

    def _condition(self, node: Any) -> str | None:
        from sqlglot import exp

        match node:
            case exp.Not(this=exp.Is(expression=exp.Null()) as test):
                return f"({self.pretty_sql(test.this)} IS NOT NULL)"
            case exp.Not():
                return f"(NOT {self.pretty_sql(node.this)})"
            case exp.Is(expression=exp.Null()):
                return f"({self.pretty_sql(node.this)} IS NULL)"
            case exp.Is(expression=exp.Boolean()):
                return f"({self.pretty_sql(node.this)} <=> {self.pretty_sql(node.expression)})"
            case exp.In() if (query := node.args.get("query")) is not None:
                return f"({self._subject(node.this)} IN (listquery({self._outer(query)})))"
            case exp.In():
                return f"({self.pretty_sql(node.this)} IN ({self._pretty_list(node.expressions)}))"
            case exp.Between():
                return f"between({self._pretty_list([node.this, node.args['low'], node.args['high']])})"
            case exp.Like(expression=exp.Any() | exp.All() as words):
                return f"like{type(words).__name__.lower()}({self.pretty_sql(node.this)})"
            case exp.Like():
                return f"{self.pretty_sql(node.this)} LIKE {self.pretty_sql(node.expression)}"
            case exp.ILike():
                return f"ilike({self._pretty_list([node.this, node.expression])})"
            case exp.RegexpLike():
                return f"RLIKE({self._pretty_list([node.this, node.expression])})"
            case exp.Escape():
                return f"{self.pretty_sql(node.this)} ESCAPE '{node.expression.name}'"
            case exp.Exists():
                return f"exists({self._outer(node.this)})"
            case exp.Subquery():
                return f"scalarsubquery({self._outer(node)})"
            case exp.Case():
                return self._case(node)
        return None

    def _subject(self, node: Any) -> str:
        from sqlglot import exp

        if not isinstance(node, exp.Tuple):
            return self.pretty_sql(node)
        members = ", ".join(f"'{name}', {self.pretty_sql(each)}" for name, each in _members(node))
        return f"named_struct({members})"

    def _outer(self, query: Any) -> str:
        return ", ".join(self.outer_names(query))

    def _case(self, node: Any) -> str:
        subject = "" if node.this is None else self.pretty_sql(node.this)
        parts = []
        for each in node.args["ifs"]:
            test = f"({subject} = {self.pretty_sql(each.this)})" if subject else self.pretty_sql(each.this)
            parts.append(f"WHEN {test} THEN {self.pretty_sql(each.args['true'])}")
        default = node.args.get("default")
        if default is not None:
            parts.append(f"ELSE {self.pretty_sql(default)}")
        return f"CASE {' '.join(parts)} END"

    # Calls

    def _call(self, node: Any) -> str | None:
        from sqlglot import exp

        match node:
            case exp.Anonymous():
                return self._function(str(node.this).lower(), list(node.expressions))
            case exp.Transform():
                return self._function("transform", [node.this, node.expression])
            case exp.If():
                return self._function("if", [node.this, node.args["true"], node.args.get("false") or exp.Null()])
            case exp.Lambda():
                variables = ", ".join("namedlambdavariable()" for _ in node.expressions)
                return f"lambdafunction({self.pretty_sql(node.this)}, {variables})"
            case exp.Extract():
                name = node.this.name  # in upper case, while Spark keeps the case of the statement
                written = re.search(rf"\bextract\s*\(\s*({re.escape(name)})\b", self.text, re.IGNORECASE)
                return f"extract({name if written is None else written[1]} FROM {self.pretty_sql(node.expression)})"
            case exp.Trim():
                position = str(node.args.get("position") or "").upper()
                if node.expression is not None:
                    letters, text = self.pretty_sql(node.expression), self.pretty_sql(node.this)
                    return f"TRIM({position or 'BOTH'} {letters} FROM {text})"
                name = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(position, "trim")
                return f"{name}({self.pretty_sql(node.this)})"
            case exp.StrPosition():
                has_in = re.search(r"\bposition\s*\([^,]*\sin\s", self.text, re.IGNORECASE) is not None
                return self._function("locate" if has_in else "position", [node.args["substr"], node.this])
            case exp.Substring():
                size = node.args.get("length")
                return self._function("substring", [node.this, node.args["start"], *([] if size is None else [size])])
            case exp.IgnoreNulls() | exp.RespectNulls():
                return self._with_nulls(node)
            case exp.Filter():
                return f"{self.pretty_sql(node.this)} FILTER (WHERE {self.pretty_sql(node.expression.this)})"
            case exp.WithinGroup():
                is_listed = str(node.this.this).lower() in ("listagg", "string_agg")
                keys = ", ".join(self._key(each, is_listed) for each in node.expression.expressions)
                return f"{self.pretty_sql(node.this)} WITHIN GROUP (ORDER BY {keys})"
            case exp.Window():
                return self._window(node)
        return None

    def _function(self, name: str, args: list[Any]) -> str:
        from sqlglot import exp

        distinct = ""
        if args and isinstance(args[0], exp.Distinct):
            distinct, args = "DISTINCT ", list(args[0].expressions)
        match name, args:
            case "positive", [each]:
                return f"(+ {self.pretty_sql(each)})"
            case "if", [test, one, other]:
                return f"(IF({self._pretty_list([test, one, other])}))"
            case "isnull", [each]:
                return f"({self.pretty_sql(each)} IS NULL)"
            case "isnotnull", [each]:
                return f"({self.pretty_sql(each)} IS NOT NULL)"
            case "like", [each, pattern]:
                return f"{self.pretty_sql(each)} LIKE {self.pretty_sql(pattern)}"
            case "log", _:
                return f"LOG({', '.join([*(['E()'] if len(args) == 1 else []), *map(self.pretty_sql, args)])})"
            case "ceil" | "floor", [each]:
                return f"{name.upper()}({self.pretty_sql(each)})"
            case "ltrim" | "rtrim" | "trim", [word, each]:
                place = {"ltrim": "LEADING", "rtrim": "TRAILING"}.get(name, "BOTH")
                return f"TRIM({place} {self.pretty_sql(word)} FROM {self.pretty_sql(each)})"
            case "array_sort", [each]:
                return f"array_sort({self.pretty_sql(each)}, {_ARRAY_SORT})"
            case "from_json", [each, *_]:
                return f"from_json({self.pretty_sql(each)})"
            case "dateadd" | "date_add" | "timestampadd", [unit, number, each]:
                return f"timestampadd({unit.name.upper()}, {self._pretty_list([number, each])})"
            case "datediff" | "date_diff" | "timestampdiff" | "timediff", [unit, one, other]:
                return f"timestampdiff({unit.name.upper()}, {self._pretty_list([one, other])})"
            case (("aggregate" | "reduce"), [_, _, _]):
                finish = "lambdafunction(namedlambdavariable(), namedlambdavariable())"
                return f"{name}({self._pretty_list(args)}, {finish})"
            case _, [each] if name in _CASTS:
                return self.pretty_sql(each)
        if name in _IGNORING_NULLS:
            args = args[:1]
        parts = list(map(self.pretty_sql, args))
        if (added := _ADDED.get((name, len(args)))) is not None:
            parts.append(added)
        return f"{_SHOWN.get(name, name)}({distinct}{', '.join(parts)})"

    def _with_nulls(self, node: Any) -> str:
        from sqlglot import exp

        called = node.this
        text = self.pretty_sql(called)
        if isinstance(node, exp.RespectNulls):
            return text
        for name in ("first", "last"):
            text = re.sub(rf"\A{name}_value\(", f"{name}(", text)
        return f"{text} ignore nulls" if text.startswith("nth_value(") else text

    # Windows

    def _window(self, node: Any) -> str:
        called = node.this
        alias = node.args.get("alias")
        of = node if alias is None else self.windows.get(alias.name.lower(), node)
        while type(called).__name__ in ("IgnoreNulls", "RespectNulls", "Filter"):
            called = called.this
        name = str(getattr(called, "this", "")).lower()
        partition = of.args.get("partition_by") or ()
        order = of.args.get("order")
        parts = []
        if partition:
            parts.append(f"PARTITION BY {self._pretty_list(partition)}")
        if order is not None:
            parts.append(f"ORDER BY {', '.join(self._key(each, True) for each in order.expressions)}")
        parts.append(self._frame(name, called, of.args.get("spec"), order is not None))
        return f"{self.pretty_sql(node.this)} OVER ({' '.join(parts)})"

    def _key(self, node: Any, is_whole: bool) -> str:
        text = self.pretty_sql(node.this)
        is_descending = bool(node.args.get("desc"))
        if not is_whole:
            return f"{text} DESC" if is_descending else text
        nulls = "FIRST" if node.args.get("nulls_first") else "LAST"
        return f"{text} {'DESC' if is_descending else 'ASC'} NULLS {nulls}"

    def _frame(self, name: str, called: Any, spec: Any, is_ordered: bool) -> str:
        if name in ("lag", "lead"):
            offset = self.pretty_sql(called.expressions[1]) if len(called.expressions) > 1 else "1"
            if name == "lag":
                offset = offset[1:] if offset.startswith("-") else f"-{offset}"
            return f"ROWS BETWEEN {offset} FOLLOWING AND {offset} FOLLOWING"
        if name in _RANKS:
            return "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"
        if spec is None:
            last = "CURRENT ROW" if is_ordered else "UNBOUNDED FOLLOWING"
            return f"{'RANGE' if is_ordered else 'ROWS'} BETWEEN UNBOUNDED PRECEDING AND {last}"
        first = self._bound(spec.args["start"], spec.args.get("start_side"))
        end = spec.args.get("end")
        last = "CURRENT ROW" if end is None else self._bound(end, spec.args.get("end_side"))
        return f"{str(spec.args['kind']).upper()} BETWEEN {first} AND {last}"

    def _bound(self, bound: Any, side: Any) -> str:
        if isinstance(bound, str):
            return f"UNBOUNDED {str(side).upper()}" if bound.upper() == "UNBOUNDED" else bound.upper()
        return f"{self.pretty_sql(bound)} {str(side).upper()}"


def _unwrap(node: Any) -> Any:
    """Remove the parentheses around an expression."""
    from sqlglot import exp

    while isinstance(node, exp.Paren):
        node = node.this
    return node


def _niladic_call(node: Any) -> str | None:
    name = node.name.lower()
    return f"{name}()" if name in _WITHOUT_PARENTHESES and len(node.parts) == 1 else None


def _members(node: Any) -> list[tuple[str, Any]]:
    """Return the names and expressions of the members of the struct `(a, b)`. Unnamed members are col1, col2, ..."""
    from sqlglot import exp

    return [
        (each.name if isinstance(each, exp.Column) else f"col{n}", each) for n, each in enumerate(node.expressions, 1)
    ]


def _number(text: str) -> str:
    """Return a number literal without a suffix as Spark prints its value: `007` as `7`, `1e3` as `1000.0`."""
    if text.isdecimal():
        return str(int(text))
    if "e" in text.lower():
        return double_text(float(text))
    return f"{Decimal(text):f}"


def _typed_number(text: str, kind: str) -> str:
    match kind:
        case "DOUBLE":
            return double_text(float(text))
        case "FLOAT":
            return float_text(float(text))
        case "DECIMAL":
            return f"{Decimal(text):f}"
    return str(int(text))


def _type(node: Any) -> str:
    """Return the type of a cast as Spark prints it, such as `DECIMAL(10,2)`. CHAR(n) and VARCHAR(n) are `STRING`."""
    from lakescan.expressions.scalar.translate import type_of
    from lakescan.statements.syntax.types import type_text

    try:
        return re.sub(r"(DECIMAL\(\d+), ", r"\1,", type_text(type_of(node)))
    except LakescanError:
        is_text = node.this.name in ("VARCHAR", "CHAR")
        return "STRING" if is_text else str(node.sql("spark"))


def _time_literal(text: str, kind: Any) -> str:
    """Return a date or timestamp literal as Spark prints it, such as `DATE '2026-01-01'` for the text `2026-1`.

    `kind` is the sqlglot node of the type. A text in another format is printed unchanged.
    """
    word = {"DATE": "DATE", "TIMESTAMPNTZ": "TIMESTAMP_NTZ"}.get(kind.this.name, "TIMESTAMP")
    day = _DATE.match(text.strip())
    time = _TIME.fullmatch(text.strip()[day.end() :]) if day else None
    if day is None or time is None:
        return f"{word} '{text}'"
    shown = f"{day[1]}-{int(day[2] or 1):02}-{int(day[3] or 1):02}"
    if word != "DATE":
        hour, minute, second = (int(each or 0) for each in time.groups()[:3])
        shown += f" {hour:02}:{minute:02}:{second:02}{(time[4] or '').rstrip('0').rstrip('.')}"
    return f"{word} '{shown}'"


def _interval(node: Any) -> str:
    """Return an interval as Spark prints it, such as `INTERVAL '02' HOUR`. Weeks become days, milliseconds seconds."""
    unit = node.args.get("unit")
    text = str(node.this.name).strip() if node.this is not None else ""
    if type(unit).__name__ == "IntervalSpan":
        return f"INTERVAL '{text}' {unit.this.name.upper()} TO {unit.expression.name.upper()}"
    name = "" if unit is None else unit.name.upper().removesuffix("S")
    sign = "-" if text.startswith("-") else ""
    digits = text.lstrip("+-")
    try:
        number = Decimal(digits)
    except ArithmeticError:
        return str(node.sql("spark"))
    if name in ("MILLISECOND", "MICROSECOND"):
        number, name = number / (1000 if name == "MILLISECOND" else 1_000_000), "SECOND"
    name, factor = _PARTS.get(name, (name, 1))
    if name not in _UNITS:
        return str(node.sql("spark"))
    number *= factor
    whole, _, fraction = f"{number.normalize():f}".partition(".")
    width = 2 if name in ("HOUR", "MINUTE", "SECOND") else 1
    return f"INTERVAL '{sign}{whole.zfill(width)}{f'.{fraction}' if fraction else ''}' {name}"
