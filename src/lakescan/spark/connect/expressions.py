"""Translate expressions in Spark Connect's protobuf to SQL trees over symbols, and find the columns that they refer to.

A symbol is a column of one read in a plan. A tree represents an expression's value in terms of symbols, so it means the
same wherever it is used. Predicate inference (`expressions/inference`) derives the meaning for single columns of a tree
that is a condition. An unsupported part becomes a call of an unknown function, from which nothing is inferred.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Any

from lakescan.common.references import backquote, parse_reference
from lakescan.errors import LakescanError
from lakescan.expressions.scalar.parse import names_of, parse_expression, parse_query

UNKNOWN = "__unknown()"
_INFIX = frozenset(("==", "<=>", "<", "<=", ">", ">=", "and", "or", "+", "-", "*", "/", "%", "like", "ilike", "rlike"))
_WORD = re.compile(r"[a-z_][a-z0-9_]*")
_WORDS = re.compile(r"\w+")
_CALL = re.compile(r"([a-z_]\w*)\s*\(", re.IGNORECASE)
_TEXT = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|`(?:[^`]|``)*`", re.DOTALL)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_WHOLE = {"byte": "Y", "short": "S", "integer": "", "long": "L"}
_IS_SYNTAX = frozenset(
    (
        *(
            "and",
            "as",
            "between",
            "by",
            "case",
            "cast",
            "distinct",
            "else",
            "end",
            "extract",
            "for",
            "from",
            "if",
            "in",
        ),
        *("is", "like", "not", "of", "on", "or", "rlike", "then", "try_cast", "when", "decimal", "char", "varchar"),
    )
)
# Kinds of expressions whose column references can all be found in their parts.
_PLAIN_KINDS = frozenset(
    (
        *("literal", "unresolved_attribute", "unresolved_function", "expression_string", "alias", "cast", "sort_order"),
        *("window", "call_function", "lambda_function", "unresolved_named_lambda_variable", "update_fields"),
        *("unresolved_extract_value", "common_inline_user_defined_function"),
    )
)
# Functions whose result depends only on the values of one row.
_ROW_WISE_NAMES = (
    "== != <=> < <= > >= and or not in + - * / % & | ^ ~ negative positive when like ilike rlike isnull isnotnull "
    "isnan coalesce nvl nvl2 ifnull nullif nanvl if case cast try_cast greatest least abs sign signum ceil ceiling "
    "floor round bround rint sqrt cbrt exp expm1 ln log log10 log1p log2 pow power mod pmod div degrees radians "
    "sin cos tan asin acos atan atan2 sinh cosh tanh hex unhex bin conv hash xxhash64 crc32 md5 sha sha1 sha2 "
    "upper lower ucase lcase initcap trim ltrim rtrim btrim lpad rpad length char_length character_length "
    "octet_length bit_length len substr substring substring_index left right concat concat_ws repeat replace "
    "reverse translate split split_part regexp regexp_like regexp_extract regexp_replace regexp_count instr "
    "locate position startswith endswith contains ascii chr char base64 unbase64 encode decode format_number "
    "format_string printf levenshtein soundex overlay year quarter month day dayofmonth dayofweek dayofyear "
    "weekofyear weekday hour minute second date date_add date_sub date_diff datediff add_months months_between "
    "last_day next_day trunc date_trunc date_format to_date to_timestamp to_timestamp_ltz to_timestamp_ntz "
    "try_to_timestamp try_to_date unix_date unix_seconds unix_millis unix_micros unix_timestamp from_unixtime "
    "timestamp_seconds timestamp_millis timestamp_micros make_date make_timestamp from_utc_timestamp "
    "to_utc_timestamp extract date_part datepart boolean tinyint smallint int bigint float double decimal string "
    "binary timestamp shiftleft shiftright bitwise_not bit_count getbit bit_get struct named_struct array map "
    "element_at get size cardinality array_contains array_distinct array_join array_max array_min array_position "
    "array_size array_sort sort_array array_union array_except array_intersect arrays_overlap array_compact "
    "array_append array_prepend array_remove array_repeat flatten slice sequence map_keys map_values map_entries "
    "map_from_arrays map_contains_key transform filter exists forall aggregate reduce zip_with map_filter "
    "transform_keys transform_values get_json_object from_json to_json equal_null nullifzero zeroifnull try_add "
    "try_subtract try_multiply try_divide try_element_at"
)
ROW_WISE = frozenset(_ROW_WISE_NAMES.split())
# Functions whose result may differ when they are evaluated again for the same row.
_RANDOM = frozenset(
    (
        *("rand", "random", "randn", "randstr", "uniform", "uuid", "shuffle", "monotonically_increasing_id"),
        *("spark_partition_id", "input_file_name", "input_file_block_start", "input_file_block_length"),
    )
)
# Aggregates that metadata may answer.
TOTALS = frozenset(("count", "min", "max"))
_SCALAR_UDF = frozenset((100, 101, 200))  # eval types: row by row with or without Arrow, and pandas scalar functions


@dataclass(frozen=True, eq=False)
class Attribute:
    """An output column of a relation; its name is None if unknown.

    - `tree`: the column's value as an SQL tree over symbols; None if unknown.
    - `origin`: equal for columns that Spark treats as the same column, as a projection passes them on unchanged.
    - `qualifiers`: the table aliases that may qualify the name in a reference.
    - `below`: the columns of the relation's inputs from which it is derived; empty if it is one of them or computed.
    """

    name: str | None
    tree: Any | None
    origin: Any
    qualifiers: frozenset[str] = frozenset()
    below: tuple[Attribute, ...] = ()


Outputs = tuple[Attribute, ...] | None  # None if unknown


@dataclass(frozen=True)
class AttributeScope:
    """The columns that expressions of a relation may refer to: `outputs` of its inputs, and of relations below them.

    `outputs` is None if the columns are unknown. `below` maps the plan id of a relation to its outputs; None if several
    relations have the same id, or if they are unknown.
    """

    outputs: Outputs
    below: Mapping[int, Outputs]
    case_sensitive: bool

    def is_same_name(self, one: str | None, other: str | None) -> bool:
        """Return whether two names are equal, under the session's case sensitivity; False if one of them is None."""
        if one is None or other is None:
            return False
        return one == other if self.case_sensitive else one.lower() == other.lower()

    def find(self, names: tuple[str, ...], plan_id: int | None = None) -> tuple[Attribute, tuple[str, ...]] | None:
        """Return the column that a reference means, and the struct members after it.

        None if no single column is certain. `names` are the parts of the reference. With a `plan_id`, the column
        belongs to the relation with that id.
        """
        if self.outputs is None:
            return None
        if plan_id is None:
            return self._find_among(self.outputs, names)
        there = self.below.get(plan_id)
        found = None if there is None else self._find_among(there, names)
        if found is None:
            return None
        here = [each for each in self.outputs if each.origin == found[0].origin]
        return (here[0], found[1]) if len(here) == 1 else None

    def _find_among(
        self, outputs: tuple[Attribute, ...], names: tuple[str, ...]
    ) -> tuple[Attribute, tuple[str, ...]] | None:
        if len(names) > 1:
            in_relation = [
                each
                for each in outputs
                if any(self.is_same_name(alias, names[0]) for alias in each.qualifiers)
                and self.is_same_name(each.name, names[1])
            ]
            if in_relation:
                return (in_relation[0], names[2:]) if len(in_relation) == 1 else None
        found = [each for each in outputs if self.is_same_name(each.name, names[0])]
        return (found[0], names[1:]) if len(found) == 1 else None


