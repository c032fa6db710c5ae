"""Tests of a value, or a tuple of values, against a list."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from lakescan.common import types as t
from lakescan.expressions.implied.chains import chain_of, char_of
from lakescan.expressions.implied.choices import are_alike
from lakescan.expressions.implied.comparisons import NEVER, UNKNOWN_TRUTH, Implied, compared, every, some
from lakescan.expressions.implied.context import Context
from lakescan.expressions.implied.reading import is_condition
from lakescan.expressions.implied.required import not_null
from lakescan.expressions.implied.values import Value, value_of
from lakescan.expressions.predicate import FALSE, TRUE, Comparison, In, Predicate

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
