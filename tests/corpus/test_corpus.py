"""Every table of the corpus, read in process and on Spark, gives the rows of the reference."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest

import lakescan
from tests.conftest import corpus_folder
from tests.corpus.cases import Case, all_cases, ratchet_names
from tests.support.rows import differences

pytestmark = pytest.mark.skipif(corpus_folder() is None, reason="no corpus: set LAKESCAN_CORPUS to its folder")
CASES = all_cases()


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_in_process(case: Case) -> None:
    check(case, "local", lambda: scan(case).to_arrow())


@pytest.mark.spark
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_on_spark(case: Case, spark) -> None:
    check(case, "spark", lambda: scan(case).to_spark(spark).toArrow())


def test_the_ratchet_names_only_cases_of_the_corpus() -> None:
    assert ratchet_names() <= {case.name for case in CASES}


def scan(case: Case) -> lakescan.Scan:
    return lakescan.table(case.location, format=case.format, relocate=case.relocate).scan()


def check(case: Case, engine: str, read: Callable[[], pa.Table]) -> None:
    """The case passes; or it is in the ratchet and does not: a case that began to pass must leave the list."""
    problem = find_problem(case, read)
    reason = case.reason_not_passing(engine)
    if reason is None:
        assert not problem, problem
    elif problem:
        pytest.xfail(f"in the ratchet: {reason}")
    else:
        pytest.fail(f"{case.name} passes ({engine}): take it out of ratchet.json")


def find_problem(case: Case, read: Callable[[], pa.Table]) -> str:
    """What is wrong with what reading gives; empty where it is right."""
    expected_error = case.error
    try:
        actual = read()
    except Exception as error:  # of any kind: it is compared with the one expected
        text = f"{type(error).__name__}: {error}"
        return "" if expected_error is not None and expected_error.__name__ in text else text
    if expected_error is not None:
        return f"{actual.num_rows} rows instead of {expected_error.__name__}"
    expected = case.expected
    if expected is not None:
        return differences(actual, expected)
    return "" if actual.num_rows == case.row_count else f"{actual.num_rows} rows instead of {case.row_count}"