@dataclass
class References:
    """The columns that expressions refer to.

    `are_known` is False if there may be more, or if one could not be resolved.
    """

    attributes: set[Attribute] = field(default_factory=set)
    are_known: bool = True

    def add(self, found: tuple[Attribute, tuple[str, ...]] | None) -> None:
        """Add the column that `AttributeScope.find` returned.

        None, for an unresolved reference, sets `are_known` to False.
        """
        if found is None:
            self.are_known = False
        else:
            self.attributes.add(found[0])


def is_expression(message: Any) -> bool:
    """Return whether a protobuf message is an expression."""
    return str(message.DESCRIPTOR.full_name) == "spark.connect.Expression"


def child_messages(message: Any) -> Iterator[Any]:
    """Yield the messages in the fields of a protobuf message, also in lists and maps, but not those within them."""
    for descriptor, value in message.ListFields():
        if descriptor.message_type is None:
            continue
        if descriptor.message_type.GetOptions().map_entry:
            yield from (each for each in value.values() if hasattr(each, "ListFields"))
        elif hasattr(value, "ListFields"):
            yield value
        else:
            yield from value


def references(expressions: Iterable[Any], scope: AttributeScope) -> References:
    """Find the columns that protobuf expressions, and the expressions within them, refer to in a scope."""
    result = References()
    stack = list(expressions)
    while stack:
        message = stack.pop()
        if is_expression(message):
            kind = message.WhichOneof("expr_type")
            if kind is None or kind not in _PLAIN_KINDS:
                result.are_known = False
            elif kind == "unresolved_attribute":
                _add_reference(message.unresolved_attribute, scope, result)
            elif kind == "expression_string":
                _add_text_references(message.expression_string.expression, scope, result)
            elif kind == "literal":
                continue
        stack.extend(child_messages(message))
    return result


