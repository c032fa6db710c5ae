"""Parsing of Spark SQL expressions. Functions keep their names and arguments: sqlglot's rewrites of them are off."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from typing import Any

from lakescan.errors import InvalidFilter, missing_dependency

# Calls whose arguments have a special syntax.
_SPECIAL = ("CAST", "EXTRACT", "POSITION", "SUBSTRING", "TRIM", "TRY_CAST")

SUFFIXES = ("L", "S", "Y")  # of integer literals


def parse_expression(text: str) -> Any:
    """Parse a Spark SQL expression to a sqlglot tree whose function calls keep their names and arguments.

    Raises `InvalidFilter` for text that does not parse.
    """
    sqlglot = _library()
    try:
        return sqlglot.parse_one(escape_doubled_quotes(text), into=sqlglot.exp.Condition, dialect=_dialect())
    except (sqlglot.errors.SqlglotError, RecursionError) as error:
        raise InvalidFilter(f"cannot parse the SQL expression {text!r}: {error}") from error


def parse_query(text: str) -> Any:
    """Parse a Spark SQL query to a sqlglot tree whose function calls keep their names and arguments.

    Raises `InvalidFilter` for text that does not parse.
    """
    sqlglot = _library()
    try:
        tree = sqlglot.parse_one(escape_doubled_quotes(text), dialect=_dialect())
    except (sqlglot.errors.SqlglotError, RecursionError) as error:
        raise InvalidFilter(f"cannot parse {text!r}: {error}") from error
    exp = sqlglot.exp
    for node in list(tree.find_all(exp.Any)):  # without a query or list, it is the aggregate function
        if not isinstance(node.this, exp.Query | exp.Tuple):
            node.replace(exp.Anonymous(this="any", expressions=[node.this.unnest()]))
    return tree


def tokens_of(text: str) -> list[Any]:
    """Split an expression into sqlglot tokens; raises `InvalidFilter` for empty or invalid text."""
    sqlglot = _library()
    try:
        tokens: list[Any] = _dialect()().tokenize(text)
    except sqlglot.errors.SqlglotError as error:
        raise InvalidFilter(f"cannot parse the SQL expression {text!r}: {error}") from error
    if not tokens:
        raise InvalidFilter(f"the SQL expression {text!r} is empty")
    return tokens


def names_of(node: Any) -> tuple[str, ...] | None:
    """Return the names in a reference to a column or nested field (`a.b.c`); None for other nodes.

    Members of other expressions, such as `get(points, 0).x`, also return None.
    """
    from sqlglot import exp

    innermost = node
    while isinstance(innermost, exp.Dot):
        innermost = innermost.this
    if not isinstance(innermost, exp.Column) or not all(isinstance(each, exp.Identifier) for each in node.parts):
        return None
    return tuple(each.name for each in node.parts)


def _library() -> Any:
    try:
        import sqlglot
    except ImportError as error:
        raise missing_dependency("sqlglot", "sql", "an SQL expression") from error
    return sqlglot


@cache
def _dialect() -> Any:
    """Return a subclass of sqlglot's Spark dialect that parses function calls without rewriting them.

    sqlglot's own trees for functions differ between its versions.
    """
    from sqlglot import exp
    from sqlglot.dialects.spark import Spark
    from sqlglot.tokens import TokenType

    unary = Spark.Parser.UNARY_PARSERS
    plus = unary[TokenType.PLUS]  # drops the operator, which converts strings to numbers

    def positive(parser: Any) -> Any:
        return exp.Anonymous(this="positive", expressions=[plus(parser)])

    operators = Spark.Parser.COLUMN_OPERATORS
    converted = operators[TokenType.DCOLON]

    def parse_suffix(parser: Any, this: Any, to: Any) -> Any:
        """Mark a number with a suffix (`2L`), which sqlglot parses like `2::BIGINT`."""
        is_suffix = parser._prev.text.upper() in SUFFIXES and isinstance(this, exp.Literal)
        node = converted(parser, this, to)
        if is_suffix:
            node.meta["suffixed"] = True
        return node

    parsers = {name: parse for name, parse in Spark.Parser.FUNCTION_PARSERS.items() if name in _SPECIAL}
    members: dict[str, Any] = {"FUNCTIONS": {}, "FUNCTION_PARSERS": parsers, "NO_PAREN_FUNCTIONS": {}}
    members["UNARY_PARSERS"] = {**unary, TokenType.PLUS: positive}
    members["COLUMN_OPERATORS"] = {**operators, TokenType.DCOLON: parse_suffix}
    return type("PlainSpark", (Spark,), {"Parser": type("Parser", (Spark.Parser,), members)})


def escape_doubled_quotes(text: str) -> str:
    """Replace doubled quotes inside string literals by quotes with a backslash, keeping all positions in the text.

    Raises sqlglot's `TokenError` for text that cannot be tokenized.

    Example:
        >>> escape_doubled_quotes("name = 'it''s'")
        "name = 'it\\\\'s'"
    """
    if "''" not in text and '""' not in text:
        return text
    import sqlglot

    letters = list(text)
    tokens = sqlglot.tokenize(text, read="spark")
    for one, other in pairwise(tokens):
        both_texts = one.token_type.name == other.token_type.name == "STRING" and one.end + 1 == other.start
        if both_texts and text[one.end] == text[other.start]:
            letters[one.end] = "\\"
    return "".join(letters)
