"""Which equality deletes a data file has, told to readers by made-up scopes and sequence numbers.

Readers look up the deletes of a scope together, and delete a row if the delete is newer than its file. A server tells
for each data file which deletes it has, and no sequence numbers. Where the files of a place have sets of its deletes
that contain each other, as the newer deletes of a place do, the place is one scope, and numbers are made up that say
the same. Otherwise each set is a scope, whose deletes are all newer than the files that have it.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

_FIRST = 0  # the least sequence number


@dataclass
class EqualityScopes:
    """Scopes of deletes: each has the numbers of deletes with their sequence numbers, the oldest first.

    `ranges` are of a file: file, scope, first and last (exclusive) delete in the scope. `ages` are the sequence numbers
    of files, None for those without equality deletes.
    """

    ages: list[int | None]
    scopes: list[list[tuple[int, int]]] = field(default_factory=list)
    ranges: list[tuple[int, int, int, int]] = field(default_factory=list)


def equality_scopes(sets: Sequence[Sequence[int]], places: Sequence[Hashable]) -> EqualityScopes:
    """The scopes of data files that have these sets of deletes, given the place of each delete.

    >>> equality_scopes([[0, 1], [1], []], ["p", "p"]).scopes
    [[(0, 1), (1, 2)]]
    """
    found = EqualityScopes([None] * len(sets))
    by_place: dict[Hashable, list[tuple[int, frozenset[int]]]] = {}
    has_several = set[Hashable]()  # places of which a file has deletes beside those of others
    for file, numbers in enumerate(sets):
        own: dict[Hashable, list[int]] = {}
        for number in numbers:
            own.setdefault(places[number], []).append(number)
        if len(own) > 1:
            has_several |= own.keys()
        for place, some in own.items():
            by_place.setdefault(place, []).append((file, frozenset(some)))
    for place, files in by_place.items():
        chain = sorted({numbers for _, numbers in files}, key=len)
        is_chain = all(one < other for one, other in pairwise(chain))
        if is_chain and place not in has_several:
            _add_chain(found, files, chain)
        else:
            _add_sets(found, files)
    return found


def _add_chain(
    found: EqualityScopes, files: Sequence[tuple[int, frozenset[int]]], chain: Sequence[frozenset[int]]
) -> None:
    """One scope: a delete is newer, the smaller the smallest set is that has it; a file older, the larger its set."""
    most = len(chain[-1])
    newer, known = list[tuple[int, int]](), frozenset[int]()
    for numbers in chain:
        newer[:0] = [(each, _FIRST + 1 + most - len(numbers)) for each in sorted(numbers - known)]
        known = numbers
    for file, numbers in files:
        found.ages[file] = _FIRST + most - len(numbers)
        found.ranges.append((file, len(found.scopes), most - len(numbers), most))
    found.scopes.append(newer)


def _add_sets(found: EqualityScopes, files: Sequence[tuple[int, frozenset[int]]]) -> None:
    """A scope for each set."""
    number_of: dict[frozenset[int], int] = {}
    for file, numbers in files:
        if numbers not in number_of:
            number_of[numbers] = len(found.scopes)
            found.scopes.append([(each, _FIRST + 1) for each in sorted(numbers)])
        found.ages[file] = _FIRST
        found.ranges.append((file, number_of[numbers], 0, len(numbers)))