def _add_reference(attribute: Any, scope: AttributeScope, result: References) -> None:
    if getattr(attribute, "is_metadata_column", False):
        result.are_known = False
    result.add(scope.find(parse_reference(attribute.unparsed_identifier), plan_id_of(attribute)))


def plan_id_of(attribute: Any) -> int | None:
    """Return the plan id of the relation that a column or `*` belongs to; None if the reference has no plan id."""
    return attribute.plan_id if attribute.HasField("plan_id") else None


def _add_text_references(text: str, scope: AttributeScope, result: References) -> None:
    """Add the columns that an SQL text refers to, and all columns whose names occur as words in it.

    If the text is not understood (no single expression, with a subquery, lambda, parameter or `*`, or not ASCII), the
    references become unknown.
    """
    from sqlglot import exp

    item = parse_item(text)
    if item is None or scope.outputs is None or not text.isascii():
        result.are_known = False
        return
    tree = item[1]
    if tree.find(exp.Star, exp.Query, exp.Lambda, exp.Placeholder, exp.Parameter):
        result.are_known = False
        return
    for node in tree.walk():
        if isinstance(node, exp.Column):
            names = _qualified_names(node)
            if names is None:
                result.are_known = False
            else:
                result.add(scope.find(names))
    words = set(_WORDS.findall(text.lower()))
    result.attributes.update(
        each for each in scope.outputs if each.name is not None and words.issuperset(_WORDS.findall(each.name.lower()))
    )


def _qualified_names(column: Any) -> tuple[str, ...] | None:
    """Return the parts of a column reference in a tree, with the struct members after it; None if it cannot be read."""
    from sqlglot import exp

    node = column
    while isinstance(node.parent, exp.Dot) and node.parent.this is node:
        node = node.parent
    return names_of(node) or names_of(column)


def parse_item(text: str) -> tuple[str | None, Any] | None:
    """Return the alias and the sqlglot tree of one SQL expression in a list of columns.

    The alias is None without one. None if the text is not exactly one expression. Both are None for an expression with
    several aliases.
    """
    from sqlglot import exp

    try:
        query = parse_query(f"SELECT {text}")
    except LakescanError:
        return None
    if not isinstance(query, exp.Select) or len(query.expressions) != 1:
        return None
    if any(
        value for key, value in query.args.items() if key not in ("expressions", "kind", "hint", "operation_modifiers")
    ):
        return None
    if query.args.get("kind") or query.args.get("hint") or query.args.get("operation_modifiers"):
        return None
    item = query.expressions[0]
    if isinstance(item, exp.Alias):
        return item.alias, item.this
    return (None, None) if isinstance(item, exp.Aliases) else (None, item)


def functions_in(text: str) -> set[str]:
    """Return the names that an SQL text calls as functions, in lower case, without keywords such as IN."""
    names = {each.lower() for each in _CALL.findall(_TEXT.sub(" ", text))}
    return names - _IS_SYNTAX


