"""What a condition implies of the columns, by its operators: AND, OR, NOT, comparisons, IN, BETWEEN, LIKE, IS, CASE.

A condition is read together with the truth that is asked for: NOT exchanges true and false, and null is neither.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from lakescan.common import types as t
from lakescan.errors import InvalidFilter, UnsupportedFeature
from lakescan.expressions.implied.chains import Chain, chain_of, char_of
from lakescan.expressions.implied.choices import Branch, are_alike, branches_of, have_one_type
from lakescan.expressions.implied.comparisons import (
    NEVER,
    UNKNOWN_TRUTH,
    Implied,
    compared,
    equals_char,
    every,
    some,
)
from lakescan.expressions.implied.context import Context, call_of
from lakescan.expressions.implied.reading import is_condition, is_known, plain
from lakescan.expressions.implied.required import not_null
from lakescan.expressions.implied.values import Value, value_of
from lakescan.expressions.like import escaped, joined, parts
from lakescan.expressions.predicate import (
    FALSE,
    TRUE,
    ColumnComparison,
    Comparison,
    In,
    IsNaN,
    IsNull,
    Like,
    Predicate,
    conjunction,
    conjuncts,
    mirrored,
    opposite,
)
from lakescan.expressions.scalar.parse import names_of

_COMPARISONS = {"EQ": "=", "NEQ": "!=", "LT": "<", "LTE": "<=", "GT": ">", "GTE": ">="}
_SURE = Implied(TRUE, True)


def truth(node: Any, wanted: bool, context: Context) -> Implied:
    """Return what is implied by a condition that is true, or that is false; `UNKNOWN_TRUTH` if nothing is known."""
    try:
        return _truth(node, wanted, context)
    except (InvalidFilter, UnsupportedFeature, OverflowError, ValueError):  # patterns, numbers, years beyond 1 to 9999
        return UNKNOWN_TRUTH


def _truth(node: Any, wanted: bool, context: Context) -> Implied:
    from sqlglot import exp

    if not is_known(node):
        return UNKNOWN_TRUTH
    match node:
        case exp.Paren():
            return truth(node.this, wanted, context)
        case exp.Not():
            return truth(node.this, not wanted, context)
        case exp.And() | exp.Or():
            return _connected(node, wanted, context)
    tree = plain(node)
    if tree is None:
        return UNKNOWN_TRUTH
    if tree is not node:
        return _truth(tree, wanted, context)
    return _of_test(node, wanted is not bool(node.args.get("negate")), context)


def _of_test(node: Any, wanted: bool, context: Context) -> Implied:
    """A condition without AND, OR and NOT around it."""
    from sqlglot import exp

    match node:
        case exp.Between():
            return _between(node, wanted, context)
        case exp.In():
            return in_list(node, wanted, context, _against)
        case exp.Is():
            return _is(node, wanted, context)
        case exp.NullSafeEQ() | exp.NullSafeNEQ():
            return _null_safe(node, wanted is isinstance(node, exp.NullSafeEQ), context)
        case exp.Like() | exp.ILike():
            return _like(node, wanted, "\\", context)
        case exp.Escape(this=exp.Like() | exp.ILike()):
            negated = bool(node.this.args.get("negate"))
            return _like(node.this, wanted is not negated, node.expression.name, context)
    if (op := _COMPARISONS.get(type(node).__name__)) is not None:
        return _comparison(node, op if wanted else opposite(op), context)
    return _of_value(node, wanted, context)


def _connected(node: Any, wanted: bool, context: Context) -> Implied:
    from sqlglot import exp

    operands = list(node.flatten(unnest=False))
    found = [truth(each, wanted, context) for each in operands]
    if wanted is not isinstance(node, exp.And):
        return some(found)
    whole = every(found)
    return replace(whole, predicate=with_consequences(whole.predicate, operands, context)) if wanted else whole


def _required(nodes: Sequence[Any], context: Context) -> Implied:
    """That columns are not null without which one of the values is null."""
    return Implied(not_null(nodes, context))


def _comparison(node: Any, op: str, context: Context) -> Implied:
    left, right = node.this, node.expression
    if is_condition(left) or is_condition(right):
        return UNKNOWN_TRUTH
    return _compared(left, op, right, context)


def _compared(left: Any, op: str, right: Any, context: Context) -> Implied:
    from sqlglot import exp

    if isinstance(left, exp.Any | exp.All) or isinstance(right, exp.Any | exp.All):
        return UNKNOWN_TRUTH
    if isinstance(left.unnest(), exp.Tuple) or isinstance(right.unnest(), exp.Tuple):
        return tuples(left.unnest(), [right.unnest()], context) if op == "=" else UNKNOWN_TRUTH
    value = value_of(right, context)
    if value is None and (value := value_of(left, context)) is not None:
        left, right, op = right, left, mirrored(op)
    if value is None:
        return _of_columns(left, op, right, context)
    return _against(left, op, value, context)


def _of_columns(left: Any, op: str, right: Any, context: Context) -> Implied:
    """A comparison of two expressions: of columns if they are no more than that."""
    required = not_null([left, right], context)
    one, other = (chain_of(each, context) for each in (left, right))
    if one is None or other is None or not (one.is_column and other.is_column):
        return Implied(required)
    if op == "!=" or not t.are_ordered_alike(one.field.type, other.field.type):
        return Implied(required)
    return Implied(conjunction([required, ColumnComparison(one.path, op, other.path)]), True)


def _against(node: Any, op: str, value: Value, context: Context) -> Implied:
    """A comparison with a constant."""
    if value.value is None:
        return NEVER
    if (chain := chain_of(node, context)) is not None:
        return compared(chain, op, value, context)
    if op == "=" and (char := char_of(node, context)) is not None:
        return equals_char(char, value)
    if (constant := value_of(node, context)) is not None:
        return _constants(constant, op, value)
    if (branches := branches_of(node)) is not None:
        alike = have_one_type(branches, context)
        return _chosen(branches, context, lambda each: _against(each, op, value, context)) if alike else UNKNOWN_TRUTH
    return _required([node], context)


def _constants(left: Value, op: str, right: Value) -> Implied:
    """A comparison of two constants of one type."""
    if left.value is None:
        return NEVER
    same = left.type == right.type or {left.type, right.type} <= set(t.INTEGRAL)
    if not same or left.type in t.FLOATING or left.spread or right.spread or left.rising or right.rising:
        return UNKNOWN_TRUTH
    holds = {
        "<": left.value < right.value,
        "<=": left.value <= right.value,
        "=": left.value == right.value,
        "!=": left.value != right.value,
        ">": left.value > right.value,
        ">=": left.value >= right.value,
    }
    return _SURE if holds[op] else NEVER


def _chosen(branches: Sequence[Branch], context: Context, of: Callable[[Any], Implied]) -> Implied:
    """One of the results, each under its condition."""
    found = [
        of(result) if test is None else every([truth(test, True, context), of(result)]) for test, result in branches
    ]
    whole = some(found)
    return whole if all(test is not None for test, _ in branches) else replace(whole, exact=False)


def _between(node: Any, wanted: bool, context: Context) -> Implied:
    this, low, high = node.this, node.args["low"], node.args["high"]
    if any(is_condition(each) for each in (this, low, high)):
        return UNKNOWN_TRUTH
    ends = [
        _compared(this, ">=" if wanted else "<", low, context),
        _compared(this, "<=" if wanted else ">", high, context),
    ]
    return every(ends) if wanted else some(ends)


def _is(node: Any, wanted: bool, context: Context) -> Implied:
    from sqlglot import exp

    if is_condition(node.this):
        return UNKNOWN_TRUTH
    if isinstance(node.expression, exp.Null):
        return _null(node.this, wanted, context)
    if not isinstance(node.expression, exp.Boolean):
        return UNKNOWN_TRUTH
    value = bool(node.expression.this)
    if wanted:
        return truth(node.this, value, context)
    return some([truth(node.this, not value, context), _null(node.this, True, context)])


def _null(node: Any, wanted: bool, context: Context) -> Implied:
    """A value that is null, or that is not."""
    names = names_of(node.unnest())
    if names is not None and (path := context.path_of(names)) is not None:
        return Implied(IsNull(path, negate=not wanted), True)
    return UNKNOWN_TRUTH if wanted else _required([node], context)


def _null_safe(node: Any, equal: bool, context: Context) -> Implied:
    """`a <=> b`, or `a IS DISTINCT FROM b`; sqlglot adds parentheses to their operands."""
    left, right = node.this.unnest(), node.expression.unnest()
    if is_condition(left) or is_condition(right):
        return UNKNOWN_TRUTH
    value = value_of(right, context)
    if value is None and (value := value_of(left, context)) is not None:
        left = right
    if value is None:
        return UNKNOWN_TRUTH
    if value.value is None:
        return _null(left, equal, context)
    if equal:
        return _against(left, "=", value, context)
    return some([_against(left, "!=", value, context), _null(left, True, context)])


def _like(node: Any, wanted: bool, escape: str, context: Context) -> Implied:
    from sqlglot import exp

    if is_condition(node.this) or len(escape) != 1:
        return UNKNOWN_TRUTH
    pattern, chain = value_of(node.expression, context), chain_of(node.this, context)
    if pattern is not None and pattern.value is None:
        return NEVER
    is_known = pattern is not None and pattern.type == t.STRING and isinstance(node, exp.Like)
    if not is_known or pattern is None or chain is None or not chain.is_column or chain.type != t.STRING:
        return _required([node.this], context)
    return Implied(Like(chain.path, pattern=joined(parts(pattern.value, escape)), negate=not wanted), True)


def _of_value(node: Any, wanted: bool, context: Context) -> Implied:
    """A condition that is a column, a constant, a choice or a call."""
    value = value_of(node, context)
    if value is not None:
        if value.value is None:
            return NEVER
        return UNKNOWN_TRUTH if value.type != t.BOOLEAN else _SURE if value.value is wanted else NEVER
    if (chain := chain_of(node, context)) is not None:
        return compared(chain, "=", Value(wanted, t.BOOLEAN), context) if chain.type == t.BOOLEAN else UNKNOWN_TRUTH
    if (branches := branches_of(node)) is not None:
        return _chosen(branches, context, lambda each: truth(each, wanted, context))
    call = call_of(node)
    return _required([node], context) if call is None else _called(*call, node, wanted, context)


_PATTERNS = {"startswith": "{}%", "endswith": "%{}", "contains": "%{}%"}


def _called(name: str, args: list[Any], node: Any, wanted: bool, context: Context) -> Implied:
    match name, args:
        case (("isnull" | "isnotnull"), [one]):
            return _null(one, wanted is (name == "isnull"), context)
        case "equal_null", [left, right]:
            from sqlglot import exp

            return _null_safe(exp.NullSafeEQ(this=left, expression=right), wanted, context)
        case "isnan", [one]:
            chain = chain_of(one, context)
            if chain is None or not chain.is_column or chain.type not in t.FLOATING:
                return _required([one], context) if wanted else UNKNOWN_TRUTH
            return Implied(IsNaN(chain.path, negate=not wanted), True)
        case (("startswith" | "endswith" | "contains"), [one, other]):
            chain, part = chain_of(one, context), value_of(other, context)
            is_text = chain is not None and chain.is_column and chain.type == t.STRING
            if chain is None or not is_text or part is None or part.type != t.STRING or part.value is None:
                return _required(args, context)
            return Implied(
                Like(chain.path, pattern=_PATTERNS[name].format(escaped(part.value)), negate=not wanted), True
            )
    return _required([node], context)


_OPERATORS = {"EQ": "=", "LT": "<", "LTE": "<=", "GT": ">", "GTE": ">="}
Pair = tuple[str, str, str]  # a column, an operator of = < <=, and another column of the type


def with_consequences(predicate: Predicate, operands: Sequence[Any], context: Context) -> Predicate:
    """Add to what a conjunction implies the tests that follow from the operands that compare two columns."""
    pairs = [pair for each in operands if (pair := _pair(each.unnest(), context)) is not None]
    if not pairs:
        return predicate
    tests = dict.fromkeys(conjuncts(predicate))
    equal = _groups(pairs)
    for test in list(tests):
        if isinstance(test, Comparison | In | Like):
            tests |= dict.fromkeys(replace(test, column=other) for other in equal.get(test.column, ()))
    for test in list(tests):
        tests |= dict.fromkeys(_bounds(test, pairs))
    return conjunction(list(tests))


def _pair(node: Any, context: Context) -> Pair | None:
    op = _OPERATORS.get(type(node).__name__)
    left, right = (None, None) if op is None else (chain_of(node.this, context), chain_of(node.expression, context))
    if op is None or left is None or right is None or not _are_comparable(left, right):
        return None
    return (left.path, op, right.path) if op in ("=", "<", "<=") else (right.path, mirrored(op), left.path)


def _groups(pairs: Sequence[Pair]) -> dict[str, frozenset[str]]:
    """The columns that are equal to each column."""
    groups: dict[str, frozenset[str]] = {}
    for left, op, right in pairs:
        if op == "=":
            group = groups.get(left, frozenset((left,))) | groups.get(right, frozenset((right,)))
            groups |= dict.fromkeys(sorted(group), group)
    return groups


def _bounds(test: Predicate, pairs: Sequence[Pair]) -> Iterator[Predicate]:
    """The bounds of columns that are less, or greater, than the column of a test."""
    if not isinstance(test, Comparison):
        return
    for less, op, greater in pairs:
        if op != "=" and test.column == greater and test.op in ("=", "<", "<="):
            yield replace(test, column=less, op="<" if "<" in (op, test.op) else "<=")
        if op != "=" and test.column == less and test.op in ("=", ">", ">="):
            yield replace(test, column=greater, op=">" if op == "<" or test.op == ">" else ">=")


def _are_comparable(left: Chain, right: Chain) -> bool:
    return left.is_column and right.is_column and left.type == right.type and left.type not in t.FLOATING


Against = Callable[[Any, str, Value, Context], Implied]


def in_list(node: Any, wanted: bool, context: Context, against: Against) -> Implied:
    """Return what `a in (...)` implies, or `not in`; `against` reads a comparison of a node with a constant."""
    from sqlglot import exp

    this, listed = node.this, node.expressions
    if is_condition(this) or any(is_condition(each) for each in listed):
        return UNKNOWN_TRUTH
    if not listed:  # of a subquery; that without rows has no value, not even null
        return Implied(not_null([this], context)) if wanted else UNKNOWN_TRUTH
    if isinstance(this.unnest(), exp.Tuple):
        return tuples(this.unnest(), [each.unnest() for each in listed], context) if wanted else UNKNOWN_TRUTH
    values = [value_of(each, context) for each in listed]
    known = [each for each in values if each is not None]
    if len(known) < len(values):
        return Implied(not_null([this], context))
    if not wanted and any(each.value is None for each in known):
        return NEVER
    valid = [each for each in known if each.value is not None]
    if not valid:
        return NEVER
    op, chain = ("=" if wanted else "!="), chain_of(this, context)
    kinds = {each.type for each in valid}
    subject = {chain.type} if chain is not None else {t.STRING} if char_of(this, context) is not None else set()
    # Without ANSI mode, Spark compares a value with texts in a list as a text.
    as_texts = t.STRING in kinds and t.STRING not in subject and not context.ansi
    if as_texts or (len(kinds) > 1 and not are_alike(kinds | subject)):
        return Implied(not_null([this], context))
    tests = [
        against(this, op, each, context) if chain is None else compared(chain, op, each, context) for each in valid
    ]
    whole = some(tests) if wanted else every(tests)
    return replace(whole, predicate=_listed(tests, wanted, whole.predicate))


def _listed(tests: Sequence[Implied], wanted: bool, otherwise: Predicate) -> Predicate:
    """Tests of one column for equality as one test against a list."""
    predicates = [each.predicate for each in tests if each.predicate != (FALSE if wanted else TRUE)]
    op = "=" if wanted else "!="
    equal = [each for each in predicates if isinstance(each, Comparison) and each.op == op]
    if len(equal) < 2 or len(equal) < len(predicates) or len({each.column for each in equal}) > 1:
        return otherwise
    return In(equal[0].column, values=tuple(each.value for each in equal), negate=not wanted)


def tuples(this: Any, listed: Sequence[Any], context: Context) -> Implied:
    """Return what `(a, b) in ((1, 2), (3, 4))` implies, member by member. Nulls in tuples equal each other."""
    from sqlglot import exp

    rows = [each.expressions for each in (this, *listed) if isinstance(each, exp.Tuple)]
    if len(rows) < len(listed) + 1 or len({len(row) for row in rows}) > 1:
        return UNKNOWN_TRUTH
    found = [_member(member, others, context) for member, *others in zip(*rows, strict=True)]
    return replace(every(found), exact=False)


def _member(node: Any, listed: Sequence[Any], context: Context) -> Implied:
    chain, values = chain_of(node, context), [value_of(each, context) for each in listed]
    known = [each for each in values if each is not None and each.value is not None]
    if chain is None or len(known) < len(values):
        return UNKNOWN_TRUTH
    kinds = {chain.type, *(each.type for each in known)}
    if len(kinds) > 1 and not kinds <= set(t.INTEGRAL):
        return UNKNOWN_TRUTH
    tests = [compared(chain, "=", each, context) for each in known]
    return Implied(_listed(tests, True, some(tests).predicate))
