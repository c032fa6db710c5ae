"""Synthetic scopes and sequence numbers give each data file the equality deletes that a server listed for it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lakescan.iceberg.scan.server_scan_tasks import EqualityScopes, equality_scopes


def deletes_of(found: EqualityScopes, file: int) -> set[int]:
    """Return the deletes that readers apply to a file: those of its scopes that are newer than the file."""
    age = found.ages[file]
    scopes = {scope for owner, scope, _, _ in found.ranges if owner == file}
    return {number for scope in scopes for number, newest in found.scopes[scope] if age is not None and newest > age}


@given(
    st.lists(st.sampled_from("pqr"), min_size=1, max_size=6).flatmap(
        lambda places: st.tuples(
            st.just(places), st.lists(st.lists(st.integers(0, len(places) - 1), unique=True), max_size=6)
        )
    )
)
def test_each_file_has_its_own_deletes_and_no_others(drawn: tuple[list[str], list[list[int]]]) -> None:
    places, sets = drawn
    found = equality_scopes(sets, places)
    for file, numbers in enumerate(sets):
        assert deletes_of(found, file) == set(numbers)
        ranged = [
            number
            for owner, scope, first, stop in found.ranges
            if owner == file
            for number, _ in found.scopes[scope][first:stop]
        ]
        assert sorted(ranged) == sorted(numbers)
        assert len({places[n] for n in numbers}) == len([each for each in found.ranges if each[0] == file])
    for scope in found.scopes:
        assert len({places[number] for number, _ in scope}) == 1
        assert [age for _, age in scope] == sorted(age for _, age in scope)


def test_the_deletes_of_many_upserts_are_one_scope() -> None:
    sets = [list(range(first, 500)) for first in range(500)]
    found = equality_scopes(sets, ["table"] * 500)
    assert len(found.scopes) == 1
    assert [deletes_of(found, file) for file in (0, 250, 499)] == [set(sets[n]) for n in (0, 250, 499)]