def is_row_wise(expression: Any) -> bool:
    """Return whether an expression surely has one value per row that depends only on that row.

    False for window functions, aggregates, functions that the session registered, and everything not recognized. An
    inline Python function must be scalar and declared deterministic.
    """
    stack = [expression]
    while stack:
        message = stack.pop()
        if is_expression(message):
            kind = message.WhichOneof("expr_type")
            part: Any = getattr(message, kind) if kind else None
            if kind not in _PLAIN_KINDS or kind in ("window", "call_function"):
                return False
            if kind == "literal":
                continue
            if kind == "unresolved_function":
                is_own = part.is_user_defined_function or getattr(part, "is_internal", False) or part.is_distinct
                if is_own or part.function_name.lower() not in ROW_WISE:
                    return False
            elif kind == "common_inline_user_defined_function":
                is_scalar = part.HasField("python_udf") and part.python_udf.eval_type in _SCALAR_UDF
                if not (part.deterministic and is_scalar):
                    return False
            elif kind == "expression_string":
                if not _is_row_wise_text(part.expression):
                    return False
            elif kind == "alias" and len(part.name) != 1:
                return False
        stack.extend(child_messages(message))
    return True


def find_functions(messages: Iterable[Any]) -> set[str]:
    """Return the names of the functions called in messages and in their SQL texts, in lower case.

    Operators are left out.
    """
    found: set[str] = set()
    for kind, part in _expressions(messages):
        if kind == "unresolved_function":
            found.add(part.function_name.lower())
        elif kind == "expression_string":
            found |= functions_in(part.expression)
    return {name for name in found if _WORD.fullmatch(name)}


def is_random(expression: Any) -> bool:
    """Return whether an expression calls a nondeterministic function: a listed one such as `rand`, or such a UDF."""
    for kind, part in _expressions([expression]):
        if kind in ("unresolved_function", "call_function") and part.function_name.lower() in _RANDOM:
            return True
        if kind == "common_inline_user_defined_function" and not part.deterministic:
            return True
        if kind == "expression_string" and functions_in(part.expression) & _RANDOM:
            return True
    return False


def _expressions(messages: Iterable[Any]) -> Iterator[tuple[str | None, Any]]:
    """Yield each expression in messages, at any depth: the name of its type (the field that is set), and that field."""
    stack = list(messages)
    while stack:
        message = stack.pop()
        if is_expression(message):
            kind = message.WhichOneof("expr_type")
            yield kind, getattr(message, kind) if kind else None
        stack.extend(child_messages(message))


@dataclass(frozen=True)
class Total:
    """An aggregate of all rows: `count` of rows, or `min` or `max` of a column. `column` is its symbol.

    None for `count`.
    """

    kind: str
    column: str | None = None


def totals(expressions: Iterable[Any], scope: AttributeScope) -> tuple[tuple[Any, ...], dict[str, Total]] | None:
    """Replace `count(*)`, `min` and `max` in expressions by columns.

    Return the expressions, and the totals by column name. None if there is no total, if an expression needs anything
    else of the rows, or if it has an unsupported part.
    """
    found: dict[str, Total] = {}
    changed = [_over_totals(each, scope, found) for each in expressions]
    return (tuple(changed), found) if found and None not in changed else None


def _over_totals(e: Any, scope: AttributeScope, found: dict[str, Total]) -> Any | None:
    """Return a copy of an expression with columns instead of its totals, and add these to `found` by column name.

    None if the expression needs other values of the rows, or has an unsupported part.
    """
    kind = e.WhichOneof("expr_type")
    result = type(e)()
    result.CopyFrom(e)
    part: Any = getattr(result, kind) if kind else None
    match kind:
        case "literal":
            return result
        case "alias" if len(part.name) != 1:
            return None
        case "alias" | "cast":
            inner = [part.expr]
        case "expression_string":
            item = parse_item(part.expression)
            total = None if item is None or item[1] is None else _total_in_text(item[1], scope)
            column = _column_of(total, found, result)
            if column is None or item is None or item[0] is None:
                return column
            result.alias.expr.CopyFrom(column)
            result.alias.name.append(item[0])
            return result
        case "unresolved_function":
            name = part.function_name.lower()
            if part.is_distinct or part.is_user_defined_function or getattr(part, "is_internal", False):
                return None
            if name in TOTALS:
                return _column_of(_total(name, part.arguments, scope), found, result)
            if name not in ROW_WISE:
                return None
            inner = list(part.arguments)
        case _:
            return None
    for each in inner:
        changed = _over_totals(each, scope, found)
        if changed is None:
            return None
        each.CopyFrom(changed)
    return result


