"""Tests of a column that follow from those of another: `a = b and b = 5` implies `a = 5`, `a < b and b < 5` `a < 5`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from lakescan.common import types as t
from lakescan.expressions.implied.chains import Chain, chain_of
from lakescan.expressions.implied.context import Context
from lakescan.expressions.predicate import Comparison, In, Like, Predicate, conjunction, conjuncts, mirrored

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
