"""Predicate inference by operator: AND, OR, NOT, comparisons, IN, BETWEEN, LIKE, IS, CASE.

`wanted` is the truth value that the condition is assumed to have. NOT exchanges true and false. A condition that is
null is neither.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from lakescan.common import types as t
from lakescan.errors import InvalidFilter, UnsupportedFeature
from lakescan.expressions.inference.comparisons import (
    NEVER,
    UNKNOWN_TRUTH,
    Inference,
    equals_char,
    infer_all,
    infer_any,
    infer_comparison,
)
from lakescan.expressions.inference.constants import ConstantValue, value_of
from lakescan.expressions.inference.context import (
    InferenceContext,
    call_of,
    infer_not_null,
    is_condition,
    is_known,
    plain_tree,
)
from lakescan.expressions.inference.function_chains import Chain, chain_of, char_of
from lakescan.expressions.like import escape_pattern, join_pattern, split_pattern
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
    mirror_operator,
    opposite_operator,
)
from lakescan.expressions.scalar.parse import names_of
from lakescan.expressions.scalar.typed_sql import MOST_DIGITS, decimal_of

_COMPARISONS = {"EQ": "=", "NEQ": "!=", "LT": "<", "LTE": "<=", "GT": ">", "GTE": ">="}
_SURE = Inference(TRUE, True)


def infer_condition(node: Any, wanted: bool, context: InferenceContext) -> Inference:
    """Infer a predicate from a condition (a sqlglot tree) being true, or being false if not `wanted`.

    Returns `UNKNOWN_TRUTH` if nothing follows, also for conditions that cannot be interpreted.
    """
    try:
        return _infer_condition(node, wanted, context)
    except (InvalidFilter, UnsupportedFeature, OverflowError, ValueError):  # patterns, numbers, years beyond 1 to 9999
        return UNKNOWN_TRUTH


def _infer_condition(node: Any, wanted: bool, context: InferenceContext) -> Inference:
    from sqlglot import exp

    if not is_known(node):
        return UNKNOWN_TRUTH
    match node:
        case exp.Paren():
            return infer_condition(node.this, wanted, context)
        case exp.Not():
            return infer_condition(node.this, not wanted, context)
        case exp.And() | exp.Or():
            return _infer_connective(node, wanted, context)
    tree = plain_tree(node)
    if tree is None:
        return UNKNOWN_TRUTH
    if tree is not node:
        return _infer_condition(tree, wanted, context)
    return _infer_test(node, wanted is not bool(node.args.get("negate")), context)


def _infer_test(node: Any, wanted: bool, context: InferenceContext) -> Inference:
    """Infer from a condition that is not an AND, OR or NOT. A negation within its node, as in NOT LIKE, is ignored."""
    from sqlglot import exp

    match node:
        case exp.Between():
            return _between(node, wanted, context)
        case exp.In():
            return infer_in(node, wanted, context, _compare_value)
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
        return _comparison(node, op if wanted else opposite_operator(op), context)
    return _infer_value(node, wanted, context)


def _infer_connective(node: Any, wanted: bool, context: InferenceContext) -> Inference:
    from sqlglot import exp

    operands = list(node.flatten(unnest=False))
    found = [infer_condition(each, wanted, context) for each in operands]
    if wanted is not isinstance(node, exp.And):
        return infer_any(found)
    whole = infer_all(found)
    return replace(whole, predicate=add_consequences(whole.predicate, operands, context)) if wanted else whole


def _not_null_columns(nodes: Sequence[Any], context: InferenceContext) -> Inference:
    """Infer only that those columns are not null whose null would make one of the expressions `nodes` null."""
    return Inference(infer_not_null(nodes, context))


def _comparison(node: Any, op: str, context: InferenceContext) -> Inference:
    left, right = node.this, node.expression
    if is_condition(left) or is_condition(right):
        return UNKNOWN_TRUTH
    return _compare_nodes(left, op, right, context)


def _compare_nodes(left: Any, op: str, right: Any, context: InferenceContext) -> Inference:
    from sqlglot import exp

    if isinstance(left, exp.Any | exp.All) or isinstance(right, exp.Any | exp.All):
        return UNKNOWN_TRUTH
    if isinstance(left.unnest(), exp.Tuple) or isinstance(right.unnest(), exp.Tuple):
        return infer_tuples(left.unnest(), [right.unnest()], context) if op == "=" else UNKNOWN_TRUTH
    value = value_of(right, context)
    if value is None and (value := value_of(left, context)) is not None:
        left, right, op = right, left, mirror_operator(op)
    if value is None:
        return _compare_columns(left, op, right, context)
    return _compare_value(left, op, value, context)


def _compare_columns(left: Any, op: str, right: Any, context: InferenceContext) -> Inference:
    """Infer from a comparison of two expressions without constants.

    It becomes a `ColumnComparison` if both are columns of comparable types. Otherwise only columns that are not null
    follow.
    """
    required = infer_not_null([left, right], context)
    one, other = (chain_of(each, context) for each in (left, right))
    if one is None or other is None or not (one.is_column and other.is_column):
        return Inference(required)
    if op == "!=" or not t.are_ordered_alike(one.field.type, other.field.type):
        return Inference(required)
    return Inference(conjunction([required, ColumnComparison(one.path, op, other.path)]), True)


def _compare_value(node: Any, op: str, value: ConstantValue, context: InferenceContext) -> Inference:
    """Infer from a comparison of an expression with a constant; `UNKNOWN_TRUTH` if nothing follows."""
    if value.value is None:
        return NEVER
    if (chain := chain_of(node, context)) is not None:
        return infer_comparison(chain, op, value, context)
    if op == "=" and (char := char_of(node, context)) is not None:
        return equals_char(char, value)
    if (constant := value_of(node, context)) is not None:
        return _fold_comparison(constant, op, value)
    if (branches := branches_of(node)) is not None:
        alike = have_one_type(branches, context)
        return (
            _infer_branches(branches, context, lambda each: _compare_value(each, op, value, context))
            if alike
            else UNKNOWN_TRUTH
        )
    return _not_null_columns([node], context)


def _fold_comparison(left: ConstantValue, op: str, right: ConstantValue) -> Inference:
    """Evaluate a comparison of two constants: true for all rows, or for none.

    Returns `UNKNOWN_TRUTH` for constants of different types, floats, and times that are not exactly known.
    """
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


def _infer_branches(branches: Sequence[Branch], context: InferenceContext, of: Callable[[Any], Inference]) -> Inference:
    """Infer from IF, CASE or coalesce, whose result is that of one branch (see `branches_of`).

    `of` infers from the result of one branch. The inference holds if one branch's condition and its result do.
    """
    found = [
        of(result) if test is None else infer_all([infer_condition(test, True, context), of(result)])
        for test, result in branches
    ]
    whole = infer_any(found)
    return whole if all(test is not None for test, _ in branches) else replace(whole, exact=False)


def _between(node: Any, wanted: bool, context: InferenceContext) -> Inference:
    this, low, high = node.this, node.args["low"], node.args["high"]
    if any(is_condition(each) for each in (this, low, high)):
        return UNKNOWN_TRUTH
    ends = [
        _compare_nodes(this, ">=" if wanted else "<", low, context),
        _compare_nodes(this, "<=" if wanted else ">", high, context),
    ]
    return infer_all(ends) if wanted else infer_any(ends)


def _is(node: Any, wanted: bool, context: InferenceContext) -> Inference:
    from sqlglot import exp

    if is_condition(node.this):
        return UNKNOWN_TRUTH
    if isinstance(node.expression, exp.Null):
        return _null(node.this, wanted, context)
    if not isinstance(node.expression, exp.Boolean):
        return UNKNOWN_TRUTH
    value = bool(node.expression.this)
    if wanted:
        return infer_condition(node.this, value, context)
    return infer_any([infer_condition(node.this, not value, context), _null(node.this, True, context)])


def _null(node: Any, wanted: bool, context: InferenceContext) -> Inference:
    """Infer from an expression being null, or not null if not `wanted`. It is exact for a column."""
    names = names_of(node.unnest())
    if names is not None and (path := context.path_of(names)) is not None:
        return Inference(IsNull(path, negate=not wanted), True)
    return UNKNOWN_TRUTH if wanted else _not_null_columns([node], context)


def _null_safe(node: Any, equal: bool, context: InferenceContext) -> Inference:
    """Infer from `a <=> b`, or from `a IS DISTINCT FROM b` if not `equal`, where one side is a constant.

    sqlglot puts the operands in parentheses.
    """
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
        return _compare_value(left, "=", value, context)
    return infer_any([_compare_value(left, "!=", value, context), _null(left, True, context)])


def _like(node: Any, wanted: bool, escape: str, context: InferenceContext) -> Inference:
    from sqlglot import exp

    if is_condition(node.this) or len(escape) != 1:
        return UNKNOWN_TRUTH
    pattern, chain = value_of(node.expression, context), chain_of(node.this, context)
    if pattern is not None and pattern.value is None:
        return NEVER
    is_known = pattern is not None and pattern.type == t.STRING and isinstance(node, exp.Like)
    if not is_known or pattern is None or chain is None or not chain.is_column or chain.type != t.STRING:
        return _not_null_columns([node.this], context)
    return Inference(
        Like(chain.path, pattern=join_pattern(split_pattern(pattern.value, escape)), negate=not wanted), True
    )


def _infer_value(node: Any, wanted: bool, context: InferenceContext) -> Inference:
    """Infer from a boolean expression other than a comparison: a column, a constant, a choice or a call.

    Returns `UNKNOWN_TRUTH` if nothing follows.
    """
    value = value_of(node, context)
    if value is not None:
        if value.value is None:
            return NEVER
        return UNKNOWN_TRUTH if value.type != t.BOOLEAN else _SURE if value.value is wanted else NEVER
    if (chain := chain_of(node, context)) is not None:
        return (
            infer_comparison(chain, "=", ConstantValue(wanted, t.BOOLEAN), context)
            if chain.type == t.BOOLEAN
            else UNKNOWN_TRUTH
        )
    if (branches := branches_of(node)) is not None:
        return _infer_branches(branches, context, lambda each: infer_condition(each, wanted, context))
    call = call_of(node)
    return _not_null_columns([node], context) if call is None else _infer_call(*call, node, wanted, context)


_PATTERNS = {"startswith": "{}%", "endswith": "%{}", "contains": "%{}%"}


def _infer_call(name: str, args: list[Any], node: Any, wanted: bool, context: InferenceContext) -> Inference:
    match name, args:
        case (("isnull" | "isnotnull"), [one]):
            return _null(one, wanted is (name == "isnull"), context)
        case "equal_null", [left, right]:
            from sqlglot import exp

            return _null_safe(exp.NullSafeEQ(this=left, expression=right), wanted, context)
        case "isnan", [one]:
            chain = chain_of(one, context)
            if chain is None or not chain.is_column or chain.type not in t.FLOATING:
                return _not_null_columns([one], context) if wanted else UNKNOWN_TRUTH
            return Inference(IsNaN(chain.path, negate=not wanted), True)
        case (("startswith" | "endswith" | "contains"), [one, other]):
            chain, part = chain_of(one, context), value_of(other, context)
            is_text = chain is not None and chain.is_column and chain.type == t.STRING
            if chain is None or not is_text or part is None or part.type != t.STRING or part.value is None:
                return _not_null_columns(args, context)
            return Inference(
                Like(chain.path, pattern=_PATTERNS[name].format(escape_pattern(part.value)), negate=not wanted), True
            )
    return _not_null_columns([node], context)


_OPERATORS = {"EQ": "=", "LT": "<", "LTE": "<=", "GT": ">", "GTE": ">="}
Pair = tuple[str, str, str]  # a column, an operator (=, < or <=), and another column of the same type


def add_consequences(predicate: Predicate, operands: Sequence[Any], context: InferenceContext) -> Predicate:
    """Add the tests that follow from comparisons of columns among the operands of an AND, and return the predicate.

    If `a = b` and `a > 1`, then also `b > 1`. `predicate` is inferred from the AND, and `operands` are its sqlglot
    nodes.
    """
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


def _pair(node: Any, context: InferenceContext) -> Pair | None:
    op = _OPERATORS.get(type(node).__name__)
    left, right = (None, None) if op is None else (chain_of(node.this, context), chain_of(node.expression, context))
    if op is None or left is None or right is None or not _are_comparable(left, right):
        return None
    return (left.path, op, right.path) if op in ("=", "<", "<=") else (right.path, mirror_operator(op), left.path)


def _groups(pairs: Sequence[Pair]) -> dict[str, frozenset[str]]:
    """Return, for each column in a pair with `=`, the set of columns that are equal to it, including itself."""
    groups: dict[str, frozenset[str]] = {}
    for left, op, right in pairs:
        if op == "=":
            group = groups.get(left, frozenset((left,))) | groups.get(right, frozenset((right,)))
            groups |= dict.fromkeys(sorted(group), group)
    return groups


def _bounds(test: Predicate, pairs: Sequence[Pair]) -> Iterator[Predicate]:
    """Yield the bounds that follow for other columns from a comparison of one column, by pairs with < or <=."""
    if not isinstance(test, Comparison):
        return
    for less, op, greater in pairs:
        if op != "=" and test.column == greater and test.op in ("=", "<", "<="):
            yield replace(test, column=less, op="<" if "<" in (op, test.op) else "<=")
        if op != "=" and test.column == less and test.op in ("=", ">", ">="):
            yield replace(test, column=greater, op=">" if op == "<" or test.op == ">" else ">=")


def _are_comparable(left: Chain, right: Chain) -> bool:
    return left.is_column and right.is_column and left.type == right.type and left.type not in t.FLOATING


Against = Callable[[Any, str, ConstantValue, InferenceContext], Inference]


def infer_in(node: Any, wanted: bool, context: InferenceContext, against: Against) -> Inference:
    """Infer from `a in (...)`, or from `a not in (...)` if not `wanted`; `node` is the sqlglot node.

    `against` infers from a comparison with a constant, for an expression that cannot be a chain.
    """
    from sqlglot import exp

    this, listed = node.this, node.expressions
    if is_condition(this) or any(is_condition(each) for each in listed):
        return UNKNOWN_TRUTH
    if not listed:  # a subquery: without rows, `not in` is true even for null
        return Inference(infer_not_null([this], context)) if wanted else UNKNOWN_TRUTH
    if isinstance(this.unnest(), exp.Tuple):
        return infer_tuples(this.unnest(), [each.unnest() for each in listed], context) if wanted else UNKNOWN_TRUTH
    values = [value_of(each, context) for each in listed]
    known = [each for each in values if each is not None]
    if len(known) < len(values):
        return Inference(infer_not_null([this], context))
    if not wanted and any(each.value is None for each in known):
        return NEVER
    valid = [each for each in known if each.value is not None]
    if not valid:
        return NEVER
    op, chain = ("=" if wanted else "!="), chain_of(this, context)
    kinds = {each.type for each in valid}
    subject = {chain.type} if chain is not None else {t.STRING} if char_of(this, context) is not None else set()
    # Without ANSI mode, Spark compares a value as a string if the list contains strings.
    as_texts = t.STRING in kinds and t.STRING not in subject and not context.ansi
    if as_texts or (len(kinds) > 1 and not are_alike(kinds | subject)):
        return Inference(infer_not_null([this], context))
    tests = [
        against(this, op, each, context) if chain is None else infer_comparison(chain, op, each, context)
        for each in valid
    ]
    whole = infer_any(tests) if wanted else infer_all(tests)
    return replace(whole, predicate=_merge_in_list(tests, wanted, whole.predicate))


def _merge_in_list(tests: Sequence[Inference], wanted: bool, otherwise: Predicate) -> Predicate:
    """Merge equality tests (`!=` if not `wanted`) of one column into one `in` or `not in` test.

    Return the predicate `otherwise` if the tests are of other kinds or of several columns.
    """
    predicates = [each.predicate for each in tests if each.predicate != (FALSE if wanted else TRUE)]
    op = "=" if wanted else "!="
    equal = [each for each in predicates if isinstance(each, Comparison) and each.op == op]
    if len(equal) < 2 or len(equal) < len(predicates) or len({each.column for each in equal}) > 1:
        return otherwise
    return In(equal[0].column, values=tuple(each.value for each in equal), negate=not wanted)


def infer_tuples(this: Any, listed: Sequence[Any], context: InferenceContext) -> Inference:
    """Infer from `(a, b) in ((1, 2), (3, 4))`, for each member separately; never exact.

    `this` is the left tuple, and `listed` are the right ones. Only members with constants that are not null imply a
    test, because nulls in tuples equal each other.
    """
    from sqlglot import exp

    rows = [each.expressions for each in (this, *listed) if isinstance(each, exp.Tuple)]
    if len(rows) < len(listed) + 1 or len({len(row) for row in rows}) > 1:
        return UNKNOWN_TRUTH
    found = [_member(member, others, context) for member, *others in zip(*rows, strict=True)]
    return replace(infer_all(found), exact=False)


def _member(node: Any, listed: Sequence[Any], context: InferenceContext) -> Inference:
    chain, values = chain_of(node, context), [value_of(each, context) for each in listed]
    known = [each for each in values if each is not None and each.value is not None]
    if chain is None or len(known) < len(values):
        return UNKNOWN_TRUTH
    kinds = {chain.type, *(each.type for each in known)}
    if len(kinds) > 1 and not kinds <= set(t.INTEGRAL):
        return UNKNOWN_TRUTH
    tests = [infer_comparison(chain, "=", each, context) for each in known]
    return Inference(_merge_in_list(tests, True, infer_any(tests).predicate))


_SMALL = 2**24  # integers up to this are exact in all floating-point types

Branch = tuple[Any | None, Any]


def branches_of(node: Any) -> list[Branch] | None:
    """Return the (condition, result) pairs of IF, CASE or coalesce(...), in order; None for other nodes.

    The condition of a default is None. The conditions of coalesce exclude each other.
    """
    from sqlglot import exp

    match node:
        case exp.Paren():
            return branches_of(node.this)
        case exp.If():
            other = node.args.get("false")
            return [(node.this, node.args["true"]), (None, exp.null() if other is None else other)]
        case exp.Case():
            default = node.args.get("default")
            tests = [each.this for each in node.args["ifs"]]
            if node.this is not None:
                tests = [exp.EQ(this=exp.paren(node.this.copy()), expression=exp.paren(each.copy())) for each in tests]
            results = [each.args["true"] for each in node.args["ifs"]]
            return [*zip(tests, results, strict=True), (None, exp.null() if default is None else default)]
    call = call_of(node)
    if call is None or call[0] not in ("coalesce", "ifnull", "nvl") or not call[1]:
        return None
    first, *others = call[1]
    before, branches = [first], [(exp.Not(this=exp.Is(this=exp.paren(first.copy()), expression=exp.null())), first)]
    for each in others:
        nulls = [exp.Is(this=exp.paren(one.copy()), expression=exp.null()) for one in before]
        branches.append((exp.and_(*nulls, copy=False), each))
        before.append(each)
    return branches


def have_one_type(branches: list[Branch], context: InferenceContext) -> bool:
    """Return whether the results of a choice compare the same before and after Spark converts them to one type.

    False if a result is neither a chain nor a constant.
    """
    known: list[Chain | ConstantValue | None] = [
        chain_of(result, context) or value_of(result, context) for _, result in branches
    ]
    if None in known:
        return False
    kinds = {each.type for each in known if each is not None} - {t.UNKNOWN}
    if kinds <= {t.DOUBLE, *t.INTEGRAL} and t.DOUBLE in kinds:
        return all(each is not None and (each.type == t.DOUBLE or _is_small(each)) for each in known)
    return are_alike(kinds)


def are_alike(kinds: set[t.Type]) -> bool:
    """Return whether Spark compares values of these types exactly after converting them to a common type.

    True for one type, for integers, and for decimals and integers whose digits fit a decimal.
    """
    if len(kinds) == 1 or kinds <= set(t.INTEGRAL):
        return True
    numbers = [each for each in map(decimal_of, kinds) if each is not None]
    whole = max((each.precision - each.scale for each in numbers), default=0)
    return len(numbers) == len(kinds) and whole + max(each.scale for each in numbers) <= MOST_DIGITS


def _is_small(each: Chain | ConstantValue) -> bool:
    return isinstance(each, ConstantValue) and (each.value is None or abs(each.value) < _SMALL)