def _column_of(named: tuple[str, Total] | None, found: dict[str, Total], example: Any) -> Any | None:
    """Add a pair of name and total to `found`, and return a column of that name as an expression.

    None if `named` is None. `example` is any message of the type `Expression`, as the type of the result.
    """
    if named is None:
        return None
    found[named[0]] = named[1]
    column = type(example)()
    column.unresolved_attribute.unparsed_identifier = backquote(named[0])
    return column


def _total(kind: str, arguments: Sequence[Any], scope: AttributeScope) -> tuple[str, Total] | None:
    """Return the name and the total of a call of `count`, `min` or `max` (`kind`); None if it is unsupported.

    Supported are `count` of `*` or of a literal that is not null, and `min` and `max` of a column.
    """
    if len(arguments) != 1:
        return None
    of = arguments[0].WhichOneof("expr_type")
    if kind == "count":
        is_star = of == "unresolved_star" and is_plain_star(arguments[0].unresolved_star)
        is_value = of == "literal" and arguments[0].literal.WhichOneof("literal_type") not in (None, "null")
        return ("count(*)", Total("count")) if is_star or is_value else None
    if of != "unresolved_attribute" or getattr(arguments[0].unresolved_attribute, "is_metadata_column", False):
        return None
    attribute = arguments[0].unresolved_attribute
    return _extreme(kind, scope.find(parse_reference(attribute.unparsed_identifier), plan_id_of(attribute)))


def _total_in_text(tree: Any, scope: AttributeScope) -> tuple[str, Total] | None:
    from sqlglot import exp

    call = tree.unnest()
    if not isinstance(call, exp.Anonymous) or not isinstance(call.this, str) or len(call.expressions) != 1:
        return None
    kind, (of,) = call.this.lower(), call.expressions
    if kind == "count":
        is_rows = isinstance(of, exp.Literal) or (isinstance(of, exp.Star) and not any(of.args.values()))
        return ("count(*)", Total("count")) if is_rows else None
    names = names_of(of) if kind in TOTALS else None
    return None if names is None else _extreme(kind, scope.find(names))


def _extreme(kind: str, found: tuple[Attribute, tuple[str, ...]] | None) -> tuple[str, Total] | None:
    """Return the name and the total of `min` or `max` (`kind`) of a column that `AttributeScope.find` returned.

    None without a column, for a struct member, or if the column's value is not one symbol.
    """
    if found is None or found[1] or found[0].tree is None:
        return None
    names = names_of(found[0].tree.unnest())
    return (f"{kind}({found[0].name})", Total(kind, names[0])) if names is not None and len(names) == 1 else None


def is_plain_star(star: Any) -> bool:
    """Return whether a star means all columns of the input, as it has neither a qualifier nor a plan id."""
    return not star.unparsed_target and plan_id_of(star) is None


def _is_row_wise_text(text: str) -> bool:
    from sqlglot import exp

    item = parse_item(text)
    if item is None or item[1] is None or item[1].find(exp.Query, exp.Window, exp.Star, exp.Placeholder, exp.Parameter):
        return False
    return "`(" not in text.replace(" ", "") and functions_in(text) <= ROW_WISE


