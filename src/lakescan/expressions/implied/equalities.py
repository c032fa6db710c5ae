"""Tests of a column hold for the columns that are equal to it: `a = b and b = 5` implies `a = 5`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from lakescan.common import types as t
from lakescan.expressions.implied.chains import Chain, chain_of
from lakescan.expressions.implied.context import Context
from lakescan.expressions.predicate import Comparison, In, Like, Predicate, conjunction, conjuncts


def spread_over_equal(predicate: Predicate, operands: Sequence[Any], context: Context) -> Predicate:
    """Add to what a conjunction implies the same tests of columns that one of its operands equates."""
    equal = _groups(operands, context)
    tests = conjuncts(predicate) if equal else []
    known = {str(each) for each in tests}
    for test in list(tests):
        if not isinstance(test, Comparison | In | Like):
            continue
        for copy in (replace(test, column=other) for other in equal.get(test.column, ())):
            if str(copy) not in known:
                known.add(str(copy))
                tests.append(copy)
    return conjunction(tests) if equal else predicate


def _groups(operands: Sequence[Any], context: Context) -> dict[str, frozenset[str]]:
    """Columns of one type by each that equals them."""
    from sqlglot import exp

    groups: dict[str, frozenset[str]] = {}
    for each in operands:
        each = each.unnest()
        if not isinstance(each, exp.EQ):
            continue
        left, right = chain_of(each.this, context), chain_of(each.expression, context)
        if left is None or right is None or not _are_comparable(left, right):
            continue
        group = groups.get(left.path, frozenset((left.path,))) | groups.get(right.path, frozenset((right.path,)))
        groups |= dict.fromkeys(group, group)
    return groups


def _are_comparable(left: Chain, right: Chain) -> bool:
    return left.is_column and right.is_column and left.type == right.type and left.type not in t.FLOATING
