"""Choices: IF, CASE and coalesce(...) as pairs of a condition and a result."""

from __future__ import annotations

from typing import Any

from lakescan.common import types as t
from lakescan.expressions.implied.chains import Chain, chain_of
from lakescan.expressions.implied.context import InferenceContext, call_of
from lakescan.expressions.implied.values import ConstantValue, value_of
from lakescan.expressions.scalar.typed import MOST_DIGITS, decimal_of

_SMALL = 2**24  # whole numbers up to here are exact in all floating-point types

Branch = tuple[Any | None, Any]


def branches_of(node: Any) -> list[Branch] | None:
    """Return the conditions of IF, CASE or coalesce(...) with what is chosen, in order; None for other nodes.

    A condition is None for what is chosen if no other is true. The conditions of coalesce exclude each other.
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
    """Return whether the results of a choice are compared alike, alone or after they are converted to one type."""
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
    """Return whether values of several types are compared exactly, as each of them alone is."""
    if len(kinds) == 1 or kinds <= set(t.INTEGRAL):
        return True
    numbers = [each for each in map(decimal_of, kinds) if each is not None]
    whole = max((each.precision - each.scale for each in numbers), default=0)
    return len(numbers) == len(kinds) and whole + max(each.scale for each in numbers) <= MOST_DIGITS


def _is_small(each: Chain | ConstantValue) -> bool:
    return isinstance(each, ConstantValue) and (each.value is None or abs(each.value) < _SMALL)