class Trees:
    """Builds sqlglot trees of protobuf expressions, with symbols instead of the columns of a scope."""

    def __init__(self, scope: AttributeScope, own_functions: frozenset[str] = frozenset()) -> None:
        """Create a builder; `own_functions` has the names of functions that the session registered, in lower case."""
        self._scope, self._own = scope, own_functions
        self._values: dict[str, Any] = {}

    def conjuncts(self, condition: Any) -> Iterator[Any]:
        """Yield the trees of the conditions that AND joins in a protobuf condition."""
        function = condition.unresolved_function
        if condition.WhichOneof("expr_type") == "unresolved_function" and function.function_name.lower() == "and":
            for each in function.arguments:
                yield from self.conjuncts(each)
        else:
            yield from split_conjuncts(self.tree(condition))

    def tree(self, expression: Any) -> Any:
        """Return the SQL tree over symbols of a protobuf expression; unsupported parts become `unknown_value`."""
        return self._parse(self._sql(expression))

    def _parse(self, text: str) -> Any:
        from sqlglot import exp

        try:
            tree = parse_expression(text)
        except LakescanError:
            return unknown_value()

        def substitute(node: Any) -> Any:
            is_value = isinstance(node, exp.Column) and node.name in self._values and len(node.parts) == 1
            return exp.paren(self._values[node.name].copy()) if is_value else node

        return tree.transform(substitute)

    def _value(self, tree: Any) -> str:
        """Return a new quoted name for a tree in SQL text, which `_parse` replaces by the tree."""
        self._values[name := f"__value_{len(self._values)}"] = tree
        return backquote(name)

    def _sql(self, e: Any) -> str:
        kind = e.WhichOneof("expr_type")
        part: Any = getattr(e, kind) if kind else None
        match kind:
            case "unresolved_attribute" | "unresolved_extract_value":
                return self._reference(e)
            case "expression_string":
                return self._text(part.expression)
            case "alias":
                return self._sql(part.expr)
            case "cast":
                return self._cast(part)
            case "literal":
                return literal(part)
            case "unresolved_function":
                return self._call(part)
        return UNKNOWN

    def _reference(self, e: Any) -> str:
        members: list[str] = []
        while e.WhichOneof("expr_type") == "unresolved_extract_value":
            extraction = e.unresolved_extract_value.extraction
            if extraction.WhichOneof("expr_type") != "literal" or not extraction.literal.HasField("string"):
                return UNKNOWN
            members.insert(0, extraction.literal.string)
            e = e.unresolved_extract_value.child
        if e.WhichOneof("expr_type") != "unresolved_attribute":
            return UNKNOWN
        attribute = e.unresolved_attribute
        found = self._scope.find(parse_reference(attribute.unparsed_identifier), plan_id_of(attribute))
        return UNKNOWN if found is None else self._member(found[0], (*found[1], *members))

    def _member(self, attribute: Attribute, members: tuple[str, ...]) -> str:
        if attribute.tree is None:
            return UNKNOWN
        tree = attribute.tree if not members else member(attribute.tree, members)
        return UNKNOWN if tree is None else self._value(tree)

    def _text(self, text: str) -> str:
        item = parse_item(text)
        if item is None or item[1] is None or "`(" in text.replace(" ", "") or functions_in(text) & self._own:
            return UNKNOWN
        return f"({self._value(self._resolve_columns(item[1]))})"

    def _resolve_columns(self, tree: Any) -> Any:
        """Replace the columns in a tree of SQL text by their values over symbols; others become `unknown_value`.

        A tree with an unsupported part, such as a subquery or lambda, is unknown as a whole, apart from other
        conditions joined to it by AND.
        """
        from sqlglot import exp

        if isinstance(inner := tree.unnest(), exp.And):  # one condition may be unknown, the other known
            left, right = (exp.paren(self._resolve_columns(each)) for each in (inner.left, inner.right))
            return exp.And(this=left, expression=right)
        banned = (exp.Query, exp.Window, exp.Star, exp.Lambda, exp.Placeholder, exp.Parameter, exp.Bracket)
        if tree.find(*banned) or any(_has_unit(each) for each in tree.find_all(exp.Anonymous)):
            return unknown_value()

        def substitute(node: Any) -> Any:
            if not isinstance(node, exp.Column | exp.Dot):
                return node
            names = names_of(node)
            if names is None:
                return node if isinstance(node, exp.Dot) else unknown_value()
            found = self._scope.find(names)
            value = None if found is None else found[0].tree if not found[1] else member(found[0].tree, found[1])
            return unknown_value() if value is None else exp.paren(value.copy())

        return tree.copy().transform(substitute)

    def _cast(self, part: Any) -> str:
        kind = part.type_str
        if not kind and part.HasField("type"):
            from pyspark.sql.connect.types import proto_schema_to_pyspark_data_type

            kind = proto_schema_to_pyspark_data_type(part.type).simpleString()
        mode = part.DESCRIPTOR.fields_by_name["eval_mode"].enum_type.values_by_number[part.eval_mode].name
        function = {"EVAL_MODE_UNSPECIFIED": "CAST", "EVAL_MODE_TRY": "TRY_CAST"}.get(mode)
        if function is None or not kind or re.fullmatch(r"[a-z_]+(\(\d+(,\s*-?\d+)?\))?", kind.lower()) is None:
            return UNKNOWN
        return f"{function}({self._sql(part.expr)} AS {kind})"

    def _call(self, part: Any) -> str:
        name, count = part.function_name.lower(), len(part.arguments)
        if (
            part.is_distinct
            or part.is_user_defined_function
            or getattr(part, "is_internal", False)
            or name in self._own
        ):
            return UNKNOWN
        values = [f"({self._sql(each)})" for each in part.arguments]
        if name in _INFIX and count == 2:
            return f"({values[0]} {'=' if name == '==' else name.upper()} {values[1]})"
        if name == "in" and count > 1:
            return f"({values[0]} IN ({', '.join(values[1:])}))"
        if name == "not" and count == 1:
            return f"(NOT {values[0]})"
        if name == "when" and count > 1:
            cases = [f"WHEN {values[n]} THEN {values[n + 1]}" for n in range(0, count - 1, 2)]
            default = f" ELSE {values[-1]}" if count % 2 else ""
            return f"(CASE {' '.join(cases)}{default} END)"
        if _WORD.fullmatch(name) is None or name in _IS_SYNTAX or name in ("like", "ilike", "rlike"):
            return UNKNOWN
        return f"{name}({', '.join(values)})"


def unknown_value() -> Any:
    """Return a tree that stands for an unknown value: a call of a function that does not exist."""
    from sqlglot import exp

    return exp.Anonymous(this="__unknown")


def split_conjuncts(tree: Any) -> Iterator[Any]:
    """Yield the conditions that AND joins in a tree; the tree itself if it has no AND at its top."""
    from sqlglot import exp

    inner = tree.unnest()
    if isinstance(inner, exp.And):
        yield from split_conjuncts(inner.left)
        yield from split_conjuncts(inner.right)
    else:
        yield tree


def member(tree: Any, names: tuple[str, ...]) -> Any | None:
    """Return the tree of a struct member of `tree`; None for a tree that is neither a symbol nor a member of one."""
    path = None if tree is None else names_of(tree.unnest())
    return None if path is None else column((*path, *names))


def column(names: Iterable[str]) -> Any:
    """Return the tree of a column (the first name), or of a struct member of it (the further names)."""
    from sqlglot import exp

    first, *members = (exp.to_identifier(name, quoted=True) for name in names)
    tree: Any = exp.Column(this=first)
    for each in members:
        tree = exp.Dot(this=tree, expression=each)
    return tree


def _has_unit(call: Any) -> bool:
    """Return whether the first argument of a call may be a unit such as HOUR, which sqlglot parses as a column."""
    return len(call.expressions) == 3 and str(call.this).lower().startswith(("date", "timestamp", "time"))


def literal(part: Any) -> str:
    """Return a protobuf literal as SQL text that keeps its type; a call of `__unknown()` for an unsupported type."""
    kind = part.WhichOneof("literal_type")
    if kind is None or (kind == "string" and _is_collated(part)):
        return UNKNOWN
    value = getattr(part, kind)
    match kind:
        case "null":
            return "NULL"
        case "boolean":
            return str(value).upper()
        case "byte" | "short" | "integer" | "long":
            return f"{value}{_WHOLE[kind]}"
        case "float" | "double":
            return f"CAST('{_float_text(value)}' AS {kind.upper()})"
        case "string":
            return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
        case "binary":
            return f"X'{value.hex()}'"
        case "decimal" if re.fullmatch(
            r"-?\d+(\.\d+)?", value.value
        ):  # the literal has the smallest precision and scale
            return f"{value.value}BD"
        case "date" | "timestamp" | "timestamp_ntz":
            return _time_text(kind, value)
    return UNKNOWN


def _is_collated(part: Any) -> bool:
    """Return whether a string literal has a collation other than UTF8_BINARY, the default."""
    if "data_type" not in part.DESCRIPTOR.fields_by_name or not part.HasField("data_type"):
        return False
    kind = part.data_type
    return kind.WhichOneof("kind") != "string" or kind.string.collation not in ("", "UTF8_BINARY")


def _float_text(value: float) -> str:
    if value != value:
        return "NaN"
    return repr(value).replace("inf", "Infinity")


def _time_text(kind: str, value: int) -> str:
    try:
        if kind == "date":
            return f"DATE '{date(1970, 1, 1) + timedelta(days=value)}'"
        moment = (_EPOCH + timedelta(microseconds=value)).replace(tzinfo=None).isoformat(" ", "microseconds")
    except OverflowError:
        return UNKNOWN
    return f"TIMESTAMP_LTZ '{moment}Z'" if kind == "timestamp" else f"TIMESTAMP_NTZ '{moment}'"
